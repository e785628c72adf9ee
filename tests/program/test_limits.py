# SPDX-License-Identifier: GPL-2.0-only
"""Limits of the process (ulimit): one line names each, and a file too large is an error."""

import os
import subprocess

import pytest

import test_damage as damage
from support import host, images, program
from support.images import MEGABYTE
from support.program import bad, good

GIGABYTE = 1 << 30


def limited(*limits):
    return ("prlimit", *[f"--{limit}" for limit in limits])


@pytest.fixture
def image(work):
    """An image with a small file and a sparse one of a gigabyte."""
    tree = os.path.join(work, "tree")
    os.makedirs(tree)
    images.write_noise(f"{tree}/small", 5)
    host.sparse_file(f"{tree}/large", GIGABYTE)
    return images.make_ext4_of(f"{work}/disk.img", tree)


@pytest.mark.parametrize("limit, option", [
    (f"stack={64 << 10}", "ulimit -s"),
    (f"data={48 * MEGABYTE}", "ulimit -d"),
    (f"as={GIGABYTE}", "address space 1048576 KB (ulimit -v)"),
    (f"fsize={8 * MEGABYTE}", "files are limited to 8192 KB (ulimit -f)")])
def test_a_limit_that_is_too_low_is_named_in_one_line(image, limit, option):
    done = bad("ls", f"{image}:/", prefix=limited(limit), mentions=(option,))
    assert len(done.err.strip().splitlines()) == 1, done


# docs/using/options.md names these values as enough for each limit.
ENOUGH = (f"stack={512 << 10}", f"data={128 * MEGABYTE}", f"fsize={64 * MEGABYTE}",
          f"as={110 * 10**9}")


def test_limits_that_are_enough(work, image):
    """Each alone, and all together; also for a kernel that boots and for one that writes."""
    for limits in (*((limit,) for limit in ENOUGH), ENOUGH):
        prefix = limited(*limits)
        assert good("ls", f"{image}:/", prefix=prefix).out.split() == ["large", "lost+found",
                                                                       "small"]
        good("ls", f"{image}:/", prefix=prefix, OUTBOARD_SNAPSHOT="off")
    small = images.make(f"{work}/small.img", "ext4", 32)
    good("cp", f"{image}:/small", f"{small}:/", prefix=limited(*ENOUGH))


def test_a_soft_limit_of_the_stack_is_raised(image):
    good("ls", f"{image}:/", prefix=limited(f"stack={64 << 10}:{64 * MEGABYTE}"))


def test_a_file_that_becomes_too_large_is_an_error_of_writing(work, image):
    prefix = limited(f"fsize={128 * MEGABYTE}")
    good("cp", f"{image}:/small", f"{work}/small", prefix=prefix)
    bad("cp", f"{image}:/large", f"{work}/large", prefix=prefix,
        mentions=("large: File too large",))
    assert not os.path.exists(f"{work}/large")
    bad("mkfs", "ext4", f"{work}/new.img", "--size", "200M", prefix=prefix,
        mentions=("File too large",))
    assert sorted(os.listdir(work)) == ["disk.img", "small", "tree"]
    good("cp", f"{work}/small", f"{image}:/more", prefix=prefix)


def memory_of_kernel(process):
    """Bytes of the file that is a kernel's memory: where its last shared mapping ends in it."""
    ends = []
    with open(f"/proc/{process}/maps", encoding="utf-8") as lines:
        for place, rights, offset, *_ in map(str.split, lines):
            first, last = (int(end, 16) for end in place.split("-"))
            if rights == "rw-s":
                ends.append(int(offset, 16) + last - first)
    return max(ends)


def test_the_memory_of_a_commands_kernel_has_a_bound(image):
    """No image makes it use more than 2 GiB, on hosts that have more than four times as much."""
    command = program.command("cat", f"{image}:/large")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        try:
            # The program has its kernel, and waits for us to read on.
            assert running.stdout.read(1) == b"\0"
            assert 32 * MEGABYTE <= memory_of_kernel(running.pid) <= 2 * GIGABYTE
        finally:
            running.kill()


def test_a_program_without_memory_says_so(work):
    """A listing that needs more than the process may have ends with a message, not by SIGABRT."""
    place = damage.make_swollen(work, 64)
    bad("ls", f"{place}/many", prefix=limited(f"data={192 * MEGABYTE}"),
        mentions=("out of memory", "ulimit -d"))
