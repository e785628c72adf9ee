# SPDX-License-Identifier: GPL-2.0-only
"""Messages that help: each names the thing, the reason and the next step."""

import contextlib
import glob
import io
import os
import re
import signal
import subprocess
import tarfile

import pytest

from support import host, images, mounts, patience
from support.images import MEGABYTE
from support.json_output import document
from support.program import bad, command, good, run

needs_mounts = pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
UNSHARE = ("unshare", "--mount", "--fork")


def write(path, content):
    with open(path, "wb") as stream:
        stream.write(content)
    return path


def placed(size, *pieces):
    content = bytearray(size)
    for offset, piece in pieces:
        content[offset:offset + len(piece)] = piece
    return bytes(content)


def tar():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("file"))
    return stream.getvalue()


# Contents of a file, its type, and what there is to do.
FOREIGN = {
    "E01": (placed(8192, (0, b"EVF\x09\x0d\x0a\xff\x00")), "ewfexport"),
    "apfs": (placed(8192, (32, b"NXSB\x00\x10\x00\x00"), (40, b"\x02")), "apfs-fuse"),
    "dmg": (placed(8192, (8192 - 512, b"koly\x00\x00\x00\x04\x00\x00\x02\x00")), "dmg2img"),
    "tar": (tar(), "mkfs TYPE NEW --from"),
    "cpio": (placed(512, (0, b"070701")), "cpio -idm"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_formats_are_named(work, kind):
    content, step = FOREIGN[kind]
    image = write(f"{work}/image", content)
    bad("ls", f"{image}:/", mentions=[image, kind, step])
    found = document(good("info", "--json", image))["disk"]["filesystem"]
    assert found["type"] == kind and step in found["problem"]
    assert step in good("info", image).out


def test_nothing_that_is_known_is_exit_code_1(work):
    image = write(f"{work}/image", b"\x5a" * 100_000)
    done = bad("info", image, mentions=[image, "no file system or partition table", "--type"])
    assert "100000 bytes" in done.out
    done = bad("info", "--json", image, mentions=["--type"])
    assert document(done)["disk"]["filesystem"] is None
    # An empty table is something.
    good("part", f"{work}/disk", "create", "--size", "8M")
    good("info", f"{work}/disk")


def test_pieces_of_a_split_image(work):
    whole = images.make(f"{work}/whole.img", "ext4", 64)
    for index in (1, 2):
        with open(whole, "rb") as stream:
            stream.seek((index - 1) * 32 * MEGABYTE)
            write(f"{work}/disk.img.00{index}", stream.read(32 * MEGABYTE))
    for piece, other in (("001", "002"), ("002", "001")):
        bad("ls", f"{work}/disk.img.{piece}:/",
            mentions=["split image", f"disk.img.{other}", f"cat {work}/disk.img.???"])
    assert "split image" in good("info", f"{work}/disk.img.001").out
    bad("info", f"{work}/disk.img.002", mentions=["split image"])
    os.remove(f"{work}/disk.img.001")
    assert "split image" not in bad("ls", f"{work}/disk.img.002:/").err


@pytest.mark.parametrize("size, instead", [("1.5G", "write 1536M"), ("0x100", "write 256"),
                                           ("2P", "units: K, M, G, T")])
def test_sizes_say_what_to_write(work, size, instead):
    bad("mkfs", "ext4", f"{work}/image", "--size", size, code=2, mentions=["--size", instead])
    bad("truncate", "-s", f"+{size}", f"{work}/image:/x", code=2, mentions=[instead])


# ---- tools and the host ----


def test_the_last_line_of_a_tool_is_shown(work):
    os.mkdir(f"{work}/bin")
    tool = write(f"{work}/bin/mke2fs", b"#!/bin/sh\ni=0\nwhile [ $i -lt 50 ]; do\n"
                 b"i=$((i+1)); echo step $i; done\necho last words >&2\nexit 3\n")
    os.chmod(tool, 0o755)
    done = bad("mkfs", "ext4", f"{work}/image", "--size", "8M",
               mentions=["mke2fs ended with 3", "mke2fs: last words"],
               PATH=f"{work}/bin:{os.environ['PATH']}")
    assert len(done.err.splitlines()) < 12, done.err


def test_a_missing_directory_for_temporary_files_is_named(work):
    image = images.make(f"{work}/image", "ext4")
    os.mkdir(f"{work}/tree")
    nowhere = f"{work}/nowhere"
    for words, variables in ((("edit", f"{image}:/x"), {"EDITOR": "true"}),
                             (("mkfs", "ext4", f"{work}/new", "--size",
                               "8M", "--from", f"{work}/tree", "--reproducible"), {})):
        done = bad(*words, mentions=[nowhere, "No such file or directory", "TMPDIR"],
                   TMPDIR=nowhere, **variables)
        assert "os error" not in done.err and "outboard-" not in done.err, done.err


@pytest.mark.needs_root
@pytest.mark.needs("unshare")
@pytest.mark.parametrize("lacking, prepare", [
    ("/proc", "umount -l /proc"),
    ("/dev/null", "mount -t tmpfs none /dev && mknod /dev/urandom c 1 9"),
], ids=["proc", "null"])
def test_a_host_that_lacks_a_part(work, lacking, prepare):
    if not host.may_mount():
        pytest.skip("nothing can be mounted here")
    image = images.make(f"{work}/image", "ext4")
    os.mkdir(f"{work}/d")
    script = f'{prepare} || exit 99; "$@"'
    lacks = (*UNSHARE, "sh", "-c", script, "sh")
    assert "lost+found" in run("ls", f"{image}:/", prefix=lacks).out
    done = bad("mount", image, f"{work}/d", prefix=lacks, mentions=[f"{lacking} ", " here: "])
    assert len(re.findall("^outboard: note: ", done.err, re.M)) == 1, done.err
    # A mistake on the command line gets no such note.
    assert "note" not in bad("ls", code=2, prefix=lacks).err


# ---- mounts ----


@pytest.mark.needs("mkfs.xfs")
def test_a_further_device_that_is_missing(work):
    """The kernel says which one: that is no missing driver."""
    host.sparse_file(f"{work}/realtime", 100 * MEGABYTE)
    image = images.make(f"{work}/image", "xfs", 0, "-r", f"rtdev={work}/realtime")
    done = bad("ls", f"{image}:/", mentions=("a further device", "kernel: ", "rtdev"))
    assert "no driver" not in done.err


def test_a_clean_file_system_with_its_journal_elsewhere(work):
    """Nothing has to be replayed, so that nothing is missing when it is read."""
    image = images.make(f"{work}/image", "ext4", 0, "-O", "^has_journal")
    host.run("debugfs", "-w", "-f", "-", image,
             input="feature has_journal\nset_super_value journal_dev 1792\n")
    read = good("ls", f"{image}:/")
    assert read.out == "lost+found\n" and not read.err, read
    assert "clean" in good("info", image).out and "not clean" not in good("info", image).out
    bad("mkdir", f"{image}:/x", mentions=("journal device",))


@pytest.mark.needs_root
@needs_mounts
def test_an_image_that_outboard_has_mounted(work):
    image = images.make(f"{work}/image", "ext4")
    os.mkdir(f"{work}/other")
    with mounts.mounted(image) as directory:
        server = mounts.server_of(image)
        said = [image, f"mounted on {directory} by outboard, pid {server}",
                f"outboard umount {directory}"]
        for words in (("ls", f"{image}:/"), ("touch", f"{image}:/x"), ("fsck", image),
                      ("mkfs", "--force", "ext4", image),
                      ("mount", image, f"{work}/other")):
            bad(*words, code=8 if words[0] == "fsck" else 1, mentions=said)
    good("ls", f"{image}:/")


@pytest.mark.needs_root
@needs_mounts
@pytest.mark.parametrize("how", ["removed", "replaced", "moved", "read-only"])
def test_an_image_whose_file_is_removed_under_its_mount(work, how):
    image, directory = images.make(f"{work}/image", "ext4"), f"{work}/d"
    os.mkdir(directory)
    good("mount", *(("-o", "ro") if how == "read-only" else ()), image, directory)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: host.run("umount", "-l", directory) if mounts.is_mounted(directory)
                       else None)
        match how:
            case "replaced":
                os.rename(images.make(f"{work}/other", "ext4"), image)
            case "moved":
                os.rename(image, f"{work}/elsewhere")
            case _:
                os.remove(image)
        if how in ("removed", "replaced"):
            bad("umount", directory,
                mentions=[f"{image} was removed", directory, "everything in it is lost"])
        else:
            good("umount", directory)
        assert not mounts.is_mounted(directory)


# ---- inodes ----


def test_no_inodes_left(work):
    tree = f"{work}/tree"
    os.mkdir(tree)
    for index in range(100):
        write(f"{tree}/{index}", b"x")
    image = images.make(f"{work}/image", "ext4", 16, "-N", "64")
    for words in (("cp", "-a", tree, f"{image}:/"), ("mkdir", f"{image}:/d")):
        done = bad(*words, mentions=["No space left", f"{image} has no inodes left", "all 64"])
        assert done.err.count("no inodes") == 1, done.err
    # The same words are no reason where there are inodes.
    assert "inodes" not in bad("cat", f"{images.make(f'{work}/other', 'ext4')}:/none").err
    for more in ((), ("--reproducible",)):
        words = ("mkfs", "ext4", f"{work}/new", "--size", "16M", "--from", tree, *more, "--")
        done = bad(*words, "-N", "64", mentions=["inodes"])
        advice = re.search(r"-- (-N \d+)$", done.err)
        assert advice, done.err
        good(*words, *advice.group(1).split())
        os.remove(f"{work}/new")


@pytest.mark.needs_root
@pytest.mark.needs("unshare")
@pytest.mark.parametrize(
    "words", (("cp", "{image}:/file", "{full}/"), ("tar-out", "{image}:/", "-f", "{full}/new.tar"),
              ("mkfs", "ext4", "{full}/new.img", "--size", "8M")), ids=lambda words: words[0])
def test_no_inodes_left_on_the_host(work, words):
    if not host.may_mount():
        pytest.skip("nothing can be mounted here")
    image = images.make(f"{work}/image", "ext4")
    full = f"{work}/full"
    os.mkdir(full)
    good("touch", f"{image}:/file")
    words = [word.format(image=image, full=full) for word in words]
    script = (
        f'mount -t tmpfs -o size=64M,nr_inodes=2 none {full} && touch {full}/last || exit 99; "$@"')
    done = bad(*words, prefix=(*UNSHARE, "sh", "-c", script, "sh"),
               mentions=["No space left", f"host's file system of {full}", "no inodes left: all 2"])
    assert done.err.count("no inodes") == 1 and ".outboard-" not in done.err, done.err


# ---- mkfs works in a private file ----


def test_mkfs_names_what_the_user_named(work):
    done = bad("mkfs", "ext4", f"{work}/large", "--size", "8000000T", mentions=[f"{work}/large"])
    assert ".outboard-" not in done.err and ".tmp" not in done.err, done.err


@pytest.mark.parametrize("name, left",
                         (("new", "was not made, and nothing is left"), ("old", "was not changed")))
def test_an_interrupted_mkfs_says_what_is_left(work, name, left):
    """By a tool that goes on until it is ended."""
    old = images.make(f"{work}/old", "ext4")
    before = images.contents(old)
    os.mkdir(f"{work}/bin")
    tool = write(f"{work}/bin/mke2fs", b'#!/bin/sh\nfor last; do :; done\n'
                 b': > "${last%/*}/started"\nwhile :; do sleep 0.05; done\n')
    os.chmod(tool, 0o755)
    variables = {**os.environ, "PATH": f"{work}/bin:{os.environ['PATH']}"}
    words = command("mkfs", "ext4", f"{work}/{name}", "--size", "8M", "--force")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=variables) as running:
        patience.wait_until(lambda: glob.glob(f"{work}/.outboard-*/started"), "the tool runs")
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM, said
    assert (said == f"outboard: interrupted: {work}/{name} {left}"
            + (" of it" if name == "new" else "") + "\n")
    assert sorted(os.listdir(work)) == ["bin", "old"] and images.contents(old) == before


