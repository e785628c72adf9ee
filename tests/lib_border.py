#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails where lib/ crosses its border.

The hypercalls are the kernel's: lib/ asks the host by outboard/platform.h, outboard/platform_host.h
and the C library. lib/README.md lists each file once, under what the file needs. A file for any
host includes no header of Linux or POSIX, and none that does.
"""

import os
import re

import gate
from c_circles import without_text

HYPERCALL = re.compile(r"\bob_host_\w+")
INCLUDE = re.compile(r'^#include ([<"])([^>"]+)[>"]', re.MULTILINE)
ANY_HOST = "## Any host"
ROW = re.compile(r"^\| ((?:`[^`]+`(?:, )?)+) \|", re.MULTILINE)
PORTABLE = {f"<{name}.h>" for name in (
    "errno", "limits", "stdarg", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string",
    "outboard/gate", "outboard/loader", "outboard/patience", "outboard/platform",
    "outboard/tables")}


def read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def c_files() -> list[str]:
    """All C files and headers of lib/, by their paths below it."""
    return sorted(os.path.relpath(os.path.join(directory, name), "lib")
                  for directory, _, names in os.walk("lib")
                  for name in names if name.endswith((".c", ".h")))


def hypercalls(name: str) -> list[str]:
    source = without_text(read(f"lib/{name}"))
    return [f"lib/{name}:{number}: {word} is a hypercall, which only the kernel makes: use "
            "outboard/platform.h, outboard/platform_host.h or the C library"
            for number, line in enumerate(source.splitlines(), 1)
            for word in HYPERCALL.findall(line)]


def listed(section: str) -> list[str]:
    """The names in the first columns of the tables."""
    return [name for row in ROW.findall(section) for name in re.findall(r"`([^`]+)`", row)]


def not_portable(name: str, portable: set[str]) -> list[str]:
    source = read(f"lib/{name}")
    return [f"lib/{name}:{source.count(chr(10), 0, found.start()) + 1}: {found[2]} is not for any "
            "host: leave it out, or list the file under another heading of lib/README.md"
            for found in INCLUDE.finditer(source)
            if (f"<{found[2]}>" not in PORTABLE if found[1] == "<" else found[2] not in portable)]


def main(root: str) -> int:
    os.chdir(root)
    files = c_files()
    bad = [line for name in files for line in hypercalls(name)]
    page = read("lib/README.md")
    portable = listed(page.partition(ANY_HOST)[2].partition("\n## ")[0])
    names = listed(page)
    tops = {name if "/" not in name else name.partition("/")[0] + "/" for name in files}
    bad += [f"lib/README.md: {name} is listed {names.count(name)} times, not once"
            for name in sorted(tops) if names.count(name) != 1]
    bad += [f"lib/README.md: there is no {name}" for name in sorted(set(names) - tops)]
    if not portable:
        bad.append(f"lib/README.md: no file is listed under \"{ANY_HOST}\"")
    bad += [line for name in portable if name in files
            for line in not_portable(name, set(portable))]
    return gate.verdict(bad, f"{len(files)} C files and headers of lib/ make no hypercall; "
                        f"{len(portable)} of them are for any host")


if __name__ == "__main__":
    gate.run(main)
