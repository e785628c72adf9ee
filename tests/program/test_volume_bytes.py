# SPDX-License-Identifier: GPL-2.0-only
"""The bytes of volumes: cat and cp of a partition or another volume, whatever is on it."""

import os
import re
import subprocess
import time

import pytest

from support import host, images, json_output, luks, program
from support.images import MEGABYTE, contents
from support.program import bad, good, run

# Where the partitions are, in MiB.
FIRST, SECOND, SIZE = 1, 33, 32


@pytest.fixture
def ext4(work):
    """A file system of SIZE MiB with a megabyte of noise."""
    images.write_few_files(f"{work}/tree")
    return images.make_ext4_of(f"{work}/inner.img", f"{work}/tree", SIZE)


@pytest.fixture
def disk(work, ext4):
    """A disk with an ext4 and an empty partition."""
    script = f"label: gpt\nstart={FIRST}MiB, size={SIZE}MiB\nstart={SECOND}MiB, size={SIZE}MiB\n"
    return images.partitioned(f"{work}/disk.img", script, {FIRST * 2048: ext4}, 80)


def part_of(disk, start, size=SIZE):
    with open(disk, "rb") as stream:
        stream.seek(start * MEGABYTE)
        return stream.read(size * MEGABYTE)


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def is_same(left, right):
    """pytest must not show how these differ."""
    return left == right


def send(data, *words):
    return subprocess.run(program.command(*words), input=data, capture_output=True,
                          check=False, timeout=120)


def allocated(path):
    return os.stat(path).st_blocks * 512


def test_bytes_to_standard_output(work, disk, ext4):
    assert is_same(good("cat", f"{disk}@1").raw, read(ext4))
    twice = good("cat", f"{disk}@1", f"{disk}@1:/noise", f"{disk}@2").raw
    assert is_same(twice, read(ext4) + read(f"{work}/tree/noise") + bytes(SIZE * MEGABYTE))
    assert is_same(good("cp", f"{disk}@1", "-").raw, read(ext4))
    bad("cat", f"{disk}@3", mentions=("no partition 3", "1, 2"))
    bad("cat", f"{disk}@none", mentions=("no volume none",))
    bad("cat", disk, code=2, mentions=("not a place in an image",))


def test_a_copy_keeps_holes(work, disk, ext4):
    before = contents(disk)
    part = f"{work}/part.img"
    shown = good("cp", "-v", f"{disk}@1", part).out
    assert shown == f"'{disk}@1' -> '{part}'\n"
    assert is_same(read(part), read(ext4))
    assert allocated(part) < allocated(ext4) + MEGABYTE < SIZE * MEGABYTE / 2
    assert contents(disk) == before
    host.run("e2fsck", "-f", "-n", part)


def test_a_volume_is_overwritten(work, disk, ext4):
    table, before = part_of(disk, 0, 1), part_of(disk, FIRST)
    done = good("cp", ext4, f"{disk}@2")
    assert not done.out
    assert is_same(part_of(disk, SECOND), read(ext4)) and is_same(part_of(disk, FIRST), before)
    assert is_same(part_of(disk, 0, 1), table)
    assert is_same(good("cat", f"{disk}@2:/noise").raw, read(f"{work}/tree/noise"))


def test_zeros_overwrite_what_was_there(work, disk, ext4):
    """Also where the source has holes."""
    noise = images.write_noise(f"{work}/noise", SIZE)
    good("cp", noise, f"{disk}@2")
    assert is_same(part_of(disk, SECOND), read(noise))
    good("cp", ext4, f"{disk}@2")
    assert is_same(part_of(disk, SECOND), read(ext4))
    assert allocated(disk) < 2 * SIZE * MEGABYTE * 3 / 4, "zeros became holes"


def test_sizes_are_checked_before_the_first_byte(work, disk):
    large = images.write_noise(f"{work}/large", SIZE)
    with open(large, "ab") as stream:
        stream.write(b"x")
    before = contents(disk)
    message = ("nothing was written", f"{SIZE * MEGABYTE + 1} bytes", f"{SIZE * MEGABYTE} bytes")
    bad("cp", large, f"{disk}@2", mentions=message)
    with open(large, "rb") as stream:
        done = subprocess.run(program.command("cp", "-", f"{disk}@2"),
                              stdin=stream, capture_output=True, check=False)
    assert done.returncode == 1 and b"nothing was written" in done.stderr
    assert contents(disk) == before
    done = send(read(large), "cp", "-", f"{disk}@2")
    assert done.returncode == 1 and b"too large" in done.stderr and b"overwritten" in done.stderr


