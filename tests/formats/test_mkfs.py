# SPDX-License-Identifier: GPL-2.0-only
"""outboard mkfs: every type that a tool of Debian makes, filled from a tree, sized to fit, the same
each time.

The type's own checker checks each new image. The test compares its files with the tree, through
the host's kernel where that knows the type, else through ours.
"""

import filecmp
import os
import re
import shutil
import stat
import time

import pytest

from matrix.recipes import RECIPES
from support import host, images, program, trees
from support.images import MEGABYTE
from support.json_output import document, end, items
from support.nobody import as_nobody
from support.program import LOSSES, bad, good, run

BY_NAME = {recipe.name: recipe for recipe in RECIPES}
# The types to make, each with the recipe that describes its contents and checker.
WRITTEN = {"ext2": "ext2", "ext3": "ext3", "ext4": "ext4", "xfs": "xfs",
           "btrfs": "btrfs", "f2fs": "f2fs", "fat16": "vfat16",
           "fat32": "vfat32", "exfat": "exfat", "ntfs": "ntfs", "udf": "udf",
           "nilfs2": "nilfs2", "jfs": "jfs", "minix": "minix3"}
PACKED = {"squashfs": "squashfs-gzip", "erofs": "erofs", "iso9660": "iso9660-rock-ridge",
          "cramfs": "cramfs"}
REPRODUCIBLE = ("ext2", "ext4", "vfat", "fat12", "fat32", "squashfs", "erofs", "iso9660")
NOT_REPRODUCIBLE = ("xfs", "btrfs", "f2fs", "exfat", "ntfs")
MAKERS = {"ext2": "mke2fs", "ext3": "mke2fs", "ext4": "mke2fs", "vfat": "mkfs.vfat",
          "fat12": "mkfs.vfat", "fat16": "mkfs.vfat",
          "fat32": "mkfs.vfat", "ntfs": "mkntfs", "udf": "mkudffs", "squashfs": "mksquashfs",
          "iso9660": "xorriso", "romfs": "genromfs"}


def need(kind):
    tool = MAKERS.get(kind, f"mkfs.{kind}")
    if not host.have(tool):
        pytest.skip(f"{tool} is not installed")


def build(work, abilities, size="full", name="tree"):
    tree = f"{work}/{name}"
    trees.build(tree, abilities.for_user(host.IS_ROOT), size)
    return tree


def same(work, image, recipe, tree, abilities):
    """The host's mount shows the tree; where the host knows no such type, our own kernel does, and
    the files' contents are compared with those that an independent reader finds.
    """
    with images.shown(work, image, recipe.kind) as directory:
        found = {path: entry for path, entry in trees.describe(directory).items()
                 if path != ".nilfs"}
    lines = trees.differences(trees.describe(tree), found, abilities.for_user(host.IS_ROOT))
    assert not lines, "\n".join(lines[:20])
    if recipe.read and not host.knows(recipe.kind):
        recipe.compare_contents(image, tree, f"{work}/theirs", inside="")


def small_tree(work, name="tree"):
    """For types that keep everything, and with what a reader of the host may change: times of
    access.
    """
    tree = f"{work}/{name}"
    os.makedirs(f"{tree}/etc/deep")
    os.makedirs(f"{tree}/many")
    for index in (3, 1, 2, 0):
        with open(f"{tree}/etc/file{index}", "wb") as stream:
            stream.write(bytes([index]) * (index * 5000))
    for index in range(150):
        with open(f"{tree}/many/a file with a long name {index}", "w", encoding="ascii") as stream:
            stream.write(str(index))
    with open(f"{tree}/etc/deep/passwd", "w", encoding="ascii") as stream:
        stream.write("root\n")
    for directory, folders, files in os.walk(tree, topdown=False):
        for file in files + folders:
            os.utime(f"{directory}/{file}", ns=(10**18, 10**18))
    os.utime(tree, ns=(10**18, 10**18))
    return tree


