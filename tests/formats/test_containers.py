# SPDX-License-Identifier: GPL-2.0-only
"""Images in other formats than raw, made by qemu-img and the compressors, compared with the raw
image, and hostile ones.
"""

import gzip
import json
import os
import random
import signal
import struct
import subprocess
import time

import pytest

from support import host, images, program
from support.images import MEGABYTE
from support.json_output import document
from support.processes import wait_until_closed
from support.program import bad, good, run

pytestmark = pytest.mark.needs("qemu-img")

QCOW2 = {
    "v3": (),
    "v2": ("-o", "compat=0.10"),
    "small-clusters": ("-o", "cluster_size=4k"),
    "large-clusters": ("-o", "cluster_size=2M"),
    "compressed": ("-c",),
    "preallocated": ("-o", "preallocation=metadata"),
    "narrow-refcounts": ("-o", "refcount_bits=1"),
    "lazy": ("-o", "lazy_refcounts=on"),
}
READ_ONLY = {
    "vmdk": ("vmdk",),
    "vmdk-stream": ("vmdk", "-o", "subformat=streamOptimized"),
    "vmdk-flat": ("vmdk", "-o", "subformat=monolithicFlat"),
    "vmdk-split": ("vmdk", "-o", "subformat=twoGbMaxExtentSparse"),
    "vdi": ("vdi",),
    "vhdx": ("vhdx",),
}
COMPRESSORS = {"gz": ("gzip", "-1", "-c"), "zst": ("zstd", "-q", "-3", "-c"),
               "xz": ("xz", "-1", "-T1", "-c")}


@pytest.fixture
def raw(work):
    """A partitioned disk with an ext4 of some files, one of them compressible and one not."""
    tree = f"{work}/tree"
    os.makedirs(f"{tree}/etc")
    with open(f"{tree}/etc/text", "wb") as stream:
        stream.write(b"".join(b"line %d\n" % number for number in range(100000)))
    images.write_noise(f"{tree}/noise", 2)
    inner = images.make_ext4_of(f"{work}/inner.img", tree, 32, "-L", "INNER",
                                "-U", "11111111-2222-3333-4444-555555555555")
    disk = images.partitioned(f"{work}/disk.img", "label: gpt\nstart=2048, size=65536\n",
                              {2048: inner}, 40)
    os.unlink(inner)
    return disk


def convert(raw, path, kind, *options):
    host.run("qemu-img", "convert", "-O", kind, *options, raw, path)
    return path


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def tree_of(raw):
    return os.path.join(os.path.dirname(raw), "tree")


def check_reading(image, raw, work):
    """All that is read is what the raw image has."""
    for words in (("ls", "-lR"), ("stat",)):
        assert (good(*words, f"{image}@1:/etc").out.replace(image, "I")
                == good(*words, f"{raw}@1:/etc").out.replace(raw, "I"))
    assert good("cat", f"{image}@1:/noise").raw == read(f"{tree_of(raw)}/noise")
    good("cp", "-a", f"{image}@1:/", f"{work}/out")
    host.run("diff", "-r", "--exclude=lost+found", tree_of(raw), f"{work}/out")
    told, expected = (document(good("info", "--json", path))["disk"] for path in (image, raw))
    assert told.pop("image") == image and expected.pop("image") == raw
    assert told.pop("format") not in (None, "raw") and expected.pop("format") == "raw"
    assert told == expected


def check_writing(image, work):
    """Writes, and lets QEMU and e2fsck look at the result."""
    new = images.write_noise(f"{work}/new", 3)
    good("cp", new, f"{image}@1:/etc/new")
    good("cp", new, f"{image}@1:/noise")
    for name in ("etc/new", "noise"):
        assert good("cat", f"{image}@1:/{name}").raw == read(new)
    host.run("qemu-img", "check", image)
    flat = f"{work}/flat.img"
    host.run("qemu-img", "convert", "-O", "raw", image, flat)
    with open(flat, "rb") as source, open(f"{work}/part.img", "wb") as target:
        source.seek(MEGABYTE)
        target.write(source.read(32 * MEGABYTE))
    host.run("e2fsck", "-f", "-n", f"{work}/part.img")
    host.run("debugfs", "-R", f"dump /etc/new {work}/dumped", f"{work}/part.img")
    assert read(f"{work}/dumped") == read(new)


