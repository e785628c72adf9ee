# SPDX-License-Identifier: GPL-2.0-only
"""Images that somebody else uses: QEMU, which locks bytes of them, and loop devices of the host,
which lock nothing.
"""

import contextlib
import os
import shutil
import subprocess

import pytest

from support import host, images
from support.program import PROGRAM, bad, good, run

needs_qemu = pytest.mark.needs("qemu-img", "qemu-io")
FORMATS = ("raw", "qcow2")
# As a disk of a running machine has it.
OPTIONS = {"raw": ("--image-opts", "driver=raw,file.driver=file,file.locking=on,file.filename={}"),
           "qcow2": ("-f", "qcow2", "{}")}


def make(work, kind="raw"):
    plain = images.make(f"{work}/plain.img", "ext4", 32)
    image = f"{work}/disk.{kind}"
    host.run("qemu-img", "convert", "-O", kind, plain, image)
    return image


@contextlib.contextmanager
def held_by_qemu(image, kind, *options):
    """QEMU has the image open."""
    words = [word.format(image) for word in OPTIONS[kind]]
    with subprocess.Popen(["qemu-io", *options, *words], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env=host.environment()) as qemu:
        qemu.stdin.write("length\n")
        qemu.stdin.flush()
        assert "MiB" in qemu.stdout.readline(), "it could not open the image"
        yield
        qemu.stdin.close()
        assert qemu.wait(30) == 0


