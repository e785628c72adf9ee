# SPDX-License-Identifier: GPL-2.0-only
"""
Volume groups, RAID arrays and file systems on several disks. They are made by the distribution's
lvm, mdadm and mkfs.btrfs, under the distribution's kernel in a virtual machine, which also reads
what we wrote.
"""

import contextlib
import hashlib
import itertools
import os
import shutil
import struct
import subprocess
import time

import pytest

from support import guest, host, images, program
from support.images import MEGABYTE
from support.json_output import document
from support.program import bad, good, run

# The program prints this of arrays that lack a member.
DEGRADED = ("is degraded",)
pytestmark = [pytest.mark.skipif(not guest.usable(), reason="no QEMU, kernel or tools for a guest"),
              pytest.mark.timeout(1800)]

FILL = r"""
mkdir -p /mnt/x /dev/md
fill() {
  mke2fs -q -t ext4 -F $1; mount -t ext4 $1 /mnt/x
  cp noise /mnt/x; echo $2 > /mnt/x/name; umount /mnt/x
}
lv() { lvm lvcreate -q -y -Wn -Zn "$@"; }
"""

MAKE_GROUP = FILL + r"""
lvm pvcreate -q /dev/vdb /dev/vdc /dev/vdd
lvm vgcreate -q -s 1M vg0 /dev/vdb /dev/vdc /dev/vdd
lv -n root -L 12M vg0 /dev/vdb
lv -n striped -i 3 -I 16k -L 12M vg0
lv -n spread -l 50 vg0 /dev/vdb:60-79 /dev/vdc:60-79 /dev/vdd:60-69
lv --type raid1 -m 1 -n both -L 8M vg0 /dev/vdb /dev/vdc
lv --type raid5 -i 2 -I 64k -n five -L 12M vg0
lv --type mirror -m 1 --mirrorlog core -n mirror -L 8M vg0 /dev/vdb /dev/vdc
for name in root striped spread both five mirror; do fill /dev/vg0/$name $name; done
lvm lvcreate -q -y -s -n before -L 4M vg0/root /dev/vdb
mount -t ext4 /dev/vg0/root /mnt/x; echo changed > /mnt/x/name; cp noise /mnt/x/more; umount /mnt/x
lvm lvcreate -q -y --type thin-pool -Zy -L 16M --poolmetadatasize 2M -n pool vg0
lvm lvcreate -q -y -V 64M --thinpool pool -n thin vg0
fill /dev/vg0/thin thin
lvm lvcreate -q -y -s -kn -n thinbefore vg0/thin
mount -t ext4 /dev/vg0/thin /mnt/x; echo changed > /mnt/x/name; umount /mnt/x
lvm vgchange -q -an vg0
"""

# A RAID that is not in sync, and will not be for long.
MAKE_UNSYNCED = r"""
lvm pvcreate -q /dev/vdb /dev/vdc /dev/vdd
lvm vgcreate -q -s 4M vg0 /dev/vdb /dev/vdc /dev/vdd
lvm lvcreate -q -y -Wn -Zn --type raid5 -i 2 -I 64k \
  --minrecoveryrate 1k --maxrecoveryrate 1k -n five -L 720M vg0
mkdir -p /mnt/x
mke2fs -q -t ext4 -F -O ^has_journal /dev/vg0/five 40M; mount -t ext4 /dev/vg0/five /mnt/x
cp noise /mnt/x; cp noise /mnt/x/again; umount /mnt/x
lvm vgchange -q -an vg0
"""

# The names of logical volumes, and what their file `name` says.
LOGICAL = {"root": "changed", "striped": "striped", "spread": "spread",
           "both": "both", "five": "five", "mirror": "mirror",
           "before": "root", "thin": "changed", "thinbefore": "thin"}

CHECK = r"""
mkdir -p /mnt/x /dev/md
check() {
  mount -t ext4 -o ro $1 /mnt/x; test "$(cat /mnt/x/name)" = $2
  cmp /mnt/x/ours noise; cmp /mnt/x/noise noise; umount /mnt/x
  e2fsck -f -n $1; echo checked $2
}
"""

MAKE_ARRAYS = FILL + r"""
array() {
  name=$1; shift; mdadm -q --create /dev/md/$name --run --homehost=box --name=$name "$@"
  mdadm -q --wait /dev/md/$name || true
}
array one -l 1 -n 2 -e 1.2 --bitmap=none /dev/vdb /dev/vdc
array five -l 5 -n 3 -e 1.2 --bitmap=none /dev/vdd /dev/vde /dev/vdf
array six -l 6 -n 4 -e 1.1 --bitmap=none /dev/vdg /dev/vdh /dev/vdi /dev/vdj
array ten -l 10 -n 4 -e 1.0 --bitmap=none /dev/vdk /dev/vdl /dev/vdm /dev/vdn
array zero -l 0 -n 2 -e 1.2 /dev/vdo /dev/vdp
for name in one five six ten zero; do fill /dev/md/$name $name; mdadm -q --stop /dev/md/$name; done
mdadm -q --create /dev/md5 --run -l 1 -n 2 -e 0.90 --bitmap=none /dev/vdq /dev/vdr
mdadm -q --wait /dev/md5 || true
fill /dev/md5 old; mdadm -q --stop /dev/md5
array under -l 1 -n 2 -e 1.2 --bitmap=internal /dev/vds /dev/vdt
lvm pvcreate -q /dev/md/under; lvm vgcreate -q -s 1M vg1 /dev/md/under
lv -n data -L 12M vg1; fill /dev/vg1/data data
lvm vgchange -q -an vg1; mdadm -q --stop /dev/md/under
"""

