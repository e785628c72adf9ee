# SPDX-License-Identifier: GPL-2.0-only
"""Bad input: a message that names the thing and the reason, the right exit code, no crash, no hang,
nothing lost.
"""

import os
import shutil
import signal
import subprocess
import time

import pytest

from support import host, images, program, trees
from support.images import MEGABYTE
from support.nobody import as_nobody
from support.processes import wait_until_closed, wait_until_it_waits
from support.program import bad, good

HUGE = 70 * 1024 * MEGABYTE


@pytest.fixture
def image(work):
    """An ext4 image with a few files."""
    tree = os.path.join(work, "source")
    os.makedirs(os.path.join(tree, "folder"))
    for name in ("hello", "folder/inner"):
        with open(os.path.join(tree, name), "w", encoding="ascii") as stream:
            stream.write("hello\n" * 1000)
    return images.make_ext4_of(os.path.join(work, "disk.img"), tree)


@pytest.fixture
def squash(work):
    os.makedirs(os.path.join(work, "squash-source"))
    path = os.path.join(work, "squash.img")
    host.run("mksquashfs", os.path.join(work, "squash-source"), path, "-quiet", "-no-progress")
    return path


@pytest.fixture(scope="module")
def big_file(tmp_path_factory):
    """400 MB that cannot be compressed: copying it takes a while."""
    path = str(tmp_path_factory.mktemp("big") / "big")
    images.write_noise(path, 400)
    yield path
    os.unlink(path)


@pytest.fixture
def nobody():
    with as_nobody() as user:
        yield user


# ---- images that are none ----


def test_missing_image(work):
    bad("ls", f"{work}/absent.img:/", mentions=("absent.img", "no such file"))


def test_directory_as_image(work):
    bad("ls", f"{work}:/", mentions=(work, "directory"))


def test_empty_image(work):
    bad("ls", f"{host.sparse_file(work + '/empty.img', 0)}:/", mentions=("empty.img", "empty"))


def test_zeros(work):
    bad("ls", f"{host.sparse_file(work + '/zeros.img', 8 * MEGABYTE)}:/", mentions=("zeros.img",))


def test_random_bytes(work):
    bad("ls", f"{images.write_noise(work + '/noise.img', 8)}:/", mentions=("noise.img",))
    assert program.run("info", f"{work}/noise.img").code in (0, 1)


@pytest.mark.parametrize("size", [512, 4096, MEGABYTE, 30 * MEGABYTE, 63 * MEGABYTE])
def test_truncated(image, size):
    os.truncate(image, size)
    bad("ls", "-R", f"{image}:/", mentions=("disk.img",))
    assert program.run("info", image).code in (0, 1)


@pytest.mark.parametrize("offset, patch", [(1024 + 0x38, b"\0\0"), (1024 + 0x18, b"\xff\xff"),
                                           (1024 + 0x04, b"\xff" * 8)],
                         ids=["magic", "block-size", "blocks"])
def test_corrupt_superblock(image, offset, patch):
    with open(image, "r+b") as stream:
        stream.seek(offset)
        stream.write(patch)
    bad("ls", f"{image}:/", mentions=("disk.img",))


def test_unknown_type_named(image):
    result = program.run("ls", "--type", "nosuchfs", f"{image}:/")
    assert result.code in (1, 2) and "nosuchfs" in result.err, str(result)


def test_wrong_type_named(image):
    bad("ls", "--type", "xfs", f"{image}:/", mentions=("disk.img", "xfs"))


def test_no_partition_table(image):
    bad("ls", f"{image}@1:/", mentions=("disk.img", "partition"))


def test_no_such_partition(work, image):
    disk = images.partitioned(f"{work}/gpt.img", "label: gpt\nstart=2048, size=131072\n",
                              {2048: image})
    good("ls", f"{disk}@1:/")
    bad("ls", f"{disk}@9:/", mentions=("gpt.img", "9"))


# ---- paths ----