# ---- every type ----


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_tree_comes_into(work, kind):
    need(kind)
    recipe = BY_NAME[WRITTEN[kind]]
    abilities = recipe.written
    tree = build(work, abilities)
    image = f"{work}/disk.img"
    made = run("mkfs", kind, image, "--from", tree)
    assert made.code == 0, str(made)
    if recipe.check:
        recipe.check(image)
    same(work, image, recipe, tree, abilities)
    assert not [name for name in os.listdir(work)
                if name.startswith(".outboard")], "something was left behind"


@pytest.mark.parametrize("kind", PACKED)
def test_a_tree_is_packed_into(work, kind):
    need(kind)
    recipe = BY_NAME[PACKED[kind]]
    tree = build(work, recipe.filled)
    image = f"{work}/disk.img"
    good("mkfs", kind, image, "--from", tree, notes=LOSSES)
    same(work, image, recipe, tree, recipe.filled)


@pytest.mark.parametrize("kind",
                         ["ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat", "ntfs", "minix", "swap"])
def test_empty(work, kind):
    """Nothing is printed: not the chatter of any tool."""
    image = f"{work}/-odd ?name,.img"
    label = [] if kind == "minix" else ["--label", "LABELLED"]
    made = good("mkfs", kind, "./-odd ?name,.img", "--size", "400M", *label, cwd=work)
    assert made.err == "" and made.out == "", str(made)
    assert os.path.getsize(image) == 400 * MEGABYTE
    info = good("info", image).out
    assert kind in info and ("LABELLED" in info or not label), info


def test_labels_and_uuids(work):
    uuid = "11111111-2222-3333-4444-555555555555"
    for kind in ("ext4", "xfs", "btrfs", "f2fs"):
        good("mkfs", kind, f"{work}/{kind}", "--size", "400M", "--uuid", uuid, "--label", "L")
        assert host.run("blkid", "-p", "-o", "value", "-s", "UUID",
                        f"{work}/{kind}").stdout.strip() == uuid
    good("mkfs", "vfat", f"{work}/vfat", "--size", "64M", "--uuid", "1234-abcd")
    assert (host.run("blkid", "-p", "-o", "value", "-s", "UUID", f"{work}/vfat").stdout.strip()
            == "1234-ABCD")
    bad("mkfs", "ext4", f"{work}/x", "--size", "64M", "--label", "x" * 17,
        code=2, mentions=["too long"])
    bad("mkfs", "vfat", f"{work}/x", "--size", "64M", "--uuid", uuid, code=2,
        mentions=["not a UUID"])
    assert not os.path.exists(f"{work}/x")


def test_options_of_the_tool(work):
    good("mkfs", "ext4", f"{work}/x", "--size", "64M", "--", "-b", "1024", "-O", "^has_journal")
    shown_by = host.run("dumpe2fs", "-h", f"{work}/x").stdout
    assert "has_journal" not in shown_by and "Block size:               1024" in shown_by
    bad("mkfs", "ext4", f"{work}/y", "--size", "64M", "--", "--no-such",
        mentions=["mke2fs", "invalid option"])
    assert os.listdir(work) == ["x"]


# ---- what is refused, and what failure leaves ----


def test_nothing_is_overwritten(work):
    image = images.make(f"{work}/a", "ext4", 64)
    before = open(image, "rb").read()
    bad("mkfs", "ext4", image, "--size", "64M", mentions=["exists", "--force"])
    bad("mkfs", "xfs", image, "--size", "64M", "--force", mentions=["mkfs.xfs"])
    assert open(image, "rb").read() == before, "what failed has changed the image"
    bad("--ro", "mkfs", "ext4", image, "--size", "64M", "--force", mentions=["--ro"])
    good("mkfs", "vfat", image, "--force")
    assert os.path.getsize(image) == 64 * MEGABYTE and "vfat" in good("info", image).out


