# SPDX-License-Identifier: GPL-2.0-only
"""tar-in into a tree that is there, and members of all kinds: links, hard links with data, global
headers, access lists.
"""

import tarfile

import pytest

from support.archives import (archive_of, blocks_of, cat, check, hard_link, make, member, tar_in,
                              tar_out)
from support.program import run


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
    """The last one counts, with any members between them and any number of threads."""
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