# The name of each array, its members, and the contents of its file `name`.
ARRAYS = {
    "one": ("bc", "one"), "five": ("def", "five"), "six": ("ghij", "six"),
    "ten": ("klmn", "ten"), "zero": ("op", "zero"), "md5": ("qr", "old"),
    "vg1/data": ("st", "data"),
}

CHECK_ARRAYS = CHECK + r"""
assemble() {
  device=$1; shift; mdadm -q --assemble $device "$@"
  mdadm --detail $device | grep 'State : clean *$'
  mdadm --detail $device | grep "Active Devices : $#\$"
}
for a in "one /dev/vdb /dev/vdc" "five /dev/vdd /dev/vde /dev/vdf" \
         "six /dev/vdg /dev/vdh /dev/vdi /dev/vdj" \
         "ten /dev/vdk /dev/vdl /dev/vdm /dev/vdn" "zero /dev/vdo /dev/vdp"; do
  set -- $a; name=$1; shift; assemble /dev/md/$name "$@"; check /dev/md/$name $name
  # Parity and mirrors agree with the data.
  sync=/sys/block/$(basename $(readlink -f /dev/md/$name))/md
  if test -e $sync/sync_action; then
    echo check > $sync/sync_action; mdadm -q --wait /dev/md/$name || true
    test $(cat $sync/mismatch_cnt) = 0; echo consistent $name
  fi
  mdadm -q --stop /dev/md/$name
done
assemble /dev/md5 /dev/vdq /dev/vdr; check /dev/md5 old
assemble /dev/md/under /dev/vds /dev/vdt; lvm vgchange -q -ay vg1; check /dev/vg1/data data
"""


# ---- makers ----

def made_once(script: str, disks: str, megabytes: int) -> str:
    """A directory with what a guest has made, and the file `noise` that is in every file system. It
    is kept for later runs.
    """
    with open(guest.__file__, "rb") as stream:
        key = (
            hashlib.sha256(stream.read() + f"{script}{disks}{megabytes}".encode()).hexdigest()[:16])
    directory = os.path.join(os.environ["XDG_CACHE_HOME"], "volumes", key)
    if os.path.exists(directory):
        return directory
    partial = f"{directory}.{os.getpid()}"
    os.makedirs(partial)
    images.write_noise(f"{partial}/noise", 1)
    paths = [host.sparse_file(f"{partial}/{disk}", megabytes * MEGABYTE) for disk in disks]
    guest.run(script, paths, [f"{partial}/noise"])
    os.rename(partial, directory)
    return directory


@pytest.fixture(scope="session")
def group_made():
    return made_once(MAKE_GROUP, "bcd", 96)


@pytest.fixture(scope="session")
def arrays_made():
    return made_once(MAKE_ARRAYS, "bcdefghijklmnopqrst", 24)


class Disks:
    """Copies of images, which are the disks of one machine."""

    def __init__(self, made: str, work: str, names: str):
        self.made, self.work, self.names = made, work, names
        for name in [*names, "noise"]:
            host.copy_sparse(f"{made}/{name}", f"{work}/{name}")
        self.noise = f"{work}/noise"

    def path(self, name: str) -> str:
        return f"{self.work}/{name}"

    def place(self, disks: str, name: str, path: str) -> list:
        """The operand of a file in a volume, and what names the disks beside the first."""
        further = [word for disk in disks[1:] for word in ("--disk", self.path(disk))]
        return [*further, f"{self.path(disks[0])}@{name}:{path}"]

    def are_unchanged(self) -> bool:
        def same(name):
            return (host.run("cmp", self.path(name), f"{self.made}/{name}", ok=(0, 1)).returncode
                    == 0)
        return all(map(same, self.names))

    def holds(self, disks: str, name: str, says: str, *options) -> bool:
        """Whether a volume has the files that its maker has put there. Nothing changes."""
        with open(self.noise, "rb") as stream:
            noise = stream.read()
        found = [good("cat", *options, *self.place(disks, name, file), notes=DEGRADED).raw
                 for file in ("/name", "/noise")]
        return found == [f"{says}\n".encode(), noise]

    def write(self, disks: str, name: str):
        *further, place = self.place(disks, name, "/ours")
        good(*further, "cp", self.noise, place)


@pytest.fixture
def group(group_made, work):
    return Disks(group_made, work, "bcd")


