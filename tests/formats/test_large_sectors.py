# SPDX-License-Identifier: GPL-2.0-only
"""
Disks with sectors of 4096 bytes: their tables, and the contents of their partitions. The host's
tools make and check them on loop devices with such sectors; the distribution's kernel reads and
writes them in a virtual machine.
"""

import contextlib
import json
import os
import re
import struct

import pytest

from support import guest, host, images, luks
from support.images import MEGABYTE, contents, write_few_files
from support.json_output import document
from support.program import bad, good, run

LARGE = ("--sector-size", "4096")
CREATE = ("create", *LARGE)
# Types with their size in megabytes, and their makers on a device.
MADE = {"ext4": (20, images.MAKERS["ext4"]), "xfs": (300, images.MAKERS["xfs"]),
        "btrfs": (114, images.MAKERS["btrfs"]), "vfat": (40, ("mkfs.vfat",)),
        "exfat": (20, images.MAKERS["exfat"]), "ntfs": (20, images.MAKERS["ntfs"]),
        "f2fs": (64, ("mkfs.f2fs", "-q")), "udf": (20, ("mkudffs",))}
KEY = b"a secret"

pytestmark = [pytest.mark.needs_root,
              pytest.mark.skipif(not host.may_mount(), reason="no loop devices here")]


def device(image):
    return host.loop_device(image, *LARGE)


def listed(image):
    """Numbers, starts and sizes in bytes. Extended partitions are left out."""
    shown = document(good("part", image, "list", "--json"))["table"]
    assert shown["sector_size"] == 4096 and not shown["warnings"]
    return [(entry["number"], entry["start"], entry["size"]) for entry in shown["partitions"]
            if entry["type_id"] not in ("0x05", "0x0f")]


def by_host(image):
    with device(image) as name:
        table = json.loads(host.run("sfdisk", "--json", name).stdout)["partitiontable"]
    assert table["sectorsize"] == 4096
    return table


def listed_by_host(image):
    return [(int(entry["node"].rpartition("p")[2]), entry["start"] * 4096, entry["size"] * 4096)
            for entry in by_host(image)["partitions"] if entry["type"] not in ("5", "f")]


def verify(image):
    """Others find no fault with the table, and read the same in it."""
    with device(image) as name:
        assert "No errors" in host.run("sfdisk", "--verify", name).stdout
        assert "No problems found" in host.run("sgdisk", "-v", name).stdout
        host.run("parted", "-s", name, "print")
    assert listed(image) == listed_by_host(image)
    found = document(good("info", "--json", image))["disk"]
    assert found["sector_size"] == 4096 and not found["warnings"]
    assert "sectors of 4096 bytes" in good("part", image, "list").out


def place(image, number):
    return next((start, size) for other, start, size in listed(image) if other == number)


def partition(image, number):
    """A partition as a device."""
    start, size = place(image, number)
    return host.loop_device(image, *LARGE, "--offset", str(start), "--sizelimit", str(size))


def by_sfdisk(path, megabytes, script):
    """A disk by the host."""
    host.sparse_file(path, megabytes * MEGABYTE)
    with device(path) as name:
        host.run("sfdisk", "-q", name, input=script)
    return path


@contextlib.contextmanager
def mounted(image, number, kind):
    """The files of a partition, by the host's kernel if it knows the type; else None."""
    if not host.knows(kind):
        yield None
        return
    with (partition(image, number) as name,
          host.mounted("mount", "-t", kind, name) as directory):
        yield directory


def put(image, offset, source):
    with open(image, "r+b") as stream, open(source, "rb") as other:
        stream.seek(offset)
        stream.write(other.read())


def read(image, offset, length):
    with open(image, "rb") as stream:
        stream.seek(offset)
        return stream.read(length)


@pytest.fixture
def tree(work):
    return write_few_files(f"{work}/tree")


def works(image, kind, tree):
    """Our kernel writes and reads, and the checker finds nothing."""
    copied = run("cp", "-r", f"{tree}/.", f"{image}:/")
    assert copied.code == 0, str(copied)
    assert good("cat", f"{image}:/noise").raw == open(f"{tree}/noise", "rb").read()
    assert good("cat", f"{image}:/d/19").out == "19" * 1000
    if kind != "udf":
        checked = run("fsck", image)
        assert checked.code == 0, str(checked)


