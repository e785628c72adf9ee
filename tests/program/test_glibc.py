# SPDX-License-Identifier: GPL-2.0-only
"""glibc's own tests, unmodified, inside of `outboard run`: all that pass on the host pass inside.

Debian's package glibc-source has the sources. Each test is compiled alone, against the installed
C library. Those that need more of glibc than its headers do not compile; most do.
"""

import glob
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import host, images, program, programs

ARCHIVES = "/usr/src/glibc/glibc-*.tar.xz"
# Directories of the sources, and how many of their tests compile at least.
DIRECTORIES = {"nptl": 70, "signal": 13, "rt": 40, "setjmp": 4, "sysdeps/pthread": 200,
               "sysdeps/unix/sysv/linux": 55}
# Headers of glibc that no program has are found last; macros of its build are empty.
SEARCHED = ("support", "include", "sysdeps/x86_64", "sysdeps/generic", "sysdeps/unix/sysv/linux",
            ".")
FLAGS = ("-std=gnu11", "-O2", "-w", "-pthread", "-D_GNU_SOURCE", "-DTIMEOUTFACTOR=1",
         "-Dattribute_hidden=", "-Dlibc_hidden_proto(x)=", "-Dlibc_hidden_def(x)=",
         "-D__KERNEL_OLD_TIMEVAL_MATCHES_TIMEVAL64=1", "-include", "limits.h")
PATHS = ("SRCDIR", "OBJDIR", "OBJDIR_ELF_LDSO", "INSTDIR", "LIBDIR", "BINDIR", "SBINDIR",
         "SLIBDIR", "ROOTSBINDIR", "COMPLOCALEDIR")
TOOLS = ("basename", "cat", "echo", "false", "find", "ip", "ls", "mkdir", "pwd", "rm", "sed",
         "sleep", "timeout", "touch", "true", "uname", "xargs")
# Libraries that tests load by themselves.
LOADED = ("libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libpthread.so.0",
          "libresolv.so.2")
