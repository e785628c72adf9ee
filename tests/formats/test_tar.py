# SPDX-License-Identifier: GPL-2.0-only
"""tar-in and tar-out: everything is kept on both ways, archives of all programs are read, and none
does harm.
"""

import contextlib
import gzip
import io
import os
import random
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile

import pytest

from support import host, images, program, trees
from support.checkers import FSCK
from support.images import MEGABYTE
from support.json_output import items
from support.processes import wait_until_it_waits
from support.program import good, run

KINDS = ("ext4", "xfs", "btrfs")
SIZES = {"ext4": 300, "xfs": 400, "btrfs": 400}
GNU_ALL = ("--xattrs", "--xattrs-include=*", "--acls", "--selinux", "--numeric-owner")
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service+ep


def make(work, kind="ext4", name="disk.img", megabytes=0):
    options = ("-b", "4096") if kind == "ext4" else ()  # room for attributes
    return images.make(f"{work}/{name}", kind, megabytes or SIZES[kind], *options)


def check(image, kind="ext4"):
    host.run(*FSCK[kind], image)


def tar_in(archive, place, *options, code=0):
    """Feeds an archive (bytes, or the path of one) to standard input."""
    content = archive if isinstance(archive, bytes) else open(archive, "rb").read()
    done = subprocess.run(program.command("tar-in", *options, place), input=content,
                          capture_output=True, timeout=240, check=False)
    result = program.Result(done)
    assert result.code == code, str(result)
    for text in program.FORBIDDEN:
        assert text not in result.err, str(result)
    return result


def tar_out(place, path, *options):
    with open(path, "wb") as stream:
        done = subprocess.run(program.command("tar-out", *options, place),
                              stdout=stream, stderr=subprocess.PIPE, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return path


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
    if host.knows(kind):
        with host.loop_mount(image, kind, "ro") as mount:
            assert_same(wanted, everything(mount))
            assert os.stat(f"{mount}/sparse").st_blocks * 512 < MEGABYTE
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
    if host.knows("ext4"):
        with host.loop_mount(image, "ext4", "ro") as mount:
            assert_same(wanted, everything(mount), without=("xattrs",))
    tar_out(f"{image}:/", f"{work}/out.tar.zst", "--zstd", "--exclude=./lost+found")
    assert_same(wanted, everything(unpack("tar", f"{work}/out.tar.zst", f"{work}/again")),
                without=("xattrs",))


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


# ---- existing trees ----


def member(name, content=None, kind=tarfile.REGTYPE, link="", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mtime = kind, link, 10**9
    info.mode = 0o644 if kind != tarfile.DIRTYPE else 0o755
    info.size = len(content or b"")
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def archive_of(*members, form=tarfile.PAX_FORMAT, **options):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, **options) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content) if content is not None else None)
    return stream.getvalue()


def cat(image, path):
    result = run("cat", f"{image}:{path}")
    return result.raw if result.code == 0 else None


def test_existing_files_are_replaced(work):
    image = make(work)
    tar_in(archive_of(member("d", kind=tarfile.DIRTYPE), member("d/kept", b"kept"),
                      member("a", b"old" * 1000), member("b", kind=tarfile.LNKTYPE, link="a"),
                      member("l", kind=tarfile.SYMTYPE, link="a"), member("file", b"f"),
                      member("empty", kind=tarfile.DIRTYPE),
                      member("full", kind=tarfile.DIRTYPE), member("full/x", b"x"),
                      member("real", kind=tarfile.DIRTYPE),
                      member("alias", kind=tarfile.SYMTYPE, link="real")), f"{image}:/")
    result = tar_in(archive_of(member("d", kind=tarfile.DIRTYPE, mode=0o700),
                               member("a", b"new"), member("l", b"a file now"),
                               member("file", kind=tarfile.DIRTYPE), member("file/in", b"in"),
                               member("empty", b"was a directory"),
                               member("full", b"cannot"), member("alias/through", b"through")),
                    f"{image}:/", code=1)
    assert "full" in result.err
    assert "directory" in result.err.lower()
    assert "empty" not in result.err.replace("not empty", "")
    check(image)
    assert cat(image, "/d/kept") == b"kept"
    assert cat(image, "/a") == b"new"
    assert cat(image, "/b") == b"old" * 1000
    assert cat(image, "/l") == b"a file now"
    assert cat(image, "/file/in") == b"in"
    assert cat(image, "/empty") == b"was a directory"
    assert cat(image, "/full/x") == b"x" and cat(image, "/real/through") == b"through"


