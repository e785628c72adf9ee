# SPDX-License-Identifier: GPL-2.0-only
"""Other people's tools, as small functions: make an image, fill it, check it, read it.

Makers take the image's path and make an empty file system in it. Fillers take
the image and a tree and make an image that holds the tree. Checkers raise ToolFailed.
Readers take the image, a new directory, the tree that was written, and the directory inside of the
image that holds it ("": the root); they copy that to the new directory.
"""

import contextlib
import os
import stat
import struct

from support import host, trees

VENV = os.path.join(os.environ.get("OUTBOARD_OUT")
                    or os.path.join(os.path.dirname(__file__), "../../../out"), "venv", "bin")
MEGABYTE = 1 << 20


def maker(megabytes, *command):
    """An image of this size, then the command with the image's name at its end."""

    def make(image):
        host.sparse_file(image, megabytes * MEGABYTE)
        host.run(*command, image)

    return make


def fill_by_loop(make, kind, options="rw"):
    """Fills by `cp -a` into the host kernel's own mount."""

    def fill(image, tree):
        make(image)
        with host.loop_mount(image, kind, options) as directory:
            host.run("cp", "-a", "--sparse=always", f"{tree}/.", directory)

    return fill


def fill_by_fuse(make, *command):
    """Fills through a FUSE file system: command DEVICE DIRECTORY."""

    def fill(image, tree):
        make(image)
        with host.loop_device(image) as device, host.mounted(*command, device) as directory:
            host.run("cp", "-r", "--preserve=timestamps,links", f"{tree}/.", directory)

    return fill


def fill_by_mke2fs(megabytes, *options):
    def fill(image, tree):
        host.sparse_file(image, megabytes * MEGABYTE)
        host.run("mke2fs", "-q", "-F", *options, "-d", tree, image)

    return fill


def fill_by_mkfs_btrfs(megabytes):
    def fill(image, tree):
        host.sparse_file(image, megabytes * MEGABYTE)
        host.run("mkfs.btrfs", "-q", "--rootdir", tree, image)

    return fill


def fill_by_sload(make, *options):
    def fill(image, tree):
        make(image)
        host.run("sload.f2fs", *options, "-f", tree, image)

    return fill


def fill_by_mtools(make):
    def fill(image, tree):
        make(image)
        names = [os.path.join(tree, name) for name in sorted(os.listdir(tree))]
        host.run("mcopy", "-s", "-m", "-Q", "-i", image, *names, "::",
                 MTOOLS_SKIP_CHECK="1", TZ="UTC")

    return fill


def fill_by_hfsutils(make):
    """hcopy knows no directories: they are made one by one, then filled. Names are Mac OS Roman."""

    def fill(image, tree):
        make(image)
        with hfs_volume(image) as run:
            for directory, folders, files in os.walk(tree):
                inside = ":" + os.path.relpath(directory, tree).replace("/", ":").replace(
                    ".", "", 1)
                inside = inside.rstrip(":")
                for name in folders:
                    run("hmkdir", f"{inside}:{name}")
                for name in files:
                    run("hcopy", "-r", os.path.join(directory, name), f"{inside}:{name}")

    return fill


@contextlib.contextmanager
def hfs_volume(image):
    """hfsutils keep the current volume in ~/.hcwd: each use has its own home."""
    home = image + ".home"
    os.mkdir(home)

    def run(*command):
        return host.run(*command, HOME=home)

    try:
        run("hmount", image)
        yield run
        run("humount")
    finally:
        host.run("rm", "-r", home)


def fill_by_xorriso_hfsplus(image, tree):
    """libisofs writes HFS+ beside ISO 9660: its partition is cut out as an image of its own."""
    hybrid = image + ".iso"
    host.run("xorriso", "-as", "mkisofs", "-quiet", "-hfsplus", "-R", "-o", hybrid, tree)
    with open(hybrid, "rb") as stream:
        content = stream.read()
    os.unlink(hybrid)
    header = content.index(b"H+\0\4")
    block_size, blocks = struct.unpack(">II", content[header + 40:header + 48])
    start = header - 1024
    with open(image, "wb") as stream:
        stream.write(content[start:start + block_size * blocks])


