# SPDX-License-Identifier: GPL-2.0-only
"""outboard part, fsck, resize and fstrim, checked by sfdisk, sgdisk, the types' own checkers and
the host's kernel.
"""

import filecmp
import json
import os
import shutil
import struct

import pytest

from support import host, images
from support.checkers import DAMAGE, FSCK
from support.images import MEGABYTE, contents
from support.json_output import document, items
from support.pairs import pairs
from support.program import LOSSES, bad, good, run

DISK = ("esp:64M,name=EFI", "swap:32M", "linux:rest,name=root fs")


def table(image):
    return json.loads(host.run("sfdisk", "--json", image).stdout)["partitiontable"]


def verify(image):
    """The table is one that others find no fault with."""
    assert "No errors" in host.run("sfdisk", "--verify", image).stdout
    if table(image)["label"] == "gpt":
        assert "No problems found" in host.run("sgdisk", "-v", image).stdout
    host.run("parted", "-s", image, "print")


def part(work, number, image):
    """A partition's data in a file of its own."""
    entry = next(entry for entry in table(image)["partitions"]
                 if entry["node"].endswith(str(number)))
    target = f"{work}/part{number}"
    host.run("dd", f"if={image}", f"of={target}", "bs=512", f"skip={entry['start']}",
             f"count={entry['size']}", "conv=sparse",
             "status=none")
    return target


def disk(work, *partitions, size="600M", kind="gpt", name="disk.img"):
    image = f"{work}/{name}"
    good("part", image, "create", "--table", kind, "--size", size, *partitions)
    return image


def fill(work, image):
    """Makes a few files, copies them in, and gives a directory with what the image has then."""
    tree = images.write_few_files(f"{work}/tree")
    good("cp", "-r", f"{tree}/.", f"{image}:/")
    run("cp", "-r", f"{image}:/.", f"{work}/was")
    return f"{work}/was"


def same(work, image, tree):
    out = f"{work}/out"
    shutil.rmtree(out, ignore_errors=True)
    run("cp", "-r", f"{image}:/.", out)
    found = filecmp.dircmp(tree, out, ignore=["lost+found"])
    assert not found.left_only, found.report()
    assert not found.diff_files, found.report()
    assert not found.subdirs["d"].diff_files, found.report()


# ---- part ----


@pytest.mark.parametrize("kind", ["gpt", "mbr"])
def test_create(work, kind):
    words = DISK if kind == "gpt" else ("fat:64M,boot", "swap:32M", "linux:rest")
    image = disk(work, *words, kind=kind)
    verify(image)
    found = table(image)
    assert found["label"] == {"gpt": "gpt", "mbr": "dos"}[kind] and len(found["partitions"]) == 3
    assert all(entry["start"] % 2048 == 0 for entry in found["partitions"])
    first, second, third = found["partitions"]
    assert (first["size"], second["size"]) == (64 * 2048, 32 * 2048) and third["size"] > 490 * 2048
    if kind == "gpt":
        assert first["type"] == "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
        assert third["name"] == "root fs"
    else:
        assert first["bootable"]
        assert [entry["type"] for entry in found["partitions"]] == ["c", "82", "83"]
    assert os.path.getsize(image) == 600 * MEGABYTE and os.stat(image).st_blocks < 2048
    shown = document(good("part", image, "list", "--json"))["table"]
    assert [entry["start"] for entry in shown["partitions"]] == [entry["start"] * 512
                                                                 for entry in found["partitions"]]
    assert "Linux" in good("part", image, "list").out


def test_create_the_same_each_time(work):
    for name in ("a", "b"):
        good("part", f"{work}/{name}", "create", "--size", "600M", "--reproducible", *DISK)
    good("part", f"{work}/c", "create", "--size", "600M", *DISK)
    assert filecmp.cmp(f"{work}/a", f"{work}/b", shallow=False)
    assert not filecmp.cmp(f"{work}/a", f"{work}/c", shallow=False)
    verify(f"{work}/a")


def test_add_and_delete(work):
    image = disk(work, "esp:64M", "linux:100M")
    good("part", image, "add", "linux:50M,name=one", "home:rest,name=two")
    verify(image)
    assert [entry.get("name") for entry in table(image)["partitions"]] == [None, None, "one", "two"]
    good("part", image, "delete", "2", "3")
    verify(image)
    assert [entry["number"] for entry in document(good("part", image, "list",
                                                       "--json"))["table"]["partitions"]] == [1, 4]
    bad("part", image, "delete", "3", mentions=["no partition 3"])
    bad("part", image, "add", "linux:9G", mentions=["9.0 GiB", "room for"])
    verify(image)


