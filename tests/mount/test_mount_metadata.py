# SPDX-License-Identifier: GPL-2.0-only
"""Modes, times and attributes on `outboard mount`: what the host shows is what the image has, and
what its own ext4 shows.
"""

import errno
import itertools
import json
import os
import stat
import sys
import time

import pytest

from support import host, images, mounts, program
from support.mounts import check, mounted

pytestmark = mounts.MARKS
CASES = os.path.join(program.REPOSITORY, "tests", "support", "set_id_cases.py")
# Of Linux; Python has no name for it.
CLOCK_REALTIME_COARSE = 5


def set_id_outcomes(directory):
    os.chmod(directory, 0o755)
    return json.loads(host.run(sys.executable, CASES, directory).stdout)


def test_changes_take_set_id_bits_as_on_the_hosts_ext4(work):
    """Each call that changes data, by an owner, a member of the group and a stranger."""
    theirs_image, ours_image = (images.make(f"{work}/{name}.img", "ext4", 64)
                                for name in ("theirs", "ours"))
    with host.loop_mount(theirs_image, "ext4") as directory:
        theirs = set_id_outcomes(directory)
    with mounted(ours_image, "-o", "suid,allow_other") as directory:
        ours = set_id_outcomes(directory)
    check(ours_image, "ext4")
    assert len(theirs) > 100
    different = {name: (theirs[name], ours.get(name))
                 for name in theirs if theirs[name] != ours.get(name)}
    assert not different, (f"{len(different)} of {len(theirs)} differ; "
                           f"the host's and ours: {different}")


def make_link(path):
    os.symlink("target", path)


def make_node(path):
    os.mknod(path, stat.S_IFIFO | 0o600)


def test_new_objects_are_not_older_than_what_was_written_before(place):
    """
    The host sets the times of data that it caches, by its own clock that ticks. A new object has
    the same clock. The host may be ahead of that clock, if another of its file systems has asked
    for a finer time.
    """
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
        coarse = time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
        make(new)
        made = os.lstat(new)
        parent = os.stat(f"{place}/tree")
        late += [(before - found) / 1e6 for found
                 in (made.st_mtime_ns, made.st_ctime_ns, parent.st_mtime_ns, parent.st_ctime_ns)
                 if found < min(before, coarse)]
        with open(written, "wb", buffering=0) as stream:
            stream.write(b"more")
            after = os.fstat(stream.fileno()).st_mtime_ns
        early += [(made.st_mtime_ns - after) / 1e6] if after < made.st_mtime_ns else []
    assert not late, f"milliseconds that new objects are older than what was written before: {late}"
    assert not early, ("milliseconds that data is older than objects that were there before: "
                       f"{early}")


def test_an_attribute_that_is_too_large_is_refused_at_once(ext4):
    """The file system says that there is no room, but that of removed files does not help."""
    with mounted(ext4) as directory:
        host.run("touch", f"{directory}/file")
        took = []
        for number in range(30):
            os.close(os.open(f"{directory}/{number}", os.O_CREAT | os.O_WRONLY))
            os.unlink(f"{directory}/{number}")
            start = time.monotonic()
            with pytest.raises(OSError) as failed:
                os.setxattr(f"{directory}/file", "user.large", bytes(60_000))
            took.append(time.monotonic() - start)
            assert failed.value.errno == errno.ENOSPC
        # Each waited a second. On a busy host, one at least does not take that long.
        assert min(took) < 1
    check(ext4, "ext4")


def test_chattr_of_a_directory_sets_the_time_of_the_last_change(ext4):
    with mounted(ext4) as directory:
        path = f"{directory}/directory"
        os.mkdir(path)
        before = os.stat(path).st_ctime_ns
        # More than a tick.
        time.sleep(0.05)
        host.run("chattr", "+d", path)
        assert os.stat(path).st_ctime_ns > before
    check(ext4, "ext4")
