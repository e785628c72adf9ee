# SPDX-License-Identifier: GPL-2.0-only
"""tar-in and tar-out: everything is kept on both ways, and archives of all programs are read."""

import gzip
import os
import random
import shutil
import stat
import struct
import tarfile

import pytest

from support import host, images, trees
from support.archives import check, make, tar_in, tar_out
from support.images import MEGABYTE
from support.program import good, run

KINDS = ("ext4", "xfs", "btrfs")
GNU_ALL = ("--xattrs", "--xattrs-include=*", "--acls", "--selinux", "--numeric-owner")
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service+ep


def everything(root):
    """Path (bytes) to all that a file is, except its birth and change."""
    found, first = {}, {}
    root = os.fsencode(root)
    for directory, folders, files in os.walk(root):
        folders.sort()
        for name in [b"."] * (directory == root) + folders + sorted(files):
            path = os.path.normpath(os.path.join(directory, name))
            relative = os.path.relpath(path, root)
            if relative == b"lost+found":
                continue
            info = os.lstat(path)
            kind = stat.S_IFMT(info.st_mode)
            # xfs shows access lists a second time, as it stores them
            keys = [key for key in os.listxattr(path, follow_symlinks=False)
                    if not key.startswith("trusted.SGI_ACL")]
            xattrs = {key: os.getxattr(path, key, follow_symlinks=False) for key in keys}
            entry = {"mode": info.st_mode, "owner": (info.st_uid, info.st_gid),
                     "mtime": info.st_mtime_ns, "xattrs": xattrs}
            if kind in (stat.S_IFCHR, stat.S_IFBLK):
                entry["device"] = info.st_rdev
            if kind == stat.S_IFLNK:
                entry["target"] = os.readlink(path)
            if kind == stat.S_IFREG:
                entry["bytes"] = trees.sha256_of(path)
                entry["size"] = info.st_size
            if kind != stat.S_IFDIR:
                entry["same"] = first.setdefault((info.st_dev, info.st_ino), relative)
            found[relative] = entry
        if directory == root and b"lost+found" in folders:
            folders.remove(b"lost+found")
    return found


def assert_same(wanted, found, without=()):
    """`without`: what an archive format or program does not keep."""
    assert wanted.keys() == found.keys(), wanted.keys() ^ found.keys()
    for path, entry in wanted.items():
        for key in entry:
            if key not in without:
                assert found[path].get(key) == entry[key], (
                    path, key, entry[key], found[path].get(key))


@pytest.fixture
def rich(work):
    """A tree with everything that a file may have."""
    tree = f"{work}/tree"
    trees.build(tree, trees.Abilities(sockets=False, megabytes=8), "small")
    here = os.fsencode(tree)

    def write(name, content=b"content"):
        path = os.path.join(here, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)
        return path

    write(b"/".join([b"n" * 200, b"m" * 99]))
    write(b"long/" + b"l" * 255)
    write(b"long/" + b"p" * 99 + b"/" + b"q" * 101 + b"/" + b"r" * 100, b"x" * 513)
    write(b"bytes \xff\xfe\x80 and \x1b[m\nnewline")
    write(b"\xe9" * 150)
    write(b"trailing space ")
    write(b"-option")
    odd = write(b"odd attributes")
    for key, value in ((b"user.newline", b"a\nb\n12 c=d\n"), (b"user.nul", b"\0\1\2\xff"),
                       (b"user.equals=100%", b"="), (b"trusted.mine", b"t"),
                       (b"security.selinux", b"system_u:object_r:etc_t:s0\0")):
        os.setxattr(odd, key, value)
    os.setxattr(write(b"capable", b"#!"), "security.capability", CAPABILITY)
    os.setxattr(os.path.join(here, b"link"), "security.selinux", b"system_u:object_r:lnk_t:s0\0",
                follow_symlinks=False)
    os.setxattr(os.path.join(here, b"null"), "trusted.device", b"1")
    os.link(os.path.join(here, b"link"), os.path.join(here, b"link2"), follow_symlinks=False)
    os.symlink(b"t" * 300, os.path.join(here, b"longtarget"))
    os.symlink(b"\xff\xfe" * 80, os.path.join(here, b"bytetarget"))
    write(b"large", random.Random(1).randbytes(9 * MEGABYTE + 77))
    os.mkdir(os.path.join(here, b"closed"))
    write(b"closed/inner")
    os.chmod(os.path.join(here, b"closed"), 0o500)
    os.chmod(odd, 0o4750)
    os.utime(write(b"old"), ns=(-1_500_000_000, -1_500_000_000))
    os.utime(write(b"far"), ns=(0, 9_000_000_000_123_456_789))
    os.chown(write(b"owned"), 3_000_000_000, 2_999_999)
    for path in (b"long", b"closed", b""):
        os.utime(os.path.join(here, path), ns=(1, 1_234_567_890_987_654_321))
    return tree


