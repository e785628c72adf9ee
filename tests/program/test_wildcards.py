# SPDX-License-Identifier: GPL-2.0-only
"""Wildcards in places, and images that stand for their root."""

import os

import pytest

from support import host, images
from support.program import bad, good, run


@pytest.fixture
def image(work):
    for name in ("etc/ssh", "etc/apt", "srv"):
        os.makedirs(f"{work}/tree/{name}")
    for name in ("a.conf", "b.conf", ".c.conf", "notes", "ssh/x.conf", "apt/x.conf", "apt/y.conf"):
        with open(f"{work}/tree/etc/{name}", "w", encoding="ascii") as stream:
            stream.write(f"<{name}>")
    for name in ("a*b", "axb", "[x]", "back\\slash"):
        with open(f"{work}/tree/srv/{name}", "w", encoding="ascii") as stream:
            stream.write(f"<{name}>")
    return images.make_ext4_of(f"{work}/disk.img", f"{work}/tree", 32)


def names(image, directory):
    return good("ls", "-a", f"{image}:{directory}").out.split("\n")[:-1]


def test_patterns_are_expanded(image):
    for pattern, expected in [
        ("/etc/*.conf", "<a.conf><b.conf>"),
        ("/etc/[!a].conf", "<b.conf>"),
        ("/etc/.*.conf", "<.c.conf>"),
        ("/etc/*/x.conf", "<apt/x.conf><ssh/x.conf>"),
        ("/*/a??/?.conf", "<apt/x.conf><apt/y.conf>"),
        ("/etc/*e*", "<notes>"),
    ]:
        assert good("cat", f"{image}:{pattern}").out == expected, pattern
    listed = good("ls", f"{image}:/etc/*.conf").out
    assert [line.rsplit("/", 1)[-1] for line in listed.split()] == ["a.conf", "b.conf"]
    assert good("du", "-s", f"{image}:/etc/*").out.count("\n") == 5
    assert good("stat", f"{image}:/etc/*.conf").out.count("a.conf") == 1
    assert good("find", f"{image}:/etc/*/", "-name", "y*").out.strip().endswith("/etc/apt/y.conf")


def test_names_with_such_characters(image):
    assert good("cat", f"{image}:/srv/a*b").out == "<a*b>", "a name as it is comes first"
    assert good("cat", f"{image}:/srv/[x]").out == "<[x]>"
    assert good("cat", f"{image}:/srv/a\\*b").out == "<a*b>"
    assert good("cat", f"{image}:/srv/a?b").out == "<a*b><axb>"
    assert good("cat", f"{image}:/srv/back\\slash").out == "<back\\slash>"
    bad("cat", "--no-glob", f"{image}:/srv/a?b", mentions=("a?b", "No such file"))
    good("mkdir", f"{image}:/srv/new*")
    assert "new*" in names(image, "/srv")
    good("touch", "--no-glob", f"{image}:/srv/q?")
    assert "q?" in names(image, "/srv")


def test_nothing_is_done_if_a_pattern_matches_nothing(work, image):
    before = good("find", f"{image}:/", "-ls").out
    for words in [
        ("rm", f"{image}:/etc/a.conf", f"{image}:/etc/*.none"),
        ("chmod", "600", f"{image}:/etc/a.conf", f"{image}:/none/*"),
        ("cp", f"{image}:/etc/a.conf", f"{image}:/etc/*.none", f"{image}:/srv"),
        ("mv", f"{image}:/etc/a.conf", f"{image}:/etc/*.none", f"{image}:/srv"),
        ("cat", f"{image}:/etc/a.conf", f"{image}:/etc/*.none"),
        ("tar-out", f"{image}:/", "etc/*.none", "-f", f"{work}/new.tar"),
    ]:
        done = bad(*words, mentions=("no file matches", "--no-glob", "*"))
        assert not done.out, words
    assert good("find", f"{image}:/", "-ls").out == before
    assert not os.path.exists(f"{work}/new.tar")


