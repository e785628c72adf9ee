# SPDX-License-Identifier: GPL-2.0-only
"""Linux's promises to programs: the program in semantics/ looks at them, and prints what it finds.
Inside of the kernel it prints the same as on the host.
"""

import difflib
import glob
import os
import shutil
import signal
import struct
import subprocess

import pytest

from library import test_capi as capi
from support import host, images, program, programs

HERE = os.path.dirname(os.path.abspath(__file__))
DIRECTORY = os.path.join(HERE, "semantics")
LATE = os.path.join(DIRECTORY, "late_library.c")
SOURCES = [source for source in sorted(glob.glob(os.path.join(DIRECTORY, "*.[cS]")))
           if source != LATE]
FLAGS = ("-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread",
         "-I", os.path.join(os.path.dirname(HERE), "library"))
# glibc loads it when a thread is cancelled.
UNWINDER = "/lib/x86_64-linux-gnu/libgcc_s.so.1"


class Semantics:
    """The program, the output of it on the host, and an image with it."""

    def __init__(self, directory, link):
        self.directory = directory
        self.path = os.path.join(directory, "semantics")
        host.run("gcc", *FLAGS, *(["-static"] if link == "static" else []), "-o", self.path,
                 *SOURCES)
        self.library = os.path.join(directory, "late.so") if link == "dynamic" else None
        if self.library:
            host.run("gcc", *FLAGS, "-fPIC", "-shared", "-o", self.library, LATE)
        self.image = self.make_image()
        self.outputs = {}

    def make_image(self):
        tree = os.path.join(self.directory, "root")
        programs.make_root(tree)
        for path in (UNWINDER, *programs.files_of(self.path)[1:]):
            programs.copy_in(tree, path)
        for path in filter(None, (self.path, self.library)):
            shutil.copy(path, os.path.join(tree, "bin"))
        return images.make_ext4_of(os.path.join(self.directory, "root.img"), tree)

    def native(self, **variables):
        """The output on the host, which all cases must pass."""
        key = tuple(variables)
        if key not in self.outputs:
            if self.library:
                variables["LATE_LIBRARY"] = self.library
            # The tests may run in the background of a shell, which then ignores SIGQUIT.
            command = ["env", "--default-signal", self.path]
            done = subprocess.run(command, capture_output=True, cwd=self.directory,
                                  timeout=600, check=False, env={**os.environ, **variables})
            assert done.returncode == 0, done
            self.outputs[key] = done.stdout.decode()
        return self.outputs[key]

    def inside(self, vcpus, **variables):
        if self.library:
            variables["LATE_LIBRARY"] = "/bin/late.so"
        words = " ".join(f"{name}={value}" for name, value in variables.items())
        done = program.run("run", self.image, "--", "bash", "-c",
                           f"cd /tmp && {words} exec semantics", vcpus=vcpus, timeout=1200)
        print(done.err)
        return done.out

    def check(self, vcpus, **variables):
        native = self.native(**variables).splitlines()
        inside = self.inside(vcpus, **variables).splitlines()
        difference = difflib.unified_diff(native, inside, "host", "kernel", lineterm="", n=1)
        assert native == inside, "\n".join(difference)


@pytest.fixture(scope="module", name="static")
def fixture_static(tmp_path_factory):
    return Semantics(str(tmp_path_factory.mktemp("static")), "static")


@pytest.fixture(scope="module", name="dynamic")
def fixture_dynamic(tmp_path_factory):
    return Semantics(str(tmp_path_factory.mktemp("dynamic")), "dynamic")


@pytest.mark.parametrize("vcpus", (pytest.param(1, marks=pytest.mark.long), 2,
                                   pytest.param(4, marks=pytest.mark.long)))
def test_as_on_the_host(static, vcpus):
    static.check(vcpus)


@pytest.mark.long
@pytest.mark.parametrize("vcpus", (1, 2, 4))
def test_with_libraries(dynamic, vcpus):
    dynamic.check(vcpus)


@pytest.mark.long
@pytest.mark.parametrize("vcpus", (1, 2, 4))
def test_often(static, vcpus):
    static.check(vcpus, OFTEN="1")


# Cases whose files lie in the working directory.
OF_FILES = ("shared_files", "private_files", "truncated_files", "direct_io", "two_addresses",
            "busy_text", "exec_by_descriptor", "nested_scripts")


def test_on_a_disk_that_loses_power(static, work):
    """Mapped files of ext4. The power is cut after msync(2): this process gets SIGKILL."""
    image = images.make(os.path.join(work, "disk.img"), "ext4")
    test = capi.library_program(work, "program_disk_test.c", "client.c")
    capi.run(test, "2", image, static.path, *OF_FILES, ok=-signal.SIGKILL,
             LD_LIBRARY_PATH=capi.LIBRARIES)
    # It replays the journal; a file system that needs more than that fails.
    host.run("e2fsck", "-p", image, ok=(0, 1))
    host.run("e2fsck", "-fn", image)
    found = program.good("cat", f"{image}:/synced").raw
    words = struct.unpack(f"<{len(found) // 4}I", found)
    half = len(words) // 2
    assert words[:half] == tuple(i * 7 + 1 for i in range(half))
