# SPDX-License-Identifier: GPL-2.0-only
"""Components: loaded on demand and on request, modules of one's own, and what is wrong with files
that are none.
"""

import os
import random
import struct
import subprocess

import pytest
from support import host
from test_capi import LIBRARIES, REPOSITORY, library_program, run

ARCHIVE = os.path.join(LIBRARIES, "outboard-components")
ZSTD = b"\x28\xb5\x2f\xfd"
MAKERS = {
    "ext4": ["mke2fs", "-q", "-t", "ext4"], "xfs": ["mkfs.xfs", "-q"],
    "btrfs": ["mkfs.btrfs", "-q"], "f2fs": ["mkfs.f2fs", "-q"], "vfat": ["mkfs.vfat", "-F", "32"]
}


@pytest.fixture(name="tester", scope="module")
def fixture_tester(tmp_path_factory):
    program = library_program(str(tmp_path_factory.mktemp("component")), "component_test.c",
                              "client.c")

    def test(*arguments, ok=0, **variables):
        return run(program, *arguments, ok=ok, timeout=60, LD_LIBRARY_PATH=LIBRARIES, **variables)
    return test


@pytest.mark.parametrize("kind", MAKERS)
def test_mount_loads_the_file_system(work, tester, kind):
    image = os.path.join(work, "image")
    with open(image, "wb") as stream:
        stream.truncate(320 << 20)
    run(*MAKERS[kind], image)
    tester("mount", image, kind)


@pytest.mark.parametrize("what", ["sockets", "names", "nodes", "user", "chroot", "off", "all"])
def test_component(tester, what):
    tester(what)


def test_race(tester):
    for _ in range(20):
        tester("race")


def test_module_of_ones_own(work, hello):
    program = library_program(work, "component_test.c", "client.c")
    done = subprocess.run([program, "own", hello], capture_output=True, text=True, timeout=60,
                          check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES, "OUTBOARD_LOG": "info"})
    assert done.returncode == 0, done.stderr
    said = [
        line.partition("hello: ")[2] for line in done.stderr.splitlines()
        if "hello: hello," in line or "hello: goodbye," in line
    ]
    assert said[:3] == ["hello, tester", "goodbye, tester", "hello, world"]


def test_no_archive(tester, work):
    tester("none", "missing: No such file", OUTBOARD_COMPONENTS=os.path.join(work, "missing"))
    tester("none", "not an archive", OUTBOARD_COMPONENTS=work)
    fifo = os.path.join(work, "fifo")
    os.mkfifo(fifo)
    tester("none", "not an archive", OUTBOARD_COMPONENTS=fifo)


def test_static_program(work):
    """The archive inside the program: no file is looked for."""
    run(library_program(work, "component_test.c", "client.c", static=True), "sockets", timeout=60)


def changed(path, work, change):
    target = os.path.join(work, "changed.ko")
    with open(path, "rb") as stream:
        data = change(bytearray(stream.read()))
    with open(target, "wb") as stream:
        stream.write(data)
    return target


def test_files_that_are_no_components(tester, work, hello):
    other = changed(hello, work, lambda data: data.replace(b"vermagic=6", b"vermagic=5"))
    tester("refused", other, "was built for \"5")
    tester("refused", other, "but this kernel is \"6")
    tester("refused", changed(hello, work, lambda data: data[:len(data) // 2]), "changed.ko")
    tester("refused", changed(hello, work, lambda data: b""), "not a kernel module")
    tester("refused", changed(hello, work, lambda data: b"#!/bin/sh\n"), "not a kernel module")
    tester("refused", work, "not a kernel module")
    tester("refused", os.path.join(work, "missing"), "No such file")
    fifo = os.path.join(work, "fifo")
    os.mkfifo(fifo)
    tester("refused", fifo, "not a kernel module")


def test_damaged_archives(tester, work):
    """Damage in the tables is found when the archive is opened, or harmless; it never ends the
    program.
    """
    chosen = random.Random(7)
    with open(ARCHIVE, "rb") as stream:
        archive = stream.read()
    tables = archive.index(ZSTD)
    damaged = os.path.join(work, "damaged")
    for round_number in range(40):
        data = bytearray(archive)
        if round_number % 4:
            for _ in range(1 + round_number):
                data[chosen.randrange(8 if round_number % 2 else tables)] = chosen.randrange(256)
        else:
            del data[chosen.randrange(len(data)):]
        with open(damaged, "wb") as stream:
            stream.write(data)
        tester("damaged", OUTBOARD_COMPONENTS=damaged)


def test_damaged_module_in_the_archive(tester, work):
    """Linux refuses it, and the call that needed it fails as without it."""
    with open(ARCHIVE, "rb") as stream:
        archive = bytearray(stream.read())
    count, start = struct.unpack_from("<2I", archive, 16)
    for row in range(count):
        name, _, image, _ = struct.unpack_from("<2I2Q", archive, start + 24 * row)
        if archive[name:archive.index(0, name)] == b"sctp":
            archive[image + 0x28:image + 0x30] = b"\xff" * 8
    damaged = os.path.join(work, "damaged")
    with open(damaged, "wb") as stream:
        stream.write(archive)
    with pytest.raises(AssertionError, match="Protocol not supported"):
        tester("sockets", OUTBOARD_COMPONENTS=damaged)


def test_builtin_names_are_checked():
    done = host.run(os.path.join(REPOSITORY, "kernel", "build", "configure.sh"), ok=(1,),
                    BUILTIN="NO_SUCH_THING", PROFILE="vfs")
    assert "kernel/configs has no component NO_SUCH_THING in this profile" in done.stderr
