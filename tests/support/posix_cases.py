# SPDX-License-Identifier: GPL-2.0-only
"""
System calls on files of each kind, as users with different rights: every outcome as text.

Run as root with a directory of the file system in question, and one of the users if only that is to
be looked at; prints JSON, case to outcome. Two file systems behave alike if they print the same.
The right outcomes are not written here: the host kernel's own mount has them. Not among them: chown
with -1 twice and truncate to the same size, which are FUSE's own matter (docs/caveats.md).
"""

import errno
import json
import os
import shutil
import stat
import sys

OLD = (10**9, 10**9)
USERS = {
    "root": (0, 0, []), "owner": (1000, 1000, []), "member": (2000, 2000, [1000]),
    "other": (3000, 3000, [])
}


def file(path, content=b"text"):
    with open(path, "wb") as stream:
        stream.write(content)


def folder(path):
    os.mkdir(path)
    file(f"{path}/inside")


KINDS = {
    "nothing": lambda path: None,
    "file": file,
    "set-id file": lambda path: (file(path), os.chown(path, 1000, 1000), os.chmod(path, 0o6755)),
    "read-only file": lambda path: (file(path), os.chown(path, 1000, 1000), os.chmod(path, 0o444)),
    "group's file": lambda path: (file(path), os.chown(path, 1, 1000), os.chmod(path, 0o460)),
    "directory": os.mkdir,
    "full directory": folder,
    "link to file": lambda path: (file(path + ".target"), os.symlink("x.target", path)),
    "dangling link": lambda path: os.symlink("nowhere", path),
    "link to itself": lambda path: os.symlink("x", path),
    "fifo": os.mkfifo,
    "device": lambda path: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3)),
    "hard link": lambda path: (file(path + ".other"), os.link(path + ".other", path)),
}
PARENTS = {"open": 0o755, "sticky": 0o1777, "set-gid": 0o2777, "closed": 0o700, "no search": 0o666}


def opened(flags, mode=0o666):
    def work(path):
        descriptor = os.open(path, flags | os.O_NONBLOCK, mode)
        try:
            if flags & (os.O_WRONLY | os.O_RDWR) and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"more")
        finally:
            os.close(descriptor)
    return work


def renamed_onto(kind):
    def work(path):
        os.rename(path, path + ".new")
    work.prepare = lambda path: KINDS[kind](path + ".new")
    return work


ONE = {
    "open read": opened(os.O_RDONLY),
    "open write": opened(os.O_WRONLY),
    "open append": opened(os.O_RDWR | os.O_APPEND),
    "open truncate": opened(os.O_WRONLY | os.O_TRUNC),
    "open create": opened(os.O_WRONLY | os.O_CREAT, 0o6751),
    "open exclusive": opened(os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600),
    "open directory": opened(os.O_RDONLY | os.O_DIRECTORY),
    "open no link": opened(os.O_RDONLY | os.O_NOFOLLOW),
    "open below": lambda path: opened(os.O_RDONLY)(path + "/below"),
    "create below": lambda path: opened(os.O_WRONLY | os.O_CREAT)(path + "/below"),
    "mkdir": lambda path: os.mkdir(path, 0o3777),
    "mkdir below": lambda path: os.mkdir(path + "/below"),
    "mkfifo": lambda path: os.mkfifo(path, 0o640),
    "mknod socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "mknod device": lambda path: os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(8, 300)),
    "symlink": lambda path: os.symlink("some/where", path),
    "link": lambda path: os.link(path, path + ".linked", follow_symlinks=False),
    "link over": lambda path: os.link("/proc/self/cwd/helper", path),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "rmdir slash": lambda path: os.rmdir(path + "/"),
    "rmdir dot": lambda path: os.rmdir(path + "/."),
    "rename": lambda path: os.rename(path, path + ".new"),
    "rename to itself": lambda path: os.rename(path, path),
    "rename into itself": lambda path: os.rename(path, path + "/below"),
    "rename over helper": lambda path: os.rename(path, "helper"),
    "rename helper over": lambda path: os.rename("helper", path),
    "rename folder over": lambda path: os.rename("folder", path),
    "chmod": lambda path: os.chmod(path, 0o7754),
    "chmod plain": lambda path: os.chmod(path, 0o640),
    "chown user": lambda path: os.chown(path, 3000, -1),
    "chown group": lambda path: os.chown(path, -1, 1000),
    "chown both": lambda path: os.chown(path, 1000, 1000),
    "lchown": lambda path: os.lchown(path, 2000, 2000),
    "truncate shorter": lambda path: os.truncate(path, 2),
    "truncate longer": lambda path: os.truncate(path, 70000),
    "truncate negative": lambda path: os.truncate(path, -1),
    "utime": lambda path: os.utime(path, (5, 7)),
    "utime now": os.utime,
    "utime of link": lambda path: os.utime(path, (5, 7), follow_symlinks=False),
    "utime before 1970": lambda path: os.utime(path, ns=(-1500000000, -2500000000)),
    "readlink": os.readlink,
    "listdir": os.listdir,
    "access": lambda path: [os.access(path, mode) for mode in (os.R_OK, os.W_OK, os.X_OK)],
    "setxattr": lambda path:
    (os.setxattr(path, "user.name", b"value"), os.getxattr(path, "user.name")),
    "setxattr create twice": lambda path:
    [os.setxattr(path, "user.a", b"b", os.XATTR_CREATE) for _ in range(2)],
    "setxattr replace none": lambda path: os.setxattr(path, "user.a", b"b", os.XATTR_REPLACE),
    "getxattr none": lambda path: os.getxattr(path, "user.none"),
    "removexattr none": lambda path: os.removexattr(path, "user.none"),
    "setxattr trusted": lambda path: os.setxattr(path, "trusted.name", b"value"),
    "setxattr unknown": lambda path: os.setxattr(path, "unknown.name", b"value"),
    "chdir": os.chdir,
    **{
        f"rename onto {kind}": renamed_onto(kind)
        for kind in ("file", "directory", "full directory", "dangling link")
    },
}
NAMES = {
    "255 bytes": "n" * 255, "256 bytes": "n" * 256,
    "bytes": b"\xff\x01\n".decode(errors="surrogateescape"), "long path": "a/" * 2100
}
NAMED = ("open create", "mkdir", "symlink", "mkfifo", "unlink", "open read")


