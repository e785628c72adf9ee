# SPDX-License-Identifier: GPL-2.0-only
"""Repairs of fsck in a partition's private copy come into the image wholly or not at all, whenever
the command is killed.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess

import pytest

from support import host, images, program
from support.patience import wait_until

CALLS = "pwrite64,write,fallocate,fsync,ftruncate,unlink,fsetxattr,fremovexattr"
LOG = ".outboard-undo"
SIZE = 32


@pytest.fixture
def disk(work):
    """A partition with an ext4 that lacks some inodes and all bitmaps, and room that only a hole
    has.
    """
    tree = images.write_few_files(f"{work}/tree")
    whole = images.make_ext4_of(f"{work}/whole", tree, SIZE)
    for command in ("clri <13>", "clri <15>", "freeb 4000 2", "ssv free_blocks_count 1"):
        host.run("debugfs", "-w", "-R", command, whole)
    return images.partitioned(f"{work}/disk", f"label: gpt\nstart=2048, size={SIZE * 2048}\n",
                              {2048: whole}, SIZE + 4)


def traced(work, disk, *options, tool=("fsck", "-y")):
    """Only the command itself is traced, not its tools."""
    trace = f"{work}/trace"
    done = subprocess.run(
        ["strace", "-o", trace, "-e", f"trace={CALLS},openat", "-s", "0", *options,
         *program.command(*tool, f"{disk}@1")], capture_output=True, check=False, timeout=600,
                          env={**os.environ, "TMPDIR": work})
    with open(trace, encoding="utf-8", errors="replace") as stream:
        return done, stream.read().splitlines()


def steps(lines):
    """How often each call is made from the log's creation to the end: (call, which one)."""
    count, found, begun = {}, [], False
    for line in lines:
        call = re.match(r"\w+", line)
        if not call:
            continue
        count[call[0]] = count.get(call[0], 0) + 1
        begun |= call[0] == "openat" and LOG in line and "O_EXCL" in line
        if begun and call[0] != "openat":
            found.append((call[0], count[call[0]]))
    return found


def settle(disk):
    """Has the next command that writes open the image: it changes nothing itself."""
    return program.bad("part", disk, "delete", "99", mentions=("no partition 99",))


def is_clean(work, disk):
    host.run("dd", f"if={disk}", f"of={work}/part", "bs=1M", "skip=1",
             f"count={SIZE}", "status=none")
    return host.run("e2fsck", "-f", "-n", f"{work}/part", ok=None).returncode == 0