@pytest.mark.parametrize("command", ["ls", "cat", "stat"])
def test_no_such_path(image, command):
    bad(command, f"{image}:/folder/absent", mentions=("absent", "no such file"))


def test_copy_of_missing_path(work, image):
    bad("cp", f"{image}:/absent", work, mentions=("absent", "no such file"))
    bad("cp", f"{work}/absent", f"{image}:/", mentions=("absent", "no such file"))
    bad("cp", f"{work}/source/hello", f"{image}:/absent/deeper/", mentions=("absent",))


def test_file_as_directory(image):
    bad("ls", f"{image}:/hello/inner", mentions=("hello", "not a directory"))


def test_directory_without_r(work, image):
    bad("cp", f"{image}:/folder", f"{work}/out", mentions=("folder", "directory"))
    bad("cat", f"{image}:/folder", mentions=("folder", "directory"))


def test_name_too_long(image):
    bad("cat", f"{image}:/{'n' * 300}", mentions=("too long",))


def test_name_too_long_for_the_type(work):
    """minix keeps 30 bytes of a name; the short name beside it must arrive."""
    disk = images.make(f"{work}/minix.img", "minix")
    os.mkdir(f"{work}/tree")
    for name in ("a" * 200, "short"):
        with open(f"{work}/tree/{name}", "w", encoding="ascii") as stream:
            stream.write("x")
    bad("cp", "-r", f"{work}/tree", f"{disk}:/", mentions=("aaaa", "too long"))
    assert good("cat", f"{disk}:/tree/short").out == "x"
    host.run("fsck.minix", "-f", disk)


# ---- usage ----


@pytest.mark.parametrize("words", [
    (), ("nosuchcommand",), ("ls",), ("cp",), ("cp", "one"), ("ls", "--nosuchoption", "x:/"),
    ("--vcpus", "0", "ls", "x:/"),
    ("--vcpus", "65", "ls", "x:/"), ("--vcpus", "many", "ls", "x:/"), ("stat",),
    ("cat",), ("info",)],
    ids=lambda words: " ".join(words) or "nothing")
def test_usage(words):
    bad(*words, code=2)


@pytest.mark.parametrize("command", ["ls", "cat", "stat"])
def test_a_host_path_is_no_image(work, command):
    result = program.run(command, work)
    assert result.code in (1, 2) and work in result.err, str(result)


# ---- rights ----


@pytest.mark.needs_root
def test_no_permission(nobody, image):
    os.chmod(image, 0o600)
    moved = shutil.move(image, os.path.join(os.path.dirname(nobody.program), "closed.img"))
    result = nobody.run("ls", f"{moved}:/")
    assert result.code == 1, str(result)
    assert "closed.img" in result.err, str(result)
    assert "permission denied" in result.err.lower(), str(result)


@pytest.mark.needs_root
@pytest.mark.needs("getfattr", "getfacl")
def test_read_only_copy_gets_all_attributes(nobody, image):
    """An ordinary user may set them only while the copy can be written: before its mode."""
    good("chmod", "0464", f"{image}:/hello")
    good("setfattr", "-n", "user.note", "-v", "kept", f"{image}:/hello")
    good("setfacl", "-m", "u:1000:r,g:50:rw,m::rw", f"{image}:/hello")
    moved = shutil.move(image, os.path.join(os.path.dirname(nobody.program), "open.img"))
    os.chmod(moved, 0o444)
    copy = os.path.join(os.path.dirname(nobody.program), "copy")
    result = nobody.run("cp", "-a", f"{moved}:/hello", copy)
    assert "extended attributes" not in result.err and "access control" not in result.err, result
    assert 'user.note="kept"' in host.run("getfattr", "-d", copy).stdout
    found = host.run("getfacl", "-n", "-p", copy).stdout
    for entry in ("user::r--", "user:1000:r--", "group:50:rw-", "mask::rw-", "other::r--"):
        assert entry in found, found


