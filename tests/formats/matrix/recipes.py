# SPDX-License-Identifier: GPL-2.0-only
"""One recipe per file system and variant: who makes the image, what it can hold, who checks and
reads it.

A type that cannot be tested here stands in NOT_TESTED with the reason. To add a type, add a recipe.
"""

import dataclasses
import functools
from collections.abc import Callable

from matrix import tools
from matrix.tools import maker
from support import hfsplus, trees
from support.trees import SECOND, Abilities

ALL = Abilities()
PLAIN = Abilities(modes=False, owners=False, xattrs=False, acls=False,
                  devices=False, fifos=False, sockets=False)
NO_XATTRS = Abilities(xattrs=False, acls=False)


@dataclasses.dataclass(frozen=True)
class Recipe:
    name: str
    kind: str  # the kernel's name of the type
    made_by: str
    needs: tuple  # host tools
    empty: Callable | None = None  # makes an empty image; None: the type is only read
    fill: Callable | None = None  # makes an image that holds a tree; None: no tool can
    filled_by: str = ""
    filled: Abilities = ALL  # what the filler keeps
    written: Abilities | None = ALL  # what our writing keeps; None: not written
    check: Callable | None = None
    checked_by: str = ""
    read: Callable | None = None  # an independent reader of what we wrote
    read_by: str = ""
    read_fully: bool = False  # that reader shows modes, owners, times and so on
    fill_needs: str = ""  # "loop" or "fuse": what of the host the filler uses
    options: tuple = ()  # of our program
    vcpus: tuple = ()  # further vCPU counts that are tried with a small tree

    def compare_contents(self, image: str, tree: str, directory: str, inside: str = "/tree"):
        """The independent reader finds all files of the tree in the image, with their bytes.
        `directory`: a new one, `inside`: the place in the image.
        """
        left_out = self.read(image, directory, tree, inside) or set()
        expected, actual = trees.contents(tree), trees.contents(directory)
        wrong = [path for path, content in actual.items() if expected.get(path) != content]
        assert not wrong, f"{self.read_by} reads other bytes in {wrong[:10]}"
        missing = sorted(set(expected) - set(actual) - left_out)
        assert not missing, f"{self.read_by} does not see {missing[:10]}"


GRUB = {"read": tools.read_by_grub(), "read_by": "GRUB"}
# Its drivers of these types do not know holes.
GRUB_WITHOUT_HOLES = {"read": tools.read_by_grub("sparse", "big"), "read_by": "GRUB"}


DEBUGFS = {"read": tools.read_by_debugfs, "read_by": "debugfs rdump", "read_fully": False}


def by_mke2fs(*options):
    return {"fill": tools.fill_by_mke2fs(512, *options), "filled_by": "mke2fs -d", "fill_needs": "",
            "filled": ALL.limited_to(time_step=SECOND, sockets=False)}


def ext(name, kind, *options, **changes):
    make = maker(512, "mke2fs", "-q", "-F", *options)
    fields = dict(
        name=name, kind=kind, made_by="mke2fs " + " ".join(options), needs=("mke2fs", "e2fsck"),
        empty=make,
        fill=tools.fill_by_loop(make, kind), filled_by="host's loop mount", fill_needs="loop",
        check=tools.checker("e2fsck", "-f", "-n"), checked_by="e2fsck -fn",
        read=tools.read_by_loop(kind), read_by="host's loop mount", read_fully=True)
    return Recipe(**{**fields, **changes})


def ext_family():
    whole_seconds = ALL.limited_to(time_step=SECOND)
    small_inodes = whole_seconds.limited_to(xattr_size=500)
    ext2 = ("-t", "ext2")
    bigalloc = ("-t", "ext4", "-O", "bigalloc,inline_data,metadata_csum_seed")
    casefold = ("-t", "ext4", "-O", "casefold", "-E", "encoding=utf8")
    return [
        ext("ext2", "ext2", *ext2, **by_mke2fs(*ext2), written=whole_seconds),
        ext("ext3", "ext3", "-t", "ext3"),
        ext("ext4", "ext4", "-t", "ext4", vcpus=(1, 4)),
        ext("ext4-1k-128", "ext4", "-t", "ext4", "-b", "1024", "-I", "128",
            filled=small_inodes, written=small_inodes),
        ext("ext4-bigalloc", "ext4", *bigalloc),
        ext("ext4-casefold", "ext4", *casefold, **by_mke2fs(*casefold), **DEBUGFS),
    ]


