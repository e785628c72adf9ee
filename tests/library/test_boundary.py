# SPDX-License-Identifier: GPL-2.0-only
"""The rules between a kernel and its host: hosts that break one are refused with a reason, and the
kernel keeps its own. The host is the platform hypercall/mock with mistakes.
"""

import os

import pytest

from library import test_capi as capi
from library.test_mock import BASE, MOCK, PLATFORM, image_of


@pytest.fixture(scope="module", name="boundary")
def boundary_program(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("boundary") / "boundary_test"),
                          ["boundary_test.c", *PLATFORM],
                          "-I", MOCK, "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.mark.parametrize("case", ["refused", "thread-block", "regions", "hidden"])
def test_base(boundary, case):
    assert capi.run(boundary, image_of(BASE), case, timeout=120) == "done\n"


def test_half_a_group(boundary):
    """In a kernel with disks."""
    assert capi.run(boundary, image_of(capi.LIBRARIES), "half-a-group", timeout=120) == "done\n"
