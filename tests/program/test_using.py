# SPDX-License-Identifier: GPL-2.0-only
"""The examples of docs/using.md and docs/using/.

Shell code (```sh) is run exactly as printed, as a user without rights. Other code needs layers,
FUSE or a terminal: the command line of each line is parsed at least.
"""

import glob
import os
import re
import shlex

import pytest
from support import host, images, pages, program, programs
from support.pages import Desk, blocks, first_arguments, read

PAGES = sorted(glob.glob(os.path.join(pages.DOCS, "using", "*.md")))
# Pages with shell code, each with a test here.
RUN = {"build", "change", "copy", "find", "repair", "run", "script"}
PASSWD = "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/srv:/bin/false\n"
TREE = {
    "bin/su": "#!/bin/sh\n", "etc/hostname": "host\n", "etc/fstab": "/dev/vda1 / ext4\n",
    "etc/group": "root:x:0:\nwww-data:x:33:\n", "etc/motd": "Hello\n", "etc/new.conf": "a = b\n",
    "etc/passwd": PASSWD, "srv/www/index.html": "<p>\n", "srv/noise.log": "x\n",
    "home/ann/letter": "Dear\n", "usr/share/doc/text": "text\n", "var/cache/apt/list": "list\n",
    "var/log/syslog": "started\n",
}


def name(page: str) -> str:
    return os.path.basename(page).removesuffix(".md")


def code_of(page: str) -> list:
    """The shell code of a page, block by block."""
    text = read(os.path.join(pages.DOCS, "using", f"{page}.md"))
    return [code for language, code in blocks(text) if language == "sh"]


def command_lines(page: str) -> list:
    """The lines of all code that begin with the program's name."""
    lines = [line for _, code in blocks(read(page)) for line in code.splitlines()]
    return [line for line in lines if line.startswith("outboard ")]


def words(line: str) -> list:
    """The words of a line after the program's name, without comment and redirection."""
    line = re.sub(r"\$\(cat \S+roothash\)", "ab" * 32, line)
    found = shlex.split(line, comments=True)[1:]
    ends = [found.index(sign) for sign in ("<", ">", "|") if sign in found]
    return found[:min(ends, default=len(found))]


def system_volume(desk: Desk) -> str:
    for path, text in TREE.items():
        desk.write(f"tree/{path}", text)
    os.chmod(desk.path("tree/bin/su"), 0o4755)
    os.utime(desk.path("tree/etc/passwd"), (0, 0))
    return images.make_ext4_of(desk.path("volume"), desk.path("tree"), 32)


@pytest.fixture
def desk(work):
    """With a disk of two partitions: a system, and an empty one."""
    found = Desk(work)
    volume = system_volume(found)
    empty = images.make(found.path("empty"), "ext4", 16)
    images.partitioned(found.path("disk.img"), "label: gpt\nstart=2048, size=65536\nsize=32768\n",
                       {2048: volume, 67584: empty}, 52)
    os.unlink(empty)
    return found


def test_pages_with_shell_code_are_run():
    assert {name(page) for page in PAGES if code_of(name(page))} == RUN
    assert first_arguments(__file__, "code_of") == RUN


@pytest.mark.parametrize("page", [os.path.join(pages.DOCS, "using.md"), *PAGES], ids=name)
def test_command_lines_are_accepted(page, work):
    """No line is a usage error, even where the images do not exist."""
    for line in command_lines(page):
        result = program.run(*words(line), cwd=work, HOME=work)
        assert "Usage:" not in result.err, f"{line}\n{result}"
        assert result.code != 2 or words(line)[0] == "diff", f"{line}\n{result}"


def test_bad_lines_are_found(work):
    for line in (
            "outboard ls --no-such-option disk.img:/", "outboard rm /host", "outboard lss a:/"):
        assert program.run(*words(line), cwd=work).code == 2, line


def test_find(desk):
    info, listing, find, tree, sync = code_of("find")
    before = images.contents(desk.path("disk.img"))
    output = desk.run(info)
    assert "GPT" in output and '"partitions"' in output
    output = desk.run(listing)
    assert "hostname" in output and "host\n/dev/vda1" in output and "Uid" in output
    output = desk.run(find)
    assert "bin/su" in output and "new.conf" in output
    output = desk.run(tree)
    assert "srv" in output and "disk.img@2" in output
    assert images.contents(desk.path("disk.img")) == before
    desk.run(sync)