def test_part_refuses(work):
    image = disk(work, "linux:rest")
    before = open(image, "rb").read(1 << 20)
    bad("part", image, "create", "--size", "600M", "linux:rest", mentions=["exists", "--force"])
    bad("part", image, "create", "--force", "nonsense:rest", code=2, mentions=["nonsense", "esp"])
    bad("--ro", "part", image, "delete", "1", mentions=["--ro"])
    assert open(image, "rb").read(1 << 20) == before
    bad("part", f"{work}/new", "create", "linux:rest", code=2, mentions=["--size"])
    bad("part", f"{work}/new", "create", "--size", "8M", "linux:rest", "swap:1M", code=2,
        mentions=["last partition"])
    assert os.listdir(work) == ["disk.img"], "what failed left something behind"
    good("part", image, "create", "--force", "esp:10M", "linux:rest")
    verify(image)


@pytest.mark.parametrize("kind", ["gpt", "mbr"])
def test_partitions_without_room_are_refused(work, kind):
    """sfdisk makes a partition of no sectors of one that has no room in an MBR."""
    create = ("part", f"{work}/new", "create", "--table", kind, "--size", "8M")
    bad(*create, "linux:100M", mentions=["new", "100.0 MiB", "room for"])
    bad(*create, "linux:4M", "swap:4M", mentions=["new", "8.0 MiB", "room for"])
    assert not os.listdir(work)
    image = disk(work, "linux:4M", size="8M", kind=kind)
    bad("part", image, "create", "--force", "--table", kind, "linux:8M", mentions=["room for"])
    bad("part", image, "add", "linux:4M", mentions=["room for"])
    assert len(table(image)["partitions"]) == 1
    verify(image)
    good("part", image, "add", "linux:rest")
    assert len(table(image)["partitions"]) == 2
    verify(image)


def listed(image):
    """The table of `part list`, in sfdisk's units."""
    shown = document(good("part", image, "list", "--json"))["table"]
    return [(entry["number"], entry["start"] // 512, entry["size"] // 512)
            for entry in shown["partitions"]]


def by_sfdisk(image):
    return [(number, entry["start"], entry["size"])
            for number, entry in enumerate(table(image)["partitions"], 1)]


@pytest.mark.parametrize(
    "before,kind", pairs(["gpt", "mbr", "ext4", "xfs", "btrfs", "vfat", "ntfs", "iso9660", "udf"],
                         ["gpt", "mbr"], "mbr", "mbr"))
def test_a_new_table_is_all_that_is_there(work, before, kind):
    image = f"{work}/disk.img"
    if before in ("gpt", "mbr"):
        disk(work, "esp:20M", "linux:rest", kind=before)
    elif before == "iso9660":
        good("mkfs", before, image, "--from", images.write_few_files(f"{work}/tree"))
        os.truncate(image, 40 * MEGABYTE)
    else:
        good("mkfs", before, image, "--size", "320M")
    was = host.run("sha256sum", image).stdout
    bad("part", image, "create", "linux:5M", mentions=["--force"])
    assert host.run("sha256sum", image).stdout == was
    good("part", image, "create", "--force", "--table", kind, "linux:5M", "linux:30M")
    verify(image)
    assert listed(image) == by_sfdisk(image) and len(listed(image)) == 2
    assert host.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE",
                    image).stdout.split()[0] == {"gpt": "gpt", "mbr": "dos"}[kind]
    assert document(good("info", "--json", image))["disk"]["table"] is not None
    good("mkfs", "ext4", f"{image}@2")
    start = listed(image)[1][1]
    host.run("e2fsck", "-f", "-n", f"{image}?offset={start * 512}")
    good("ls", f"{image}@2:/")
    good("part", image, "delete", "1")
    assert [entry[0] for entry in listed(image)] == [2]


