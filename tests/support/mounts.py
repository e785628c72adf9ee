# SPDX-License-Identifier: GPL-2.0-only
"""`outboard mount` in tests: mounts that are taken down again, their servers, and who else may use
them.
"""

import contextlib
import fcntl
import os
import stat

import pytest

from support import host
from support.checkers import FSCK
from support.patience import wait_until
from support.program import OUT, good

# Of every module that mounts.
MARKS = [pytest.mark.needs_root, pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")]
KINDS = ("ext4", "xfs", "btrfs")
NOBODY = 65534
# The mode that /dev/fuse had before tests opened it for every user.
FUSE_MODE = f"{OUT}/fuse.mode"
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env",
             "HOME=/nonexistent")


def check(image, kind):
    host.run(*FSCK[kind], image)


def is_mounted(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        return any(line.split()[4] == directory for line in lines)


def options_of(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        (line,) = [line for line in lines if line.split()[4] == directory]
    return line.split()[-1].split(",")


@contextlib.contextmanager
def mounted(image, *options, prefix=()):
    """Ours, on a new directory beside the image."""
    directory = f"{image}.mount"
    os.mkdir(directory)
    if prefix:
        os.chown(directory, NOBODY, NOBODY)
    try:
        good("mount", *options, image, directory, prefix=prefix)
        yield directory
        good("umount", directory, prefix=prefix)
    finally:
        if is_mounted(directory):
            host.detach(directory)
        os.rmdir(directory)


def wait_until_mounted(directory):
    wait_until(lambda: is_mounted(directory), f"{directory} is mounted")


def servers(image):
    """The processes that serve an image."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as stream:
            words = stream.read().split(b"\0")
            if b"server" in words and os.fsencode(image) in words:
                found.append(int(number))
    return found


def server_of(image):
    """The one process that serves an image. Another one may just be starting, or ending."""
    return wait_until(lambda: len(found := servers(image)) == 1 and found,
                      f"one process serves {image}")[0]


def wait_until_unserved(image):
    """Until the server has written everything and let go of the image."""
    wait_until(lambda: not servers(image), f"no process serves {image}")


def restore_mode(kept, device):
    """Gives a device the mode that is in an open file, and returns it. Empty: there is none."""
    kept.seek(0)
    if text := kept.read():
        os.chmod(device, int(text, 8))
        kept.truncate(0)
    return text


@contextlib.contextmanager
def fuse_for_all():
    """
    /dev/fuse for every user, until the last test of all streams that asked for this has ended: the
    mode must not be restored under a test of another stream. tests/sweep.py restores it after a run
    that was killed.
    """
    with open(f"{OUT}/fuse.turn", "w") as turn, open(FUSE_MODE, "a+") as users:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        mode = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
        if mode != 0o666:
            users.truncate(0)
            users.write(f"{mode:o}")
            users.flush()
            os.chmod("/dev/fuse", 0o666)
        fcntl.flock(turn, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(turn, fcntl.LOCK_EX)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                restore_mode(users, "/dev/fuse")