# ---- disks of others ----

@pytest.mark.parametrize("kind", MADE)
def test_a_file_system_of_the_host(work, tree, kind):
    """It was made on a device with such sectors; our kernel reads and writes it in a file."""
    megabytes, maker = MADE[kind]
    if not host.have(maker[0]):
        pytest.skip(f"the tool {maker[0]} is not installed")
    image = by_sfdisk(f"{work}/disk", megabytes + 30, f"label: gpt\n,9M\n,{megabytes}M\n,9M\n")
    assert listed(image) == listed_by_host(image)
    with partition(image, 2) as name:
        host.run(*maker, name)
    works(f"{image}@2", kind, tree)
    with mounted(image, 2, kind) as directory:
        assert directory is None or contents(f"{directory}/noise") == contents(f"{tree}/noise")


def test_logical_partitions(work, tree):
    """The contents of an MBR's partitions show the size of the sectors."""
    image = by_sfdisk(f"{work}/disk", 200, "label: dos\n,16M\n,32M\n,,E\n,20M\n,24M\n,\n")
    with device(image) as name:
        text = host.run("sfdisk", "--json", name).stdout
    sixth = next(entry for entry in json.loads(text)["partitiontable"]["partitions"]
                 if entry["node"].endswith("p6"))
    with host.loop_device(image, *LARGE, "--offset", str(sixth["start"] * 4096), "--sizelimit",
                          str(sixth["size"] * 4096)) as name:
        host.run(*images.MAKERS["ext4"], name)
    assert listed(image) == listed_by_host(image) and len(listed(image)) == 5
    works(f"{image}@6", "ext4", tree)
    good("mkfs", "vfat", f"{image}@5")
    assert struct.unpack("<H", read(image, place(image, 5)[0] + 11, 2)) == (4096,)
    before = contents(image)
    for words in (("delete", "1"), ("add", "linux:1M")):
        bad("part", image, *words, mentions=["sectors of 4096 bytes", "only a GPT"])
    bad("part", image, "create", "--force", "--table", "mbr", "linux:rest",
        mentions=["sectors of 4096 bytes", "only a GPT"])
    bad("resize", f"{image}@2", "+1M", mentions=["file system"])
    assert contents(image) == before


@pytest.mark.needs("cryptsetup")
@pytest.mark.parametrize("sector", ["512", "4096"])
@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_an_encrypted_partition(work, tree, sector, label):
    """File systems in it get the sectors of the disk, also if those of the layer are smaller."""
    with open(f"{work}/key", "wb") as stream:
        stream.write(KEY)
    made = luks.make(f"{work}/luks", f"{work}/key", 16 * MEGABYTE, "--sector-size", sector)
    size = os.path.getsize(made) // MEGABYTE
    image = by_sfdisk(f"{work}/disk", 100, f"label: {label}\n,9M\n,{size}M\n")
    put(image, 10 * MEGABYTE, made)
    assert listed(image) == listed_by_host(image)
    good("--key-file", f"{work}/key", "mkfs", "vfat", f"{image}@2")
    for name in ("noise", "d"):
        good("--key-file", f"{work}/key", "cp", "-r", f"{tree}/{name}", f"{image}@2:/")
    good("--key-file", f"{work}/key", "fsck", f"{image}@2")
    good("cp", f"{image}@2", f"{work}/part")
    volume = luks.decrypted(f"{work}/part", f"{work}/key")
    assert struct.unpack("<H", read(volume, 11, 2)) == (4096,)
    host.run("fsck.vfat", "-n", volume)


# ---- disks of ours ----