def test_too_small(work):
    tree = f"{work}/tree"
    os.mkdir(tree)
    images.write_noise(f"{tree}/big", 40)
    for kind in ("ext4", "vfat", "squashfs"):
        bad("mkfs", kind, f"{work}/{kind}", "--from", tree, "--size", "20M", mentions=["20.0 MiB"])
    assert os.listdir(work) == ["tree"]


def test_words_that_make_no_sense(work):
    os.mkdir(f"{work}/d")
    bad("mkfs", "ext4", f"{work}/x", code=2, mentions=["--size"])
    bad("mkfs", "nonsense", f"{work}/x", "--size", "1M", code=2, mentions=["ext4", "squashfs"])
    bad("mkfs", "squashfs", f"{work}/x", code=2, mentions=["--from"])
    bad("mkfs", "swap", f"{work}/x", "--from", f"{work}/d", code=2, mentions=["no files"])
    bad("mkfs", "ext4", f"{work}/x", "--from", f"{work}/none", mentions=["none", "No such file"])
    bad("mkfs", "ext4", f"{work}/none/x", "--size", "64M", mentions=["none"])
    for kind in NOT_REPRODUCIBLE:
        bad("mkfs", kind, f"{work}/x", "--size", "400M", "--reproducible",
            mentions=["reproducible", "ext4", "squashfs"])
    bad("mkfs", "ext4", f"{work}/x", "--size", "64M", "--reproducible",
        code=2, mentions=["SOURCE_DATE_EPOCH"], SOURCE_DATE_EPOCH="no")
    assert os.listdir(work) == ["d"]


@pytest.mark.needs_root
@pytest.mark.needs("unshare", "mkfs.jfs")
def test_a_missing_tool_names_its_package(work):
    """In a mount namespace where the tool is something that cannot be executed."""
    hidden = ("unshare", "--mount", "sh", "-ec", 'mount --bind /dev/null "$0"; exec "$@"',
              os.path.realpath("/usr/sbin/mkfs.jfs"))
    bad("mkfs", "jfs", f"{work}/x", "--size", "200M", prefix=hidden, mentions=["apt-get install"])


def test_what_a_type_cannot_hold_is_named_and_the_rest_is_there(work):
    tree = small_tree(work)
    os.symlink("etc", f"{tree}/link")
    done = bad("mkfs", "vfat", f"{work}/x.img", "--from", tree, mentions=["x.img/link"])
    assert ".outboard" not in done.err
    assert good("cat", f"{work}/x.img:/etc/deep/passwd").out == "root\n"


# ---- size ----


@pytest.mark.long
def test_fit_holds_many_small_files_and_holes(work):
    tree = f"{work}/tree"
    os.makedirs(f"{tree}/d")
    for index in range(3000):
        with open(f"{tree}/d/{index}", "wb") as stream:
            stream.write(b"x" * (index % 700))
    with open(f"{tree}/hole", "wb") as stream:
        stream.truncate(3 << 30)
    for kind in ("ext4", "xfs", "btrfs", "vfat"):
        if kind == "vfat":
            os.truncate(f"{tree}/hole", 5_000_000)
        image = f"{work}/{kind}"
        assert run("mkfs", kind, image, "--from", tree, "--fit").code == 0
        assert os.path.getsize(image) < 400 * MEGABYTE
        recipe = BY_NAME["vfat32" if kind == "vfat" else kind]
        same(work, image, recipe, tree, recipe.written)
    assert os.path.getsize(f"{work}/ext4") < 60 * MEGABYTE
    host.run("e2fsck", "-f", "-n", f"{work}/ext4")


# ---- owners and labels ----