def test_a_smaller_source_leaves_the_rest(work, disk):
    noise = images.write_noise(f"{work}/noise", SIZE)
    good("cp", noise, f"{disk}@2")
    with open(f"{work}/small", "wb") as stream:
        stream.write(b"small" * 1000)
    done = run("cp", f"{work}/small", f"{disk}@2")
    assert done.code == 0 and f"{SIZE * MEGABYTE - 5000} bytes) were left" in done.err, done
    assert is_same(part_of(disk, SECOND), b"small" * 1000 + read(noise)[5000:])
    done = send(b"pipe", "cp", "-", f"{disk}@2")
    assert done.returncode == 0 and is_same(part_of(disk, SECOND)[:6], b"pipels")


def test_what_is_no_volume_needs_force(work, disk):
    """Somebody has forgotten ":/"."""
    with open(f"{work}/notes", "wb") as stream:
        stream.write(b"notes" * 1000)
    before = contents(disk)
    bad("cp", f"{work}/notes", f"{disk}@1", mentions=(f"{disk}@1:/", "ext4", "--force"))
    assert send(b"notes", "cp", "-", f"{disk}@1").returncode == 1
    bad("cp", f"{work}/tree", f"{disk}@1", mentions=("directory",))
    bad("cp", "-a", f"{work}/tree", f"{disk}@1", code=2, mentions=(f"{disk}@1:/",))
    assert contents(disk) == before
    assert run("cp", "--force", f"{work}/notes", f"{disk}@1").code == 0
    assert is_same(part_of(disk, FIRST)[:5], b"notes")


def test_files_of_worth_are_not_overwritten(work, disk, ext4):
    other = images.make(f"{work}/other.img", "ext2", 8)
    before = contents(other)
    bad("cp", f"{disk}@1", other, mentions=("ext2", "--force"))
    assert contents(other) == before
    bad("cp", f"{disk}@1", disk, mentions=("an image that this command uses",))
    good("cp", "--force", f"{disk}@1", other)
    assert is_same(read(other), read(ext4))
    bad("cp", f"{disk}@1", f"{work}/none/x", mentions=("No such file",))
    bad("cp", f"{disk}@7", f"{work}/new", mentions=("no partition 7",))
    assert not os.path.exists(f"{work}/new")


def test_read_only_is_read_only(work, disk, ext4):
    before = contents(disk)
    bad("cp", "--ro", ext4, f"{disk}@2", mentions=("--ro",))
    assert contents(disk) == before


def test_between_volumes(work, disk, ext4):
    other = f"{work}/other.img"
    host.copy_sparse(disk, other)
    good("cp", f"{disk}@1", f"{other}@2")
    assert is_same(part_of(other, SECOND), read(ext4))
    good("cp", f"{disk}@1", f"{disk}@2")
    assert is_same(part_of(disk, SECOND), read(ext4)) and is_same(part_of(disk, FIRST), read(ext4))
    bad("cp", f"{disk}@1", f"{disk}@1", mentions=("the same volume",))


def test_a_volume_over_what_it_lies_in(work, ext4):
    """It would be overwritten while it is read."""
    inner = images.partitioned(f"{work}/table.img", "label: dos\nstart=2048, type=83\n",
                               {2048: ext4}, 80)
    disk = images.partitioned(f"{work}/outer.img", "label: gpt\nstart=2048, size=80MiB\n",
                              {2048: inner}, 100)
    before = images.contents(disk)
    bad("cp", f"{disk}@1@1", f"{disk}@1", mentions=[f"lies in {disk}@1", "--force"])
    assert images.contents(disk) == before
    told = run("cp", "--force", f"{disk}@1@1", f"{disk}@1")
    assert told.code == 0 and "overwritten while it is read" in told.err, str(told)
    assert good("ls", f"{disk}@1:/").out == good("ls", f"{ext4}:/").out


def test_in_a_script_with_files(work, disk, ext4):
    """File systems that are mounted are written and unmounted before their bytes are used."""
    with open(f"{work}/script", "w", encoding="ascii") as stream:
        stream.write(f"mkdir {disk}@1:/new\ncp {disk}@1 {work}/part.img\nls {disk}@1:/new\n"
                     f"cp {ext4} {disk}@1\nls {disk}@1:/new\n")
    done = run("run-script", f"{work}/script")
    assert done.code == 1 and "new: No such file" in done.err, done
    assert "new" in good("ls", f"{work}/part.img:/").out
    assert is_same(part_of(disk, FIRST), read(ext4))