def test_a_table_over_another(work):
    """As Linux has it: without a protective MBR a GPT is none, with one the copy is used where the
    first is damaged.
    """
    image = f"{work}/disk.img"
    os.truncate(os.open(image, os.O_CREAT | os.O_WRONLY), 50 * MEGABYTE)
    host.run("sfdisk", "-q", image, input="label: gpt\n,20M\n,\n")
    gpt = listed(image)
    assert gpt == by_sfdisk(image)
    with open(image, "r+b") as stream:
        stream.seek(512)
        header = stream.read(512)
        stream.seek(512)
        stream.write(bytes(512))
    assert listed(image) == gpt == by_sfdisk(image)
    with open(image, "r+b") as stream:
        stream.seek(512)
        stream.write(header)
    host.run("sfdisk", "-q", "--wipe", "never", image, input="label: dos\n,5M\n,30M\n")
    assert listed(image) == by_sfdisk(image) == [(1, 2048, 5 * 2048), (2, 6 * 2048, 30 * 2048)]


@pytest.mark.needs("qemu-img")
def test_a_table_for_sectors_of_4096_bytes(work):
    """All commands use it; tests/formats/test_large_sectors.py has the changes."""
    image = images.gpt_of_4096(f"{work}/disk.img", 96, (1, 40), (41, 40))
    assert listed(image) == [(1, 2048, 40 * 2048), (2, 41 * 2048, 40 * 2048)]
    good("mkfs", "ext4", f"{image}@1")
    good("mkfs", "vfat", f"{image}@2")
    host.run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", image, f"{work}/disk.qcow2")
    with open(image, "rb") as stream:
        start = stream.read(MEGABYTE)
    for name in (image, f"{work}/disk.qcow2"):
        good("mkdir", f"{name}@1:/made", f"{name}@2:/made")
        assert good("ls", f"{name}@1:/").out.split() == ["lost+found", "made"]
        good("fsck", "-n", f"{name}@1")
        bad("mkfs", "ext4", f"{name}@2", mentions=["vfat"])
        bad("part", name, "add", "linux:40M", mentions=["room for"])
        assert "protective" not in good("info", name).out
    with open(image, "rb") as stream:
        assert stream.read(MEGABYTE) == start
    host.run("e2fsck", "-f", "-n", f"{image}?offset={MEGABYTE}")


def test_an_mbr_for_sectors_of_4096_bytes(work):
    """What is in its partitions shows the size of the sectors."""
    part = images.make(f"{work}/part", "ext4", 16)
    image = host.sparse_file(f"{work}/disk.img", 256 * MEGABYTE)
    with open(image, "r+b") as stream:
        stream.seek(446)
        stream.write(struct.pack("<B3sB3sII", 0, bytes(3), 0x83, bytes(3), 256, 4096))
        stream.seek(510)
        stream.write(b"\x55\xaa")
        stream.seek(MEGABYTE)
        with open(part, "rb") as source:
            stream.write(source.read())
    good("mkdir", f"{image}@1:/made")
    assert (good("ls", f"{image}:/", notes=["the only one"]).out.split()
            == ["lost+found", "made"])
    bad("part", image, "delete", "1", mentions=["4096"])


def test_the_copy_of_a_gpt_is_used_by_all_commands(work):
    image = disk(work, "linux:20M", "linux:20M", size="60M")
    good("mkfs", "ext4", f"{image}@1")
    with open(image, "r+b") as stream:
        stream.seek(512)
        stream.write(bytes(512))
    assert "its copy at the end is used" in good("info", image).out
    good("mkdir", f"{image}@1:/made")
    good("mkfs", "vfat", f"{image}@2")
    good("cp", "-r", f"{image}@1:/made", f"{image}@2:/")
    assert good("ls", f"{image}@2:/").out == "made\n"
    good("cp", f"{image}@1", f"{work}/part")
    host.run("e2fsck", "-f", "-n", f"{work}/part")


def test_a_gpt_that_is_lost(work):
    """Its protective MBR is no table: no partition is found, and nothing is written."""
    image = disk(work, "linux:20M", size="60M")
    good("mkfs", "ext4", f"{image}@1")
    with open(image, "r+b") as stream:
        for place in (512, 60 * MEGABYTE - 512):
            stream.seek(place)
            stream.write(bytes(512))
    before = images.contents(image)
    shown = good("info", image).out
    assert "copy at the end are damaged" in shown and "protective" not in shown
    for words in (("ls", f"{image}@1:/"), ("ls", f"{image}:/"), ("mkfs", "vfat", f"{image}@1"),
                  ("part", image, "delete", "1"), ("part", image, "add", "linux:1M"),
                  ("tar-out", f"{image}@1:/", "-f", f"{work}/tar")):
        bad(*words, mentions=["damaged"])
    other = images.make(f"{work}/other", "ext4")
    good("touch", f"{other}:/file")
    bad("cp", f"{other}:/file", image, mentions=["GPT partition table", "--force"])
    assert images.contents(image) == before


