# SPDX-License-Identifier: GPL-2.0-only
"""
outboard mkfs where sectors have 4096 bytes: in encrypted volumes, as cryptsetup makes them, and on
devices. Our kernel mounts each new file system, and the type's checker checks it; the host's
kernel mounts it on a device with such sectors, or another program reads it.
"""

import pytest

from matrix.recipes import RECIPES
from support import host, luks
from support.images import MEGABYTE, contents, write_few_files
from support.program import LOSSES, bad, good, run

KEY = b"a secret"
LARGE = ("--sector-size", "4096")
# Megabytes of each type that is filled by our kernel: small ones, for which tools choose small
# blocks.
WRITTEN = {"ext2": 20, "ext3": 20, "ext4": 20, "xfs": 300, "btrfs": 114,
           "f2fs": 64, "vfat": 32, "fat12": 16, "fat16": 80, "fat32": 300, "ntfs": 16,
           "udf": 16, "nilfs2": 160, "jfs": 20}
PACKED = ("squashfs", "erofs", "cramfs")
IMPOSSIBLE = {"minix": 1024, "iso9660": 2048, "romfs": 1024}
UNCHECKED = ("udf", "nilfs2", "squashfs")
BY_NAME = {recipe.name: recipe for recipe in RECIPES}
RECIPES_OF = {"vfat": "vfat16", "fat12": "vfat12", "fat16": "vfat16", "fat32": "vfat32",
              "squashfs": "squashfs-gzip"}

needs_cryptsetup = pytest.mark.needs("cryptsetup")


@pytest.fixture
def key(work):
    path = f"{work}/key"
    with open(path, "wb") as stream:
        stream.write(KEY)
    return path


@pytest.fixture
def tree(work):
    return write_few_files(f"{work}/tree")


def well(image, kind, tree, *words):
    """The files are there, and the checker finds nothing."""
    assert good(*words, "cat", f"{image}:/noise").raw == open(f"{tree}/noise", "rb").read()
    assert good(*words, "cat", f"{image}:/d/19").out == "19" * 1000
    if kind not in UNCHECKED:
        checked = run(*words, "fsck", image)
        assert checked.code == 0, str(checked)


def seen_by_others(work, image, key, kind, tree):
    """The host's kernel mounts what is in the volume, or an independent reader finds the files."""
    volume = luks.decrypted(image, key)
    if not host.knows(kind):
        recipe = BY_NAME[RECIPES_OF.get(kind, kind)]
        recipe.compare_contents(volume, tree, f"{work}/theirs", inside="")
        return
    with host.loop_device(volume, *LARGE) as device, host.mounted("mount", "-t", kind,
                                                                  device) as directory:
        assert contents(f"{directory}/noise") == contents(f"{tree}/noise")


@needs_cryptsetup
@pytest.mark.parametrize("kind", WRITTEN)
def test_empty_in_an_encrypted_volume(work, key, tree, kind):
    image = luks.make(f"{work}/image", key, WRITTEN[kind] * MEGABYTE, *LARGE)
    good("--key-file", key, "mkfs", kind, image)
    copied = run("--key-file", key, "cp", "-r", f"{tree}/.", f"{image}:/")
    assert copied.code == 0, str(copied)
    well(image, kind, tree, "--key-file", key)
    seen_by_others(work, image, key, kind, tree)


@needs_cryptsetup
@pytest.mark.parametrize("more", [(), ("--reproducible",)], ids=["by the kernel", "by the tool"])
@pytest.mark.parametrize("kind", ["ext4", "vfat"])
def test_a_tree_comes_into_an_encrypted_volume(work, key, tree, kind, more):
    image = luks.make(f"{work}/image", key, 32 * MEGABYTE, *LARGE)
    made = run("--key-file", key, "mkfs", kind, image, "--size", "30M", "--from", tree, *more)
    assert made.code == 0, str(made)
    well(image, kind, tree, "--key-file", key)


@needs_cryptsetup
@pytest.mark.parametrize("kind", PACKED)
def test_a_tree_is_packed_into_an_encrypted_volume(work, key, tree, kind):
    image = luks.make(f"{work}/image", key, 8 * MEGABYTE, *LARGE)
    good("--key-file", key, "mkfs", kind, image, "--from", tree, notes=LOSSES)
    well(image, kind, tree, "--key-file", key)
    seen_by_others(work, image, key, kind, tree)


@needs_cryptsetup
def test_exfat_in_an_encrypted_volume(work, key, tree):
    """The maker can be told of sectors since version 1.2.3."""
    image = luks.make(f"{work}/image", key, 16 * MEGABYTE, *LARGE)
    if "--sector-size" in host.run("mkfs.exfat", "--help", ok=None).stderr:
        good("--key-file", key, "mkfs", "exfat", image)
        good("--key-file", key, "cp", "-r", f"{tree}/.", f"{image}:/")
        well(image, "exfat", tree, "--key-file", key)
    else:
        before = contents(image)
        bad("--key-file", key, "mkfs", "exfat", image,
            mentions=["mkfs.exfat", "sectors of 4096 bytes"])
        assert contents(image) == before


@needs_cryptsetup
@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_types_with_smaller_blocks_only(work, key, tree, kind):
    image = luks.make(f"{work}/image", key, 8 * MEGABYTE, *LARGE)
    before = contents(image)
    source = () if kind == "minix" else ("--from", tree)
    bad("--key-file", key, "mkfs", kind, image, *source,
        mentions=[kind, f"{IMPOSSIBLE[kind]} bytes", "4096"])
    assert contents(image) == before


@needs_cryptsetup
def test_options_of_the_user_win(work, key, tree):
    image = luks.make(f"{work}/image", key, 300 * MEGABYTE, *LARGE)
    good("--key-file", key, "mkfs", "xfs", image, "--", "-s", "size=4096")
    bad("--key-file", key, "mkfs", "ext4", image, "--force", "--", "-b",
        "1024", mentions=["mke2fs"])
    good("--key-file", key, "mkfs", "vfat", image, "--force", "--", "-S", "8192",
         notes=["non-standard"])
    bad("--key-file", key, "mkfs", "vfat", image, "--force", "--", "-S",
        "100", mentions=["mkfs.vfat"])


@needs_cryptsetup
@pytest.mark.parametrize("kind, sizes", [("ext4", ("--max", "40M", "--min")), ("ntfs", ("--max",))])
@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
def test_resize_in_an_encrypted_volume(work, key, tree, kind, sizes):
    image = luks.make(f"{work}/image", key, 64 * MEGABYTE, *LARGE)
    good("--key-file", key, "mkfs", kind, image, "--size", "32M")
    assert run("--key-file", key, "cp", "-r", f"{tree}/.", f"{image}:/").code == 0
    for size in sizes:
        good("--key-file", key, "resize", image, size)
        well(image, kind, tree, "--key-file", key)


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["ext4", "vfat", "minix"])
def test_a_device(work, tree, kind):
    if not host.may_mount():
        pytest.skip("no loop devices here")
    image = host.sparse_file(f"{work}/image", 32 * MEGABYTE)
    with host.loop_device(image, *LARGE) as device:
        if kind == "minix":
            bad("mkfs", kind, device, mentions=["sectors of 4096 bytes"])
            return
        good("mkfs", kind, device)
        assert run("cp", "-r", f"{tree}/.", f"{device}:/").code == 0
        well(device, kind, tree)
