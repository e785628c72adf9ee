# SPDX-License-Identifier: GPL-2.0-only
"""Images that make the kernel panic: the assertion, the next step, and exit code 70."""

import contextlib
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from support import host, mounts, program
from support.images import MEGABYTE
from support.program import PANIC, bad, good

NAMES = 300
SEED = 13
# In a page of a directory of JFS: where its kind is, and how many entries it has.
FLAG, ENTRIES = 16, 17
LEAF = 2
# In the superblock of JFS, which begins here: its state, of which 0 is clean.
SUPERBLOCK, STATE = 32768, 40


def make_tree(directory):
    tree = os.path.join(directory, "tree")
    os.makedirs(f"{tree}/many")
    for number in range(NAMES):
        with open(f"{tree}/many/a rather long name of a file {number:03}", "wb") as stream:
            stream.write(b"\xa5" * (1000 + number))
    return tree


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A JFS image with a directory of many pages and an empty one, and the tree that was copied
    into it.
    """
    work = str(tmp_path_factory.mktemp("jfs"))
    tree = make_tree(work)
    image = host.sparse_file(f"{work}/jfs.img", 32 * MEGABYTE)
    host.run("mkfs.jfs", "-q", image)
    good("cp", "-r", tree, f"{image}:/")
    good("mkdir", f"{image}:/copy")
    return image, tree


def directory_pages(image):
    """Where the leaves of the directory are that have the last names."""
    with open(image, "rb") as stream:
        content = stream.read(4 * MEGABYTE)
    found = {}
    for number in range(NAMES):
        at = content.find(f"{number:03}".encode("utf-16-le"))
        page = at - at % 4096
        if at >= 0 and content[page + FLAG] & LEAF:
            found[page] = number
    return sorted(found, key=found.get)[len(found) // 2:]


def damaged(pristine, work, page):
    """A copy in which one page of the directory has more entries than it may."""
    image = f"{work}/disk.img"
    host.copy_sparse(pristine[0], image)
    with open(image, "r+b") as stream:
        stream.seek(page + ENTRIES)
        stream.write(b"\xff")
    return image


def sources(pristine, page):
    """
    Files of the tree in the order of their names: some are written before the damage is met.
    They are too few for JFS to write them by itself before that (TxLockHWM).
    """
    image, tree = pristine
    with open(image, "rb") as stream:
        stream.seek(page)
        content = stream.read(4096)
    first = min(number for number in range(NAMES) if f"{number:03}".encode("utf-16-le") in content)
    numbers = range(first - 30, first + 10)
    return [f"{tree}/many/a rather long name of a file {number:03}" for number in numbers]


def write_script(pristine, work, page, *more):
    """Files are written in one directory. Then the damage is met in the other one: JFS becomes
    read-only, and a BUG_ON finds what is not written.
    """
    image, path, files = f"{work}/disk.img", f"{work}/script", sources(pristine, page)
    words = " ".join(f"'{name}'" for name in files[:30])
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f"cp {words} {image}:/copy/\n"
                     f"touch '{image}:/tree/many/{os.path.basename(files[-1])}'\n")
        stream.writelines(f"{line}\n" for line in more)
    return path


@pytest.mark.parametrize("number", range(4))
def test_a_panic_names_the_assertion_and_the_next_step(pristine, work, number):
    page = random.Random(SEED).sample(directory_pages(pristine[0]), 4)[number]
    image, script = damaged(pristine, work, page), write_script(pristine, work, page)
    before = sorted(os.listdir(work))
    done = bad("run-script", script, code=PANIC, vcpus=1)
    lines = done.err.strip().splitlines()
    start = "outboard: kernel panic: "
    (first,) = [number for number, line in enumerate(lines) if line.startswith(start)]
    assert re.search(r" BUG! fs/jfs/inode\.c:\d+/jfs_evict_inode\(\)!$", lines[first]), done
    assert any(line.startswith("  jfs_evict_inode") for line in lines[first + 1:]), done
    assert f"{image} is probably damaged and may be half written" in lines[-1], done
    assert lines[-1].endswith(f"outboard fsck -y {image}"), done
    assert sorted(os.listdir(work)) == before


def test_the_panic_of_a_copy_of_the_process(pristine, work):
    """A script that runs tools has the kernel in another process: the same end, one message."""
    page = directory_pages(pristine[0])[-1]
    image = damaged(pristine, work, page)
    script = write_script(pristine, work, page, f"fsck {image}")
    done = bad("run-script", script, code=PANIC, vcpus=1)
    assert done.err.count("kernel panic") == 1, done


@pytest.mark.needs_root
@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
def test_the_panic_of_a_mounts_server(pristine, work):
    """The keeper in the foreground ends with the same code, and names the mount."""
    page = directory_pages(pristine[0])[-1]
    image, directory = damaged(pristine, work, page), f"{work}/mounted"
    os.mkdir(directory)
    command = program.command("mount", "--foreground", image, directory, vcpus=1)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as keeper:
        try:
            while not mounts.is_mounted(directory):
                assert keeper.poll() is None, keeper.stderr.read()
                time.sleep(0.05)
            with contextlib.suppress(OSError):
                for source in sources(pristine, page):
                    shutil.copyfile(source, f"{directory}/tree/many/{os.path.basename(source)}")
            keeper.send_signal(signal.SIGINT)
            error = keeper.communicate(timeout=120)[1]
        finally:
            keeper.kill()
            subprocess.run(["umount", "-l", directory], check=False, capture_output=True)
    assert keeper.returncode == PANIC, error
    assert "BUG! fs/jfs/inode.c" in error, error
    assert f"{directory}: its server ended, because its kernel panicked" in error, error


def test_a_dirty_jfs_is_refused_with_the_next_step(pristine, work):
    image = f"{work}/disk.img"
    host.copy_sparse(pristine[0], image)
    with open(image, "r+b") as stream:
        stream.seek(SUPERBLOCK + STATE)
        stream.write(struct.pack("<I", 2))
    bad("cp", __file__, f"{image}:/new", mentions=(f"not clean: run outboard fsck -y {image}",))
    good("ls", "--ro", f"{image}:/")
    program.run("fsck", "-y", image)
    good("cp", __file__, f"{image}:/new")
