# SPDX-License-Identifier: GPL-2.0-only
"""VHD images, fixed and dynamic: made by qemu-img and read and written by us, made by us and read
by qemu-img.
"""

import json
import os
import random
import struct

import pytest

from support import host, images, mounts
from support.images import MEGABYTE
from support.json_output import document
from support.program import bad, good, run

pytestmark = pytest.mark.needs("qemu-img")

KINDS = {
    "dynamic": ("subformat=dynamic",),
    "fixed": ("subformat=fixed",),
    "dynamic-exact": ("subformat=dynamic", "force_size=on"),
    "fixed-exact": ("subformat=fixed", "force_size=on"),
}
BLOCK = 2 * MEGABYTE


@pytest.fixture
def raw(work):
    """A partitioned disk with an ext4 of a few files."""
    images.write_few_files(f"{work}/tree")
    inner = images.make_ext4_of(f"{work}/inner.img", f"{work}/tree", 32)
    return images.partitioned(f"{work}/disk.img", "label: dos\nstart=2048, size=65536\n",
                              {2048: inner}, 40)


@pytest.fixture(params=KINDS)
def image(request, work, raw):
    return convert(raw, f"{work}/x.vhd", *KINDS[request.param])


def convert(raw, path, *options):
    words = [word for option in options for word in ("-o", option)]
    host.run("qemu-img", "convert", "-f", "raw", "-O", "vpc", *words, raw, path)
    return path


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def flat(image, path):
    host.run("qemu-img", "convert", "-f", "vpc", "-O", "raw", image, path)
    return path


def check_ext4(image, work):
    """QEMU reads an image with a good file system in the first partition."""
    with open(flat(image, f"{work}/flat.img"),
              "rb") as source, open(f"{work}/part.img", "wb") as target:
        source.seek(MEGABYTE)
        target.write(source.read(32 * MEGABYTE))
    host.run("e2fsck", "-f", "-n", f"{work}/part.img")
    return f"{work}/part.img"


def test_what_qemu_makes_is_read(work, raw, image):
    before = read(image)
    assert good("cat", f"{image}@1:/noise").raw == read(f"{work}/tree/noise")
    good("cp", "-a", f"{image}@1:/", f"{work}/out")
    host.run("diff", "-r", "--exclude=lost+found", f"{work}/tree", f"{work}/out")
    told = document(good("info", "--json", image))["disk"]
    size = json.loads(host.run("qemu-img", "info", "-f", "vpc", "--output=json", image).stdout)[
        "virtual-size"]
    assert told["format"] == "vhd" and told["size"] == size
    assert good("cat", f"{image}@1").raw == good("cat", f"{raw}@1").raw
    assert read(image) == before


def test_what_we_write_is_read_by_qemu(work, raw, image):
    new = images.write_noise(f"{work}/new", 5)
    good("cp", new, f"{image}@1:/new")
    good("rm", f"{image}@1:/noise")
    assert good("cat", f"{image}@1:/new").raw == read(new)
    part = check_ext4(image, work)
    host.run("debugfs", "-R", f"dump /new {work}/dumped", part)
    assert read(f"{work}/dumped") == read(new)
    good("fstrim", f"{image}@1")
    good("fsck", "-y", f"{image}@1")
    check_ext4(image, work)
    assert good("cat", f"{image}@1:/new").raw == read(new)


@pytest.mark.parametrize("megabytes", [8, 33, 300])
def test_what_we_make_is_read_by_qemu(work, megabytes):
    image = f"{work}/new.vhd"
    images.write_few_files(f"{work}/tree")
    good("mkfs", "ext4", image, "--size", f"{megabytes}M", "--from", f"{work}/tree")
    told = json.loads(host.run("qemu-img", "info", "--output=json", image).stdout)
    assert (told["format"], told["virtual-size"]) == ("vpc", megabytes * MEGABYTE)
    host.run("e2fsck", "-f", "-n", flat(image, f"{work}/flat.img"))
    host.run("debugfs", "-R", f"dump /noise {work}/dumped", f"{work}/flat.img")
    assert read(f"{work}/dumped") == read(f"{work}/tree/noise")
    assert os.path.getsize(image) < megabytes * MEGABYTE
    # QEMU writes to it, and we read that.
    host.run("qemu-io", "-f", "vpc", "-c", f"write -P 7 {megabytes * MEGABYTE - 4096} 4096", image)
    good("fsck", "-n", image)


def test_partitions_are_made_in_it(work):
    image = f"{work}/new.vhd"
    good("part", image, "create", "--size", "64M", "esp:20M", "linux:rest")
    good("mkfs", "ext2", f"{image}@2")
    host.run("sfdisk", "-q", "--verify", flat(image, f"{work}/flat.img"))
    good("cp", __file__, f"{image}@2:/file")
    assert good("cat", f"{image}@2:/file").raw == read(__file__)