def gnu_tar(tree, archive, *options):
    host.run("tar", "-c", "-S", "--format=posix", *GNU_ALL, *options, "-f",
             archive, "-C", tree, ".")
    return archive


def unpack(extractor, archive, directory):
    os.mkdir(directory)
    if extractor == "tar":
        host.run("tar", "-x", "-p", "--same-owner", *GNU_ALL, "-f", archive, "-C", directory)
    else:
        host.run("bsdtar", "-x", "-p", "--same-owner", "--xattrs", "--acls",
                 "--numeric-owner", "-f", archive, "-C", directory)
    return directory


@pytest.mark.needs_root
@pytest.mark.needs("bsdtar")
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(work, rich, kind):
    wanted = everything(rich)
    image = make(work, kind)
    assert not tar_in(gnu_tar(rich, f"{work}/in.tar"), f"{image}:/").err
    check(image, kind)
    before = trees.sha256_of(image)
    archive = tar_out(f"{image}:/", f"{work}/out.tar", "--exclude", "lost+found")
    assert trees.sha256_of(image) == before
    found = everything(unpack("tar", archive, f"{work}/gnu"))
    assert_same(wanted, found)
    assert os.stat(f"{work}/gnu/sparse").st_blocks * 512 < MEGABYTE
    host.run("tar", "-d", "-f", archive, "-C", rich)
    with tarfile.open(archive) as members:
        names = {os.fsencode(os.path.normpath(member.name)) for member in members}
        assert names == wanted.keys()
    # bsdtar has no labels, writes no negative times and merges links to symbolic links and FIFOs
    # otherwise
    found = everything(unpack("bsdtar", archive, f"{work}/bsd"))
    assert_same(wanted, found, without=("xattrs", "mtime", "same"))
    for path in (b"capable", b"odd attributes", b"acl", b"many"):
        assert usual(found[path]) == usual(wanted[path]), path
    host.require_mount(kind)
    with host.loop_mount(image, kind, "ro") as mount:
        assert_same(wanted, everything(mount))
        assert os.stat(f"{mount}/sparse").st_blocks * 512 < MEGABYTE


def usual(entry):
    """Attributes without labels, which bsdtar may not set, and without names that it writes in
    another way.
    """
    return {key: value for key, value in entry["xattrs"].items()
            if "selinux" not in key and "=" not in key and "%" not in key}


@pytest.mark.needs_root
@pytest.mark.needs("bsdtar")
@pytest.mark.parametrize("headers", ["ALL", "LIBARCHIVE", "SCHILY"])
def test_attributes_of_bsdtar(work, rich, headers):
    host.run("bsdtar", "-c", "--format", "pax", "--xattrs", "--acls", "--options",
             f"xattrheader={headers}", "-f", f"{work}/in.tar", "-C", rich, ".")
    image = make(work)
    tar_in(f"{work}/in.tar", f"{image}:/")
    tar_out(f"{image}:/", f"{work}/out.tar", "--exclude", "lost+found")
    wanted, found = everything(rich), everything(unpack("tar", f"{work}/out.tar", f"{work}/again"))
    assert wanted.keys() == found.keys()
    for path in (b"capable", b"odd attributes", b"acl", b"many", b"large", b"sparse"):
        assert usual(found[path]) == usual(wanted[path]), path
        assert ({key: value for key, value in found[path].items() if key != "xattrs"}
                == {key: value for key, value in wanted[path].items() if key != "xattrs"})


@pytest.mark.needs_root
def test_out_and_in_again(work, rich):
    """Our own archive of one file system, unpacked in another, makes the same archive: byte for
    byte.
    """
    first, second = make(work, "ext4", "a.img"), make(work, "btrfs", "b.img")
    tar_in(gnu_tar(rich, f"{work}/in.tar"), f"{first}:/")
    one = tar_out(f"{first}:/", f"{work}/one.tar", "--exclude", "lost+found")
    tar_in(one, f"{second}:/")
    two = tar_out(f"{second}:/", f"{work}/two.tar", "--vcpus", "1")
    assert trees.sha256_of(one) == trees.sha256_of(two)