@pytest.mark.needs_root
def test_image_that_may_only_be_read(nobody, image):
    moved = shutil.move(image, os.path.join(os.path.dirname(nobody.program), "readable.img"))
    os.chmod(moved, 0o444)
    assert nobody.run("cat", f"{moved}:/hello").out == "hello\n" * 1000
    result = nobody.run("cp", "/etc/hostname", f"{moved}:/")
    assert result.code == 1, str(result)
    assert "readable.img" in result.err, str(result)
    assert "read" in result.err.lower(), str(result)


@pytest.mark.needs_root
def test_destination_that_may_not_be_written(nobody, image):
    home = os.path.dirname(nobody.program)
    moved = shutil.move(image, os.path.join(home, "open.img"))
    os.chmod(moved, 0o666)
    os.mkdir(os.path.join(home, "closed"), 0o755)
    result = nobody.run("cp", f"{moved}:/hello", os.path.join(home, "closed"))
    assert result.code == 1, str(result)
    assert "closed" in result.err, str(result)
    assert "permission denied" in result.err.lower(), str(result)


def test_read_only_file_system(work, squash):
    bad("cp", f"{program.REPOSITORY}/Makefile", f"{squash}:/", mentions=("squash.img", "read-only"))


def test_read_only_by_option(image):
    before = trees.sha256_of(image)
    bad("cp", "--ro", f"{program.REPOSITORY}/Makefile", f"{image}:/", mentions=("read-only",))
    assert trees.sha256_of(image) == before


# ---- room ----


def test_image_full(work, big_file):
    disk = images.make(f"{work}/small.img", "ext4", 32)
    bad("cp", big_file, f"{disk}:/", mentions=("small.img", "no space"))
    host.run("e2fsck", "-f", "-n", disk)
    good("ls", f"{disk}:/")


