# SPDX-License-Identifier: GPL-2.0-only
"""Damage that makes a listing or a file endless: commands end, say what is damaged, and can be
interrupted.
"""

import json
import os
import random
import re
import signal
import struct
import subprocess
import time

import pytest

from support import hfsplus, host, images, program
from support.images import MEGABYTE
from support.processes import wait_until_caught
from support.program import bad

# Commands that list directories.
LISTING = ("ls -R {0}", "find {0}", "du {0}", "tree {0}", "tar-out {0}",
           "lsattr -R {0}", "cp -r {0} {1}/copied",  "rm -r {0}/many",
           "getfattr -R {0}", "diff {0} {1}/source")
# Seconds in which an interrupted command must end.
SOON = 60


def make_names(directory, count):
    """A directory `many` of empty files."""
    many = os.path.join(directory, "source", "many")
    os.makedirs(many)
    for number in range(count):
        with open(os.path.join(many, f"name-{number:04}"), "w", encoding="ascii"):
            pass
    return os.path.join(directory, "source")


@pytest.fixture
def turning(work):
    """A UDF image whose directory has a record that is none: the kernel gives the name before it
    again and again.
    """
    tree = make_names(work, 100)
    image = host.sparse_file(os.path.join(work, "disk.udf"), 16 * MEGABYTE)
    host.run("mkudffs", "--blocksize=512", image)
    program.good("cp", "-r", os.path.join(tree, "many"), f"{image}:/")
    with open(image, "r+b") as stream:
        # Names follow 38 bytes of their record and the byte that tells how they are coded. The
        # record begins with its tag.
        records = list(re.finditer(rb"\x01\x01.{36}\x08name-", stream.read(), re.DOTALL))
        stream.seek(records[len(records) // 2].start())
        stream.write(b"\x70\x01")
    return f"{image}:"


def pointed_at(path, command):
    """The words that debugfs prints about an image."""
    return host.run("debugfs", "-R", command, path).stdout.split()


def make_swollen(directory, megabytes):
    """An ext2 image with a directory of a million blocks, which are all the same one."""
    tree = make_names(directory, 100)
    with open(os.path.join(tree, "spare"), "wb") as stream:
        stream.write(b"spare" * 1500)
    image = host.sparse_file(os.path.join(directory, "disk.ext2"), megabytes * MEGABYTE)
    host.run("mke2fs", "-q", "-t", "ext2", "-b", "4096", "-O", "^dir_index", "-d", tree, image)
    names = int(pointed_at(image, "blocks /many")[0])
    tables = [int(block) for block in pointed_at(image, "blocks /spare")]
    with open(image, "r+b") as stream:
        for table, block in zip(tables, (names, tables[0])):
            stream.seek(table * 4096)
            stream.write(struct.pack("<I", block) * 1024)
    for field, value in (("block[DIND]", tables[1]), ("size", 0xfff00000)):
        host.run("debugfs", "-w", "-R", f"sif /many {field} {value}", image)
    return f"{image}:"


@pytest.mark.parametrize("command", LISTING, ids=lambda command: command.split()[0])
def test_a_listing_that_turns_back(work, turning, command):
    words = command.format(turning + "/", work).replace("//", "/").split()
    done = program.run(*words, timeout=30)
    assert done.code in (1, 2), done
    assert ("many: damaged: its listing does not end" in done.err.replace("many/", "many")
            + done.out), done


def test_the_names_before_the_damage_are_listed(turning):
    done = bad("find", f"{turning}/many", mentions=("listing does not end",))
    names = [line.rsplit("/", 1)[1] for line in done.out.splitlines()[1:]]
    assert len(names) == len(set(names)) and 10 < len(names) < 90, names


def test_more_names_than_fit(work):
    """Every position is another one: only their number tells."""
    place = make_swollen(work, 1)
    bad("find", f"{place}/many", "-name", "absent",
        mentions=("many", "more names than the file system can hold"), timeout=60)


@pytest.mark.parametrize("command",
                         ("find {0}", "ls {0}", "tar-out {0}", "cp -r {0} {1}/copied", "du {0}"),
                         ids=lambda command: command.split()[0])
def test_a_listing_is_interrupted(work, command):
    place = make_swollen(work, 64)
    words = command.format(f"{place}/many", work).split()
    with subprocess.Popen(program.command(*words), stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as running:
        wait_until_caught(running.pid, signal.SIGINT)
        time.sleep(1)
        assert running.poll() is None, running.stderr.read()
        running.send_signal(signal.SIGINT)
        started = time.monotonic()
        try:
            running.wait(20)
        finally:
            running.kill()
        assert time.monotonic() - started < SOON
        assert running.returncode == 130


# Sizes that the file gets, and what the superblock claims to have in blocks of 4096 bytes. A
# remainder of 1671 bytes keeps the end of the file where EROFS stores it: beside the inode, where
# it can be read.
REMAINDER = 1234567 % 4096
SIZES = {"last byte lost": (90 << 40, None), "last byte there": ((1 << 48) + REMAINDER, None),
         "superblock lies": ((1 << 43) + REMAINDER, 0xffffffff)}


def make_files(work):
    tree = os.path.join(work, "source")
    os.makedirs(tree)
    for name, size in (("good", 5000), ("long", 1234567)):
        with open(os.path.join(tree, name), "wb") as stream:
            stream.write(os.urandom(size))
    return tree


def write_at(path, place, content):
    with open(path, "r+b") as stream:
        stream.seek(place)
        stream.write(content)


def find_in(path, content):
    with open(path, "rb") as stream:
        return stream.read().index(content)


def make_erofs(work, size, blocks):
    """An EROFS image with a file whose size is damaged, after another one."""
    image = os.path.join(work, "disk.erofs")
    host.run("mkfs.erofs", "-Eforce-inode-extended", image, make_files(work))
    write_at(image, find_in(image, struct.pack("<Q", 1234567)), struct.pack("<Q", size))
    # The superblock's compatible features: no checksum of it.
    write_at(image, 1024 + 8, bytes(4))
    if blocks:
        write_at(image, 1024 + 36, struct.pack("<I", blocks))
    return image


def make_hfsplus(work, size, _blocks):
    """The same in HFS+, whose numbers are big-endian."""
    image = os.path.join(work, "disk.hfsplus")
    hfsplus.make(image, 32)
    program.good("cp", "-r", f"{make_files(work)}/.", f"{image}:/")
    write_at(image, find_in(image, struct.pack(">Q", 1234567)), struct.pack(">Q", size))
    return image


@pytest.mark.parametrize("make, size", [
    *[pytest.param(make_erofs, size, id=f"erofs-{name}") for name, size in SIZES.items()],
    pytest.param(make_hfsplus, (1 << 48, None), id="hfsplus")])
def test_a_size_beyond_belief(work, make, size):
    """It does not become an archive of terabytes of zeros, nor anything else: the error comes
    before the first byte.
    """
    image = make(work, *size)
    archive, copy = os.path.join(work, "all.tar"), os.path.join(work, "copied")
    why = ("long", f"damaged: its size is {size[0]}")
    bad("tar-out", "--ro", f"{image}:/", "-f", archive, mentions=why, timeout=60)
    assert host.run("tar", "-tf", archive).stdout.split() == ["./", "./good"]
    bad("cp", "--ro", "-r", f"{image}:/", copy, mentions=why, timeout=60)
    assert os.listdir(copy) == ["good"]
    with open(os.path.join(work, "old"), "wb") as stream:
        stream.write(b"old")
    bad("cp", "--ro", f"{image}:/long", stream.name, mentions=why, timeout=60)
    assert os.path.getsize(stream.name) == 3
    assert bad("cat", "--ro", f"{image}:/long", mentions=why, timeout=60).raw == b""


def test_files_that_are_larger_than_their_file_system(work):
    """By holes, or because they are compressed: no damage."""
    tree, archive = os.path.join(work, "tree"), os.path.join(work, "all.tar")
    os.makedirs(tree)
    with open(os.path.join(tree, "file"), "wb") as stream:
        stream.write(b"begin")
        stream.truncate(1 << 40)
    image = images.make_ext4_of(f"{work}/disk.ext4", tree, 16)
    program.good("tar-out", f"{image}:/", "-f", archive)
    assert os.path.getsize(archive) < MEGABYTE
    program.good("cp", "-r", f"{image}:/file", f"{work}/copied")
    copied = os.stat(f"{work}/copied")
    assert copied.st_size == 1 << 40 and copied.st_blocks < 1000
    with open(os.path.join(tree, "file"), "wb") as stream:
        stream.write(b"x" * 32 * MEGABYTE)
    host.run("mksquashfs", tree, f"{work}/disk.squashfs", "-quiet", "-no-progress")
    assert os.path.getsize(f"{work}/disk.squashfs") < MEGABYTE
    assert program.good("cat", f"{work}/disk.squashfs:/file").raw == b"x" * 32 * MEGABYTE


def test_output_stops_at_the_first_unreadable_block(work):
    tree = os.path.join(work, "tree")
    os.makedirs(tree)
    content = random.Random(5).randbytes(100_000)
    with open(os.path.join(tree, "file"), "wb") as stream:
        stream.write(content)
    image = host.sparse_file(f"{work}/disk.ext2", 16 * MEGABYTE)
    host.run("mke2fs", "-q", "-t", "ext2", "-b", "4096", "-d", tree, image)
    # The 12 blocks that the inode names stay; the block that names the others is nonsense.
    numbers = struct.pack("<2I", *(int(pointed_at(image, f"bmap /file {index}")[-1])
                                   for index in (12, 13)))
    write_at(image, find_in(image, numbers), b"\xff" * 4)
    done = bad("cat", f"{image}:/file", mentions=("cannot read", "file"))
    assert len(done.raw) == 12 * 4096 and content.startswith(done.raw)
    bad("cp", f"{image}:/file", f"{work}/copied", mentions=("cannot read", "file"))
    assert not os.path.exists(f"{work}/copied")


def make_unreadable(work, size, megabytes=16):
    """An ext2 image with /good and /long. In /long 4 MiB cannot be read, behind 8 MiB."""
    tree = os.path.join(work, "tree")
    os.makedirs(tree)
    for name, length in (("good", 5000), ("long", 12 * 4096), ("spare", 7500)):
        with open(os.path.join(tree, name), "wb") as stream:
            stream.write(name.encode() * (length // len(name)))
    image = host.sparse_file(f"{work}/disk.ext2", megabytes * MEGABYTE)
    host.run("mke2fs", "-q", "-t", "ext2", "-b", "4096", "-N", "64", "-d", tree, image)
    data = int(pointed_at(image, "blocks /long")[0])
    table, tables = (int(block) for block in pointed_at(image, "blocks /spare"))
    write_at(image, table * 4096, struct.pack("<I", data) * 1024)
    write_at(image, tables * 4096, struct.pack("<I", table) * 1024)
    write_at(image, tables * 4096 + 4, struct.pack("<I", 0xffffffff))
    for field, value in (("block[IND]", table), ("block[DIND]", tables), ("size", size)):
        host.run("debugfs", "-w", "-R", f"sif /long {field} {value}", image)
    return image


def names_in(archive):
    return host.run("tar", "-tf", archive).stdout.split()


def test_zeros_in_an_archive_stand_for_what_cannot_be_read(work):
    image, archive = make_unreadable(work, 20 * MEGABYTE), f"{work}/all.tar"
    bad("tar-out", f"{image}:/", "-f", archive, mentions=("cannot read", "long"))
    os.makedirs(f"{work}/out")
    host.run("tar", "-xf", archive, "-C", f"{work}/out")
    with open(f"{work}/out/long", "rb") as stream:
        content = stream.read()
    readable = 12 * 4096 + 8 * MEGABYTE
    assert len(content) == 20 * MEGABYTE and content[readable - 4096:readable].startswith(b"long")
    assert not any(content[readable:]), "output goes on behind the first unreadable block"
    assert os.path.getsize(f"{work}/out/good") == 5000 and os.path.exists(f"{work}/out/spare")


def test_zeros_in_an_archive_are_limited(work):
    """A small image does not become gigabytes of zeros, nor an archive that looks complete."""
    image, archive = make_unreadable(work, 2 << 30), f"{work}/all.tar"
    bad("tar-out", f"{image}:/", "-f", archive,
        mentions=("cannot read", "long", "not complete", "--exclude"))
    assert not os.path.exists(archive)
    done = bad("tar-out", f"{image}:/", mentions=("not complete",))
    assert len(done.raw) < 16 * MEGABYTE
    program.good("tar-out", f"{image}:/", "-f", archive, "--exclude", "long")
    assert names_in(archive) == ["./", "./good", "./lost+found/", "./spare"]


def test_a_file_whose_end_is_lost_is_left_out(work):
    """It is too large for zeros, and the rest of the archive is made."""
    size = (12 << 20) + 12 * 4096 + (1 << 30)
    image, archive = make_unreadable(work, size, 2048), f"{work}/all.tar"
    # The last table.
    tables = int(pointed_at(image, "blocks /spare")[1])
    write_at(image, tables * 4096 + 4 * 257, struct.pack("<I", 0xffffffff))
    bad("tar-out", f"{image}:/", "-f", archive,
        mentions=("cannot read", "long", f"byte {size - 1}"))
    assert names_in(archive) == ["./", "./good", "./lost+found/", "./spare"]


@pytest.mark.needs("mkfs.nilfs2")
def test_a_nilfs2_whose_last_log_is_damaged(work):
    """Linux mounts the checkpoint before it, without an error."""
    image = os.path.join(work, "disk.nilfs2")
    program.good("mkfs", "nilfs2", image, "--size", "160M")
    for name in ("first", "second", "last"):
        with open(os.path.join(work, name), "wb") as stream:
            stream.write(os.urandom(300_000))
        program.good("cp", stream.name, f"{image}:/")
    with open(image, "rb") as stream:
        superblock = stream.read(2048)[1024:]
    last, = struct.unpack_from("<Q", superblock, 64)
    # Behind the first block, the log's summary, are its contents.
    write_at(image, (last + 1) * 4096 + 100, b"\xff" * 64)
    why = (f"{image}: damaged: its last log", "invalid segment")
    for words in (("cp", "-r", f"{image}:/.", os.path.join(work, "copied")),
                  ("ls", f"{image}:/"), ("tar-out", f"{image}:/")):
        bad(*words, mentions=why)
    assert os.path.exists(os.path.join(work, "copied", "first"))
    assert not os.path.exists(os.path.join(work, "copied", "last"))
    bad("diff", f"{image}:/", os.path.join(work, "copied"), code=2, mentions=why)
    # Each line of a script that uses the older state fails, and no other.
    other = images.make(os.path.join(work, "other"), "ext4")
    script = os.path.join(work, "script")
    with open(script, "w", encoding="ascii") as stream:
        stream.write(2 * f"ls --json {image}:/\n" + f"ls --json {other}:/\n")
    result = bad("run-script", "--keep-going", script,
                 mentions=(*why, *(f"script:{line}: failed with exit code 1" for line in (1, 2))))
    assert result.err.count(why[0]) == 2, result
    ends = [json.loads(line)["ok"] for line in result.out.splitlines() if '"ok"' in line]
    assert ends == [False, False, True], result