@pytest.mark.needs_root
def test_usr(work):
    """A part of /usr, about 100 MB."""
    tree = f"{work}/usr"
    os.mkdir(tree)
    total = 0
    for folder in ("bin", "share/perl", "share/locale", "lib/python3",
                   "share/doc", "share/zoneinfo", "lib/x86_64-linux-gnu"):
        path = f"/usr/{folder}"
        size = (sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(path))
                if os.path.isdir(path) else 0)
        if size and total < 100 * MEGABYTE:
            os.makedirs(os.path.dirname(f"{tree}/{folder}"), exist_ok=True)
            host.run("cp", "-a", path, f"{tree}/{folder}")
            total = int(host.run("du", "-sb", tree).stdout.split()[0])
    image = make(work, "ext4", megabytes=max(600, total // MEGABYTE * 2))
    host.run("tar", "-c", "--format=posix", "-f", f"{work}/in.tar", "-C", tree, ".")
    tar_in(f"{work}/in.tar", f"{image}:/", )
    check(image)
    wanted = everything(tree)
    tar_out(f"{image}:/", f"{work}/out.tar.zst", "--zstd", "--exclude=./lost+found")
    assert_same(wanted, everything(unpack("tar", f"{work}/out.tar.zst", f"{work}/again")),
                without=("xattrs",))
    host.require_mount("ext4")
    with host.loop_mount(image, "ext4", "ro") as mount:
        assert_same(wanted, everything(mount), without=("xattrs",))


# ---- formats ----


@pytest.fixture
def plain(work):
    """A tree that every format can hold."""
    tree = f"{work}/plain"
    os.makedirs(f"{tree}/folder/deeper")
    for name, size in (("empty", 0), ("one", 1), ("block", 512), ("more", 70_000),
                       ("folder/inner", 5), ("folder/deeper/leaf", 3 * MEGABYTE)):
        with open(f"{tree}/{name}", "wb") as stream:
            stream.write(random.Random(size).randbytes(size))
    os.symlink("folder/inner", f"{tree}/link")
    os.link(f"{tree}/more", f"{tree}/folder/again")
    os.mkfifo(f"{tree}/fifo")
    os.chmod(f"{tree}/one", 0o640)
    os.chmod(f"{tree}/folder", 0o711)
    for name in ("link", "one", "more", "empty", "block", "fifo", "folder/inner",
                 "folder/deeper/leaf", "folder/deeper", "folder", "."):
        os.utime(f"{tree}/{name}", ns=(10**18, 10**18), follow_symlinks=False)
    return tree


def content_of(image, work):
    """All that is in an image, copied to the host."""
    target = f"{work}/copied"
    shutil.rmtree(target, ignore_errors=True)
    result = run("cp", "-a", f"{image}:/", target)
    assert result.code == 0, str(result)
    return everything(target)


def python_tar(form):
    def pack(tree, archive):
        with tarfile.open(archive, "w", format=form) as members:
            members.add(tree, ".")
    return pack


def by_tool(*command):
    return lambda tree, archive: host.run(*command, "-f", archive, "-C", tree, ".")


PACKERS = {
    **{f"tar-{form}": by_tool("tar", "-c", f"--format={form}")
       for form in ("v7", "ustar", "oldgnu", "gnu", "posix")},
    **{f"bsdtar-{form}": by_tool("bsdtar", "-c", "--format", form)
       for form in ("v7", "ustar", "gnutar", "pax", "rpax")},
    "busybox": by_tool("busybox", "tar", "-c"),
    "python-ustar": python_tar(tarfile.USTAR_FORMAT),
    "python-gnu": python_tar(tarfile.GNU_FORMAT),
    "python-pax": python_tar(tarfile.PAX_FORMAT),
}


@pytest.mark.needs("bsdtar", "busybox")
@pytest.mark.parametrize("packer", PACKERS)
def test_formats(work, plain, packer):
    archive = f"{work}/x.tar"
    if packer.endswith("v7"):
        os.unlink(f"{plain}/fifo")  # which this format does not have
        os.utime(plain, ns=(10**18, 10**18))
    PACKERS[packer](plain, archive)
    image = make(work)
    assert not tar_in(archive, f"{image}:/").err
    check(image)
    found = content_of(image, work)
    without = () if host.IS_ROOT else ("owner",)
    wanted = everything(plain)
    # bsdtar's ustar-like formats give an owner of 0 to nobody, and xattrs of the host are not asked
    # for
    assert_same(wanted, found, without=(*without, "xattrs", "same"))
    assert found[b"more"]["same"] == found[b"folder/again"]["same"]


@pytest.mark.needs("git")
def test_git_archive(work, plain):
    git = ("git", "-C", plain, "-c", "user.name=x", "-c", "user.email=x@example.org")
    os.unlink(f"{plain}/fifo")
    host.run(*git, "init", "-q")
    host.run(*git, "add", "-A")
    host.run(*git, "commit", "-q", "-m", "x")
    host.run(*git, "archive", "-o", f"{work}/x.tar.gz", "HEAD")
    image = make(work)
    tar_in(f"{work}/x.tar.gz", f"{image}:/")
    found = content_of(image, work)
    assert found[b"folder/deeper/leaf"]["bytes"] == trees.sha256_of(f"{plain}/folder/deeper/leaf")
    assert found[b"link"]["target"] == b"folder/inner"


@pytest.mark.parametrize("form", ["gnu", "0.0", "0.1", "1.0", "bsdtar"])
def test_sparse(work, form):
    if form == "bsdtar" and not host.have("bsdtar"):
        pytest.skip("bsdtar is missing")
    tree = f"{work}/tree"
    os.mkdir(tree)
    # More than a header holds.
    pieces = [(index * MEGABYTE, 4096 + index) for index in range(1, 40)]
    for name, size, parts in (
            ("many", 64 * MEGABYTE, pieces), ("end", 9 * MEGABYTE, [(9 * MEGABYTE - 10, 10)]),
            ("nothing", 5 * MEGABYTE, []),
                              ("start", 5 * MEGABYTE, [(0, 4096)])):
        with open(f"{tree}/{name}", "wb") as stream:
            for offset, length in parts:
                stream.seek(offset)
                stream.write(random.Random(offset).randbytes(length))
            stream.truncate(size)
    options = {"gnu": ("--format=gnu",), "bsdtar": ()}.get(
        form, ("--format=posix", f"--sparse-version={form}"))
    tool = ("bsdtar", "-c") if form == "bsdtar" else ("tar", "-c", "-S", *options)
    host.run(*tool, "-f", f"{work}/x.tar", "-C", tree, ".")
    image = make(work)
    assert not tar_in(f"{work}/x.tar", f"{image}:/").err
    check(image)
    out = tar_out(f"{image}:/", f"{work}/out.tar")
    assert os.path.getsize(out) < 2 * MEGABYTE
    again = unpack("tar", out, f"{work}/again")
    for name in ("many", "end", "nothing", "start"):
        assert trees.sha256_of(f"{tree}/{name}") == trees.sha256_of(f"{again}/{name}"), name
        assert os.stat(f"{again}/{name}").st_blocks * 512 < MEGABYTE, name


@pytest.mark.parametrize("option, tool", [("--gzip", "gzip"), ("--zstd", "zstd"), ("--xz", "xz")])
def test_compression(work, plain, option, tool):
    image, second = make(work), make(work, name="second.img")
    host.run("tar", "-c", "-f", f"{work}/x.tar", "-C", plain, ".")
    host.run(tool, "-q", f"{work}/x.tar")
    suffix = {"gzip": "gz", "zstd": "zst", "xz": "xz"}[tool]
    assert run("tar-in", f"{image}:/", f"{work}/x.tar.{suffix}").code == 0
    packed = f"{work}/out.tar.{suffix}"
    for _ in range(2):  # a file that is there is overwritten
        assert run("tar-out", f"{image}:/", option, "-f", packed).code == 0
    host.run(tool, "-t", packed)
    assert run("tar-in", "-f", packed, f"{second}:/").code == 0
    found = content_of(second, work)
    assert_same(everything(plain), found, without=("owner", "xattrs", "same"))
    damaged = bytearray(open(packed, "rb").read())
    damaged[len(damaged) // 2] ^= 0x55
    result = tar_in(bytes(damaged), f"{second}:/", code=1)
    assert "offset" in result.err


def test_bytes_behind_gzip_data(work, plain):
    """As by gzip(1): zeros are padding, other bytes are ignored with a warning."""
    image = make(work)
    archive = host.run("tar", "-c", "-C", plain, ".", text=False).stdout
    half = len(archive) // 2
    packed = gzip.compress(archive[:half]) + gzip.compress(archive[half:])
    for tail, noted in ((bytes(10240), False), (b"garbage", True), (bytes(512) + b"x", True)):
        result = tar_in(packed + tail, f"{image}:/")
        assert ("ignored" in result.err) == noted, result
    assert_same(everything(plain), content_of(image, work), without=("owner", "xattrs", "same"))
    with open(f"{work}/padded.tar.gz", "wb") as stream:
        stream.write(packed + bytes(1024))
    good("mkfs", "ext4", f"{work}/new.img", "--from", f"{work}/padded.tar.gz")


def test_a_name_that_begins_as_compressed_data_do(work):
    image = make(work)
    os.mkdir(f"{work}/BZhang")
    host.run("tar", "-c", "-f", f"{work}/x.tar", "-C", work, "BZhang")
    assert run("tar-in", f"{image}:/", f"{work}/x.tar").code == 0
    assert run("stat", f"{image}:/BZhang").code == 0


# ---- tar-out ----


def test_order_and_excluded(work, plain):
    image = make(work)
    host.run("tar", "-c", "-f", f"{work}/x.tar", "-C", plain, ".")
    tar_in(f"{work}/x.tar", f"{image}:/")
    tar_out(f"{image}:/", f"{work}/out.tar", "--exclude", "lost+found",
            "--exclude", "de*r", "--exclude=*.none")
    names = host.run("tar", "-t", "-f", f"{work}/out.tar").stdout.split()
    assert names == ["./", "./block", "./empty", "./fifo", "./folder/",
                     "./folder/again", "./folder/inner", "./link", "./more", "./one"]
    tar_out(f"{image}:/folder", f"{work}/part.tar", "--sort=none")
    names = host.run("tar", "-t", "-f", f"{work}/part.tar").stdout.split()
    assert sorted(names) == ["./", "./again", "./deeper/", "./deeper/leaf", "./inner"]


def test_wrong_places(work, plain):
    image = make(work)
    os.mkdir(f"{work}/d")
    host.run("tar", "-c", "-f", f"{work}/x.tar", "-C", plain, ".")
    for words, mentions in ((("tar-in", f"{image}:/none", f"{work}/x.tar"), "/none"),
                            (("tar-out", f"{image}:/none"), "/none"),
                            (("tar-out", f"{work}/x"), "No such file"),
                            (("tar-in", f"{image}:/", f"{work}/none.tar"), "none.tar"),
                            (("tar-in", f"{image}:/", f"{work}/d"), "directory"),
                            (("tar-out", f"{image}:/", "-f", f"{work}/none/x"), "none/x"),
                            (("--ro", "tar-in", f"{image}:/", f"{work}/x.tar"), "--ro")):
        result = run(*words)
        assert result.code == 1 and mentions in result.err, str(result)
    for words in (("tar-in", "nowhere"), ("tar-out", f"{image}:/", "--gzip", "--xz")):
        assert run(*words).code == 2


def test_sockets_are_told_of(work):
    os.mkdir(f"{work}/tree")
    trees.make_socket(f"{work}/tree/socket")
    image = images.make_ext4_of(f"{work}/disk.img", f"{work}/tree")
    done = run("tar-out", f"{image}:/", "-f", f"{work}/x.tar")
    assert done.code == 0 and "socket" in done.err
    assert "socket" not in host.run("tar", "-t", "-f", f"{work}/x.tar").stdout


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_umask_holds_for_archives(work, plain, mask):
    """An archive of a root file system has /etc/shadow in it."""
    image = images.make_ext4_of(f"{work}/disk.img", plain)
    with open(f"{work}/script", "w", encoding="ascii") as stream:
        stream.write(f"tar-out {image}:/ -f {work}/script.tar\n")
    before = os.umask(mask)
    try:
        for words in (("tar-out", f"{image}:/", "-f", f"{work}/a.tar"),
                      ("tar-out", "--xz", f"{image}:/", "-f", f"{work}/a.tar.xz"),
                      ("run-script", f"{work}/script")):
            good(*words)
    finally:
        os.umask(before)
    for name in ("a.tar", "a.tar.xz", "script.tar"):
        assert os.stat(f"{work}/{name}").st_mode & 0o777 == 0o666 & ~mask, name
    os.chmod(f"{work}/a.tar", 0o604)
    good("tar-out", f"{image}:/", "-f", f"{work}/a.tar")
    assert os.stat(f"{work}/a.tar").st_mode & 0o777 == 0o604, "a file that is there keeps its mode"


def test_full_output(work, plain):
    image = images.make_ext4_of(f"{work}/disk.img", plain)
    if os.path.exists("/dev/full"):
        result = run("tar-out", f"{image}:/", "-f", "/dev/full")
        assert result.code == 1 and "No space left" in result.err
