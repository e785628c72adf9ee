# SPDX-License-Identifier: GPL-2.0-only
"""The kernel on a second platform, hypercall/mock: the POSIX platform loads the same image files.

That platform has one host thread, cannot map memory, and keeps time for the kernel. The C program
prints which check failed.
"""

import glob
import os

import pytest

from library import test_capi as capi
from support import host, images, modules

MOCK = os.path.join(capi.REPOSITORY, "hypercall", "mock")
LOADER = os.path.join(capi.REPOSITORY, "hypercall", "loader")
PLATFORM = sorted(glob.glob(os.path.join(MOCK, "*.c")) + glob.glob(os.path.join(LOADER, "*.c")))
# The profile base with the suites, as `make test` builds it: the suites are modules, which nothing
# loads here, and the drivers of test_device.py are linked in.
BASE = modules.libraries_of(modules.BASE_SUITES)
BUILTIN = os.path.join(capi.LIBRARIES, "vfs-builtin")


def image_of(libraries):
    """The image file beside a library of the build: the one that the library carries."""
    path = os.path.join(libraries, "outboard-kernel")
    if not os.path.exists(path):
        pytest.skip(f"this build has no kernel in {libraries}")
    return path


@pytest.fixture(scope="module", name="mock")
def mock_program(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("mock") / "mock_test"),
                          ["mock_test.c", *PLATFORM],
                          "-I", MOCK, "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.mark.parametrize("case", ["files", "little", "refused", "clients", "clients-2",
                                  "interrupts", "interrupts-2"])
def test_base(mock, case):
    assert capi.run(mock, image_of(BASE), case, timeout=120) == "done\n"


def test_same_file_on_both_platforms(mock, work):
    """The mock boots an image file before and after the library boots the same file."""
    image = image_of(BASE)
    program = capi.library_program(work, "named_image_test.c", "client.c")
    capi.run(mock, image, "files", timeout=120)
    capi.run(program, image, timeout=120, LD_LIBRARY_PATH=capi.LIBRARIES)
    capi.run(mock, image, "files", timeout=120)


def test_pinned_memory(mock):
    capi.run(mock, image_of(BASE), "pinned", timeout=180)


@pytest.mark.parametrize("case", ["files", "least-with-disks", "disk"])
def test_full(mock, case):
    capi.run(mock, image_of(capi.LIBRARIES), case, timeout=120)


@pytest.mark.parametrize("case", ["module", "no-module"])
def test_module_in_memory(mock, hello, case):
    """Without a window for modules, RAM is where they are, if the host lets it be executed."""
    capi.run(mock, image_of(capi.LIBRARIES), case, hello, timeout=120)


@pytest.mark.long
def test_ext4(mock, work):
    disk = images.make(os.path.join(work, "disk.img"), "ext4", 64)
    capi.run(mock, image_of(BUILTIN), "file-system", disk, timeout=120)
    host.run("e2fsck", "-f", "-n", disk)
    assert "made-by-mock" in host.run("debugfs", "-R", "ls -p /", disk).stdout


def test_spaces_that_fail(work):
    """Programs are scripts there, and each call of the host for them fails once."""
    include = os.path.join(capi.REPOSITORY, "hypercall", "include")
    program = capi.compile_c(os.path.join(work, "program"), ["mock_spaces_test.c", *PLATFORM],
                             "-I", MOCK, "-I", include)
    assert capi.run(program, image_of(capi.LIBRARIES), timeout=120).endswith("done\n")


@pytest.mark.parametrize("name", ["check", "load"])
def test_the_loader_needs_no_c_library(work, name):
    """The same sources serve hosts without one: nothing but what every compiler asks for."""
    made = os.path.join(work, f"{name}.o")
    host.run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-fPIC", "-c", "-I",
             os.path.join(capi.REPOSITORY, "hypercall", "include"), "-o", made,
             os.path.join(LOADER, f"{name}.c"))
    wanted = {line.split()[-1] for line in host.run("nm", "-u", made).stdout.splitlines()}
    others = {word for word in wanted if not word.startswith("ob_loader_")}
    assert others <= {"memcmp", "memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_"}
