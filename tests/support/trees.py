# SPDX-License-Identifier: GPL-2.0-only
"""Trees of files: make one, describe one, compare two.

Abilities describe what a file system can hold. A tree is built within them
and compared within them, so that a test of vfat does not ask for owners.
Contents are random but seeded: two runs make the same tree.
"""

import dataclasses
import errno
import hashlib
import os
import random
import socket
import stat
import struct

SECOND = 1_000_000_000
BASE_TIME = 1_600_000_000 * SECOND
MEGABYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Abilities:
    """The attributes that a file system, or a tool that fills it, keeps."""

    modes: bool = True
    owners: bool = True
    owner_max: int = 70_000
    time_step: int | None = 1  # nanoseconds; None: times are not kept
    symlinks: bool = True
    hardlinks: bool = True
    xattrs: bool = True
    xattr_size: int = 1000
    empty_xattrs: bool = True
    acls: bool = True
    devices: bool = True
    fifos: bool = True
    sockets: bool = True
    name_max: int = 255  # bytes; units of UTF-16 where utf16_names
    utf16_names: bool = False
    unicode: bool = True
    directories: bool = True
    big: bool = True
    megabytes: int = 4  # the largest ordinary file
    depth: int = 20
    many: int = 300

    def limited_to(self, **changes):
        return dataclasses.replace(self, **changes)

    def for_user(self, root: bool):
        """The abilities that are left for a user who is not root on the host."""
        return self if root else self.limited_to(owners=False, devices=False)


@dataclasses.dataclass
class Entry:
    kind: int
    size: int = 0
    sha256: str = ""
    target: str = ""
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    rdev: int = 0
    group: str = ""  # the first path of the same inode
    xattrs: dict = dataclasses.field(default_factory=dict)
    blocks: int = 0


