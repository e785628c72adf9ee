# SPDX-License-Identifier: GPL-2.0-only
"""System calls work on `outboard mount` as on the host's own mounts."""

import ctypes
import fcntl
import json
import mmap
import os
import stat
import sys

import pytest

from support import host, images, mounts, program
from support.mounts import check, mounted, options_of

pytestmark = mounts.MARKS
CASES = os.path.join(program.REPOSITORY, "tests", "support", "posix_cases.py")
KINDS = ["ext4", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("xfs", "btrfs"))]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_like_the_hosts_own_mount(work, kind, image):
    """About 4,000 cases, each on the host kernel's mount of the same type and on ours."""
    other = images.make(f"{work}/other.img", kind, 512)
    with host.loop_mount(other, kind) as directory:
        theirs = outcomes(directory)
    with mounted(image, "-o", "allow_other,dev,suid") as directory:
        ours = outcomes(directory)
    check(image, kind)
    assert len(theirs) > 3000
    alike(theirs, ours)


@pytest.mark.parametrize("kind", KINDS)
def test_root_alone_may_do_what_root_may(work, kind, image):
    """Where the host checks nothing, since nobody else can come."""
    other = images.make(f"{work}/other.img", kind, 512)
    with host.loop_mount(other, kind) as directory:
        theirs = outcomes(directory, "root")
    with mounted(image, "-o", "dev,suid") as directory:
        assert "default_permissions" not in options_of(directory)
        alike(theirs, outcomes(directory, "root"))
    check(image, kind)


def outcomes(directory, *users):
    os.mkdir(f"{directory}/cases")
    return json.loads(
        host.run(sys.executable, CASES, f"{directory}/cases", *users, timeout=1500).stdout)


def alike(theirs, ours):
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    first = dict(list(different.items())[:3])
    assert not different, (f"{len(different)} cases differ; the host's and ours: "
                           f"{sorted(different)[:40]}, as in {json.dumps(first, indent=1)}")


def test_renames_with_flags(place):
    libc = ctypes.CDLL(None, use_errno=True)

    def rename(old, new, flags):
        result = libc.renameat2(-100, os.fsencode(f"{place}/{old}"), -100,
                                os.fsencode(f"{place}/{new}"), flags)
        return 0 if result == 0 else ctypes.get_errno()

    for name in ("a", "b"):
        with open(f"{place}/{name}", "w", encoding="ascii") as stream:
            stream.write(name)
    assert rename("a", "b", 1) == 17
    assert rename("a", "b", 2) == 0
    assert open(f"{place}/a", encoding="ascii").read() == "b"
    assert rename("a", "c", 1) == 0
    assert sorted(set(os.listdir(place)) - {"lost+found"}) == ["b", "c"]


def test_names_come_and_go(place):
    """A new file is found after a failed lookup; a deleted file can still be used."""
    for number in range(50):
        path = f"{place}/file{number}"
        assert not os.path.exists(path)
        with open(path, "w+b") as stream:
            stream.write(b"x" * number)
            stream.flush()
            os.unlink(path)
            assert not os.path.exists(path)
            stream.seek(0)
            assert stream.read() == b"x" * number and os.fstat(stream.fileno()).st_nlink == 0
    shown = host.run("ls", "-a", place).stdout.split()
    assert shown[:2] == [".", ".."]


def test_many_names(place):
    names = {f"name-{number:05}-{'x' * (number % 90)}" for number in range(5000)}
    for name in names:
        os.close(os.open(f"{place}/{name}", os.O_CREAT | os.O_WRONLY))
    listed = os.listdir(place)
    assert len(listed) == len(set(listed)) and names <= set(listed)
    with os.scandir(place) as entries:
        assert names <= {entry.name for entry in entries if entry.stat().st_ino == entry.inode()}
    for name in names:
        os.unlink(f"{place}/{name}")
    assert not names & set(os.listdir(place))


def test_more_files_than_descriptors(ext4):
    """The server closes descriptors of files that the host still knows, and finds the files again.
    """
    count = 17_500
    with mounted(ext4) as directory:
        inodes = {}
        for number in range(count):
            descriptor = os.open(f"{directory}/{number}", os.O_CREAT | os.O_WRONLY)
            inodes[number] = os.fstat(descriptor).st_ino
            os.close(descriptor)
        for number in range(0, 1000, 10):
            with open(f"{directory}/{number}", "r+b") as stream:
                assert os.fstat(stream.fileno()).st_ino == inodes[number]
                stream.write(b"x")
            os.chmod(f"{directory}/{number}", 0o600)
        for number in range(0, 1000, 10):
            os.unlink(f"{directory}/{number}")
            # It may get the number of the inode that was closed.
            os.mkdir(f"{directory}/{number}")
            assert os.listdir(f"{directory}/{number}") == []
    check(ext4, "ext4")