@pytest.mark.needs_root
def test_a_full_disk(work):
    """A GPT with an ESP and a root, both filled, and mounted by the host."""
    os.makedirs(f"{work}/boot/EFI/BOOT")
    images.write_noise(f"{work}/boot/EFI/BOOT/BOOTX64.EFI", 2)
    os.makedirs(f"{work}/system/etc")
    with open(f"{work}/system/etc/hostname", "w", encoding="ascii") as stream:
        stream.write("disk\n")
    image = disk(work, *DISK)
    good("mkfs", "vfat", f"{image}@1", "--label", "ESP", "--from", f"{work}/boot", notes=LOSSES)
    good("mkfs", "swap", f"{image}@2", "--label", "SWAP")
    good("mkfs", "ext4", f"{image}@3", "--label", "root", "--from", f"{work}/system",
         "--owner", "0:0")
    verify(image)
    host.run("fsck.fat", "-n", part(work, 1, image))
    assert "SWAP" in host.run("blkid", "-p", part(work, 2, image)).stdout
    host.run("e2fsck", "-f", "-n", part(work, 3, image))
    if host.may_mount():
        entry = table(image)["partitions"][2]
        with host.loop_mount(
                image, "ext4",
                f"ro,offset={entry['start'] * 512},sizelimit={entry['size'] * 512}") as directory:
            assert open(f"{directory}/etc/hostname", encoding="ascii").read() == "disk\n"
    bad("mkfs", "ext4", f"{image}@1", mentions=["vfat", "--force"])
    good("mkfs", "ext4", f"{image}@1", "--force")
    assert good("cat", f"{image}@3:/etc/hostname").out == "disk\n"
    bad("mkfs", "ext4", f"{image}@9", mentions=["9"])


# ---- fsck ----


@pytest.mark.parametrize("kind", FSCK)
def test_fsck_of_what_is_well(work, kind):
    image = f"{work}/x"
    good("mkfs", kind, image, "--size", "400M")
    tree = fill(work, image)
    before = contents(image)
    for option in ((), ("-n",)):
        done = run("fsck", *option, image)
        assert done.code == 0, str(done)
    assert contents(image) == before
    assert run("fsck", "-a", image).code == 0
    assert run("fsck", "-y", image).code in (0, 1)
    host.run(*FSCK[kind], image)
    same(work, image, tree)


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("place", ["image", "partition"])
def test_fsck_repairs(work, kind, place):
    plain = f"{work}/plain"
    good("mkfs", kind, plain, "--size", "400M")
    fill(work, plain)
    DAMAGE[kind](plain)
    image = plain
    if place == "partition":
        image = disk(work, "swap:10M", "linux:400M", "linux:rest")
        start = table(image)["partitions"][1]["start"]
        host.run("dd", f"if={plain}", f"of={image}", "bs=512", f"seek={start}",
                 "conv=notrunc,sparse", "status=none")
        image += "@2"
    file = image.partition("@")[0]
    before = contents(file)
    outside = open(file, "rb").read(start * 512) if place == "partition" else b""
    looked = run("fsck", image)
    assert looked.code == 4 and "-y" in looked.err, str(looked)
    assert contents(file) == before, "-n has changed something"
    bad("--ro", "fsck", "-y", image, code=8, mentions=["--ro"])
    mended = run("fsck", "-y", image)
    assert mended.code == 1, str(mended)
    assert run("fsck", image).code == 0
    host.run(*FSCK[kind], part(work, 2, file) if place == "partition" else image)
    if place == "partition":
        verify(file)
        assert ((open(file, "rb").read(start * 512) == outside)
                is True), "something outside of the partition changed"


@pytest.mark.needs_root
@pytest.mark.skipif(not host.may_mount(), reason="no loop devices here")
def test_fsck_of_a_partition_of_a_block_device(work):
    image = disk(work, "linux:64M", "linux:rest", size="200M")
    for number in (1, 2):
        good("mkfs", "ext4", f"{image}@{number}")
        fill(work, f"{image}@{number}")
    plain = part(work, 1, image)
    DAMAGE["ext4"](plain)
    host.run("dd", f"if={plain}", f"of={image}", "bs=512",
             f"seek={table(image)['partitions'][0]['start']}", "conv=notrunc", "status=none")
    before = contents(image)
    with host.loop_device(image) as device:
        looked = run("fsck", f"{device}@1")
        assert looked.code == 4 and f"{device}@1" in looked.out + looked.err, str(looked)
        assert contents(device) == before, "-n has changed something"
        assert run("fsck", f"{device}@2").code == 0
        assert run("fsck", "-y", f"{device}@1").code == 1
        assert run("fsck", f"{device}@1").code == 0
    for number in (1, 2):
        host.run(*FSCK["ext4"], part(work, number, image))
    verify(image)