def test_the_largest_size(work):
    image = f"{work}/large.vhd"
    good("part", image, "create", "--size", "2040G", "linux:rest")
    told = json.loads(host.run("qemu-img", "info", "-f", "vpc", "--output=json", image).stdout)
    assert told["virtual-size"] == 2040 << 30
    good("mkfs", "ext4", f"{work}/small.vhd", "--size", "20M")
    bad("resize", f"{work}/small.vhd", "2041G", mentions=["at most 2040 GiB"])
    good("fsck", "-n", f"{work}/small.vhd")
    bad("part", f"{work}/larger.vhd", "create", "--size", "2041G", "linux:rest",
        mentions=["at most 2040 GiB"])
    assert not os.path.exists(f"{work}/larger.vhd")


@pytest.mark.parametrize("kind", KINDS)
def test_other_sizes(work, kind):
    """The disk grows and shrinks; QEMU has the size that we have."""
    raw = images.make(f"{work}/raw.img", "ext4", 24)
    image = convert(raw, f"{work}/x.vhd", *KINDS[kind])
    for size in ("300M", "20M", "40M"):
        good("resize", image, size)
        host.run("e2fsck", "-f", "-n", flat(image, f"{work}/flat.img"))
        told = json.loads(host.run("qemu-img", "info", "-f", "vpc", "--output=json", image).stdout)
        assert told["virtual-size"] == int(size[:-1]) * MEGABYTE


@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
def test_it_can_be_mounted(work, image):
    with mounts.mounted(f"{image}@1") as directory:
        assert read(f"{directory}/noise") == read(f"{work}/tree/noise")
        with open(f"{directory}/new", "wb") as stream:
            stream.write(b"new" * 1_000_000)
    check_ext4(image, work)
    assert good("cat", f"{image}@1:/new").raw == b"new" * 1_000_000


def test_raw_is_raw(work, raw):
    image = convert(raw, f"{work}/x.vhd", "subformat=fixed", "force_size=on")
    told = document(good("info", "--raw", "--json", image))["disk"]
    assert told["format"] == "raw" and told["size"] == os.path.getsize(image)


# ---- damage ----


def checksum(part, at):
    return ~(sum(part) - sum(part[at:at + 4])) & 0xffffffff


def put(data, start, length, at, field, value):
    """Changes a field of a footer or header, and puts the checksum right."""
    part = data[start:start + length]
    part[field:field + len(value)] = value
    part[at:at + 4] = struct.pack(">I", checksum(part, at))
    data[start:start + length] = part


def test_differencing_disks_are_refused(work, raw):
    image = convert(raw, f"{work}/x.vhd", "subformat=dynamic")
    data = bytearray(read(image))
    put(data, 0, 512, 64, 60, struct.pack(">I", 4))
    with open(image, "wb") as stream:
        stream.write(data)
    for words in (("info", image), ("ls", f"{image}@1:/"), ("cp", __file__, f"{image}@1:/x")):
        bad(*words, mentions=("differencing", "merge"))


def test_damaged_images_end_in_errors(work, raw):
    image = convert(raw, f"{work}/x.vhd", "subformat=dynamic")
    content = bytearray(read(image))
    (table,) = struct.unpack_from(">Q", content, 512 + 16)
    source = random.Random(1)
    for turn in range(30):
        damaged = bytearray(content)
        what = turn % 3
        if what == 0:
            put(damaged, 0, 512, 64, source.choice([16, 20, 48, 52, 60]),
                struct.pack(">I", source.choice([0, 1, 3, 2**32 - 1])))
        elif what == 1:
            value = source.choice([0, 1, 511, 4096, 2**31, 2**32 - 1])
            put(damaged, 512, 1024, 36, source.choice([16, 20, 28, 32]), struct.pack(">I", value))
        else:
            value = source.choice([
                0, 1, 3, 5, 2**32 - 2, struct.unpack_from(">I", content, table)[0] + 1])
            struct.pack_into(">I", damaged, table + 4 * source.randrange(20), value)
        with open(image, "wb") as stream:
            stream.write(damaged)
        words = ("cat", f"{image}@1:/noise") if turn % 2 else ("cp", __file__, f"{image}@1:/new")
        done = run(*words, timeout=60)
        assert done.code in (0, 1) or done.kernel_bug, f"turn {turn}: {done}"


def test_cut_images_are_read_with_a_warning(work, raw):
    image = convert(raw, f"{work}/x.vhd", "subformat=dynamic")
    os.truncate(image, os.path.getsize(image) * 2 // 3 // 512 * 512)
    assert "is cut off" in run("info", image).err
    before = read(image)
    bad("cp", __file__, f"{image}@1:/new", mentions=("cut off",))
    assert read(image) == before
