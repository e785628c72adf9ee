# SPDX-License-Identifier: GPL-2.0-only
"""Damage that makes a listing or a file endless: commands end, say what is damaged, and can be interrupted."""

import os
import re
import signal
import struct
import subprocess
import time

import pytest

from support import host, images, program
from support.images import MEGABYTE
from support.processes import wait_until_caught
from support.program import bad

# Commands that list directories.
LISTING = ("ls -R {0}", "find {0}", "du {0}", "tree {0}", "tar-out {0}", "lsattr -R {0}", "cp -r {0} {1}/copied",  "rm -r {0}/many",
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
    """A UDF image whose directory has a record that is none: the kernel gives the name before it again and again."""
    tree = make_names(work, 100)
    image = host.sparse_file(os.path.join(work, "disk.udf"), 16 * MEGABYTE)
    host.run("mkudffs", "--blocksize=512", image)
    program.good("cp", "-r", os.path.join(tree, "many"), f"{image}:/")
    with open(image, "r+b") as stream:
        # Names follow 38 bytes of their record and the byte that tells how they are coded. The record begins with its tag.
        records = list(re.finditer(rb"\x01\x01.{36}\x08name-", stream.read(), re.DOTALL))
        stream.seek(records[len(records) // 2].start())
        stream.write(b"\x70\x01")
    return f"{image}:"


def pointed_at(path, command):
    """What debugfs tells of an image."""
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
    assert "many: damaged: its listing does not end" in done.err.replace("many/", "many") + done.out, done


def test_the_names_before_the_damage_are_listed(turning):
    done = bad("find", f"{turning}/many", mentions=("listing does not end",))
    names = [line.rsplit("/", 1)[1] for line in done.out.splitlines()[1:]]
    assert len(names) == len(set(names)) and 10 < len(names) < 90, names


def test_more_names_than_fit(work):
    """Every position is another one: only their number tells."""
    place = make_swollen(work, 1)
    bad("find", f"{place}/many", "-name", "absent", mentions=("many", "more names than the file system can hold"), timeout=60)


@pytest.mark.parametrize("command", ("find {0}", "ls {0}", "tar-out {0}", "cp -r {0} {1}/copied", "du {0}"),
                         ids=lambda command: command.split()[0])
def test_a_listing_is_interrupted(work, command):
    place = make_swollen(work, 64)
    words = command.format(f"{place}/many", work).split()
    with subprocess.Popen(program.command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
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


@pytest.fixture
def huge(work):
    """An EROFS image with a file whose size is damaged, after another one."""
    tree = os.path.join(work, "source")
    os.makedirs(tree)
    for name, size in (("good", 5000), ("long", 1234567)):
        with open(os.path.join(tree, name), "wb") as stream:
            stream.write(os.urandom(size))
    image = os.path.join(work, "disk.erofs")
    host.run("mkfs.erofs", "-Eforce-inode-extended", image, tree)
    with open(image, "r+b") as stream:
        place = stream.read().index(struct.pack("<Q", 1234567))
        stream.seek(place)
        stream.write(struct.pack("<Q", 90 << 40))
        # The superblock's compatible features: no checksum of it.
        stream.seek(1024 + 8)
        stream.write(bytes(4))
    return f"{image}:"


def test_a_size_beyond_belief(work, huge):
    """It does not become an archive of 90 TiB of zeros."""
    archive = os.path.join(work, "all.tar")
    bad("tar-out", f"{huge}/", "-f", archive, mentions=("long", "damaged: its size is 98956046499840"), timeout=30)
    assert host.run("tar", "-tf", archive).stdout.split() == ["./", "./good"]
    bad("cp", "-r", f"{huge}/", os.path.join(work, "copied"), mentions=("long",), timeout=30)
    bad("cat", f"{huge}/long", mentions=("long",), timeout=30)


