# SPDX-License-Identifier: GPL-2.0-only
"""Programs that write to `outboard mount` without closing learn soon that data was lost."""

import contextlib
import errno
import os

import pytest

from support import host, images, mounts
from support.images import MEGABYTE
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
        wait_until(lambda: room_of(directory) > 50 * MEGABYTE, "the room of the removed file is free")
        with open(f"{directory}/next", "wb", buffering=0) as stream:
            assert [stream.write(b"x" * 1000) for _ in range(3)] == [1000] * 3
            os.fsync(stream.fileno())
    check(image, kind)


@pytest.mark.kernel_reports("its disk fails")
def test_a_full_disk_of_the_host_ends_a_writer(work):
    """A sparse image in a file system that is too small for what is written. The server holds little back."""
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