def xfs(name, *options, **changes):
    make = maker(512, "mkfs.xfs", "-q", "-f", *options)
    fields = dict(
        name=name, kind="xfs", made_by=" ".join(("mkfs.xfs", *options)),
        needs=("mkfs.xfs", "xfs_repair"), empty=make,
        fill=tools.fill_by_loop(make, "xfs"), filled_by="host's loop mount", fill_needs="loop",
        check=tools.checker("xfs_repair", "-n", "-f"), checked_by="xfs_repair -n",
        read=tools.read_by_loop("xfs", "ro,norecovery"), read_by="host's loop mount",
        read_fully=True)
    return Recipe(**{**fields, **changes})


def btrfs(name, *options, mount="rw", **changes):
    make = maker(512, "mkfs.btrfs", "-q", *options)
    fields = dict(
        name=name, kind="btrfs", made_by=" ".join(("mkfs.btrfs", *options)),
        needs=("mkfs.btrfs", "btrfs"), empty=make,
        fill=tools.fill_by_loop(make, "btrfs", mount), filled_by=f"host's loop mount -o {mount}",
        fill_needs="loop",
        check=tools.checker("btrfs", "check", "--readonly"), checked_by="btrfs check",
        read=tools.read_by_loop("btrfs"), read_by="host's loop mount", read_fully=True)
    return Recipe(**{**fields, **changes})


def journalled_family():
    f2fs = maker(512, "mkfs.f2fs", "-q")
    f2fs_features = ("-O", "extra_attr,inode_checksum,sb_checksum,compression,inode_crtime")
    f2fs_packed = maker(512, "mkfs.f2fs", "-q", *f2fs_features)
    # sload.f2fs keeps the lower 16 bits of owners.
    sload = {"filled": PLAIN.limited_to(modes=True, owners=True, owner_max=65_000,
                                        time_step=SECOND, hardlinks=False),
             "filled_by": "sload.f2fs -P"}
    f2fs_check = {"check": tools.check_f2fs, "checked_by": "fsck.f2fs --dry-run",
                  # GRUB stops at a name of 255 bytes.
                  "written": ALL.limited_to(name_max=250), **GRUB}
    return [
        xfs("xfs", vcpus=(1, 4)),
        xfs("xfs-16k-directories", "-n", "size=16384"),
        xfs("xfs-v4", "-m", "crc=0", fill=None, read_fully=False, **GRUB),
        btrfs("btrfs", vcpus=(1, 4)),
        btrfs("btrfs-zstd", mount="rw,compress-force=zstd"),
        btrfs("btrfs-rootdir", "--mixed", fill=tools.fill_by_mkfs_btrfs(512),
              filled_by="mkfs.btrfs --rootdir", fill_needs="",
              filled=ALL.limited_to(hardlinks=False, devices=False, sockets=False,
                                    time_step=SECOND)),
        Recipe("f2fs", "f2fs", "mkfs.f2fs", ("mkfs.f2fs", "sload.f2fs", "fsck.f2fs", "grub-fstest"),
               f2fs,
               tools.fill_by_sload(f2fs, "-P"), vcpus=(1, 4), **sload, **f2fs_check),
        Recipe("f2fs-compression", "f2fs", "mkfs.f2fs " + " ".join(f2fs_features),
               ("mkfs.f2fs", "fsck.f2fs", "grub-fstest"),
               f2fs_packed, **{**f2fs_check, "read": None,
                               "read_by": ""}),  # GRUB does not know these features
        Recipe("jfs", "jfs", "mkfs.jfs", ("mkfs.jfs", "jfs_fsck", "grub-fstest"),
               maker(400, "mkfs.jfs", "-q"),
               check=tools.checker("jfs_fsck", "-n", "-f"), checked_by="jfs_fsck -n -f",
               **GRUB_WITHOUT_HOLES),
        Recipe("nilfs2", "nilfs2", "mkfs.nilfs2", ("mkfs.nilfs2", "grub-fstest"),
               maker(512, "mkfs.nilfs2", "-q"),
               written=NO_XATTRS, **GRUB_WITHOUT_HOLES),
    ]


def vfat(bits, image_size, **changes):
    make = maker(image_size, "mkfs.vfat", "-F", str(bits))
    holds = PLAIN.limited_to(symlinks=False, hardlinks=False, time_step=2 * SECOND,
                             utf16_names=True, **changes)
    return Recipe(
        f"vfat{bits}", "vfat", f"mkfs.vfat -F {bits}", ("mkfs.vfat", "fsck.fat", "mcopy"),
        make, tools.fill_by_mtools(make),
        "mcopy", holds, holds, tools.checker("fsck.fat", "-n"), "fsck.fat -n",
        tools.read_by_mtools, "mcopy",
        vcpus=(1, 4) if bits == 32 else ())