@pytest.mark.needs("tar", "zstd")
def test_copy(desk):
    copy, unpack, pack = code_of("copy")
    images.make(desk.path("new.img"), "ext4")
    desk.write("notes.txt", "notes\n")
    desk.write("rootfs/etc/added", "added\n")
    desk.run(copy)
    assert read(desk.path("hostname")) == "host\n"
    assert program.good("cat", f"{desk.path('disk.img')}@1:/srv/notes.txt").out == "notes\n"
    assert program.good("cat", f"{desk.path('disk.img')}@1:/etc/added").out == "added\n"
    assert program.good("cat", f"{desk.path('new.img')}:/srv/www/index.html").out == "<p>\n"
    desk.write("site/page", "page\n")
    host.run("tar", "-cf", desk.path("root.tar"), "-C", desk.path("rootfs"), ".")
    host.run("tar", "--zstd", "-cf", desk.path("site.tar.zst"), "-C", desk.directory, "site")
    desk.run(unpack)
    for path in ("srv/site/page", "srv/page"):
        assert program.good("cat", f"{desk.path('disk.img')}@1:/{path}").out == "page\n"
    desk.run(pack)
    packed = host.run("tar", "--zstd", "-tf", desk.path("srv.tar.zst")).stdout
    assert "./www/index.html" in packed and "noise.log" not in packed
    assert "usr/share/doc/text" in host.run("tar", "-tf", desk.path("some.tar")).stdout


def test_change(desk):
    change, edit, attributes = code_of("change")
    os.rename(desk.path("volume"), desk.path("copy.img"))
    desk.run(change)
    disk = f"{desk.path('disk.img')}@1"
    listing = program.good("ls", "-l", "-R", f"{disk}:/").out
    assert "motd.old" in listing and ".ssh" not in listing and "list" not in listing
    assert re.search(r"www-data www-data .* index.html", listing)
    assert "2026-11-21 10:20" in listing
    desk.run(edit, EDITOR="sed -i s/ext4/xfs/")
    assert program.good("cat", f"{disk}:/etc/fstab").out == "/dev/vda1 / xfs\n"
    program.good("setfattr", "-n", "user.comment", "-v", "kept", f"{disk}:/etc/hostname")
    output = desk.run(attributes)
    assert "user:www-data:rwx" in output and "----i" in output
    found = program.good("getfattr", "-d", f"{desk.path('copy.img')}:/etc/hostname").out
    assert 'user.comment="kept"' in found


@pytest.mark.needs("mksquashfs", "mkfs.xfs", "sfdisk", "qemu-img", "tar", "zstd")
def test_build(desk):
    make, part = code_of("build")
    os.unlink(desk.path("disk.img"))
    desk.write("rootfs/etc/added", "added\n")
    host.run("tar", "--zstd", "-cf", desk.path("rootfs.tar.zst"), "-C", desk.path("rootfs"), ".")
    desk.run(make)
    for image in ("root.img", "archive.img", "root.squashfs"):
        assert program.good("cat", f"{desk.path(image)}:/etc/added").out == "added\n"
    images.check_ext4(desk.path("data.img"))
    assert '"qcow2"' in host.run("qemu-img", "info", "--output=json", desk.path("new.qcow2")).stdout
    assert "xfs" in program.good("info", desk.path("xfs.img")).out
    desk.run(part)
    assert "EFI" in host.run("sfdisk", "--dump", desk.path("disk.img")).stdout
    table = host.run("sfdisk", "--dump", desk.path("mbr.img")).stdout
    assert "mbr.img2" in table and "mbr.img3" not in table


@pytest.mark.needs("mkfs.xfs", "xfs_repair", "e2fsck")
def test_repair(desk):
    check, trim = code_of("repair")
    images.make(desk.path("data.xfs"), "xfs")
    host.run("debugfs", "-w", "-R", "clri /etc/motd", desk.path("volume"))
    disk = desk.path("disk.img")
    images.partitioned(disk, "label: gpt\nstart=2048, size=65536\n", {2048: desk.path("volume")},
                       36)
    first, repair = check.split("\n", 1)
    # The damage is found, then repaired.
    desk.run(first, ends=4)
    desk.run(repair.split("\n", 1)[0], ends=1)
    desk.run(check)
    # Free blocks of the file system, with data.
    with open(disk, "r+b") as stream:
        stream.seek(25 << 20)
        stream.write(b"x" * (4 << 20))
    used = os.stat(disk).st_blocks
    desk.run(trim)
    assert used - os.stat(disk).st_blocks > (3 << 20) // 512


def test_script(desk):
    (code,) = code_of("script")
    desk.write("build.txt", "mkdir disk.img@1:/new\n")
    desk.write("looks.txt", "# What is new\nls -d disk.img@1:/new\n")
    assert "new" in desk.run(code)


@pytest.mark.needs("bash")
def test_run(desk):
    code, = code_of("run")
    programs.make_root(desk.path("rootfs"), "cat", "ls", "wc")
    desk.write("rootfs/etc/debian_version", "12.0\n")
    desk.write("site/index.html", "hello\n")
    volume = images.make_ext4_of(desk.path("debian.img"), desk.path("rootfs"))
    images.partitioned(desk.path("disk.img"), "label: gpt\nstart=2048, size=65536\nsize=131072\n",
                       {67584: volume}, 100)
    assert desk.run(code).splitlines()[0] == "12.0"
    assert program.good("cat", f"{desk.path('debian.img')}:/etc/motd").out == "welcome\n"