@pytest.mark.parametrize("keep", [False, True])
def test_directory_in_place_of_a_link(work, keep):
    image = make(work)
    tar_in(archive_of(member("usr/lib", kind=tarfile.DIRTYPE),
                      member("lib", kind=tarfile.SYMTYPE, link="usr/lib")), f"{image}:/")
    options = ("--keep-directory-symlink",) if keep else ()
    tar_in(archive_of(member("lib", kind=tarfile.DIRTYPE), member("lib/x", b"x")),
           f"{image}:/", *options)
    assert (cat(image, "/usr/lib/x") == b"x") == keep and cat(image, "/lib/x") == b"x"


def test_absolute_links_are_of_the_destination(work):
    image = make(work)
    tar_in(archive_of(member("top/usr", kind=tarfile.DIRTYPE), member("usr", kind=tarfile.DIRTYPE),
                      member("top/lib", kind=tarfile.SYMTYPE, link="/usr")), f"{image}:/")
    tar_in(archive_of(member("lib/x", b"x")), f"{image}:/top")
    assert cat(image, "/top/usr/x") == b"x" and cat(image, "/usr/x") is None


def test_duplicates(work):
    """The last one counts, whatever came between and how many threads there are."""
    image = make(work)
    members = [member(f"f{number % 7}", b"%d" % number * (number * 37 % 5000))
               for number in range(700)]
    members += [member("x", b"x"), member("x", kind=tarfile.SYMTYPE, link="f0"),
                member("x", kind=tarfile.DIRTYPE), member("x/y", b"in x")]
    members += [member("hard", kind=tarfile.LNKTYPE, link="x/y"), member("x/y", b"another")]
    tar_in(archive_of(*members), f"{image}:/", "--vcpus=4")
    for number in range(693, 700):
        assert cat(image, f"/f{number % 7}") == b"%d" % number * (number * 37 % 5000)
    assert cat(image, "/hard") == b"in x" and cat(image, "/x/y") == b"another"


def hard_link(name, target, data, form=tarfile.USTAR_FORMAT, follows=True):
    """A hard link whose header has a size; whether so many bytes follow."""
    info, _ = member(name, kind=tarfile.LNKTYPE, link=target)
    header = set_field(info.tobuf(form), 0, 124, b"%011o\0" % len(data))
    return header + (data + bytes(-len(data) % 512) if follows else b"")


def test_hard_links_with_data(work):
    """POSIX allows data behind a hard link. Programs that convert cpio archives give them to the
    last name only; old ones write the size of the other file, without data.
    """
    def start(described):
        """A member of less than a block, without the end of an archive."""
        return archive_of(described)[:1024 if described[1] else 512]

    late = b"late" * 200
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT):
        image = make(work, name=f"{form}.img")
        tar_in(start(member("a", b"hello")) + hard_link("b", "a", b"hello", form)
               + start(member("empty", b"")) + hard_link("filled", "empty", late, form)
               + hard_link("third", "filled", late, form)
               + hard_link("alone", "nowhere", b"alone", form)
               + hard_link("old", "a", b"hello", form, follows=False)
               + start(member("after", b"ok"))
               + (hard_link("last", "a", b"hello", form, follows=False)
                  if form == tarfile.GNU_FORMAT else b"") + bytes(1024), f"{image}:/")
        for name, content in (("a", b"hello"), ("b", b"hello"), ("old", b"hello"), ("empty", late),
                              ("filled", late), ("alone", b"alone"), ("after", b"ok")):
            assert cat(image, f"/{name}") == content, name
        inodes = [run("find", f"{image}:/{name}", "-printf", "%i").out
                  for name in ("a", "b", "old", "empty", "filled", "third")]
        assert inodes[0] == inodes[1] == inodes[2] and inodes[3] == inodes[4] == inodes[5]
        check(image)