@pytest.fixture
def arrays(arrays_made, work):
    return Disks(arrays_made, work, "bcdefghijklmnopqrst")


# ---- LVM ----

def test_logical_volumes_are_read(group):
    for name, says in LOGICAL.items():
        assert group.holds("bcd", f"vg0/{name}", says), name
    # Whichever disk is named first.
    assert group.holds("dbc", "vg0/five", "five")
    # Also where that disk has nothing of the volume.
    assert group.holds("dbc", "vg0/root", "changed")
    assert group.are_unchanged()


def test_names_of_logical_volumes(group):
    first, *others = (group.path(disk) for disk in "bcd")
    names = names_are_read_as_they_are_listed(
        first, "--ro", *(word for disk in others for word in ("--disk", disk)))
    assert "@vg0/root" in names


def test_logical_volumes_are_told(group):
    disks = ["--disk", group.path("c"), "--disk", group.path("d")]
    found = document(good("info", "--json", *disks, group.path("b")))["disk"]
    volumes = {volume["name"].rpartition("@")[2]: volume for volume in found["volumes"]}
    assert {f"vg0/{name}" for name in LOGICAL} == set(volumes)
    kinds = {name: volumes[f"vg0/{name}"]["details"] for name in LOGICAL}
    assert kinds == {"root": "linear", "striped": "striped", "spread": "linear",
                     "both": "raid1", "five": "raid5", "mirror": "mirror",
                     "before": "snapshot", "thin": "thin", "thinbefore": "thin"}
    assert volumes["vg0/thin"]["size"] == 64 * MEGABYTE
    assert group.are_unchanged()


def test_what_is_written_to_logical_volumes_is_read_by_linux(group):
    for name in LOGICAL:
        group.write("bcd", f"vg0/{name}")
    script = CHECK + "lvm vgchange -q -ay -K vg0\n" + "".join(f"check /dev/vg0/{name} {says}\n"
                                                              for name, says in LOGICAL.items())
    # Every leg of a RAID is as it should be, also as lvm sees it.
    script += (
        "dmsetup status | grep 'raid raid1 2 AA'; dmsetup status | grep 'raid raid5_ls 3 AAA'\n"
        "lvm vgchange -q -an vg0\n")
    said = guest.run(script, [group.path(disk) for disk in "bcd"], [group.noise])
    assert said.count("checked") == len(LOGICAL)


def test_bytes_of_logical_volumes(group):
    disks = ["--disk", group.path("c"), "--disk", group.path("d")]
    image, part = group.path("b"), f"{group.work}/part.img"
    good(*disks, "cp", f"{image}@vg0/five", part)
    assert os.path.getsize(part) == 12 * MEGABYTE
    host.run("e2fsck", "-f", "-n", part)
    with open(part, "rb") as stream:
        assert (good(*disks, "cat", f"{image}@vg0/five").raw == stream.read()) is True
    assert group.are_unchanged()
    good(*disks, "cp", part, f"{image}@vg0/striped")
    assert good(*disks, "cat", f"{image}@vg0/striped:/name").out == "five\n"
    bad(*disks, "cp", f"{image}@vg0/spread", f"{image}@vg0/five", mentions=["nothing was written"])
    bad(*disks, "cp", part, f"{image}@vg0/none", mentions=["no volume vg0/none"])


@pytest.mark.skipif(not host.has_fuse(), reason="no FUSE here")
def test_tools_work_on_logical_volumes(group):
    disks = ["--disk", group.path("c"), "--disk", group.path("d")]
    spread, five = f"{group.path('b')}@vg0/spread", f"{group.path('b')}@vg0/five"
    # It begins with the extents 60 to 79 of the first disk, of 1 MiB each, behind the metadata.
    host.run("debugfs", "-w", "-R", "clri <12>", f"{group.path('b')}?offset={61 * MEGABYTE}")
    looked = run(*disks, "fsck", spread)
    assert looked.code == 4, str(looked)
    mended = run(*disks, "fsck", "-y", spread)
    assert mended.code == 1, str(mended)
    assert "30.0 MiB" in good(*disks, "resize", spread, "30M").out
    assert "50.0 MiB" in good(*disks, "resize", spread, "--max").out
    bad(*disks, "mkfs", "ext4", five, mentions=["ext4", "--force"])
    good(*disks, "mkfs", "--force", "ext4", five)
    bad(*disks, "fsck", f"{group.path('b')}@vg0/pool", code=8, mentions=["vg0/pool"])
    with open(f"{group.work}/name", "w", encoding="ascii") as stream:
        stream.write("ours\n")
    for name in (spread, five):
        good(*disks, "rm", "-f", f"{name}:/noise", f"{name}:/name")
        good(*disks, "cp", group.noise, f"{group.work}/name", f"{name}:/")
        good(*disks, "cp", group.noise, f"{name}:/ours")
        assert run(*disks, "fsck", name).code == 0
    script = (CHECK
              + "lvm vgchange -q -ay -K vg0\ncheck /dev/vg0/spread ours\ncheck /dev/vg0/five ours\n"
              "lvm vgchange -q -an vg0\n")
    assert (guest.run(script, [group.path(disk) for disk in "bcd"], [group.noise]).count("checked")
            == 2)