@pytest.mark.parametrize("more", [(), ("--reproducible",)], ids=["by the kernel", "by mke2fs"])
@pytest.mark.needs_root
def test_owners(work, more):
    tree = small_tree(work)
    os.chown(f"{tree}/etc", 1000, 1001)
    os.chown(f"{tree}/etc/file1", 70_000, 5)
    image = f"{work}/x"
    good("mkfs", "ext4", image, "--from", tree, "--owner-map", "1000:0:2",
         "--owner-map", "5:80000", *more)
    host.run("e2fsck", "-f", "-n", image)
    with images.shown(work, image, "ext4") as directory:
        owner = {
            path: (os.lstat(f"{directory}/{path}").st_uid, os.lstat(f"{directory}/{path}").st_gid)
            for path in ("etc", "etc/file1", ".")}
    assert owner == {"etc": (0, 1), "etc/file1": (70_000, 80_000), ".": (0, 0)}
    good("mkfs", "ext4", image, "--force", "--from", tree, "--owner", "7:8", *more)
    with images.shown(work, image, "ext4") as directory:
        assert all((entry.uid, entry.gid) == (7, 8) for entry in trees.describe(directory).values())
        assert os.stat(directory).st_uid == 7
    with open(f"{tree}/etc/group", "w", encoding="ascii") as stream:
        stream.write("staff:x:50:\n")
    good("mkfs", "ext4", image, "--force", "--from", tree, "--owner", ":staff", *more)
    with images.shown(work, image, "ext4") as directory:
        found = os.lstat(f"{directory}/etc/file1")
        assert (found.st_uid, found.st_gid) == (70_000, 50)


@pytest.mark.parametrize("kind", ["squashfs", "erofs", "iso9660"])
def test_one_owner_of_a_packed_tree(work, kind):
    tree = small_tree(work)
    with open(f"{tree}/etc/passwd", "w", encoding="ascii") as stream:
        stream.write("ann:x:7:8::/:/bin/sh\n")
    for number, owner in enumerate(("7:8", "ann:")):
        good("mkfs", kind, f"{work}/x{number}", "--from", tree, "--owner", owner)
        assert " 7 8 " in " ".join(good("ls", "-ln", f"{work}/x{number}:/etc").out.split())
    bad("mkfs", kind, f"{work}/y", "--from", tree, "--owner", "bob",
        mentions=["bob: no such user", "etc/passwd"])
    bad("mkfs", kind, f"{work}/y", "--from", f"{work}/tree", "--owner-map",
        "0:1", code=2, mentions=["--owner USER:GROUP"])


TIMES = [("squashfs", ("mksquashfs",), -86_400, 5), ("squashfs", ("mksquashfs",), 1 << 33, 5),
         ("iso9660", ("xorriso",), 1 << 33, -86_400), ("romfs", ("genromfs",), 5, 0),
         ("cramfs", ("mkfs.cramfs",), 5, 0), ("erofs", ("mkfs.erofs",), None, -86_400)]


@pytest.mark.parametrize("kind, lost, kept", [
    pytest.param(kind, lost, kept, marks=pytest.mark.needs(*tools), id=f"{kind}:{lost}")
    for kind, tools, lost, kept in TIMES])
def test_times_that_a_packed_type_cannot_hold(work, kind, lost, kept):
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    for name, time in (("lost", lost), ("kept", kept)):
        if time is not None:
            with open(f"{tree}/{name}", "w", encoding="ascii") as stream:
                stream.write("x")
            os.utime(f"{tree}/{name}", (time, time))
    os.utime(tree, (kept, kept))
    said = good("mkfs", kind, f"{work}/image", "--from", tree, notes=LOSSES).err
    # cramfs has no groups above 255.
    said = "".join(line for line in said.splitlines(keepends=True) if "owner or group" not in line)
    expected = f"not kept: times of {tree}/lost\n" if lost is not None else ""
    assert said.removeprefix("outboard: ") == expected
    seconds = good("find", f"{work}/image:/kept", "-printf", "%T@").out
    assert float(seconds) == kept


