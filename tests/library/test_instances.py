# SPDX-License-Identifier: GPL-2.0-only
"""Several kernels in one process, and boots after halts."""

import os
import sys

import pytest

from library.test_capi import LIBRARIES, library_program, run, run_library_program

# The C library has little thread-local storage left for a library that is loaded at run time.
LOADED_AT_RUN_TIME = """
import ctypes, sys

MOST, GETPID = int(sys.argv[2]), 39
library = ctypes.CDLL(sys.argv[1])
library.ob_boot_error_on.restype = ctypes.c_char_p
instances = []
for number in range(MOST):
    instance = ctypes.c_void_p()
    assert library.ob_instance_new(ctypes.byref(instance)) == 0
    assert library.ob_boot_on(instance, None) == 0, library.ob_boot_error_on(instance)
    instances.append(instance)
for instance in instances:
    assert library.ob_syscall_on(instance, GETPID) > 0
for instance in instances:
    assert library.ob_halt_on(instance) == 0
    assert library.ob_instance_free(instance) == 0
"""


def test_a_thousand_boots(work):
    run_library_program(work, "instance_test", "again", "1000", timeout=900)


def test_boots_while_others_call(work):
    run_library_program(work, "instance_test", "busy", "200", timeout=600)


def test_starts_from_a_snapshot_while_others_call(work):
    directory = os.path.join(work, "snapshots")
    os.mkdir(directory, mode=0o700)
    run_library_program(work, "instance_test", "busy", "100", directory, timeout=600)


def test_two_kernels_exchange_data(work):
    run_library_program(work, "instance_test", "data")


@pytest.mark.parametrize("static", [False, True])
def test_sixteen_instances(work, static):
    program = library_program(work, "instance_test.c", "client.c", static=static)
    run(program, "many", "16", LD_LIBRARY_PATH=LIBRARIES)


def test_instances_take_turns(work):
    run_library_program(work, "instance_test", "turns", "50", timeout=600)


def test_child_has_none_of_them(work):
    run_library_program(work, "instance_test", "fork")


def test_boots_from_a_snapshot(work):
    directory = os.path.join(work, "snapshots")
    os.mkdir(directory, mode=0o700)
    run_library_program(work, "instance_test", "snapshot", directory)


def test_spoilt_snapshots_leave_nothing(work):
    directory = os.path.join(work, "snapshots")
    os.mkdir(directory, mode=0o700)
    run_library_program(work, "instance_test", "spoilt", directory)


def test_refused_boots_leave_nothing(work):
    run_library_program(work, "instance_test", "refused")


def test_bad_handles(work):
    run_library_program(work, "instance_test", "bad")


@pytest.mark.needs("gdb")
def test_gdb_has_the_names_of_all(work):
    program = library_program(work, "instance_test.c", "client.c")
    commands = ("handle SIGURG SIGSEGV nostop noprint pass", "break end", "run",
                "thread apply all backtrace")
    options = [word for command in commands for word in ("-ex", command)]
    said = run("gdb", "-q", "-nx", "-batch", "-iex", "set auto-load no", *options, "--args",
               program, "data", LD_LIBRARY_PATH=LIBRARIES, DEBUGINFOD_URLS="")
    places = {line.split()[1] for line in said.splitlines() if " in ob_carrier_main ()" in line}
    assert len(places) == 2, said


def test_library_loaded_at_run_time(work):
    path = os.path.join(work, "program.py")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(LOADED_AT_RUN_TIME)
    run(sys.executable, path, os.path.join(LIBRARIES, "liboutboard.so"), "16")
