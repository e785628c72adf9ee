# SPDX-License-Identifier: GPL-2.0-only
"""Two sources that would become one file: the second is an error, and the first stays as it is.

They have one name, or the file system of the destination takes their names for one.
"""

import io
import os
import tarfile

import pytest

from support import hfsplus, host, images
from support.program import bad, good

UPPER, LOWER = "Name", "nAME"
# Types that take these two for one name, with those of Linux's that do so when asked to.
FOLDING = ["vfat", "exfat", "ext4", "xfs", "jfs", "hfsplus"]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    return path


def folding(work, kind):
    """An image whose directory `old` takes `Name` and `nAME` for one name."""
    path = f"{work}/{kind}.img"
    if kind == "hfsplus":
        hfsplus.make(path, 32)
    elif kind == "jfs":
        host.sparse_file(path, 32 * images.MEGABYTE)
        host.run("mkfs.jfs", "-q", "-O", path)
    else:
        options = {"ext4": ("-O", "casefold", "-E", "encoding=utf8"),
                   "xfs": ("-n", "version=ci")}
        images.make(path, kind, 0, *options.get(kind, ()))
    good("mkdir", f"{path}:/old")
    if kind == "ext4":
        good("chattr", "+F", f"{path}:/old")
    return path


@pytest.fixture
def clashing(work):
    """A tree with two files and two directories whose names differ in case."""
    for name in (UPPER, LOWER):
        write(f"{work}/tree/{name}", f"file {name}")
        write(f"{work}/tree/dir{name}/{name}", f"below {name}")
    return f"{work}/tree"


def pack(work, tree):
    path = f"{work}/tree.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(tree, ".")
    return path


def refused(*words, clashes):
    """The command fails. Standard error has one line for each clash, with these names in it."""
    told = bad(*words)
    lines = [line for line in told.err.splitlines() if "would overwrite" in line]
    assert len(lines) == len(clashes), str(told)
    for names in clashes:
        assert any(all(name in line for name in names) for line in lines), str(told)
    return told


def contents(image, directory, *names):
    """The contents of each name; of one file by two names, twice the same."""
    return [good("cat", f"{image}:{directory}/{name}").out for name in names]


def check_one_of_each(image, directory):
    """One file and one directory are there, and the file has what the source of its name has."""
    names = good("ls", f"{image}:{directory}").out.split()
    assert len(names) == 2, names
    for name in names:
        if name.startswith("dir"):
            below = good("ls", f"{image}:{directory}/{name}").out.split()
            assert below == [name[3:]]
            assert contents(image, f"{directory}/{name}", *below) == [f"below {below[0]}"]
        else:
            assert contents(image, directory, name) == [f"file {name}"]


@pytest.mark.parametrize("kind", FOLDING)
def test_names_that_are_one_in_the_destination(work, clashing, kind):
    image = folding(work, kind)
    clashes = [[f"{image}:/old/", f"/{UPPER}", f"/{LOWER}"], ["dirName", "dirnAME"]]
    # Into a directory that was there, and once more over the first copy.
    for option in ("-r", "-a"):
        refused("cp", option, f"{clashing}/.", f"{image}:/old", clashes=clashes)
        check_one_of_each(image, "/old")
    # Into a directory that the command makes; -n is no reason to drop a source.
    refused("cp", "-rn", clashing, f"{image}:/old", clashes=clashes)
    check_one_of_each(image, "/old/tree")
    good("rm", "-r", f"{image}:/old/tree")
    good("mkdir", f"{image}:/old/tar")
    archive = pack(work, clashing)
    for _ in range(2):
        told = bad("tar-in", f"{image}:/old/tar", archive)
        assert f"{image}:/old/tar/" in told.err and "would overwrite" in told.err
        for names in ((UPPER, LOWER), ("dirName", "dirnAME")):
            assert any(all(name in line for name in names) for line in told.err.splitlines())
        check_one_of_each(image, "/old/tar")


@pytest.mark.parametrize("kind", ["vfat", "exfat"])
def test_a_new_file_system_of_clashing_names(work, clashing, kind):
    for source in (clashing, pack(work, clashing)):
        told = bad("mkfs", "--force", kind, f"{work}/new.img", "--from", source)
        assert "would overwrite" in told.err
        check_one_of_each(f"{work}/new.img", "/")


