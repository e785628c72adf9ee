# SPDX-License-Identifier: GPL-2.0-only
"""tar-in of archives that are damaged, hostile or huge: nothing leaves the destination, errors are
named, memory has a limit, and an interrupt leaves whole files.
"""
import contextlib
import io
import random
import signal
import subprocess
import sys
import tarfile

import pytest

from support import images, program
from support.archives import (archive_of, cat, check, make, member, pax_header, record, set_field,
                              tar_in)
from support.images import MEGABYTE
from support.json_output import items
from support.processes import wait_until_it_waits
from support.program import good, run


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