def foreign_family():
    exfat = maker(400, "mkfs.exfat")
    exfat_holds = PLAIN.limited_to(symlinks=False, hardlinks=False, time_step=2 * SECOND,
                                   utf16_names=True)
    ntfs = maker(400, "mkntfs", "-F", "-Q", "-q")
    hfs = maker(64, "hformat", "-l", "Outboard")
    hfs_holds = PLAIN.limited_to(symlinks=False, hardlinks=False, unicode=False,
                                 name_max=31, time_step=None, big=False,
                                 megabytes=1, depth=6)
    # hfsutils create everything with the time of now, and Mac OS keeps local times.
    return [
        vfat(12, 16, big=False, megabytes=1),
        vfat(16, 300),
        vfat(32, 400),
        Recipe("exfat", "exfat", "mkfs.exfat",
               ("mkfs.exfat", "fsck.exfat", "mount.exfat-fuse", "grub-fstest"), exfat,
               tools.fill_by_fuse(exfat, "mount.exfat-fuse"), "exfat-fuse",
               exfat_holds, exfat_holds,
               tools.checker("fsck.exfat", "-n"), "fsck.exfat -n", fill_needs="fuse",
               vcpus=(1, 4), **GRUB),
        Recipe("ntfs", "ntfs3", "mkntfs", ("mkntfs", "ntfsfix", "ntfs-3g", "grub-fstest"), ntfs,
               tools.fill_by_fuse(ntfs, "ntfs-3g"), "ntfs-3g",
               PLAIN.limited_to(symlinks=False, time_step=100, utf16_names=True),
               ALL.limited_to(acls=False, devices=False, time_step=100, utf16_names=True),
               tools.checker("ntfsfix", "-n"), "ntfsfix -n (weak)",
               fill_needs="fuse", vcpus=(1, 4), **GRUB),
        Recipe("hfs", "hfs", "hformat", ("hformat", "hmount", "hcopy"),
               hfs, tools.fill_by_hfsutils(hfs), "hcopy", hfs_holds,
               hfs_holds, read=tools.read_by_hfsutils, read_by="hcopy"),
        Recipe("hfsplus-hybrid", "hfsplus", "xorriso -as mkisofs -hfsplus", ("xorriso",),
               fill=tools.fill_by_xorriso_hfsplus, filled_by="itself",
               filled=PLAIN.limited_to(hardlinks=False, time_step=SECOND,
                                       utf16_names=True, big=False), written=None),
        Recipe("hfsplus", "hfsplus", "tests/support/hfsplus.py (ours)", ("grub-fstest",),
               functools.partial(hfsplus.make, megabytes=400),
               # Linux's driver cannot list the attributes of a file if one of them is empty.
               written=ALL.limited_to(acls=False, empty_xattrs=False, time_step=SECOND,
                                      utf16_names=True),
               # HFS+ decomposes names, GRUB does not; nor does it follow hard links.
               read=tools.read_by_grub("größe", "text", "hard", "empty/hard"), read_by="GRUB"),
        Recipe("udf", "udf", "mkudffs", ("mkudffs", "grub-fstest"),
               maker(400, "mkudffs", "--blocksize=512"),
               written=ALL.limited_to(xattrs=False, acls=False, time_step=1000, name_max=120),
               **GRUB_WITHOUT_HOLES),
        Recipe("udf-bridge", "udf", "genisoimage -udf", ("genisoimage",),
               fill=tools.fill_with("genisoimage", "-quiet", "-udf", "-allow-limited-size",
                                    "-o", "IMAGE", "TREE"),
               filled_by="itself", written=None, options=("--type", "udf"),
               filled=PLAIN.limited_to(symlinks=False, hardlinks=False,
                                       time_step=SECOND, name_max=60, depth=6)),
    ]


def minix(version, name_max, **changes):
    # Version 1 and 2 keep 16-bit owners and, version 1, at most 64 MB in all.
    holds = ALL.limited_to(xattrs=False, acls=False, sockets=True, time_step=SECOND,
                           name_max=name_max, **changes)
    megabytes = 60 if version == 1 else 400
    return Recipe(
        f"minix{version}", "minix", f"mkfs.minix -{version}",
        ("mkfs.minix", "fsck.minix", "grub-fstest"),
        maker(megabytes, "mkfs.minix", f"-{version}"), written=holds,
        check=tools.checker("fsck.minix", "-f"),
        checked_by="fsck.minix -f", **GRUB)


def small_family():
    return [
        minix(1, 30, owner_max=250, big=False, many=100),
        minix(2, 30, owner_max=65_000),
        minix(3, 60, owner_max=65_000),
        ufs1(),
        *[affs(name, dos_type) for name, dos_type in (("affs-ofs", "ofs"), ("affs-ffs", "ffs"))],
    ]


def ufs1():
    return Recipe(
        "ufs1", "ufs", "makefs -t ffs -o version=1", ("makefs",),
        fill=tools.fill_with("makefs", "-t", "ffs", "-o", "version=1",
                             "-b", "20%", "-f", "500", "IMAGE", "TREE"),
        filled_by="itself", filled=NO_XATTRS.limited_to(time_step=SECOND, sockets=False),
        written=None)


