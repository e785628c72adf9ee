#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Names the kernel's functions in the section of the library that the image is in.

usage: image-names.py IMAGE SECTION

prints options for objcopy. perf finds a name by the place in the file that a page is mapped from,
and the kernel's pages are mapped from the library's file (hypercall/posix/image.c). The names end
with SUFFIX: gdb has the kernel's own ones from the image, and must not take these for them.
"""
import re
import subprocess
import sys


SUFFIX = ".linux"


def text_shift(image):
    """What turns an address of the code into an offset in the file."""
    segments = subprocess.check_output(["readelf", "-lW", image], text=True)
    offset, address = re.search(r"^ +LOAD +(\S+) (\S+) .* R E ", segments, flags=re.M).groups()
    return int(offset, 16) - int(address, 16)


def main():
    image, section = sys.argv[1:3]
    shift = text_shift(image)
    for line in subprocess.check_output(["nm", image], text=True).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "tTW":
            place = f"{section}:{int(fields[0], 16) + shift:#x}"
            print(f"--add-symbol {fields[2]}{SUFFIX}={place},function,local")


if __name__ == "__main__":
    main()