@pytest.mark.needs_root
@pytest.mark.needs("mkfs.cramfs")
def test_owners_that_cramfs_cannot_hold(work):
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    for name, user, group in (("kept", 65535, 255), ("user", 65536, 255), ("group", 0, 256)):
        with open(f"{tree}/{name}", "w", encoding="ascii") as stream:
            stream.write("x")
        os.chown(f"{tree}/{name}", user, group)
    said = good("mkfs", "cramfs", f"{work}/x", "--from", tree, notes=LOSSES).err
    assert "truncated" not in said, said
    said, = (line for line in said.splitlines() if "owner or group" in line)
    assert f"{tree}/user" in said and f"{tree}/group" in said and f"{tree}/kept" not in said, said
    for name, runs_as_the_kept, runs_as_the_lost in (("user", 0o2755, 0o4755),
                                                     ("group", 0o4755, 0o2755)):
        os.chmod(f"{tree}/{name}", runs_as_the_kept)
        good("mkfs", "cramfs", f"{work}/x", "--force", "--from", tree, notes=LOSSES)
        # Its user or group would be root.
        os.chmod(f"{tree}/{name}", runs_as_the_lost)
        bad("mkfs", "cramfs", f"{work}/x", "--force", "--from", tree,
            mentions=[f"{tree}/{name}", "65535"])
        os.chmod(f"{tree}/{name}", 0o755)


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["squashfs", "erofs", "iso9660", "romfs", "cramfs"])
def test_files_that_a_packer_cannot_read_are_named(work, kind):
    """Whatever the tool makes of them: some leave them out, and end with success."""
    need(kind)
    with as_nobody() as user:
        tree = f"{user.directory}/tree"
        os.makedirs(f"{tree}/deep")
        for name in ("deep/secret", "other"):
            with open(f"{tree}/{name}", "w", encoding="ascii") as stream:
                stream.write(name)
        os.chmod(f"{tree}/deep/secret", 0)
        made = user.run("mkfs", kind, "x", "--from", "tree")
        assert made.code == 1 and "tree/deep/secret" in made.err, str(made)
        errors = end(user.run("mkfs", "--json", kind, "y", "--from", "tree"))["errors"]
        assert any("tree/deep/secret" in error["message"] for error in errors), errors
        assert not any("other" in error["message"] for error in errors), errors


@pytest.mark.needs_root
@pytest.mark.needs("mkfs.cramfs")
def test_a_file_that_cramfs_cuts_is_a_failure(work):
    host.sparse_file(f"{small_tree(work)}/large", 20 * MEGABYTE)
    bad("mkfs", "cramfs", f"{work}/x", "--from", f"{work}/tree", mentions=["truncated"])


LONG = 200 * "n" + 55 * "m"


@pytest.mark.parametrize("kind, names", [("iso9660", [LONG]), ("romfs", [LONG, "large"]),
                                         ("cramfs", [LONG, "large"])])
def test_what_a_packer_cannot_store_is_named(work, kind, names):
    """Names that Linux cuts, and sizes that the tool cuts, though it ends with success."""
    need(kind)
    tree = small_tree(work)
    for name in names:
        host.sparse_file(f"{tree}/{name}", (4 << 30) + 1 if name == "large" else 1)
    told = bad("mkfs", kind, f"{work}/x", "--from", tree)
    for name in names:
        assert f"cannot pack {tree}/{name}: " in told.err, str(told)
    os.remove(f"{tree}/{names[-1]}")
    if len(names) == 1:
        good("mkfs", kind, f"{work}/y", "--from", tree)


@pytest.mark.needs("mksquashfs")
def test_an_image_in_the_tree_that_is_packed(work):
    tree = small_tree(work)
    assert not good("mkfs", "squashfs", f"{tree}/x", "--from", tree).err
    assert not good("mkfs", "squashfs", "x", "--force", "--from", ".", cwd=tree).err