def test_a_missing_physical_volume(group):
    """Volumes that do not need it can be read, and so can a RAID with enough members."""
    assert group.holds("b", "vg0/root", "changed")
    assert group.holds("b", "vg0/both", "both")
    assert group.holds("bd", "vg0/five", "five")
    for disks, name in (("b", "striped"), ("bc", "spread"), ("b", "five"), ("b", "thin")):
        bad("ls", *group.place(disks, f"vg0/{name}", "/"), mentions=(name, "missing", "--disk"))
    result = bad("ls", *group.place("bc", "vg0/spread", "/"),
                 mentions=("/dev/vdd", "missing", "--disk"))
    assert "/dev/vdc" not in result.err
    bad(*group.place("bd", "", "")[:-1], "cp", group.noise, f"{group.path('b')}@vg0/five:/x",
        mentions=("missing", "--ro"))
    assert group.are_unchanged()


def test_one_machine_for_many_commands(group):
    """Volumes of one group in one script, read and written, by a copy from one to another."""
    script = f"{group.work}/script"
    image = group.path("b")
    with open(script, "w", encoding="ascii") as stream:
        stream.write(
            f"ls {image}@vg0/root:/\ncp {image}@vg0/five:/noise {image}@vg0/striped:/copy\n"
            f"cat {image}@vg0/thin:/name\n")
    done = good("--disk", group.path("c"), "--disk", group.path("d"), "run-script", script)
    assert done.out.endswith("changed\n")
    assert (good("cat", *group.place("bcd", "vg0/striped", "/copy")).raw
            == good("cat", *group.place("bcd", "vg0/root", "/noise")).raw)


def test_physical_volumes_in_other_formats_and_partitions(group):
    """One is a qcow2 image, two are partitions of one disk."""
    work = group.work
    host.run("qemu-img", "convert", "-O", "qcow2", group.path("c"), f"{work}/c.qcow2")
    table = "label: gpt\nstart=2048, size=196608\nstart=200704, size=196608\n"
    images.partitioned(f"{work}/disk", table, {2048: group.path("b"), 200704: group.path("d")})
    place = f"{work}/disk@vg0/spread:/name"
    assert good("cat", "--disk", f"{work}/c.qcow2", place).out == "spread\n"
    good("--disk", f"{work}/c.qcow2", "cp", group.noise, f"{work}/disk@vg0/five:/new")
    assert (good("--disk", f"{work}/c.qcow2", "cat", f"{work}/disk@1@vg0/five:/new").raw
            == good("cat", *group.place("bcd", "vg0/five", "/noise")).raw)


@pytest.mark.parametrize("damage", ["text", "header", "label", "endless"])
def test_damaged_metadata(group, damage):
    """Nothing is opened by a text that is not as it was written."""
    image = group.path("b")
    with open(image, "r+b") as stream:
        start = stream.read(MEGABYTE)
        places = {"text": start.rindex(b"extent_size"), "header": 4096 + 40,
                  "label": 512 + 100, "endless": 4096 + 48}
        stream.seek(places[damage])
        stream.write(b"\xff" * 8)
    result = run("ls", f"{image}@vg0/root:/")
    assert result.code == 1 and result.err, str(result)


def test_volumes_of_one_pool_are_written_in_one_session(group):
    """Writes to one volume do not undo writes to the other."""
    names = ("thin", "thinbefore", "root", "before")
    image, script = group.path("b"), f"{group.work}/script"
    with open(script, "w", encoding="ascii") as stream:
        stream.writelines(f"cp {group.noise} {image}@vg0/{name}:/ours\n" for name in names)
    good("--disk", group.path("c"), "--disk", group.path("d"), "run-script", script)
    with open(group.noise, "rb") as stream:
        noise = stream.read()
    for name in names:
        assert good("cat", *group.place("bcd", f"vg0/{name}", "/ours")).raw == noise, name


@pytest.fixture(scope="session")
def unsynced_made():
    return made_once(MAKE_UNSYNCED, "bcd", 392)


def test_a_raid_that_is_not_in_sync_is_read(unsynced_made, work):
    """Its driver begins to synchronise at once, in memory: there must be room for as long as it is
    read.
    """
    disks = Disks(unsynced_made, work, "bcd")
    with open(disks.path("b"), "r+b") as image:
        # Synchronising would have to write parity of the data behind the file system.
        image.seek(60 * MEGABYTE)
        piece = os.urandom(MEGABYTE)
        for _ in range(300):
            image.write(piece)
    *further, first = disks.place("bcd", "vg0/five", "/noise")
    script = f"cat {first}\ncat {disks.path('b')}@vg0/five:/again\n".encode()
    words = program.command("--ro", *further, "run-script", "-")
    with (open(f"{work}/log", "w+b") as log,
          subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                           env={**os.environ, "OUTBOARD_LOG": "info"}) as running):
        running.stdin.write(script)
        running.stdin.close()
        # It waits for somebody to read what the first one says.
        time.sleep(8)
        found = running.stdout.read()
        assert running.wait(60) == 0
        log.seek(0)
        said = log.read().decode()
    with open(disks.noise, "rb") as stream:
        assert found == 2 * stream.read()
    assert "not clean" in said and "Disk failure" not in said


