# SPDX-License-Identifier: GPL-2.0-only
"""tests/demo, which `make demo` runs."""

import os

import pytest

from support import host, program

DEMO = os.path.join(program.REPOSITORY, "tests", "demo")


@pytest.mark.needs("mkfs.xfs", "sfdisk")
def test_demo(work):
    said = host.run(DEMO, program.PROGRAM, TMPDIR=work).stdout
    assert "Done: two of Linux's file systems" in said
    assert "letter" in said and "hello from outside" in said
    assert os.listdir(work) == [], "it leaves nothing behind"