@pytest.mark.needs_root
@pytest.mark.skipif(not host.may_mount(), reason="no loop devices here")
def test_fsck_of_a_block_device_in_use(work):
    image = images.make(f"{work}/x", "ext4", 64)
    with host.loop_device(image) as device:
        with host.mounted("mount", "-t", "ext4", device):
            bad("fsck", "-y", device, code=8, mentions=["in use"])
        assert run("fsck", "-y", device).code == 0


def dirty_xfs(work):
    """An XFS whose log has to be replayed: a copy of what is mounted."""
    image = images.make(f"{work}/x", "xfs", 320)
    with host.loop_mount(image, "xfs") as directory:
        with open(f"{directory}/file", "wb") as stream:
            stream.write(b"text\n")
        host.run("xfs_io", "-x", "-c", "shutdown -f", directory)
    return image


@pytest.mark.needs_root
def test_fsck_replays_the_log_of_xfs(work):
    host.require_mount("xfs")
    image = dirty_xfs(work)
    refused = run("fsck", "-y", image)
    assert refused.code == 4 and "--replay" in refused.err, str(refused)
    assert run("fsck", "--replay", "-y", image).code == 0
    host.run("xfs_repair", "-n", image)


@pytest.mark.parametrize("option, code", [("-n", 4), ("-a", 8), ("-y", 8), ("--replay", 8)])
def test_fsck_of_an_image_that_is_cut_off(work, option, code):
    """Checkers would write where its end was."""
    image = images.make(f"{work}/x", "ext4", 64)
    os.truncate(image, 40 * MEGABYTE)
    before = contents(image)
    bad("fsck", option, image, code=code, mentions=["it is cut off", str(64 * MEGABYTE)])
    assert contents(image) == before and os.path.getsize(image) == 40 * MEGABYTE


@pytest.mark.needs("mkntfs")
def test_an_ntfs_without_the_copy_of_its_boot_sector(work):
    image = images.make(f"{work}/x", "ntfs", 16)
    for missing, is_whole in ((512, True), (1024, False)):
        os.truncate(image, 16 * MEGABYTE - missing)
        assert ("cut off" not in run("fsck", "-n", image).err) == is_whole, missing


@pytest.mark.needs("mkfs.f2fs")
def test_an_f2fs_on_two_devices(work):
    """Its count of blocks is that of both: the first device is not cut off."""
    image, second = (host.sparse_file(f"{work}/{name}", 64 * MEGABYTE) for name in ("a", "b"))
    host.run("mkfs.f2fs", "-q", "-c", second, image)
    assert "cut off" not in run("fsck", "-n", image).err
    host.run("mkfs.f2fs", "-q", host.sparse_file(f"{work}/one", 64 * MEGABYTE))
    os.truncate(f"{work}/one", 60 * MEGABYTE)
    assert "cut off" in run("fsck", "-n", f"{work}/one").err


def test_the_journal_of_another_file_system(work):
    image = host.sparse_file(f"{work}/journal", 16 * MEGABYTE)
    host.run("mke2fs", "-q", "-O", "journal_dev", image)
    bad("ls", f"{image}:/", mentions=["the journal of an ext file system"])
    bad("fsck", image, code=8, mentions=["the journal of an ext file system"])


def test_fsck_of_what_it_cannot_check(work):
    bad("fsck", f"{work}/none", code=8, mentions=["none"])
    images.write_noise(f"{work}/noise", 1)
    bad("fsck", f"{work}/noise", code=8, mentions=["no file system"])
    good("mkfs", "udf", f"{work}/udf", "--size", "20M")
    bad("fsck", f"{work}/udf", code=8, mentions=["udf"])


def test_fsck_of_an_image_in_use(work):
    image = images.make(f"{work}/x", "ext4", 64)
    bad("fsck", "-y", image, code=8, mentions=["in use"], prefix=("flock", "-n", image))