@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "vfat", "ntfs"])
def test_a_file_system_of_ours(work, tree, kind):
    image = f"{work}/disk"
    megabytes = MADE[kind][0]
    good("part", image, *CREATE, "--size", f"{megabytes + 20}M", "esp:9M,name=EFI,boot",
         "linux:rest,name=root fs")
    verify(image)
    first, second = by_host(image)["partitions"]
    assert (first["start"], first["size"], first["attrs"]) == (256, 9 * 256, "LegacyBIOSBootable")
    assert first["type"] == "C12A7328-F81F-11D2-BA4B-00A0C93EC93B" and first["name"] == "EFI"
    assert (second["start"], second["name"]) == (10 * 256, "root fs")
    assert second["size"] == (megabytes + 9) * 256
    good("mkfs", kind, f"{image}@2")
    works(f"{image}@2", kind, tree)
    with mounted(image, 2, kind) as directory:
        if directory:
            assert contents(f"{directory}/noise") == contents(f"{tree}/noise")
            host.run("touch", f"{directory}/theirs")
    if host.knows(kind):
        assert "theirs" in good("ls", f"{image}@2:/").out
    verify(image)


@pytest.mark.parametrize("suffix", ["qcow2", "vhd"])
def test_a_table_in_another_format(work, tree, suffix):
    image, raw = f"{work}/disk.{suffix}", f"{work}/disk"
    good("part", image, *CREATE, "--size", "60M", "linux:20M")
    good("mkfs", "ext4", f"{image}@1")
    works(f"{image}@1", "ext4", tree)
    if host.has_fuse():
        good("part", image, "add", "swap:rest")
        good("resize", f"{image}@1", "--min")
    host.run("qemu-img", "convert", "-O", "raw", image, raw)
    verify(raw)
    assert listed(raw) == listed(image)
    good("cat", f"{raw}@1:/noise")


def test_the_same_each_time(work):
    for name in ("a", "b"):
        good("part", f"{work}/{name}", *CREATE, "--size", "60M", "--reproducible", "esp:9M",
             "linux:rest")
    good("part", f"{work}/c", *CREATE, "--size", "60M", "esp:9M", "linux:rest")
    assert contents(f"{work}/a") == contents(f"{work}/b") != contents(f"{work}/c")
    verify(f"{work}/a")


@pytest.mark.parametrize("megabytes", [1, 4])
def test_small_disks(work, megabytes):
    image = f"{work}/disk"
    good("part", image, *CREATE, "--size", f"{megabytes}M", "linux:rest")
    verify(image)
    bad("part", image, "add", "linux:rest", mentions=["no room"])
    bad("part", f"{work}/less", *CREATE, "--size", "44K", "linux:rest", mentions=["less"])
    assert os.listdir(work) == ["disk"]


# ---- changes ----

def test_changes_keep_the_rest(work):
    """Other entries, their attributes and a hybrid MBR stay as the host has made them."""
    image = host.sparse_file(f"{work}/disk", 100 * MEGABYTE)
    with device(image) as name:
        host.run("sgdisk", "-n", "1:0:+20M", "-c", "1:one", "-A", "1:set:60", "-n", "2:0:+10M",
                 "-n", "3:0:+10M", "-t", "3:8200", "-h", "1", name)
    mbr = read(image, 0, 512)
    was = by_host(image)
    good("part", image, "delete", "2")
    good("part", image, "add", "linux:4M,name=new", "home:rest,name=last")
    assert read(image, 0, 512) == mbr
    found = by_host(image)
    assert found["id"] == was["id"]
    old = {entry["node"][-1]: entry for entry in was["partitions"]}
    new = {entry["node"][-1]: entry for entry in found["partitions"]}
    for number in "13":
        kept = dict(new[number], node=old[number]["node"])
        assert kept == old[number], number
    assert (new["2"]["name"], new["2"]["start"]) == ("new", old["2"]["start"])
    assert new["4"]["name"] == "last" and new["1"]["attrs"] == "GUID:60"
    assert listed(image) == listed_by_host(image)
    bad("part", image, "add", "linux:50M", mentions=["room for"])
    bad("part", image, "delete", "9", mentions=["no partition 9"])


