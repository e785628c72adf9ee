# SPDX-License-Identifier: GPL-2.0-only
"""`outboard mount` of file systems that keep no owners, by ordinary users, and times that they keep
only in part.
"""

import os

import pytest

from support import host, images, mounts
from support.mounts import AS_NOBODY, NOBODY, check, mounted

pytestmark = [*mounts.MARKS, pytest.mark.needs("fusermount3", "setpriv"),
              pytest.mark.usefixtures("fuse_for_all")]
STICKS = ("vfat", "exfat")
WORK = """
    cd "$1"
    printf '%s' one > file
    cp -p file copied
    cp -a file archived
    mv file "$2/moved"
    mv "$2/moved" file
    install -m 644 file installed
    rm installed
    mkdir "$2/tree"
    cp /etc/passwd "$2/tree/a"
    cp /etc/passwd "$2/tree/b"
    touch -d 2001-02-04T05:06:08 file "$2/tree/a"
    cp -a "$2/tree" tree
    rsync -a "$2/tree/" synced/
    diff -r tree synced
    test "$(stat -c %Y tree/a)" = "$(stat -c %Y "$2/tree/a")"
    chown "$(id -u):$(id -g)" file
"""
GIT = """
    export HOME="$2"
    cd "$1"
    git init -q .
    git add .
    git -c user.name=Nobody -c user.email=nobody commit -q -m first
    git status --porcelain
    git log --oneline
"""


@pytest.fixture(name="stick", params=STICKS)
def fixture_stick(work, request):
    path = images.make(f"{work}/stick.img", request.param, 64)
    os.chown(path, NOBODY, NOBODY)
    return path, request.param


def as_nobody(work, script, directory):
    """Output on standard error is an error: cp(1) warns of attributes that it cannot keep."""
    scratch = f"{work}/scratch"
    os.makedirs(scratch, exist_ok=True)
    os.chown(scratch, NOBODY, NOBODY)
    done = host.run(*AS_NOBODY, "sh", "-euc", script, "sh", directory, scratch, timeout=120)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.needs("rsync", "git")
def test_an_ordinary_user_works_on_a_stick(work, stick):
    path, kind = stick
    with mounted(path, prefix=AS_NOBODY) as directory:
        as_nobody(work, WORK, directory)
        shown = host.run(*AS_NOBODY, "find", directory, "-printf", "%U:%G\n").stdout
        assert set(shown.split()) == {f"{NOBODY}:{NOBODY}"}
        # As on a mount of Linux's own.
        assert "not permitted" in host.run(*AS_NOBODY, "chown", "7", f"{directory}/file",
                                           ok=(1,)).stderr
    check(path, kind)
    with mounted(path, prefix=AS_NOBODY) as directory:
        assert "first" in as_nobody(work, GIT, directory)
    check(path, kind)


@pytest.mark.parametrize("options, owner", [
    ((), (NOBODY, NOBODY)), (("-o", "uid=7"), (7, NOBODY)), (("-o", "uid=7,gid=8"), (7, 8)),
    (("-o", f"idmap=b:0:9:1 b:1:{NOBODY}:1"), (9, 9))])
def test_whose_files_are_without_owners(stick, options, owner):
    path, _ = stick
    with mounted(path, *options, prefix=AS_NOBODY) as directory:
        host.run(*AS_NOBODY, "touch", f"{directory}/file")
        shown = host.run(*AS_NOBODY, "stat", "-c", "%u %g", directory, f"{directory}/file").stdout
    assert shown == "{0} {1}\n{0} {1}\n".format(*owner)


def test_roots_mounts_are_roots(stick):
    with mounted(stick[0], "-o", "allow_other") as directory:
        open(f"{directory}/file", "wb").close()
        found = os.stat(f"{directory}/file")
        assert found.st_uid == 0 and found.st_mode & 0o777 == 0o755
        host.run(*AS_NOBODY, "cat", f"{directory}/file")
        for command in (("touch", f"{directory}/new"), ("truncate", "-s0", f"{directory}/file"),
                        ("rm", f"{directory}/file")):
            host.run(*AS_NOBODY, *command, ok=(1,))
    with mounted(stick[0], "-o", "uid=7,gid=8,allow_other") as directory:
        assert (os.stat(f"{directory}/file").st_uid, os.stat(directory).st_gid) == (7, 8)


@pytest.mark.needs("mkfs.ntfs", "rsync")
def test_new_files_on_ntfs_belong_to_their_makers(work):
    """Files that Linux makes keep their owner there. Files that Windows makes have no owner that
    Linux knows.
    """
    path = images.make(f"{work}/stick.img", "ntfs", 64)
    with mounted(path) as directory:
        open(f"{directory}/roots", "wb").close()
    os.chown(path, NOBODY, NOBODY)
    with mounted(path, prefix=AS_NOBODY) as directory:
        as_nobody(work, WORK, directory)
        assert host.run(*AS_NOBODY, "stat", "-c", "%u", directory).stdout == f"{NOBODY}\n"
    with mounted(path) as directory:
        assert (os.stat(f"{directory}/roots").st_uid, os.stat(f"{directory}/file").st_uid) == (
            0, NOBODY)


@pytest.mark.parametrize("kind, options, step", [
    ("vfat", (), 2 * 10**9), ("exfat", (), 10**7), ("ntfs", (), 100), ("ext4", (), 1),
    ("ext4", ("-I", "128"), 10**9)])
def test_times_are_the_same_after_a_remount(work, kind, options, step):
    path = images.make(f"{work}/disk.img", kind, 64, *options)
    wanted = 1_600_000_000 * 10**9 + 987_654_321
    with mounted(path) as directory:
        open(f"{directory}/file", "wb").close()
        os.utime(f"{directory}/file", ns=(wanted, wanted))
        shown = os.stat(f"{directory}/file").st_mtime_ns
        assert shown == wanted - wanted % min(step, 10**9)
    with mounted(path) as directory:
        assert os.stat(f"{directory}/file").st_mtime_ns == shown
