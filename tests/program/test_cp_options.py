# SPDX-License-Identifier: GPL-2.0-only
"""The options of cp: what it prints, leaves alone, keeps and leaves out, side by side with GNU cp.
"""

import io
import os
import pty
import re
import shutil
import stat
import subprocess
import tarfile
import threading

import pytest

from support import host, images, program
from support.json_output import items
from support.patience import wait_until
from support.program import bad, good, run
from program.test_cli import drain

OLD, NEW = 1_000_000_000, 1_500_000_000


def write(path, text="", time=None, mode=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text)
    if mode is not None:
        os.chmod(path, mode)
    if time is not None:
        os.utime(path, (time, time))
    return path


def look(root):
    """The files of a tree: kind, contents or target, mode, owner, time of modification."""
    found = {}
    for directory, below, files in os.walk(root):
        for name in below + files:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            if stat.S_ISREG(info.st_mode):
                with open(path, encoding="ascii") as stream:
                    what = stream.read()
            else:
                what = os.readlink(path) if stat.S_ISLNK(info.st_mode) else "directory"
            found[os.path.relpath(path, root)] = (what, oct(info.st_mode),
                                                  info.st_uid, info.st_gid, info.st_mtime_ns)
    return found


def without_times(found):
    """The same without times, for copies that have those of their making."""
    return {path: what[:-1] for path, what in found.items()}


@pytest.fixture
def source(work):
    tree = f"{work}/source"
    write(f"{tree}/file", "source", NEW, 0o4751)
    write(f"{tree}/sub/one", "one", NEW, 0o640)
    write(f"{tree}/sub/deep/two", "two", OLD, 0o600)
    os.symlink("file", f"{tree}/link")
    os.symlink("sub", f"{tree}/dirlink")
    os.symlink("../../file", f"{tree}/sub/deep/up")
    if host.IS_ROOT:
        os.lchown(f"{tree}/sub/one", 7, 8)
    return tree


class Twin:
    """A directory of the host and one of an image that hold the same. Copies go into both."""

    def __init__(self, work, source):
        self.work, self.source = work, source
        self.host = f"{work}/host"
        os.mkdir(self.host)
        self.image = images.make(f"{work}/disk.img", "ext4")

    def begin(self, path, text, time):
        write(f"{self.host}/{path}", text, time)
        good("cp", "-a", f"{self.host}/.", f"{self.image}:/")

    def copy(self, options, *names):
        """Copies by both; the exit codes must be the same. Returns GNU's tree and ours."""
        sources = [f"{self.source}/{name}" for name in names]
        theirs = host.run("cp", *options, *sources, self.host, ok=None)
        ours = run("cp", *options, *sources, f"{self.image}:/")
        assert ours.code == theirs.returncode, f"{ours}\nGNU: {theirs.stderr}"
        with images.shown(self.work, self.image, "ext4") as directory:
            found = look(directory)
        found.pop("lost+found", None)
        return look(self.host), found


@pytest.fixture
def twin(work, source):
    return Twin(work, source)


@pytest.mark.parametrize("options", [["-p"], ["-rp"], ["-pP"], ["-rpL"],
                                     ["-aL"], ["-a"], ["-rpL", "-P"], ["-rpP", "-L"]], ids="".join)
@pytest.mark.needs_root
def test_attributes_and_links_as_gnu(twin, options):
    theirs, ours = twin.copy(options, "file", "link", "sub")
    if "r" in options[0] or "a" in options[0]:
        assert ours == theirs
    else:
        assert ours["file"] == theirs["file"] and ours["link"][:2] == theirs["link"][:2]


@pytest.mark.parametrize("options", [["-P"], ["-rL"], ["-rP"], ["-r"]], ids="".join)
def test_links_as_gnu(twin, options):
    theirs, ours = twin.copy(options, "file", "link", "sub", "dirlink")
    assert without_times(ours) == without_times(theirs)


@pytest.mark.parametrize("options", [["-n"], ["-u"], ["-rn"], ["-ru"], ["-nu"], ["-pu"]],
                         ids="".join)