@pytest.mark.needs("mkfs.cramfs")
def test_cramfs_packs_more_than_it_guesses(work):
    """The tool doubts that trees above 272 MB fit, however well they compress."""
    small_tree(work)
    os.mkdir(f"{work}/programs")
    with open(f"{work}/programs/mkfs.cramfs", "w", encoding="ascii") as stream:
        stream.write(f"""#!/bin/sh
echo 'mkfs.cramfs: warning: guestimate of required size (upper bound) is 290MB, but maximum' \\
     'image size is 272MB.  We might die prematurely.' >&2
exec {shutil.which('mkfs.cramfs', path=host.PATH)} "$@"
""")
    os.chmod(f"{work}/programs/mkfs.cramfs", 0o755)
    good("mkfs", "cramfs", f"{work}/x", "--from", f"{work}/tree", notes=LOSSES,
         PATH=f"{work}/programs:{host.PATH}")


@pytest.mark.needs_root
@pytest.mark.parametrize("words", [("squashfs",), ("erofs",), ("ext4", "--reproducible")],
                         ids=" ".join)
def test_root_keeps_attributes_that_only_root_sees(work, words):
    """The layer of an overlay, whose lower files would come back."""
    need(words[0])
    os.makedirs(f"{work}/tree/d")
    os.setxattr(f"{work}/tree/d", "trusted.overlay.opaque", b"y")
    assert good("mkfs", words[0], f"{work}/x", *words[1:], "--from", f"{work}/tree").err == ""
    assert 'trusted.overlay.opaque="y"' in good("getfattr", "-d", "-m", "-", f"{work}/x:/d").out


@pytest.mark.needs("xorriso")
@pytest.mark.parametrize("name", ["user.overlay.opaque", "user.overlay.redirect"])
def test_a_layer_that_would_change_is_a_failure(work, name):
    os.makedirs(f"{work}/tree/d")
    os.setxattr(f"{work}/tree/d", name, b"y")
    bad("mkfs", "iso9660", f"{work}/x", "--from", f"{work}/tree", mentions=[name, "tree/d"])
    os.removexattr(f"{work}/tree/d", name)
    os.setxattr(f"{work}/tree/d", "user.overlay.origin", b"y")
    good("mkfs", "iso9660", f"{work}/y", "--from", f"{work}/tree",
         notes=["not kept: extended attributes of"])


@pytest.mark.needs("mkfs.vfat")
def test_what_a_tool_says_beside_its_success_is_shown(work):
    """Fewer clusters than FAT32 must have: firmware takes it for FAT16."""
    made = good("mkfs", "--json", "fat32", f"{work}/x", "--size", "32M", notes=["clusters"])
    (warning,) = document(made)["warnings"]
    assert "clusters" in warning and warning in made.err, str(made)


@pytest.mark.needs("mkfs.ext4")
@pytest.mark.parametrize("words", [(), ("--size", "64M")], ids=["to fit", "of a size"])
def test_an_archive_in_a_pipe(work, words):
    """Without a size it is read twice."""
    small_tree(work)
    script = f'tar -C {work} -cf - tree | {program.PROGRAM} mkfs ext4 {work}/x --from /dev/stdin'
    assert host.run("sh", "-c", " ".join([script, *words])).stderr == ""
    assert good("cat", f"{work}/x:/tree/etc/deep/passwd").out == "root\n"
    full = host.run("sh", "-c", f"{script} --size 1M --force", ok=None)
    assert full.returncode == 1 and "too small" in full.stderr, full.stderr


@pytest.mark.long
@pytest.mark.needs("xorriso")
def test_a_large_file_on_a_cd(work):
    host.sparse_file(f"{small_tree(work)}/large", 4 << 30)
    good("mkfs", "iso9660", f"{work}/x", "--from", f"{work}/tree", timeout=600)
    assert re.search(rf" {4 << 30} .* large$", good("ls", "-l", f"{work}/x:/").out, re.M)


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", ["squashfs", "iso9660"])
def test_what_a_packed_tree_lacks_is_named(work, kind):
    tree = small_tree(work)
    host.run("setfacl", "-m", "u:7:r", f"{tree}/etc/file1")
    os.setxattr(f"{tree}/etc/deep", "user.colour", b"red")
    said = good("mkfs", kind, f"{work}/x", "--from", tree, notes=LOSSES).err
    assert re.search("not kept: access control list of .*/etc/file1$", said, re.M), said
    assert ("not kept: extended attributes of" in said) == (kind == "iso9660"), said


