# SPDX-License-Identifier: GPL-2.0-only
"""Modules of one variant of the kernel, and the program that loads them:
tests/kernel/run_modules.c.

The kernel's own suites are modules of variants that are built with SUITES=y.
"""

import functools
import os
import re
import shutil
import subprocess

import pytest

from . import c_programs, host, program

SOURCE = os.path.join(program.REPOSITORY, "tests", "kernel", "run_modules.c")
# `make test` builds the first, `make test-long` the others. The last is a kernel that checks
# itself.
BASE_SUITES = "base-suites"
FULL_SUITES = "full-suites"
DEBUG_SUITES = "base-debug-ubsan-suites"


def objects_of(variant: str) -> str:
    return os.path.join(program.OUT, "kernel", variant)


def libraries_of(variant: str) -> str:
    if variant == "full":
        return c_programs.LIBRARIES
    return os.path.join(c_programs.LIBRARIES, variant)


def is_built(variant: str) -> bool:
    return os.path.exists(os.path.join(libraries_of(variant), "liboutboard.so"))


def plain(name: str) -> str:
    """A module's name as the kernel has it."""
    return name.replace("-", "_")


@functools.cache
def every(variant: str = "full") -> dict:
    """Name to path of every module of a variant. Empty: the variant is not built."""
    order = os.path.join(objects_of(variant), "modules.order")
    if not is_built(variant) or not os.path.exists(order):
        return {}
    with open(order, encoding="utf-8") as lines:
        paths = [
            os.path.join(objects_of(variant), f"{os.path.splitext(line.strip())[0]}.ko")
            for line in lines
        ]
    return {plain(os.path.basename(path)[:-3]): path for path in paths}


def needed_by(*names: str, variant: str = "full") -> list:
    """Paths of the modules and all they depend on, in the order of loading."""
    order = []

    def visit(current):
        path = every(variant).get(current)
        if path is None or path in order:
            return
        for other in host.run("modinfo", "-F", "depends", path).stdout.strip().split(","):
            visit(plain(other))
        order.append(path)

    for name in names:
        visit(name)
    return order


def has_suites(path: str) -> bool:
    """Whether a module has suites of KUnit: a section .kunit_test_suites or
    .kunit_init_test_suites.
    """
    with open(path, "rb") as stream:
        data = stream.read()
    return b".kunit_test_suites\0" in data or b".kunit_init_test_suites\0" in data


@functools.cache
def with_suites(variant: str) -> list:
    return sorted(name for name, path in every(variant).items() if has_suites(path))


def build(source: str, directory: str, variant: str = "full") -> None:
    """Builds the modules of a directory of sources in another one, for a variant's kernel."""
    for name in os.listdir(source):
        shutil.copy(os.path.join(source, name), directory)
    host.run("make", "-C", os.path.join(program.OUT, "source", "linux"),
             f"O={objects_of(variant)}", "ARCH=outboard", f"M={directory}", "modules",
             MAKEFLAGS="", MAKELEVEL="")


def compile_runner(directory: str, variant: str = "full") -> str:
    """tests/kernel/run_modules.c with the library of a variant."""
    return c_programs.build(os.path.join(directory, "run_modules"), SOURCE,
                            library=libraries_of(variant))


class Run:
    """One run of the last of these modules, in a process of its own: an oops in one hides no other.

    `parameters`: of the last, or a list of them, and it is loaded with each.
    """

    def __init__(self, runner, paths, *, parameters="", seconds=0, command_line="", show="",
                 timeout, vcpus=2):
        command = [
            runner,
            str(seconds), *paths, "--",
            *([parameters] if isinstance(parameters, str) else parameters)
        ]
        variables = {"VCPUS": str(vcpus), "COMMAND_LINE": command_line, "SHOW": show}
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False,
                                  env={**os.environ, **variables})
        except subprocess.TimeoutExpired as error:
            pytest.fail(
                f"hangs; the last lines:\n{(error.stdout or b'').decode(errors='replace')[-3000:]}")
        output = done.stdout.decode(errors="replace")
        # The kernel's log before its first process, and since.
        self.boot, _, self.log = output.rpartition("Run /init")
        self.tail = f"{self.log[-5000:]}\n{done.stderr.decode(errors='replace')[-1500:]}"
        assert done.returncode == 0, f"ended with {done.returncode}\n{self.tail}"
        self.results = [
            int(number)
            for number in re.findall(r"^run_modules: result (-?\d+)$", self.log, re.MULTILINE)
        ]
        assert self.results, f"not loaded\n{self.tail}"

    @property
    def result(self) -> int:
        """The result of loading the last module, the last time."""
        return self.results[-1]
