#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks that a kernel image needs no more of its loader than lib/image.c can do.

usage: check-image.py IMAGE
"""
import re
import subprocess
import sys

RELOCATIONS = {"R_X86_64_RELATIVE", "R_X86_64_TPOFF64"}
DYNAMIC_REFUSED = {"NEEDED", "JMPREL", "INIT", "FINI", "INIT_ARRAY", "FINI_ARRAY"}


def readelf(option, image):
    return subprocess.check_output(["readelf", "-W", option, image], text=True)


def faults(image):
    segments = readelf("-l", image)
    if "INTERP" in segments:
        yield "it has an interpreter"
    if re.search(r"^ +LOAD .* RWE ", segments, flags=re.M):
        yield "it has a segment that is writable and executable"
    for tag in re.findall(r"^ 0x[0-9a-f]+ \((\w+)\)", readelf("-d", image), flags=re.M):
        if tag in DYNAMIC_REFUSED:
            yield f"it has a dynamic tag {tag}"
    used = set(re.findall(r"\bR_X86_64_\w+", readelf("-r", image)))
    for relocation in sorted(used - RELOCATIONS):
        yield f"it has relocations of type {relocation}"
    for symbol in re.findall(r"^ +\d+: .* (?:GLOBAL|WEAK) .*$", readelf("--dyn-syms", image), flags=re.M):
        yield f"it exports or imports a symbol: {' '.join(symbol.split())}"


def main():
    found = list(faults(sys.argv[1]))
    if found:
        sys.exit(f"outboard: {sys.argv[1]} is no kernel image: {'; '.join(found)}")


if __name__ == "__main__":
    main()