@pytest.mark.needs("cryptsetup")
def test_what_is_encrypted(work, disk, ext4):
    key = f"{work}/key"
    with open(key, "w", encoding="ascii") as stream:
        stream.write("secret")
    volume = luks.make(f"{work}/luks.img", key, 8 * MEGABYTE)
    good("cp", volume, f"{disk}@2", notes=["were left as they were"])
    assert is_same(good("cat", f"{disk}@2").raw[:os.path.getsize(volume)], read(volume))
    small = images.make_ext4_of(f"{work}/small.img", f"{work}/tree", 8, "-b", "4096")
    keyed = ("--key-file", key)
    assert run(*keyed, "cp", "--force", small, f"{disk}@2").code == 0
    inner = good(*keyed, "cat", f"{disk}@2").raw
    assert is_same(inner[:8 * MEGABYTE], read(small))
    assert is_same(good(*keyed, "cat", f"{disk}@2:/noise").raw, read(f"{work}/tree/noise"))
    assert is_same(good("cat", f"{disk}@2").raw[:6], b"LUKS\xba\xbe")


@pytest.mark.needs("cryptsetup", "qemu-img")
def test_an_image_that_is_encrypted_as_a_whole(work, ext4):
    """Its bytes are the contents, and a key is needed: without one they are the file's."""
    key, other = f"{work}/key", f"{work}/other"
    for path, text in ((key, "secret"), (other, "wrong")):
        with open(path, "w", encoding="ascii") as stream:
            stream.write(text)
    before, raw, volume = read(ext4), f"{work}/luks.img", f"{work}/luks.qcow2"
    os.rename(ext4, raw)
    luks.encrypt(raw, key)
    host.run("qemu-img", "convert", "-O", "qcow2", raw, volume)
    keyed = ("--key-file", key)
    for image in (raw, volume):
        inner = good(*keyed, "cat", image).raw
        assert is_same(inner[:len(before)], before)
        out = f"{work}/out.img"
        good(*keyed, "cp", image, out)
        assert is_same(inner, read(out))
        os.unlink(out)
        for words in (("cat", image), ("cp", image, out)):
            bad(*words, mentions=("--key-file", f"{image}:/PATH"))
            bad("--key-file", other, *words, mentions=(image, "key"))
            assert not os.path.exists(out)
    end = json_output.end(run("cp", "--json", raw, f"{work}/out.img"))
    error, = end["errors"]
    assert error["kind"] == "key-needed" and error["path"] == raw
    # Other files still need a place.
    bad("cp", f"{work}/key", f"{work}/copy", code=2, mentions=("IMAGE:/PATH",))
    bad("cat", f"{work}/key", code=2, mentions=("is not a place",))


@pytest.mark.needs("qemu-img")
def test_in_other_formats(work, disk, ext4):
    image = f"{work}/disk.qcow2"
    host.run("qemu-img", "convert", "-O", "qcow2", disk, image)
    assert is_same(good("cat", f"{image}@1").raw, read(ext4))
    good("cp", ext4, f"{image}@2")
    host.run("qemu-img", "check", "-q", image)
    host.run("qemu-img", "convert", "-O", "raw", image, f"{work}/flat.img")
    assert is_same(part_of(f"{work}/flat.img", SECOND), read(ext4))
    before = contents(image)
    bad("cp", images.write_noise(f"{work}/large", SIZE + 1), f"{image}@2",
        mentions=("nothing was written",))
    assert contents(image) == before


def test_an_interrupted_copy_leaves_no_file(work, disk):
    """A reader that ends early, and a disk that is full."""
    reader = subprocess.Popen(program.command("cat", f"{disk}@1"), stdout=subprocess.PIPE)
    reader.stdout.read(100)
    reader.stdout.close()
    assert reader.wait(60) == 128 + 13
    if host.IS_ROOT and host.may_mount():
        with host.mounted("mount", "-t", "tmpfs", "-o", "size=100k", "none") as full:
            bad("cp", f"{disk}@1", f"{full}/part.img", mentions=("No space left",))
            assert not os.listdir(full)


def test_an_interrupted_copy_says_what_was_written(disk):
    """The pipe is open when the signal comes, and has nothing more."""
    with subprocess.Popen(program.command("cp", "--force", "-", f"{disk}@1"),
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdin.write(b"x" * (SIZE // 2 * MEGABYTE))
        running.stdin.flush()
        time.sleep(0.5)  # It waits for more by now.
        running.terminate()
        assert running.wait(60) == 128 + 15
        said = running.stderr.read().decode()
    assert re.search(r"interrupted: its first .* \([1-9]\d* bytes\) are overwritten", said), said


def test_no_json_among_the_data(disk):
    result = bad("cp", "--json", f"{disk}@1", "-", code=2, mentions=("standard output",))
    assert b'"kind":"usage"' in result.raw