def test_resize(work, tree):
    image = f"{work}/disk"
    good("part", image, *CREATE, "--size", "60M", "linux:20M", "linux:20M,name=last")
    for number in (1, 2):
        good("mkfs", "ext4", f"{image}@{number}")
    works(f"{image}@2", "ext4", tree)
    bad("resize", f"{image}@1", "+10M", mentions=["another partition"])
    for size in ("+30M", "--min", "40M", "--max"):
        good("resize", f"{image}@2", size)
        verify(image)
        assert good("cat", f"{image}@2:/d/19").out == "19" * 1000
        with partition(image, 2) as name:
            host.run("e2fsck", "-f", "-n", name)
    good("resize", f"{image}@1", "--min")
    assert by_host(image)["partitions"][1]["name"] == "last"
    verify(image)


def test_the_copy_is_used_and_restores_the_first(work):
    image = f"{work}/disk"
    good("part", image, *CREATE, "--size", "40M", "linux:20M")
    whole = listed(image)
    with open(image, "r+b") as stream:
        stream.seek(4096)
        stream.write(bytes(4096))
    found = document(good("part", image, "list", "--json"))["table"]
    assert found["sector_size"] == 4096 and "copy at the end" in found["warnings"][0]
    good("part", image, "add", "linux:5M")
    assert listed(image)[:1] == whole and len(listed(image)) == 2
    verify(image)
    with open(image, "r+b") as stream:
        for start in (4096, 40 * MEGABYTE - 4096):
            stream.seek(start)
            stream.write(bytes(4096))
    before = contents(image)
    bad("part", image, "add", "linux:5M", mentions=["damaged"])
    assert contents(image) == before


# ---- one table over another ----

def test_a_table_keeps_its_sectors(work):
    """No table for sectors of 512 bytes comes over one for larger ones without a word."""
    image = f"{work}/disk"
    good("part", image, *CREATE, "--size", "40M", "linux:20M")
    good("part", image, "create", "--force", "esp:5M", "linux:rest")
    verify(image)
    before = contents(image)
    bad("part", image, "create", "--force", "--table", "mbr", "linux:rest", mentions=["GPT"])
    bad("part", image, "create", "linux:rest", mentions=["--force"])
    bad("part", image, "create", "--force", "--sector-size", "2048", "linux:rest", code=2,
        mentions=["512 or 4096"])
    bad("part", f"{work}/new", "create", "--size", "40M", "--table", "mbr", *LARGE, "linux:rest",
        mentions=["GPT"])
    other = images.make(f"{work}/other", "ext4")
    good("touch", f"{other}:/file")
    bad("cp", f"{other}:/file", image, mentions=["GPT partition table", "--force"])
    bad("mkfs", "ext4", image, mentions=["exists"])
    assert contents(image) == before


@pytest.mark.parametrize("kind", ["gpt", "mbr"])
def test_sectors_change_with_the_table(work, kind):
    """What the old table leaves is found by nobody."""
    image = f"{work}/disk"
    good("part", image, "create", "--size", "40M", "--table", kind, "linux:20M")
    good("mkfs", "ext4", f"{image}@1")
    good("part", image, *CREATE, "--force", "linux:5M", "linux:30M")
    verify(image)
    marks = host.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE,OFFSET", image).stdout
    assert "gpt" not in marks, marks
    good("part", image, "create", "--force", "--sector-size", "512", "--table", kind, "linux:6M",
         "linux:20M", notes=["ext4 signature"])
    shown = document(good("part", image, "list", "--json"))["table"]
    assert shown["sector_size"] == 512 and not shown["warnings"]
    assert [entry["size"] for entry in shown["partitions"]] == [6 * MEGABYTE, 20 * MEGABYTE]
    assert "No errors" in host.run("sfdisk", "--verify", image).stdout
    with device(image) as name:
        marks = host.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE", name).stdout
    assert "gpt" not in marks, marks


@pytest.mark.parametrize("kind", ["ext4", "btrfs", "ntfs"])
def test_a_new_table_is_all_that_is_there(work, kind):
    """What the disk had before has no mark any more."""
    image = images.make(f"{work}/disk", kind)
    bad("part", image, *CREATE, "linux:rest", mentions=["--force"])
    good("part", image, *CREATE, "--force", "linux:rest")
    verify(image)
    marks = host.run("wipefs", "--no-act", "--noheadings", "--output", "TYPE", image).stdout
    assert kind not in marks, marks


