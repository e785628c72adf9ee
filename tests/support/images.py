# SPDX-License-Identifier: GPL-2.0-only
"""Images that several tests use, made by the distribution's tools."""

import contextlib
import hashlib
import os
import shutil
import struct
import uuid
import zlib

from support import host
from support.program import good

MEGABYTE = 1 << 20
MAKERS = {
    "ext4": ("mke2fs", "-q", "-F", "-t", "ext4"),
    "ext2": ("mke2fs", "-q", "-F", "-t", "ext2"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
    "vfat": ("mkfs.vfat", "-F", "32"),
    "exfat": ("mkfs.exfat",),
    "ntfs": ("mkfs.ntfs", "-q", "-F", "-f"),
    "minix": ("mkfs.minix", "-1"),
}
LEAST = {
    "ext4": 64, "ext2": 64, "xfs": 320, "btrfs": 128, "vfat": 64, "exfat": 64, "ntfs": 64,
    "minix": 32
}


def make(path: str, kind: str, megabytes: int = 0, *options: str) -> str:
    """An empty file system of this type in a sparse file. Returns the path."""
    host.sparse_file(path, (megabytes or LEAST[kind]) * MEGABYTE)
    host.run(*MAKERS[kind], *options, path)
    return path


def make_ext4_of(path: str, tree: str, megabytes: int = 64, *options: str) -> str:
    """An ext4 image that holds a tree, made without mounting."""
    host.sparse_file(path, megabytes * MEGABYTE)
    host.run(*MAKERS["ext4"], *options, "-d", tree, path)
    return path


def partitioned(path: str, script: str, parts: dict, megabytes: int = 256) -> str:
    """
    A disk with a partition table, by an sfdisk script whose lines say where each
    partition starts. `parts`: file-system images by the sector they start at.
    """
    host.sparse_file(path, megabytes * MEGABYTE)
    host.run("sfdisk", "-q", path, input=script)
    for sector, image in parts.items():
        host.run("dd", f"if={image}", f"of={path}", "bs=512", f"seek={sector}",
                 "conv=notrunc,sparse", "status=none")
    return path


def gpt_of_4096(path, megabytes, *places):
    """A disk with sectors of 4096 bytes and a GPT, as a file: sfdisk cannot make one there.
    `places`: starts and sizes of partitions in megabytes.
    """
    sector, size = 4096, megabytes * MEGABYTE
    last = size // sector - 1
    entries = bytearray(128 * 128)
    for index, (start, length) in enumerate(places):
        first = start * MEGABYTE // sector
        struct.pack_into("<16s16sQQ", entries, index * 128,
                         uuid.UUID("0FC63DAF-8483-4772-8E79-3D69D8477DE4").bytes_le,
                         uuid.uuid4().bytes_le, first, first + length * MEGABYTE // sector - 1)

    def header(own, other, place):
        def packed(checksum):
            return struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, checksum, 0, own,
                               other, 6, last - 5, bytes(range(16)), place, 128, 128,
                               zlib.crc32(entries))
        return packed(zlib.crc32(packed(0)))

    host.sparse_file(path, size)
    with open(path, "r+b") as stream:
        stream.seek(446)
        stream.write(struct.pack("<B3sB3sII", 0, bytes(3), 0xee, bytes(3), 1, last))
        stream.seek(510)
        stream.write(b"\x55\xaa")
        for own, other, place in ((1, last, 2), (last, 1, last - 4)):
            stream.seek(own * sector)
            stream.write(header(own, other, place))
            stream.seek(place * sector)
            stream.write(entries)
    return path


def write_noise(path: str, megabytes: int) -> str:
    with open(path, "wb") as stream:
        for _ in range(megabytes):
            stream.write(os.urandom(MEGABYTE))
    return path


def contents(path: str) -> str:
    """A hash: pytest must not show how images differ."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_few_files(directory: str) -> str:
    """`noise` of a megabyte, and 20 small ones in `d`."""
    os.makedirs(f"{directory}/d", exist_ok=True)
    write_noise(f"{directory}/noise", 1)
    for index in range(20):
        with open(f"{directory}/d/{index}", "w", encoding="ascii") as stream:
            stream.write(str(index) * 1000)
    return directory


@contextlib.contextmanager
def shown(work: str, image: str, kind: str):
    """A directory with what is in the image: the host's own mount, where its kernel knows the type.
    Elsewhere our own kernel reads what it wrote, which shows no fault that both ways have.
    """
    if host.knows(kind):
        with host.loop_mount(image, kind, "ro") as directory:
            yield directory
        return
    directory = f"{work}/shown"
    good("cp", "-a", f"{image}:/.", directory)
    yield directory
    shutil.rmtree(directory)


def check_unmounted_ext4(image: str) -> None:
    """Clean, and with no journal to replay: a look by e2fsck passes that over."""
    host.run("e2fsck", "-f", "-n", image)
    header = host.run("dumpe2fs", "-h", image).stdout
    assert "needs_recovery" not in header, f"{image}: its journal has to be replayed"


def check_ext4(image: str) -> None:
    """After a crash, the journal's replay and the orphan list alone must repair the file system."""
    host.run("e2fsck", "-f", "-p", image, ok=(0, 1))
    host.run("e2fsck", "-f", "-n", image)
