# SPDX-License-Identifier: GPL-2.0-only
"""Programs (ob_spawn) on a host that kills or stops their processes, has no room for more, or on
which the kernel halts in the middle of many of them.
"""

import os
import random

import pytest

from library import test_capi as capi
from support import images


@pytest.fixture(name="image")
def fixture_image(work):
    return images.make(os.path.join(work, "disk.img"), "ext4", 64)


@pytest.fixture(scope="module", name="inside")
def fixture_inside(tmp_path_factory):
    target = os.path.join(str(tmp_path_factory.mktemp("programs")), "inside")
    return capi.compile_c(target, ["program_inside.c"], "-pthread", "-static")


@pytest.mark.parametrize("vcpus", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_processes_that_the_host_kills_and_stops(work, image, inside, vcpus):
    capi.run_library_program(work, "program_killed_test", vcpus, image, inside)
    capi.check_ext4(image)


# The first halts when all are there, the others while they begin.
@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.long)
                                       for turn in range(1, 10))])
def test_halt_of_a_crowd(work, image, inside, turn):
    milliseconds = random.randint(1, 1500) if turn else 0
    print(f"halts after {milliseconds} ms")
    capi.run_library_program(work, "program_crowd_test", "2", image, inside, str(milliseconds))
    capi.check_ext4(image)


def test_host_without_room(work, inside):
    capi.run_library_program(work, "program_refused_test", inside)


@pytest.mark.long
def test_more_pages_than_the_host_has_mappings(work, inside):
    """The limit is vm.max_map_count: 65,530 runs of neighbouring pages."""
    capi.run_library_program(work, "program_cases_test", "2", inside, "scattered")


def test_hostile_programs_beside_others(work):
    hostile = capi.compile_c(os.path.join(work, "hostile"), ["hostile_inside.c"], "-pthread",
                             "-static")
    capi.run_library_program(work, "program_cases_test", "2", hostile, "unmapped", "jumps",
                             "many_threads")