def test_a_device(work, tree):
    """Its own sectors count: sfdisk writes the table there."""
    image = host.sparse_file(f"{work}/disk", 64 * MEGABYTE)
    with device(image) as name:
        for words in (("--table", "mbr", "linux:20M"), ("linux:30M",)):
            good("part", name, "create", "--force", *words, notes=["Re-reading"])
        good("mkfs", "ext4", f"{name}@1")
    verify(image)
    works(f"{image}@1", "ext4", tree)
    good("part", image, "add", "linux:10M")
    verify(image)


# ---- the distribution's kernel ----

def large_disk(image):
    """Words of QEMU for a disk with sectors of 4096 bytes."""
    return ("-drive", f"file={image},if=none,id=large,format=raw,cache=unsafe", "-device",
            "virtio-blk-pci,addr=0x1e,drive=large,logical_block_size=4096,physical_block_size=4096")


FILL = r"""
mkdir -p /mnt/x /dev/md
test $(cat /sys/block/vdb/queue/logical_block_size) = 4096
for part in 1 2 3 4 5; do
  echo place $part $(cat /sys/block/vdb/vdb$part/start) $(cat /sys/block/vdb/vdb$part/size)
done
fill() {
  mke2fs -q -t ext4 -F $1; mount -t ext4 $1 /mnt/x
  cp noise /mnt/x; echo $2 > /mnt/x/name; umount /mnt/x
}
fill /dev/vdb1 plain
lvm pvcreate -q /dev/vdb2; lvm vgcreate -q -s 1M vg0 /dev/vdb2
lvm lvcreate -q -y -Wn -Zn -n root -L 12M vg0; fill /dev/vg0/root root
lvm lvcreate -q -y -Wn -Zn -n boot -L 8M vg0
lvm vgchange -q -an vg0
mdadm -q --create /dev/md/both --run --homehost=box --name=both -l 1 -n 2 -e 1.2 --bitmap=none \
  /dev/vdb3 /dev/vdb4
mdadm -q --wait /dev/md/both || true
fill /dev/md/both both; mdadm -q --stop /dev/md/both
"""

CHECK = r"""
mkdir -p /mnt/x /dev/md
lvm vgchange -q -ay vg0
mdadm -q --assemble /dev/md/both /dev/vdb3 /dev/vdb4
for device in /dev/vdb1 /dev/vg0/root /dev/md/both; do
  e2fsck -f -n $device
  mount -t ext4 -o ro $device /mnt/x
  cmp /mnt/x/ours noise; cmp /mnt/x/noise noise; umount /mnt/x
  echo checked $device
done
mount -t btrfs -o ro /dev/vdb5 /mnt/x; cmp /mnt/x/ours noise; umount /mnt/x
lvm vgchange -q -an vg0; mdadm -q --stop /dev/md/both
"""


@pytest.mark.long
@pytest.mark.skipif(not guest.usable(), reason="no QEMU, kernel or tools for a guest")
@pytest.mark.timeout(600)
def test_layers_of_a_kernel_with_such_a_disk(work):
    image, noise = f"{work}/disk", images.write_noise(f"{work}/noise", 1)
    good("part", image, *CREATE, "--size", "260M", "linux:24M", "lvm:24M", "raid:24M", "raid:24M",
         "linux:rest")
    output = guest.run(FILL, [], [noise], options=large_disk(image))
    found = [map(int, words) for words in re.findall(r"place (\d+) (\d+) (\d+)", output)]
    assert [(number, start * 512, size * 512) for number, start, size in found] == listed(image)
    good("mkfs", "btrfs", f"{image}@5")
    good("mkfs", "vfat", f"{image}@vg0/boot")
    good("cp", f"{image}@vg0/boot", f"{work}/boot")
    assert struct.unpack("<H", read(f"{work}/boot", 11, 2)) == (4096,)
    volumes = {"@1": "plain", "@vg0/root": "root", "@both": "both"}
    for volume, says in volumes.items():
        assert good("cat", f"{image}{volume}:/name").out == f"{says}\n"
        good("cp", noise, f"{image}{volume}:/ours")
    good("cp", noise, f"{image}@5:/ours")
    assert guest.run(CHECK, [], [noise], options=large_disk(image)).count("checked ") == 3
