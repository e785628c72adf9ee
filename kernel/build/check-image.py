#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks that a kernel image needs no more of its loader than hypercall/loader/check.c can do.

usage: check-image.py IMAGE
"""
import re
import subprocess
import sys

RELOCATIONS = {"R_X86_64_RELATIVE"}
DYNAMIC_REFUSED = {"NEEDED", "JMPREL", "INIT", "FINI", "INIT_ARRAY", "FINI_ARRAY"}
# All that the kernel writes to is in one of the last two, or a snapshot lacks it.
WRITABLE = {".dynamic", ".got", ".got.plt", "outboard_host", "outboard_data",
            "outboard_bss"}
# Kernels that only look for mistakes: what their compilers' checks add may be elsewhere.
CHECKED = ("__asan_", "__ubsan_", "lockdep_")


def readelf(option, image):
    return subprocess.check_output(["readelf", "-W", option, image], text=True)


def addresses(image):
    rows = (line.split() for line in subprocess.check_output(["nm", image], text=True).splitlines())
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


def faults_of_places(image):
    """Sections whose marks the kernel, lockdep or a snapshot looks for."""
    names = addresses(image)
    if names.get("__stop___modver", 0) > names.get("__end_rodata", 0):
        yield "its read-only data end before the versions of modules"
    kept, end = names["ob_kept"], names["ob_kept_end"]
    if kept % 4096 or end % 4096 or kept >= end:
        yield "what a halt shall leave is not in pages of its own"
    if any(name.startswith(CHECKED) for name in names):
        return
    # The row of a section: its number, name, type, address, offset, size, entry size, flags.
    rows = re.findall(r"^ +\[ *\d+\] (\S+) +\S+ +(?:[0-9a-f]+ +){4}W\S* ", readelf("-S", image),
                      flags=re.M)
    for section in sorted(set(rows) - WRITABLE):
        yield f"it has a writable section {section}, which a snapshot would not have"


def faults(image):
    yield from faults_of_places(image)
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
    symbols = readelf("--dyn-syms", image)
    for symbol in re.findall(r"^ +\d+: .* (?:GLOBAL|WEAK) .*$", symbols, flags=re.M):
        yield f"it exports or imports a symbol: {' '.join(symbol.split())}"


def main():
    found = list(faults(sys.argv[1]))
    if found:
        sys.exit(f"outboard: {sys.argv[1]} is no kernel image: {'; '.join(found)}")


if __name__ == "__main__":
    main()
