# SPDX-License-Identifier: GPL-2.0-only
"""getfattr, setfattr, getfacl, setfacl, lsattr, chattr: as the tools of the same names on the
host's mount of the same image.
"""

import contextlib
import os
import struct

import pytest

from support import hfsplus, host, images
from support.program import bad, good, run

PASSWD = "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n"
GROUP = "root:x:0:\ncrew:x:50:\n"


@pytest.fixture
def image(work):
    tree = f"{work}/tree"
    for directory in ("etc", "dir/sub"):
        os.makedirs(f"{tree}/{directory}")
    for name, text in (("etc/passwd", PASSWD), ("etc/group", GROUP), ("dir/plain", "x"),
                       ("dir/with space", "x"), ("dir/back\\slash", "x"),
                       ("dir/new\nline", "x")):
        with open(f"{tree}/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
        os.chmod(f"{tree}/{name}", 0o644)
    os.symlink("plain", f"{tree}/dir/link")
    return images.make_ext4_of(f"{work}/disk.img", tree)


needs_mount = pytest.mark.skipif(not host.knows("ext4"), reason="the host cannot mount ext4 here")


@contextlib.contextmanager
def mounted(image):
    """The host's mount of the image, as the working directory of tools: they see the paths that we
    print.
    """
    with host.loop_mount(image, "ext4") as directory:
        yield lambda *words, **more: host.run(*words, cwd=directory, **more)


def sections(text):
    """The sections of a dump, without the order of its files."""
    return sorted(text.strip("\n").split("\n\n"))


def check(image):
    host.run("e2fsck", "-f", "-n", image)


# ---- extended attributes ----

VALUES = ("plain", "", "0x00010203", 'quo"te', r"back\\slash", "0s" + "QUJD",
          "line one and more\\012line two", r"\7\101", "größe")


@pytest.mark.needs_root
@needs_mount
@pytest.mark.needs("getfattr", "setfattr")
def test_attributes_are_shown_as_getfattr_does(image):
    with mounted(image) as tool:
        for number, value in enumerate(VALUES):
            tool("setfattr", "-n", f"user.v{number}", "-v", value, "dir/plain")
        tool("setfattr", "-n", "user.a=b c", "-v", "x", "dir/with space")
        tool("setfattr", "-n", "user.n", "-v", "x", "dir/new\nline")
        tool("setfattr", "-n", "trusted.t", "-v", "x", "dir/back\\slash")
        expected = {options: tool("getfattr", *options, "-R", "dir").stdout for options in
                    ((), ("-d",), ("-d", "-m", "-"), ("-d", "-e", "hex"),
                     ("-d", "-e", "text"), ("-d", "-e", "base64"), ("-m", "v[13]$"))}
        one = tool("getfattr", "-n", "user.v3", "dir/plain", "dir/link").stdout
        only = tool("getfattr", "--only-values", "-n", "user.v0", "dir/plain").stdout
    for options, text in expected.items():
        assert sections(good("getfattr", *options, "-R", f"{image}:/dir").out) == sections(
            text), options
    assert good("getfattr", "-n", "user.v3", f"{image}:/dir/plain", f"{image}:/dir/link").out == one
    assert good("getfattr", "--only-values", "-n", "user.v0", f"{image}:/dir/plain").out == only
    bad("getfattr", "-n", "user.none", f"{image}:/dir/plain",
        mentions=("user.none", "no such attribute"))


@pytest.mark.needs_root
@needs_mount
@pytest.mark.needs("getfattr", "setfattr")
def test_attributes_are_set_as_setfattr_does(image):
    for number, value in enumerate(VALUES):
        good("setfattr", "-n", f"user.v{number}", "-v", value, f"{image}:/dir/plain")
    good("setfattr", "-n", "trusted.overlay.opaque", "-v", "y", f"{image}:/dir/sub")
    good("setfattr", "-h", "-n", "trusted.own", "-v", "link", f"{image}:/dir/link")
    check(image)
    with mounted(image) as tool:
        for number, value in enumerate(VALUES):
            tool("setfattr", "-n", f"user.v{number}", "-v", value, "dir/sub")
        ours, theirs = (tool("getfattr", "-d", name).stdout.splitlines()[1:]
                        for name in ("dir/plain", "dir/sub"))
        assert ours == theirs
        assert "trusted.own" in tool("getfattr", "-h", "-m", "-", "dir/link").stdout
    good("setfattr", "-x", "user.v0", f"{image}:/dir/plain")
    assert "user.v0" not in good("getfattr", f"{image}:/dir/plain").out
    bad("setfattr", "-x", "user.v0", f"{image}:/dir/plain", mentions=("user.v0",))
    bad("setfattr", "-n", "nonsense", "-v", "x", f"{image}:/dir/plain", code=2)
    bad("setfattr", "-n", "user.x", "-v", "0xz", f"{image}:/dir/plain", code=2)


def test_attributes_there_and_back(work, image):
    good("setfattr", "-n", "user.x=y", "-v", "0x004142434400", f"{image}:/dir/new\nline",
         f"{image}:/dir/with space", f"{image}:/dir/back\\slash")
    dump = good("getfattr", "-R", "-d", f"{image}:/").out
    with open(f"{work}/dump", "w", encoding="utf-8") as stream:
        stream.write(dump)
    copy = f"{work}/copy.img"
    host.copy_sparse(image, copy)
    for name in ("new\nline", "with space", "back\\slash"):
        good("setfattr", "-x", "user.x=y", f"{copy}:/dir/{name}")
    assert not good("getfattr", "-R", "-d", f"{copy}:/").out
    good("setfattr", "--restore", f"{work}/dump", f"{copy}:/")
    assert good("getfattr", "-R", "-d", f"{copy}:/").out == dump
    check(copy)


# ---- access control lists ----

CHANGES = (
    ("-m", "u:1000:rwx"), ("-m", "g:50:r-x,u:7:w"), ("-m", "u:1000:rwx,m::r"),
    ("-m", "g::rwx"), ("-n", "-m", "u:1000:rwx"),
    ("-m", "m::x"), ("-x", "u:1000"), ("-x", "g:50,u:7"), ("-m", "u:8:rX"),
    ("-m", "u::rwx,o::---"), ("-m", "u:9:rX"), ("-b",),
    ("-m", "u:3:rw,g:4:x"), ("--set", "u::rw,g::r,o::-,u:5:rwx"), ("--mask", "-m", "u:5:r,m::rwx"),
    ("-m", "u:5:7"), ("-b",),
)
DEFAULTS = (
    ("-d", "-m", "u:1000:rwx"), ("-m", "d:g:50:rx,d:m::r"), ("-m", "d:o::-,u:3:r"),
    ("-x", "d:u:1000"), ("-d", "-m", "u:6:X"), ("-k",),
    ("-m", "d:u:1:r,u:2:w"), ("-b",), ("-d", "--set", "u::rwx,g::rx,o::x"),
    ("-R", "-m", "u:77:rwX,d:u:77:rwX"), ("-R", "-k"), ("-R", "-b"),
)


@pytest.mark.needs_root
@needs_mount
@pytest.mark.needs("getfacl", "setfacl")
@pytest.mark.parametrize(("path", "changes"), [("dir/plain", CHANGES), ("dir", CHANGES + DEFAULTS)],
                         ids=("file", "directory"))
def test_lists_change_as_by_setfacl(work, image, path, changes):
    """The same changes here and on the host's mount of a copy: the same lists after each."""
    copy = f"{work}/copy.img"
    host.copy_sparse(image, copy)
    script = [f"{kind} {' '.join(words)} {image}:/{path}\n" for change in changes
              for kind, words in (("setfacl", change), ("getfacl", ("-R", "-n")))]
    with open(f"{work}/script", "w", encoding="ascii") as stream:
        stream.writelines(script)
    ours = good("run-script", f"{work}/script").out
    theirs = ""
    with mounted(copy) as tool:
        for change in changes:
            tool("setfacl", *change, path)
            theirs += tool("getfacl", "-R", "-n", path).stdout
    assert len(sections(theirs)) >= len(changes)
    assert sections(ours) == sections(theirs)
    check(image)


@pytest.mark.needs_root
@needs_mount
@pytest.mark.needs("getfacl", "setfacl")
def test_lists_are_shown_as_getfacl_does(image):
    with mounted(image) as tool:
        tool("setfacl", "-m", "u:1000:rwx,g:50:rw,u:4000000000:x,m::r",
             "dir/plain", "dir/new\nline", "dir/back\\slash")
        tool("setfacl", "-d", "-m", "u:1:rwx,m::rx", "dir/sub")
        tool("chmod", "6755", "dir/with space")
        tool("chmod", "+t", "dir")
        expected = {options: tool("getfacl", "-R", "-n", *options, "dir").stdout
                    for options in ((), ("-a",), ("-d",), ("-e",), ("-E",), ("-s",), ("-c",))}
    for options, text in expected.items():
        assert sections(good("getfacl", "-R", "-n", *options, f"{image}:/dir").out) == sections(
            text), options


def test_names_are_those_of_the_image(image):
    good("chown", "0", f"{image}:/dir/plain")
    good("setfacl", "-m", "u:alice:rw,g:crew:r", f"{image}:/dir/plain")
    shown = good("getfacl", f"{image}:/dir/plain").out
    assert "user:alice:rw-" in shown and "group:crew:r--" in shown and "# owner: root" in shown
    assert "user:1000:rw-" in good("getfacl", "-n", f"{image}:/dir/plain").out
    bad("setfacl", "-m", "u:nobody_here:rw", f"{image}:/dir/plain", code=2,
        mentions=("nobody_here",))
    bad("setfacl", "-m", "q:1:rw", f"{image}:/dir/plain", code=2)
    bad("setfacl", "-m", "d:u:1:rw", f"{image}:/dir/plain", mentions=("only directories",))
    bad("setfacl", "-x", "m", f"{image}:/dir/plain", mentions=("mask is missing",))
    bad("setfacl", "--set", "u:1:rw", f"{image}:/dir/plain", mentions=("missing",))


@pytest.mark.needs_root
@needs_mount
@pytest.mark.needs("getfacl", "setfacl")
def test_lists_there_and_back(work, image):
    """Our setfacl restores the output of the host's getfacl, with owners and special bits."""
    copy = f"{work}/copy.img"
    host.copy_sparse(image, copy)
    with mounted(image) as tool:
        tool("setfacl", "-m", "u:1000:rwx,m::r", "dir/plain", "dir/new\nline", "dir/back\\slash")
        tool("setfacl", "-d", "-m", "u:1:rwx", "dir/sub")
        tool("chown", "1000:50", "dir/with space")
        tool("chmod", "6755", "dir/with space")
        dump = tool("getfacl", "-R", "-n", "dir").stdout
    with open(f"{work}/dump", "w", encoding="utf-8") as stream:
        stream.write(dump)
    good("setfacl", "--restore", f"{work}/dump", f"{copy}:/")
    check(copy)
    with mounted(copy) as tool:
        assert sections(tool("getfacl", "-R", "-n", "dir").stdout) == sections(dump)


@pytest.mark.needs_root
@needs_mount
def test_a_broken_list_is_an_error(image):
    """The kernel's own check comes first: such a list cannot even be set. Ours is tested by cargo
    test.
    """
    value = struct.pack("<IHHI", 2, 1, 7, 0xFFFFFFFF)
    result = run("setfattr", "-n", "system.posix_acl_access", "-v", "0x" + value.hex(),
                 f"{image}:/dir/plain")
    assert result.code == 1 and "posix_acl_access" in result.err


# ---- flags ----


@pytest.mark.needs_root
@needs_mount
@pytest.mark.needs("lsattr", "chattr")
def test_flags(work, image):
    copy = f"{work}/copy.img"
    host.copy_sparse(image, copy)
    changes = (("+i", "dir/plain"), ("+ad", "dir/with space"), ("+A", "dir"),
               ("+D", "dir/sub"), ("-i", "dir/plain"), ("-d", "etc/group"),
               ("+S", "etc/passwd"), ("+T", "etc"))
    for mode, path in changes:
        good("chattr", mode, f"{image}:/{path}")
    check(image)
    with mounted(copy) as tool:
        for mode, path in changes:
            tool("chattr", mode, path)
    with mounted(image) as tool, mounted(copy) as other:
        theirs = [tool("lsattr", *options, "dir", "etc", ok=None).stdout
                  for options in ((), ("-d",), ("-R",), ("-Ra",), ("-l",))]
        assert other("lsattr", "-Ra", "dir", "etc", ok=None).stdout == theirs[3]
    for options, text in zip(((), ("-d",), ("-R",), ("-Ra",), ("-l",)), theirs):
        ours = good("lsattr", *options, f"{image}:/dir", f"{image}:/etc").out
        lines = [line
                 for line in text.replace(" dir", " /dir").replace(" etc", " /etc").splitlines()]
        assert sorted(without_padding(ours)) == sorted(without_padding(
            "\n".join(lines).replace("\ndir", "\n/dir").replace("\netc", "\n/etc"))), options


def without_padding(text):
    """Lines with single spaces; -l fills up paths, and ours are longer by a slash."""
    return [" ".join(line.lstrip("/").split()).replace(" /", " ") for line in text.splitlines()]


def test_a_file_that_cannot_change(image):
    good("chattr", "+i", f"{image}:/dir/plain")
    bad("setfattr", "-n", "user.x", f"{image}:/dir/plain", mentions=("dir/plain", "not permitted"))
    bad("chattr", "+Z", f"{image}:/dir/plain", code=2, mentions=("Z",))
    bad("chattr", "i", f"{image}:/dir/plain", code=2)
    good("chattr", "-R", "=", f"{image}:/dir")
    good("setfattr", "-n", "user.x", f"{image}:/dir/plain")


def test_file_systems_without(work):
    """FAT has no attributes, no lists: said, not shown as empty success of a change."""
    fat = images.make(f"{work}/fat.img", "vfat")
    assert not good("getfattr", "-d", f"{fat}:/").out
    assert "user::" in good("getfacl", f"{fat}:/").out
    bad("setfattr", "-n", "user.x", "-v", "y", f"{fat}:/", mentions=("not supported",))
    bad("setfacl", "-m", "u:1:r", f"{fat}:/", mentions=("not supported",))


# ---- other forms of what a file has anyway ----

TWICE = ("trusted.SGI_ACL", "$LX")


def test_a_bad_attribute_does_not_hide_the_others(work):
    """Linux's hfsplus cuts the last letter of some names in lists: no such attribute is found."""
    image = f"{work}/h.img"
    hfsplus.make(image, 40)
    with open(f"{work}/file", "w", encoding="ascii"):
        pass
    good("cp", f"{work}/file", f"{image}:/file")
    good("setfattr", "-n", "user.good", "-v", "value", f"{image}:/file")
    listed = good("getfattr", "-m", "-", f"{image}:/file").out.split("\n")
    wrong = [name for name in listed if name.startswith("osx.")]
    if not wrong:
        pytest.skip("this driver lists the right names")
    result = bad("getfattr", "-d", "-m", "-", f"{image}:/file", mentions=(wrong[0], "no such"))
    assert 'user.good="value"' in result.out
    # Each attribute of its own, in copies, archives and comparisons, too.
    result = run("cp", "-a", f"{image}:/file", f"{work}/copy")
    assert result.code == 0 and wrong[0] in result.err, result
    assert os.getxattr(f"{work}/copy", "user.good") == b"value"
    result = run("tar-out", f"{image}:/", "-f", f"{work}/x.tar")
    assert result.code == 0 and wrong[0] in result.err, result
    with open(f"{work}/x.tar", "rb") as stream:
        assert b"user.good=value" in stream.read()
    result = bad("diff", f"{image}:/file", f"{work}/file", code=2, mentions=(wrong[0],))
    assert "user.good" in result.out


@pytest.mark.parametrize("kind", ("xfs", "ntfs"))
def test_other_forms_are_left_out(work, image, kind):
    """xfs shows lists also as it stores them; NTFS stores modes and owners in attributes."""
    other = f"{work}/other.img"
    good("mkfs", kind, other, "--size", "320M")
    good("setfacl", "-m", "u:7:r", f"{image}:/dir/plain")
    good("setfacl", "-d", "-m", "u:7:r", f"{image}:/dir/sub")
    good("setfattr", "-n", "user.kept", "-v", "x", f"{image}:/dir/plain")
    there = run("cp", "-a", f"{image}:/dir", f"{other}:/")
    assert there.code == 0, there
    stored = good("getfattr", "-R", "-m", "-", f"{other}:/dir").out
    assert any(name in stored for name in TWICE), stored
    for target in (f"{image}:/again", f"{work}/again"):
        back = good("cp", "-a", f"{other}:/dir", target)
        assert not any(name in back.err for name in TWICE), back
    assert not any(name in good("getfattr", "-R", "-m", "-", f"{image}:/again").out
                   for name in TWICE)
    assert "user.kept" in good("getfattr", "-m", "-", f"{image}:/again/plain").out
    compared = run("diff", f"{image}:/again", f"{other}:/dir")
    assert compared.code == 0 and not compared.out, compared
    archive = f"{work}/all.tar"
    good("tar-out", f"{other}:/dir", "-f", archive)
    with open(archive, "rb") as stream:
        archived = stream.read()
    assert not any(name.encode() in archived for name in TWICE) and b"user.kept" in archived
