# SPDX-License-Identifier: GPL-2.0-only
"""Types, labels and UUIDs: `outboard info` reports what blkid reports, for every type that a tool
here makes.
"""

import os

import pytest

from support import hfsplus, host
from support.images import MEGABYTE
from support.json_output import document
from support.program import run

LABEL = "Lab é 1"
# The size in MB of each image, and the command that makes it. {image} is the image, {tree} a
# directory with a file, {label} the label.
MAKERS = {
    "ext2": (16, "mke2fs -q -F -t ext2 -L {label} {image}"),
    "ext4": (16, "mke2fs -q -F -t ext4 -L {label} {image}"),
    "xfs": (320, "mkfs.xfs -q -f -L {label} {image}"),
    "btrfs": (128, "mkfs.btrfs -q -f -L {label} {image}"),
    "f2fs": (64, "mkfs.f2fs -q -f -l {label} {image}"),
    "vfat": (64, "mkfs.vfat -n A_B {image}"),
    "vfat32": (64, "mkfs.vfat -F 32 {image}"),
    "exfat": (64, "mkfs.exfat -L {label} {image}"),
    "ntfs": (16, "mkntfs -F -Q -q -L {label} {image}"),
    "udf": (16, "mkudffs --blocksize=512 --label={label} {image}"),
    "udf-set": (
        16,
        "mkudffs --blocksize=2048 --media-type=hd --uuid=0123456789abcdef --label={label} {image}"),
    "nilfs2": (160, "mkfs.nilfs2 -q -f -L {label} {image}"),
    "jfs": (32, "mkfs.jfs -q -L {label} {image}"),
    "minix": (16, "mkfs.minix -3 {image}"),
    "swap": (16, "mkswap -L {label} {image}"),
    "hfs": (16, "hformat -l Outboard {image}"),
    "luks1": (16,
              "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 {image} {key}"),
    "luks2": (32, "cryptsetup luksFormat -q --type luks2 --label {label} --pbkdf pbkdf2 "
              "--pbkdf-force-iterations 1000 {image} {key}"),
    "squashfs": (0, "mksquashfs {tree} {image} -noappend -quiet -no-progress"),
    "erofs": (0, "mkfs.erofs --quiet {image} {tree}"),
    "iso9660": (0, "xorriso -as mkisofs -quiet -R -J -V LABELLED -o {image} {tree}"),
    "udf-bridge": (0, "genisoimage -quiet -udf -V LABELLED -o {image} {tree}"),
    "cramfs": (0, "mkfs.cramfs -n LABELLED {tree} {image}"),
    "ufs": (0, "makefs -t ffs -o version=1 -s 2m {image} {tree}"),
}


def by_blkid(image):
    """The type, label and UUID that libblkid finds; an empty text for each that is missing."""
    return {key: host.run("blkid", "-p", "-o", "value", "-s", key.upper(),
                          image, ok=(0, 2)).stdout.rstrip("\n")
            for key in ("type", "label", "uuid")}


def by_outboard(image):
    # Outboard also reports types that this kernel cannot mount.
    done = run("info", "--json", image)
    assert done.code == 0, str(done)
    found = document(done)["disk"]["filesystem"]
    return {key: found[key] or "" for key in ("type", "label", "uuid")}


@pytest.mark.parametrize("kind", MAKERS)
def test_as_blkid_reports_it(work, kind):
    megabytes, words = MAKERS[kind]
    tool = words.partition(" ")[0]
    if not host.have(tool):
        pytest.skip(f"{tool} is not installed")
    image, tree, key = f"{work}/image", f"{work}/tree", f"{work}/key"
    os.mkdir(tree)
    for path in (f"{tree}/file", key):
        with open(path, "w", encoding="ascii") as stream:
            stream.write("text")
    if megabytes:
        host.sparse_file(image, megabytes * MEGABYTE)
    host.run(*(word.format(image=image, tree=tree, key=key, label=LABEL) for word in words.split()))
    expected = by_blkid(image)
    assert expected["type"], "blkid does not know it either: this test is void"
    assert by_outboard(image) == expected


@pytest.mark.parametrize("kind", ["hfs", "hfsplus"])
def test_uuids_of_macintosh_volumes(work, kind):
    """No tool here gives a volume an identifier: it is put into the volume header."""
    image = f"{work}/image"
    if kind == "hfsplus":
        hfsplus.make(image, megabytes=64, label="Größe 日本")
    elif not host.have("hformat"):
        pytest.skip("hformat is not installed")
    else:
        host.sparse_file(image, 16 * MEGABYTE)
        host.run("hformat", "-l", "Outboard", image)
    assert by_outboard(image)["uuid"] == ""
    with open(image, "r+b") as stream:
        stream.seek(1024 + {"hfs": 116, "hfsplus": 104}[kind])
        stream.write(bytes(range(1, 9)))
    expected = by_blkid(image)
    assert expected["label"] and expected["uuid"]
    assert by_outboard(image) == expected


def test_label_of_hfsplus_in_a_wrapper(work):
    """HFS+ inside of HFS, as old Macintosh disks have it: the volume begins further in."""
    inner, image = f"{work}/inner", f"{work}/image"
    hfsplus.make(inner, megabytes=16, label="Inside")
    host.sparse_file(image, 17 * MEGABYTE)
    with open(image, "r+b") as stream, open(inner, "rb") as content:
        stream.seek(1024)
        header = bytearray(512)
        header[0:2], header[20:24], header[28:30] = b"BD", (4096).to_bytes(
            4, "big"), (8).to_bytes(2, "big")
        header[124:126], header[126:128], header[128:130] = b"H+", (2).to_bytes(
            2, "big"), (4096).to_bytes(2, "big")
        stream.write(header)
        stream.seek(8 * 512 + 2 * 4096)
        stream.write(content.read())
    expected = by_blkid(image)
    assert expected["label"] == "Inside"
    assert by_outboard(image) == expected
