# SPDX-License-Identifier: GPL-2.0-only
"""The distribution's checkers of file systems, which only look, and damage that they find and can
repair.
"""

from support import host

FSCK = {
    "ext4": ("e2fsck", "-f", "-n"), "xfs": ("xfs_repair", "-n"), "btrfs": ("btrfs", "check"),
    "f2fs": ("fsck.f2fs", "--dry-run"), "vfat": ("fsck.fat", "-n"), "exfat": ("fsck.exfat", "-n"),
    "ntfs": ("ntfsfix", "-n"), "minix": ("fsck.minix", "-f")
}


def damage_ext4(image):
    host.run("debugfs", "-w", "-R", "clri <12>", image)


def damage_vfat(image):
    """A cluster of the second table that the first does not have."""
    with open(image, "r+b") as stream:
        boot = stream.read(512)
        reserved = int.from_bytes(boot[14:16], "little")
        length = int.from_bytes(boot[22:24], "little") or int.from_bytes(boot[36:40], "little")
        stream.seek((reserved + length) * int.from_bytes(boot[11:13], "little") + 400)
        stream.write(b"\x05" * 8)


def damage_xfs(image):
    """The magic number of the root directory's inode."""
    host.run("xfs_db", "-x", "-c", "sb 0", "-c", "addr rootino", "-c", "write -d core.magic 0",
             image)


DAMAGE = {"ext4": damage_ext4, "vfat": damage_vfat, "xfs": damage_xfs}
