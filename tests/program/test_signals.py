# SPDX-License-Identifier: GPL-2.0-only
"""Signals at random moments: the image stays clean, nothing temporary stays, the exit code is the
signal's.

A text that `edit` could not write into the image is kept, and so is a file that its editor left.
The message names the place.

Each round copies a clean image, starts a command on it, and sends SIGINT, SIGTERM or SIGHUP: once,
or twice as timeout(1) does, to the command and then to its process group. Then the file system's
own checker must find nothing. `make test` sends 40 signals in all, `make test-long` 200 more.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from support import checkers, host, images, program

KINDS = ("ext4", "xfs", "btrfs", "vfat", "ntfs")
# For each type.
MOMENTS = (8, pytest.param(40, marks=pytest.mark.long))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HANGS = 300
FIRST_PARTITION = 2048  # sectors


class Place:
    """A directory with clean images of one type, and a fresh copy for each round."""

    def __init__(self, work, kind):
        self.work, self.kind = work, kind
        self.kept, self.here, self.temporary = (f"{work}/{name}"
                                                for name in ("kept", "here", "tmp"))
        for directory in (self.kept, self.here, self.temporary):
            os.mkdir(directory)
        tree = images.write_few_files(f"{work}/tree")
        host.run("tar", "-cf", f"{work}/tree.tar", "-C", tree, ".")
        whole = images.make(f"{self.kept}/whole", kind, 288 if kind == "btrfs" else 0)
        program.good("cp", program.REPOSITORY + "/Makefile", f"{whole}:/file")
        size = os.path.getsize(whole) // 512
        script = f"label: gpt\nstart={FIRST_PARTITION}, size={size}\n"
        images.partitioned(f"{self.kept}/parts", script, {FIRST_PARTITION: whole},
                           size // 2048 + 64)

    def fresh(self):
        for name in ("whole", "parts"):
            host.run("cp", "--sparse=always", f"{self.kept}/{name}", f"{self.here}/{name}")

    def check(self, image, said):
        """By the file system's own checker."""
        done = subprocess.run([*checkers.FSCK[self.kind], image], capture_output=True, check=False)
        if self.kind == "ext4":
            images.check_unmounted_ext4(image)
        assert done.returncode == 0, f"{said}\n{done.stdout.decode(errors='replace')[-2000:]}"

    def take_kept_files(self, said):
        """Removes what `edit` has kept by its message: a text, which must be as the editor saved
        it, and a file that a killed sed left beside it.
        """
        kept = set()
        for path in re.findall(f"the edited text is in ({re.escape(self.temporary)}/.+)", said):
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
            assert "board" in text and "outboard" not in text, f"{said}: {text}"
            kept.add(os.path.dirname(path))
        left = rf"the editor left (sed\w+) in ({re.escape(self.temporary)}/\S+) \(remove it"
        for name, directory in re.findall(left, said):
            assert os.path.isfile(f"{directory}/{name}"), said
            kept.add(directory)
        for directory in kept:
            shutil.rmtree(directory)

    def check_all(self, said):
        """Every file here must be an image that is clean, and nothing else may be there."""
        self.take_kept_files(said)
        left = {*os.listdir(self.here), *os.listdir(self.temporary)}
        assert left <= {"whole", "parts", "new"}, f"{said}: {left} stayed"
        for name in ("whole", "new"):
            if os.path.exists(f"{self.here}/{name}"):
                self.check(f"{self.here}/{name}", said)
        host.run("sfdisk", "--verify", f"{self.here}/parts")
        table = (
            json.loads(host.run("sfdisk", "--json", f"{self.here}/parts").stdout)["partitiontable"])
        part = f"{self.work}/part"
        host.run("dd", f"if={self.here}/parts", f"of={part}", f"skip={FIRST_PARTITION}",
                 f"count={table['partitions'][0]['size']}",
                 "conv=sparse", "status=none")
        os.truncate(part, table["partitions"][0]["size"] * 512)
        self.check(part, said)
        os.unlink(part)
        for name in left:
            os.unlink(f"{self.here}/{name}")

    def start(self, words):
        words = [word.format(here=self.here, work=self.work, kind=self.kind) for word in words]
        variables = {"TMPDIR": self.temporary, "EDITOR": "sed -i s/outboard/board/g", "VISUAL": ""}
        return subprocess.Popen(program.command(*words), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                start_new_session=True, env={**os.environ, **variables})


def commands(kind):
    found = {
        "cp": ("cp", "-r", "{work}/tree", "{here}/whole:/new"),
        "tar-in": ("tar-in", "{here}/parts@1:/", "{work}/tree.tar"),
        "mkfs": ("mkfs", "{kind}", "{here}/new", "--size", f"{images.LEAST[kind]}M",
                 "--from", "{work}/tree"),
        "fsck": ("fsck", "-y", "{here}/parts@1"),
        "fsck in place": ("fsck", "-y", "{here}/whole"),
        "part": ("part", "{here}/parts", "add", "linux:16M"),
        "edit": ("edit", "{here}/whole:/file"),
        "resize": ("resize", "{here}/whole", "+16M"),
        "resize a partition": ("resize", "{here}/parts@1", "+16M"),
    }
    if kind == "vfat":
        found = {name: words for name, words in found.items() if not name.startswith("resize")}
    return found


