# SPDX-License-Identifier: GPL-2.0-only
"""Data that programs write to `outboard mount` and that the host still has in its writeback cache:
where it is, and what happens to it when the image is full.
"""

import contextlib
import errno
import os

import pytest

from support import host, images, mounts
from support.mounts import KINDS, check, mounted
from support.program import bad, good

pytestmark = mounts.MARKS
FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize("kind", KINDS)
def test_data_that_are_held_back_are_found(work, kind):
    image = images.make(f"{work}/image", kind, 320)
    with mounted(image) as directory:
        path = f"{directory}/file"
        with open(path, "wb", buffering=0) as stream:
            stream.write(b"a" * 300_000)
            assert os.lseek(stream.fileno(), 0, os.SEEK_DATA) == 0
            stream.seek(8 << 20)
            stream.write(b"b" * 5_000)
            # Programs that copy only what is no hole, while the file is still being written.
            for command in (
                    ("cp", path, f"{work}/copy"), ("cp", "--sparse=always", path, f"{work}/copy")):
                host.run(*command)
                host.run("cmp", path, f"{work}/copy")
            host.run("sh", "-c", 'tar -C "$1" -Scf - file | tar -C "$2" -xf -',
                     "sh", directory, work)
            host.run("cmp", path, f"{work}/file")
            assert 0 < os.stat(path).st_blocks
            assert os.lseek(stream.fileno(), 8 << 20, os.SEEK_DATA) == 8 << 20
            with pytest.raises(OSError):
                os.lseek(stream.fileno(), 16 << 20, os.SEEK_DATA)
    check(image, kind)


def write_all_of_it(path, megabytes):
    """Whether there was room, as a program learns that looks."""
    try:
        with open(path, "wb") as stream:
            for _ in range(megabytes):
                stream.write(bytes(1 << 20))
        return True
    except OSError as error:
        assert error.errno == errno.ENOSPC
        return False


@contextlib.contextmanager
def full(work, kind):
    """A mount on which a file has all the room; something of it was lost, so that umount will say
    so.
    """
    image = images.make(f"{work}/image", kind, 320)
    directory = f"{work}/place"
    os.mkdir(directory)
    good("mount", image, directory)
    try:
        host.run("touch", f"{directory}/note")
        assert not write_all_of_it(f"{directory}/fill", 400)
        yield image, directory
        bad("umount", directory, mentions=("not everything was written", FULL))
    finally:
        host.run("umount", "-l", directory, ok=None)
    check(image, kind)


def note(directory):
    # The shell does not look whether closing fails.
    host.run("sh", "-c", 'echo precious >>"$1/note"', "sh", directory)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_lost_is_told_at_the_end(work, kind):
    with full(work, kind) as (_, directory):
        note(directory)
        assert FULL in host.run("sync", directory, ok=(1,)).stderr


@pytest.mark.parametrize("kind", KINDS)
def test_the_room_of_a_removed_file_is_there_at_once(work, kind):
    with full(work, kind) as (image, directory):
        os.unlink(f"{directory}/fill")
        note(directory)
    assert good("cat", f"{image}:/note").out == "precious\n"


def test_files_that_go_with_their_names_are_no_errors(work):
    """More than the server keeps open: of the others it has handles, and the host tells the times
    of each that it removes.
    """
    image = images.make(f"{work}/image", "ext4", 160)
    with mounted(image) as directory:
        for number in range(18_000):
            os.mknod(f"{directory}/{number}")
        os.sync()
        for number in range(18_000):
            os.unlink(f"{directory}/{number}")
        host.run("sync", "-f", directory)
    check(image, "ext4")