def test_other_names_that_are_one_on_fat(work):
    """A dot at the end is dropped, letters beyond ASCII have case, long names have short ones."""
    pairs = [("a", "a."), ("é", "É"), ("longname-1.txt", "LONGNA~1.TXT")]
    image = images.make(f"{work}/fat.img", "vfat")
    for index, pair in enumerate(pairs):
        sources = [f"{work}/{index}/{name}" for name in pair]
        for source in sources:
            write(source, source)
        good("mkdir", f"{image}:/{index}")
        refused("cp", *sources, f"{image}:/{index}", clashes=[[f"/{index}/", *sources]])
        kept = good("ls", f"{image}:/{index}").out.split()
        assert len(kept) == 1
        assert contents(image, f"/{index}", *kept) == sources[:1]


def test_an_existing_file_by_another_name_is_overwritten(work):
    image = images.make(f"{work}/fat.img", "vfat")
    for text in ("old", "new"):
        good("cp", write(f"{work}/README", text), f"{image}:/README")
        good("cp", write(f"{work}/more/readme", f"{text}er"), write(f"{work}/x", ""), f"{image}:/")
        assert contents(image, "", "README") == [f"{text}er"]
        assert good("ls", f"{image}:/").out == "README\nx\n"
    # Not by both, whichever comes first.
    for names in (["README", "more/readme"], ["more/readme", "README"]):
        sources = [f"{work}/{name}" for name in names]
        refused("cp", *sources, f"{image}:/", clashes=[sources])
        with open(sources[0], encoding="ascii") as stream:
            assert contents(image, "", "README") == [stream.read()]
    # A file that stays is no copy.
    good("cp", "-n", f"{work}/README", f"{work}/more/readme", f"{image}:/")


@pytest.fixture
def twice(work):
    """Two directories with a file `f` and a directory `d` each."""
    for name in ("p", "q"):
        write(f"{work}/{name}/f", name)
        write(f"{work}/{name}/d/f", name)
        write(f"{work}/{name}/d/{name}", name)
    return work


@pytest.mark.parametrize("options", [[], ["-n"], ["-u"], ["-a"]], ids="".join)
def test_one_name_of_two_sources(twice, options):
    """As GNU cp, which refuses to overwrite what it has just made."""
    one, two = (images.make(f"{twice}/{name}.img", "ext4") for name in ("one", "two"))
    good("cp", "-a", f"{twice}/p", f"{twice}/q", f"{one}:/")
    os.mkdir(f"{twice}/out")
    ways = [(f"{twice}/", f"{one}:/"), (f"{one}:/", f"{twice}/out/"), (f"{one}:/", f"{two}:/")]
    for index, (source, target) in enumerate(ways):
        for order in ("pq", "qp"):
            sources = [f"{source}{name}/f" for name in order]
            refused("cp", *options, *sources, target, clashes=[[f"{target}f", *sources]])
            if index == 1:
                with open(f"{twice}/out/f", encoding="ascii") as stream:
                    assert stream.read() == order[0]
                os.unlink(f"{twice}/out/f")
            else:
                assert contents(target[:-2], "", "f") == [order[0]]
                good("rm", f"{target}f")


def test_directories_of_one_name_are_merged(twice):
    image = images.make(f"{twice}/disk.img", "ext4")
    for sources in (["p/d", "q/d"], ["p/d/.", "q/d/."], ["p/.", "q/d", "q/f"]):
        sources = [f"{twice}/{source}" for source in sources]
        told = bad("cp", "-r", *sources, f"{image}:/")
        assert "would overwrite" in told.err
        listed = good("find", f"{image}:/", "-type", "f", "-printf", "%f ").out.split()
        assert sorted(listed) in (["f", "p", "q"], ["f", "f", "p", "q"]), listed
        for path in listed.count("f") * ["f"]:
            found = good("find", f"{image}:/", "-name", path).out.split()
            assert good("cat", *found).out == "p" * len(found)
        good("rm", "-rf", f"{image}:/d", f"{image}:/f", f"{image}:/p", f"{image}:/q")