def send(running, number, twice):
    """As timeout(1) does: to the child, then to its group, where the child is."""
    running.send_signal(number)
    if twice:
        os.killpg(running.pid, number)


def interrupt(place, words, number, twice, delay):
    """Returns whether the signal came before the command's end, and how the command ended."""
    place.fresh()
    with place.start(words) as running:
        try:
            running.wait(timeout=delay)
            landed = False
        except subprocess.TimeoutExpired:
            landed = True
            send(running, number, twice)
        output, _ = running.communicate(timeout=HANGS)
    said = (f"{' '.join(words)}: {number.name} {'twice ' * twice}after {delay:.4f} s: "
            f"{running.returncode}\n{output.decode(errors='replace')}")
    return landed, running.returncode, said


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rounds", MOMENTS)
def test_signals_at_any_moment(work, kind, rounds, capsys):
    place, chosen = Place(work, kind), random.Random(f"signals {kind} {rounds}")
    longest, landed = {}, 0
    todo = list(commands(kind).items())
    for number in range(rounds * 4):
        if landed >= rounds:
            break
        if number % len(todo) == 0:
            chosen.shuffle(todo)
        name, words = todo[number % len(todo)]
        if name not in longest:
            place.fresh()
            started = time.monotonic()
            with place.start(words) as running:
                output, _ = running.communicate(timeout=HANGS)
            longest[name] = time.monotonic() - started
            assert running.returncode in ((0, 1) if "fsck" in name else (0,)), output
            place.check_all(f"{name} without a signal")
        asked = chosen.choice(SIGNALS)
        delay = chosen.uniform(0, longest[name])
        caught, code, said = interrupt(place, words, asked, chosen.random() < 0.5, delay)
        place.check_all(said)
        # A signal may come after the last look, and SIGINT is the editor's, which may die of it.
        allowed = {128 + asked, -asked, 0} if caught else {0, 1}
        if asked == signal.SIGINT and "ended with signal: 2" in said:
            allowed.add(1)
        assert code in allowed, said
        if name == "mkfs" and "interrupted" in said:
            assert "was not made, and nothing is left of it" in said, said
        landed += caught
        if not caught:
            longest[name] = delay
    with capsys.disabled():
        print(f"\n{kind}: {landed} signals")
    assert landed >= rounds // 2
    shutil.rmtree(place.here)


def test_a_tool_in_place_is_waited_for(work):
    """It would leave the image half changed. A tool that works on a copy or only
    reads ends at once.
    """
    image = images.make(f"{work}/disk", "ext4")
    tools = f"{work}/bin"
    os.mkdir(tools)
    with open(f"{tools}/e2fsck", "w", encoding="ascii") as stream:
        stream.write(
            f"#!/bin/sh\necho running\nwhile ! [ -e {work}/bin/go ]; do sleep 0.05; done\n")
    os.chmod(f"{tools}/e2fsck", 0o755)
    path = {"PATH": f"{tools}:{os.environ['PATH']}"}

    def start(*words):
        running = subprocess.Popen(program.command("fsck", *words), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env={**os.environ, **path})
        assert running.stdout.readline() == "running\n"
        return running

    size = os.path.getsize(image) // 512
    parts = images.partitioned(f"{work}/parts", f"label: gpt\nstart=2048, size={size}\n",
                               {2048: image}, 80)
    for words in (("-n", image), ("-y", f"{parts}@1")):
        with start(*words) as running:
            send(running, signal.SIGTERM, True)
            assert running.wait(HANGS) == 128 + signal.SIGTERM, words
    with start("-y", image) as running:
        send(running, signal.SIGTERM, True)
        assert "waiting for e2fsck" in running.stderr.readline()
        assert running.poll() is None
        with open(f"{tools}/go", "wb"):
            pass
        assert running.wait(HANGS) == 128 + signal.SIGTERM
    assert sorted(os.listdir(work)) == ["bin", "disk", "parts"]


def test_tools_make_private_files(work):
    """A file that the tool puts in the place of the image gets the user's permissions, as the image
    itself does.
    """
    tools = f"{work}/bin"
    os.mkdir(tools)
    with open(f"{tools}/mke2fs", "w", encoding="ascii") as stream:
        stream.write("#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nfor file; do\n"
                     "    if [ -f \"$file\" ]; then\n"
                     "        cat \"$file\" > \"$file.new\" && mv -f \"$file.new\" \"$file\"\n"
                     "    fi\ndone\nexec mke2fs \"$@\"\n")
    os.chmod(f"{tools}/mke2fs", 0o755)
    program.good("mkfs", "ext4", f"{work}/new", "--size", "32M",
                 prefix=("sh", "-c", 'umask 027; exec "$@"', "sh"),
                 PATH=f"{tools}:{os.environ['PATH']}")
    assert os.stat(f"{work}/new").st_mode & 0o777 == 0o640
