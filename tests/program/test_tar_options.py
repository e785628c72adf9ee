# SPDX-License-Identifier: GPL-2.0-only
"""The options of tar-in and tar-out that choose and change members, side by side with GNU tar."""

import errno
import os
import signal
import stat
import subprocess
import tarfile
import time

import pytest

from support import host, images, json_output, program
from support.program import bad, good, run

TIME = 1_234_567_890


@pytest.fixture
def tree(work):
    root = f"{work}/tree"
    for path in ("etc/passwd", "etc/group", "etc/ssh/keys", "usr/bin/su", "usr/bin/x.o", "top"):
        os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        with open(f"{root}/{path}", "w", encoding="ascii") as stream:
            stream.write({"etc/passwd": "ann:x:1234:50::/:/bin/sh\n",
                          "etc/group": "staff:x:77:\n"}.get(path, path))
        os.utime(f"{root}/{path}", (TIME, TIME))
    os.chmod(f"{root}/usr/bin/su", 0o4755)
    os.symlink("su", f"{root}/usr/bin/link")
    os.link(f"{root}/usr/bin/su", f"{root}/usr/bin/hard")
    if host.IS_ROOT:
        os.lchown(f"{root}/etc/ssh/keys", 7, 8)
    return root


@pytest.fixture
def archive(work, tree):
    host.run("tar", "-c", "-f", f"{work}/tree.tar", "-C", tree, "etc", "usr", "top")
    return f"{work}/tree.tar"


@pytest.fixture
def image(work):
    return images.make(f"{work}/disk.img", "ext4")


def look(root):
    found = {}
    for directory, below, files in os.walk(root):
        for name in below + files:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            found[os.path.relpath(path, root)] = (stat.S_IFMT(info.st_mode),
                                                  info.st_mode & 0o7777, info.st_uid, info.st_gid,
                                                  int(info.st_mtime)
                                                  if not stat.S_ISDIR(info.st_mode) else 0,
                                                  info.st_nlink)
    found.pop("lost+found", None)
    return found


@pytest.mark.parametrize("options, members", [
    (["--strip-components=1"], []),
    (["--strip-components=2"], []),
    (["--strip-components=9"], []),
    (["--exclude=*.o"], []),
    (["--exclude=usr/bin", "--exclude=ssh"], []),
    (["--strip-components=1", "--exclude=etc/ssh/*"], []),
    ([], ["etc/passwd", "usr"]),
    ([], ["etc/ssh/"]),
    (["--strip-components=1", "--exclude=x.o"], ["usr/bin", "top"]),
])
@pytest.mark.needs_root
def test_members_as_gnu(work, archive, image, options, members):
    os.mkdir(f"{work}/host")
    host.run("tar", "-x", "-p", "--same-owner", *options, "-f", archive,
             "-C", f"{work}/host", *members)
    good("tar-in", *options, f"{image}:/", archive, *members)
    with images.shown(work, image, "ext4") as directory:
        found = look(directory)
    assert found == look(f"{work}/host")
    host.run("e2fsck", "-f", "-n", image)


@pytest.mark.parametrize("pattern", [
    "?a", "é?", "dir/?", "dir/[!a]", "[[:upper:]]*", "[[=é=]]", "di?",
])
def test_exclusion_by_characters_as_gnu(work, image, pattern):
    """A character of UTF-8 is one, and so is a byte that belongs to none. (GNU tar also leaves out
    what a pattern matches byte by byte: no pattern here does that.)"""
    os.makedirs(f"{work}/names/dir")
    for name in ("a", "é", "É", "éa", "\udcff", "\udcffa", "dir/é", "dir/\udcc3"):
        with open(f"{work}/names/{name}", "wb"):
            pass
    good("cp", "-r", f"{work}/names", f"{image}:/")
    good("tar-out", f"--exclude={pattern}", f"{image}:/names", "-f", f"{work}/own.tar")
    subprocess.run(["tar", "-c", f"--exclude={pattern}", "-f", f"{work}/gnu.tar", "-C",
                    f"{work}/names", "."], env={**os.environ, "LC_ALL": "C.UTF-8"}, check=True)
    names = {}
    for one in ("own", "gnu"):
        with tarfile.open(f"{work}/{one}.tar") as packed:
            names[one] = sorted(member.name for member in packed)
    assert names["own"] == names["gnu"]