@pytest.mark.parametrize("time", [OLD, NEW, NEW + 1], ids=["older", "as old", "newer"])
def test_files_that_are_there_as_gnu(twin, options, time):
    twin.begin("file", "before", time)
    twin.begin("sub/deep/two", "before", time)
    theirs, ours = twin.copy(options, "file", "sub")
    assert {path: what[0] for path, what in ours.items()} == {path: what[0]
                                                              for path, what in theirs.items()}


def test_no_clobber_is_no_failure(twin):
    twin.begin("file", "before", OLD)
    result = good("cp", "-n", f"{twin.source}/file", f"{twin.image}:/file")
    assert result.err == "" and good("cat", f"{twin.image}:/file").out == "before"
    bad("cp", "-n", f"{twin.source}/file", f"{twin.source}/sub/one", f"{twin.image}:/file",
        mentions=["not a directory"])


@pytest.mark.parametrize("kind", ["vfat", "exfat"])
def test_update_knows_that_times_were_rounded(work, kind):
    """FAT has even seconds alone: what -p has copied is not copied again for that."""
    disk = images.make(f"{work}/disk.img", kind)
    path = write(f"{work}/file", "same", NEW)
    os.utime(path, ns=(NEW * 10 ** 9, (NEW + 1) * 10 ** 9 + 987654321))
    good("cp", "-p", path, f"{disk}:/")
    assert good("cp", "-puv", path, f"{disk}:/").out == ""
    os.utime(path, (NEW + 4, NEW + 4))
    assert good("cp", "-puv", path, f"{disk}:/").out != ""


def test_access_lists_are_kept_with_the_mode(work, source):
    host.run("setfacl", "-m", "u:5:rw", f"{source}/file")
    os.setxattr(f"{source}/file", "user.note", b"x")
    disk = images.make(f"{work}/disk.img", "ext4")
    good("cp", "-p", f"{source}/file", f"{disk}:/")
    assert "user:5:rw-" in good("getfacl", "-n", f"{disk}:/file").out
    assert "user.note" not in good("getfattr", f"{disk}:/file").out


def test_verbose_as_gnu(work, source):
    disk = images.make(f"{work}/disk.img", "ext4")
    os.mkdir(f"{work}/host")
    options = ["cp", "-rv", f"{source}/file", f"{source}/sub"]
    theirs = host.run(*options, f"{work}/host").stdout
    ours = good(*options, f"{disk}:/").out
    assert sorted(ours.replace(f"{disk}:/", f"{work}/host/").splitlines()) == sorted(
        theirs.splitlines())
    again = good(*options, f"{disk}:/").out
    assert f"'{source}/sub'" not in again and f"'{source}/sub/one' -> '{disk}:/sub/one'" in again