def affs(name, dos_type):
    return Recipe(
        name, "affs", f"xdftool format {dos_type} (amitools)", ("xdftool",),
        fill=tools.fill_by_xdftool(dos_type),
        filled_by="xdftool write", written=None,
        filled=PLAIN.limited_to(symlinks=False, hardlinks=False, unicode=False,
                                name_max=30, time_step=None, big=False, many=60,
                                megabytes=1, depth=6))


def iso(name, made_by, holds, *options, program=("genisoimage", "-quiet")):
    return Recipe(
        name, "iso9660", made_by, (program[0],),
        fill=tools.fill_with(*program, *options, "-o", "IMAGE", "TREE"),
        filled_by="itself", filled=holds, written=None)


def squashfs(compressor):
    return Recipe(
        f"squashfs-{compressor}", "squashfs", f"mksquashfs -comp {compressor}", ("mksquashfs",),
        fill=tools.fill_with("mksquashfs", "TREE", "IMAGE", "-quiet", "-no-progress",
                             "-comp", compressor),
        filled_by="itself", filled=ALL.limited_to(acls=False, time_step=SECOND), written=None)


def erofs(name, *options):
    return Recipe(
        name, "erofs", " ".join(("mkfs.erofs", *options)), ("mkfs.erofs",),
        fill=tools.fill_with("mkfs.erofs", "--quiet", "--preserve-mtime",
                             *options, "IMAGE", "TREE"), filled_by="itself",
        filled=ALL.limited_to(name_max=250), written=None)


def packed_family():
    # Deeper directories would be moved elsewhere by the maker.
    rock_ridge = NO_XATTRS.limited_to(time_step=SECOND, hardlinks=False, name_max=240, depth=6)
    joliet = PLAIN.limited_to(symlinks=False, hardlinks=False, time_step=SECOND,
                              name_max=60, depth=6)
    xorriso = ("xorriso", "-as", "mkisofs", "-quiet")
    return [
        iso("iso9660-rock-ridge", "genisoimage -R", rock_ridge, "-R"),
        iso("iso9660-joliet", "genisoimage -J", joliet, "-J", "-joliet-long"),
        iso("iso9660-both", "genisoimage -R -J", rock_ridge.limited_to(name_max=100),
            "-R", "-J", "-joliet-long"),
        iso("iso9660-xorriso", "xorriso -as mkisofs -R -J", rock_ridge.limited_to(name_max=100),
            "-R", "-J", "-joliet-long",
            program=xorriso),
        Recipe("iso9660-zisofs", "iso9660", "xorriso -set_filter_r --zisofs",
               ("xorriso",), filled_by="itself",
               filled=rock_ridge, written=None,
               fill=tools.fill_with("xorriso", "-outdev", "IMAGE", "-map",
                                    "TREE", "/", "-set_filter_r", "--zisofs", "/", "--")),
        *[squashfs(compressor) for compressor in ("gzip", "lzo", "lz4", "xz", "zstd")],
        erofs("erofs"),
        erofs("erofs-lz4", "-zlz4"),
        erofs("erofs-lz4hc", "-zlz4hc,9", "-C65536"),
        Recipe("romfs", "romfs", "genromfs", ("genromfs",),
               fill=tools.fill_with("genromfs", "-d", "TREE", "-f", "IMAGE"),
               filled_by="itself", written=None,
               filled=PLAIN.limited_to(time_step=None, hardlinks=False, name_max=120,
                                       fifos=True, sockets=True, devices=True, big=False)),
        Recipe("cramfs", "cramfs", "mkfs.cramfs", ("mkfs.cramfs",),
               fill=tools.fill_with("mkfs.cramfs", "TREE", "IMAGE"),
               filled_by="itself", written=None,
               read=tools.read_by_fsck_cramfs, read_by="fsck.cramfs --extract",
               filled=NO_XATTRS.limited_to(owner_max=250, owners=False, time_step=None,
                                           hardlinks=False, name_max=250, big=False)),
    ]


RECIPES = [*ext_family(), *journalled_family(), *foreign_family(), *small_family(),
           *packed_family()]

NOT_TESTED = {
    "bcachefs": "no maker: bcachefs-tools is not in Debian 12",
    "erofs-lzma": "mkfs.erofs of Debian 12 is built without lzma",
    "squashfs-lzma": "the kernel has no reader of the old lzma format",
    "befs": "no maker found",
    "qnx4": "no maker found",
    "qnx6": "no maker found",
    "sysv": "no maker found",
    "ufs2": "makefs of Debian 12 puts the superblock at 8 KB, Linux looks for it at 64 KB",
}