def test_a_source_that_is_named_twice(twice):
    image = images.make(f"{twice}/disk.img", "ext4")
    again = ["p/f", "./p/f", "p/../p/f", "q/d", "q/d/", "q//d"]
    told = good("cp", "-r", *(f"{twice}/{path}" for path in ["p/f", "q/d", *again]), f"{image}:/",
                notes=["more than once"])
    assert told.err.count("more than once") == len(again)
    assert contents(image, "", "f", "d/f") == ["p", "q"]
    # Of an image, too; a name of its own is a copy of its own.
    sources = [f"{image}:{path}" for path in ("/d", "/d/.", "/d/", "/./d/.", "/d")]
    told = good("cp", "-r", *sources, f"{twice}/p", notes=["more than once"])
    assert told.err.count("more than once") == 3
    assert sorted(os.listdir(f"{twice}/p")) == ["d", "f", "q"]


@pytest.mark.parametrize("option", ["-r", "-a"])
def test_names_of_one_file_in_the_destination(work, option):
    """Existing hard links: the second source does not write to the file of the first one."""
    image = images.make(f"{work}/disk.img", "ext4")
    good("touch", f"{image}:/a")
    good("ln", f"{image}:/a", f"{image}:/b")
    sources = [write(f"{work}/{name}", name) for name in "ab"]
    good("cp", option, *sources, f"{image}:/")
    assert contents(image, "", "a", "b") == ["a", "b"]
    # One source with two names does no harm.
    good("ln", "-f", f"{image}:/b", f"{image}:/a")
    os.unlink(f"{work}/b")
    os.link(f"{work}/a", f"{work}/b")
    good("cp", option, *sources, f"{image}:/")
    assert contents(image, "", "a", "b") == ["a", "a"]
    assert len(good("find", f"{image}:/", "-links", "2", "-type", "f").out.split()) == 2


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def test_a_second_backup_after_a_link_was_broken(work):
    image = images.make(f"{work}/disk.img", "ext4")
    os.mkdir(f"{work}/host")
    write(f"{work}/s/a", "old")
    os.link(f"{work}/s/a", f"{work}/s/b")
    good("cp", "-a", f"{work}/s", f"{image}:/")
    good("cp", "-a", "--force", f"{work}/s", f"{work}/host")
    # A name that is no part of the backup keeps the old contents, as with GNU cp -a.
    good("ln", f"{image}:/s/a", f"{image}:/kept")
    os.link(f"{work}/host/s/a", f"{work}/host/kept")
    for name in "ab":
        os.unlink(f"{work}/s/{name}")
        write(f"{work}/s/{name}", f"new {name}")
    good("cp", "-a", f"{work}/s", f"{image}:/")
    good("cp", "-a", "--force", f"{work}/s", f"{work}/host")
    expected = ["new a", "new b", "old"]
    assert contents(image, "", "s/a", "s/b", "kept") == expected
    assert [read(f"{work}/host/{name}") for name in ("s/a", "s/b", "kept")] == expected


def test_many_clashes_hide_no_other_failure(twice):
    """The first ones are printed, the others are counted: they are failures for one reason."""
    for name in "pq":
        for index in range(300):
            write(f"{twice}/{name}/{index}", name)
    image = images.make(f"{twice}/disk.img", "ext4")
    sources = [f"{twice}/{name}/{index}" for name in "pq" for index in range(300)]
    told = refused("cp", *sources, *(f"{twice}/absent{index}" for index in range(5)), f"{image}:/",
                   clashes=20 * [["/q/", "/p/", f"{image}:/"]])
    assert "and 280 more failures of this kind: this command has" in told.err
    assert told.err.count(f"{twice}/absent") == 5
    assert len(told.err.splitlines()) == 26, told.err


def test_mv_of_two_files_of_one_name(twice):
    one, two = (images.make(f"{twice}/{name}.img", "ext4") for name in ("one", "two"))
    good("cp", "-a", f"{twice}/p", f"{twice}/q", f"{one}:/")
    good("mkdir", f"{one}:/to", f"{one}:/p/e", f"{one}:/q/e")
    for target in (f"{one}:/to", f"{two}:/"):
        sources = [f"{one}:/{name}/f" for name in "pq"]
        for option in ([], ["-n"]):
            refused("mv", *option, *sources, target, clashes=[sources])
            assert good("cat", f"{target}/f", sources[1]).out == "pq"
            good("mv", f"{target}/f", sources[0])
        # An empty directory is no less.
        refused("mv", f"{one}:/[pq]/e", target, clashes=[[f"{one}:/p/e", f"{one}:/q/e"]])
        good("mv", f"{target}/e", f"{one}:/p/e")


