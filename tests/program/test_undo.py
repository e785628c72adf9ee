# SPDX-License-Identifier: GPL-2.0-only
"""What fsck has repaired in a partition's private copy comes into the image wholly or not at all, whenever the command is killed."""

import os
import re
import shutil
import subprocess

import pytest

from support import host, images, program

CALLS = "pwrite64,write,fallocate,fsync,ftruncate,unlink"
LOG = ".outboard-undo"
SIZE = 32


@pytest.fixture
def disk(work):
    """A partition with an ext4 that lacks some inodes and all bitmaps, and room that only a hole has."""
    tree = images.write_few_files(f"{work}/tree")
    whole = images.make_ext4_of(f"{work}/whole", tree, SIZE)
    for command in ("clri <13>", "clri <15>", "freeb 4000 2", "ssv free_blocks_count 1"):
        host.run("debugfs", "-w", "-R", command, whole)
    return images.partitioned(f"{work}/disk", f"label: gpt\nstart=2048, size={SIZE * 2048}\n", {2048: whole}, SIZE + 4)


def traced(work, disk, *options, tool=("fsck", "-y")):
    """Only the command itself is traced, not its tools."""
    trace = f"{work}/trace"
    done = subprocess.run(["strace", "-o", trace, "-e", f"trace={CALLS},openat", "-s", "0", *options,
                           *program.command(*tool, f"{disk}@1")], capture_output=True, check=False, timeout=600)
    with open(trace, encoding="utf-8", errors="replace") as stream:
        return done, stream.read().splitlines()


def steps(lines):
    """How often each call is made from the log's creation to the end: (call, which one)."""
    count, found, begun = {}, [], False
    for line in lines:
        call = re.match(r"\w+", line)
        if not call:
            continue
        count[call[0]] = count.get(call[0], 0) + 1
        begun |= call[0] == "openat" and LOG in line and "O_EXCL" in line
        if begun and call[0] != "openat":
            found.append((call[0], count[call[0]]))
    return found


def settle(disk):
    """Has the next command that writes open the image: it changes nothing itself."""
    return program.bad("part", disk, "delete", "99", mentions=("no partition 99",))


def is_clean(work, disk):
    host.run("dd", f"if={disk}", f"of={work}/part", "bs=1M", "skip=1", f"count={SIZE}", "status=none")
    return host.run("e2fsck", "-f", "-n", f"{work}/part", ok=None).returncode == 0


def chosen(found):
    """All steps at both ends, and some of the many in between."""
    middle = found[6:-6]
    return found[:6] + middle[::max(1, len(middle) // 5)] + found[-6:]


@pytest.fixture
def repaired(work, disk):
    """The image before a repair, and the steps of that. What comes after differs in times."""
    before, kept = images.contents(disk), shutil.copyfile(disk, f"{work}/kept")
    done, lines = traced(work, disk)
    assert done.returncode == 1, done.stderr
    found = steps(lines)
    assert {"pwrite64", "fsync", "unlink"} <= {call for call, _ in found}, found
    assert not os.path.exists(disk + LOG)
    assert is_clean(work, disk)
    return kept, before, found


@pytest.mark.needs("strace", "debugfs")
def test_killed_at_every_step(work, disk, repaired):
    kept, before, found = repaired
    undone = 0
    for call, number in chosen(found):
        shutil.copyfile(kept, disk)
        done, _ = traced(work, disk, "-e", f"inject={call}:signal=KILL:when={number}")
        assert done.returncode in (-9, 137), (call, number, done)
        has_log, now = os.path.exists(disk + LOG), images.contents(disk)
        assert has_log or now == before or is_clean(work, disk), (call, number)
        if has_log:
            listed = program.run("ls", f"{disk}@1:/")
            # Without a complete log nothing was changed.
            assert listed.code == 0 and now == before or "cut off half-way" in listed.err and "fsck -y" in listed.err, listed
            said = settle(disk).err
            undone += "undone" in said
            assert images.contents(disk) == before, (call, number)
        left = [name for name in os.listdir(work) if name.startswith("disk") or name.startswith(".")]
        for name in left:
            if name != "disk":
                assert name.startswith(".outboard-"), "only the private copy may stay after SIGKILL"
                shutil.rmtree(f"{work}/{name}")
    assert undone >= 3
    program.run("fsck", "-y", f"{disk}@1")
    assert is_clean(work, disk)


@pytest.mark.needs("strace", "debugfs")
def test_an_error_at_every_step(work, disk, repaired):
    """The host's file system is full, say: all is as it was, at once."""
    kept, before, found = repaired
    last = [step for step in found if step[0] == "fsync"][-1]
    for call, number in chosen([step for step in found if step[0] in ("pwrite64", "write", "fsync")]):
        shutil.copyfile(kept, disk)
        done, _ = traced(work, disk, "-e", f"inject={call}:error=ENOSPC:when={number}")
        if done.returncode == 1:  # nothing was lost: what failed is no change of the image
            assert is_clean(work, disk), (call, number)
            continue
        assert done.returncode == 8 and b"No space left" in done.stderr, (call, number, done)
        assert not os.path.exists(disk + LOG), (call, number)
        # When the last one fails nothing is left to undo.
        assert images.contents(disk) == before or (call, number) == last and is_clean(work, disk), (call, number)


@pytest.mark.needs("strace", "debugfs")
def test_a_log_of_another_state_is_refused(work, disk, repaired):
    kept, _, found = repaired
    shutil.copyfile(kept, disk)
    writes = [step for step in found if step[0] == "pwrite64"]
    call, number = writes[len(writes) // 2]
    traced(work, disk, "-e", f"inject={call}:signal=KILL:when={number}")
    with open(disk, "r+b") as stream:
        stream.seek(1 << 20)
        stream.write(b"x" * (SIZE << 20))
    now = images.contents(disk)
    program.bad("part", disk, "delete", "99", mentions=("changed by something else since", LOG, "remove"))
    assert images.contents(disk) == now
    os.unlink(disk + LOG)
    settle(disk)


@pytest.mark.needs("strace")
def test_what_a_tool_wrote_in_place_is_synced(work):
    """It may not have done that itself."""
    image, trace = images.make(f"{work}/whole", "ext4"), f"{work}/trace"
    host.run("strace", "-y", "-o", trace, "-e", "trace=fsync", *program.command("fsck", "-y", image), ok=(0, 1))
    with open(trace, encoding="utf-8", errors="replace") as stream:
        assert any(line.startswith("fsync(") and image in line for line in stream)