# ---- resize ----


def made(work, kind, place, megabytes):
    """A file system of this size, as an image or as the second and last partition of one."""
    image = f"{work}/x"
    if place == "image":
        good("mkfs", kind, image, "--size", f"{megabytes}M")
        return image
    disk(work, "swap:10M", "linux:rest", size=f"{megabytes + 20}M", kind=place, name="x")
    good("mkfs", kind, f"{image}@2")
    return f"{image}@2"


@pytest.mark.parametrize("place,kind", pairs(["image", "gpt", "mbr"],
                                             ["ext4", "xfs", "btrfs", "ntfs", "f2fs"],
                                             "gpt", "ext4"))
def test_grow(work, kind, place):
    image = made(work, kind, place, 400)
    tree = fill(work, image)
    had = (document(good("part", f"{work}/x", "list", "--json"))["table"]["partitions"][1]["size"]
           if place != "image" else 400 * MEGABYTE)
    done = run("resize", image, "+200M")
    assert done.code == 0, str(done)
    check_resized(work, kind, place, image, had + 200 * MEGABYTE)
    same(work, image, tree)


def check_resized(work, kind, place, image, size):
    file = image.partition("@")[0]
    plain = file
    if place != "image":
        verify(file)
        plain = part(work, 2, file)
    assert abs(os.path.getsize(plain) - size) <= MEGABYTE
    host.run(*FSCK[kind], plain)
    info = document(good("info", "--json", plain))["disk"]
    text = json.dumps(info)
    has = document(good("info", "--json", plain))["disk"]
    has = has.get("filesystem") or has.get("content") or has
    assert size - 4 * MEGABYTE <= has["size"] <= size + MEGABYTE, text


@pytest.mark.parametrize("place,kind", pairs(["image", "gpt", "mbr"], ["ext4", "btrfs", "ntfs"],
                                             "gpt", "ext4"))
def test_shrink(work, kind, place):
    image = made(work, kind, place, 800)
    tree = fill(work, image)
    done = run("resize", image, "400M")
    assert done.code == 0, str(done)
    check_resized(work, kind, place, image, 400 * MEGABYTE)
    assert os.path.getsize(f"{work}/x") < 420 * MEGABYTE
    same(work, image, tree)


def test_as_small_and_as_large_as_can_be(work):
    image = disk(work, "linux:200M", "swap:10M")
    good("mkfs", "ext4", f"{image}@1")
    tree = fill(work, f"{image}@1")
    run("resize", f"{image}@1", "--min")
    verify(image)
    assert table(image)["partitions"][0]["size"] < 40 * 2048
    run("resize", f"{image}@1", "--max")
    verify(image)
    assert table(image)["partitions"][0]["size"] == 200 * 2048
    same(work, f"{image}@1", tree)
    bad("resize", f"{image}@1", "+10M", mentions=["another partition"])


def test_resize_refuses(work):
    image = f"{work}/x"
    good("mkfs", "ext4", image, "--size", "300M")
    tree = fill(work, image)
    bad("resize", image, "2M", mentions=["resize2fs"])
    host.run("e2fsck", "-f", "-n", image)
    same(work, image, tree)
    good("mkfs", "xfs", f"{work}/xfs", "--size", "400M")
    bad("resize", f"{work}/xfs", "300M", mentions=["xfs", "cannot shrink"])
    good("mkfs", "vfat", f"{work}/vfat", "--size", "40M")
    bad("resize", f"{work}/vfat", "80M", mentions=["vfat", "cp -a"])
    assert os.path.getsize(f"{work}/vfat") == 40 * MEGABYTE
    bad("resize", image, code=2)


@pytest.mark.parametrize("place", ["image", "gpt"])
def test_a_failed_growth_leaves_what_was_there(work, place):
    """ext4 of 32 bits and blocks of 1 KiB ends at 4 TiB."""
    image = f"{work}/x"
    if place != "image":
        disk(work, "linux:8M", "linux:64M", size="80M", name="x")
    name, words = (image, ("--size", "64M")) if place == "image" else (f"{image}@2", ())
    good("mkfs", "ext4", name, *words, "--", "-b", "1024", "-O", "^64bit")
    before = os.path.getsize(image)
    entries = None if place == "image" else by_sfdisk(image)
    bad("resize", name, "5T")
    assert os.path.getsize(image) == before
    if place != "image":
        verify(image)
        assert by_sfdisk(image) == entries
    good("fsck", name)
    good("resize", name, "100M")