def test_locks(place):
    """Between descriptors and between processes, flock and fcntl."""
    path = f"{place}/locked"
    with open(path, "w+b") as one, open(path, "w+b") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(one, fcntl.LOCK_UN)
        fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(one, fcntl.LOCK_EX, 10, 5)
        script = ("import fcntl,sys\nf=open(sys.argv[1],'r+b')\n"
                  "fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,5,20)\n"
                  "try: fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,1,14)\n"
                  "except BlockingIOError: print('held')")
        assert host.run(sys.executable, "-c", script, path).stdout == "held\n"


def test_shared_memory_maps(place):
    path = f"{place}/mapped"
    with open(path, "w+b") as stream:
        stream.truncate(1 << 20)
        with mmap.mmap(stream.fileno(), 0) as view:
            view[4096:4101] = b"hello"
            with open(path, "rb") as second:
                second.seek(4096)
                assert second.read(5) == b"hello"
            os.pwrite(stream.fileno(), b"J", 4096)
            assert view[4096:4101] == b"Jello"
            view.flush()


def test_direct_access_and_holes(place):
    path = f"{place}/direct"
    block = mmap.mmap(-1, 65536)
    block.write(b"d" * 65536)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    assert os.pwritev(descriptor, [block], 1 << 20) == 65536
    back = mmap.mmap(-1, 65536)
    assert os.preadv(descriptor, [back], 1 << 20) == 65536 and back[:] == block[:]
    os.close(descriptor)
    with open(path, "rb") as stream:
        assert os.lseek(stream.fileno(), 0, os.SEEK_DATA) == 1 << 20
        assert os.lseek(stream.fileno(), 0, os.SEEK_HOLE) == 0
    host.run("fallocate", "--punch-hole", "--offset", 1 << 20, "--length", 32768, path)
    with open(path, "rb") as stream:
        stream.seek(1 << 20)
        assert stream.read() == b"\0" * 32768 + b"d" * 32768
    assert os.stat(path).st_blocks * 512 < 1 << 20


def test_attributes_lists_and_flags(place):
    """By the distribution's own tools."""
    path = f"{place}/file"
    open(path, "wb").close()
    host.run("setfattr", "-n", "user.name", "-v", "value", path)
    host.run("setfattr", "-n", "trusted.name", "-v", "secret", path)
    assert 'user.name="value"' in host.run("getfattr", "-d", path).stdout
    assert "trusted.name" in host.run("getfattr", "-d", "-m", "-", path).stdout
    host.run("setfacl", "-m", "u:4242:rw,m:rw", path)
    assert "user:4242:rw-" in host.run("getfacl", "-n", "--absolute-names", path).stdout
    # The list counts for who is in it, and for no other.
    for uid, code in ((4242, 0), (4243, 1)):
        host.run("setpriv", f"--reuid={uid}", "--regid=4242", "--clear-groups",
                 "test", "-w", path, ok=(code,))
    os.mkdir(f"{place}/default")
    host.run("setfacl", "-d", "-m", "u:4242:rwx,g::rwx", f"{place}/default")
    host.run("sh", "-c", f"umask 077; mkdir {place}/default/made; : > {place}/default/plain")
    assert "default:user:4242:rwx" in host.run("getfacl", "-n", "--absolute-names",
                                               f"{place}/default/made").stdout
    # The umask does not count.
    assert stat.S_IMODE(os.stat(f"{place}/default/plain").st_mode) == 0o664
    host.run("chattr", "+i", path)
    assert "i" in host.run("lsattr", path).stdout.split()[0]
    with pytest.raises(PermissionError):
        os.unlink(path)
    host.run("chattr", "-i", path)
    os.unlink(path)


def test_set_id_bits_go_with_a_write(place):
    path = f"{place}/program"
    for changes in ("printf x >> {0}", "truncate -s 9 {0}", "fallocate -l 5000 {0}",
                    "cp /etc/hostname {0}"):
        open(path, "wb").close()
        os.chmod(path, 0o6777)
        host.run("setpriv", "--reuid=4242", "--regid=4242", "--clear-groups",
                 "sh", "-c", changes.format(path))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o777, changes
        os.chmod(path, 0o6777)
        host.run("sh", "-c", changes.format(path))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o6777, changes


def test_times_of_files_that_lose_a_name(ext4):
    """Times are written while there is a name, and remembered as long as the file is open."""
    with mounted(ext4) as directory:
        one, two = f"{directory}/one", f"{directory}/two"
        with open(one, "wb") as stream:
            os.link(one, two)
            os.unlink(one)
            host.run("touch", "-m", "-d", "@1000000000", two)
            os.link(two, one)
            os.unlink(two)
            assert os.fstat(stream.fileno()).st_mtime == 10**9
        with open(two, "wb") as stream:
            os.unlink(two)
            os.utime(stream.fileno(), (5, 6))
            assert os.fstat(stream.fileno()).st_mtime == 6
    with mounted(ext4, "-o", "ro") as directory:
        assert os.stat(f"{directory}/one").st_mtime == 10**9
    check(ext4, "ext4")