@pytest.mark.parametrize("more", [(), ("--reproducible",)], ids=["by the kernel", "by mke2fs"])
def test_selinux_labels(work, more):
    tree = small_tree(work)
    contexts = f"{work}/file_contexts"
    with open(contexts, "w", encoding="ascii") as stream:
        stream.write("# labels\n/.*\tsystem_u:object_r:default_t:s0\n"
                     "/etc(/.*)?\tsystem_u:object_r:etc_t:s0\n"
                     "/etc/.*/passwd\t--\tsystem_u:object_r:passwd_t:s0\n/many/.*\t<<none>>\n")
    image = f"{work}/x"
    good("mkfs", "ext4", image, "--from", tree, "--file-contexts", contexts, *more)
    host.run("e2fsck", "-f", "-n", image)
    for path, label in (("/", "default_t"), ("/etc", "etc_t"), ("/etc/file1", "etc_t"),
                        ("/etc/deep/passwd", "passwd_t")):
        assert (f"object_r:{label}:s0"
                in host.run("debugfs", "-R", f"ea_get {path} security.selinux", image).stdout), path
    assert "object_r" not in host.run("debugfs", "-R", 'ea_list "/many/a file with a long name 3"',
                                      image).stdout
    with open(contexts, "a", encoding="ascii") as stream:
        stream.write("/( x:y\n")
    bad("mkfs", "ext4", f"{work}/y", "--from", tree, "--file-contexts",
        contexts, mentions=["line 6"])


# ---- the same each time ----


@pytest.mark.parametrize("kind", REPRODUCIBLE)
def test_the_same_image_each_time(work, kind):
    need(kind)
    made = []
    for index in (0, 1):
        os.mkdir(f"{work}/{index}")
        tree = small_tree(f"{work}/{index}")
        if index:
            # Another order of names on the host, other times of access and change, another time of
            # day.
            time.sleep(2.1)
            for name in sorted(os.listdir(f"{tree}/many"))[::3]:
                os.rename(f"{tree}/many/{name}", f"{tree}/moved")
                os.rename(f"{tree}/moved", f"{tree}/many/{name}")
            os.utime(f"{tree}/many", ns=(10**18, 10**18))
            os.utime(tree, ns=(10**18, 10**18))
            open(f"{tree}/etc/file3", "rb").read()
        image = f"{work}/{index}/image"
        label = () if kind in ("squashfs", "erofs") else ("--label", "SAME")
        # FAT does not keep owners and modes, and says so.
        done = run("mkfs", kind, image, "--from", tree, "--reproducible",
                   *label, SOURCE_DATE_EPOCH="1700000000", vcpus=index * 3 + 1)
        assert done.code == 0, str(done)
        made.append(image)
    assert filecmp.cmp(*made, shallow=False), f"{kind} differs"
    again = run("mkfs", kind, f"{work}/other", "--from", f"{work}/0/tree",
                "--reproducible", SOURCE_DATE_EPOCH="1600000000")
    assert again.code == 0 and not filecmp.cmp(made[0], f"{work}/other",
                                               shallow=False), "the time makes no difference"
    recipe = BY_NAME["vfat32" if "fat" in kind else WRITTEN.get(kind) or PACKED[kind]]
    same(work, made[0], recipe, f"{work}/0/tree",
         recipe.filled.limited_to(time_step=2 * trees.SECOND))
    if kind.startswith("ext"):
        host.run("e2fsck", "-f", "-n", made[0])
    if "fat" in kind:
        host.run("fsck.fat", "-n", made[0])


