# SPDX-License-Identifier: GPL-2.0-only
"""
Random operations on trees, through a mount and by direct commands, against a model. From time to
time everything is synced, more is done in one directory, and the process is killed: after the
journal's replay all that was synced is there.
"""

import errno
import os
import random
import shlex
import signal
import subprocess
import tarfile
import time

import pytest

from support import host, images, mounts, program
from support.checkers import FSCK
from support.processes import wait_until_closed
from support.program import good
from support.tree_model import Chooser, Model

KINDS = ("ext4", "xfs", "btrfs")
ROUNDS = 5
# Changes below it after a sync may be lost.
LATER = ("later",)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def image(work, kind):
    return images.make(f"{work}/disk.img", kind, 0 if kind == "xfs" else 256)


def found(image: str, work: str) -> dict:
    """The files of an image, in the form of Model.describe, from an archive that Python reads."""
    archive = f"{work}/found.tar"
    good("tar-out", f"{image}:/", "-f", archive, "--exclude", "./lost+found")
    groups, members = {}, {}
    with tarfile.open(archive) as members_of:
        for member in members_of:
            name = member.name.removeprefix("./")
            if name in (".", ""):
                continue
            first = member.linkname.removeprefix("./") if member.islnk() else name
            groups.setdefault(first, []).append(name)
            if first != name:
                continue
            what = "directory" if member.isdir() else "link" if member.issym() else "file"
            data = members_of.extractfile(member).read() if what == "file" else b""
            marker = "SCHILY.xattr."
            attributes = {key.removeprefix(marker): value
                          for key, value in member.pax_headers.items()
                          if key.startswith(marker + "user.")}
            members[name] = (what, None if what == "link" else member.mode, data, member.linkname
                             if what == "link" else "", tuple(sorted(attributes.items())))
    return {name: (*members[first], tuple(sorted(group))) for first, group in groups.items()
            for name in group}


def check_replayed(image, kind, model, work):
    """Replays the journal. All but LATER must be as in the model; LATER goes, there and in the
    model.
    """
    good("sync", f"{image}:/")
    host.run(*FSCK[kind], image)
    good("rm", "-r", f"{image}:/{LATER[0]}")
    model.root.entries.pop(LATER[0], None)
    there, expected = found(image, work), model.describe()
    different = {name: (there.get(name), expected.get(name)) for name in there.keys()
                 | expected.keys() if there.get(name) != expected.get(name)}
    first = dict(list(different.items())[:3])
    assert not different, f"{len(different)} of {len(expected)} differ, as {first}"
    host.run(*FSCK[kind], image)


# ---- through a mount ----