def blocks_of(*described, kind=tarfile.USTAR_FORMAT):
    """Members without the end of an archive, and without PAX records."""
    parts = []
    for info, content in described:
        content = content or b""
        parts.append(info.tobuf(kind) + content + bytes(-len(content) % 512))
    return b"".join(parts)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_data_of_a_hard_link_that_are_an_archive(work, form):
    image = make(work)
    inner = blocks_of(member("inner", b"inner")) + bytes(8192)
    whole = (blocks_of(member("a.tar", inner)) + hard_link("b.tar", "a.tar", inner, form)
             + hard_link("c.tar", "nowhere", inner, form) + blocks_of(member("after", b"ok")))
    tar_in(whole + bytes(1024), f"{image}:/")
    assert cat(image, "/inner") is None and cat(image, "/after") == b"ok"
    assert [cat(image, f"/{name}.tar") for name in "abc"] == 3 * [inner]
    # PAX records say that data follow.
    inner = blocks_of(member("inner", b"inner"))
    records = archive_of(member("x", b"", pax_headers={"comment": "x"}))[:1536]
    tar_in(records + blocks_of(member("empty", b"")) + hard_link("pax", "empty", inner, form)
           + blocks_of(member("behind", b"ok")) + bytes(1024), f"{image}:/")
    assert cat(image, "/inner") is None and cat(image, "/behind") == b"ok"
    assert cat(image, "/pax") == inner


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
def test_a_hard_link_whose_data_are_unclear(work, form):
    """The members that follow may be its data: none is lost, and the command fails."""
    image = make(work)
    result = tar_in(blocks_of(member("a", b"hello"))
                    + hard_link("b", "a", b"hello", form, follows=False)
                    + blocks_of(member("empty", b""), member("after", b"ok")) + bytes(1024),
                    f"{image}:/", code=1)
    assert "the hard link b has a size" in result.err
    for name, content in (("a", b"hello"), ("b", b"hello"), ("empty", b""), ("after", b"ok")):
        assert cat(image, f"/{name}") == content, name


@pytest.mark.parametrize("fields", [{"kind": tarfile.FIFOTYPE}, {"kind": tarfile.SYMTYPE,
                                                                 "link": "file"},
                                    {"kind": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}],
                         ids=["fifo", "symlink", "device"])
def test_data_for_a_link_to_a_special_file(work, fields):
    """A FIFO has no reader, and a device would get the data."""
    image = make(work)
    result = tar_in(blocks_of(member("file", b"file"), member("p", **fields))
                    + hard_link("l", "p", b"data" * 150) + blocks_of(member("after", b"ok"))
                    + bytes(1024), f"{image}:/", code=1)
    assert "it has data, but is a link to p, which is not a regular file" in result.err
    assert cat(image, "/file") == b"file" and cat(image, "/after") == b"ok"
    assert run("ls", f"{image}:/l").code != 0


def test_global_headers_and_odd_members(work):
    image = make(work)
    content = archive_of(member("a", b"a"), member("odd", b"odd", kind=b"Z"),
                         member("cont", b"cont", kind=tarfile.CONTTYPE),
                         member("b", b"b", pax_headers={"mtime": "5.5"}),
                         pax_headers={"comment": "x", "mtime": "1234.5"})
    tar_in(content, f"{image}:/")
    shown = run("stat", f"{image}:/a", f"{image}:/b").out
    assert "00:20:34.500000000" in shown and "00:00:05.500000000" in shown
    assert cat(image, "/odd") == b"odd" and cat(image, "/cont") == b"cont"


