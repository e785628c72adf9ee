# SPDX-License-Identifier: GPL-2.0-only
"""A kernel with one vCPU and without Linux's locks (SMP=n): threads that meet in it, and what SMP
costs a call beside it.

`tests/run --long` builds both, in the smallest profile, before.
"""

import os
import subprocess

import pytest

from library import test_capi as capi
from invariants import test_invariants as invariants

LIBRARIES = os.path.join(capi.LIBRARIES, "base-up")
SMP_LIBRARIES = os.path.join(capi.LIBRARIES, "base")
PROGRAMS = [
    (capi, "threads_test", (1, 2000)),
    (capi, "signals_test", (1,)),
    (capi, "kernel_signals_test", ()),
    (capi, "exit_race_test", ()),
    (invariants, "binding_test", (1,)),
    (invariants, "handover_test", (1,)),
    (invariants, "eviction_test", ()),
]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not all(os.path.exists(os.path.join(path, "liboutboard.so"))
                for path in (LIBRARIES, SMP_LIBRARIES)),
        reason="make PROFILE=base library, and the same with SMP=n, have not been run")
]


@pytest.mark.parametrize("owner,name,arguments", PROGRAMS,
                         ids=lambda value: getattr(value, "__name__", str(value)))
def test_program(work, owner, name, arguments):
    sources = [os.path.join(owner.HERE, f"{name}.c"), os.path.join(capi.HERE, "client.c")]
    capi.run(capi.library_program(work, *sources), *map(str, arguments), timeout=120,
             LD_LIBRARY_PATH=LIBRARIES)


def instructions_of_null_call(program, libraries):
    done = subprocess.run([program, "21"], env={**os.environ, "LD_LIBRARY_PATH": libraries},
                          capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return next(
        int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("getppid "))


@pytest.mark.timeout(2000)
def test_null_call_costs_at_most_a_tenth_more(work):
    """Counted in instructions, which is the same each time; bench/run smp measures the time."""
    program = capi.library_program(work, os.path.join(capi.REPOSITORY, "bench", "instructions.c"))
    several = instructions_of_null_call(program, SMP_LIBRARIES)
    assert several <= 1.1 * instructions_of_null_call(program, LIBRARIES)
