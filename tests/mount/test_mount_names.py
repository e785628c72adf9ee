# SPDX-License-Identifier: GPL-2.0-only
"""Names on `outboard mount`: without case, with a second short one, and of subvolumes."""

import os
import random
import shutil
import stat
import subprocess
import time

import pytest

from support import host, images, mounts
from support.images import MEGABYTE
from support.mounts import check, is_mounted, mounted

pytestmark = mounts.MARKS


def test_names_without_case(work):
    image = images.make(f"{work}/stick.img", "vfat", 64)
    with mounted(image) as directory:
        open(f"{directory}/Name", "wb").close()
        assert os.path.exists(f"{directory}/NAME")
        os.rename(f"{directory}/name", f"{directory}/other")
        assert not os.path.exists(f"{directory}/Name") and os.path.exists(f"{directory}/OTHER")


@pytest.mark.parametrize("kind, options",
                         [("ext4", ["-O", "casefold"]), ("xfs", ["-n", "version=ci"])])
def test_names_without_case_in_some_directories(work, kind, options):
    image = f"{work}/disk.img"
    with open(image, "wb") as stream:
        stream.truncate(512 * MEGABYTE)
    host.run(f"mkfs.{kind}", "-q", *options, image)
    with mounted(image) as directory:
        place = f"{directory}/place"
        os.mkdir(place)
        if kind == "ext4":
            host.run("chattr", "+F", place)
        for name, text in (("report.txt", "old"), ("REPORT.TXT", "new")):
            with open(f"{place}/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
            assert open(f"{place}/Report.Txt", encoding="ascii").read() == text
            os.unlink(f"{place}/report.txt")
            assert not os.path.exists(f"{place}/REPORT.TXT")
        assert not os.path.exists(f"{place}/AA")
        open(f"{place}/aa", "wb").close()
        assert os.path.exists(f"{place}/AA")
    check(image, kind)


@pytest.mark.needs("mkntfs", "ntfs-3g", "setfattr")
def test_names_on_ntfs(work):
    """Case counts. Directories may have a short DOS name beside the long one: what is done by one
    is seen by the other.
    """
    image, other = host.sparse_file(f"{work}/disk.img", 64 * MEGABYTE), f"{work}/other"
    host.run("mkntfs", "-q", "-F", "-f", image)
    os.mkdir(other)
    with subprocess.Popen(["ntfs-3g", "-o", "no_detach", image, other]):
        while not is_mounted(other):
            time.sleep(0.01)
        for number in range(3):
            os.mkdir(f"{other}/Long directory {number}")
            os.setxattr(f"{other}/Long directory {number}", "system.ntfs_dos_name",
                        b"LONGDI~%d" % number)
        host.run("umount", other)
    with mounted(image) as directory:
        long, short = f"{directory}/Long directory ", f"{directory}/LONGDI~"
        for number in range(3):
            assert os.path.isdir(f"{long}{number}")
        os.mkdir(f"{long}0/inner")
        assert os.listdir(f"{short}0") == ["inner"]
        os.rmdir(f"{short}1")
        assert not os.path.exists(f"{long}1")
        os.mkdir(f"{long}1")
        os.rename(f"{short}2", f"{directory}/moved")
        assert not os.path.exists(f"{long}2") and os.path.isdir(f"{directory}/moved")
        assert sorted(os.listdir(directory)) == ["Long directory 0", "Long directory 1", "moved"]
        for name in ("Name", "NAME"):
            assert not os.path.exists(f"{directory}/{name}")
            with open(f"{directory}/{name}", "w", encoding="ascii") as stream:
                stream.write(name)
        os.unlink(f"{directory}/Name")
        assert not os.path.exists(f"{directory}/Name")
        assert open(f"{directory}/NAME", encoding="ascii").read() == "NAME"


def named(top, work, first, second):
    """The result of one operation on names."""
    first, second = f"{top}/{first}", f"{top}/{second}"
    try:
        match work:
            case "make":
                os.close(os.open(first, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            case "rename" | "link":
                getattr(os, work)(first, second)
            case "listdir":
                return sorted(os.listdir(os.path.dirname(first)))
            case "lstat":
                found = os.lstat(first)
                return stat.S_ISDIR(found.st_mode) or found.st_nlink
            case _:
                getattr(os, work)(first)
    except OSError as error:
        return error.errno
    return None


@pytest.mark.needs("mkntfs")
def test_attributes_of_ntfs_change_the_mode(work):
    """Which the host remembers, and does not know to have anything to do with them."""
    image = host.sparse_file(f"{work}/disk.img", 64 * MEGABYTE)
    host.run("mkntfs", "-q", "-F", "-f", image)
    with mounted(image) as directory:
        open(f"{directory}/file", "wb").close()
        for attributes, writable in ((b"\x21\0\0\0", False), (b"\x20\0\0\0", True)):
            os.setxattr(f"{directory}/file", "system.ntfs_attrib", attributes)
            assert bool(os.stat(f"{directory}/file").st_mode & stat.S_IWUSR) == writable


@pytest.mark.needs("mkntfs")
def test_random_names_on_ntfs(work):
    """Names that differ in case only, in three directories: as in a directory of the host."""
    chosen, model = random.Random(1), f"{work}/model"
    image = host.sparse_file(f"{work}/disk.img", 64 * MEGABYTE)
    host.run("mkntfs", "-q", "-F", "-f", image)
    names = [f"{directory}{name}" for directory in ("", "one/", "one/two/")
             for name in ("a", "A", "long name", "Long Name", "x.txt", "X.TXT")]
    with mounted(image) as directory:
        for top in (model, directory):
            os.makedirs(f"{top}/one/two", exist_ok=True)
        for number in range(4000):
            what = chosen.choice(["make", "make", "unlink", "mkdir", "rmdir",
                                  "rename", "link", "lstat", "lstat", "listdir"])
            first, second = chosen.choice(names), chosen.choice(names)
            ours, theirs = named(directory, what, first, second), named(model, what, first, second)
            assert ours == theirs, f"operation {number}, {what} {first} {second}"


def test_subvolumes(work):
    image = images.make(f"{work}/disk.img", "btrfs", 256)
    with host.loop_mount(image, "btrfs") as directory:
        for name in ("one", "two"):
            host.run("btrfs", "subvolume", "create", f"{directory}/{name}")
            shutil.copy("/etc/hostname", f"{directory}/{name}/{name}")
    with mounted(image) as directory:
        assert sorted(os.listdir(directory)) == ["one", "two"]
        assert os.listdir(f"{directory}/one") == ["one"]
        assert os.listdir(f"{directory}/two") == ["two"]
        assert len({os.stat(f"{directory}/{name}").st_ino for name in ("one", "two", ".")}) == 3
    check(image, "btrfs")
