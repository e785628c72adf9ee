#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails for a line over 100 columns, a tab being 8: prints file, line and width of each.

Looks at all sources, scripts and Markdown of the repository, but not below LEFT_OUT. In Markdown
these lines may be longer: rows of tables, code blocks between fences, and a line that is one word,
such as an address. Indented code blocks are checked like paragraphs.
"""

import os
import re

import gate

COLUMNS = 100
# Directories: git's own, results of builds, and input of the fuzz targets, which nobody reads.
LEFT_OUT = (".git", "out", "fuzz/seeds", "crates/target", "fuzz/target")
CACHES = ("__pycache__", ".pytest_cache")
SUFFIXES = (".c", ".h", ".S", ".rs", ".toml", ".py", ".sh", ".bash", ".mk", ".md")
NAMES = ("Makefile", "Kbuild")
SCRIPT = re.compile(rb"#!.*\b(sh|bash|python3?)\b")
FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")


def is_script(path: str) -> bool:
    with open(path, "rb") as stream:
        return bool(SCRIPT.match(stream.readline(100)))


def is_looked_at(path: str) -> bool:
    name = os.path.basename(path)
    if name in NAMES or name.startswith("Kconfig") or name.endswith(SUFFIXES):
        return True
    return "." not in name and is_script(path)


def files_below(place: str, left_out=()):
    """The files of a directory and all below it, without these directories; or `place`, a file."""
    if os.path.isfile(place):
        yield place
    for directory, directories, names in os.walk(place):
        paths = {name: os.path.normpath(os.path.join(directory, name)) for name in directories}
        directories[:] = sorted(name for name, path in paths.items()
                                if name not in CACHES and path not in left_out)
        paths = (os.path.normpath(os.path.join(directory, name)) for name in sorted(names))
        # No FIFO, which would block.
        yield from (path for path in paths if os.path.isfile(path))


def width(line: str) -> int:
    return len(line.expandtabs(8))


def is_one_word(line: str) -> bool:
    return len(re.sub(r"^\s*([*+-]|\d+\.|>)\s+", "", line).split()) <= 1


def paragraph_lines(lines):
    """The lines of a page of Markdown that are neither code nor rows of a table.

    ValueError: a fence is not closed.
    """
    fence = None
    opened = 0
    for number, line in lines:
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = None
        elif found:
            fence, opened = found[1], number
        elif not line.lstrip().startswith("|") and not is_one_word(line):
            yield number, line
    if fence:
        raise ValueError(f"line {opened} opens a code block that nothing closes")


def long_lines(path: str):
    """The numbers and widths of the lines of a file that are too long."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = enumerate(stream.read().split("\n"), 1)
    if path.endswith(".md"):
        lines = paragraph_lines(lines)
    return [(number, width(line)) for number, line in lines if width(line) > COLUMNS]


def complaints(path: str) -> list:
    try:
        return [f"{path}:{number}: {columns} columns, more than {COLUMNS}"
                for number, columns in long_lines(path)]
    except ValueError as error:
        return [f"{path}: {error}"]


def main(root: str) -> int:
    os.chdir(root)
    bad = []
    looked_at = 0
    for path in files_below(".", LEFT_OUT):
        if os.path.islink(path) or not is_looked_at(path):
            continue
        looked_at += 1
        bad += complaints(path)
    if not looked_at:
        bad.append("no file to check")
    return gate.verdict(bad, f"{looked_at} files have no line over {COLUMNS} columns",
                        f"{len(bad)} complaints: wrap long lines at {COLUMNS} columns")


if __name__ == "__main__":
    gate.run(main)