class Mounted:
    """Does operations by system calls below a directory."""

    def __init__(self, top: str):
        self.top = top

    def path(self, path: tuple) -> str:
        return "/".join((self.top, *path))

    def create(self, path, data):
        descriptor = os.open(self.path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with open(descriptor, "wb") as stream:
            stream.write(data)

    def symlink(self, path, target):
        os.symlink(target, self.path(path))

    def mkdir(self, path):
        os.mkdir(self.path(path), 0o755)

    def link(self, path, new):
        os.link(self.path(path), self.path(new), follow_symlinks=False)

    def rename(self, path, new):
        os.rename(self.path(path), self.path(new))

    def rmdir(self, path):
        os.rmdir(self.path(path))

    def unlink(self, path):
        os.unlink(self.path(path))

    def truncate(self, path, size):
        descriptor = os.open(self.path(path), os.O_WRONLY | os.O_NOFOLLOW)
        with open(descriptor, "wb") as stream:
            stream.truncate(size)

    def setxattr(self, path, name, value):
        os.setxattr(self.path(path), name, value.encode())

    def chmod(self, path, mode):
        os.chmod(self.path(path), mode)

    def apply(self, operation: tuple) -> int:
        name, *arguments = operation
        try:
            getattr(self, name)(*arguments)
            return 0
        except OSError as error:
            return error.errno


def work_on(chooser: Chooser, mounted: Mounted, count: int, below: tuple = ()) -> int:
    """Does as many operations on both. Returns how many succeeded."""
    succeeded = 0
    for _ in range(count):
        operation = chooser.choose(below)
        expected, result = chooser.apply(operation), mounted.apply(operation)
        if operation[0] == "rename" and expected == errno.ENOTEMPTY:
            # POSIX leaves it open, and xfs has the second.
            assert result in (errno.ENOTEMPTY, errno.EEXIST)
        else:
            assert result == expected, f"{operation}: {result} instead of {expected}"
        succeeded += result == 0
    return succeeded


@pytest.mark.needs_root
@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
def test_through_a_mount(image, kind, work):
    place = f"{work}/place"
    os.mkdir(place)
    os.umask(0o022)
    model, delays = Model(), random.Random(2)
    chooser, mounted = Chooser(model, 1), Mounted(place)
    succeeded = 0
    for _ in range(ROUNDS):
        good("mount", image, place)
        try:
            succeeded += work_on(chooser, mounted, 700)
            assert chooser.apply(("mkdir", LATER)) == mounted.apply(("mkdir", LATER)) == 0
            descriptor = os.open(place, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            work_on(chooser, mounted, delays.randrange(200), LATER)
            os.kill(mounts.server_of(image), signal.SIGKILL)
        finally:
            host.unmount(place)
        check_replayed(image, kind, model, work)
    assert succeeded > ROUNDS * 250 and len(model.paths()) > 100


# ---- by direct commands ----


class Script:
    """Writes operations as lines for run-script."""

    def __init__(self, image: str, work: str):
        self.image, self.work, self.lines, self.files = image, work, [], 0

    def place(self, path: tuple) -> str:
        return shlex.quote(f"{self.image}:/{'/'.join(path)}")

    def add(self, operation: tuple) -> None:
        name, path, *rest = operation
        place = self.place(path)
        if name == "create":
            self.files += 1
            file = f"{self.work}/files/{self.files}"
            with open(file, "wb") as stream:
                stream.write(rest[0])
            self.lines.append(f"cp {file} {place}")
        elif name == "symlink":
            self.lines.append(f"ln -s {rest[0]} {place}")
        elif name in ("link", "rename"):
            self.lines.append(f"{'ln' if name == 'link' else 'mv'} {place} {self.place(rest[0])}")
        elif name == "truncate":
            self.lines.append(f"truncate -s {rest[0]} {place}")
        elif name == "setxattr":
            self.lines.append(f"setfattr -n {rest[0]} -v {rest[1]} {place}")
        elif name == "chmod":
            self.lines.append(f"chmod {rest[0]:o} {place}")
        else:
            self.lines.append(f"{'rm' if name == 'unlink' else name} {place}")


def is_sayable(model: Model, operation: tuple) -> bool:
    """Whether a command does just this: mv goes into directories, ln follows no link but names one.
    """
    name, path, *rest = operation
    node = model.find(path)
    if name == "rename":
        return model.find(rest[0]) is None
    return not (name == "link" and node is not None and node.kind == "link")


def write_lines(chooser: Chooser, script: Script, count: int, below: tuple = ()) -> None:
    """Those operations that succeed, and that a command can do."""
    while count:
        operation = chooser.choose(below)
        if is_sayable(chooser.model, operation) and chooser.apply(operation) == 0:
            script.add(operation)
            count -= 1


def test_by_direct_commands(image, kind, work):
    os.mkdir(f"{work}/files")
    model, delays = Model(), random.Random(4)
    chooser = Chooser(model, 3)
    killed = 0
    for _ in range(ROUNDS):
        script = Script(image, work)
        write_lines(chooser, script, 250)
        assert chooser.apply(("mkdir", LATER)) == 0
        script.lines += [f"mkdir {script.place(LATER)}", f"sync {script.place(())}",
                         f"stat {script.place(LATER)}"]
        write_lines(chooser, script, 300, LATER)
        with open(f"{work}/script", "w", encoding="utf-8") as stream:
            stream.write("\n".join(script.lines) + "\n")
        with subprocess.Popen(program.command("run-script", f"{work}/script"),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            first = running.stdout.read(1)
            time.sleep(delays.random() * 0.1)
            running.kill()
            assert first, running.stderr.read()
            killed += running.wait() == -signal.SIGKILL
        wait_until_closed(image)
        check_replayed(image, kind, model, work)
    assert killed >= ROUNDS // 2 and len(model.paths()) > 100
