# SPDX-License-Identifier: GPL-2.0-only
"""Programs that write to `outboard mount` without closing learn soon that data was lost."""

import contextlib
import errno
import mmap
import os

import pytest

from support import direct_io, host, images, mounts
from support.images import MEGABYTE
from support.json_output import items
from support.mounts import KINDS, check
from support.patience import wait_until
from support.program import bad, good

pytestmark = mounts.MARKS


@contextlib.contextmanager
def mounted_until_full(image, directory, *options):
    """Unmounting reports what was lost."""
    os.mkdir(directory)
    good("mount", *options, image, directory)
    try:
        yield
        bad("umount", directory, mentions=("not everything was written",))
    finally:
        host.run("umount", "-l", directory, ok=None)


def write_until_error(file, most):
    """Returns how many bytes were written before the error, and the error."""
    data, written = os.urandom(MEGABYTE), 0
    while written < most:
        try:
            written += os.write(file, data)
        except OSError as error:
            return written, error.errno
    raise AssertionError(f"no error after {written} bytes")


def write_all(path, count):
    """Writes so many bytes whether there is room or not, and closes the file."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as stream:
        for _ in range(4 * count // MEGABYTE):
            if stream.tell() >= count:
                break
            with contextlib.suppress(OSError):
                stream.write(bytes(MEGABYTE))


def room_of(directory):
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def dirty_limit():
    """Bytes that the host may cache of what programs write: docs/caveats.md."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return int(next(lines).split()[1]) * 1024


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_image_ends_a_writer(work, kind):
    """Three times what the image holds, and all of the host's memory, is far above the bound."""
    image, directory = images.make(f"{work}/image", kind, 320), f"{work}/place"
    most = 3 * 320 * MEGABYTE + dirty_limit()
    with mounted_until_full(image, directory):
        file = os.open(f"{directory}/fill", os.O_WRONLY | os.O_CREAT)
        other = os.open(f"{directory}/fill", os.O_WRONLY)
        written, error = write_until_error(file, most)
        assert error == errno.ENOSPC and written > 100 * MEGABYTE
        # Each program that has it open learns of it, once for each loss.
        with pytest.raises(OSError, match="No space left"):
            os.write(other, b"x")
        assert write_until_error(file, most)[1] == errno.ENOSPC
        for descriptor in (file, other):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        os.unlink(f"{directory}/fill")
        wait_until(lambda: room_of(directory) > 50 * MEGABYTE,
                   "the room of the removed file is free")
        with open(f"{directory}/next", "wb", buffering=0) as stream:
            assert [stream.write(b"x" * 1000) for _ in range(3)] == [1000] * 3
            os.fsync(stream.fileno())
    check(image, kind)


@pytest.mark.kernel_reports("its disk fails")
def test_a_full_disk_of_the_host_ends_a_writer(work):
    """A sparse image in a file system that is too small for what is written. The server holds
    little back.
    """
    small = f"{work}/small"
    os.mkdir(small)
    host.run("mount", "-t", "tmpfs", "-o", "size=40M", "none", small)
    try:
        image = images.make(f"{small}/image", "ext4", 4096, "-J", "size=4")
        with mounted_until_full(image, f"{work}/place", "-o", "memory=128M"):
            file = os.open(f"{work}/place/fill", os.O_WRONLY | os.O_CREAT)
            _, error = write_until_error(file, 3500 * MEGABYTE)
            assert error in (errno.ENOSPC, errno.EIO, errno.EROFS)
            os.close(file)
    finally:
        host.run("umount", "-l", small)


@pytest.mark.parametrize("kind", ["ext4", "vfat", "exfat"])
def test_a_file_that_lost_data_has_one_size(work, kind):
    """The mount shows the size that the image has: with a hole at the end, or without what was
    lost.
    """
    image, directory = images.make(f"{work}/image", kind, 64), f"{work}/place"
    with mounted_until_full(image, directory):
        fill = f"{directory}/fill"
        write_all(fill, 100 * MEGABYTE)
        if kind == "ext4":
            assert os.stat(fill).st_size == 100 * MEGABYTE
        else:
            wait_until(lambda: os.stat(fill).st_size < 64 * MEGABYTE,
                       "the host shows the file's own size")
        shown = os.stat(fill).st_size
        with open(fill, "rb") as stream:
            assert stream.seek(0, os.SEEK_END) == shown
    (found,) = items(good("stat", "--json", f"{image}:/fill"))
    assert found["size"] == shown


def write_until_good(file):
    """The error of each loss before is reported."""
    for _ in range(10):
        with contextlib.suppress(OSError):
            os.write(file, b"x")
            return
    raise AssertionError("each write fails")


def write_directly(file, data, offset):
    """Returns the error, if any."""
    try:
        assert os.pwritev(file, [data], offset) == len(data)
    except OSError as error:
        return error.errno
    return 0


@pytest.mark.kernel_reports("its disk fails")
def test_each_descriptor_reports_a_loss_once(work):
    """
    The host's disk is full for a while, for data alone: what the file system has of its own is in
    the image's beginning.
    """
    small, directory = f"{work}/small", f"{work}/place"
    os.mkdir(small)
    host.run("mount", "-t", "tmpfs", "-o", "size=60M", "none", small)
    try:
        image = images.make(f"{small}/image", "ext4", 1024, "-O", "^has_journal")
        host.run("fallocate", "-l", str(40 * MEGABYTE), image)
        with mounted_until_full(image, directory, "-o", "memory=128M"):
            path = f"{directory}/fill"
            first = os.open(path, os.O_RDWR | os.O_CREAT)
            direct = [os.open(path, os.O_RDWR | os.O_DIRECT) for _ in range(2)]
            for _ in range(100):
                with contextlib.suppress(OSError):
                    os.write(first, os.urandom(MEGABYTE))
            # The server writes all that it has, and fails.
            for name in (path, directory):
                host.run("sync", name, ok=(1,))
            host.run("mount", "-o", "remount,size=1G", small)
            # The next write that arrives meets the error.
            write_until_good(first)
            host.run("sync", path, ok=(0, 1))
            with direct_io.aligned(b"x" * direct_io.PAGE) as data:
                errors = [[write_directly(file, data, 0) for file in direct] for _ in range(4)]
            assert [bool(error) for error in errors[0]] == [True, True], errors
            assert errors[1:] == [[0, 0]] * 3, errors
            for file in (first, *direct):
                with contextlib.suppress(OSError):
                    os.close(file)
    finally:
        host.run("umount", "-l", small)


def test_a_read_gets_no_error_of_a_write(work):
    """
    Without a cache of writes the host asks for attributes before reads, too. The next write(2)
    reports the loss.
    """
    image, directory = images.make(f"{work}/image", "ext4", 64), f"{work}/place"
    with mounted_until_full(image, directory, "-o", "sync"):
        path = f"{directory}/holes"
        with open(path, "wb") as stream:
            stream.truncate(MEGABYTE)
        file = os.open(path, os.O_RDWR)
        with open(path, "r+b") as stream, mmap.mmap(stream.fileno(), MEGABYTE) as view:
            view[0]
            write_all(f"{directory}/fill", 70 * MEGABYTE)
            view[:] = b"x" * MEGABYTE
            with pytest.raises(OSError, match="No space left"):
                view.flush()
        assert os.pread(file, 10, MEGABYTE) == b""
        assert os.fstat(file).st_size == MEGABYTE
        with pytest.raises(OSError, match="No space left"):
            os.pwrite(file, b"x", 0)
        os.close(file)
    check(image, "ext4")
