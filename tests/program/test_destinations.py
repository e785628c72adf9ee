# SPDX-License-Identifier: GPL-2.0-only
"""Destinations: no command overwrites a file that it uses, or an image that was not meant, and no
half result is a success.
"""

import hashlib
import os
import shutil
import struct
import subprocess

import pytest

from support import hfsplus, host, images
from support.images import MEGABYTE
from support.program import LOSSES, bad, command, good, run

KEY = b"a key\n"


@pytest.fixture
def place(work):
    """A directory with two images, one of them also by other names, a key, an archive and a qcow2
    image on the first.
    """
    tree = f"{work}/tree"
    for directory in ("plain", "symbolic", "hard", "fifo"):
        os.makedirs(f"{tree}/{directory}")
    for path in ("p", "plain/a.img", "hard/first"):
        with open(f"{tree}/{path}", "w", encoding="ascii") as stream:
            stream.write("a few bytes\n")
    os.symlink("nowhere", f"{tree}/symbolic/a.img")
    os.link(f"{tree}/hard/first", f"{tree}/hard/a.img")
    os.mkfifo(f"{tree}/fifo/a.img")
    os.mkdir(f"{tree}/links")
    for name in ("first", "second"):
        os.link(f"{tree}/p", f"{tree}/links/{name}")
    directory = f"{work}/place"
    os.mkdir(directory)
    images.make_ext4_of(f"{directory}/a.img", tree)
    images.make_ext4_of(f"{directory}/b.img", tree)
    host.run("tar", "-cf", f"{directory}/x.tar", "-C", tree, "p")
    os.symlink("a.img", f"{directory}/soft")
    os.link(f"{directory}/a.img", f"{directory}/hardlink")
    with open(f"{directory}/key", "wb") as stream:
        stream.write(KEY)
    shutil.rmtree(tree)
    return directory


def state(path):
    found = os.stat(path)
    return found.st_ino, found.st_size, images.contents(path)