def test_a_lost_snapshot_is_told(group):
    """There is too little room for what an origin was, once so much of it is overwritten."""
    *further, place = group.place("bcd", "vg0/root", "/large")
    images.write_noise(f"{group.work}/large", 6)
    bad(*further, "cp", f"{group.work}/large", place, mentions=("before", "no more room", "lost"))
    bad("ls", *group.place("bcd", "vg0/before", "/"), mentions=("before", "lost"))
    # A volume that is only read needs no snapshots.
    assert good("cat", *group.place("bcd", "vg0/root", "/name")).out == "changed\n"


# ---- RAID ----

def test_arrays_are_read(arrays):
    for name, (disks, says) in ARRAYS.items():
        assert arrays.holds(disks, name, says), name
    assert arrays.are_unchanged()


def test_degraded_arrays_are_read(arrays):
    for name, disks, says in (("one", "c", "one"), ("five", "fd", "five"),
                              ("six", "ji", "six"), ("ten", "ln", "ten"), ("md5", "r", "old"),
                              ("vg1/data", "t", "data")):
        assert arrays.holds(disks, name, says), name
        assert "degraded" in run("cat", *arrays.place(disks, name, "/name")).err
    assert arrays.are_unchanged()


def test_arrays_with_too_few_members(arrays):
    for name, disks in (("five", "d"), ("six", "g"), ("ten", "kl"), ("zero", "o")):
        bad("ls", *arrays.place(disks, name, "/"), mentions=(name,))
    bad("ls", *arrays.place("d", "five", "/"), mentions=("1 of 3", "--disk"))
    assert arrays.are_unchanged()


def test_a_forgotten_disk_is_not_made_old(arrays):
    for name, disks in (("one", "b"), ("five", "de"), ("vg1/data", "s")):
        further = arrays.place(disks, name, "/ours")
        bad(*further[:-1], "cp", arrays.noise, further[-1], mentions=("--disk", "--ro"))
    assert arrays.are_unchanged()


def test_what_is_written_to_arrays_is_read_by_linux(arrays):
    """Members agree, the arrays are clean, and have lost no member."""
    for name, (disks, _) in ARRAYS.items():
        arrays.write(disks, name)
    said = guest.run(CHECK_ARRAYS, [arrays.path(disk) for disk in arrays.names], [arrays.noise])
    assert said.count("checked") == len(ARRAYS)
    assert said.count("consistent") == 4


def test_what_is_not_written_is_not_started(arrays):
    """An array with a bitmap would have changed members as soon as it ran."""
    further = [word for disk in "cst" for word in ("--disk", arrays.path(disk))]
    good(*further, "cp", arrays.noise, f"{arrays.path('b')}@one:/ours")
    for disk in "st":
        host.run("cmp", arrays.path(disk), f"{arrays.made}/{disk}")
    for disk in "bc":
        assert host.run("cmp", arrays.path(disk), f"{arrays.made}/{disk}", ok=(1,))


def member_of_a_mirror(path, label, roles, number, events, name="pair"):
    """A disk with a file system and a superblock of version 1.2 that says what it knows of a
    mirror.
    """
    start, size = 2048, 16 * MEGABYTE // 512
    host.sparse_file(path, 24 * MEGABYTE)
    host.run("mke2fs", "-q", "-F", "-t", "ext4", "-E", f"offset={start * 512}",
             "-L", label, path, "16M")
    block = bytearray(256 + 2 * len(roles))
    for offset, form, value in ((0, "<I", 0xa92b4efc), (4, "<I", 1),
                                (16, "16s", bytes(range(16))),
                                (32, "32s", f"host:{name}".encode()), (72, "<i", 1),
                                (80, "<Q", size), (92, "<I", 2), (128, "<Q", start),
                                (136, "<Q", size),
                                (144, "<Q", 8), (160, "<I", number),
                                (168, "16s", bytes([number] * 16)),
                                (200, "<Q", events), (208, "<Q", 2**64 - 1),
                                (220, "<I", len(roles)), (256, f"<{len(roles)}H", roles)):
        struct.pack_into(form, block, offset, *(value if isinstance(value, tuple) else (value,)))
    total = sum(struct.unpack(f"<{len(block) // 4}I", block))
    struct.pack_into("<I", block, 216, (total + (total >> 32)) & 0xffffffff)
    with open(path, "r+b") as stream:
        stream.seek(4096)
        stream.write(block)
    return path