# ---- deep trees ----


LEVELS = 40


def deep_tree(work):
    """A tree with a file `leaf` whose path has 8000 bytes."""
    name = "n" * 200
    os.makedirs(f"{work}/tree")
    below = os.open(f"{work}/tree", os.O_RDONLY)
    try:
        for _ in range(LEVELS):
            os.mkdir(name, dir_fd=below)
            deeper = os.open(name, os.O_RDONLY, dir_fd=below)
            os.close(below)
            below = deeper
        os.close(os.open("leaf", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=below))
    finally:
        os.close(below)
    return f"{work}/tree"


@pytest.mark.parametrize("kind, more", [("ext4", ()), ("ext4", ("--reproducible",)), ("vfat", ())],
                         ids=["kernel", "mke2fs", "vfat"])
def test_a_tree_that_is_deeper_than_a_path_may_be_long(work, kind, more):
    run("mkfs", kind, f"{work}/image", "--from", deep_tree(work), *more)
    found = good("find", f"{work}/image:/", "-name", "leaf").out
    assert found.removeprefix(f"{work}/image:").count("/n") == LEVELS


@pytest.mark.parametrize("kind", ["squashfs", "erofs", "iso9660", "romfs", "cramfs"])
def test_a_tool_that_cannot_reach_all_of_a_tree(work, kind):
    """genromfs, mkfs.cramfs and mksquashfs leave out the rest without a word."""
    tree = deep_tree(work)
    bad("mkfs", kind, f"{work}/image", "--from", tree, mentions=[tree, "cannot follow", "ext4"])
    assert os.listdir(work) == ["tree"]


