# SPDX-License-Identifier: GPL-2.0-only
"""`mkfs --reproducible`: copies of a tree that differ in what depends on their host make the same
image.

The copies have other times (all later than the source date, which replaces them), other owners (one
is given for all), another order of names in their directories, holes in other places and another
file system beneath.
"""

import filecmp
import os
import re
import shutil
import time

import pytest

from support import host
from support.program import bad, run

DATE = 1_700_000_000
# Longer than the steps in which any type counts time.
STEP = 2.1


def claimed():
    """The types that the program itself says it can make so."""
    said = bad("mkfs", "xfs", "/nonexistent/x", "--size", "400M", "--reproducible").err
    found = re.search(r"of the types there are, (.*) can$", said, re.M)
    assert found, said
    return found.group(1).split(", ")


def fill(tree, links, first):
    """`first`: whether it is the first copy. The other one differs where hosts differ."""
    os.makedirs(f"{tree}/many")
    os.makedirs(f"{tree}/etc/deep")
    names = [f"{tree}/many/a file with a long name {index}" for index in range(60)]
    names += [f"{tree}/{path}" for path in ("README", "etc/readme.txt", "etc/deep/x", "b", "a")]
    for name in names if first else reversed(names):
        with open(name, "w", encoding="ascii") as stream:
            stream.write(os.path.basename(name) * 300)
    # Holes are no part of a tree: here one has them, and the other has zeroes.
    with open(f"{tree}/zeroes", "wb") as stream:
        stream.truncate(3 << 20) if first else stream.write(bytes(3 << 20))
    os.chmod(f"{tree}/a", 0o755)
    if links:
        os.symlink("etc/deep/x", f"{tree}/link")
        os.link(f"{tree}/a", f"{tree}/etc/hard")
    moment = (DATE + (1000 if first else 2_000_000)) * 10**9
    for directory, folders, files in os.walk(tree, topdown=False):
        for name in files + folders + ["."]:
            path = f"{directory}/{name}"
            if host.IS_ROOT:
                os.lchown(path, *((1000, 1001) if first else (70_000, 7)))
            os.utime(path, ns=(moment, moment), follow_symlinks=False)


@pytest.fixture
def other_place():
    """A directory on another file system than the scratch space, where there is one."""
    directory = host.temporary_directory("/dev/shm" if os.path.isdir("/dev/shm") else None)
    yield directory
    shutil.rmtree(directory)


def make(image, kind, tree, vcpus):
    done = run("mkfs", kind, image, "--from", tree, "--reproducible", "--owner", "0:0", vcpus=vcpus,
               SOURCE_DATE_EPOCH=str(DATE))
    # FAT reports that it keeps no owners.
    assert done.code == 0, str(done)
    return time.monotonic()


def test_copies_make_the_same_image(work, other_place):
    kinds = claimed()
    assert {"ext4", "vfat", "squashfs", "erofs", "iso9660"} <= set(kinds)
    trees = {}
    for links in (False, True):
        for first, place in ((True, work), (False, other_place)):
            trees[links, first] = f"{place}/tree-{links}"
            fill(trees[links, first], links, first)
    links = {kind: "fat" not in kind for kind in kinds}
    made = {kind: make(f"{work}/{kind}.1", kind, trees[links[kind], True], 1) for kind in kinds}
    differing = []
    for kind in kinds:
        time.sleep(max(0, made[kind] + STEP - time.monotonic()))
        make(f"{work}/{kind}.2", kind, trees[links[kind], False], 4)
        if not filecmp.cmp(f"{work}/{kind}.1", f"{work}/{kind}.2", shallow=False):
            differing.append(kind)
    assert not differing


@pytest.mark.needs("xorriso")
@pytest.mark.parametrize("words", [(), ("-J",), ("-J", "-joliet-long", "--norock")],
                         ids=["Rock Ridge", "both", "Joliet"])
def test_no_record_of_a_disc_is_later_than_the_source_date(work, words):
    """Rock Ridge and Joliet have directories of their own, and times of both kinds."""
    tree = f"{work}/tree"
    # So much that fields of Rock Ridge go on in another place.
    os.makedirs(f"{tree}/directory")
    for index in range(5):
        with open(f"{tree}/directory/{index}{'n' * 200}", "w", encoding="ascii") as stream:
            stream.write("text")
    os.symlink("x" * 240, f"{tree}/link")
    os.utime(f"{tree}/directory/0{'n' * 200}", (10**9, 10**9))
    image = f"{work}/image"
    done = run("mkfs", "iso9660", image, "--from", tree, "--reproducible",
               *(("--", *words) if words else ()),
               SOURCE_DATE_EPOCH=str(DATE))
    assert done.code == 0, str(done)
    with open(image, "rb") as stream:
        content = stream.read()
    assert not records_of(content, time.gmtime()), "a time of today is left"
    assert records_of(content, time.gmtime(DATE))
    assert records_of(content, time.gmtime(10**9)), "an early time is gone"


def records_of(content, day):
    """Where times of a day stand, as records of ISO 9660 have them: year, month, day, hour, minute,
    second, zone UTC.
    """
    start = re.escape(bytes((day.tm_year - 1900, day.tm_mon, day.tm_mday)))
    return re.findall(start + rb"[\x00-\x17][\x00-\x3b][\x00-\x3b]\x00", content)