# The file to be kept, and the command that would destroy it.
CASES = {
    "cp": ("a.img", "cp a.img:/p a.img"),
    "cp by force": ("a.img", "cp --force a.img:/p a.img"),
    "cp to a symbolic link": ("a.img", "cp --force a.img:/p soft"),
    "cp to a hard link": ("a.img", "cp --force a.img:/p hardlink"),
    "cp from a hard link": ("a.img", "cp --force hardlink:/p a.img"),
    "cp of a tree": ("a.img", "cp -a --force a.img:/plain/. ."),
    "cp of a symbolic link": ("a.img", "cp -a --force a.img:/symbolic/. ."),
    "cp of a hard link": ("a.img", "cp -a --force a.img:/hard/. ."),
    "cp of a FIFO": ("a.img", "cp -a --force a.img:/fifo/. ."),
    "cp to a further disk": ("b.img", "--disk b.img cp --force a.img:/p b.img"),
    "cp to the key": ("key", "--key-file key cp --force a.img:/p key"),
    "cp to an allowed backing file": ("b.img", "--backing b.img cp --force a.img:/p b.img"),
    "tar-out": ("a.img", "tar-out a.img:/ -f a.img"),
    "tar-out by force": ("a.img", "tar-out --force a.img:/ -f soft"),
    "tar-out to the key": ("key", "--key-file key tar-out --force a.img:/ -f key"),
    "tar-in": ("a.img", "tar-in a.img:/ hardlink"),
    "mkfs over its archive": ("x.tar", "mkfs ext4 x.tar --force --from x.tar"),
    "mkfs over the key": ("key", "--key-file key mkfs ext4 key --force --size 64M"),
    "mkfs over a further disk": ("b.img", "--disk b.img mkfs ext4 b.img --force"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_used_is_not_overwritten(place, case):
    kept, words = CASES[case]
    before = state(f"{place}/{kept}")
    bad(*words.split(), cwd=place, mentions=("cannot",))
    assert state(f"{place}/{kept}") == before


def test_a_key_on_standard_input_is_not_overwritten(place):
    for words in ("cp a.img:/p key", "cp --force a.img:/p key", "tar-out --force a.img:/ -f key"):
        with open(f"{place}/key", "rb") as stream:
            done = subprocess.run(command("--key-file", "-", *words.split()), cwd=place,
                                  stdin=stream, stderr=subprocess.PIPE, timeout=120, check=False)
        assert done.returncode == 1 and b"the key file" in done.stderr, done.stderr
        assert images.contents(f"{place}/key") == hashlib.sha256(KEY).hexdigest()


@pytest.mark.needs("qemu-img")
@pytest.mark.parametrize("words",
                         ("cp --force top.qcow2:/p a.img", "tar-out --force top.qcow2:/ -f a.img",
                          "cp top.qcow2:/p a.img:/new"))
def test_a_backing_file_is_not_overwritten(place, words):
    host.run("qemu-img", "create", "-q", "-f", "qcow2", "-b", "a.img",
             "-F", "raw", f"{place}/top.qcow2")
    before = state(f"{place}/a.img")
    bad(*words.split(), cwd=place, mentions=("based on",))
    assert state(f"{place}/a.img") == before


def test_images_of_all_lines_of_a_script_count(place):
    """Also those of later lines, and of lines before and after one that runs a program."""
    before = state(f"{place}/b.img")
    for lines in ("cp --force a.img:/p b.img\nls b.img:/\n",
                  "ls b.img:/\nfsck -n a.img\ncp --force a.img:/p b.img\n"):
        with open(f"{place}/script", "w", encoding="ascii") as stream:
            stream.write(lines)
        bad("run-script", "script", cwd=place, mentions=("b.img", "uses"))
        assert state(f"{place}/b.img") == before


def test_images_of_a_shell_count(place):
    before = [state(f"{place}/{name}") for name in ("a.img", "b.img")]
    for line in ("cp --force p host:a.img", "cp --force host:b.img:/p host:b.img",
                 "tar-out --force / -f soft"):
        done = subprocess.run(command("shell", "a.img"), input=line.encode(),
                              cwd=place, capture_output=True, timeout=120, check=False)
        assert done.returncode == 1 and b"uses" in done.stderr, done.stderr
    assert [state(f"{place}/{name}") for name in ("a.img", "b.img")] == before


def test_standard_output_is_no_image(place):
    before = state(f"{place}/a.img")
    with open(f"{place}/a.img", "ab") as stream:
        done = subprocess.run(command("cat", "a.img:/p"), cwd=place, stdout=stream,
                              stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == 1 and b"standard output" in done.stderr, done.stderr
    assert state(f"{place}/a.img") == before


@pytest.mark.needs_root
def test_loop_devices_are_their_files(place):
    if not host.may_mount():
        pytest.skip("no loop devices here")
    before = state(f"{place}/a.img")
    with host.loop_device(f"{place}/a.img") as device:
        bad("cp", "--force", f"{device}:/p", "a.img", cwd=place, mentions=("uses",))
        bad("cp", "--force", "a.img:/p", device, cwd=place, mentions=("uses",))
    assert state(f"{place}/a.img") == before


# ---- containers and archives ----

# Files by their first bytes: the name of their type, and whether it is a disk's; None: a table.
STARTS = {
    "an Android sparse image": (b"\x3a\xff\x26\xed\x01\0\0\0", "simg", True),
    "QED": (b"QED\0", "qed", True),
    "EWF": (b"EVF\x09\x0d\x0a\xff\0", "E01", True),
    "a description of a vmdk": (b"# Disk DescriptorFile\n", "vmdk", True),
    "AFF": (b"AFF10\x0d\x0a\0", "AFF", True),
    "an image of partclone": (b"partclone-image\0", "partclone", True),
    "an image of ntfsclone": (b"\0ntfsclone-image", "ntfsclone", True),
    "a GPT without its MBR": (bytes(512) + b"EFI PART", "GPT", None),
    "zip": (b"PK\x03\x04", "zip", False),
    "rpm": (b"\xed\xab\xee\xdb\x03", "rpm", False),
    "lzma": (b"\x5d\0\0\x80\0" + b"\xff" * 8, "lzma", False),
    "7z": (b"7z\xbc\xaf\x27\x1c", "7z", False),
    "zstd behind a frame that is skipped":
        (b"\x52\x2a\x4d\x18\x02\0\0\0ab\x28\xb5\x2f\xfd", "zstd", False),
    "lz4": (b"\x04\x22\x4d\x18", "lz4", False),
    "gzip": (b"\x1f\x8b\x08\0", "gzip", False),
}
BY_TAR = ("zstd", "lz4", "gzip", "lzma")


@pytest.fixture
def starts(work):
    """An image with a file of each type, and a text."""
    tree = f"{work}/tree"
    os.mkdir(tree)
    for name, (start, _, _) in STARTS.items():
        with open(f"{tree}/{name}", "wb") as stream:
            stream.write(start + bytes(700))
    with open(f"{tree}/text", "w", encoding="ascii") as stream:
        stream.write("a few bytes\n")
    return images.make_ext4_of(f"{work}/image", tree)


def test_containers_and_archives_are_not_lost(work, starts):
    """Not to a text, to an archive of another kind, or to the archive of a tree."""
    for name, (_, kind, is_disk) in STARTS.items():
        path = f"{work}/kept"
        shutil.copyfile(f"{work}/tree/{name}", path)
        before = state(path)
        other = "gzip" if kind != "gzip" else "zip"
        for source in ("text", other):
            bad("cp", f"{starts}:/{source}", path, mentions=(kind, "--force"))
        if kind not in BY_TAR:
            bad("tar-out", f"{starts}:/", "-f", path, mentions=(kind, "--force"))
        assert state(path) == before, name
        if is_disk is not False:
            bad("cp", f"{starts}:/{name}", path, mentions=(kind,))
        if is_disk:
            bad("ls", f"{path}:/", mentions=("convert",) if kind != "vmdk" else ())
        good("cp", "--force", f"{starts}:/text", path)


def test_archives_are_replaced_by_their_own_kind(work, starts):
    for name, (start, kind, is_disk) in STARTS.items():
        if is_disk is not False:
            continue
        path = f"{work}/{kind}"
        for _ in range(2):
            good("cp", f"{starts}:/{name}", path)
        with open(path, "rb") as stream:
            assert stream.read() == start + bytes(700)
        if kind in BY_TAR:
            good("tar-out", f"{starts}:/", "-f", path)
    # A tree over an older copy of it, with two names of one archive.
    os.mkdir(f"{work}/pair")
    shutil.copyfile(f"{work}/tree/zip", f"{work}/pair/first")
    os.link(f"{work}/pair/first", f"{work}/pair/second")
    good("cp", "-a", f"{work}/pair", f"{starts}:/")
    for _ in range(2):
        good("cp", "-a", f"{starts}:/pair/.", f"{work}/copy")
        assert os.path.samefile(f"{work}/copy/first", f"{work}/copy/second")
    archive = f"{work}/a.tar"
    for words in ((), ("--gzip",), ("--zstd",), ()):
        good("tar-out", *words, f"{starts}:/", "-f", archive)
    assert "text" in host.run("tar", "-tf", archive).stdout


# ---- images that no operand names as such ----


def qcow2(path):
    host.sparse_file(path, 4096)
    with open(path, "r+b") as stream:
        stream.write(b"QFI\xfb\0\0\0\3")


def partitioned(path):
    """An MBR with one partition of the type Linux."""
    host.sparse_file(path, MEGABYTE)
    with open(path, "r+b") as stream:
        stream.seek(446)
        stream.write(struct.pack("<B3sB3sII", 0, b"", 0x83, b"", 64, 512) + bytes(48) + b"\x55\xaa")


LOOKS = {"ext4": lambda path: images.make(path, "ext4"),
         "vfat": lambda path: images.make(path, "vfat"), "qcow2": qcow2, "MBR": partitioned}


@pytest.mark.parametrize("looks", LOOKS)
def test_what_looks_like_an_image_needs_force(place, looks):
    other = f"{place}/first"
    for words in ("cp a.img:/p first", "cp -a a.img:/links/. .", "tar-out a.img:/ -f first"):
        LOOKS[looks](other)
        before = state(other)
        bad(*words.split(), cwd=place, mentions=("first", looks, "--force"))
        assert state(other) == before
        first, *rest = words.split()
        good(first, "--force", *rest, cwd=place)
        assert state(other) != before


def test_other_files_need_no_force(place):
    """Nor does an archive for another one of its tree."""
    for start in (b"text", b"BZhang", b"PK", b"070", b""):
        with open(f"{place}/old", "wb") as stream:
            stream.write(start.ljust(8192, b"\1"))
        good("cp", "a.img:/p", "old", cwd=place)
        with open(f"{place}/old", "rb") as stream:
            assert stream.read() == b"a few bytes\n"
    for _ in range(2):
        good("tar-out", "a.img:/", "-f", "old", cwd=place)


@pytest.mark.parametrize("pack", ("gzip", "xz", "zstd"))
def test_a_compressed_image_needs_force(place, pack):
    if not host.have(pack):
        pytest.skip(f"{pack} is not installed")
    for words in ("cp a.img:/p packed", "tar-out a.img:/ -f packed"):
        with open(f"{place}/packed", "wb") as stream:
            subprocess.run([pack, "-c", f"{place}/b.img"], stdout=stream, check=True)
        before = state(f"{place}/packed")
        bad(*words.split(), cwd=place, mentions=("packed", "ext4", pack, "--force"))
        assert state(f"{place}/packed") == before
        first, *rest = words.split()
        good(first, "--force", *rest, cwd=place)
        assert state(f"{place}/packed") != before


@pytest.mark.parametrize("table", ["mbr", "gpt"])
def test_a_compressed_disk_needs_force(place, table):
    """Its partitions lie behind what is looked at."""
    good("part", "disk", "create", "--table", table, "--size", "8M", "linux:rest", cwd=place)
    with open(f"{place}/packed", "wb") as stream:
        subprocess.run(["gzip", "-c", f"{place}/disk"], stdout=stream, check=True)
    before = state(f"{place}/packed")
    bad("cp", "a.img:/p", "packed", cwd=place,
        mentions=("packed", "partition table", "gzip", "--force"))
    assert state(f"{place}/packed") == before


def test_a_name_like_a_partition_beside_a_directory(place):
    os.mkdir(f"{place}/notes")
    good("cp", "a.img:/p", "notes@2", cwd=place)
    assert os.path.getsize(f"{place}/notes@2")


def test_a_script_overwrites_itself(place):
    """All of it is read before its first line runs."""
    script = f"{place}/script"
    with open(script, "w", encoding="ascii") as stream:
        stream.write("cp a.img:/p script\nls a.img:/plain\n")
    assert "a.img" in good("run-script", "script", cwd=place).out
    with open(script, encoding="ascii") as stream:
        assert stream.read() == "a few bytes\n"


def test_a_partition_without_a_path(place):
    """It would be taken for the name of a file of the host."""
    good("part", f"{place}/disk", "create", "--size", "8M", "linux:rest")
    good("mkfs", "ext2", f"{place}/disk@1")
    before = sorted(os.listdir(place))
    for words in ("cp a.img:/p disk@1", "cp disk@1 a.img:/", "tar-out a.img:/ -f disk@1",
                  "tar-in a.img:/ disk@1",
                  "tar-in disk@1 x.tar", "stat disk@1", "mkfs ext4 new --from disk@1"):
        bad(*words.split(), cwd=place, code=2, mentions=("disk@1", '":/" is missing', "disk@1:/"))
    assert sorted(os.listdir(place)) == before
    # Where a file of the host is meant, it is there or --force names it.
    good("cp", "--force", "a.img:/p", "disk@1", cwd=place)
    good("cp", "a.img:/p", "disk@1", cwd=place)


def test_a_forgotten_image_name(place):
    before = state(f"{place}/b.img")
    bad("cp", "key", "b.img", cwd=place, code=2, mentions=("b.img:/", "--force"))
    bad("cp", "-a", "x.tar", "key", "b.img", cwd=place, code=2, mentions=("b.img:/",))
    bad("mv", "key", "b.img", cwd=place, code=2, mentions=("host",))
    bad("stat", "b.img", cwd=place, code=2, mentions=("b.img:/",))
    bad("tar-in", "b.img", "x.tar", cwd=place, code=2, mentions=("b.img:/",))
    assert state(f"{place}/b.img") == before
    good("cp", "--force", "key", "copy", cwd=place)
    with open(f"{place}/copy", "rb") as stream:
        assert stream.read() == KEY


# ---- half results ----


def test_an_iso_of_nothing(work):
    if not host.have("xorriso"):
        pytest.skip("xorriso is not installed")
    os.mkdir(f"{work}/empty")
    bad("mkfs", "iso9660", "new.iso", "--from", "empty", cwd=work, mentions=("new.iso", "empty"))
    assert not os.path.exists(f"{work}/new.iso")


@pytest.mark.parametrize("kind, size, made", (("vfat", "3T", "2.0 TiB"), ("udf", "3T", "2.0 TiB")))
def test_a_file_system_that_is_too_small(work, kind, size, made):
    if kind == "udf" and not host.have("mkudffs"):
        pytest.skip("mkudffs is not installed")
    bad("mkfs", kind, "new.img", "--size", size, cwd=work, mentions=("new.img", made))
    assert not os.path.exists(f"{work}/new.img")


def test_types_without_a_device(place):
    for kind in ("tmpfs", "ramfs", "proc"):
        before = state(f"{place}/a.img")
        bad("--type", kind, "cp", "key", "a.img:/", cwd=place, mentions=(kind, "no device"))
        assert state(f"{place}/a.img") == before
    good("--type", "ext4", "cp", "key", "a.img:/", cwd=place)


def test_times_that_a_file_system_cannot_hold(work):
    image = images.make(f"{work}/fat.img", "vfat")
    good("touch", f"{image}:/f")
    for date, instead in (("1970-01-02", "1980-01-01"), ("2108-01-01", "2107-12-31"),
                          ("2200-01-01", "2107-12-31")):
        bad("touch", "-d", date, f"{image}:/f", mentions=(date, instead))
        bad("touch", "-d", date, f"{image}:/new-{date}", mentions=(date, instead))
    for date in ("2026-11-21 10:20:31.5", "1980-01-01"):
        good("touch", "-d", date, f"{image}:/f")
        good("touch", "-a", "-d", date, f"{image}:/f")
    old = f"{work}/old"
    with open(old, "wb"):
        pass
    os.utime(old, (86400, 86400))
    host.run("tar", "--format=pax", "--owner=0", "--group=0", "-cf", f"{work}/old.tar",
             "-C", work, "old")
    for words in (("cp", "-a", old, f"{image}:/"), ("tar-in", f"{image}:/", f"{work}/old.tar")):
        assert "times of" in good(*words, notes=LOSSES).err
    os.utime(old, (10**9, 10**9))
    good("cp", "-a", old, f"{image}:/")


@pytest.mark.needs("hformat")
@pytest.mark.parametrize("kind", ("hfs", "hfsplus"))
def test_times_that_wrap(work, kind):
    """The kernel reports the time that was asked for until it reads the inode again."""
    image = host.sparse_file(f"{work}/image", 64 * MEGABYTE)
    if kind == "hfs":
        host.run("hformat", "-l", "times", image)
    else:
        hfsplus.make(image, megabytes=64)
    good("touch", f"{image}:/f")
    for date, instead in (("1950-01-01", "2086-02-06"), ("2106-12-31", "1970-11-23")):
        bad("touch", "-d", date, f"{image}:/f", mentions=(date, instead))
    assert "1970-11-23" in good("stat", f"{image}:/f").out
    good("touch", "-d", "2106-02-06", f"{image}:/f")
    old = f"{work}/old"
    with open(old, "wb"):
        pass
    os.utime(old, (-86400, -86400))
    assert "times of" in good("cp", "-a", old, f"{image}:/", notes=LOSSES).err


def test_archives_of_nothing(work, ext4):
    """Two blocks of zeroes are an archive without members, in records of any usual size."""
    for size in (1024, 10240):
        good("tar-in", f"{ext4}:/", host.sparse_file(f"{work}/empty.tar", size))
    for size in (512, 70_000, MEGABYTE):
        bad("tar-in", f"{ext4}:/", host.sparse_file(f"{work}/zeroes", size),
            mentions=("zeroes", "not a tar archive"))
        bad("mkfs", "ext4", f"{work}/new.img", "--from", f"{work}/zeroes",
            mentions=("zeroes", "not a tar archive"))
        assert not os.path.exists(f"{work}/new.img")


def test_a_size_that_does_not_fit(work):
    image = images.make(f"{work}/fat.img", "vfat")
    good("truncate", "-s", "1M", f"{image}:/f")
    bad("truncate", "-s", "100M", f"{image}:/f", mentions=("space",))
    assert f" {MEGABYTE} " in good("ls", "-l", f"{image}:/f").out


# ---- attributes that only root sees ----


@pytest.mark.needs_root
def test_trusted_attributes_come_along(work, ext4):
    tree = f"{work}/tree"
    os.makedirs(f"{tree}/sub")
    with open(f"{tree}/sub/f", "wb") as stream:
        stream.write(b"x")
    os.symlink("f", f"{tree}/sub/l")
    names = ("sub", "sub/f", "sub/l")
    for name in names:
        os.setxattr(f"{tree}/{name}", "trusted.mine", b"value", follow_symlinks=False)
    good("cp", "-a", f"{tree}/.", f"{ext4}:/tree")
    good("diff", tree, f"{ext4}:/tree")
    made = f"{work}/made.img"
    good("mkfs", "ext4", made, "--from", tree)
    good("diff", "-x", "lost+found", tree, f"{made}:/")
    for place in (f"{ext4}:/tree", f"{made}:/"):
        for name in names:
            found = good("getfattr", "-h", "-n", "trusted.mine",
                         f"{place}/{name}".replace("//", "/")).out
            assert 'trusted.mine="value"' in found
    good("setfattr", "-x", "trusted.mine", f"{ext4}:/tree/sub/f")
    different = run("diff", tree, f"{ext4}:/tree")
    assert different.code == 1 and "trusted.mine" in different.out


# ---- files that cannot be written to their end ----


@pytest.fixture
def disk(work):
    """A disk with an ext4 of a few files, and a lab."""
    tree = images.write_few_files(f"{work}/files")
    ext4 = images.make_ext4_of(f"{work}/inner.img", tree, 8)
    with open(f"{work}/lab.yaml", "w", encoding="ascii") as stream:
        stream.write("nodes: {a: , b: }\nlinks: {l: {nodes: [a, b]}}\n"
                     "steps:\n  - ping: {from: a, to: b}\n")
    return images.partitioned(f"{work}/disk.img", "label: gpt\nstart=2048, size=16384\n",
                              {2048: ext4}, 10)


OUTPUTS = ("cp {disk}@1 {out}", "cp {disk}@1:/noise {out}", "cat {disk}@1 >{out}",
           "cat {disk}@1:/noise >{out}", "cp {disk}@1 - >{out}", "tar-out {disk}@1:/ -f {out}",
           "tar-out --zstd {disk}@1:/ >{out}", "ls {disk}@1:/ >{out}",
           "info --json {disk} >{out}", "lab --svg {out} {work}/lab.yaml",
           "lab --plot {out} {work}/lab.yaml",
           "completions bash >{out}", "manual >{out}", "help >{out}", "--version >{out}")


@pytest.mark.needs("strace")
@pytest.mark.parametrize("words", OUTPUTS)
def test_an_error_that_only_a_close_shows(work, disk, words):
    """As on NFS beyond a quota."""
    out = f"{work}/out"
    with open(out, "w", encoding="ascii"):
        pass
    text = " ".join(command(words.format(disk=disk, work=work, out=out)))
    done = host.run("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=close", "-P", out,
                    "-e", "inject=close:error=EDQUOT", "sh", "-c", f"exec {text}", ok=None)
    assert done.returncode == 1 and "quota" in done.stderr, done


def test_the_output_of_a_checker_that_does_not_arrive(work, disk):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command("fsck", f"{disk}@1"), stdout=full, stderr=subprocess.PIPE,
                              check=False)
    assert done.returncode == 8 and b"No space left" in done.stderr, done


# ---- the modes of new files ----


MODES = ("cp {disk}@1:/noise {out}", "cp -r {disk}@1:/ {out}", "cp {disk}@1 {out}",
         "tar-out {disk}@1:/ -f {out}", "mkfs ext4 {out} --size 8M",
         "mkfs ext4 {out}.qcow2 --size 8M",
         "part {out} create --size 8M linux:rest", "lab --svg {out} {work}/lab.yaml",
         "lab --plot {out} {work}/lab.yaml", "lab --pcap {out} {work}/lab.yaml")


@pytest.mark.parametrize("words", MODES)
def test_new_files_have_the_modes_that_the_umask_leaves(work, disk, words):
    for mask in (0o022, 0o027, 0o077):
        out = f"{work}/out{mask}"
        text = " ".join(command(words.format(disk=disk, work=work, out=out)))
        host.run("sh", "-c", f"umask {mask:o}; exec {text}")
        (made,) = (name for name in os.listdir(work) if name.startswith(f"out{mask}"))
        found = os.stat(f"{work}/{made}")
        whole = 0o777 if os.path.isdir(f"{work}/{made}") else 0o666
        if "cp -r" in words or ":/noise" in words:  # the modes of the sources, which are these
            whole = 0o755 if "cp -r" in words else 0o644
        assert found.st_mode & 0o777 == whole & ~mask, (made, oct(found.st_mode))


def test_a_copy_keeps_modes_whatever_the_umask_is(work, disk):
    good("chmod", "4757", f"{disk}@1:/noise")
    for mask in ("000", "077", "777"):
        host.run("sh", "-c", f"umask {mask}; exec {' '.join(command('cp'))} -a "
                             f"{disk}@1:/ {work}/kept{mask}")
        assert os.stat(f"{work}/kept{mask}/noise").st_mode & 0o7777 == 0o4757