@pytest.mark.parametrize("options", [["-f"], ["-sf"]], ids="".join)
def test_ln_of_two_files_of_one_name(twice, options):
    image = images.make(f"{twice}/disk.img", "ext4")
    good("cp", "-a", f"{twice}/p", f"{twice}/q", f"{image}:/")
    start = "/" if "s" in options[0] else f"{image}:/"
    sources = [f"{start}{name}/f" for name in "pq"]
    for _ in range(2):
        refused("ln", *options, *sources, f"{image}:/", clashes=[[f"{image}:/f", *sources]])
        assert contents(image, "", "f") == ["p"]


def test_mv_of_clashing_names_leaves_the_source(work, clashing):
    image = images.make_ext4_of(f"{work}/disk.img", clashing)
    fat = images.make(f"{work}/fat.img", "vfat")
    good("mkdir", f"{image}:/tree")
    good("mv", *(f"{image}:/{name}" for name in os.listdir(clashing)), f"{image}:/tree")
    before = good("find", f"{image}:/tree").out
    told = bad("mv", f"{image}:/tree", f"{fat}:/moved", mentions=["would overwrite"])
    assert f"{fat}:/moved/" in told.err and ".outboard" not in told.err
    assert good("find", f"{image}:/tree").out == before
    assert good("ls", f"{fat}:/").out == ""
    sources = [f"{image}:/tree/{name}" for name in (UPPER, LOWER)]
    refused("mv", *sources, f"{fat}:/", clashes=[sources])
    assert good("cat", f"{fat}:/{UPPER}", sources[1]).out == f"file {UPPER}file {LOWER}"


def test_mv_within_a_file_system_of_folded_names(work):
    fat = images.make(f"{work}/fat.img", "vfat")
    good("mkdir", f"{fat}:/1", f"{fat}:/2")
    good("touch", f"{fat}:/1/{UPPER}", f"{fat}:/2/{LOWER}")
    sources = [f"{fat}:/1/{UPPER}", f"{fat}:/2/{LOWER}"]
    refused("mv", *sources, f"{fat}:/", clashes=[sources])
    assert sorted(good("find", f"{fat}:/", "-type", "f", "-printf", "%f ").out.split()) == [
        UPPER, LOWER]
    # One after the other is the wish of the user.
    good("mv", sources[1], f"{fat}:/")
    assert len(good("find", f"{fat}:/", "-type", "f").out.split()) == 1


def test_a_later_member_of_the_same_name_wins(work):
    """That is how tar appends a newer file."""
    image = images.make(f"{work}/fat.img", "vfat")
    archive = f"{work}/twice.tar"
    with tarfile.open(archive, "w") as stream:
        for text in ("first", "later"):
            stream.add(write(f"{work}/f", text), "d/f")
            stream.add(f"{work}/f", "./d//g")
    for _ in range(2):
        good("tar-in", f"{image}:/", archive)
        assert contents(image, "/d", "f", "g") == ["later", "later"]


def pack_texts(path, *members, kind=tarfile.SYMTYPE):
    """An archive of files, and of links of that kind: a link has a target in place of a text."""
    with tarfile.open(path, "w") as stream:
        for name, text, *link in members:
            info = tarfile.TarInfo(name)
            if link:
                info.type, info.linkname = kind, link[0]
            info.size = len(text)
            stream.addfile(info, io.BytesIO(text.encode()))
    return path


def test_members_of_one_directory_by_two_paths(work):
    """A link leads to a directory that members also name by its own path, as /lib does."""
    archive = pack_texts(
        f"{work}/links.tar", ("usr/lib/first", "1"), ("lib", "", "usr/lib"), ("self", "", "."),
        ("lib/a", "a"), ("usr/lib/fw/x", "x"), ("usr/lib/same", "1"), ("lib/fw/y", "y"),
        ("lib/same", "2"), ("lib/new/x", "x"), ("usr/lib/new/x", "later"), ("lib/same", "3"),
        ("usr/lib/same", "4"), ("top", "1"), ("self/top", "2"), ("self/usr/lib/a", "later"))
    new, old = (images.make(f"{work}/{name}.img", "ext4") for name in ("new", "old"))
    # The second directory is there before, and is reached by the link first.
    good("mkdir", "-p", f"{old}:/usr/lib")
    good("ln", "-s", "usr/lib", f"{old}:/lib")
    good("tar-in", f"{old}:/", pack_texts(f"{work}/by.tar", ("lib/new/z", "z"),
                                          ("usr/lib/new/z", "later"), ("lib/new/z", "last")))
    assert contents(old, "/usr/lib/new", "z") == ["last"]
    for image in (new, old, old):
        good("tar-in", f"{image}:/", archive)
        assert contents(image, "/usr/lib", "first", "a", "fw/x", "fw/y", "same", "new/x") == [
            "1", "later", "x", "y", "4", "later"]
        assert contents(image, "", "top") == ["2"]