def test_access_lists_by_name(work):
    """Names are looked up in the image first, then on the host; unknown ones are reported."""
    image = make(work)
    text = "user::rw-,user:{}:r-x,group::r--,mask::r-x,other::r--"
    tar_in(archive_of(member("etc/passwd", b"somebody:x:4711:4711::/:/bin/sh\n")), f"{image}:/")
    result = tar_in(
        archive_of(member("a", b"", pax_headers={"SCHILY.acl.access": text.format("somebody")}),
                   member("b", b"", pax_headers={"SCHILY.acl.access": text.format("root")}),
                   member("c", b"", pax_headers={"SCHILY.acl.access": text.format("stranger")})),
                    f"{image}:/")
    assert ":/c" in result.err and ":/a" not in result.err and ":/b" not in result.err
    with tarfile.open(tar_out(f"{image}:/", f"{work}/x.tar")) as members:
        found = {info.name: info.pax_headers.get("SCHILY.acl.access", "") for info in members}
    assert "user:4711:r-x" in found["./a"] and "user:0:r-x" in found["./b"] and not found["./c"]


# ---- hostile archives ----


def test_names_that_would_leave(work):
    image = make(work)
    tar_in(archive_of(member("in", kind=tarfile.DIRTYPE), member("secret", b"secret")),
           f"{image}:/")
    result = tar_in(archive_of(member("../out1", b"x"), member("a/../../out2", b"x"), member(
        "/absolute", b"abs"), member("up", kind=tarfile.SYMTYPE, link=".."),
                               member("up/out3", b"x"), member("root", kind=tarfile.SYMTYPE,
                                                               link="/"), member("root/out4", b"x"),
                               member("steal", kind=tarfile.LNKTYPE, link="../secret"),
                               member("steal2", kind=tarfile.LNKTYPE, link="up/secret"),
                               member("after", b"after")), f"{image}:/in", code=1)
    assert "../out1" in result.err and "a/../../out2" in result.err and "steal" in result.err
    listed = run("ls", f"{image}:/").out.split()
    assert sorted(listed) == ["in", "lost+found", "secret"], listed
    assert cat(image, "/in/absolute") == b"abs"
    assert cat(image, "/in/after") == b"after"
    assert cat(image, "/in/out3") == b"x"
    assert cat(image, "/in/steal") is None and cat(image, "/in/steal2") is None


def test_links_that_lead_nowhere(work):
    image = make(work)
    result = tar_in(archive_of(member("a", kind=tarfile.LNKTYPE, link="b"), member(
        "b", kind=tarfile.LNKTYPE, link="a"), member("c", kind=tarfile.LNKTYPE, link="c"),
                               member("loop", kind=tarfile.SYMTYPE, link="loop"),
                               member("loop/x", b"x"), member("file", b"f"), member("file/x", b"x"),
                               member("self", b"self"),
                               member("self", kind=tarfile.LNKTYPE, link="self"),
                               member("last", b"last")), f"{image}:/", code=1)
    assert result.err.count("cannot write") == 5, result.err
    assert cat(image, "/self") == b"self" and cat(image, "/last") == b"last"