class Builder:
    """Writes one tree below `root`."""

    def __init__(self, root: str, abilities: Abilities, seed: int = 1):
        self.root = root
        self.abilities = abilities
        self.random = random.Random(seed)

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def file(self, name: str, content: bytes) -> str:
        path = self.path(name)
        with open(path, "wb") as stream:
            stream.write(content)
        return path

    def noise(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def build(self, size: str) -> None:
        os.makedirs(self.root)
        self.sizes()
        self.names()
        if self.abilities.directories:
            self.directories(size)
        self.links()
        self.attributes()
        self.specials()
        self.sparse(size)
        self.modes()
        self.times()

    def sizes(self) -> None:
        for count in (0, 1, 4095, 4096, 4097):
            self.file(f"size{count}", self.noise(count))
        self.file("random", self.noise(self.abilities.megabytes * MEGABYTE // 4))
        self.file("text", b"all work and no play\n" * 5000)

    def names(self) -> None:
        self.file("with space", b"space")
        if self.abilities.unicode:
            self.file("größe", b"latin")
            self.file("日本語のファイル", b"kanji")
        self.file("L" + "o" * (self.abilities.name_max - 5) + ".txt", b"long")

    def directories(self, size: str) -> None:
        deep = "deep"
        for level in range(self.abilities.depth):
            os.mkdir(self.path(deep))
            self.file(f"{deep}/leaf", b"%d" % level)
            deep = f"{deep}/d{level}"
        os.mkdir(self.path("empty"))
        os.mkdir(self.path("many"))
        for number in range(self.abilities.many if size == "full" else 30):
            self.file(f"many/file{number:05}", b"%d\n" % number)

    def links(self) -> None:
        if self.abilities.symlinks:
            os.symlink("text", self.path("link"))
            os.symlink("/does/not/exist", self.path("dangling"))
            os.symlink("x" * 200, self.path("longlink"))
        if self.abilities.hardlinks:
            os.link(self.path("text"), self.path("hard1"))
            if self.abilities.directories:
                os.link(self.path("text"), self.path("empty/hard2"))

    def attributes(self) -> None:
        if self.abilities.xattrs:
            path = self.file("attributed", b"attributes")
            os.setxattr(path, "user.short", b"value")
            os.setxattr(path, "user.long", self.noise(self.abilities.xattr_size))
            if self.abilities.empty_xattrs:
                os.setxattr(path, "user.empty", b"")
            os.setxattr(self.path("many"), "user.directory", b"also")
        if self.abilities.acls:
            os.setxattr(self.file("acl", b"acl"), "system.posix_acl_access", acl(user=1234))
            os.setxattr(self.path("many"), "system.posix_acl_default", acl(user=1234))

    def specials(self) -> None:
        if self.abilities.fifos:
            os.mkfifo(self.path("fifo"))
        if self.abilities.sockets:
            make_socket(self.path("socket"))
        if self.abilities.devices:
            os.mknod(self.path("null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
            os.mknod(self.path("disk"), stat.S_IFBLK | 0o660, os.makedev(8, 17))

    def sparse(self, size: str) -> None:
        self.hole("sparse", 3 * MEGABYTE, [(2 * MEGABYTE, 5000)])
        if size == "full" and self.abilities.big:
            pieces = [(n * 25 * MEGABYTE, MEGABYTE // 2) for n in range(8)]
            self.hole("big", 200 * MEGABYTE, pieces)

    def hole(self, name: str, length: int, pieces) -> None:
        with open(self.path(name), "wb") as stream:
            for offset, count in pieces:
                stream.seek(offset)
                stream.write(self.noise(count))
            stream.truncate(length)

    def modes(self) -> None:
        if self.abilities.owners:
            most = self.abilities.owner_max
            os.chown(self.path("size1"), min(1000, most), min(1001, most))
            os.chown(self.path("size4095"), most, most - 1)
        if self.abilities.modes:
            # Root reads what nobody may read.
            least = 0o000 if os.geteuid() == 0 else 0o400
            for name, mode in (("size0", least), ("size1", 0o444), ("size4095", 0o6755),
                               ("size4096", 0o4711), ("with space", 0o2750)):
                os.chmod(self.path(name), mode)
            if self.abilities.directories:
                os.chmod(self.path("empty"), 0o1777)

    def times(self) -> None:
        offset = 123_456_789
        for directory, folders, files in os.walk(self.root, topdown=False):
            for name in sorted(files) + sorted(folders):
                offset += 97 * SECOND + 1_000_003
                moment = BASE_TIME + offset
                os.utime(os.path.join(directory, name), ns=(moment, moment), follow_symlinks=False)
        os.utime(self.root, ns=(BASE_TIME, BASE_TIME))


def acl(user: int) -> bytes:
    """A POSIX ACL as the kernel's xattr holds it: rwx for the owner, r-x for `user`, r-- for the
    rest.
    """
    entries = ((0x01, 7, 0xFFFFFFFF), (0x02, 5, user), (0x04, 4, 0xFFFFFFFF), (0x10, 5, 0xFFFFFFFF),
               (0x20, 4, 0xFFFFFFFF))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def make_socket(path: str) -> None:
    """Binds a socket by a short relative name: the length of sun_path is limited."""
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind(os.path.basename(path))
    finally:
        os.chdir(here)


def build(root: str, abilities: Abilities, size: str = "full") -> None:
    """Makes a tree at `root`, which must not exist. `size`: full or small."""
    Builder(root, abilities).build(size)


def sha256_of(path: str) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def xattrs_of(path: str) -> dict:
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            return {}
        raise
    kept = [name for name in names if name.startswith(("user.", "system.posix_acl"))]
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in kept}


def describe(root: str) -> dict:
    """Path (relative to root) to Entry, for everything below root."""
    found = {}
    inodes = {}
    for directory, folders, files in os.walk(root):
        for name in sorted(folders + files):
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, root)
            if relative != "lost+found":
                found[relative] = entry_of(path, relative, inodes)
        if directory == root and "lost+found" in folders:
            folders.remove("lost+found")
    return found


def contents(root: str) -> dict:
    """Path to hash of each regular file of a tree."""
    return {path: entry.sha256 for path, entry in describe(root).items() if entry.sha256}


def entry_of(path: str, relative: str, inodes: dict) -> Entry:
    info = os.lstat(path)
    entry = Entry(kind=stat.S_IFMT(info.st_mode), mode=stat.S_IMODE(info.st_mode), uid=info.st_uid,
                  gid=info.st_gid, mtime=info.st_mtime_ns, rdev=info.st_rdev, blocks=info.st_blocks,
                  xattrs=xattrs_of(path))
    if stat.S_ISREG(info.st_mode):
        entry.size = info.st_size
        entry.sha256 = sha256_of(path)
        entry.group = inodes.setdefault((info.st_dev, info.st_ino), relative)
    elif stat.S_ISLNK(info.st_mode):
        entry.target = os.readlink(path)
    return entry


def differences(expected: dict, actual: dict, abilities: Abilities) -> list:
    """Lines that say what differs, within what `abilities` keeps. Empty: the same."""
    lines = [f"missing: {path}" for path in sorted(expected.keys() - actual.keys())]
    lines += [f"unexpected: {path}" for path in sorted(actual.keys() - expected.keys())]
    for path in sorted(expected.keys() & actual.keys()):
        lines += [
            f"{path}: {line}" for line in entry_differences(expected[path], actual[path], abilities)
        ]
    return lines


def entry_differences(want: Entry, got: Entry, abilities: Abilities) -> list:
    fields = ["kind", "size", "sha256", "target"]
    link = stat.S_ISLNK(want.kind)
    if abilities.modes and not link:
        fields.append("mode")
    if abilities.owners:
        fields += ["uid", "gid"]
    if abilities.hardlinks:
        fields.append("group")
    if stat.S_ISCHR(want.kind) or stat.S_ISBLK(want.kind):
        fields.append("rdev")
    lines = [f"{name} is {getattr(got, name)!r}, not {getattr(want, name)!r}"
             for name in fields if getattr(got, name) != getattr(want, name)]
    step = abilities.time_step
    if step and abs(want.mtime - got.mtime) >= step and not link:
        lines.append(f"mtime is {got.mtime}, not {want.mtime}")
    return lines + xattr_differences(want, got, abilities)


def xattr_differences(want: Entry, got: Entry, abilities: Abilities) -> list:
    prefixes = (("user.", ) if abilities.xattrs else
                ()) + (("system.posix_acl", ) if abilities.acls else ())
    if not prefixes:
        return []
    names = {name for name in want.xattrs.keys() | got.xattrs.keys() if name.startswith(prefixes)}
    return [f"xattr {name} is {got.xattrs.get(name)!r}, not {want.xattrs.get(name)!r}"
            for name in sorted(names) if want.xattrs.get(name) != got.xattrs.get(name)]
