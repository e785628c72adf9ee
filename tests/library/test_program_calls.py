# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel does for all threads of a program, or for all programs: membarrier, clocks
without a call, reboot.
"""

import os

import pytest

from library import test_capi as capi
from support import images


@pytest.fixture(name="inside")
def fixture_inside(work):
    return capi.compile_c(os.path.join(work, "calls"), ["program_calls_inside.c"], "-pthread",
                          "-static")


def run(work, *arguments, **variables):
    return capi.run_library_program(work, "program_cases_test", *arguments, **variables)


@pytest.mark.parametrize("vcpus, cases", (
    ("1", ("clocks",)), ("2", ("barriers", "clocks", "clocks_set"))))
def test_calls_of_programs(work, inside, vcpus, cases):
    run(work, vcpus, inside, *cases)


def test_clocks_after_a_snapshot(work, inside):
    cache = os.path.join(work, "cache")
    os.mkdir(cache, 0o700)
    saved = []
    for _ in range(2):
        run(work, "2", inside, "clocks", SNAPSHOTS=cache)
        saved.append([(entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(cache)
                      if entry.name.endswith(".snapshot")])
    # The second kernel has used what the first has saved: else it would have saved another one.
    assert saved[0] and saved[0] == saved[1]


def test_reboot_ends_programs(work, inside):
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    image = images.make_ext4_of(os.path.join(work, "disk.img"), tree)
    writers = capi.compile_c(os.path.join(work, "inside"), ["program_inside.c"], "-pthread",
                             "-static")
    capi.run_library_program(work, "program_reboot_test", image, writers, inside)
    capi.check_ext4(image)
