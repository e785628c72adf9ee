# SPDX-License-Identifier: GPL-2.0-only
"""The tables between kernel images and hosts: what an interface version has once had stays where it
is.

`interface.txt` is the record. After a change that its version allows (a new member at the end of a
table or a group), or with a new version, write it again:

    gcc -Ihypercall/include tests/library/interface_test.c && ./a.out >tests/library/interface.txt
"""

import os

from library import test_capi as capi

RECORD = os.path.join(capi.HERE, "interface.txt")


def test_members_stay_where_they_are(work):
    program = capi.compile_c(os.path.join(work, "interface"), ["interface_test.c"],
                             "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))
    now = capi.run(program).splitlines()
    with open(RECORD, encoding="ascii") as stream:
        recorded = stream.read().splitlines()
    moved = [line for line in recorded if line not in now]
    assert not moved, f"a kernel or host of {recorded[0]} would not find: {moved}"
    new = [line for line in now if line not in recorded]
    assert not new, f"not in {os.path.basename(RECORD)} yet: {new}"
