#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails if a crate starts a second process in another way than by outboard-worker.

A second process needs limits, an end with its parent and a channel that trusts nothing: the crate
outboard-worker has that once. It alone calls the functions of outboard-sys that copy this process,
and `std::process::Command`. Tests, and the crate that makes images for tests, may use `Command`.
"""

import os
import re

import gate
from import_circles import imports, rust_files, without_tests, without_text

PLACE = "crates"
# The layer below, the one way, and programs of tests.
# outboard-client copies a process for its caller, here and in a kernel.
OTHERS = {"outboard-sys", "outboard-worker", "outboard-test-images", "outboard-client"}
START = re.compile(
    r"(?:^|::)process::Command\b"
    r"|\boutboard_sys::(?:\w+::)*(?:fork|fork_apart|end_with_parent|make_files_private)$"
    r"|\b(?:libc|nix::unistd)::(?:fork|vfork|execv\w*|posix_spawn\w*)$")
TEST_FILE = re.compile(r"(?:^|/)tests?(?:\.rs|/)")


def main(root: str) -> int:
    os.chdir(f"{root}/{PLACE}")
    bad, count = [], 0
    for crate in sorted(set(os.listdir(".")) - OTHERS):
        for path in sorted(rust_files(f"{crate}/src")):
            if TEST_FILE.search(path):
                continue
            with open(path, encoding="utf-8") as stream:
                source, _ = without_tests(without_text(stream.read()))
            count += 1
            bad += [f"{PLACE}/{path}:{line}: {used} starts a process: use Launch or WorkerProcess "
                    "of outboard-worker"
                    for line, used in imports(source) if START.search(used)]
    if not count:
        bad.append(f"no source in {PLACE}/")
    return gate.verdict(bad, f"{count} sources of crates/ start processes by outboard-worker alone")


if __name__ == "__main__":
    gate.run(main)
