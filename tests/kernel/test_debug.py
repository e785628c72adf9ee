# SPDX-License-Identifier: GPL-2.0-only
"""The programs that race vCPUs, on a kernel that checks its locks, lists and states, and waits at
random between the steps (DEBUG=1).

`tests/run --long` builds its smallest profile before. For the whole program, see docs/debugging.md.
"""

import os
import subprocess

import pytest

from library import test_capi as capi
from invariants import test_invariants as invariants
from support import program

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = os.path.join(capi.LIBRARIES, "base-debug")
RACES = [
    *((capi, "threads_test", (vcpus, 2000)) for vcpus in (1, 2, 16)),
    (capi, "interrupt_test", ()),
    (capi, "process_test", ("4",)),
    (capi, "process_bounds_test", ("4",)),
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


# The first function to be called, what a debugger changes there, and what the kernel then says.
WRONG = {
    "vcpu": ("ob_evict", "*(unsigned long *)($rdi + 16) = 1",
             "a vCPU's state changes from 0x4 to 0x2 in ob_evict"),
    "idle": ("ob_idle_begin", "*(unsigned long *)($rdi + 24) = 0",
             "the watch of a vCPU changes from 0x0 to 0x1 in ob_idle_begin"),
    "away": ("ob_evict", "$rdx = 8", "a task's word `away` changes from 0x0 to 0x8 in ob_evict"),
}


@pytest.mark.needs("gdb")
@pytest.mark.parametrize("function,change,message", WRONG.values(), ids=WRONG)
def test_wrong_change_of_a_state_panics(work, function, change, message):
    """The debugger writes a word that the tables of vcpu.h, idle.c and evict.c do not have."""
    path = capi.library_program(work, os.path.join(HERE, "state_test.c"),
                                os.path.join(capi.HERE, "client.c"))
    commands = ["set width 0", "handle SIGURG SIGSEGV nostop noprint pass", "break booted", "run",
                f"tbreak *{function}", "continue", f"set {change}", "continue"]
    done = subprocess.run(
        ["env", "DEBUGINFOD_URLS=", "gdb", "-q", "-nx", "-batch", "-iex", "set auto-load no",
         *(word for command in commands for word in ("-ex", command)), path],
        capture_output=True, text=True, errors="replace", timeout=300, check=False,
        env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES})
    assert f"kernel panic: {message}" in done.stderr + done.stdout, done.stdout + done.stderr