@pytest.mark.needs("strace")
@pytest.mark.parametrize("place", ["image", "gpt"])
def test_a_growth_that_was_killed_takes_nothing_back(work, place):
    """The journal may have the growth, which the superblock has not yet: its room stays."""
    image = f"{work}/x"
    if place != "image":
        disk(work, "linux:8M", "linux:rest", size="400M", name="x")
    name, words = (image, ("--size", "320M")) if place == "image" else (f"{image}@2", ())
    good("mkfs", "xfs", name, *words)
    tree = fill(work, name)
    before = os.path.getsize(image)
    # The kernel's disk uses fdatasync(2), and nothing else here does.
    killing = ("strace", "-f", "-qq", "-o", f"{work}/trace", "-e", "trace=fdatasync",
               "-e", "inject=fdatasync:signal=KILL:when=1")
    done = run("resize", name, "500M", prefix=killing)
    assert done.code == 1 and os.path.getsize(image) > before, done
    assert "keeps the room" in done.err and "fsck --replay -y" in done.err, done
    assert run("fsck", "--replay", "-y", name).code in (0, 1)
    same(work, name, tree)
    good("resize", name, "500M")


def test_what_an_mbr_cannot_hold(work):
    bad("part", f"{work}/x", "create", "--table", "mbr", "--size", "4T",
        "linux:3T", code=2, mentions=("MBR", "2.0 TiB"))
    assert not os.path.exists(f"{work}/x")


@pytest.mark.parametrize(("kind", "size"), [("gpt", "9000000T"), ("mbr", "3T")])
def test_a_growth_that_cannot_begin_changes_nothing(work, kind, size):
    image = disk(work, "linux:10M", "linux:rest", size="40M", kind=kind)
    good("mkfs", "ext4", f"{image}@2")
    before = host.run("sha256sum", image).stdout
    bad("resize", f"{image}@2", size)
    assert host.run("sha256sum", image).stdout == before


def test_the_least_btrfs_is_told(work):
    good("mkfs", "btrfs", f"{work}/x", "--size", "300M")
    bad("resize", f"{work}/x", "200M", mentions=["256.0 MiB"])
    good("resize", f"{work}/x", "256M")
    assert os.path.getsize(f"{work}/x") == 256 * MEGABYTE


# ---- fstrim ----


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat"])
def test_fstrim(work, kind):
    image = f"{work}/x"
    good("mkfs", kind, image, "--size", "400M")
    images.write_noise(f"{work}/noise", 60)
    good("cp", f"{work}/noise", f"{image}:/noise")
    with_noise = os.stat(image).st_blocks * 512
    assert with_noise >= 60 * MEGABYTE
    # As a file system that was used without discards: the file goes, its blocks stay.
    with open(f"{work}/empty", "wb"):
        pass
    good("cp", f"{work}/empty", f"{image}:/noise")
    done = run("fstrim", image)
    assert done.code == 0 and "trimmed" in done.out, str(done)
    assert os.stat(image).st_blocks * 512 < with_noise - 50 * MEGABYTE, "the image did not shrink"
    host.run(*FSCK[kind], image)


def test_fstrim_of_large_pieces(work):
    """--minimum leaves free pieces that are smaller."""
    image = f"{work}/x"
    good("mkfs", "ext4", image, "--size", "64M")
    (kept,), (trimmed,) = (items(good("fstrim", "--json", *words, image))
                           for words in (("--minimum", "7M"), ()))
    # A group has 8 MB. The first one has the tables of inodes, too.
    assert 32 * MEGABYTE < kept["bytes"] < trimmed["bytes"]


def test_fstrim_of_what_cannot(work):
    good("mkfs", "minix", f"{work}/x", "--size", "20M")
    bad("fstrim", f"{work}/x", mentions=["minix"])
    bad("--ro", "fstrim", f"{work}/x", mentions=["--ro"])


@pytest.mark.needs("mkntfs", "ntfsresize", "ntfsfix")
def test_the_least_ntfs_has_the_copy_of_its_boot_sector(work):
    image = host.sparse_file(f"{work}/disk.img", 200 * MEGABYTE)
    host.run("mkntfs", "-q", "-F", image)
    good("resize", image, "--min")
    assert os.path.getsize(image) < 100 * MEGABYTE
    host.run("ntfsfix", "-n", image)