def attributes(path):
    found = os.lstat(path)
    changed = found.st_mtime_ns // 10**9 != OLD[1]
    times = (found.st_mtime_ns if found.st_mtime_ns < OLD[1]
             * 10**9 else "now") if changed else "old"
    size = found.st_size if stat.S_ISREG(found.st_mode) else 0
    return (f"{stat.filemode(found.st_mode)} {found.st_uid}:{found.st_gid} {found.st_nlink} {size} "
            f"{times} {found.st_rdev}")


def state(directory):
    lines = [f". {attributes(directory)}"]
    for name in sorted(os.listdir(directory)):
        lines.append(f"{name} {attributes(os.path.join(directory, name))}")
    return lines


def make_old(directory):
    for name in os.listdir(directory):
        os.utime(os.path.join(directory, name), OLD, follow_symlinks=False)
    os.utime(directory, OLD)


def as_user(user, work, path):
    """Does the work in a process of that user. Returns the error's name, or what came out."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        uid, gid, groups = USERS[user]
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        os.umask(0o026)
        try:
            result = repr(work(path))
        except OSError as error:
            result = errno.errorcode[error.errno]
        os.write(writer, result.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        result = stream.read()
    os.waitpid(child, 0)
    return result


def case(kind, parent, work, user, name="x"):
    directory = "case"
    os.mkdir(directory)
    os.chmod(directory, PARENTS[parent])
    os.chown(directory, 1000, 1000)
    os.chdir(directory)
    file("helper")
    folder("folder")
    for made in ("helper", "folder"):
        os.chown(made, 1000, 1000)
    KINDS[kind](name)
    if hasattr(work, "prepare"):
        work.prepare(name)
    make_old(".")
    result = as_user(user, work, name)
    os.chdir("..")
    lines = state(directory)
    shutil.rmtree(directory)
    return [result, *lines]


def of_users(users):
    return {
        f"{what}: {kind} as {user}": case(kind, "open", work, user)
        for what, work in ONE.items()
        for kind in KINDS
        for user in users
    }


def of_places():
    outcomes = {}
    for what, work in ONE.items():
        for kind in KINDS:
            outcomes[f"{what}: {kind} in sticky"] = case(kind, "sticky", work, "other")
        for parent in PARENTS:
            for kind in ("nothing", "file", "directory"):
                outcomes[f"{what}: {kind} in {parent}"] = case(kind, parent, work, "member")
    for what in NAMED:
        for label, name in NAMES.items():
            outcomes[f"{what}: {label}"] = case("nothing", "open", ONE[what], "owner", name)
    return outcomes


def main():
    os.chdir(sys.argv[1])
    os.umask(0)
    os.chmod(".", 0o755)
    only = sys.argv[2:]
    json.dump(of_users(only) if only else of_users(USERS) | of_places(), sys.stdout)


main()