def test_members_with_and_without_f(archive, image):
    good("tar-in", f"{image}:/", "-f", archive, "./top")
    with open(archive, "rb") as stream:
        subprocess.run(program.command("tar-in", f"{image}:/", "-", "etc/group"),
                       stdin=stream, check=True)
    found = good("find", f"{image}:/", "-type", "f").out.splitlines()
    assert sorted(found) == [f"{image}:/etc/group", f"{image}:/top"]


def test_a_member_that_is_not_there(archive, image):
    bad("tar-in", f"{image}:/", archive, "top", "none/at/all", mentions=["none/at/all is not in"])
    assert good("cat", f"{image}:/top").out == "top"
    bad("tar-in", f"{image}:/", archive, "../top", code=2, mentions=["../top"])


@pytest.mark.needs_root
def test_owners_of_members(tree, archive, image):
    good("cp", "-r", f"{tree}/etc", f"{image}:/")

    def owners(*options):
        good("rm", "-rf", f"{image}:/to")
        good("mkdir", f"{image}:/to")
        good("tar-in", *options, f"{image}:/to", archive)
        lines = good("find", f"{image}:/to", "-mindepth", "1", "-printf",
                     "%P %U:%G %m\\n").out.splitlines()
        return {line.split()[0]: line.split()[1:] for line in lines}

    assert owners()["etc/ssh/keys"][0] == "7:8"
    assert {owner for owner, _ in owners("--owner=ann", "--group=staff").values()} == {"1234:77"}
    found = owners("--owner=5")
    assert found["etc/ssh/keys"][0] == "5:8" and found["usr/bin/su"] == ["5:0", "4755"]
    found = owners("--no-same-owner")
    new = good("find", f"{image}:/to", "-maxdepth", "0", "-printf", "%U:%G").out
    assert {owner for owner, _ in found.values()} == {new}
    assert found["usr/bin/su"][1] == "755", "a set-user-ID bit is of an owner"
    bad("tar-in", "--owner=bob", f"{image}:/to", archive, mentions=["bob: no such user"])
    assert {owner for owner, _ in owners("--owner=ann:staff").values()} == {"1234:77"}
    bad("tar-in", "--owner=0:0", "--group=0", f"{image}:/to", archive, code=2,
        mentions=["two groups"])


def members(path):
    with tarfile.open(path) as stream:
        return {member.name: member for member in stream.getmembers()}


@pytest.mark.parametrize("paths", [
    ["etc"], ["usr/bin/su", "usr/bin/hard"], ["./etc/ssh/", "top"], ["."], ["usr", "etc/ssh/keys"]])
def test_chosen_paths_as_gnu(work, tree, image, paths):
    good("cp", "-a", f"{tree}/.", f"{image}:/x")
    good("tar-out", f"{image}:/x", *paths, "-f", f"{work}/ours.tar")
    host.run("tar", "-c", "--sort=name", "-f", f"{work}/theirs.tar", "-C", tree, *paths)
    clean = {os.path.normpath(name): (member.type, member.linkname.removeprefix("./"), member.mode)
             for name, member in members(f"{work}/theirs.tar").items()}
    assert {os.path.normpath(name): (member.type, member.linkname.removeprefix("./"), member.mode)
            for name, member in members(f"{work}/ours.tar").items()} == clean


def test_a_path_that_is_not_there(work, tree, image):
    good("cp", "-a", f"{tree}/.", f"{image}:/")
    bad("tar-out", f"{image}:/", "none", "top", "-f", f"{work}/x.tar",
        mentions=["disk.img:/none: no such file"])
    assert list(members(f"{work}/x.tar")) == ["top"]
    bad("tar-out", f"{image}:/etc", "../top", "-f", f"{work}/y.tar", code=2, mentions=["../top"])
    assert not os.path.exists(f"{work}/y.tar")


def test_paths_stay_in_the_image(work, tree, image):
    os.symlink("/etc", f"{tree}/config")
    good("cp", "-a", f"{tree}/.", f"{image}:/")
    good("tar-out", f"{image}:/", "config/passwd", "config", "-f", f"{work}/x.tar")
    found = members(f"{work}/x.tar")
    assert found["config/passwd"].size == 25 and found["config"].issym()


