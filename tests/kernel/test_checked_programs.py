# SPDX-License-Identifier: GPL-2.0-only
"""Programs (ob_spawn) in kernels that check themselves, and in one without SMP: locks and states
with delays at random (DEBUG=1), KASAN and UBSAN, SMP=n. No report is allowed.

`tests/run --long` builds these kernels, in the smallest profile, before. They have no sockets, and
so no filters of system calls: those run in the shipped kernel alone.
"""

import os
import subprocess

import pytest

from library import test_capi as capi
from support import modules, program

# With the numbers of vCPUs.
VARIANTS = {
    "base-debug": ("1", "2", "4"),
    "base-asan-ubsan": ("1", "4"),
    modules.DEBUG_SUITES: ("2",),
    "base-up": ("1",),
}
# The program of the host, the one inside, and the cases.
PROGRAMS = {
    "programs": ("program_test", "program_inside", ()),
    "traced": ("program_cases_test", "traced_inside", capi.CASES["traced"]),
    "calls": ("program_cases_test", "program_calls_inside", ("barriers", "clocks", "clocks_set")),
    "hostile": ("program_cases_test", "hostile_inside", ("unmapped", "jumps")),
}

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("variant,vcpus",
                         [(variant, vcpus) for variant, all_of_it in VARIANTS.items()
                          for vcpus in all_of_it])
def test_programs(work, variant, vcpus, name):
    if not modules.is_built(variant):
        pytest.skip(f"tests/run --long {variant} has not been run")
    outside, inside, cases = PROGRAMS[name]
    path = capi.library_program(work, f"{outside}.c", "client.c")
    inside = capi.compile_c(os.path.join(work, "inside"), [f"{inside}.c"], "-pthread", "-static")
    done = subprocess.run([path, vcpus, inside, *cases], capture_output=True, text=True,
                          errors="replace", timeout=800, check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": modules.libraries_of(variant),
                               "OUTBOARD_LOG": "warning"})
    found = program.REPORT.search(done.stderr)
    assert not found, f"the kernel reports\n{done.stderr[found.start():][:6000]}"
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