def test_old_members_are_not_opened_alone(work):
    """A member that left the mirror has old contents: it must not become an array of its own.
    """
    new = member_of_a_mirror(f"{work}/new", "NEW", (0, 0xfffe), 0, 40)
    old = member_of_a_mirror(f"{work}/old", "OLD", (0, 1), 1, 20)
    for disks, known in (((new, old), ["NEW"]), ((old, new), [])):
        result = run("info", "--json", "--disk", disks[1], disks[0])
        assert result.code == 0, str(result)
        labels = [volume["filesystem"]["label"] for volume in document(result)["disk"]["volumes"]
                  if volume["filesystem"]]
        assert labels == known, result.out
        assert result.err.count("went on without it") == 1, result.err
    assert run("ls", "--disk", old, f"{new}@pair:/").out == "lost+found\n"
    bad("ls", "--disk", new, f"{old}:/", mentions=("old member of pair",))


def own_uuid(path, number):
    """Gives the array of a member an identity of its own."""
    with open(path, "r+b") as stream:
        stream.seek(4096)
        block = bytearray(stream.read(260))
        block[16] = 100 + number
        block[216:220] = bytes(4)
        total = sum(struct.unpack("<65I", block))
        struct.pack_into("<I", block, 216, (total + (total >> 32)) & 0xffffffff)
        stream.seek(4096)
        stream.write(block)
    return path


def names_are_read_as_they_are_listed(image, *options):
    """Each name of info leads commands to the file system that info shows beside it."""
    listed = document(good(*options, "info", "--json", image, notes=DEGRADED))["disk"]["volumes"]
    listed = [volume for volume in listed if volume["filesystem"]]
    for volume in listed:
        name, uuid = volume["name"], volume["filesystem"]["uuid"]
        rows = document(good(*options, "df", "--json", f"{name}:/", notes=DEGRADED))["filesystems"]
        assert [row["volume"] for row in rows] == [name]
        found = document(good(*options, "info", "--json", name, notes=DEGRADED))["disk"]["volumes"]
        assert [other["filesystem"]["uuid"] for other in found
                if other["name"] == name] == [uuid], name
    return [volume["name"][len(image):] for volume in listed]


@pytest.mark.parametrize("names,shown", [
    (("0", "1"), ["@md0", "@md1"]), (("1", "a@b"), ["@md1", "@a-b"]), (("2", "2"), ["@md2"]),
    (("x:/y", "vg0/root"), ["@x-y", "@vg0-root"])])
def test_names_of_arrays_mean_nothing_else(work, names, shown):
    """mdadm names arrays by their numbers, and a number is that of a partition."""
    members = [own_uuid(member_of_a_mirror(f"{work}/{number}", f"M{number}", (0, 0xfffe), 0, 40,
                                           name), number) for number, name in enumerate(names)]
    table = "label: gpt\nstart=2048, size=49152\nstart=53248, size=49152\n"
    disk = images.partitioned(f"{work}/disk", table, {2048: members[0], 53248: members[1]})
    listed = names_are_read_as_they_are_listed(disk)
    assert len(listed) == 2 and listed[:len(shown)] == shown
    for number, name in enumerate(listed):
        good("mkdir", f"{disk}{name}:/in{number}", notes=DEGRADED)
        assert f"in{number}" in good("ls", f"{disk}@{number + 1}:/", notes=DEGRADED).out


def test_a_copy_of_a_member_is_named(work):
    first = member_of_a_mirror(f"{work}/first", "A", (0, 1), 0, 40)
    second = member_of_a_mirror(f"{work}/second", "A", (0, 1), 0, 40)
    bad("--ro", "--disk", second, "ls", f"{first}:/",
        mentions=(first, second, "member 0", "a copy of"))


def test_members_are_not_mistaken_for_their_contents(arrays):
    """The file system of a mirror with its superblock at the end begins where the member does."""
    told = document(good("info", "--json", arrays.path("q"), notes=DEGRADED))["disk"]
    assert "md5" in [volume["name"].rpartition("@")[2] for volume in told["volumes"]]
    bad("cp", arrays.noise, f"{arrays.path('q')}:/x", mentions=("md5", "--disk"))
    assert arrays.are_unchanged()


def test_members_in_partitions(arrays):
    table = (
        "label: gpt\nstart=2048, size=49152\nstart=53248, size=49152\nstart=104448, size=49152\n")
    disk = f"{arrays.work}/disk"
    images.partitioned(disk, table,
                       {2048: arrays.path("d"), 53248: arrays.path("e"), 104448: arrays.path("f")})
    assert good("cat", f"{disk}:/name").out == "five\n"
    good("cp", arrays.noise, f"{disk}@five:/new")
    assert "new" in good("ls", f"{disk}@five:/").out


@pytest.mark.parametrize("at,magic,name", [
    (-1024, b"Intel Raid ISM Cfg Sig. ", "IMSM"), (-512, b"\xde\x11\xde\x11", "DDF")])
