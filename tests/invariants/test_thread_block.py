# SPDX-License-Identifier: GPL-2.0-only
"""A coroutine may go on with another host thread than the one it left: no address in thread-local
storage may outlive a switch (V1). An address is made from the thread pointer, which is at %fs:0: no
code of the architecture loads that.
"""

import glob
import os
import re

from library import test_capi as capi

OBJECTS = os.path.join(capi.OUT, "kernel", "full", "arch", "outboard")

FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
THREAD_POINTER = re.compile(r"%fs:0x0(?![(\w])")


def users(path: str) -> set:
    function, found = "", set()
    for line in capi.run("objdump", "-d", "--no-show-raw-insn", path).splitlines():
        named = FUNCTION.match(line)
        if named:
            function = named[1]
        elif THREAD_POINTER.search(line):
            found.add(function)
    return found


def test_v1_no_address_in_the_thread_block():
    objects = [
        path for path in glob.glob(os.path.join(OBJECTS, "**", "*.o"), recursive=True)
        if "built-in" not in path
    ]
    assert len(objects) > 40
    found = {name for path in objects for name in users(path)}
    assert not found, found


def test_address_is_found(work):
    """The pattern fits what the compiler makes of an address."""
    source, program = os.path.join(work, "address.c"), os.path.join(work, "address.o")
    with open(source, "w", encoding="ascii") as stream:
        stream.write('extern __thread int x __attribute__((tls_model("initial-exec")));\n'
                     'int *address(void) { return &x; }\n')
    capi.run("gcc", "-O2", "-fpic", "-c", "-o", program, source)
    assert users(program) == {"address"}