def test_a_link_that_later_leads_elsewhere(work):
    image = images.make(f"{work}/disk.img", "ext4")
    good("tar-in", f"{image}:/", pack_texts(
        f"{work}/links.tar", ("1/d/f", "old"), ("2/d/f", "old"), ("now", "", "1"),
        ("now/d/f", "by 1"), ("now/d/g", "by 1"), ("now", "", "2"), ("2/d/g", "old"),
        ("now/d/f", "by 2"), ("now/d/g", "by 2")))
    for number in "12":
        assert contents(image, f"/{number}/d", "f", "g") == 2 * [f"by {number}"]


def test_members_below_a_folded_directory(work):
    """The archive does not describe the directories, and one of them was there before."""
    image = images.make(f"{work}/fat.img", "vfat")
    write(f"{work}/f", "text")
    archive = f"{work}/dirs.tar"
    with tarfile.open(archive, "w") as stream:
        for path in ("Dir/one", "dir/two", "old/three", "OLD/four"):
            stream.add(f"{work}/f", path)
    good("mkdir", f"{image}:/Old")
    refused("tar-in", f"{image}:/", archive,
            clashes=[[f"{image}:/dir/two", "Dir"], [f"{image}:/OLD/four", "old"]])
    listed = good("find", f"{image}:/", "-type", "f", "-printf", "%P ").out.split()
    assert sorted(listed) == ["Dir/one", "Old/three"]


@pytest.mark.parametrize("kind", ["ext4", "jfs"])
def test_a_hard_link_to_a_member_that_was_refused(work, kind):
    """It must not become one to the file that has the other member's name."""
    image = folding(work, kind)
    archive = pack_texts(f"{work}/links.tar", (UPPER, "one"), (LOWER, "two"),
                         ("wrong", "", LOWER), ("right", "", UPPER), kind=tarfile.LNKTYPE)
    told = bad("tar-in", f"{image}:/old", archive)
    lines = told.err.splitlines()
    assert len(lines) == 2 and LOWER in lines[0], str(told)
    assert f"link to {LOWER}: that name means another file" in lines[1], str(told)
    assert sorted(good("ls", f"{image}:/old").out.split()) == [UPPER, "right"]
    assert contents(image, "/old", "right") == ["one"]


@pytest.mark.parametrize("kind, names", [
    ("udf", [b"a\xfe", b"a\xff"]), ("hfsplus", [b"a\xfe", b"a\xff", "\U0001f600".encode()])])
def test_names_that_the_driver_would_change(work, kind, names):
    """To names with question marks, which may be one name."""
    tree, archive, image = f"{work}/tree", f"{work}/tree.tar", f"{work}/disk.img"
    write(f"{tree}/good", "good")
    for name in names:
        with open(os.fsencode(tree) + b"/" + name, "wb") as stream:
            stream.write(name)
    host.run("tar", "-cf", archive, "-C", tree, ".")
    if kind == "hfsplus":
        hfsplus.make(image, 32)
    else:
        good("mkfs", kind, image, "--size", "32M")
    for words in (("cp", "-r", f"{tree}/.", f"{image}:/"), ("tar-in", f"{image}:/", archive)):
        told = bad(*words, mentions=["has only names in UTF-8"])
        assert told.err.count("has only names") == len(names), told
        found = good("ls", f"{image}:/").out
        assert "good" in found and "?" not in found, found
    name = os.fsdecode(names[0])
    for words in (("mkdir", f"{image}:/{name}"), ("touch", f"{image}:/{name}"),
                  ("ln", "-s", "x", f"{image}:/{name}"),
                  ("mv", f"{image}:/good", f"{image}:/{name}")):
        bad(*words, mentions=["has only names in UTF-8"])
    if kind == "udf":
        bad("ln", "-s", name, f"{image}:/link", mentions=["has only targets of links in UTF-8"])
        assert "link" not in good("ls", f"{image}:/").out
    assert "?" not in good("ls", f"{image}:/").out
