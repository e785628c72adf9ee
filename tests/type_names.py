#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails if two types of crates/ that other files see have one name: one name means one thing.

Types are structs, enums, unions, traits and type aliases of modules of crates/*/src. Types inside
of functions, of implementations and of tests do not count.

Other files see a type if it is `pub` in any way (pub, pub(crate), pub(super)), or if a module below
its own imports it. Its name is unique in crates/: whoever meets the name in any file finds the one
type that it means. All other types are private to their file. Those may have short, common names
(Entry, State), because the file gives them their meaning.

ALLOWED has names that mean the same thing wherever they are. A row whose name is unique is a
failure, too.
"""

import glob
import os
import re

import gate

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

DECLARATION = re.compile(
    r"^(pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)
IMPORT = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ((?:super|crate)\b[^;]*);", re.MULTILINE)
TEST_FILE = re.compile(r"(?:^|/)tests?(?:\.rs|/)")
# Files of a module whose other files are in the same directory.
ROOTS = ("lib.rs", "main.rs", "mod.rs")


def sources(root: str) -> dict[str, str]:
    """The text of each file that is not a test."""
    found = {}
    for path in sorted(glob.glob(f"{root}/crates/*/src/**/*.rs", recursive=True)):
        place = os.path.relpath(path, root)
        if not TEST_FILE.search(place):
            with open(path, encoding="utf-8") as stream:
                found[place] = stream.read()
    return found


def imported_below(place: str, name: str, imports: dict[str, str]) -> bool:
    """Whether a file of a module below imports the type."""
    directory, base = os.path.split(place)
    below = (directory if base in ROOTS else place.removesuffix(".rs")) + "/"
    return any(re.search(rf"\b{name}\b", words) for other, words in imports.items()
               if other != place and other.startswith(below))


def visible_types(root: str) -> dict[str, list[str]]:
    """The name of each type that other files see, and the places that declare it."""
    texts = sources(root)
    imports = {place: " ".join(IMPORT.findall(text)) for place, text in texts.items()}
    found: dict[str, list[str]] = {}
    for place, text in texts.items():
        for match in DECLARATION.finditer(text):
            public, name = match[1], match[2]
            if public or imported_below(place, name, imports):
                line = text.count("\n", 0, match.start()) + 1
                found.setdefault(name, []).append(f"{place}:{line}")
    return found


def main(root: str) -> int:
    found = visible_types(root)
    repeated = {name for name, places in found.items() if len(places) > 1}
    bad = [f"{name} is the name of {len(found[name])} types: {', '.join(found[name])}"
           for name in sorted(repeated - set(ALLOWED))]
    bad += [f"{name} is not the name of several types: remove it from ALLOWED"
            for name in sorted(set(ALLOWED) - repeated)]
    if not found:
        bad.append("no type in crates/")
    return gate.verdict(bad, f"{len(found)} names of types that several files see, each of one "
                        "type", "give each type the name of the one thing that it is, or make it "
                        "private to its file")


if __name__ == "__main__":
    gate.run(main)
