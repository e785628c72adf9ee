# SPDX-License-Identifier: GPL-2.0-only
"""Python's multiprocessing, whose children are forks of a process that has a kernel."""

import os
import sys

from test_capi import LIBRARIES, run

PROGRAM = """
import ctypes, multiprocessing, os, sys

library = ctypes.CDLL(sys.argv[1])
GETPID, ENODEV = 39, 19

def in_child(number):
    assert library.ob_syscall(GETPID) == -ENODEV, "the parent's kernel is not the child's"
    assert library.ob_boot(None) == 0, library.ob_boot_error()
    assert library.ob_syscall(GETPID) > 0
    assert library.ob_halt() == 0
    return number

library.ob_boot_error.restype = ctypes.c_char_p
assert library.ob_boot(None) == 0, library.ob_boot_error()
context = multiprocessing.get_context("fork")
with context.Pool(4, maxtasksperchild=1) as pool:
    assert pool.map(in_child, range(8), chunksize=1) == list(range(8))
assert library.ob_syscall(GETPID) > 0
assert library.ob_halt() == 0
"""


def test_multiprocessing(work):
    path = os.path.join(work, "program.py")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(PROGRAM)
    run(sys.executable, path, os.path.join(LIBRARIES, "liboutboard.so"))