def test_output_full(image):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(program.command("cat", f"{image}:/hello"),
                              stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1 and b"no space" in done.stderr.lower(), done.stderr


def test_messages_that_cannot_be_printed(work):
    """A command does all its work, and ends as it does where they can be printed."""
    disk = images.make(f"{work}/disk.img", "vfat")
    for name in ("links", "file"):
        os.mkdir(f"{work}/{name}")
    for number in range(3):
        os.symlink("x", f"{work}/links/{number}")
    words = ("cp", "-r", f"{work}/links", f"{work}/file", f"{disk}:/")
    read, gone = os.pipe()
    os.close(read)
    with open("/dev/full", "w", encoding="ascii") as full, open(gone, "wb") as closed:
        for stderr in (full, closed):
            done = subprocess.run(program.command(*words), stderr=stderr, timeout=60, check=False)
            assert done.returncode == 1
            assert sorted(good("ls", f"{disk}:/").out.split()) == ["file", "links"]
            good("rm", "-r", f"{disk}:/links", f"{disk}:/file")


def test_closed_pipe(work):
    """`outboard cat ... | head -1` ends, quickly and quietly."""
    tree = f"{work}/tree"
    os.mkdir(tree)
    images.write_noise(f"{tree}/noise", 30)
    disk = images.make_ext4_of(f"{work}/pipe.img", tree)
    with subprocess.Popen(program.command("cat", f"{disk}:/noise"), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as running:
        running.stdout.read(10)
        running.stdout.close()
        message = running.stderr.read().decode()
        assert running.wait(timeout=30) == 141
    assert message == ""


@pytest.mark.parametrize("words", [("help",), ("--help",), ("--version",), ("cp", "--help")],
                         ids=" ".join)
def test_help_that_cannot_be_written(words):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(program.command(*words), stdout=full, stderr=subprocess.PIPE,
                              timeout=60, check=False)
    assert done.returncode == 1 and b"no space" in done.stderr.lower(), done


@pytest.mark.parametrize("words", ["ls", "cat", "--version", "tar-out"])
def test_no_standard_output(image, words):
    """As the shell starts it with >&-."""
    place = {"ls": f"{image}:/", "cat": f"{image}:/hello", "tar-out": f"{image}:/"}.get(words, "")
    line = f"'{program.PROGRAM}' {words} {place} >&-"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1 and b"bad file descriptor" in done.stderr.lower(), done


@pytest.mark.needs_root
@pytest.mark.skipif(not host.may_mount(), reason="a small file system for the image needs mounts")
def test_the_hosts_disk_is_full(work):
    """The file system in the image only knows of an error of its disk."""
    small = f"{work}/small"
    os.mkdir(small)
    host.run("mount", "-t", "tmpfs", "-o", "size=3M", "none", small)
    try:
        disk = images.make(f"{small}/disk.img", "ext4", 20)
        noise = images.write_noise(f"{work}/noise", 10)
        bad("cp", noise, f"{disk}:/",
            mentions=("disk.img: no space left on the host's file system",))
    finally:
        host.unmount(small)


# ---- sizes ----


@pytest.mark.parametrize("kind", ["ext4", "xfs", "vfat"])
def test_directory_of_5000_entries(work, kind):
    tree = f"{work}/tree"
    os.mkdir(tree)
    for number in range(5000):
        with open(f"{tree}/entry{number:05}", "wb"):
            pass
    disk = images.make(f"{work}/many.img", kind)
    good("cp", "-r", tree, f"{disk}:/")
    assert sorted(good("ls", f"{disk}:/tree").out.split()) == sorted(os.listdir(tree))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_file_over_4_gigabytes(work, kind):
    size = 5 * 1024 * MEGABYTE + 12345
    with open(f"{work}/large", "wb") as stream:
        stream.truncate(size)
        stream.seek(size - 5)
        stream.write(b"tail\n")
    disk = images.make(f"{work}/large.img", kind, 512)
    good("cp", "-a", f"{work}/large", f"{disk}:/")
    good("cp", "-a", f"{disk}:/large", f"{work}/back")
    info = os.stat(f"{work}/back")
    assert info.st_size == size and info.st_blocks * 512 < 64 * MEGABYTE
    with open(f"{work}/back", "rb") as stream:
        stream.seek(size - 5)
        assert stream.read() == b"tail\n"


def test_file_too_large_for_vfat(work):
    host.sparse_file(f"{work}/large", 5 * 1024 * MEGABYTE)
    disk = images.make(f"{work}/fat.img", "vfat")
    result = program.run("cp", f"{work}/large", f"{disk}:/")
    assert result.code == 1 and "large" in result.err, str(result)
    assert "too large" in result.err.lower() or "no space" in result.err.lower(), str(result)
    host.run("fsck.fat", "-n", disk)


@pytest.mark.parametrize("kind, check",
                         [("ext4", ("e2fsck", "-f", "-n")), ("xfs", ("xfs_repair", "-n", "-f"))])
def test_sparse_image_of_70_gigabytes(work, kind, check):
    disk = images.make(f"{work}/huge.img", kind, HUGE // MEGABYTE)
    good("cp", f"{program.REPOSITORY}/Makefile", f"{disk}:/")
    with open(f"{program.REPOSITORY}/Makefile", "rb") as stream:
        assert good("cat", f"{disk}:/Makefile").raw == stream.read()
    assert os.stat(disk).st_blocks * 512 < 2048 * MEGABYTE
    host.run(*check, disk)


# ---- interrupted, or two at once ----


def start_copy(big_file, disk, prefix=("env", "--default-signal")):
    """Starts a big copy and waits until it is in the middle: the image has grown by 50 MB."""
    before = os.stat(disk).st_blocks
    running = subprocess.Popen([*prefix, *program.command("cp", big_file, f"{disk}:/")],
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while os.stat(disk).st_blocks - before < 50 * MEGABYTE // 512:
        assert running.poll() is None, "the copy ended too soon"
        assert time.monotonic() < deadline, "the copy does not get on"
        time.sleep(0.005)
    return running


def test_second_writer(work, big_file):
    disk = images.make(f"{work}/shared.img", "ext4", 600)
    first = start_copy(big_file, disk)
    try:
        first.send_signal(signal.SIGSTOP)
        bad("cp", f"{program.REPOSITORY}/Makefile", f"{disk}:/", mentions=("shared.img", "use"))
    finally:
        first.send_signal(signal.SIGCONT)
    _, message = first.communicate(timeout=120)
    assert first.returncode == 0, message
    host.run("e2fsck", "-f", "-n", disk)


def test_a_second_interrupt_ends_it_at_once(image, work):
    """While it waits for somebody to read from a FIFO, and so cannot end well."""
    fifo = f"{work}/fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["env", "--default-signal", *program.command(
            "cp", f"{image}:/hello", fifo)], stderr=subprocess.PIPE) as running:
        wait_until_it_waits(running.pid, signal.SIGINT)
        running.send_signal(signal.SIGINT)
        running.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)
        # One within a second of the first is the first one again.
        deadline = time.monotonic() + 60
        while running.poll() is None and time.monotonic() < deadline:
            running.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert running.wait(10) == -signal.SIGINT
    images.check_ext4(image)
    assert good("cat", f"{image}:/hello").out == "hello\n" * 1000