def test_commands_that_change_files(work, image):
    good("chmod", "600", f"{image}:/etc/*.conf")
    assert good("find", f"{image}:/etc", "-perm", "600").out.count(".conf") == 2
    # Two directories have an x.conf.
    bad("cp", f"{image}:/etc/*/x.conf", f"{image}:/etc/[ab].conf", f"{image}:/srv",
        mentions=("/etc/ssh/x.conf would overwrite", "/etc/apt/x.conf"))
    assert {"x.conf", "a.conf", "b.conf"} <= set(names(image, "/srv"))
    os.mkdir(f"{work}/out")
    good("cp", f"{image}:/etc/*.conf", f"{work}/out")
    assert sorted(os.listdir(f"{work}/out")) == ["a.conf", "b.conf"]
    good("mv", f"{image}:/etc/*.conf", f"{image}:/etc/ssh")
    assert {"a.conf", "b.conf"} <= set(names(image, "/etc/ssh"))
    good("rm", "-r", f"{image}:/etc/*")
    assert names(image, "/etc") == [".", "..", ".c.conf"]
    host.run("e2fsck", "-f", "-n", image)


def test_archives_of_what_matches(work, image):
    good("tar-out", f"{image}:/", "etc/*.conf", "srv/a?b", "-f", f"{work}/some.tar")
    packed = host.run("tar", "-tf", f"{work}/some.tar").stdout.split()
    assert packed == ["etc/a.conf", "etc/b.conf", "srv/a*b", "srv/axb"]
    good("tar-out", f"{image}:/etc", "*pt", "-f", f"{work}/other.tar")
    assert host.run("tar", "-tf", f"{work}/other.tar").stdout.split() == [
        "apt/", "apt/x.conf", "apt/y.conf"]


def test_links_that_lead_round_do_not_hang(work):
    os.makedirs(f"{work}/loops")
    for number in range(60):
        os.symlink(".", f"{work}/loops/{number}")
    image = images.make_ext4_of(f"{work}/loops.img", f"{work}/loops", 8)
    bad("ls", f"{image}:/" + "*/" * 12, mentions=("too many",), timeout=110)


def test_an_image_means_its_root(work, image):
    for words in (("ls", "-l"), ("tree",), ("du",)):
        assert good(*words, image).out == good(*words, f"{image}:/").out, words
    expected = good("find", f"{image}:/", "-name", "*.conf").out
    assert good("find", image, "-name", "*.conf").out == expected and expected.count("\n") == 6
    assert good("tar-out", image).raw == good("tar-out", f"{image}:/").raw
    good("find", image, "-name", "axb", "-delete")
    assert "axb" not in names(image, "/srv")
    bad("cat", image, code=2, mentions=("not a place in an image",))
    bad("ls", f"{work}/tree", code=2, mentions=("not a place in an image",))
    with open(f"{work}/notes", "w", encoding="ascii") as stream:
        stream.write("notes")
    bad("ls", f"{work}/notes", mentions=("no file system",))
    bad("ls", f"{work}/missing.img", mentions=("cannot open image", "No such file"))


def test_an_image_with_several_roots(work, image):
    script = "label: gpt\nstart=1MiB, size=32MiB\nstart=33MiB, size=32MiB\nstart=65MiB, size=8MiB\n"
    parts = {2048: image, 33 * 2048: image}
    disk = images.partitioned(f"{work}/parts.img", script, parts, 80)
    for command in ("ls", "find", "tree", "du", "tar-out"):
        done = bad(command, disk, mentions=("several file systems",))
        lines = [line.split("(")[0].strip() for line in done.err.splitlines()[1:]]
        assert lines == [f"outboard {command} {disk}@{number}:/" for number in (1, 2)]
        assert done.err.count("(ext4)") == 2
    assert good("ls", f"{disk}@2").out == good("ls", f"{disk}@2:/").out
    one = images.partitioned(f"{work}/one.img", script, {33 * 2048: image}, 80)
    assert run("ls", one).out == good("ls", f"{one}@2:/").out


def test_lines_of_scripts(work, image):
    """Places have wildcards; no shell expands the names of host files."""
    for name in ("one.host", "two.host"):
        with open(f"{work}/{name}", "wb"):
            pass
    script = f"{work}/script"
    for line, check in [
        (f"cat {image}:/etc/[ab].conf", lambda: good("run-script", script).out),
        (f"cp {work}/*.host {image}:/", lambda: bad("run-script", script, mentions=["*.host"]).out),
    ]:
        with open(script, "w", encoding="ascii") as stream:
            stream.write(f"{line}\n")
        assert check() == ("<a.conf><b.conf>" if line.startswith("cat") else "")
