#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks that the kernel's table of names, made before the last link, is right after it.

usage: check-names.py NAMES OBJECT

Each function of NAMES (nm's output for kernel-text.o) must be as far from _text in OBJECT.
"""
import subprocess
import sys


def distances(lines):
    """The set of (distance from _text, name) of all functions; empty if there is no _text."""
    functions = []
    for line in lines:
        fields = line.split()
        if len(fields) == 3 and fields[1] in "tTW":
            functions.append((int(fields[0], 16), fields[2]))
    start = next((address for address, name in functions if name == "_text"), None)
    return {(address - start, name) for address, name in functions} if start is not None else set()


def main():
    names, linked = sys.argv[1:3]
    with open(names, encoding="utf-8") as file:
        wanted = distances(file)
    found = distances(subprocess.check_output(["nm", linked], text=True).splitlines())
    wrong = sorted(wanted - found)
    if not wanted or wrong:
        examples = ", ".join(f"{name} at _text+{distance:#x}" for distance, name in wrong[:5])
        sys.exit(f"outboard: the kernel's names do not fit to {linked}: "
                 f"{len(wrong)} are wrong: {examples}")


if __name__ == "__main__":
    main()
