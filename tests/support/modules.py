# SPDX-License-Identifier: GPL-2.0-only
"""The modules of the build, and how the kernel's own tests among them are run: tests/kernel/run_modules.c."""

import functools
import os
import re
import shutil
import subprocess

import pytest

from . import c_programs, host, program

MODULES = os.path.join(program.OUT, "modules")
SOURCE = os.path.join(program.REPOSITORY, "tests", "kernel", "run_modules.c")


@functools.cache
def every() -> dict:
    """Name to path of every module of the build; the kernel's names have _ for -."""
    found = {}
    for directory, _, files in os.walk(MODULES):
        for name in files:
            if name.endswith(".ko"):
                found[name[:-3].replace("-", "_")] = os.path.join(directory, name)
    return found


def needed_by(*names) -> list:
    """Paths of the modules and all they depend on, in the order of loading."""
    order = []

    def visit(current):
        path = every().get(current)
        if path is None or path in order:
            return
        for other in host.run("modinfo", "-F", "depends", path).stdout.strip().split(","):
            visit(other.replace("-", "_"))
        order.append(path)

    for name in names:
        visit(name)
    return order


def build(source: str, directory: str) -> None:
    """Builds the modules of a directory of sources in another one."""
    for name in os.listdir(source):
        shutil.copy(os.path.join(source, name), directory)
    host.run("make", "-C", os.path.join(program.OUT, "source", "linux"), f"O={os.path.join(program.OUT, 'kernel', 'full')}", "ARCH=outboard",
             f"M={directory}", "modules", MAKEFLAGS="", MAKELEVEL="")


def compile_runner(directory: str, library: str = c_programs.LIBRARIES) -> str:
    """tests/kernel/run_modules.c with the library in that directory."""
    return c_programs.build(os.path.join(directory, "run_modules"), SOURCE, library=library)


class Run:
    """One run of the last of these modules, in a process of its own: an oops in one hides no other."""

    def __init__(self, runner, paths, *, parameters="", seconds=0, command_line="", timeout, vcpus=2):
        command = [runner, str(seconds), *paths, "--", parameters]
        try:
            done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, env={**os.environ, "VCPUS": str(vcpus), "COMMAND_LINE": command_line})
        except subprocess.TimeoutExpired as error:
            pytest.fail(f"hangs; the last lines:\n{(error.stdout or b'').decode(errors='replace')[-3000:]}")
        self.log = done.stdout.decode(errors="replace").split("Run /init")[-1]
        self.tail = f"{self.log[-5000:]}\n{done.stderr.decode(errors='replace')[-1500:]}"
        assert done.returncode == 0, f"ended with {done.returncode}\n{self.tail}"
        match = re.search(r"^run_modules: result (-?\d+)$", self.log, re.MULTILINE)
        assert match, f"not loaded\n{self.tail}"
        self.result = int(match.group(1))