@pytest.mark.parametrize("large", [False, True])
def test_truncated(work, large):
    image = make(work)
    size = 3 * MEGABYTE if large else 3000
    whole = archive_of(member("first", b"1" * 1000), member("the-second", b"2" * size),
                       member("third", b"3"))
    for cut, kept in ((100, 0), (700, 0), (1536 + 300, 1), (2048 + size // 2, 1)):
        result = tar_in(whole[:cut], f"{image}:/", code=1)
        assert str(cut) in result.err and f"{kept} member" in result.err, result.err
        assert (cat(image, "/first") == b"1" * 1000) == (kept == 1)
        assert cat(image, "/the-second") is None
    assert "the-second" in result.err
    assert "end" in tar_in(whole[:2048 + size + -size % 512], f"{image}:/").err
    check(image)


def set_field(content, offset, start, value):
    """Changes a field of the header at `offset`, and makes its checksum right."""
    block = bytearray(content[offset:offset + 512])
    block[start:start + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return content[:offset] + bytes(block) + content[offset + 512:]


def record(key, value):
    for digits in range(1, 9):
        text = f" {key}={value}\n".encode()
        if len(str(len(text) + digits)) == digits:
            return b"%d" % (len(text) + digits) + text
    raise ValueError


def pax_header(*records):
    records = b"".join(records)
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(records)
    return info.tobuf(tarfile.USTAR_FORMAT) + records + b"\0" * (-len(records) % 512)


def test_nonsense(work):
    image = make(work)
    good = archive_of(member("good", b"good"))
    file = archive_of(member("bad", b"bad"))
    cases = {
        "size": set_field(file, 0, 124, b"77777777777\0"),
        "huge size": set_field(file, 0, 124, b"\x80" + b"\x7f" * 11),
        "negative size": set_field(file, 0, 124, b"\xff" * 12),
        "no size": set_field(file, 0, 124, b"zzz"),
        "checksum": file[:20] + b"x" + file[21:],
        "huge pax": set_field(pax_header(b"6 a=b\n"), 0, 124, b"77777777777\0"),
        "pax length": pax_header(b"99999999999999999999 a=b\n") + file,
        "pax size": pax_header(record("size", 10**23)) + file,
        "pax size with a tail": pax_header(record("size", "3x")) + file,
        "pax size with a sign": pax_header(record("size", "+3")) + file,
        "holes with a tail": pax_header(record("GNU.sparse.major", "1x")) + file,
        "size with a tail": set_field(file, 0, 124, b"3 7\0"),
        "noise": random.Random(3).randbytes(20_000),
        "long name": set_field(archive_of(member("n" * 200, b""), form=tarfile.GNU_FORMAT),
                               0, 124, b"77777777777\0"),
    }
    for name, content in cases.items():
        result = tar_in(good[:1024] + content, f"{image}:/", code=1)
        assert "offset" in result.err, (name, result.err)
        assert cat(image, "/good") == b"good"
    assert "empty" in tar_in(b"", f"{image}:/", code=1).err
    assert "not a tar" in tar_in(b"plain text\n" * 200, f"{image}:/", code=1).err
    assert "bzip2" in tar_in(b"BZh91AY&SY", f"{image}:/", code=1).err
    check(image)


def test_members_that_are_refused(work):
    """Named, left out, and the rest is done."""
    image = make(work)
    records = {
        "uid": record("uid", 2**32 - 1), "map": record("GNU.sparse.map", "0,2,1,1")
        + record("GNU.sparse.size", 3), "name": record("path", "a\0b"),
        "fit": record("GNU.sparse.map", "0,2") + record("GNU.sparse.size", 3),
        "time": record("mtime", "yesterday"), "dots": record("path", "x/../y"),
    }
    for name, text in records.items():
        result = tar_in(pax_header(text)
                        + archive_of(member("bad", b"bad"), member("good-" + name, b"good")),
                        f"{image}:/", code=1)
        assert "left out" in result.err, (name, result.err)
        assert cat(image, f"/good-{name}") == b"good" and cat(image, "/bad") is None
    long = archive_of(member("n" * 256, b"x"), member("/".join(["d" * 200] * 30) + "/x", b"deep"),
                      member("end", b"end"))
    result = tar_in(long, f"{image}:/", code=1)
    assert "too long" in result.err and cat(image, "/end") == b"end"


def test_damaged_archives(work):
    """Flipped bits cause no crash and no hang, and the image stays sound."""
    image = make(work, megabytes=64)
    chosen = random.Random(7)
    whole = archive_of(*[member(f"d{number % 3}/f{number}", chosen.randbytes(
        number * 50), pax_headers={"SCHILY.xattr.user.x": "y" * number}) for number in range(40)],
                       member("l", kind=tarfile.LNKTYPE, link="d0/f0"),
                       member("s", kind=tarfile.SYMTYPE, link="d1"))
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(chosen.randrange(1, 30)):
            start = chosen.randrange(len(content) // 512) * 512 + chosen.choice((
                chosen.randrange(512), chosen.randrange(156)))
            content[start] = chosen.randrange(256)
            if chosen.random() < 0.7:
                content = bytearray(set_field(bytes(content), start // 512 * 512, 100, b"0000644"))
        done = subprocess.run(program.command("tar-in", f"{image}:/"),
                              input=bytes(content), capture_output=True, timeout=60, check=False)
        assert done.returncode in (0, 1), done
        assert all(text not in done.stderr.decode(errors="replace") for text in program.FORBIDDEN)
    check(image)


def test_full_image(work):
    image = make(work, megabytes=8)
    content = archive_of(*[member(f"f{number}", bytes(500_000)) for number in range(40)])
    result = tar_in(content, f"{image}:/", code=1)
    assert "No space left" in result.err and result.err.count("\n") < 6
    check(image)


def most_kilobytes(archive, *words):
    """Memory that the program had at most, its kernel's included."""
    # By a small process: what a large one has in memory counts for those it starts.
    measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    with open(archive, "rb") as stream:
        done = subprocess.run([sys.executable, "-c", measure, *program.command(*words)],
                              stdin=stream, stdout=subprocess.PIPE, check=True, timeout=240)
    return int(done.stdout)


def test_memory(work):
    """Written data stays neither in the kernel's memory nor in the program's."""
    image, archive = make(work, megabytes=500), f"{work}/many.tar"
    with tarfile.open(archive, "w") as stream:
        for number in range(400):
            member = tarfile.TarInfo(f"file{number}")
            member.size = MEGABYTE - 1000
            stream.addfile(member, io.BytesIO(random.Random(number).randbytes(member.size)))
    assert most_kilobytes(archive, "tar-in", f"{image}:/") < 200 * 1024
    check(image)


def test_memory_of_attributes_of_directories(work):
    """Directories get their attributes at the end: what waits for that has a limit."""
    archive = f"{work}/directories.tar.gz"
    values = {f"SCHILY.xattr.user.{number:02}": f"{number:02}" * 30_000 for number in range(64)}
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT, compresslevel=1) as stream:
        for number in range(100):
            member = tarfile.TarInfo(f"d{number}")
            member.type, member.mode, member.mtime = tarfile.DIRTYPE, 0o750, 1000
            entries = "user::rwx,user:7:r-x,group::r-x,mask::r-x,other::---"
            member.pax_headers = {**values, "SCHILY.acl.default": entries}
            stream.addfile(member)
            stream.members.clear()
    # All of them have 380 MB. ext4 takes none: the kernel needs no memory for them.
    small = make(work, name="small.img")
    used = most_kilobytes(archive, "tar-in", f"{small}:/")
    assert used < 340 * 1024, used
    image = make(work, "xfs", megabytes=600)
    good("tar-in", f"{image}:/", archive)
    for name in ("d0", "d99"):
        found = items(good("getfattr", "--json", "-d", "-m", "-", f"{image}:/{name}"))
        attributes = {attribute["name"]: attribute.get("value")
                      for attribute in found[0]["attributes"]}
        assert all(attributes[f"user.{number:02}"] == f"{number:02}" * 30_000
                   for number in range(64)), name
        assert "user:7:r-x" in good("getfacl", f"{image}:/{name}").out, name
        status, = items(good("stat", "--json", f"{image}:/{name}"))
        assert (status["mode"], status["modified"]) == (0o750, 1000 * 10**9), name


@pytest.mark.parametrize("kind, most", (("ext4", 104), ("xfs", 170)))
def test_memory_of_many_files(work, kind, most):
    """The kernel drops inodes of complete files, and the file system writes its buffered data.
    """
    image, archive = make(work, kind, 1500), f"{work}/many.tar"
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as stream:
        for number in range(60_000):
            member = tarfile.TarInfo(f"d{number // 500}/file{number}")
            member.size = number % 2
            stream.addfile(member, io.BytesIO(b"x"))
            stream.members.clear()
    assert most_kilobytes(archive, "tar-in", f"{image}:/") < most * 1024
    check(image, kind)


def test_an_interrupted_archive_has_no_end(work):
    """A reader of the pipe must not take it for a whole archive."""
    image = make(work)
    good("cp", images.write_noise(f"{work}/noise", 60), f"{image}:/")
    with subprocess.Popen(program.command("tar-out", f"{image}:/"), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as running:
        content = running.stdout.read(MEGABYTE)
        running.send_signal(signal.SIGINT)
        content += running.stdout.read()
        assert running.wait() == 130 and b"not complete" in running.stderr.read()
    assert len(content) < 60 * MEGABYTE and any(content[-1024:])
    result = tar_in(content, f"{make(work, name='other.img')}:/", code=1)
    assert "cut off" in result.err, str(result)


def test_interrupted(work):
    """A member that is not complete is not there; those before it are."""
    image = make(work)
    content = archive_of(member("first", b"1"), member("second", bytes(50 * MEGABYTE)))
    with subprocess.Popen(program.command("tar-in", f"{image}:/"), stdin=subprocess.PIPE,
                          stderr=subprocess.PIPE) as running:
        running.stdin.write(content[:10 * MEGABYTE])
        running.stdin.flush()
        wait_until_it_waits(running.pid, signal.SIGINT)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        assert b"interrupted" in running.stderr.read()
        with pytest.raises(BrokenPipeError):
            running.stdin.write(content)
            running.stdin.flush()
    check(image)
    assert cat(image, "/first") == b"1" and cat(image, "/second") is None


def test_headers_without_end(work):
    """So many records that to compare each with each would take many minutes; and interrupted among
    headers alone.
    """
    image = make(work)
    many = pax_header(*(record(f"SCHILY.xattr.user.{number}", "") for number in range(200_000)))
    result = tar_in(many + archive_of(member("bad", b"bad"), member("good", b"good")),
                    f"{image}:/", code=1)
    assert "left out bad" in result.err and "attributes" in result.err
    assert cat(image, "/good") == b"good" and cat(image, "/bad") is None
    whole = [set_field(pax_header(*(record(f"SCHILY.xattr.{letter}{number}", "")
                                    for number in range(300_000))), 0, 156, b"g")
             for letter in "ab"]
    result = tar_in(b"".join(whole) + archive_of(member("bad", b"bad")), f"{image}:/", code=1)
    assert "global headers" in result.err and cat(image, "/bad") is None
    large = pax_header(record("comment", "x" * (7 * MEGABYTE)))
    with subprocess.Popen(program.command("tar-in", f"{image}:/"), stdin=subprocess.PIPE,
                          stderr=subprocess.PIPE) as running:
        with pytest.raises(BrokenPipeError):
            for count in range(1000):
                if count == 10:
                    running.send_signal(signal.SIGINT)
                running.stdin.write(large)
                running.stdin.flush()
        assert running.wait(60) == 130
        with contextlib.suppress(BrokenPipeError):
            running.stdin.close()
    check(image)


def test_a_missing_target_makes_nothing(work):
    image = make(work)
    result = tar_in(archive_of(member("here/link", kind=tarfile.LNKTYPE, link="not/there"),
                               member("last", b"last")), f"{image}:/", code=1)
    assert "not/there" in result.err and cat(image, "/last") == b"last"
    assert good("ls", f"{image}:/").out.split() == ["last", "lost+found"]


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
