# SPDX-License-Identifier: GPL-2.0-only
"""Reads of files on servers of NFS, SMB, 9p and NBD that fail in the middle: the server answers
with an error, or ends. Commands and mounts name the file and end with an error, and no part of a
file passes for the whole.
"""

import contextlib
import filecmp
import os
import subprocess

import pytest

from support import bad_servers, host, images, mounts, program, servers

pytestmark = [pytest.mark.needs_root, pytest.mark.timeout(600)]

HERE = os.path.dirname(os.path.abspath(__file__))
MEGABYTE = 1 << 20
# The good part ends inside of a request and of a page.
SIZE, GOOD = 12 * MEGABYTE + 17, 3 * MEGABYTE + 70_001
# The limit of a request.
SECONDS = 2

PROTOCOLS = pytest.mark.parametrize("protocol", ["nfs", "smb", "9p"])


def build_library(path: str, result: int) -> dict:
    """Environment of servers whose files of SIZE bytes cannot be read as a whole."""
    host.run("gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC",
             f"-DBAD_SIZE={SIZE}", f"-DBAD_FROM={GOOD}", f"-DBAD_RESULT={result}", "-o", path,
             os.path.join(HERE, "failing_reads.c"))
    return {"LD_PRELOAD": path}


@pytest.fixture(name="bad_disk", scope="module")
def built_bad_disk(tmp_path_factory):
    return build_library(str(tmp_path_factory.mktemp("preloaded") / "bad_disk.so"), -1)


def fill(directory: str) -> str:
    """A tree with a file that the server cannot read as a whole, and another one."""
    tree = os.path.join(directory, "tree")
    os.mkdir(tree)
    for name, size in (("bad", SIZE), ("good", 70_000)):
        with open(os.path.join(tree, name), "wb") as file:
            file.write(os.urandom(size))
    return tree


@contextlib.contextmanager
def started(protocol: str, work: str, variables: dict):
    """A server with these variables, which has the tree."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        share = servers.share(protocol, work)
        found = share.__enter__()
    try:
        yield found, fill(found.server.export)
    finally:
        share.__exit__(None, None, None)


def check_commands(name, options, tree, work, is_up=True):
    """Each command reads the tree. `name`: a function that returns its name; `is_up`: the server
    goes on after an error. Otherwise the program may end with an error about the server.
    """
    way = ("--net", "host", "--timeout", SECONDS, *options)
    named = "/tree/bad" if is_up else "127.0.0.1:"
    with open(os.path.join(tree, "bad"), "rb") as file:
        whole = file.read()

    read = program.bad(*way, "cat", f"{name()}:/tree/bad", mentions=[named])
    assert whole.startswith(read.raw) and len(read.raw) < SIZE

    out = os.path.join(work, "out")
    program.bad(*way, "cp", "-r", f"{name()}:/tree", out, mentions=[named])
    copy = os.path.join(out, "bad")
    assert not os.path.exists(copy) or not filecmp.cmp(copy, os.path.join(tree, "bad"), False)

    image = images.make(os.path.join(work, "disk.img"), "ext4", 64)
    program.good("mkdir", f"{image}:/kept")
    program.bad(*way, "cp", "-r", f"{name()}:/tree", f"{image}:/new", mentions=[named])
    images.check_unmounted_ext4(image)
    assert "kept" in program.good("ls", f"{image}:/").out

    program.bad(*way, "tar-out", f"{name()}:/tree", mentions=[named])
    compared = program.run(*way, "diff", f"{name()}:/tree", tree)
    assert named in compared.err and compared.code == 2, compared
    if is_up:
        back = os.path.join(work, "back")
        program.good("cp", "-r", f"{image}:/new", back)
        for place in (out, back):
            assert filecmp.cmp(os.path.join(place, "good"), os.path.join(tree, "good"), False)


def check_mount(name, options, tree, work, is_up=True):
    directory = os.path.join(work, "mounted")
    os.mkdir(directory)
    program.good("--net", "host", "--timeout", SECONDS, *options, "mount", name, directory)
    try:
        with open(os.path.join(tree, "bad"), "rb") as file:
            whole = file.read()
        with open(os.path.join(directory, "tree", "bad"), "rb", buffering=0) as file:
            read = b""
            with pytest.raises(OSError):
                while piece := file.read(MEGABYTE):
                    read += piece
        assert whole.startswith(read)
        if is_up:
            assert filecmp.cmp(os.path.join(directory, "tree", "good"),
                               os.path.join(tree, "good"), False)
    finally:
        program.run("umount", directory)
        left = mounts.is_mounted(directory)
        subprocess.run(["umount", "-l", directory], stderr=subprocess.DEVNULL, check=False)
    assert not left


@PROTOCOLS
def test_a_server_that_cannot_read_its_disk(protocol, bad_disk, work):
    with started(protocol, work, bad_disk) as (found, tree):
        check_commands(found.name, found.options, tree, work)
        check_mount(found.name(), found.options, tree, work)


def test_a_server_of_9p_that_has_less_than_it_says(work):
    """Linux's client reads zeros behind the end of what the server has."""
    variables = build_library(os.path.join(work, "short.so"), 0)
    with started("9p", work, variables) as (found, tree):
        check_commands(found.name, found.options, tree, work)


# The clients of NFS and SMB try for long to connect again.
@pytest.mark.parametrize("protocol", [pytest.param("nfs", marks=pytest.mark.long),
                                      pytest.param("smb", marks=pytest.mark.long), "9p"])
def test_a_server_that_ends(protocol, work):
    with started(protocol, work, {}) as (found, tree), contextlib.ExitStack() as proxies:
        def name():
            """The server ends in the middle of the file, each time."""
            proxy = bad_servers.before(found.server.port, "end", GOOD)
            return found.name(proxies.enter_context(proxy).port)
        check_commands(name, found.options, tree, work, is_up=False)
        check_mount(name(), found.options, tree, work, is_up=False)
