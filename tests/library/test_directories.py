# SPDX-License-Identifier: GPL-2.0-only
"""Directories of the host that a kernel mounts: devices/fs, ob_dir_add."""

import glob
import os

import pytest

from library import test_capi as capi

CASES = ["contents", "mapping", "names", "many", "owners", "attributes", "attributes-of-root",
         "read-only", "one-file", "changes-outside", "limits", "files", "removal", "removal-races",
         "fork"]


@pytest.fixture(scope="module", name="program")
def directory_program(tmp_path_factory):
    return capi.library_program(str(tmp_path_factory.mktemp("directory")), "directory_test.c",
                                "client.c")


@pytest.mark.parametrize("case", CASES)
def test_directory(work, program, case):
    directory = os.path.join(work, "shared")
    os.mkdir(directory)
    assert capi.run(program, case, directory, timeout=120,
                    LD_LIBRARY_PATH=capi.LIBRARIES) == "done\n"


@pytest.mark.parametrize("sanitizer", [capi.PLAIN, "address"])
def test_hostile_kernels(work, sanitizer):
    """The server alone, whose kernel breaks every rule."""
    server = sorted(set(glob.glob(os.path.join(capi.DEVICES, "fs", "*.c")))
                    - {os.path.join(capi.DEVICES, "fs", name) for name in ("device.c", "open.c")})
    program = capi.compile_c(os.path.join(work, "program"),
                             ["fuse_test.c", *server, os.path.join(capi.PLATFORM, "descriptor.c")],
                             "-I", os.path.join(capi.DEVICES, "fs"), "-I", capi.PLATFORM,
                             "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"),
                             *capi.SANITIZERS[sanitizer])
    directory = os.path.join(work, "top")
    os.mkdir(directory)
    capi.run(program, directory, "20000", timeout=100)
