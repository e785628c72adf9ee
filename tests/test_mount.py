# SPDX-License-Identifier: GPL-2.0-only
"""`outboard mount`: an image as a file system of the host, used by unmodified programs."""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import pytest

from support import host, images, modules, program
from support.images import MEGABYTE
from support.program import good, run

pytestmark = [pytest.mark.needs_root, pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")]
KINDS = ("ext4", "xfs", "btrfs")
CHECKERS = {"ext4": ("e2fsck", "-f", "-n"), "xfs": ("xfs_repair", "-n"), "btrfs": ("btrfs", "check")}
NOBODY = 65534
CASES = os.path.join(os.path.dirname(__file__), "support", "posix_cases.py")


def check(image, kind):
    host.run(*CHECKERS[kind], image)


def is_mounted(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        return any(line.split()[4] == directory for line in lines)


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
            subprocess.run(["umount", "-l", directory], check=False)
        os.rmdir(directory)


def servers(image):
    """The processes that serve an image."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as stream:
            words = stream.read().split(b"\0")
            if b"server" in words and os.fsencode(image) in words:
                found.append(int(number))
    return found


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def image(work, kind):
    return images.make(f"{work}/disk.img", kind, 512)


@pytest.fixture
def place(image, kind):
    """A mounted image; checked after it was unmounted."""
    with mounted(image, "-o", "allow_other") as directory:
        yield directory
    check(image, kind)


# ---- what system calls do ----


@pytest.mark.timeout(900)
def test_like_the_hosts_own_mount(work, kind, image):
    """About 4,000 cases, each on the host kernel's mount of the same type and on ours."""
    def outcomes(directory):
        os.mkdir(f"{directory}/cases")
        return json.loads(host.run(sys.executable, CASES, f"{directory}/cases", timeout=800).stdout)

    other = images.make(f"{work}/other.img", kind, 512)
    with host.loop_mount(other, kind) as directory:
        theirs = outcomes(directory)
    with mounted(image, "-o", "allow_other,dev,suid") as directory:
        ours = outcomes(directory)
    check(image, kind)
    assert len(theirs) > 3000
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert not different, f"{len(different)} cases differ; the host's and ours: {sorted(different)[:40]}, as in {json.dumps(dict(list(different.items())[:3]), indent=1)}"


def test_renames_with_flags(place):
    libc = ctypes.CDLL(None, use_errno=True)

    def rename(old, new, flags):
        result = libc.renameat2(-100, os.fsencode(f"{place}/{old}"), -100, os.fsencode(f"{place}/{new}"), flags)
        return 0 if result == 0 else ctypes.get_errno()

    for name in ("a", "b"):
        with open(f"{place}/{name}", "w", encoding="ascii") as stream:
            stream.write(name)
    assert rename("a", "b", 1) == 17
    assert rename("a", "b", 2) == 0
    assert open(f"{place}/a", encoding="ascii").read() == "b"
    assert rename("a", "c", 1) == 0 and sorted(set(os.listdir(place)) - {"lost+found"}) == ["b", "c"]


def test_names_come_and_go(place):
    """What was not there is found once it is; a deleted file is used on."""
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
    """The server closes descriptors of files that the host still knows, and finds the files again."""
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
        script = ("import fcntl,sys\nf=open(sys.argv[1],'r+b')\nfcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,5,20)\n"
                  "try: fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,1,14)\nexcept BlockingIOError: print('held')")
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
        host.run("setpriv", f"--reuid={uid}", "--regid=4242", "--clear-groups", "test", "-w", path, ok=(code,))
    os.mkdir(f"{place}/default")
    host.run("setfacl", "-d", "-m", "u:4242:rwx,g::rwx", f"{place}/default")
    host.run("sh", "-c", f"umask 077; mkdir {place}/default/made; : > {place}/default/plain")
    assert "default:user:4242:rwx" in host.run("getfacl", "-n", "--absolute-names", f"{place}/default/made").stdout
    assert stat.S_IMODE(os.stat(f"{place}/default/plain").st_mode) == 0o664  # the umask does not count
    host.run("chattr", "+i", path)
    assert "i" in host.run("lsattr", path).stdout.split()[0]
    with pytest.raises(PermissionError):
        os.unlink(path)
    host.run("chattr", "-i", path)
    os.unlink(path)


def test_set_id_bits_go_with_a_write(place):
    path = f"{place}/program"
    for changes in ("printf x >> {0}", "truncate -s 9 {0}", "fallocate -l 5000 {0}", "cp /etc/hostname {0}"):
        open(path, "wb").close()
        os.chmod(path, 0o6777)
        host.run("setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "sh", "-c", changes.format(path))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o777, changes
        os.chmod(path, 0o6777)
        host.run("sh", "-c", changes.format(path))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o6777, changes


# ---- work on it ----


class Model:
    """A file as bytes, and what may be done to both."""

    LARGEST = 300_000

    def __init__(self, path, seed):
        self.path, self.bytes, self.random = path, bytearray(), random.Random(seed)
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def span(self):
        offset = self.random.randrange(self.LARGEST)
        return offset, self.random.randint(1, min(60_000, self.LARGEST - offset))

    def grow(self, size):
        self.bytes.extend(b"\0" * (size - len(self.bytes)))

    def write(self):
        offset, length = self.span()
        data = self.random.randbytes(length)
        assert os.pwrite(self.file, data, offset) == length
        self.grow(offset + length)
        self.bytes[offset:offset + length] = data

    def read(self):
        offset, length = self.span()
        assert os.pread(self.file, length, offset) == self.bytes[offset:offset + length]

    def truncate(self):
        size = self.random.randrange(self.LARGEST)
        os.ftruncate(self.file, size)
        del self.bytes[size:]
        self.grow(size)

    def map(self):
        if self.bytes:
            offset = self.random.randrange(len(self.bytes))
            data = self.random.randbytes(self.random.randint(1, len(self.bytes) - offset))
            with mmap.mmap(self.file, len(self.bytes)) as view:
                assert view[:] == self.bytes
                view[offset:offset + len(data)] = data
            self.bytes[offset:offset + len(data)] = data

    def fallocate(self):
        offset, length = self.span()
        mode = self.random.choice(["--punch-hole", "--zero-range", "--keep-size"])
        done = host.run("fallocate", mode, "--offset", offset, "--length", length, self.path, ok=None)
        if done.returncode == 0 and mode != "--keep-size":
            if mode == "--zero-range":
                self.grow(offset + length)
            end = min(offset + length, len(self.bytes))
            if offset < end:
                self.bytes[offset:end] = b"\0" * (end - offset)

    def copy(self):
        offset, length = self.span()
        to = self.random.randrange(self.LARGEST)
        length = min(length, max(0, len(self.bytes) - offset), abs(offset - to))
        if length:
            copied = os.copy_file_range(self.file, self.file, length, offset, to)
            self.grow(to + copied)
            self.bytes[to:to + copied] = self.bytes[offset:offset + copied]

    def reopen(self):
        os.close(self.file)
        self.file = os.open(self.path, os.O_RDWR | self.random.choice([0, os.O_SYNC]))

    def sync(self):
        os.fsync(self.file)

    def step(self):
        work = self.random.choice([self.write] * 4 + [self.read] * 4 + [self.truncate, self.map, self.fallocate, self.copy, self.reopen, self.sync])
        work()
        assert os.fstat(self.file).st_size == len(self.bytes), work.__name__


def test_random_operations(image, kind):
    """Several files at a time against a model; the same again after the image was mounted anew."""
    with mounted(image) as directory:
        models = [Model(f"{directory}/file{number}", number) for number in range(4)]

        def work(model):
            for _ in range(250):
                model.step()

        failures = []
        threads = [threading.Thread(target=lambda model=model: guarded(work, model, failures)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for model in models:
            os.close(model.file)
        assert not failures, failures[0]
    check(image, kind)
    with mounted(image, "-o", "ro") as directory:
        for number, model in enumerate(models):
            with open(f"{directory}/file{number}", "rb") as stream:
                assert stream.read() == model.bytes


def guarded(work, argument, failures):
    try:
        work(argument)
    except BaseException as error:  # of a thread: told by the one that waits
        failures.append(repr(error))


@pytest.mark.needs("git", "gcc", "make")
def test_a_project_is_cloned_and_built(work, place):
    source = f"{work}/project"
    os.mkdir(source)
    for number in range(30):
        with open(f"{source}/part{number}.c", "w", encoding="ascii") as stream:
            stream.write(f"int part{number}(void) {{ return {number}; }}\n")
    with open(f"{source}/main.c", "w", encoding="ascii") as stream:
        stream.write("#include <stdio.h>\nint part7(void);\nint main(void) { printf(\"%d\\n\", part7()); return 0; }\n")
    with open(f"{source}/Makefile", "w", encoding="ascii") as stream:
        stream.write("OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\nprogram: $(OBJECTS)\n\tgcc -o $@ $(OBJECTS)\n")
    git = ("git", "-c", "user.name=n", "-c", "user.email=e", "-c", "safe.directory=*")
    host.run(*git, "init", "-q", source)
    host.run(*git, "-C", source, "add", ".")
    host.run(*git, "-C", source, "commit", "-q", "-m", "all")
    host.run(*git, "clone", "-q", source, f"{place}/clone")
    host.run("make", "-s", "-j4", "-C", f"{place}/clone")
    assert host.run(f"{place}/clone/program").stdout == "7\n"
    assert not host.run(*git, "-C", f"{place}/clone", "fsck").stderr
    host.run(*git, "-C", f"{place}/clone", "gc", "-q")


def test_databases(place):
    """Two writers and the journal modes of sqlite, with its own check at the end."""
    for mode in ("DELETE", "WAL"):
        path = f"{place}/{mode}.db"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute(f"PRAGMA journal_mode={mode}")
            database.execute("CREATE TABLE t (writer, number, text)")
        script = ("import sqlite3,sys\nd=sqlite3.connect(sys.argv[1],timeout=100)\n"
                  "for n in range(60):\n  with d: d.execute('INSERT INTO t VALUES (?,?,?)',(sys.argv[2],n,'x'*n*20))")
        writers = [subprocess.Popen([sys.executable, "-c", script, path, str(number)]) for number in range(2)]
        assert [writer.wait() for writer in writers] == [0, 0]
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert database.execute("SELECT count(*) FROM t").fetchone() == (120,)


@pytest.mark.needs("fio")
def test_fio_verifies(work, place):
    for engine, direct in (("psync", 0), ("psync", 1), ("mmap", 0)):
        host.run("fio", "--name=v", f"--directory={place}", "--rw=randwrite", "--bs=4k-64k", "--size=16m", "--numjobs=2", f"--ioengine={engine}",
                 f"--direct={direct}", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--randrepeat=1", "--blockalign=4k", cwd=work)


def test_a_tree_comes_back(work, place):
    """tar in and out, with everything; compared by tar."""
    host.run("tar", "--acls", "--xattrs", "-C", "/usr/share", "-cf", f"{work}/t.tar", "zoneinfo")
    host.run("tar", "--acls", "--xattrs", "-C", place, "-xpf", f"{work}/t.tar")
    assert not host.run("tar", "--acls", "--xattrs", "-C", place, "-df", f"{work}/t.tar").stdout


# ---- mounting and unmounting ----


@pytest.fixture
def ext4(work):
    return images.make(f"{work}/disk.img", "ext4", 64, "-N", "20000")


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


def test_read_only_changes_no_byte(ext4):
    before = open(ext4, "rb").read()
    with mounted(ext4, "-o", "ro") as directory:
        with pytest.raises(OSError):
            os.mkdir(f"{directory}/new")
        os.listdir(directory)
    assert open(ext4, "rb").read() == before


@pytest.mark.needs("mksquashfs")
def test_what_the_host_has_read_ahead_is_not_kept_twice(work):
    """Where only whole blocks can be read: a squashfs of data that cannot be compressed."""
    os.mkdir(f"{work}/tree")
    images.write_noise(f"{work}/tree/big", 128)
    host.run("mksquashfs", f"{work}/tree", f"{work}/packed.img", "-quiet", "-no-progress")
    with mounted(f"{work}/packed.img") as directory:
        (server,) = servers(f"{work}/packed.img")
        host.run("cmp", f"{work}/tree/big", f"{directory}/big")
        with open(f"/proc/{server}/status", encoding="ascii") as lines:
            (memory,) = [int(line.split()[1]) for line in lines if line.startswith("RssShmem:")]
        assert memory < 64 << 10, memory


@pytest.mark.needs("mksquashfs")
def test_what_cannot_be_written_is_read_only(work):
    host.run("mksquashfs", "/usr/share/zoneinfo/Europe", f"{work}/packed.img", "-quiet", "-no-progress")
    with mounted(f"{work}/packed.img") as directory:
        host.run("diff", "-r", "--no-dereference", "/usr/share/zoneinfo/Europe", directory)
        assert os.statvfs(directory).f_flag & os.ST_RDONLY


def test_what_is_wrong_is_told_at_once(work, ext4):
    os.mkdir(f"{work}/empty")
    open(f"{work}/text", "wb").write(b"no file system" * 1000)
    for words, code, part in (
            ((ext4, f"{work}/nowhere"), 1, "nowhere"),
            ((f"{work}/text", f"{work}/empty"), 1, "text"),
            ((f"{work}/none", f"{work}/empty"), 1, "none"),
            (("-o", "what", ext4, f"{work}/empty"), 2, "what"),
            (("--type", "xfs", ext4, f"{work}/empty"), 1, "xfs")):
        done = run("mount", *words)
        assert done.code == code and part in done.err, str(done)
        assert not is_mounted(f"{work}/empty")
    with mounted(ext4):
        start = time.monotonic()
        second = run("mount", ext4, f"{work}/empty")
        assert second.code == 1 and "in use" in second.err, str(second)
        assert not is_mounted(f"{work}/empty") and time.monotonic() - start < 10
    assert run("umount", f"{work}/empty").code == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_well(work, ext4, number):
    directory = f"{work}/place"
    os.mkdir(directory)
    # Who runs the tests may have it ignored.
    keeper = subprocess.Popen([*program.command("mount"), "-f", ext4, directory],
                              preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    while not is_mounted(directory):
        time.sleep(0.01)
    with open(f"{directory}/file", "wb") as stream:
        stream.write(b"kept" * 100_000)
    with open(f"{directory}/open", "wb") as stream:
        stream.write(b"open")
        stream.flush()
        keeper.send_signal(number)
        assert keeper.wait(60) == 0
    assert not is_mounted(directory) and not servers(ext4)
    check(ext4, "ext4")
    assert len(good("cat", f"{ext4}:/file").raw) == 400_000 and good("cat", f"{ext4}:/open").out == "open"


def test_it_outlives_its_terminal_if_asked_to(work, ext4):
    directory = f"{work}/place"
    os.mkdir(directory)
    keeper = subprocess.Popen(["nohup", *program.command("mount"), "-f", ext4, directory],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not is_mounted(directory):
        time.sleep(0.01)
    keeper.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        keeper.wait(1)
    good("umount", directory)
    assert keeper.wait(60) == 0


def test_who_started_it_keeps_what_is_open(work, ext4):
    """Locks of a script end with the script; the server has nothing of it."""
    with open(f"{work}/secret", "wb") as secret:
        fcntl.flock(secret, fcntl.LOCK_EX)
        os.set_inheritable(secret.fileno(), True)
        directory = f"{work}/place"
        os.mkdir(directory)
        subprocess.run([*program.command("mount"), ext4, directory], close_fds=False, check=True)
    try:
        (server,) = servers(ext4)
        opened = [os.readlink(f"/proc/{server}/fd/{number}") for number in os.listdir(f"/proc/{server}/fd")]
        assert ext4 in opened and f"{work}/secret" not in opened
        with open(f"{work}/secret", "rb") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        good("umount", directory)


def test_an_interrupted_command_leaves_no_mount(work, ext4):
    """The keeper finds nobody to tell that all is well."""
    directory = f"{work}/place"
    os.mkdir(directory)
    compressed = f"{work}/disk.img.gz"
    with open(compressed, "wb") as stream:
        subprocess.run(["gzip", "-c", "-1", ext4], stdout=stream, check=True)
    command = subprocess.Popen([*program.command("mount"), "-o", "ro", compressed, directory], start_new_session=True)
    while not servers(compressed) and command.poll() is None:
        time.sleep(0.002)
    os.killpg(command.pid, signal.SIGINT)
    command.wait(60)
    deadline = time.monotonic() + 60
    while servers(compressed) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not servers(compressed)
    # If the interrupt came too late, the command was told before.
    assert not is_mounted(directory)


def test_what_was_lost_is_told_each_time(work):
    """A sparse image in a file system that is too small for what is written."""
    small, directory = f"{work}/small", f"{work}/place"
    os.mkdir(small)
    os.mkdir(directory)
    host.run("mount", "-t", "tmpfs", "-o", "size=8M", "none", small)
    try:
        image = images.make(f"{small}/disk.img", "ext4", 100)
        good("mount", image, directory)
        with open(f"{directory}/large", "wb") as stream, contextlib.suppress(OSError):
            stream.write(os.urandom(30 * MEGABYTE))
        with open(f"{directory}/large", "rb"):
            first = run("umount", directory)
            assert first.code == 1 and "not everything was written" in first.err, str(first)
        second = run("umount", directory)
        assert second.code == 1 and "not everything was written" in second.err, str(second)
        assert not is_mounted(directory)
    finally:
        subprocess.run(["umount", "-l", directory], check=False, stderr=subprocess.DEVNULL)
        host.run("umount", "-l", small)


@pytest.mark.parametrize("option", ["rw", "ro"])
def test_a_mount_waits_for_the_server_before_it(work, ext4, option):
    """The host's umount(8) does not wait until the server has written everything and let go of the image."""
    directory = f"{work}/place"
    os.mkdir(directory)
    good("mount", ext4, directory)
    with open(f"{directory}/file", "wb") as stream:
        stream.write(b"kept" * 1000)
        stream.flush()
        os.fsync(stream.fileno())
    (server,) = servers(ext4)
    os.kill(server, signal.SIGSTOP)
    try:
        host.run("umount", "-l", directory)
        second = subprocess.Popen([*program.command("mount"), "-o", option, ext4, directory], stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        assert second.poll() is None
    finally:
        os.kill(server, signal.SIGCONT)
    said = second.communicate(timeout=60)[1]
    assert second.returncode == 0 and "waiting for the server" in said, said
    assert open(f"{directory}/file", "rb").read() == b"kept" * 1000
    good("umount", directory)
    check(ext4, "ext4")


def test_in_use(ext4):
    with mounted(ext4) as directory, open(f"{directory}/file", "wb"):
        busy = run("umount", directory)
        assert busy.code == 1 and "busy" in busy.err.lower(), str(busy)


def test_a_crash_costs_the_server_alone(ext4, work):
    directory = f"{work}/place"
    os.mkdir(directory)
    good("mount", ext4, directory)
    with open(f"{directory}/safe", "wb") as stream:
        stream.write(b"safe")
        stream.flush()
        os.fsync(stream.fileno())
    (server,) = servers(ext4)
    os.kill(server, signal.SIGKILL)
    deadline = time.monotonic() + 20
    with pytest.raises(OSError) as error:
        while time.monotonic() < deadline:
            os.listdir(directory)
    assert error.value.errno in (107, 103)
    good("umount", directory)
    with mounted(ext4) as again:
        assert open(f"{again}/safe", "rb").read() == b"safe"
    check(ext4, "ext4")


@pytest.mark.parametrize("end", ["kill", "panic"])
def test_restart(ext4, work, end):
    """After a crash later than ten seconds after the mount: by a signal, or by a driver that makes the kernel panic."""
    directory, drivers = f"{work}/place", f"{work}/drivers"
    os.mkdir(directory)
    options = []
    if end == "panic":
        os.mkdir(drivers)
        modules.build(os.path.join(program.REPOSITORY, "tests", "sandbox"), drivers)
        options = ["--component", f"{drivers}/doom.ko"]
    good("mount", "--restart", *options, ext4, directory)
    with open(f"{directory}/safe", "wb") as stream:
        os.fsync(stream.fileno())
    (server,) = servers(ext4)
    deadline = time.monotonic() + 60
    if end == "kill":
        time.sleep(10.5)
        os.kill(server, signal.SIGKILL)
    while time.monotonic() < deadline and servers(ext4) in ([], [server]):
        time.sleep(0.05)
    assert servers(ext4) not in ([], [server])
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.stat(f"{directory}/safe")
            break
    with open(f"{directory}/after", "wb") as stream:
        os.fsync(stream.fileno())
    good("umount", directory)
    check(ext4, "ext4")


# ---- who may what ----

AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "HOME=/nonexistent")


@pytest.fixture
def fuse_for_all():
    """The device as every distribution's udev makes it."""
    before = stat.S_IMODE(os.stat("/dev/fuse").st_mode)
    os.chmod("/dev/fuse", 0o666)
    yield
    os.chmod("/dev/fuse", before)


@pytest.mark.needs("fusermount3", "setpriv")
@pytest.mark.usefixtures("fuse_for_all")
def test_an_ordinary_user_does_everything_in_his_mount(work, ext4):
    with mounted(ext4) as directory:
        os.mkdir(f"{directory}/secret", 0o700)
    os.chown(ext4, NOBODY, NOBODY)
    with mounted(ext4, prefix=AS_NOBODY) as directory:
        host.run(*AS_NOBODY, "sh", "-ec", f"cd {directory}; : > secret/mine; chown 7:8 secret/mine; chmod 4755 secret/mine; mkdir d; ln -s x l; cp -r /usr/share/zoneinfo/Europe d")
        with pytest.raises(PermissionError):
            os.listdir(directory)
    with mounted(ext4, "-o", "uid=0,gid=5", prefix=AS_NOBODY) as directory:
        host.run(*AS_NOBODY, "sh", "-ec", f"echo x > {directory}/given")
    check(ext4, "ext4")
    listed = good("ls", "-l", f"{ext4}:/", f"{ext4}:/secret").out
    assert "rwsr-xr-x 1 7 8" in listed and "1 0 5 2" in " ".join(listed.split()), listed
    assert run("mount", "-o", "suid", ext4, work, prefix=AS_NOBODY).code == 2


def test_mapped_owners(ext4):
    with mounted(ext4, "-o", "idmap=b:0:0:1 u:5:70000:10 g:5:80000:10") as directory:
        open(f"{directory}/file", "wb").close()
        os.chown(f"{directory}/file", 70001, 80002)
        found = os.stat(f"{directory}/file")
        assert (found.st_uid, found.st_gid) == (70001, 80002)
        with pytest.raises(OSError):
            os.chown(f"{directory}/file", 4, 4)
    assert json.loads(good("stat", "--json", f"{ext4}:/file").out)[0]["uid"] == 6


def test_what_has_no_owner_here_is_nobodys(ext4):
    with mounted(ext4) as directory:
        with open(f"{directory}/secret", "w", encoding="ascii") as stream:
            stream.write("of the image's root")
        os.chmod(f"{directory}/secret", 0o600)
    with mounted(ext4, "-o", "allow_other,idmap=b:1000:1000:1") as directory:
        found = os.stat(f"{directory}/secret")
        assert (found.st_uid, found.st_gid) == (NOBODY, NOBODY)
        host.run(*AS_NOBODY, "cat", f"{directory}/secret", ok=(1,))
        host.run(*AS_NOBODY, "chmod", "777", f"{directory}/secret", ok=(1,))
    assert good("find", f"{ext4}:/secret", "-printf", "%m").out == "600"


def test_others_come_with_allow_other(ext4):
    with mounted(ext4, "-o", "allow_other") as directory:
        os.mkdir(f"{directory}/public")
        os.chmod(f"{directory}/public", 0o1777)
        host.run(*AS_NOBODY, "touch", f"{directory}/public/mine")
        assert os.stat(f"{directory}/public/mine").st_uid == NOBODY
        host.run(*AS_NOBODY, "touch", f"{directory}/not", ok=(1,))


@pytest.mark.parametrize("name", ["outboard", "mount.fuse.outboard"])
def test_as_mount_calls_it(work, ext4, name):
    """`outboard IMAGE DIRECTORY -o OPTIONS`, as mount.fuse3 does, and as a helper of mount(8)."""
    directory, helper = f"{work}/place", f"{work}/{name}"
    os.mkdir(directory)
    os.symlink(program.PROGRAM, helper)
    host.run(helper, ext4, directory, "-o", "rw,noauto,dev,suid")
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        options = next(line for line in lines if line.split()[4] == directory)
    # What mount.fuse3 adds by itself is not what the user asked for.
    assert ("nosuid" in options) == (name == "outboard"), options
    good("umount", directory)
    check(ext4, "ext4")


@pytest.mark.needs("mount.fuse3")
def test_fstab(work, ext4):
    """Lines of fstab, in a mount name space with one of its own: `mount DIRECTORY`, `mount -a`, `umount DIRECTORY`."""
    first, second, bin_directory = f"{work}/first", f"{work}/second", f"{work}/bin"
    for name in (first, second, bin_directory):
        os.mkdir(name)
    os.symlink(program.PROGRAM, f"{bin_directory}/outboard")
    disk = images.partitioned(f"{work}/gpt.img", "label: gpt\nstart=2048, size=131072\n", {2048: images.make(f"{work}/part.img", "ext4", 64)}, 80)
    with open(f"{work}/fstab", "w", encoding="ascii") as stream:
        stream.write(f"{ext4} {first} fuse.outboard noauto,nofail,x-systemd.automount,allow_other 0 0\n{disk}@1 {second} fuse.outboard ro,noatime 0 0\n")
    script = """
        mount --bind "$1/fstab" /etc/fstab
        mount --bind "$1/bin" /usr/local/bin
        mount "$1/first"
        grep " $1/first fuse.outboard rw," /proc/self/mounts
        echo text > "$1/first/file"
        ! mountpoint -q "$1/second"
        umount "$1/first"
        mount -a
        ! mountpoint -q "$1/first"
        grep " $1/second fuse.outboard ro," /proc/self/mounts
        umount "$1/second"
        # After the host's umount the server has a moment's work left: this waits for it.
        mount "$1/first"
        cat "$1/first/file"
        umount "$1/first"
    """
    done = host.run("unshare", "--mount", "sh", "-euc", script, "sh", work, timeout=60)
    assert done.stdout.splitlines()[-1] == "text"
    deadline = time.monotonic() + 10
    while servers(ext4) and time.monotonic() < deadline:
        time.sleep(0.05)
    check(ext4, "ext4")


def test_names_without_case(work):
    image = images.make(f"{work}/stick.img", "vfat", 64)
    with mounted(image) as directory:
        open(f"{directory}/Name", "wb").close()
        assert os.path.exists(f"{directory}/NAME")
        os.rename(f"{directory}/name", f"{directory}/other")
        assert not os.path.exists(f"{directory}/Name") and os.path.exists(f"{directory}/OTHER")


@pytest.mark.parametrize("kind, options", [("ext4", ["-O", "casefold"]), ("xfs", ["-n", "version=ci"])])
def test_names_without_case_in_some_directories(work, kind, options):
    image = f"{work}/disk.img"
    with open(image, "wb") as stream:
        stream.truncate(512 * MEGABYTE)
    host.run(f"mkfs.{kind}", "-q", *options, image)
    with mounted(image) as directory:
        place = f"{directory}/place"
        os.mkdir(place)
        if kind == "ext4":
            host.run("chattr", "+F", place)
        for name, text in (("report.txt", "old"), ("REPORT.TXT", "new")):
            with open(f"{place}/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
            assert open(f"{place}/Report.Txt", encoding="ascii").read() == text
            os.unlink(f"{place}/report.txt")
            assert not os.path.exists(f"{place}/REPORT.TXT")
        assert not os.path.exists(f"{place}/AA")
        open(f"{place}/aa", "wb").close()
        assert os.path.exists(f"{place}/AA")
    check(image, kind)


@pytest.mark.needs("mkntfs", "ntfs-3g", "setfattr")
def test_names_on_ntfs(work):
    """Case counts. Directories may have a short DOS name beside the long one: what is done by one is seen by the other."""
    image, other = host.sparse_file(f"{work}/disk.img", 64 * MEGABYTE), f"{work}/other"
    host.run("mkntfs", "-q", "-F", "-f", image)
    os.mkdir(other)
    with subprocess.Popen(["ntfs-3g", "-o", "no_detach", image, other]):
        while not is_mounted(other):
            time.sleep(0.01)
        for number in range(3):
            os.mkdir(f"{other}/Long directory {number}")
            os.setxattr(f"{other}/Long directory {number}", "system.ntfs_dos_name", b"LONGDI~%d" % number)
        host.run("umount", other)
    with mounted(image) as directory:
        long, short = f"{directory}/Long directory ", f"{directory}/LONGDI~"
        for number in range(3):
            assert os.path.isdir(f"{long}{number}")
        os.mkdir(f"{long}0/inner")
        assert os.listdir(f"{short}0") == ["inner"]
        os.rmdir(f"{short}1")
        assert not os.path.exists(f"{long}1")
        os.mkdir(f"{long}1")
        os.rename(f"{short}2", f"{directory}/moved")
        assert not os.path.exists(f"{long}2") and os.path.isdir(f"{directory}/moved")
        assert sorted(os.listdir(directory)) == ["Long directory 0", "Long directory 1", "moved"]
        for name in ("Name", "NAME"):
            assert not os.path.exists(f"{directory}/{name}")
            with open(f"{directory}/{name}", "w", encoding="ascii") as stream:
                stream.write(name)
        os.unlink(f"{directory}/Name")
        assert not os.path.exists(f"{directory}/Name") and open(f"{directory}/NAME", encoding="ascii").read() == "NAME"


def named(top, work, first, second):
    """What comes out of one operation on names."""
    first, second = f"{top}/{first}", f"{top}/{second}"
    try:
        match work:
            case "make":
                os.close(os.open(first, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            case "rename" | "link":
                getattr(os, work)(first, second)
            case "listdir":
                return sorted(os.listdir(os.path.dirname(first)))
            case "lstat":
                found = os.lstat(first)
                return stat.S_ISDIR(found.st_mode) or found.st_nlink
            case _:
                getattr(os, work)(first)
    except OSError as error:
        return error.errno
    return None


@pytest.mark.needs("mkntfs")
def test_random_names_on_ntfs(work):
    """Names that differ in case only, in three directories: as in a directory of the host."""
    chosen, model = random.Random(1), f"{work}/model"
    image = host.sparse_file(f"{work}/disk.img", 64 * MEGABYTE)
    host.run("mkntfs", "-q", "-F", "-f", image)
    names = [f"{directory}{name}" for directory in ("", "one/", "one/two/") for name in ("a", "A", "long name", "Long Name", "x.txt", "X.TXT")]
    with mounted(image) as directory:
        for top in (model, directory):
            os.makedirs(f"{top}/one/two", exist_ok=True)
        for number in range(4000):
            what = chosen.choice(["make", "make", "unlink", "mkdir", "rmdir", "rename", "link", "lstat", "lstat", "listdir"])
            first, second = chosen.choice(names), chosen.choice(names)
            ours, theirs = named(directory, what, first, second), named(model, what, first, second)
            assert ours == theirs, f"operation {number}, {what} {first} {second}"


def test_subvolumes(work):
    image = images.make(f"{work}/disk.img", "btrfs", 256)
    with host.loop_mount(image, "btrfs") as directory:
        for name in ("one", "two"):
            host.run("btrfs", "subvolume", "create", f"{directory}/{name}")
            shutil.copy("/etc/hostname", f"{directory}/{name}/{name}")
    with mounted(image) as directory:
        assert sorted(os.listdir(directory)) == ["one", "two"]
        assert os.listdir(f"{directory}/one") == ["one"] and os.listdir(f"{directory}/two") == ["two"]
        assert len({os.stat(f"{directory}/{name}").st_ino for name in ("one", "two", ".")}) == 3
    check(image, "btrfs")
