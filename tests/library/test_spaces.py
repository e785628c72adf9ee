# SPDX-License-Identifier: GPL-2.0-only
"""The group spaces of the POSIX platform, without a kernel: user code in stub processes."""

import pytest

from library import test_capi as capi

# Threads of the stubs are no threads of the program, so the thread sanitizer finds nothing there.
SANITIZERS = [capi.PLAIN, "address"]


def program(directory, name, sanitizer, *others):
    sources = (name, *others, "space_bed.c", "platform_bed.c")
    return capi.platform_program(directory, sources, sanitizer)


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_spaces(work, sanitizer):
    capi.run(program(work, "space_test.c", sanitizer))


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_calls_by_jumps(work, sanitizer):
    capi.run(program(work, "space_call_test.c", sanitizer))


# The tracer watches a process that is no child of its own.
@pytest.mark.needs_root
@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("name", ["hostile", "forged"])
def test_hostile_programs(work, name, sanitizer):
    capi.run(program(work, f"space_{name}_test.c", sanitizer, "space_tracer.c"))


@pytest.mark.long
@pytest.mark.needs_root
@pytest.mark.timeout(7200)
def test_every_jump_with_every_call(work):
    capi.run(program(work, "space_hostile_test.c", "plain", "space_tracer.c"), "long", timeout=7000)
