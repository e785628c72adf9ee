# SPDX-License-Identifier: GPL-2.0-only
"""C programs that tests compile with a library of the build."""

import os

from support import host, program

INCLUDE = os.path.join(program.OUT, "include")
LIBRARIES = os.path.join(program.OUT, "lib")
FLAGS = ("-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread")


def build(path: str, *sources: str, library: str = LIBRARIES, flags=()) -> str:
    """A program that finds the library in that directory by itself. Returns its path."""
    host.run("gcc", *FLAGS, "-I", INCLUDE, *flags, "-o", path, *sources,
             f"-L{library}", f"-Wl,-rpath,{library}", "-loutboard")
    return path