def fill_by_xdftool(dos_type):
    """amitools: an Amiga hard-disk file."""

    def fill(image, tree):
        tool = os.path.join(VENV, "xdftool")
        names = sorted(os.listdir(tree))
        writes = [word for name in names for word in ("+", "write", os.path.join(tree, name))]
        disk = image + ".hdf"  # the name says what kind of image it is
        host.run(tool, disk, "create", "size=40Mi", "+", "format", "Outboard", dos_type, *writes)
        os.rename(disk, image)

    return fill


def fill_with(*command):
    """A program that makes an image of a tree in one go; IMAGE and TREE stand for the two."""

    def fill(image, tree):
        words = {"IMAGE": image, "TREE": tree}
        host.run(*(words.get(word, word) for word in command))

    return fill


# ---- checkers ----


def checker(*command, ok=(0,)):
    def check(image):
        host.run(*command, image, ok=ok)

    return check


def check_f2fs(image):
    """fsck.f2fs ends with 0 whatever it finds: its report is read."""
    report = host.run("fsck.f2fs", "--dry-run", image, ok=None)
    lines = [line for line in report.stdout.splitlines()
             if "[FSCK]" in line and "[Fail]" in line or "[ASSERT]" in line]
    if lines or report.returncode != 0:
        raise host.ToolFailed(f"fsck.f2fs: {report.returncode}\n" + "\n".join(lines)
                              + report.stderr)


# ---- readers ----


def read_by_loop(kind, options="ro"):
    def read(image, directory, _tree, inside="/tree"):
        with host.loop_mount(image, kind, options) as mount:
            host.run("cp", "-a", "--sparse=always", f"{mount}{inside}", directory)

    return read


def read_by_debugfs(image, directory, _tree, inside="/tree"):
    parent = os.path.dirname(directory)
    os.mkdir(os.path.join(parent, "rdump"))
    host.run("debugfs", "-R", f"rdump {inside or '/'} {parent}/rdump", image)
    os.rename(os.path.join(parent, "rdump") + inside, directory)


def small_files(tree, directory, leave_out=()):
    """Files that are read by name: each path, and where it goes to. And the paths of the files
    that are left out: large ones, and names that begin with one of `leave_out`.
    """
    chosen, left_out = [], set()
    for path, entry in trees.describe(tree).items():
        if entry.kind != stat.S_IFREG:
            continue
        if entry.size > 8 * MEGABYTE or path.startswith(leave_out):
            left_out.add(path)
            continue
        target = os.path.join(directory, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        chosen.append((path, target))
    return chosen, left_out


def read_by_grub(*leave_out):
    """GRUB's own drivers. It reads by name, so the names come from the tree that was written.
    `leave_out`: beginnings of names that its driver cannot read.
    """

    def read(image, directory, tree, inside="/tree"):
        chosen, left_out = small_files(tree, directory, leave_out)
        for path, target in chosen:
            with open(target, "wb") as stream:
                stream.write(
                    host.run("grub-fstest", image, "cat", f"{inside}/{path}", text=False).stdout)
        return left_out

    return read


def read_by_fsck_cramfs(image, directory, _tree, inside=""):
    assert inside == "", "it extracts all"
    host.run("fsck.cramfs", f"--extract={directory}", image)


def read_by_mtools(image, directory, _tree, inside="/tree"):
    os.mkdir(directory)
    host.run("mcopy", "-s", "-n", "-Q", "-i", image, f"::{inside}/*", directory,
             MTOOLS_SKIP_CHECK="1", TZ="UTC")


def read_by_hfsutils(image, directory, tree, inside="/tree"):
    chosen, left_out = small_files(tree, directory)
    with hfs_volume(image) as run:
        for path, target in chosen:
            run("hcopy", "-r", f"{inside}/{path}".replace("/", ":"), target)
    return left_out
