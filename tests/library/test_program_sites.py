# SPDX-License-Identifier: GPL-2.0-only
"""Rewritten system calls of programs: who looks at a program finds nothing of them."""

import os

import pytest

from library import test_capi as capi

# Each passes on any Linux.
CASES = ("registers", "handled", "restarted", "stepped", "segments", "bare", "moved", "unmapped",
         "replaced", "crowded", "copied", "debugged")


@pytest.fixture(name="inside")
def fixture_inside(work):
    return capi.compile_c(os.path.join(work, "sites"), ["sites_inside.c"], "-pthread", "-static")


def run(work, *arguments, **variables):
    return capi.run_library_program(work, "program_cases_test", *arguments, **variables)


def test_rewritten_calls(work, inside):
    run(work, "2", inside, "rewritten", *CASES)


def test_rewritten_calls_on_one_vcpu(work, inside):
    run(work, "1", inside, "rewritten", "handled", "copied", "debugged")


def test_calls_that_trap(work, inside):
    run(work, "2", inside, "trapping", "registers", "restarted", COMMAND_LINE="rewrite_calls=0")
