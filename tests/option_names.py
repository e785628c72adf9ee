#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails if a text of the engine names an option or a command of the program.

The engine is all of crates/ but the program, and the crate that makes images for tests. A caller of
the engine may be a program of its own, without these options: the engine has a value of
`outboard_error::Hint` instead, and the program has the words (crates/outboard-cli/src/hints.rs).

Texts are string literals outside of unit tests. Byte strings are data, not messages. ALLOWED has
texts about options of other programs. A row that no source has is a failure, too. Files in CALLS
call tools of the distribution: a text that is one option alone is an argument there, not a message.
"""

import os
import re

import gate
from import_circles import COMMENT_OR_TEXT, rust_files

PLACE = "crates"
OTHERS = {"outboard-cli", "outboard-test-images"}
COMMANDS = "outboard-cli/src/commands/mod.rs"
# The file and the text.
ALLOWED = {
    # A line of mkswap(8).
    ("outboard-sandbox/src/tool.rs", "Use --verbose for more details."),
}
CALLS = {
    "outboard-build/src/fsck.rs",
    "outboard-build/src/mkfs/makers.rs",
    "outboard-build/src/mkfs/recipe.rs",
    "outboard-build/src/sfdisk.rs",
}

COMMAND = re.compile(r'^    "([a-z0-9-]+)" \w+\(', re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
ARGUMENT = re.compile(r"--[a-z-]+(?:=\S*)?")
CONTINUED = re.compile(r"\\\n\s*")
TEST_FILE = re.compile(r"(?:^|/)tests?(?:\.rs|/)")


def texts(source: str) -> list[tuple[int, str]]:
    """The string literals outside of unit tests, each with its line."""
    found = []
    for literal in COMMENT_OR_TEXT.finditer(without_unit_tests(source)):
        words = re.fullmatch(r'r?#*"(.*)"#*', literal[0], re.DOTALL)
        if words:
            line = source.count("\n", 0, literal.start()) + 1
            found.append((line, CONTINUED.sub("", words[1])))
    return found


def without_unit_tests(source: str) -> str:
    """The source up to its unit tests, which are its end."""
    return source.partition("#[cfg(test)]\nmod ")[0]


def main(root: str, allowed: set[tuple[str, str]] | None = None) -> int:
    os.chdir(f"{root}/{PLACE}")
    allowed = ALLOWED if allowed is None else allowed
    with open(COMMANDS, encoding="utf-8") as stream:
        names = COMMAND.findall(stream.read())
    bad = [] if names else [f"{COMMANDS}: no command"]
    command = re.compile(rf"\boutboard (?:{'|'.join(names)})\b")
    count, unused = 0, set(allowed)
    for crate in sorted(set(os.listdir(".")) - OTHERS):
        for path in sorted(rust_files(f"{crate}/src")):
            if TEST_FILE.search(path):
                continue
            with open(path, encoding="utf-8") as stream:
                source = stream.read()
            for line, text in texts(source):
                count += 1
                if path in CALLS and ARGUMENT.fullmatch(text):
                    continue
                found = OPTION.search(text) or command.search(text)
                if found and (path, text) not in allowed:
                    bad.append(f"{PLACE}/{path}:{line}: \"{found[0]}\" is the program's: use a "
                               "Hint of outboard-error")
                unused.discard((path, text))
    bad += [f"{PLACE}/{path} has no text \"{text}\": remove it from ALLOWED"
            for path, text in sorted(unused)]
    if not count:
        bad.append(f"no text in {PLACE}/")
    return gate.verdict(bad, f"{count} texts of the engine name no option and no command of the "
                        "program")


if __name__ == "__main__":
    gate.run(main)