FILES = ("/etc/services", "/etc/protocols", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group")

# Runs the programs that standard input names, some at a time, each in a directory of its own, and
# prints their exit codes. The words are the directory with the programs and how many run at a time.
SCRIPT = r"""
ip link set lo up 2> /dev/null
ulimit -c 0
export TIMEOUTFACTOR=15
one() {
	mkdir -p "/tmp/glibc-$$" && cd "/tmp/glibc-$$" || exit
	timeout -s KILL 400 "$1" > output 2>&1 < /dev/null
	echo "${1##*/} $?"
	rm -rf "/tmp/glibc-$$"
}
export -f one
xargs -P "$2" -I{} bash -c 'one "$0"' "$1/{}"
"""
# Minutes of nothing but fork(2), which takes longer inside.
SLOW = ("tst-robust-fork",)
# So often, tests that fail on a busy machine run alone.
TRIES = 3


class Suite:
    """The compiled tests, and an image with them below /glibc."""

    def __init__(self, directory, archive):
        self.directory = directory
        host.run("tar", "-C", directory, "-xf", archive)
        self.source = glob.glob(os.path.join(directory, "glibc-*"))[0]
        self.compat = os.path.join(directory, "compat")
        os.mkdir(self.compat)
        os.symlink(os.path.join(self.source, "support"), os.path.join(self.compat, "support"))
        with open(os.path.join(self.compat, "config.h"), "w", encoding="ascii"):
            pass
        self.flags = [*FLAGS, "-I", self.compat]
        for name in SEARCHED:
            self.flags += ["-idirafter", os.path.join(self.source, name)]
        self.library = self.make_library()
        self.made = {name: self.make_tests(name) for name in DIRECTORIES}
        self.image = self.make_image()

    def compile(self, *words):
        done = subprocess.run(["gcc", *self.flags, *words], capture_output=True, check=False,
                              timeout=600)
        return done.returncode == 0

    def make_library(self):
        """The helpers of all tests. Some of them do not compile; few tests want those."""
        flags = [f'-D{name}_PATH="/tmp"' for name in PATHS]
        objects = os.path.join(self.directory, "objects")
        os.mkdir(objects)

        def make(source):
            name = os.path.join(objects, os.path.basename(source)[:-1] + "o")
            return self.compile(*flags, "-c", source, "-o", name)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(make, self.helpers()))
        library = os.path.join(self.directory, "libsupport.a")
        host.run("ar", "rcs", library, *glob.glob(f"{objects}/*.o"))
        return library

    def helpers(self):
        names = glob.glob(os.path.join(self.source, "support", "*.c"))
        main = ("tst-", "links-", "test-run-command", "echo-", "shell-", "true-", "test-driver",
                "test-container", "support_quote_blob_main", "support_test_compare_string_main")
        return [name for name in names if not os.path.basename(name).startswith(main)]

    def make_tests(self, name):
        """The names of those that compile."""
        sources = sorted(glob.glob(os.path.join(self.source, name, "tst-*.c")))
        place = self.place(name)
        os.makedirs(place)

        def make(source):
            test = os.path.basename(source)[:-2]
            words = ("-I", os.path.dirname(source), source, "-o", f"{place}/{test}", self.library)
            return self.compile(*words, "-lrt", "-lm", "-ldl") and test not in SLOW and test
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return [test for test in pool.map(make, sources) if test]

    def place(self, name):
        return os.path.join(self.directory, "tests", name)

    def make_image(self):
        tree = os.path.join(self.directory, "root")
        os.makedirs(os.path.join(tree, "usr", "bin"))
        os.makedirs(os.path.join(tree, "usr", "lib"))
        for link in ("bin", "lib"):
            os.symlink(f"usr/{link}", os.path.join(tree, link))
        programs.make_root(tree, *TOOLS)
        for file in (*FILES, *(f"/lib/x86_64-linux-gnu/{name}" for name in LOADED)):
            programs.copy_in(tree, file)
        for name, tests in self.made.items():
            for file in {file for test in tests
                         for file in programs.files_of(os.path.join(self.place(name), test))[1:]}:
                programs.copy_in(tree, file)
        shutil.copytree(os.path.join(self.directory, "tests"), os.path.join(tree, "glibc"))
        return images.make_ext4_of(os.path.join(self.directory, "root.img"), tree, 300)

    def native(self, name):
        words = ["bash", "-c", SCRIPT, "bash", self.place(name), "4"]
        done = subprocess.run(words, input="\n".join(self.made[name]), capture_output=True,
                              text=True, timeout=3000, check=False)
        return codes(done.stdout)

    def inside(self, name, tests, at_a_time):
        words = program.command("run", "--memory", "3G", self.image, "--", "bash", "-c", SCRIPT,
                                "bash", f"/glibc/{name}", str(at_a_time), vcpus=2)
        done = subprocess.run(words, input="\n".join(tests), capture_output=True, text=True,
                              timeout=3000, check=False)
        assert done.returncode in (0, 123), done.stderr[-3000:]
        return codes(done.stdout)


def codes(text):
    words = (line.rsplit(" ", 1) for line in text.splitlines())
    return {test: int(code) for test, code in words}


@pytest.fixture(scope="module", name="suite")
def fixture_suite(tmp_path_factory):
    archives = glob.glob(ARCHIVES)
    if not archives:
        pytest.skip("the package glibc-source is not installed")
    return Suite(str(tmp_path_factory.mktemp("glibc")), archives[0])


pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


@pytest.mark.parametrize("name", DIRECTORIES)
def test_as_on_the_host(suite, name):
    tests = suite.made[name]
    assert len(tests) >= DIRECTORIES[name], f"{len(tests)} tests were compiled"
    native = suite.native(name)
    passing = {test for test in tests if native.get(test) == 0}
    failed = failures(suite.inside(name, tests, 4), passing)
    for _ in range(TRIES):
        if failed:
            print("once more, alone:", *sorted(failed))
            failed = failures(suite.inside(name, sorted(failed), 1), failed)
    assert not failed


def failures(inside, passing):
    return {test for test in passing if inside.get(test) != 0}
