# SPDX-License-Identifier: GPL-2.0-only
"""The examples of docs/examples.md, run as they stand there, by a user without rights."""

import hashlib
import os
import re
import shlex

import pytest

from support import debian, host, images, program
from support.pages import Desk, first_arguments, read, sections

BOOT_SECONDS = 1200
EXAMPLES = sections("examples.md")


@pytest.fixture
def desk(work):
    return Desk(work)


def code_of(title: str) -> list:
    """The blocks of code of a section."""
    return EXAMPLES[title]


def test_each_example_is_code_of():
    assert len(EXAMPLES) == 5 and all(EXAMPLES.values())
    assert first_arguments(__file__, "code_of") == set(EXAMPLES)


# ---- a root image ----


def boot(code: str, desk: Desk) -> None:
    """Runs a QEMU, of which the words of our init are expected."""
    said = desk.run(code, timeout=BOOT_SECONDS)
    assert "first: this is process 1 on a root file system of type ext2/ext3" in said, said[-3000:]


@pytest.mark.needs("mmdebstrap", "fakechroot", "fakeroot", "qemu-system-x86_64")
@pytest.mark.timeout(3600)
@pytest.mark.long
def test_a_bootable_root_image(desk):
    make, add, start, disk = code_of("A bootable root image from debootstrap, without root")
    words = shlex.split(make.splitlines()[0])[1:]
    debian.stand_in(desk.path("bin"), words, debian.system(words, [*desk.user]))
    desk.run(make + add)
    images.check_ext4(desk.path("root.img"))
    boot(start, desk)
    images.check_ext4(desk.path("root.img"))
    desk.run(disk)
    on_disk = start.replace("/dev/vda ", "/dev/vda2 ").replace("file=root.img", "file=disk.img")
    assert on_disk != start
    boot(on_disk, desk)
    program.good("fsck", desk.path("disk.img@1"))
    program.good("fsck", desk.path("disk.img@2"))
    difference = program.run("diff", "-x", "lost+found", f"{desk.path('root.img')}:/",
                             f"{desk.path('disk.img')}@2:/")
    assert difference.code == 0, str(difference)


# ---- the others ----


def put_on_disk(desk: Desk, name: str, volume: str) -> str:
    """A disk with one partition, made by sfdisk."""
    size = os.path.getsize(volume) >> 20
    return images.partitioned(desk.path(name), "label: gpt\nstart=2048, size=%d\n" % (size << 11),
                              {2048: volume}, size + 4)


def system_volume(desk: Desk, **files) -> str:
    """An ext4 file system with these files, by mke2fs."""
    for name, text in files.items():
        desk.write(f"tree/{name.replace('__', '/')}", text)
    return images.make_ext4_of(desk.path("volume"), desk.path("tree"))


@pytest.mark.needs("qemu-img", "tar", "zstd")
def test_a_file_out_of_a_cloud_image(desk):
    (code,) = code_of("Pull a file out of a cloud image")
    volume = system_volume(desk,
                           **{"etc__os-release": "NAME=Cloud\n", "var__log__syslog": "started\n",
                              "var__log__deep__er": "x" * 70000})
    raw = put_on_disk(desk, "raw", volume)
    # As clouds have them: a compressed image, and one that is based on it.
    host.run("qemu-img", "convert", "-c", "-O", "qcow2", raw, desk.path("base.qcow2"))
    host.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2",
             "-b", "base.qcow2", desk.path("cloud.qcow2"))
    said = desk.run(code)
    assert "qcow2" in said and "NAME=Cloud\n" in said
    assert read(desk.path("logs/syslog")) == "started\n"
    assert len(read(desk.path("logs/deep/er"))) == 70000
    assert (host.run("tar", "--zstd", "-xOf", desk.path("etc.tar.zst"), "./os-release").stdout
            == "NAME=Cloud\n")


@pytest.mark.needs("openssl", "debugfs")
def test_a_password_is_changed(desk):
    password, script = code_of("Change a password in place")
    others = "daemon:*:19000:0:99999:7:::\n"
    volume = system_volume(desk, etc__shadow=f"root:!:19000:0:99999:7:::\n{others}",
                           etc__motd="old\n", **{"etc__machine-id": "1\n"})
    host.run("debugfs", "-w", "-f", "-", volume,
             input="sif /etc/shadow gid 42\nsif /etc/shadow mode 0100640\n")
    disk = put_on_disk(desk, "disk.img", volume)
    before = program.good("stat", f"{disk}@1:/etc/shadow").out
    desk.run(password)
    shadow = program.good("cat", f"{disk}@1:/etc/shadow").out
    found = re.fullmatch(r"root:(\$6\$([^$]+)\$[^:]+):19000:0:99999:7:::\n" + re.escape(others),
                         shadow)
    assert found, shadow
    assert (host.run("openssl", "passwd", "-6", "-salt", found[2], "new password").stdout.strip()
            == found[1])
    rights = r"\(\d+/\S+\).*Gid:.*$"
    after = program.good("stat", f"{disk}@1:/etc/shadow").out
    assert re.search(rights, before, re.MULTILINE)[0] == re.search(rights, after, re.MULTILINE)[0]
    desk.run(script)
    assert program.good("cat", f"{disk}@1:/etc/motd").out == "Welcome\n"
    assert program.bad("cat", f"{disk}@1:/etc/machine-id", mentions=["no such file"])
    assert "UTC" in program.good("ls", "-l", f"{disk}@1:/etc").out
    program.good("fsck", f"{disk}@1")


@pytest.mark.needs("mkntfs", "ntfscp")
def test_a_stick_is_looked_into(desk):
    (code,) = code_of("Look into a vendor's NTFS stick safely")
    volume = host.sparse_file(desk.path("volume"), 32 << 20)
    host.run("mkntfs", "-F", "-Q", "-q", "-p", 2048, "-H", 16, "-S", 63, "-L", "VENDOR", volume)
    with open(desk.path("manual.txt"), "w", encoding="ascii") as stream:
        stream.write("Read me.\n" * 1000)
    # ntfscp makes no directories; our own program has to.
    program.good("mkdir", f"{volume}:/manuals")
    host.run("ntfscp", volume, desk.path("manual.txt"), "manuals/manual.txt")
    stick = put_on_disk(desk, "stick.img", volume)
    before = hashlib.sha256(open(stick, "rb").read()).digest()
    said = desk.run(code)
    assert "VENDOR" in said and "manual.txt" in said
    assert read(desk.path("manuals/manual.txt")) == "Read me.\n" * 1000
    assert hashlib.sha256(open(stick, "rb").read()).digest() == before


def test_images_are_compared(desk):
    (code,) = code_of("Compare two images")
    monday = system_volume(desk, etc__hosts="one\n", etc__fstab="same\n")
    os.rename(monday, desk.path("monday.img"))
    tuesday = system_volume(desk, etc__hosts="two\n", etc__new="new\n")
    os.rename(tuesday, desk.path("tuesday.img"))
    said = desk.run(code, ends=1).splitlines()
    assert len(said) == 2
    assert any("hosts" in line for line in said) and "Only in tuesday.img:/etc: new" in said
