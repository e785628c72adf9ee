# SPDX-License-Identifier: GPL-2.0-only
"""The code of README.md: its C is compiled and run, its lines of shell are run as they stand, by a
user without rights.
"""

import os

import pytest
from support import c_programs, host, images, program
from support.pages import Desk, blocks, read

CODE = blocks(read(os.path.join(program.REPOSITORY, "README.md")))
SNIPPETS = [code for language, code in CODE if language == "c"]
LINES = [line for language, code in CODE if language == "sh" for line in code.splitlines()]
# Beginnings of lines whose images, servers or devices other tests make. Here these lines fail, but
# not as usage errors.
ELSEWHERE = {
    "outboard --key-file key ls laptop.img@3@@home:": "LUKS: formats/test_layers.py",
    "outboard --disk b.img ls a.img@vg0/root:": "LVM: formats/test_layers.py",
    "outboard run ": "programs: program/test_run_programs.py",
    "outboard server ": "servers: program/test_server.py",
    "outboard mount ": "FUSE: tests/mount",
    "outboard cp -r nfs://": "NFS: program/test_network.py",
}


@pytest.fixture
def desk(work):
    return Desk(work)


def file_system(desk: Desk, name: str) -> str:
    for path, text in {"etc/passwd": "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/srv:/bin/sh\n",
                       "etc/group": "root:x:0:\nwww-data:x:33:\n", "etc/fstab": "/dev/vda1 /\n",
                       "bin/su": "#!/bin/sh\n", "srv/page": "page\n"}.items():
        desk.write(f"rootfs/{path}", text)
    return images.make_ext4_of(desk.path(name), desk.path("rootfs"), 32)


def disk(desk: Desk, name: str) -> str:
    """Two partitions with the same file system."""
    volume = file_system(desk, "volume")
    return images.partitioned(desk.path(name), "label: gpt\nstart=2048, size=65536\nsize=65536\n",
                              {2048: volume, 67584: volume}, 68)


def make_inputs(desk: Desk, line: str) -> None:
    """Everything that the lines read, under the names that they use."""
    if "disk.img@" in line:
        disk(desk, "disk.img")
    elif "part disk.img create" not in line:
        file_system(desk, "disk.img")
    for name in ("old.ext4", "old.img", "new.img"):
        file_system(desk, name)
    images.make(desk.path("new.xfs"), "xfs", 320)
    host.run("qemu-img", "convert", "-O", "qcow2", disk(desk, "raw"), desk.path("cloud.qcow2"))
    host.run("tar", "--zstd", "-cf", desk.path("rootfs.tar.zst"), "-C", desk.path("rootfs"), ".")


def test_readme_has_code():
    assert len(SNIPPETS) == 2 and len(LINES) > 10
    for start in ELSEWHERE:
        assert [line for line in LINES if line.startswith(start)], start


@pytest.mark.needs("mkfs.xfs", "sfdisk", "qemu-img", "tar", "zstd")
@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_readme(desk, line):
    if any(line.startswith(start) for start in ELSEWHERE):
        done = program.run(*line.split("#")[0].split()[1:], cwd=desk.directory)
        assert done.code in (1, 125) and "Usage:" not in done.err, str(done)
        return
    make_inputs(desk, line)
    desk.run(line, EDITOR="true")


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_of_the_readme(desk, number):
    """Its includes stay at the top; the rest is the body of a function."""
    lines = SNIPPETS[number].splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    source = desk.write("snippet.c", "\n".join([
        *includes, "int main(void)", "{", *body, "return fd < 0;", "}", ""]))
    file_system(desk, "disk.img")
    c_programs.build(desk.path("snippet"), source)
    desk.run("./snippet")
