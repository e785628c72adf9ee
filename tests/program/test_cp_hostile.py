# SPDX-License-Identifier: GPL-2.0-only
"""Images made to do harm, and host directories where somebody else works at the same time."""

import os
import signal
import stat
import struct
import subprocess
import time

import pytest

from support import host, images, program
from support.images import MEGABYTE
from support.json_output import lines
from support.program import bad, good, run

# Long enough that a test does something meanwhile, in microseconds as strace has it.
PAUSE = 2_000_000
# Enough that 2**LEVELS of anything never ends.
LEVELS = 30
# So that debugfs and we may write directories as they are.
PLAIN = ("-O", "^metadata_csum,^dir_index")


def debugfs(image, *commands):
    host.run("debugfs", "-w", "-f", "-", image, input="\n".join(commands) + "\n")


def strace(log, *options):
    """A prefix that traces the program. Skips where processes may not be traced."""
    if (not host.have("strace")
        or host.run("strace", "-o", "/dev/null", "true", ok=None).returncode != 0):
        pytest.skip("strace is missing or may not trace")
    return ("strace", "-f", "-qq", "-o", log, *options)


def wait_until(holds):
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def write(path, content=b"content"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(content)
    return path


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


# ---- images ----


@pytest.fixture
def braid(work):
    """Directories that have two names on each of many levels: paths without end, though the image
    is small.
    """
    image = images.make(f"{work}/braid.img", "ext4", 32, *PLAIN)
    commands = []
    for level in range(LEVELS):
        here = "/d" * level
        commands += [f"mkdir {here}/d", f"ln {here}/d {here}/e"]
    debugfs(image, *commands, f"write {write(work + '/leaf')} {'/d' * LEVELS}/leaf")
    return image


def test_cp_of_directories_with_two_names(work, braid):
    result = bad("cp", "-r", f"{braid}:/", f"{work}/out", mentions=("two names",), timeout=60)
    # The first 20 failures of a reason are named.
    assert result.err.count("/e: the directory has two names") == 20
    assert f"and {LEVELS - 20} more failures of this kind" in result.err
    assert sum(names.count("leaf") for _, _, names in os.walk(f"{work}/out")) == 1


def test_a_source_may_be_named_twice(work):
    write(f"{work}/tree/sub/leaf")
    os.makedirs(f"{work}/other")
    good("cp", "--force", "-r", f"{work}/tree", f"{work}/tree/sub", f"{work}/other")
    assert read(f"{work}/other/tree/sub/leaf") == read(f"{work}/other/sub/leaf")


def test_ls_of_directories_with_two_names(braid):
    result = bad("ls", "-R", f"{braid}:/", mentions=("two names",), timeout=60)
    assert result.out.split().count("leaf") == 1


def test_false_block_count(work):
    """A hole of 200 MB that the inode says is full of blocks."""
    os.mkdir(f"{work}/tree")
    host.sparse_file(f"{work}/tree/holes", 200 * MEGABYTE)
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    debugfs(image, f"sif /holes blocks {200 * MEGABYTE // 512}")
    good("cp", f"{image}:/holes", f"{work}/out")
    info = os.stat(f"{work}/out")
    assert info.st_size == 200 * MEGABYTE and info.st_blocks < 100


@pytest.mark.parametrize("size", [1, 5000, 3 * MEGABYTE, 20 * MEGABYTE])
def test_files_without_holes(work, size):
    write(f"{work}/tree/file", os.urandom(size))
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    good("cp", "-a", f"{image}:/file", f"{work}/out")
    good("cp", "-a", f"{image}:/file", f"{image}:/inside")
    good("cp", "-a", f"{image}:/inside", f"{work}/again")
    assert read(f"{work}/out") == read(f"{work}/again") == read(f"{work}/tree/file")


def test_fifo_in_an_image(work):
    os.mkdir(f"{work}/tree")
    os.mkfifo(f"{work}/tree/fifo")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    bad("cp", f"{image}:/fifo", f"{work}/out", mentions=("/fifo: it is a FIFO",), timeout=20)
    assert not os.path.exists(f"{work}/out")
    bad("cat", f"{image}:/fifo", mentions=("/fifo: it is a FIFO",), timeout=20)
    good("cp", "-r", f"{image}:/fifo", f"{work}/copied", timeout=20)
    assert stat.S_ISFIFO(os.stat(f"{work}/copied").st_mode)


def test_bad_inode_in_a_listing(work):
    for name in ("bad", "good"):
        write(f"{work}/tree/folder/{name}")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    debugfs(image, "clri /folder/bad")
    result = bad("ls", "-l", f"{image}:/folder", mentions=("folder/bad",))
    unknown, known = result.out.splitlines()[1:]
    assert unknown.startswith("?????????") and unknown.endswith(" bad")
    assert known.startswith("-rw") and known.endswith(" good")
    shown = lines(bad("ls", "--json", f"{image}:/folder", mentions=("folder/bad",)))
    assert [entry["path"] for entry in shown[1:-1]] == [f"{image}:/folder/good"]
    assert [error["path"] for error in shown[-1]["errors"]] == [f"{image}:/folder/bad"]


def test_directory_entry_that_lies(work):
    """The directory says that a file is one too."""
    write(f"{work}/tree/liar", b"true\n")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree", 64, *PLAIN)
    content = read(image)
    name = content.index(struct.pack("BB", 4, 1) + b"liar")
    with open(image, "r+b") as stream:
        stream.seek(name + 1)
        stream.write(b"\2")
    good("cp", "-r", f"{image}:/", f"{work}/out")
    assert read(f"{work}/out/liar") == b"true\n"


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("command", ["ls", "stat"])
def test_one_bad_operand_of_several(work, command, options):
    write(f"{work}/tree/file")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    places = (f"{work}/none.img:/x", f"{image}:/absent", f"{image}:/file")
    result = bad(command, *options, *places, mentions=("none.img", "absent"))
    assert "file" in result.out


# ---- the host, where somebody else replaces what was just made ----


def test_mode_does_not_follow_a_link(work):
    os.makedirs(f"{work}/out")
    os.mkfifo(f"{work}/fifo")
    os.chmod(f"{work}/fifo", 0o777)
    victim = write(f"{work}/victim")
    os.chmod(victim, 0o600)
    prefix = strace(f"{work}/log", "-e", "trace=mknodat", "-e",
                    f"inject=mknodat:delay_exit={PAUSE}")
    with subprocess.Popen([*prefix,
                           *program.command("cp", "--force", "-a", f"{work}/fifo",
                                            f"{work}/out/")], stderr=subprocess.PIPE) as running:
        wait_until(lambda: os.path.lexists(f"{work}/out/fifo"))
        os.unlink(f"{work}/out/fifo")
        os.symlink(victim, f"{work}/out/fifo")
        message = running.stderr.read().decode()
        assert running.wait(timeout=30) == 1, message
    assert "replaced" in message
    assert stat.S_IMODE(os.stat(victim).st_mode) == 0o600


def test_hard_link_does_not_follow_a_link(work):
    write(f"{work}/tree/a/f")
    os.makedirs(f"{work}/tree/b")
    os.link(f"{work}/tree/a/f", f"{work}/tree/b/f")
    secret = write(f"{work}/elsewhere/f", b"secret")
    prefix = strace(f"{work}/log", "-e", "trace=linkat", "-e", f"inject=linkat:delay_enter={PAUSE}")
    with subprocess.Popen([*prefix, *program.command("cp", "--force", "-a", f"{work}/tree/.",
                                                     f"{work}/out", vcpus=1)]) as running:
        wait_until(lambda: read_if_there(f"{work}/log"))
        names = {"a", "b"}
        first, = [name for name in names if os.path.exists(f"{work}/out/{name}/f")]
        os.rename(f"{work}/out/{first}", f"{work}/out/moved")
        os.symlink(f"{work}/elsewhere", f"{work}/out/{first}")
        assert running.wait(timeout=30) == 0
    second, = names - {first}
    assert not os.path.samefile(f"{work}/out/{second}/f", secret)
    assert read(f"{work}/out/{second}/f") == b"content"


def read_if_there(path):
    return os.path.exists(path) and read(path)


def test_hard_links_of_all_kinds(work):
    write(f"{work}/tree/a/file")
    os.symlink("file", f"{work}/tree/a/link")
    os.mkfifo(f"{work}/tree/a/fifo")
    os.mkdir(f"{work}/tree/b")
    names = ("file", "link", "fifo")
    for name in names:
        os.link(f"{work}/tree/a/{name}", f"{work}/tree/b/{name}", follow_symlinks=False)
    image = images.make(f"{work}/disk.img", "ext4")
    good("cp", "-a", f"{work}/tree", f"{image}:/tree")
    good("cp", "-a", f"{image}:/tree", f"{work}/out")
    for name in names:
        assert os.lstat(f"{work}/out/a/{name}").st_ino == os.lstat(f"{work}/out/b/{name}").st_ino


def test_what_is_not_a_file_is_not_opened(work):
    os.mkdir(f"{work}/tree")
    os.mkfifo(f"{work}/tree/fifo")
    good("cp", "--force", "-r", f"{work}/tree", f"{work}/out",
         prefix=strace(f"{work}/log", "-e", "trace=open,openat,openat2"))
    assert stat.S_ISFIFO(os.stat(f"{work}/out/fifo").st_mode)
    assert b'"fifo"' not in read(f"{work}/log")


def test_a_secret_is_never_readable(work):
    """A new file begins with its owner's rights alone. The mode of a file that is overwritten
    changes before the first byte.
    """
    secret, old = write(f"{work}/secret"), write(f"{work}/old", b"")
    os.chmod(secret, 0o600)
    os.chmod(old, 0o666)
    good("cp", "--force", "-a", secret, old,
         prefix=strace(f"{work}/log", "-y", "-e", "trace=fchmod,write,pwrite64,copy_file_range"))
    calls = [line for line in read(f"{work}/log").decode().splitlines() if f"<{old}>" in line]
    assert "fchmod" in calls[0] and "0600" in calls[0], calls
    assert any("fchmod" not in line for line in calls), calls
    good("cp", "--force", "-a", secret, f"{work}/new",
         prefix=("sh", "-c", 'umask 0; exec "$@"', "sh",
                 *strace(f"{work}/log", "-e", "trace=openat,openat2")))
    calls = [line for line in read(f"{work}/log").decode().splitlines()
             if '"new"' in line and "O_CREAT" in line]
    assert calls and all("0600" in line for line in calls), calls


@pytest.mark.needs_root
def test_a_copy_has_no_special_bits_before_its_owner(work):
    """Else anybody could run a set-user-id file of an image as root in between."""
    program_file = write(f"{work}/tree/program")
    os.chown(program_file, 1234, 1234)
    os.chmod(program_file, 0o6755)
    image = images.make(f"{work}/disk.img", "ext4")
    good("cp", "-a", f"{work}/tree", f"{image}:/tree")
    good("cp", "-a", f"{image}:/tree", f"{work}/out",
         prefix=strace(f"{work}/log", "-e", "trace=openat,openat2,mknodat,fchmod,fchmodat,fchown,"
                       "fchownat"))
    calls = [line for line in read(f"{work}/log").decode().splitlines()
             if '"program"' in line and "O_CREAT" in line]
    assert calls and all("0600" in line or "0700" in line for line in calls), calls
    made = os.stat(f"{work}/out/program")
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (1234, 0o6755)


# ---- copies that fail ----


def test_failed_close(work):
    source = write(f"{work}/source")
    prefix = strace(f"{work}/log", "-P", f"{work}/out", "-e", "trace=close",
                    "-e", "inject=close:error=EIO")
    bad("cp", "--force", source, f"{work}/out", mentions=("cannot write", "out", "input/output"),
        prefix=prefix)
    assert not os.path.exists(f"{work}/out")


def test_full_host(work):
    """No part of a file stays, and directories that were made have their attributes."""
    write(f"{work}/tree/folder/file")
    os.utime(f"{work}/tree/folder", (10**9, 10**9))
    calls = "copy_file_range,write,pwrite64"
    prefix = strace(f"{work}/log", "-P", f"{work}/out/folder/file", "-e",
                    f"trace={calls}", "-e", f"inject={calls}:error=ENOSPC")
    bad("cp", "--force", "-a", f"{work}/tree", f"{work}/out",
        mentions=("out/folder/file", "no space"), prefix=prefix)
    assert os.listdir(f"{work}/out/folder") == []
    assert os.stat(f"{work}/out/folder").st_mtime == 10**9


@pytest.mark.parametrize("existed", [False, True], ids=["new", "overwritten"])
def test_interrupted(work, existed):
    os.mkfifo(f"{work}/fifo")
    if existed:
        write(f"{work}/out", b"")
    with subprocess.Popen(program.command("cp", "--force", f"{work}/fifo",
                                          f"{work}/out"), stderr=subprocess.PIPE) as running:
        with open(f"{work}/fifo", "wb", buffering=0) as writer:
            writer.write(b"a")
            wait_until(lambda: read_if_there(f"{work}/out"))
            running.send_signal(signal.SIGINT)
            message = running.stderr.read().decode()
            assert running.wait(timeout=30) == 130, message
    assert "removed" in message
    assert os.path.exists(f"{work}/out") == existed
    assert ("only a part" in message) == existed


def test_what_is_half_overwritten_is_named(work):
    """Also when it was reading that failed: what was in the file is gone."""
    image = images.make(f"{work}/disk.img", "ext4")
    good("cp", f"{program.REPOSITORY}/Makefile", f"{image}:/file")
    bad("cp", "/proc/self/mem", f"{image}:/file", mentions=(f"{image}:/file has only a part",))
    bad("cp", "/proc/self/mem", f"{image}:/new")
    assert "new" not in good("ls", f"{image}:/").out