@pytest.mark.parametrize("opened", [False, True], ids=["nobody", "idle"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_waiting_for_a_writer_is_interrupted(image, work, number, opened):
    """Whether or not somebody has opened the FIFO."""
    fifo = f"{work}/fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["env", "--default-signal", *program.command(
            "cp", fifo, f"{image}:/new")], stderr=subprocess.PIPE) as running:
        wait_until_it_waits(running.pid, number)
        writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK) if opened else None
        running.send_signal(number)
        try:
            assert running.wait(60) == 128 + number
        finally:
            running.kill()
            if opened:
                os.close(writer)
    images.check_ext4(image)
    bad("cat", f"{image}:/new", mentions=("no such file",))


def test_a_fifo_is_read(image, work):
    """From the moment on at which somebody writes to it."""
    fifo = f"{work}/fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(program.command("cp", fifo, f"{image}:/new"),
                          stderr=subprocess.PIPE) as running:
        time.sleep(0.3)
        with open(fifo, "wb", buffering=0) as writer:
            writer.write(b"one ")
            time.sleep(0.3)
            writer.write(b"two")
        assert running.wait(20) == 0, running.stderr.read()
    assert good("cat", f"{image}:/new").out == "one two"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
                         ids=lambda number: number.name)
def test_an_ignored_signal_stays_ignored(work, big_file, number):
    """As in the background of a script, or after `trap ''`."""
    disk = images.make(f"{work}/whole.img", "ext4", 600)
    name = number.name.removeprefix("SIG")
    running = start_copy(big_file, disk,
                         prefix=("env", "--default-signal", f"--ignore-signal={name}"))
    running.send_signal(number)
    _, message = running.communicate(timeout=120)
    assert running.returncode == 0, message
    host.run("e2fsck", "-f", "-n", disk)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
                         ids=lambda number: number.name)
def test_signal_amid_a_copy(work, big_file, number):
    """It ends well, or is killed: then the journal has the changes to repair."""
    disk = images.make(f"{work}/interrupted.img", "ext4", 600)
    good("cp", f"{program.REPOSITORY}/Makefile", f"{disk}:/kept")
    running = start_copy(big_file, disk)
    running.send_signal(number)
    _, message = running.communicate(timeout=120)
    if number == signal.SIGKILL:
        assert running.returncode == -number, message
        wait_until_closed(disk)
        images.check_ext4(disk)
    else:
        assert running.returncode == 128 + number and "interrupted" in message, message
        host.run("e2fsck", "-f", "-n", disk)
        assert good("ls", f"{disk}:/").out.split() == ["kept", "lost+found"]
    with open(f"{program.REPOSITORY}/Makefile", "rb") as stream:
        assert good("cat", f"{disk}:/kept").raw == stream.read()