@pytest.mark.parametrize("kind", QCOW2)
def test_qcow2(work, raw, kind):
    image = convert(raw, f"{work}/x.qcow2", "qcow2", *QCOW2[kind])
    before = read(image)
    check_reading(image, raw, work)
    assert read(image) == before, "reading has changed the image"
    check_writing(image, work)


@pytest.mark.parametrize("kind", READ_ONLY)
def test_formats_that_are_read(work, raw, kind):
    image = convert(raw, f"{work}/x.{kind}", *READ_ONLY[kind])
    check_reading(image, raw, work)
    before = read(image)
    bad("cp", raw, f"{image}@1:/new", mentions=("can only be read", READ_ONLY[kind][0]))
    assert read(image) == before
    if host.IS_ROOT:
        without = ("unshare", "-m", "sh", "-c",
                   'mount --bind /dev/null "$(command -v qemu-img)" && exec "$@"', "sh")
        assert run("info", image, prefix=without).err.count("install qemu-utils") == 1


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_compressed(work, raw, suffix):
    image = f"{work}/x.img.{suffix}"
    with open(image, "wb") as stream:
        subprocess.run([*COMPRESSORS[suffix], raw], stdout=stream, check=True)
    check_reading(image, raw, work)
    bad("cp", raw, f"{image}@1:/new", mentions=("can only be read", "decompress"))
    with open(image, "r+b") as stream:
        stream.truncate(os.path.getsize(image) // 2)
    bad("ls", f"{image}@1:/", mentions=(image, "decompressed"))


def test_bytes_behind_a_compressed_image(work, raw):
    """As by gzip(1): zeros are padding, other bytes are ignored with a warning."""
    packed = subprocess.run([*COMPRESSORS["gz"], raw], stdout=subprocess.PIPE, check=True).stdout
    for tail, noted in ((bytes(10240), False), (b"garbage", True)):
        image = f"{work}/tail.img.gz"
        with open(image, "wb") as stream:
            stream.write(packed + tail)
        result = good("cat", f"{image}@1:/noise")
        assert result.raw == read(f"{tree_of(raw)}/noise")
        assert (f"{image}: the bytes behind" in result.err) == noted, result


def test_a_temporary_directory_that_is_missing(work, raw):
    with open(f"{work}/x.gz", "wb") as stream, gzip.GzipFile(fileobj=stream, mode="wb") as packed:
        packed.write(b"\0" * 1000)
    bad("ls", f"{work}/x.gz:/", mentions=("TMPDIR",), TMPDIR=f"{work}/none")


# ---- chains ----


def chain(work, raw, kind="qcow2"):
    """base <- middle <- top, each with a file of its own; returns the top."""
    base = raw if kind == "raw" else convert(raw, f"{work}/base.qcow2", "qcow2")
    below = base
    for name in ("middle", "top"):
        path = f"{work}/{name}.qcow2"
        host.run("qemu-img", "create", "-q", "-f", "qcow2", "-b", os.path.basename(below),
                 "-F", kind, path)
        kind = "qcow2"
        note = f"{work}/note"
        with open(note, "w", encoding="ascii") as stream:
            stream.write(name)
        good("cp", note, f"{path}@1:/from-{name}")
        below = path
    return base, path


@pytest.mark.parametrize("kind", ["qcow2", "raw"])
def test_backing_chain(work, raw, kind):
    before = read(raw)
    base, top = chain(work, raw, kind)
    assert read(raw) == before
    assert good("cat", f"{top}@1:/from-middle").out == "middle"
    assert good("cat", f"{top}@1:/from-top").out == "top"
    bad("cat", f"{work}/middle.qcow2@1:/from-top")
    assert good("cat", f"{top}@1:/noise").raw == read(f"{tree_of(raw)}/noise")
    middle = read(f"{work}/middle.qcow2")
    check_writing(top, work)
    assert read(f"{work}/middle.qcow2") == middle
    assert os.path.getsize(top) < 20 * MEGABYTE
    host.run("qemu-img", "check", f"{work}/middle.qcow2")
    if kind == "qcow2":
        host.run("qemu-img", "compare", base, raw)


def test_the_longest_chain(work, raw):
    """16 files in all, the raw one at the bottom included."""
    below, kind = raw, "raw"
    for number in range(2, 18):
        path = f"{work}/{number}.qcow2"
        host.run("qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", os.path.basename(below),
                 "-F", kind, path, f"{os.path.getsize(raw)}")
        below, kind = path, "qcow2"
    assert good("cat", f"{work}/16.qcow2@1:/noise").raw == read(f"{tree_of(raw)}/noise")
    bad("ls", f"{work}/17.qcow2@1:/", mentions=("17.qcow2", "more than 16 files"))


def test_snapshots_inside_are_kept(work, raw):
    image = convert(raw, f"{work}/x.qcow2", "qcow2")
    host.run("qemu-img", "snapshot", "-c", "before", image)
    check_writing(image, work)
    host.run("qemu-img", "snapshot", "-a", "before", image)
    host.run("qemu-img", "compare", image, raw)


@pytest.mark.parametrize("options,mentions", [
    (("-o", "extended_l2=on"), "extended L2"),
    (("-o", "compression_type=zstd"), "compressed"),
    (("-o", "data_file=data.raw"), "another file"),
    (("--object", "secret,id=s,data=abc", "-o",
      "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10"), "encrypted"),
], ids=lambda value: value.split()[0] if isinstance(value, str) else "")
def test_what_is_not_supported_is_said(work, options, mentions):
    host.run("qemu-img", "create", "-q", "-f", "qcow2", *options, "x.qcow2", "64M", cwd=work)
    for command in ("info", "ls"):
        bad(command, "x.qcow2:/" if command == "ls" else "x.qcow2", cwd=work,
            mentions=("x.qcow2", mentions))


def clusters(image):
    return json.loads(host.run("qemu-img", "check", "--output=json", image).stdout)[
        "allocated-clusters"]


def test_discarded_room_is_free(work, raw):
    """Clusters that fstrim frees in the image's tables are the next that are written: it does not
    grow.
    """
    image = convert(raw, f"{work}/x.qcow2", "qcow2")
    before, new = clusters(image), images.write_noise(f"{work}/new", 8)
    good("cp", new, f"{image}@1:/new")
    size = os.path.getsize(image)
    assert clusters(image) > before + 100
    good("rm", f"{image}@1:/new")
    good("fstrim", f"{image}@1")
    assert clusters(image) < before + 10
    good("cp", new, f"{image}@1:/new")
    assert os.path.getsize(image) <= size + MEGABYTE
    check_writing(image, work)


# ---- a backing file is a stranger's wish ----


def overlay(path, backing, kind="raw"):
    host.run("qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", backing,
             "-F", kind, path, "64M")
    return path


@pytest.mark.parametrize("name", [
    "/etc/passwd", "../secret.img", "link.img", "folder/../../secret.img", "/nonexistent"])
def test_backing_files_elsewhere_are_not_opened(work, name):
    os.makedirs(f"{work}/home/folder")
    secret = images.make(f"{work}/secret.img", "ext4")
    os.symlink("../secret.img", f"{work}/home/link.img")
    image = overlay(f"{work}/home/x.qcow2", name)
    for command in ("info", "ls"):
        bad(command, f"{image}:/" if command == "ls" else image,
            mentions=("not in its own directory", "--backing", name))
    if "secret" in name or "link" in name:
        assert "lost+found" in good("ls", "--backing", secret, f"{image}:/").out
        bad("ls", "--backing", "/etc/passwd", f"{image}:/", mentions=("not in its own directory",))


def test_the_second_image_of_a_chain_has_the_same_rules(work):
    os.makedirs(f"{work}/home")
    images.make(f"{work}/secret.img", "ext4")
    overlay(f"{work}/home/middle.qcow2", "../secret.img")
    bad("ls", overlay(f"{work}/home/top.qcow2", "middle.qcow2", "qcow2") + ":/",
        mentions=("secret.img", "not in its own directory"))


@pytest.mark.parametrize("name",
                         ["nbd:unix:/tmp/x", "json:{\"driver\":\"file\"}", "http://localhost/x"])
def test_backing_files_are_files(work, name):
    bad("ls", patched(work, name) + ":/", mentions=("not the name of a file",))


def patched(work, name):
    """An image with this backing file's name, which qemu-img would not take."""
    image = overlay(f"{work}/x.qcow2", "y" * len(name))
    content = read(image)
    assert content.count(b"y" * len(name)) == 1
    with open(image, "wb") as stream:
        stream.write(content.replace(b"y" * len(name), name.encode()))
    return image


def test_chains_have_an_end(work):
    bad("ls", overlay(f"{work}/x.qcow2", "x.qcow2", "qcow2") + ":/", mentions=("or on itself",))
    bad("ls", overlay(f"{work}/y.qcow2", "missing.img") + ":/",
        mentions=("missing.img", "No such file"))
    os.mkfifo(f"{work}/fifo")
    bad("ls", overlay(f"{work}/z.qcow2", "fifo") + ":/", mentions=("fifo",))


def test_names_have_no_control_characters(work):
    assert "\x1b" not in bad("ls", patched(work, "a\x1b[31mb") + ":/").err


@pytest.mark.parametrize("name", ["../secret.img", "/etc/passwd"])
def test_extents_of_vmdk_stay_in_the_directory(work, name):
    os.makedirs(f"{work}/home")
    images.make(f"{work}/secret.img", "ext4")
    with open(f"{work}/home/x.vmdk", "w", encoding="ascii") as stream:
        stream.write("# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\n"
                     "createType=\"monolithicFlat\"\n"
                     f"RW 131072 FLAT \"{name}\" 0\nddb.adapterType = \"ide\"\n"
                     "ddb.geometry.cylinders = \"130\"\n"
                     "ddb.geometry.heads = \"16\"\nddb.geometry.sectors = \"63\"\n")
    bad("ls", f"{work}/home/x.vmdk:/", mentions=("Permission denied",))


@pytest.mark.parametrize("kind", ["twoGbMaxExtentSparse"])
def test_a_piece_of_a_vmdk_is_named(work, kind):
    host.sparse_file(f"{work}/raw", 8 * images.MEGABYTE)
    host.run("qemu-img", "convert", "-f", "raw", "-O", "vmdk", "-o", f"subformat={kind}",
             f"{work}/raw", f"{work}/x.vmdk")
    bad("ls", f"{work}/x-s001.vmdk:/", mentions=("one piece of a vmdk image",))


def test_a_raw_base_that_begins_as_qcow2(work):
    """The message is about the base, and what to do."""
    base = host.sparse_file(f"{work}/base", 8 * images.MEGABYTE)
    with open(base, "r+b") as stream:
        stream.write(b"QFI\xfb")
    host.run("qemu-img", "create", "-q", "-f", "qcow2", "-b", "base", "-F", "raw", f"{work}/top")
    bad("ls", f"{work}/top:/", mentions=("the disk in", "holds a qcow2 file"))
    with open(f"{work}/top", "r+b") as stream:
        start = stream.read(1024)
        # Without the extension that has the format of the base.
        stream.seek(start.index(b"\xe2\x79\x2a\xca"))
        stream.write(bytes(4))
    bad("ls", f"{work}/top:/", mentions=(base, "-F raw"))


def test_raw_is_raw(work):
    """A guest that writes a qcow2 header on its raw disk gains nothing with --raw."""
    image = overlay(f"{work}/x.img", "/etc/passwd")
    shown = document(good("info", "--raw", "--json", image))["disk"]
    assert shown["format"] == "raw" and shown["size"] == os.path.getsize(image)


# ---- damage ----


def test_damaged_images_end_in_errors(work, raw):
    """Damaged headers and tables cause no crash, no hang, no flood of memory."""
    image = convert(raw, f"{work}/x.qcow2", "qcow2", "-o", "cluster_size=4k")
    content = bytearray(read(image))
    source = random.Random(1)
    tables = [struct.unpack_from(">Q", content, offset)[0] for offset in (40, 48)]
    tables.append(struct.unpack_from(">Q", content, tables[0])[0] & 0x00ffffffffffff00)
    new = f"{work}/tree/etc/text"
    for round in range(40):
        damaged = bytearray(content)
        for _ in range(source.choice([1, 3, 10])):
            start, length = source.choice([(0, 112), *((table, 4096) for table in tables)])
            at = min(start + source.randrange(length), len(damaged) - 8) // 8 * 8
            value = source.choice([0, 1, 2**64 - 1, source.getrandbits(64),
                                   source.randrange(len(content)) // 4096 * 4096 | 1 << 63])
            struct.pack_into(">Q", damaged, at, value)
        with open(image, "wb") as stream:
            stream.write(damaged)
        words = ("cat", f"{image}@1:/noise") if round % 2 else ("cp", new, f"{image}@1:/new")
        done = run(*words, timeout=60)
        assert done.code in (0, 1) or done.kernel_bug, f"round {round}: {done}"


@pytest.mark.parametrize("length", [3, 4, 71, 72, 100, 512, 65536, 200000])
def test_cut_images(work, raw, length):
    image = convert(raw, f"{work}/x.qcow2", "qcow2")
    os.truncate(image, length)
    assert run("ls", f"{image}@1:/").code == 1


@pytest.mark.parametrize("kind", ["qcow2", "vdi", "vmdk"])
def test_a_warning_of_cut_images(work, raw, kind):
    """The remaining data can be read, with a warning."""
    image = convert(raw, f"{work}/x.{kind}", kind)
    good("cp", f"{image}@1:/noise", f"{work}/whole")
    os.truncate(image, os.path.getsize(image) * 2 // 3 // 65536 * 65536)
    for words in (("info", image), ("cp", f"{image}@1:/noise", f"{work}/part")):
        assert "is cut off" in run(*words).err, words


# ---- locks, kills, speed ----


def test_an_image_in_use_is_not_opened_twice(work, raw):
    base, top = chain(work, raw)
    import fcntl
    with open(top, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        bad("ls", f"{top}@1:/", mentions=("in use",))
        fcntl.flock(held, fcntl.LOCK_SH)
        good("ls", f"{top}@1:/")
        bad("cp", f"{work}/note", f"{top}@1:/n", mentions=("in use",))
    with open(base, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        bad("ls", f"{top}@1:/", mentions=("in use",))


def killed_while_it_writes(source, image, delay) -> bool:
    """A copy, killed so many seconds after its first write to the image. Whether it was still
    running.
    """
    before = os.stat(image).st_mtime_ns
    with subprocess.Popen(program.command("cp", source, f"{image}@1:/new"),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
        while os.stat(image).st_mtime_ns == before and writer.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
    wait_until_closed(image)
    return writer.returncode == -signal.SIGKILL


def test_a_kill_while_writing_can_be_repaired(work, raw):
    """By QEMU's check of the image and by the journal, as docs/caveats.md says."""
    pristine = convert(raw, f"{work}/pristine.qcow2", "qcow2", "-o", "cluster_size=4k")
    new, image, delays = images.write_noise(f"{work}/new", 12), f"{work}/x.qcow2", random.Random(3)
    landed, longest = 0, 0.3
    while landed < 5:
        host.copy_sparse(pristine, image)
        if not killed_while_it_writes(new, image, delays.uniform(0, longest)):
            longest *= 0.7
            continue
        landed += 1
        host.run("qemu-img", "check", "-r", "all", image)
        host.run("qemu-img", "check", image)
        host.run("qemu-img", "convert", "-O", "raw", image, f"{work}/flat.img")
        with open(f"{work}/flat.img", "rb") as flat, open(f"{work}/part.img", "wb") as part:
            flat.seek(MEGABYTE)
            part.write(flat.read(32 * MEGABYTE))
        images.check_ext4(f"{work}/part.img")


def uncount_a_table(image):
    """Gives an L2 table that is in use the count of a free cluster, as a killed writer leaves it.
    """
    with open(image, "r+b") as stream:
        def number(place, form):
            stream.seek(place)
            return struct.unpack(form, stream.read(struct.calcsize(form)))[0]
        cluster = 1 << number(20, ">I")
        tables = [number(number(40, ">Q") + 8 * index, ">Q") for index in range(number(36, ">I"))]
        table = [place & 0x00fffffffffffe00 for place in tables if place][-1] // cluster
        block = number(number(48, ">Q") + table * 2 // cluster * 8, ">Q")
        stream.seek(block + table * 2 % cluster)
        stream.write(bytes(2))


def test_a_table_that_counts_as_free_is_not_overwritten(work, raw):
    image = convert(raw, f"{work}/x.qcow2", "qcow2", "-o", "cluster_size=4k")
    uncount_a_table(image)
    before = read(image)
    good("ls", f"{image}@1:/")
    for words in (("touch", f"{image}@1:/new"), ("rm", f"{image}@1:/noise")):
        bad(*words, mentions=("reference counts are corrupt", "qemu-img check -r all"))
    assert read(image) == before
    host.run("qemu-img", "check", "-r", "all", image)
    good("touch", f"{image}@1:/new")
    host.run("qemu-img", "check", image)