def test_raids_of_the_firmware_are_refused(work, at, magic, name):
    image = images.make(f"{work}/disk", "ext4")
    with open(image, "r+b") as stream:
        stream.seek(at, os.SEEK_END)
        stream.write(magic)
    bad("ls", f"{image}:/", mentions=(name,))


@pytest.mark.parametrize("offset", [0, 4, 72, 92, 144, 160, 200, 216, 220, 256])
def test_damaged_superblocks(arrays, offset):
    image = arrays.path("b")
    with open(image, "r+b") as stream:
        stream.seek(4096 + offset)
        stream.write(b"\xff" * 4)
    bad("ls", f"{image}@one:/")


# ---- btrfs ----

@pytest.fixture
def several(work):
    """A btrfs on three devices, each of which has a part of everything."""
    disks = [host.sparse_file(f"{work}/disk{number}", 160 * MEGABYTE) for number in range(3)]
    host.run("mkfs.btrfs", "-q", "-f", "-d", "raid0", "-m", "raid1", *disks)
    return disks


@contextlib.contextmanager
def loops(disks):
    """Loop devices of all disks, of which the host's btrfs has been told."""
    with contextlib.ExitStack() as stack:
        devices = [stack.enter_context(host.loop_device(disk)) for disk in disks]
        host.run("btrfs", "device", "scan", *devices)
        try:
            yield devices
        finally:
            host.run("btrfs", "device", "scan", "--forget", ok=None)


@pytest.mark.needs("mkfs.btrfs")
def test_btrfs_on_several_disks(several, work):
    images.write_noise(f"{work}/noise", 3)
    first, *others = several
    further = [word for disk in others for word in ("--disk", disk)]
    good(*further, "cp", f"{work}/noise", f"{first}:/noise")
    with open(f"{work}/noise", "rb") as stream:
        noise = stream.read()
    for disk in several:
        rest = [word for other in several if other != disk for word in ("--disk", other)]
        assert good(*rest, "cat", f"{disk}:/noise").raw == noise
    # Its tables are on two of the three: with any two of them names can be read, and of one file
    # what is there.
    for alone, *more in ([first], others):
        rest = [word for other in more for word in ("--disk", other)]
        bad(*rest, "cp", f"{work}/noise", f"{alone}:/more", mentions=("3 devices", "--disk"))
    good("--disk", others[0], "ls", f"{first}:/", notes=["3 devices, of which 2 are here"])
    bad("--disk", others[0], "cat", f"{first}:/noise", mentions=("noise",))
    host.require_mount("btrfs")
    check_with_the_host(several, f"{work}/noise")


@pytest.mark.needs("mkfs.btrfs")
def test_a_btrfs_that_lacks_a_device_is_read(work):
    images.write_noise(f"{work}/noise", 3)
    disks = [host.sparse_file(f"{work}/disk{number}", 160 * MEGABYTE) for number in range(2)]
    host.run("mkfs.btrfs", "-q", "-f", "-d", "raid1", "-m", "raid1", *disks)
    good("--disk", disks[1], "cp", f"{work}/noise", f"{disks[0]}:/noise")
    for disk in disks:
        host.run("cp", "--sparse=always", disk, f"{disk}.before")
    with open(f"{work}/noise", "rb") as stream:
        noise = stream.read()
    for disk in disks:
        read = good("cat", f"{disk}:/noise", notes=["2 devices, of which 1 are here"])
        assert read.raw == noise and "--disk" in read.err
        good("info", disk, notes=["2 devices, of which 1 are here"])
        bad("rm", f"{disk}:/noise", mentions=("2 devices", "--disk"))
        host.run("cmp", disk, f"{disk}.before")


@pytest.fixture
def clones(work):
    """A btrfs on two devices with a file, and a copy of both."""
    disks = [host.sparse_file(f"{work}/a{number}", 160 * MEGABYTE) for number in range(2)]
    host.run("mkfs.btrfs", "-q", "-f", "-d", "raid1", "-m", "raid1", *disks)
    good("--disk", disks[1], "mkdir", f"{disks[0]}:/first")
    for number, disk in enumerate(disks):
        host.run("cp", "--sparse=always", disk, f"{work}/b{number}")
    return (*disks, f"{work}/b0", f"{work}/b1")


@pytest.mark.needs("mkfs.btrfs")
def test_copies_of_a_btrfs_on_several_disks_are_told_apart(clones):
    """The kernel would take the devices of one for those of the other."""
    a0, a1, b0, b1 = clones
    before = [images.contents(disk) for disk in clones]
    bad("--disk", a1, "--disk", b1, "diff", f"{a0}:/", f"{b0}:/", code=2,
        mentions=("a copy of", "btrfstune"))
    good("--ro", "diff", f"{a0}:/", f"{b0}:/", notes=["2 devices, of which 1 are here"])
    bad("--disk", a1, "--disk", b1, "mkdir", f"{a0}:/x", mentions=(a1, b1, "a copy of"))
    assert [images.contents(disk) for disk in clones] == before
    good("--disk", b1, "mkdir", f"{b0}:/x")