def test_owner_and_time_of_what_is_packed(work, tree, image):
    good("cp", "-a", f"{tree}/.", f"{image}:/")
    good("tar-out", "--owner=ann", "--group=9", "--mtime=@1000000000",
         f"{image}:/", "-f", f"{work}/x.tar")
    assert ({(member.uid, member.gid, member.mtime) for member in members(f"{work}/x.tar").values()}
            == {(1234, 9, 1_000_000_000)})
    good("tar-out", "--mtime=@1300000000", "--clamp-mtime", f"{image}:/", "-f", f"{work}/y.tar")
    found = members(f"{work}/y.tar")
    assert found["./top"].mtime == TIME and found["./etc"].mtime == 1_300_000_000
    assert found["./etc/ssh/keys"].uid == os.lstat(f"{tree}/etc/ssh/keys").st_uid
    bad("tar-out", "--owner=bob", f"{image}:/", "-f", f"{work}/z.tar",
        mentions=["bob: no such user"])
    bad("tar-out", "--clamp-mtime", f"{image}:/", "-f", f"{work}/z.tar",
        code=2, mentions=["--mtime"])
    assert not os.path.exists(f"{work}/z.tar")


@pytest.mark.parametrize("place,directory", [("/", "srv"), ("/srv", "."), ("/x", "/srv")])
def test_a_directory_to_unpack_into(archive, image, place, directory):
    good("mkdir", f"{image}:/srv", f"{image}:/x")
    good("tar-in", "-C", directory, f"{image}:{place}", archive, "top")
    assert good("cat", f"{image}:/srv/top").out == "top"
    assert good("ls", f"{image}:/x").out == ""
    bad("tar-in", f"{image}:{place}", "--directory=none", archive, mentions=("none",))


@pytest.mark.parametrize("sent", [b"", b"\x1f\x8b"])
def test_an_interrupt_before_the_archive_begins(image, sent):
    command = program.command("tar-in", f"{image}:/")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(sent)
        process.stdin.flush()
        time.sleep(2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130, process.stderr.read()
    images.check_unmounted_ext4(image)


@pytest.mark.needs("debugfs")
def test_read_errors_have_path_and_number(work, tree):
    image = images.make_ext4_of(f"{work}/damaged.img", tree)
    host.run("debugfs", "-w", "-R", "set_inode_field /top block[0] 0", image)
    for words in (["tar-out", f"{image}:/", "-f", f"{work}/out.tar"],
                  ["cp", "-r", f"{image}:/", f"{work}/out"]):
        error, = json_output.end(run(*words, "--json"))["errors"]
        assert error["path"] == f"{image}:/top" and error["errno"] == errno.EUCLEAN
        assert error["kind"] == "damaged"


# ---- bounds of what an archive may have ----


@pytest.mark.needs("mkfs.xfs")
def test_the_most_attributes_of_a_member(work):
    image = images.make(f"{work}/disk.xfs", "xfs")
    for count in (1000, 1001):
        member = tarfile.TarInfo(f"with{count}")
        member.pax_headers = {f"SCHILY.xattr.user.{number}": "x" for number in range(count)}
        with tarfile.open(f"{work}/{count}.tar", "w", format=tarfile.PAX_FORMAT) as members:
            members.addfile(member)
    good("tar-in", f"{image}:/", f"{work}/1000.tar")
    names = good("getfattr", f"{image}:/with1000").out.split()
    assert len([name for name in names if name.startswith("user.")]) == 1000
    bad("tar-in", f"{image}:/", f"{work}/1001.tar",
        mentions=("with1001", "more than 1000 extended attributes"))
    assert "with1001" not in good("ls", f"{image}:/").out


def test_archives_without_members(work, image):
    for size in (1024, 10240, 64 << 10):
        host.sparse_file(f"{work}/empty.tar", size)
        good("tar-in", f"{image}:/", f"{work}/empty.tar")
    for size, reason in ((0, "is empty"), (512, "512 bytes"), ((64 << 10) + 512, "66048 bytes")):
        host.sparse_file(f"{work}/none.tar", size)
        bad("tar-in", f"{image}:/", f"{work}/none.tar", mentions=(reason, "archive"))
