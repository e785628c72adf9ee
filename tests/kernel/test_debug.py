# SPDX-License-Identifier: GPL-2.0-only
"""The programs that race vCPUs, on a kernel that checks its locks and lists and waits at random
between the steps (DEBUG=1).

`tests/run --long` builds its smallest profile before. For the whole program, see docs/debugging.md.
"""

import os
import subprocess

import pytest

from library import test_capi as capi
from invariants import test_invariants as invariants
from support import program

LIBRARIES = os.path.join(capi.LIBRARIES, "base-debug")
RACES = [
    *((capi, "threads_test", (vcpus, 2000)) for vcpus in (1, 2, 16)),
    (capi, "interrupt_test", ()),
    (capi, "kernel_signals_test", ()),
    (capi, "exit_race_test", ()),
    (capi, "lockdep_test", ()),
    *((invariants, "handover_test", (vcpus,)) for vcpus in (1, 2, 8, 64)),
    (invariants, "eviction_test", ()),
]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not os.path.exists(LIBRARIES),
                       reason="make DEBUG=1 PROFILE=base library has not been run")
]


@pytest.mark.parametrize("owner,name,arguments", RACES,
                         ids=lambda value: getattr(value, "__name__", str(value)))
def test_race(work, owner, name, arguments):
    sources = [os.path.join(owner.HERE, f"{name}.c"), os.path.join(capi.HERE, "client.c")]
    path = capi.library_program(work, *sources)
    done = subprocess.run(
        [path, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=400,
        check=False, env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES, "OUTBOARD_LOG": "warning"})
    found = program.REPORT.search(done.stderr)
    assert not found, f"the kernel reports\n{done.stderr[found.start():][:6000]}"
    assert done.returncode == 0, (f"ended with {done.returncode}\n"
                                  f"{done.stdout[-1000:]}{done.stderr[-3000:]}")