@pytest.mark.parametrize("exists", [True, False])
def test_reserved_prefixes(work, exists):
    """Whether a file has such a name or not, it means no file; below a directory it does."""
    images.make(f"{work}/disk.img", "ext4")
    names = ["usb:disk", "pci:disk"]
    for name in names if exists else []:
        os.link(f"{work}/disk.img", f"{work}/{name}")
    os.mkdir(f"{work}/usb:")
    write(f"{work}/script", b"ls disk.img:/\nls pci:disk:/\n")
    before = sorted(os.listdir(work))
    for words in (["info", "usb:disk"], ["ls", "pci:/etc"], ["ls", "usb:disk@1:/"],
                  ["cp", "disk.img:/x", "usb:disk"], ["cp", "usb:disk:/x", "."],
                  ["cat", "usb:1-2@1"], ["mkfs", "ext4", "usb:new", "--size", "8M"],
                  ["part", "pci:new", "create", "--size", "8M"], ["fsck", "pci:disk"],
                  ["mount", "usb:disk", "usb:"], ["info", "--disk", "usb:disk", "disk.img"],
                  ["shell", "usb:disk"], ["run-script", "script"]):
        done = bad(*words, code=2, mentions=["is reserved"], cwd=work)
        name = next(word for word in [*words, "pci:disk"] if word[:4] in ("usb:", "pci:"))
        assert f"write ./{name}" in done.err, str(done)
        if words[0] == "run-script":
            assert "script:2: " in done.err and "lost+found" in done.out
    assert sorted(os.listdir(work)) == before
    if exists:
        for name in names:
            assert "lost+found" in good("ls", f"./{name}:/", cwd=work).out
