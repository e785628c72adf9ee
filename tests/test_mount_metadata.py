# SPDX-License-Identifier: GPL-2.0-only
"""Times on `outboard mount`: what the host shows is what the image has, and what its own ext4 shows."""

import itertools
import os
import stat
import time

from support import mounts

pytestmark = mounts.MARKS
# Of Linux; Python has no name for it.
CLOCK_REALTIME_COARSE = 5


def make_link(path):
    os.symlink("target", path)


def make_node(path):
    os.mknod(path, stat.S_IFIFO | 0o600)


def test_new_objects_are_not_older_than_what_was_written_before(place):
    """
    The host sets the times of data that it caches, by its own clock that ticks. A new object has the same clock. The
    host may be a tick ahead of that clock, if another of its file systems has asked for a finer time.
    """
    tick = int(time.clock_getres(CLOCK_REALTIME_COARSE) * 1e9)
    makers = itertools.cycle([os.mkdir, make_link, make_node])
    late, early = [], []
    os.mkdir(f"{place}/tree")
    for number, make in zip(range(45), makers):
        written, new = f"{place}/tree/written{number}", f"{place}/tree/new{number}"
        with open(written, "wb", buffering=0) as stream:
            # The times of phases of the ticks.
            time.sleep(0.0007 * (number % 15))
            stream.write(b"data")
            before = os.fstat(stream.fileno()).st_mtime_ns
        make(new)
        made = os.lstat(new)
        parent = os.stat(f"{place}/tree")
        late += [(before - found) / 1e6 for found in (made.st_mtime_ns, made.st_ctime_ns, parent.st_mtime_ns, parent.st_ctime_ns) if found < before - tick]
        with open(written, "wb", buffering=0) as stream:
            stream.write(b"more")
            after = os.fstat(stream.fileno()).st_mtime_ns
        early += [(made.st_mtime_ns - after) / 1e6] if after < made.st_mtime_ns else []
    assert not late, f"milliseconds that new objects are older than what was written before: {late}"
    assert not early, f"milliseconds that data is older than objects that were there before: {early}"
