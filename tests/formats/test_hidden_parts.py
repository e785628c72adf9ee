# SPDX-License-Identifier: GPL-2.0-only
"""Files with parts that Linux's drivers do not show: copies and archives name them, and mv keeps
the source.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import tarfile

import pytest

from support import host, images
from support.patience import wait_until
from support.program import LOSSES, bad, good, run



def write(path, content="x"):
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(content)
    return path


@contextlib.contextmanager
def by_ntfs_3g(image, directory):
    os.makedirs(directory, exist_ok=True)
    with subprocess.Popen(["ntfs-3g", "-o", "no_detach", image, directory]):
        wait_until(lambda: os.path.ismount(directory), "ntfs-3g has mounted the image")
        try:
            yield directory
        finally:
            host.run("umount", directory)


@pytest.fixture
def ext4(work):
    return images.make(f"{work}/ext4.img", "ext4")


@pytest.mark.needs("mkntfs", "ntfscp", "ntfscat")
def test_streams_of_ntfs(work, ext4):
    image, file = images.make(f"{work}/n.img", "ntfs"), write(f"{work}/file")
    good("mkdir", f"{image}:/d")
    for name in ("d/f", "plain"):
        host.run("ntfscp", image, file, name)
    # So many streams need more than one record.
    names = ["ads", "Zone.Identifier"] + [f"{number:03}" + "n" * 100 for number in range(60)]
    for name in names:
        host.run("ntfscp", "-N", name, image, write(f"{work}/stream", name * 3), "d/f")
    named = f"not kept: parts that Linux does not show of {image}:/d/f (stream "
    for words in (("cp", "-a", f"{image}:/d", f"{work}/copy"), ("tar-out", f"{image}:/")):
        result = good(*words, notes=LOSSES)
        assert named in result.err and "59 more streams" in result.err, result
    good("cp", "-r", f"{image}:/d", f"{work}/other")
    for source in ("d/f", "d"):
        result = bad("mv", f"{image}:/{source}", f"{ext4}:/", mentions=("stream", "not removed"))
        assert host.run("ntfscat", "-n", "ads", image, "d/f").stdout == "ads" * 3
        good("rm", "-r", f"{ext4}:/{os.path.basename(source)}")
    good("mv", f"{image}:/plain", f"{ext4}:/")
    assert run("stat", f"{image}:/plain").code == 1


@pytest.mark.needs("mkntfs", "ntfs-3g")
@pytest.mark.needs_root
def test_reparse_points_of_ntfs(work, ext4):
    """Contents that a cloud has are refused. Points that Linux does not understand are named."""
    image = images.make(f"{work}/n.img", "ntfs")
    with by_ntfs_3g(image, f"{work}/mounted") as directory:
        for name, tag, offline in (("cloud", 0x9000601A, True), ("here", 0x9000601A, False),
                                   ("program", 0x8000001B, False)):
            path = write(f"{directory}/{name}", "contents" * 1000)
            data = struct.pack("<IHH", tag, 16, 0) + bytes(16)
            os.setxattr(path, "system.ntfs_reparse_data", data)
            if offline:
                flags = struct.unpack("<I", os.getxattr(path, "system.ntfs_attrib"))[0]
                os.setxattr(path, "system.ntfs_attrib", struct.pack("<I", flags | 0x1000))
    for words in (("cp", f"{image}:/cloud", work), ("cat", f"{image}:/cloud"),
                  ("mv", f"{image}:/cloud", f"{ext4}:/")):
        bad(*words, mentions=(f"{image}:/cloud", "not in the image", "0x9000601a"))
    archive = bad("tar-out", f"{image}:/", "-f", f"{work}/x.tar", mentions=("cloud",)).err
    assert "program (reparse point 0x8000001b)" in archive and "here (" in archive
    with tarfile.open(f"{work}/x.tar") as packed:
        assert "./cloud" not in packed.getnames()
    told = good("cp", "-a", f"{image}:/program", work, notes=LOSSES)
    assert "program (reparse" in told.err
    for name in ("cloud", "here", "program"):
        run("mv", f"{image}:/{name}", f"{ext4}:/")
        assert run("stat", f"{image}:/{name}").code == 0, name


def change_hfsplus_records(image, changes):
    """Changes the records of files in the catalog: at an offset, to these bytes."""
    with open(image, "r+b") as stream:
        content = bytearray(stream.read())
        for name, (offset, value) in changes.items():
            key, at = name.encode("utf-16-be"), 0
            while (at := content.find(key, at)) >= 0:
                at += len(key)
                if struct.unpack_from(">h", content, at)[0] == 2:
                    content[at + offset:at + offset + len(value)] = value
        stream.seek(0)
        stream.write(content)


@pytest.mark.needs("xorriso")
def test_forks_of_hfsplus(work):
    tree, image = f"{work}/tree", f"{work}/h.iso"
    os.mkdir(tree)
    write(f"{tree}/compressedfile", "")
    write(f"{tree}/forkedfile")
    write(f"{tree}/plainfile")
    host.run("xorriso", "-as", "mkisofs", "-quiet", "-R", "-hfsplus", "-o", image, tree)
    change_hfsplus_records(image, {"compressedfile": (41, b"\x20"),
                                   "forkedfile": (168, struct.pack(">Q", 5))})
    hfsplus = ("--type", "hfsplus")
    for words in (("cp", f"{image}:/compressedfile", work), ("cat", f"{image}:/compressedfile"),
                  ("tar-out", f"{image}:/")):
        bad(*hfsplus, *words, mentions=("compressed its contents", "compressedfile"))
    assert not os.path.exists(f"{work}/compressedfile")
    for size in (0, 5):
        os.truncate(f"{tree}/compressedfile", size)
        result = bad(*hfsplus, "diff", f"{image}:/", tree, "--ignore", "modes,owners", code=2,
                     mentions=("compressed its contents", "compressedfile"))
        assert "size" not in result.out, result
    good(*hfsplus, "cp", f"{image}:/plainfile", work)
    result = good(*hfsplus, "cp", "-a", f"{image}:/forkedfile", work, notes=LOSSES)
    assert "forkedfile (its resource fork)" in result.err
    result = bad(*hfsplus, "cp", "-r", f"{image}:/", f"{work}/all")
    assert "resource" not in result.err
    assert sorted(os.listdir(f"{work}/all")) == ["forkedfile", "plainfile"]


ADD_KEY = 3 << 30 | 80 << 16 | ord("f") << 8 | 23
SET_POLICY = 2 << 30 | 12 << 16 | ord("f") << 8 | 19


def encrypt(root, directory):
    """Makes an empty directory encrypted, by a key of the file system at `root`."""
    key = bytes(range(64))
    request = bytearray(struct.pack("<II32sII32s", 2, 0, b"", len(key), 0, b"") + key)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, ADD_KEY, request, True)
    finally:
        os.close(descriptor)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        policy = struct.pack("<BBBB4s16s", 2, 1, 4, 3, b"", bytes(request[8:24]))
        fcntl.ioctl(descriptor, SET_POLICY, policy)
    finally:
        os.close(descriptor)


@pytest.mark.needs_root
@pytest.mark.skipif(not host.knows("ext4"), reason="the host cannot mount ext4 here")
def test_names_that_are_encrypted(work, ext4):
    """Without the key Linux shows text that stands for names and links."""
    image = images.make(f"{work}/x.img", "ext4", 0, "-O", "encrypt")
    with host.loop_mount(image, "ext4") as directory:
        os.mkdir(f"{directory}/secret")
        os.mkdir(f"{directory}/empty")
        write(f"{directory}/plain")
        for name in ("secret", "empty"):
            try:
                encrypt(directory, f"{directory}/{name}")
            except OSError as error:
                pytest.skip(f"the host's ext4 has no encryption: {error}")
        write(f"{directory}/secret/file")
        os.symlink("target", f"{directory}/secret/link")
        os.mkfifo(f"{directory}/secret/fifo")
    for words in (("cp", "-a", f"{image}:/", f"{work}/copy"),
                  ("tar-out", f"{image}:/", "-f", f"{work}/x.tar")):
        result = bad(*words, mentions=(f"{image}:/secret", "encrypted", "key is missing"))
        assert len(result.err.splitlines()) == 1, result
    assert sorted(os.listdir(f"{work}/copy")) == ["empty", "lost+found", "plain", "secret"]
    assert not os.listdir(f"{work}/copy/secret")
    with tarfile.open(f"{work}/x.tar") as packed:
        assert not [name for name in packed.getnames() if name.startswith("./secret/")]
    link, = [path for path in good("find", f"{image}:/secret", "-type", "l").out.splitlines()]
    place = f"{image}:{link[link.index(':') + 1:]}"
    bad("cp", "-a", place, f"{work}/link", mentions=("encrypted",))
    bad("mv", f"{image}:/secret", f"{ext4}:/", mentions=("encrypted",))
    assert len(good("find", f"{image}:/secret").out.splitlines()) == 4