def test_verbose_into_a_closed_pipe(work):
    """The copy ends when nobody reads its report."""
    disk = images.make(f"{work}/disk.img", "ext4", 64, "-N", "20000")
    for index in range(8000):
        write(f"{work}/many/file{index:05}")
    with subprocess.Popen(program.command("cp", "-rv", f"{work}/many",
                                          f"{disk}:/"), stdout=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.wait(timeout=60) == 141
    host.run("e2fsck", "-f", "-n", disk)


@pytest.mark.needs_root
def test_chown(work, source):
    disk = images.make(f"{work}/disk.img", "ext4")
    write(f"{work}/etc/passwd", "ann:x:1234:50::/:/bin/sh\n")
    write(f"{work}/etc/group", "staff:x:77:\n")
    good("cp", "-r", f"{work}/etc", f"{disk}:/")

    def owners(*options):
        good("rm", "-rf", f"{disk}:/to")
        good("mkdir", f"{disk}:/to")
        good("cp", *options, f"{source}/file", f"{source}/link", f"{source}/sub", f"{disk}:/to")
        lines = good("find", f"{disk}:/to", "-mindepth", "1", "-printf",
                     "%p %U %G %m\\n").out.split("\n")[:-1]
        return {words.split()[0].partition(":/to/")[2]: tuple(words.split()[1:]) for words in lines}

    for options in (["-r"], ["-a"]):
        found = owners(*options, "--chown=ann:staff")
        assert {owner[:2] for owner in found.values()} == {("1234", "77")}, found
        assert len(found) == 7
    assert found["file"][2] == "4751", "set-user-ID is kept by -a"
    assert {owner[:2] for owner in owners("-r", "--chown=ann:").values()} == {("1234", "50")}
    assert owners("-a", "--chown=:staff")["sub/one"][:2] == ("7", "77")
    assert owners("-a", "--chown=5")["sub/one"][:2] == ("5", "8")
    assert owners("-r", "--chown=5")["sub/one"][:2] == ("5", str(os.getegid()))
    bad("cp", "--chown=bob", f"{source}/file", f"{disk}:/", mentions=["bob", "no such user"])


def test_chown_leaves_directories_that_were_there(work, source):
    disk = images.make(f"{work}/disk.img", "ext4")
    good("mkdir", f"{disk}:/sub")
    good("cp", "-r", "--chown=5:6", f"{source}/sub", f"{disk}:/")
    assert items(good("stat", f"{disk}:/sub", "--json"))
    lines = good("find", f"{disk}:/sub", "-printf", "%P %U:%G\\n").out.splitlines()
    assert f" {os.geteuid()}:{os.getegid()}" in lines or " 0:0" in lines
    assert "deep 5:6" in lines and "one 5:6" in lines


@pytest.mark.parametrize("patterns, left", [
    (["two"], {"file", "sub", "sub/one", "sub/deep", "sub/deep/up"}),
    (["sub/deep"], {"file", "sub", "sub/one"}),
    (["sub/*", "fi?e"], {"sub"}),
    (["sub/"], {"file"}),
    (["[a-m]*"], {"sub", "sub/one"}),
    (["source"], {"file", "sub", "sub/one", "sub/deep", "sub/deep/two", "sub/deep/up"}),
])
@pytest.mark.parametrize("into_image", [True, False])
def test_exclude(work, source, patterns, left, into_image):
    disk = images.make(f"{work}/disk.img", "ext4")
    options = [f"--exclude={pattern}" for pattern in patterns]
    if into_image:
        good("cp", "-r", *options, f"{source}/file", f"{source}/sub", f"{disk}:/")
        good("cp", "-r", f"{disk}:/", f"{work}/back")
        os.rmdir(f"{work}/back/lost+found")
    else:
        good("cp", "-r", f"{source}/file", f"{source}/sub", f"{disk}:/")
        os.mkdir(f"{work}/back")
        good("cp", "-r", *options, "--exclude=lost+found", f"{disk}:/", f"{work}/back")
    assert set(look(f"{work}/back")) == left


def test_excluded_contents_of_a_directory(work, source):
    disk = images.make(f"{work}/disk.img", "ext4")
    good("cp", "-r", "--exclude=sub/deep", "--exclude=./file", f"{source}/.", f"{disk}:/all")
    good("cp", "-r", f"{disk}:/all", f"{work}/back")
    assert set(look(f"{work}/back")) == {"link", "dirlink", "sub", "sub/one"}


def test_followed_links_stay_in_the_image(work):
    """An absolute link of an image means the image's root, also on the way through a tree."""
    disk = images.make(f"{work}/disk.img", "ext4")
    write(f"{work}/tree/etc/hostname", "inside")
    os.makedirs(f"{work}/tree/links")
    for name, target in [("absolute", "/etc/hostname"), ("out", "../../../../../../etc/hostname"),
                         ("dir", "/etc")]:
        os.symlink(target, f"{work}/tree/links/{name}")
    good("cp", "-a", f"{work}/tree/.", f"{disk}:/")
    good("cp", "-rL", f"{disk}:/links", f"{work}/back")
    found = look(f"{work}/back")
    assert {path: what[0] for path, what in found.items()} == {
        "absolute": "inside", "out": "inside", "dir": "directory", "dir/hostname": "inside"}


def test_followed_links_end(work):
    disk = images.make(f"{work}/disk.img", "ext4")
    write(f"{work}/tree/a/file", "x")
    os.makedirs(f"{work}/tree/a/below")
    os.symlink("..", f"{work}/tree/a/below/up")
    os.symlink("/", f"{work}/tree/a/top")
    os.symlink("none", f"{work}/tree/a/nowhere")
    os.symlink("self", f"{work}/tree/a/self")
    good("cp", "-a", f"{work}/tree/a", f"{disk}:/")
    result = bad("cp", "-rL", f"{disk}:/a", f"{work}/back", timeout=30,
                 mentions=["a/below/up: the link leads to a directory that contains the link",
                           "a/nowhere", "a/self", "a/top/a: links lead to it"])
    assert "interrupted" not in result.err
    assert set(look(f"{work}/back")) == {"file", "below", "top", "top/lost+found"}
    # A link to what holds the destination.
    os.makedirs(f"{work}/tree/b")
    os.symlink("..", f"{work}/tree/b/out")
    good("rm", "-r", f"{disk}:/a")
    good("cp", "-a", f"{work}/tree/b", f"{disk}:/")
    bad("cp", "-rL", f"{disk}:/b", f"{disk}:/copy", mentions=["b/out", "contains"], timeout=30)


def test_links_out_of_the_sources_are_hidden_by_the_sandbox(work):
    write(f"{work}/elsewhere/secret", "x")
    write(f"{work}/tree/file", "x")
    os.symlink(f"{work}/elsewhere/secret", f"{work}/tree/link")
    disk = images.make(f"{work}/disk.img", "ext4")
    result = run("cp", "-rL", f"{work}/tree", f"{disk}:/")
    if result.code:
        assert "tree/link" in result.err and "--no-sandbox" in result.err, str(result)
    run("cp", "--no-sandbox", "-rL", f"{work}/tree", f"{disk}:/")
    assert good("cat", f"{disk}:/tree/link").out == "x"


def shown_by_cp(*words) -> bytes:
    """What cp shows on a terminal."""
    main, other = pty.openpty()
    with subprocess.Popen(program.command("cp", *words), stdin=other, stdout=other, stderr=other,
                          env={**os.environ, "TERM": "xterm"}) as running:
        os.close(other)
        shown = drain(main)
        assert running.wait(timeout=120) == 0, shown
    os.close(main)
    return shown


@pytest.mark.parametrize("source_kind", ["file", "directory", "image"])
def test_the_progress_has_a_percentage(work, source_kind):
    images.write_noise(f"{work}/noise", 200)
    disk = images.make(f"{work}/disk.img", "ext4", 4000)
    source, target = f"{work}/large", f"{disk}:/"
    # So much that the copy outlasts the bar's patience, and counting a directory's begins.
    if source_kind == "file":
        with open(f"{work}/noise", "rb") as noise, open(source, "wb") as large:
            for _ in range(12):
                noise.seek(0)
                shutil.copyfileobj(noise, large, 1 << 20)
    else:
        source = f"{work}/tree"
        os.mkdir(source)
        for index in range(12):
            os.link(f"{work}/noise", f"{source}/{index}")
    if source_kind == "image":
        good("cp", "-r", source, target)
        source, target = target, f"{work}/back"
    shown = shown_by_cp("-r", source, target)
    assert re.search(rb", \d+ %, \d+:\d\d left", shown), shown


def test_the_percentage_of_many_small_files(work):
    """Their bytes are a small part of the space that they use in an image."""
    disk = images.make(f"{work}/disk.img", "ext4", 600, "-N", "100000")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for index in range(40_000):
            member = tarfile.TarInfo(f"{index % 100}-{index}")
            member.size = 100
            archive.addfile(member, io.BytesIO(b"x" * 100))
    with open(f"{work}/files.tar", "wb") as file:
        file.write(stream.getvalue())
    good("tar-in", f"{disk}:/", f"{work}/files.tar")
    shown = shown_by_cp("-r", f"{disk}:/", f"{work}/back")
    percentages = [int(number) for number in re.findall(rb", (\d+) %", shown)]
    assert percentages and max(percentages) > 50, shown


def test_special_bits_of_new_copies(work):
    """A directory like /tmp stays one; all other special bits go, as with GNU cp."""
    tree = f"{work}/special"
    os.makedirs(f"{tree}/below")
    modes = {"": 0o1777, "below": 0o3777, "sticky": 0o1755, "own": 0o6755}
    for name in ("sticky", "own"):
        write(f"{tree}/{name}")
    for name, mode in modes.items():
        os.chmod(f"{tree}/{name}", mode)
    disk = images.make(f"{work}/special.img", "ext4")
    good("cp", "-a", tree, f"{disk}:/from")
    good("cp", "-r", tree, f"{disk}:/to")
    good("cp", "-r", f"{disk}:/from", f"{work}/ours")
    host.run("cp", "-r", tree, f"{work}/theirs")
    good("cp", "-r", f"{disk}:/to", f"{work}/again")
    for name in modes:
        theirs = os.stat(f"{work}/theirs/{name}").st_mode
        assert oct(os.stat(f"{work}/ours/{name}").st_mode) == oct(theirs), name
        assert oct(os.stat(f"{work}/again/{name}").st_mode) == oct(theirs), name
        found, = items(good("stat", "--json", f"{disk}:/to/{name}".rstrip("/")))
        assert oct(found["mode"]) == oct(theirs & 0o7777), name


def write_sparse_file_by_ntfs_3g(work, image):
    """Linux's ntfs3 writes no holes."""
    directory = f"{work}/mounted"
    os.mkdir(directory)
    with subprocess.Popen(["ntfs-3g", "-o", "no_detach", image, directory]):
        wait_until(lambda: os.path.ismount(directory), "ntfs-3g has mounted it")
        host.run("cp", "--sparse=always", f"{work}/sparse", directory)
        host.run("umount", directory)


@pytest.mark.parametrize("kind", (
    pytest.param("ntfs", marks=[pytest.mark.needs("ntfs-3g"), pytest.mark.needs_root]), "jfs",
    "minix", "udf"))
def test_holes_that_are_not_reported(work, kind):
    """These drivers have holes, and no SEEK_HOLE."""
    image, other = f"{work}/x.img", f"{work}/other.img"
    good("mkfs", kind, image, "--size", "128M")
    good("mkfs", "ext4", other, "--size", "64M")
    size, places = 96 << 20, (0, 5_000_000, (96 << 20) - 1)
    with open(f"{work}/sparse", "wb") as stream:
        stream.truncate(size)
        for place in places:
            stream.seek(place)
            stream.write(b"x")
    if kind == "ntfs":
        write_sparse_file_by_ntfs_3g(work, image)
    else:
        good("cp", f"{work}/sparse", f"{image}:/sparse")
    good("cp", "-a", f"{image}:/sparse", f"{work}/again")
    assert os.stat(f"{work}/again").st_blocks * 512 < 1 << 20
    host.run("cmp", f"{work}/sparse", f"{work}/again")
    archive = good("tar-out", f"{image}:/").raw
    assert len(archive) < 1 << 20
    with open(f"{work}/x.tar", "wb") as stream:
        stream.write(archive)
    os.mkdir(f"{work}/unpacked")
    host.run("tar", "-x", "-f", f"{work}/x.tar", "-C", f"{work}/unpacked")
    host.run("cmp", f"{work}/sparse", f"{work}/unpacked/sparse")
    good("cp", "-a", f"{image}:/sparse", f"{other}:/")
    assert int(good("find", f"{other}:/sparse", "-printf", "%k").out) < 1024
    assert good("diff", f"{image}:/sparse", f"{other}:/sparse").code == 0


def test_a_file_that_changes_while_it_is_read(work):
    image, log = f"{work}/x.img", f"{work}/log"
    good("mkfs", "ext4", image, "--size", "128M")
    images.write_noise(log, 64)
    done = threading.Event()

    def write_on():
        with open(log, "r+b", buffering=0) as stream:
            while not done.wait(0.001):
                stream.seek(0)
                stream.write(b"x")

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        result = good("cp", log, f"{image}:/", notes=["changed while it was read"])
    finally:
        done.set()
        writer.join()
    assert f"changed while it was read: {log}" in result.err, result
    good("cp", log, f"{image}:/")


def test_failures_of_one_reason_are_bounded(work):
    """The first ones are printed, the others are counted; JSON has the exact number."""
    image, names = f"{work}/x.img", 1200
    good("mkfs", "vfat", image, "--size", "64M")
    os.mkdir(f"{work}/links")
    for number in range(names):
        os.symlink("x", f"{work}/links/{number}")
    os.symlink("x", f"{work}/links/" + "n" * 255)
    result = bad("cp", "-r", f"{work}/links", f"{image}:/", mentions=("links/",))
    assert len(result.err.splitlines()) < 60, len(result.err.splitlines())
    assert f"and {names + 1 - 20} more failures" in result.err, result.err[-300:]