def chosen(found):
    """All steps at both ends, and some of the many in between."""
    middle = found[6:-6]
    return found[:6] + middle[::max(1, len(middle) // 5)] + found[-6:]


@pytest.fixture
def repaired(work, disk):
    """The image before a repair, and the steps of the repair. Later steps differ in times."""
    before, kept = images.contents(disk), shutil.copyfile(disk, f"{work}/kept")
    done, lines = traced(work, disk)
    assert done.returncode == 1, done.stderr
    found = steps(lines)
    assert {"pwrite64", "fsync", "unlink"} <= {call for call, _ in found}, found
    assert not os.path.exists(disk + LOG)
    assert is_clean(work, disk)
    return kept, before, found


@pytest.mark.needs("strace", "debugfs")
def test_killed_at_every_step(work, disk, repaired):
    kept, before, found = repaired
    undone = 0
    for call, number in chosen(found):
        shutil.copyfile(kept, disk)
        done, _ = traced(work, disk, "-e", f"inject={call}:signal=KILL:when={number}")
        assert done.returncode in (-9, 137), (call, number, done)
        has_log, now = os.path.exists(disk + LOG), images.contents(disk)
        assert has_log or now == before or is_clean(work, disk), (call, number)
        if has_log:
            listed = program.run("ls", f"{disk}@1:/")
            # Before the log is complete nothing was changed, and after the mark is gone everything.
            is_whole = listed.code == 0 and (now == before or is_clean(work, disk))
            assert is_whole or "cut off half-way" in listed.err and "fsck -y" in listed.err, listed
            said = settle(disk).err
            undone += "undone" in said
            assert images.contents(disk) == (now if is_whole else before), (call, number)
            assert not os.path.exists(disk + LOG)
        left = [name for name in os.listdir(work)
                if name.startswith("disk") or name.startswith(".")]
        for name in left:
            if name != "disk":
                assert name.startswith(".outboard-"), "only the private copy may stay after SIGKILL"
                shutil.rmtree(f"{work}/{name}")
    assert undone >= 3
    program.run("fsck", "-y", f"{disk}@1")
    assert is_clean(work, disk)


@pytest.mark.needs("strace", "debugfs")
def test_an_error_at_every_step(work, disk, repaired):
    """The host's file system is full, say: all is as it was, at once."""
    kept, before, found = repaired
    # Of the image without its mark, and of the directory without the log.
    last = [step for step in found if step[0] == "fsync"][-2:]
    for call, number in chosen(
            [step for step in found if step[0] in ("pwrite64", "write", "fsync")]):
        shutil.copyfile(kept, disk)
        done, _ = traced(work, disk, "-e", f"inject={call}:error=ENOSPC:when={number}")
        if done.returncode == 1:  # nothing was lost: what failed is no change of the image
            assert is_clean(work, disk), (call, number)
            continue
        assert done.returncode == 8 and b"No space left" in done.stderr, (call, number, done)
        assert not os.path.exists(disk + LOG), (call, number)
        # When the last ones fail nothing is left to undo.
        is_new = (call, number) in last and is_clean(work, disk)
        assert images.contents(disk) == before or is_new, (call, number)


@pytest.mark.needs("strace", "debugfs")
def test_a_log_of_another_state_is_refused(work, disk, repaired):
    kept, _, found = repaired
    shutil.copyfile(kept, disk)
    writes = [step for step in found if step[0] == "pwrite64"]
    call, number = writes[len(writes) // 2]
    traced(work, disk, "-e", f"inject={call}:signal=KILL:when={number}")
    with open(disk, "r+b") as stream:
        stream.seek(1 << 20)
        stream.write(b"x" * (SIZE << 20))
    now = images.contents(disk)
    mentions = ("changed by something else since", LOG, "remove its mark")
    said = program.bad("part", disk, "delete", "99", mentions=mentions).err
    assert images.contents(disk) == now
    attribute = re.search(r"setfattr -x (\S+) \S*disk", said)[1]
    os.removexattr(disk, attribute)
    settle(disk)
    assert images.contents(disk) == now and not os.path.exists(disk + LOG)


def half_changed(work, disk, found):
    """Kills a repair in the middle of its writes."""
    writes = [step for step in found if step[0] == "pwrite64"]
    call, number = writes[len(writes) // 2]
    traced(work, disk, "-e", f"inject={call}:signal=KILL:when={number}")
    assert os.path.exists(disk + LOG)


def renamed(work, disk):
    os.rename(disk, f"{work}/other")
    return f"{work}/other"


def linked(work, disk):
    os.mkdir(f"{work}/elsewhere")
    os.link(disk, f"{work}/elsewhere/link")
    return f"{work}/elsewhere/link"


def moved(work, disk):
    """The log goes with the directory."""
    for name in (disk, disk + LOG):
        os.makedirs(f"{work}/moved", exist_ok=True)
        os.rename(name, f"{work}/moved/{os.path.basename(name)}")
    return f"{work}/moved/{os.path.basename(disk)}"


@pytest.mark.needs("strace", "debugfs")
@pytest.mark.parametrize("change", [renamed, linked, moved])
def test_a_half_change_is_seen_by_another_name(work, disk, repaired, change):
    kept, before, found = repaired
    shutil.copyfile(kept, disk)
    half_changed(work, disk, found)
    other = change(work, disk)
    program.bad("ls", f"{other}@1:/", mentions=("cut off half-way",))
    assert "undone" in settle(other).err
    assert images.contents(other) == before
    assert not [name for _, _, names in os.walk(work) for name in names if name.endswith(LOG)]
    program.run("fsck", "-y", f"{other}@1")


def logs_elsewhere(path):
    """Those of this image or device."""
    found = os.stat(path)
    major, minor = (0, found.st_rdev) if found.st_rdev else (found.st_dev, found.st_ino)
    prefix = f".outboard-{major:x}-{minor:x}-"
    names = os.listdir("/var/tmp")
    return [name for name in names if name.startswith(prefix) and name.endswith(LOG)]


@pytest.mark.needs_root
@pytest.mark.skipif(not host.may_mount(), reason="no loop devices here")
@pytest.mark.needs("strace", "debugfs")
def test_a_half_changed_block_device(work, disk):
    """It has no mark: its log is found by its number."""
    before, kept = images.contents(disk), shutil.copyfile(disk, f"{work}/kept")
    with host.loop_device(disk) as device:
        _, lines = traced(work, device)
        writes = [step for step in steps(lines) if step[0] == "pwrite64"]
        shutil.copyfile(kept, device)
        _, number = writes[len(writes) // 2]
        traced(work, device, "-e", f"inject=pwrite64:signal=KILL:when={number}")
        assert len(logs_elsewhere(device)) == 1
        program.bad("ls", f"{device}@1:/", mentions=("cut off half-way",))
        assert "undone" in settle(device).err
        assert images.contents(device) == before
        assert not logs_elsewhere(device)


@pytest.mark.needs("strace", "debugfs")
def test_a_lost_log_is_missed(work, disk, repaired):
    """Nobody reads half a change, and the message has the way out."""
    kept, _, found = repaired
    shutil.copyfile(kept, disk)
    half_changed(work, disk, found)
    os.rename(disk + LOG, f"{work}/kept-log")
    for words in (("ls", f"{disk}@1:/"), ("part", disk, "delete", "99")):
        program.bad(*words, mentions=("undo log", disk + LOG, "it is gone", "setfattr -x"))
    os.rename(f"{work}/kept-log", disk + LOG)
    assert "undone" in settle(disk).err


def lay_traps(trap, work):
    """Puts something where the log would be; returns what a message says of it."""
    secret = f"{work}/secret"
    with open(secret, "wb") as stream:
        stream.write(b"outboard-undo-2\n")
    os.symlink(secret, trap)
    yield "symbolic link"
    os.unlink(trap)
    os.link(secret, trap)
    yield "other names"
    os.unlink(trap)
    os.mkfifo(trap)
    yield "no regular file"
    os.unlink(trap)
    shutil.copyfile(secret, trap)
    os.chmod(trap, 0o666)
    yield "may write"
    if os.geteuid() == 0:
        os.chmod(trap, 0o644)
        os.chown(trap, 12345, 12345)
        yield "another user"
    os.unlink(trap)


@pytest.mark.needs("debugfs")
def test_a_log_of_a_stranger_is_not_used_and_blocks_nothing(work, disk):
    kept = shutil.copyfile(disk, f"{work}/kept")
    for why in lay_traps(disk + LOG, work):
        shutil.copyfile(kept, disk)
        done = program.run("fsck", "-y", f"{disk}@1")
        assert done.code == 1 and disk + LOG in done.err and why in done.err, done
        assert done.err.count("is not used as an undo log") == 1, "each is named once"
        assert is_clean(work, disk)
        program.run("ls", f"{disk}@1:/")
    assert not logs_elsewhere(disk)


def contents(path):
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


@contextlib.contextmanager
def stopped(work, disk, call, number):
    """A repair that stands still at a step."""
    trace = f"{work}/stopped"
    words = ["strace", "-o", trace, "-e", f"trace={call}", "-s", "0",
             "-e", f"inject={call}:signal=STOP:when={number}",
             *program.command("fsck", "-y", f"{disk}@1")]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        wait_until(lambda: os.path.exists(trace) and "stopped by SIGSTOP" in contents(trace),
                   "the repair stands still")
        with open(f"/proc/{running.pid}/task/{running.pid}/children", encoding="ascii") as stream:
            worker = int(stream.read().split()[0])
        try:
            yield worker
        finally:
            os.kill(worker, signal.SIGCONT)
        assert running.wait(600) == 1


@pytest.mark.needs("strace", "debugfs")
def test_an_image_that_is_being_changed_is_in_use(work, disk, repaired):
    kept, _, found = repaired
    shutil.copyfile(kept, disk)
    writes = [step for step in found if step[0] == "pwrite64"]
    with stopped(work, disk, *writes[len(writes) // 2]) as worker:
        for words in (("ls", f"{disk}@1:/"), ("touch", f"{disk}@1:/x"),
                      ("part", disk, "delete", "99")):
            done = program.bad(*words, mentions=("in use by outboard", f"pid {worker}"))
            assert "cut off" not in done.err, done
    assert is_clean(work, disk)


@pytest.mark.needs("strace")
def test_replay_and_check_are_under_one_lock(work):
    image, trace = images.make(f"{work}/whole", "ext4"), f"{work}/trace"
    host.run("strace", "-y", "-o", trace, "-e", "trace=flock,clone,clone3,fork,vfork",
             *program.command("fsck", "--replay", "-y", image), ok=(0, 1))
    with open(trace, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().splitlines()
    locks = [index for index, line in enumerate(lines)
             if "flock(" in line and image in line and "LOCK_EX" in line]
    children = [index for index, line in enumerate(lines)
                if re.match(r"clone3?\(|v?fork\(", line)]
    assert locks and children and locks[0] < children[0], "replay begins under the lock"


@pytest.mark.needs("strace")
def test_what_a_tool_wrote_in_place_is_synced(work):
    """It may not have done that itself."""
    image, trace = images.make(f"{work}/whole", "ext4"), f"{work}/trace"
    host.run("strace", "-y", "-o", trace, "-e", "trace=fsync",
             *program.command("fsck", "-y", image), ok=(0, 1))
    with open(trace, encoding="utf-8", errors="replace") as stream:
        assert any(line.startswith("fsync(") and image in line for line in stream)