def test_times_are_no_later_than_the_source_date(work):
    tree = small_tree(work)
    os.utime(f"{tree}/etc/file1")
    for kind in ("ext4", "vfat"):
        run("mkfs", kind, f"{work}/{kind}", "--from", tree, "--reproducible",
            SOURCE_DATE_EPOCH="1700000000")
        with images.shown(work, f"{work}/{kind}", kind) as directory:
            assert os.stat(f"{directory}/etc/file1").st_mtime == 1_700_000_000
            assert os.stat(f"{directory}/etc/file2").st_mtime == 1_000_000_000


def test_an_empty_image_the_same_each_time(work):
    for name in "ab":
        for kind in ("ext4", "vfat"):
            good("mkfs", kind, f"{work}/{kind}.{name}", "--size", "64M", "--reproducible")
        time.sleep(1.1)
    assert all(filecmp.cmp(f"{work}/{kind}.a", f"{work}/{kind}.b", shallow=False)
               for kind in ("ext4", "vfat"))


# ---- without root ----


@pytest.mark.needs_root
def test_without_root_on_the_host(work):
    """An ordinary user makes a root file system whose files belong to root."""
    tree = small_tree(work)
    os.symlink("etc", f"{tree}/link")
    trees.make_socket(f"{tree}/socket")
    host.run("chown", "-hR", "4242:4242", tree)
    os.chmod(f"{tree}/etc/file1", 0o4755)
    os.mkdir(f"{work}/theirs")
    os.chown(f"{work}/theirs", 4242, 4242)
    image = f"{work}/theirs/x"
    good("mkfs", "ext4", image, "--from", tree, "--owner-map", "4242:0",
         prefix=("setpriv", "--reuid=4242", "--regid=4242", "--clear-groups"),
         XDG_CACHE_HOME=f"{work}/theirs")
    with images.shown(work, image, "ext4") as directory:
        info = os.stat(f"{directory}/etc/file1")
        assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (0, 0, 0o4755)
        assert os.readlink(f"{directory}/link") == "etc"
        assert stat.S_ISSOCK(os.stat(f"{directory}/socket").st_mode)


@pytest.mark.needs("tar", "zstd")
@pytest.mark.parametrize("kind", ("ext4", "xfs"))
def test_from_a_tar(work, kind):
    """Owners are those of the archive; the image is as large as it needs."""
    tree = make_plain_tree(work)
    archive, image = os.path.join(work, "tree.tar.zst"), os.path.join(work, "image")
    host.run("tar", "-C", tree, "--zstd", "--owner=123", "--group=456",
             "--numeric-owner", "-cf", archive, ".")
    good("mkfs", kind, image, "--from", archive)
    back = os.path.join(work, "back")
    os.mkdir(back)
    good("cp", "-r", f"{image}:/.", back)
    host.run("diff", "-r", "--exclude=lost+found", tree, back)
    (found,) = items(good("stat", "--json", f"{image}:/file0"))
    assert (found["uid"], found["gid"]) == (123, 456)
    assert os.stat(image).st_blocks * 512 < 200 * MEGABYTE


def make_plain_tree(work: str) -> str:
    tree = os.path.join(work, "tree")
    os.makedirs(os.path.join(tree, "directory"))
    for number in range(200):
        with open(os.path.join(tree, f"file{number}"), "wb") as file:
            file.write(os.urandom(number * 500))
        shutil.copy(os.path.join(tree, f"file{number}"), os.path.join(tree, "directory"))
    return tree


def test_a_tar_has_its_owners(work):
    archive = os.path.join(work, "a.tar")
    host.run("tar", "-C", os.path.dirname(__file__), "-cf", archive, os.path.basename(__file__))
    bad("mkfs", "ext4", os.path.join(work, "image"), "--from", archive,
        "--owner", "0:0", code=2, mentions=("tar",))
    bad("mkfs", "squashfs", os.path.join(work, "image"), "--from", archive,
        code=2, mentions=("directory",))
    assert not os.path.exists(os.path.join(work, "image"))
