#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Writes a kernel image's table of symbols once more, with values as in relocatable files: from the
beginning of their section. Debuggers read that for images that are not where they were linked to.

usage: section-symbols.py IMAGE TABLE
"""
import struct
import sys

SHT_SYMTAB = 2
SHN_LORESERVE = 0xff00
HEADER_SECTIONS = struct.Struct("<40xQ10x3H")
SECTION = struct.Struct("<2I4Q2I2Q")
SYMBOL = struct.Struct("<IBBH2Q")


def sections(image):
    offset, size, count, _ = HEADER_SECTIONS.unpack_from(image)
    return [SECTION.unpack_from(image, offset + number * size) for number in range(count)]


def section_symbols(image):
    rows = sections(image)
    _, _, _, _, offset, size, *_ = next(row for row in rows if row[1] == SHT_SYMTAB)
    symbols = image[offset:offset + size]
    for name, kind, other, section, value, length in SYMBOL.iter_unpack(symbols):
        if section < SHN_LORESERVE:
            value -= rows[section][3]
        yield SYMBOL.pack(name, kind, other, section, value, length)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    with open(sys.argv[1], "rb") as stream:
        image = stream.read()
    with open(sys.argv[2], "wb") as stream:
        stream.write(b"".join(section_symbols(image)))


if __name__ == "__main__":
    main()
