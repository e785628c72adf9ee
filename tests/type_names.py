#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails if two types of crates/ have one name: one name means one thing.

Types are structs, enums, traits and type aliases of modules of crates/*/src. Types inside of
functions, of implementations and of tests do not count.
ALLOWED has names that mean the same thing wherever they are. KNOWN has names that wait for a better
one. A row whose name is unique is a failure, too.
"""

import glob
import os
import re
import sys

# Names that each module or crate has by convention, or that a crate takes over from std.
ALLOWED = {
    "Error": "the crate's own error",
    "Options": "what the caller of the module chooses",
    "Result": "the result with the crate's own error",
    "TcpListener": "that of std: blocking in outboard, asynchronous in outboard-tokio",
    "TcpStream": "as TcpListener",
    "UdpSocket": "as TcpListener",
    "UnixDatagram": "as TcpListener",
    "UnixListener": "as TcpListener",
    "UnixStream": "as TcpListener",
}
# This list only shrinks.
KNOWN: set[str] = {
    "Action", "Answer", "Area", "Attributes", "Batch", "Breaking", "BtrfsVolume", "Buffer", "Bytes",
    "Change", "Changes", "Class", "Component", "Config", "Content", "Context", "Copy", "Device",
    "Directories", "Directory", "Disk", "Event", "File", "Files", "Filled", "Flag", "Flags",
    "Format", "Gone", "Handle", "Head", "Header", "Identity", "Image", "Input", "Item", "Job",
    "Json", "Kind", "Latest", "Layout", "Level", "Line", "List", "Listing", "Log", "Lookup",
    "Maker", "Mark", "Member", "Memory", "Mode", "Mount", "Mounted", "Named", "Names", "Next",
    "Node", "OpenFile", "OpenOptions", "Order", "Origin", "Out", "Output", "Owner", "Pair",
    "Parser", "Partition", "Piece", "Place", "Problem", "Range", "Reader", "Report", "Role", "Row",
    "Search", "Section", "Segment", "Server", "Shell", "Shown", "Slot", "Start", "Stat", "Step",
    "Stop", "Superblock", "Texts", "Time", "Tree", "Value", "Walk", "Wanted", "Watch", "Watcher",
    "Wish", "Writer", "Written",
}

DECLARATION = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)
TEST_FILE = re.compile(r"(?:^|/)tests?(?:\.rs|/)")


def declarations(root: str) -> dict[str, list[str]]:
    """Each name, and the places that declare it."""
    found: dict[str, list[str]] = {}
    for path in sorted(glob.glob(f"{root}/crates/*/src/**/*.rs", recursive=True)):
        place = os.path.relpath(path, root)
        if TEST_FILE.search(place):
            continue
        with open(path, encoding="utf-8") as stream:
            source = stream.read()
        for match in DECLARATION.finditer(source):
            line = source.count("\n", 0, match.start()) + 1
            found.setdefault(match[1], []).append(f"{place}:{line}")
    return found


def main(root: str) -> int:
    found = declarations(root)
    repeated = {name for name, places in found.items() if len(places) > 1}
    bad = [f"{name} is the name of {len(found[name])} types: {', '.join(found[name])}"
           for name in sorted(repeated - KNOWN - set(ALLOWED))]
    bad += [f"{name} is not the name of several types: remove it from KNOWN or ALLOWED"
            for name in sorted((KNOWN | set(ALLOWED)) - repeated)]
    if not found:
        bad.append("no type in crates/")
    if bad:
        print("\n".join(bad))
        print("give each type the name of the one thing that it is, without its comment")
        return 1
    print(f"{len(found)} names of types, {len(KNOWN)} of several types wait for better ones")
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