@contextlib.contextmanager
def held_by_us(image):
    """A shell in which the image has been written."""
    with subprocess.Popen([PROGRAM, "shell", image], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as shell:
        shell.stdin.write("touch /here\nls /here\n")
        shell.stdin.flush()
        assert "here" in shell.stdout.readline()
        yield
        shell.stdin.close()
        assert shell.wait(30) == 0


@needs_qemu
@pytest.mark.parametrize("kind", FORMATS)
def test_what_qemu_writes_is_left_alone(work, kind):
    image = make(work, kind)
    with held_by_qemu(image, kind):
        for words in (("touch", f"{image}:/x"), ("mkfs", "--force", "ext4", image),
                      ("fsck", "-y", image), ("resize", image, "--max"),
                      ("ls", f"{image}:/"), ("part", image, "create", "--force", "linux:rest")):
            bad(*words, code=8 if words[0] == "fsck" else 1,
                mentions=[image, "in use by another program, such as QEMU"])
    good("touch", f"{image}:/x")


@needs_qemu
def test_what_qemu_reads_is_read_too(work):
    image = make(work, "qcow2")
    with held_by_qemu(image, "qcow2", "-r"):
        good("ls", f"{image}:/")
        bad("touch", f"{image}:/x", mentions=[image, "such as QEMU"])


@needs_qemu
def test_what_an_image_is_based_on_may_be_read_by_all(work):
    base = make(work, "qcow2")
    for name in "ab":
        host.run("qemu-img", "create", "-f", "qcow2", "-b", base, "-F", "qcow2", f"{work}/{name}")
    with held_by_qemu(f"{work}/a", "qcow2"):
        good("touch", f"{work}/b:/x")
        bad("touch", f"{base}:/x", mentions=[base, "such as QEMU"])


def refused_by_qemu(*words):
    done = host.run(*words, ok=(1,))
    assert "lock" in done.stdout + done.stderr, done


@needs_qemu
@pytest.mark.parametrize("kind", FORMATS)
def test_what_we_write_is_left_alone_by_qemu(work, kind):
    image = make(work, kind)
    with held_by_us(image):
        refused_by_qemu("qemu-io", "-f", kind, "-c", "write 0 512", image)
        refused_by_qemu("qemu-img", "resize", "-f", kind, image, "64M")
        refused_by_qemu("qemu-img", "convert", "-f", kind, "-O", "raw", image, f"{work}/new")
        host.run("qemu-img", "info", "-U", image)
    host.run("qemu-io", "-f", kind, "-c", "read 0 512", "-c", "write 0 512", image)


# ---- loop devices ----

@pytest.fixture
def loops():
    if not host.may_mount():
        pytest.skip("no loop devices here")


@pytest.mark.needs_root
@pytest.mark.usefixtures("loops")
def test_the_file_of_a_loop_device(work):
    image = images.make(f"{work}/disk.img", "ext4", 32)
    os.link(image, f"{work}/link")
    with host.loop_device(image) as device:
        for words in (("touch", f"{image}:/x"), ("touch", f"{work}/link:/x"),
                      ("mkfs", "--force", "ext4", image), ("fsck", "-y", image),
                      ("resize", image, "+1M")):
            bad(*words, code=8 if words[0] == "fsck" else 1,
                mentions=[work, device, f"losetup -d {device}"])
        good("ls", f"{image}:/")
        assert run("fsck", image).code == 0
        good("touch", f"{device}:/x")
    good("touch", f"{image}:/y")


@pytest.mark.needs_root
@pytest.mark.usefixtures("loops")
def test_a_loop_device_for_reading(work):
    image = images.make(f"{work}/disk.img", "ext4", 32)
    with host.loop_device(image, "--read-only"):
        good("touch", f"{image}:/x")


@pytest.mark.needs_root
@pytest.mark.usefixtures("loops")
def test_one_disk_by_two_names(work):
    """A file and its loop device, and two loop devices: nothing is written beside another mount."""
    image = images.make(f"{work}/disk.img", "ext4", 32)
    good("cp", __file__, f"{image}:/f")
    shutil.copy(image, f"{work}/copy.img")
    with host.loop_device(image) as device, host.loop_device(image) as other:
        for source, target in ((image, device), (other, device), (device, other)):
            bad("cp", f"{source}:/f", f"{target}:/g", mentions=[source, target, "the same volume"])
        bad("mv", f"{device}:/f", f"{other}:/g", mentions=[device, other, "the same volume"])
        good("cat", f"{image}:/f", f"{device}:/f")
        good("cp", f"{device}:/f", f"{device}:/g")
        good("cp", f"{work}/copy.img:/f", f"{device}:/h")
    assert host.run("e2fsck", "-fn", image).returncode == 0


@pytest.mark.needs_root
@pytest.mark.usefixtures("loops")
def test_what_is_mounted(work):
    image = images.make(f"{work}/disk.img", "ext4", 32)
    with host.loop_mount(image, "ext4"):
        bad("touch", f"{image}:/x", mentions=[image, "/dev/loop", "losetup -d"])
    good("touch", f"{image}:/x")


@pytest.mark.needs_root
@pytest.mark.usefixtures("loops")
def test_a_loop_device_of_a_file_that_is_gone(work):
    """Another file has its name."""
    image = images.make(f"{work}/disk.img", "ext4", 32)
    with host.loop_device(image):
        os.unlink(image)
        images.make(image, "ext4", 32)
        good("touch", f"{image}:/x")


def test_mkfs_keeps_its_lock(work):
    """From its first look to its last write nobody moves partitions, also while it works on a copy.
    """
    disk = images.partitioned(f"{work}/disk", "label: gpt\nstart=2048, size=131072\n", {}, 96)
    tools = f"{work}/bin"
    os.mkdir(tools)
    with open(f"{tools}/mke2fs", "w", encoding="ascii") as stream:
        stream.write(f"#!/bin/sh\necho running\nwhile ! [ -e {tools}/go ]; do sleep 0.05; done\n"
                     "exec /sbin/mke2fs \"$@\"\n")
    os.chmod(f"{tools}/mke2fs", 0o755)
    with subprocess.Popen([PROGRAM, "-v", "mkfs", "ext4", f"{disk}@1"],
                          stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PATH": f"{tools}:{host.PATH}"}) as running:
        try:
            assert running.stdout.readline() == "running\n"
            bad("part", disk, "delete", "1", mentions=("disk", "in use"))
        finally:
            with open(f"{tools}/go", "wb"):
                pass
        running.communicate(timeout=300)
    assert running.returncode == 0
    assert "ext4" in good("info", disk).out