@pytest.mark.needs("mkfs.btrfs")
def test_a_copy_of_a_btrfs_on_several_devices_is_read_beside_it(work, clones):
    """Each in one image. One of the two may be written, not both."""
    table = "label: gpt\nstart=2048, size=327680\nstart=329728, size=327680\n"
    old, new = (images.partitioned(f"{work}/{name}", table,
                                   {2048: f"{work}/{name}0", 329728: f"{work}/{name}1"}, 330)
                for name in "ab")
    before = images.contents(old)
    device, old, new = f"{old}@1", f"{old}@2", f"{new}@1"
    good("mkdir", f"{new}:/second")
    told = run("diff", f"{old}:/", f"{new}:/")
    assert told.code == 1 and told.out == f"Only in {new}:/: second\n", str(told)
    good("cp", "-r", f"{old}:/first", f"{new}:/second")
    assert good("find", f"{new}:/", "-printf", "%P ").out.split() == [
        "first", "second", "second/first"]
    assert images.contents(f"{work}/a") == before
    bad("mv", f"{old}:/first", f"{new}:/second/other", mentions=("a copy of", "btrfstune"))
    assert good("ls", f"{old}:/").out == "first\n"
    # The bytes of a device are its own.
    with open(f"{work}/script", "w", encoding="ascii") as stream:
        stream.write(f"ls {new}:/\nls {old}:/\ncp {device} {work}/bytes\n")
    good("run-script", f"{work}/script")
    host.run("cmp", f"{work}/bytes", f"{work}/a0")


@pytest.mark.needs("mkfs.btrfs")
def test_an_old_device_of_a_btrfs_is_left_out(clones):
    """Its files may be older than what the tables of the others say."""
    _, a1, b0, b1 = clones
    for name in ("x", "y", "z"):
        good("--disk", b1, "mkdir", f"{b0}:/{name}")
    before = images.contents(a1)
    bad("--disk", a1, "mkdir", f"{b0}:/w", mentions=(a1, "an old device", "of which 1 are here"))
    read = good("--ro", "--disk", a1, "ls", f"{b0}:/", notes=["an old device", "1 are here"])
    assert read.out.split() == ["first", "x", "y", "z"] and "an old device" in read.err
    assert images.contents(a1) == before


@pytest.mark.needs("mkfs.btrfs", "mkfs.xfs")
@pytest.mark.parametrize("kind", ["xfs", "btrfs", "ext4"])
def test_a_copy_is_compared_with_its_original(work, kind):
    """Both have the same UUID."""
    old = images.make(f"{work}/old", kind)
    good("mkdir", f"{old}:/same")
    shutil.copyfile(old, f"{work}/new")
    good("mkdir", f"{work}/new:/more")
    done = run("diff", f"{old}:/", f"{work}/new:/")
    assert done.code == 1 and "more" in done.out and "same" not in done.out, done
    good("cp", "-r", f"{work}/new:/more", f"{old}:/")
    good("mv", f"{work}/new:/same", f"{old}:/moved")
    assert {"more", "moved", "same"} <= set(good("ls", f"{old}:/").out.split())


@pytest.mark.needs("mkfs.btrfs")
def test_a_btrfs_with_raid6_is_read_without_any_two_devices(work):
    images.write_noise(f"{work}/noise", 3)
    disks = [host.sparse_file(f"{work}/disk{number}", 160 * MEGABYTE) for number in range(4)]
    host.run("mkfs.btrfs", "-q", "-f", "-d", "raid6", "-m", "raid1c3", *disks)
    further = [word for disk in disks[1:] for word in ("--disk", disk)]
    good(*further, "cp", f"{work}/noise", f"{disks[0]}:/noise")
    with open(f"{work}/noise", "rb") as stream:
        noise = stream.read()
    for first, second in itertools.combinations(disks, 2):
        read = good("--disk", second, "cat", f"{first}:/noise", notes=["2 are here"])
        assert read.raw == noise
        assert "4 devices, of which 2 are here" in read.err


def check_with_the_host(disks, noise):
    with loops(disks) as devices, host.mounted("mount", "-t", "btrfs",
                                               "-o", "ro", devices[0]) as directory:
        assert host.run("cmp", noise, f"{directory}/noise").returncode == 0
        assert "no errors found" in host.run("btrfs", "scrub", "start",
                                             "-B", "-r", directory).stdout


# ---- --disk ----

def test_disks_that_are_not_there(work):
    image = images.make(f"{work}/plain", "ext4")
    bad("--disk", f"{work}/none", "ls", f"{image}:/", mentions=(f"{work}/none",))
    # A disk that has nothing to do with it does no harm.
    other = images.make(f"{work}/other", "ext4")
    assert "lost+found" in good("--disk", other, "ls", f"{image}:/").out
    # It is named twice.
    assert "lost+found" in good("--disk", image, "ls", f"{image}:/").out
