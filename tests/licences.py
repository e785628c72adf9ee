#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails for a crate whose licence does not fit GPL-2.0-only, and for one in several versions.

Both are read from `cargo metadata`: all packages that a build for this machine uses, with those for
build scripts and tests. `cargo tree` says which they are: the metadata have more, such as a crate
for which a feature would only ask if something else used it. An expression such as "MIT OR
Apache-2.0" fits if one of its choices does. DUPLICATES lists crates that are there in several
versions for a reason. A row that is true no more is a failure, too.
"""

import collections
import json
import os
import re
import subprocess
import sys
from typing import Callable

import gate

# Apache-2.0 and GPL-3.0 demand what GPL-2.0 forbids. MPL-2.0 is left out as long as nobody needs
# it: each file may exclude the GPL.
LICENCES = {
    "0BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "GPL-2.0-only", "GPL-2.0-or-later", "ISC",
    "LGPL-2.1-only", "LGPL-2.1-or-later", "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib",
}
# The workspaces, and the licences that are good there as well.
WORKSPACES = {
    "crates": set(),
    "fuzz": set(),
    # No part of the project is linked with it.
    "tests/vhost_pair": {"Apache-2.0"},
}
# Workspace and crate, and why it is there in several versions. This list only shrinks.
DUPLICATES = {
    ("crates", "nix"): "imago and rustyline have older ones",
    ("crates", "syn"): "derive macros of others: only compilers run it",
    ("fuzz", "nix"): "imago has an older one",
    ("fuzz", "syn"): "as in crates",
    ("tests/vhost_pair", "bitflags"): "the crates of rust-vmm have both",
}

# A licence, which may have an exception.
NAME = re.compile(r"(?!(?:AND|OR|WITH)\b)[\w.+-]+( WITH (?!(?:AND|OR|WITH)\b)[\w.+-]+)?")

Metadata = dict
Table = dict[tuple[str, str], str]


def metadata(workspace: str) -> Metadata:
    """What cargo knows about the packages of a workspace."""
    version = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True)
    platform = re.search(r"^host: (\S+)$", version.stdout, re.MULTILINE)
    assert platform, version.stdout
    done = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform",
         platform[1], "--manifest-path", f"{workspace}/Cargo.toml"],
        check=False, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{workspace}: cargo metadata has failed")
    read = json.loads(done.stdout)
    used = used_packages(workspace)
    read["packages"] = [package for package in read["packages"]
                        if (package["name"], package["version"]) in used]
    return read


def used_packages(workspace: str) -> set[tuple[str, str]]:
    """Names and versions of the packages that a build uses."""
    done = subprocess.run(
        ["cargo", "tree", "--locked", "--workspace", "--edges", "normal,build,dev", "--prefix",
         "none", "--format", "{p}", "--manifest-path", f"{workspace}/Cargo.toml"],
        check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{workspace}: cargo tree has failed")
    lines = (line.split() for line in done.stdout.splitlines())
    return {(words[0], words[1].removeprefix("v")) for words in lines if words}


def fits(expression: str, licences: set[str]) -> bool:
    """Whether a licence expression of SPDX allows one of these licences. Old crates have a slash in
    place of OR. ValueError: it is no expression."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR ")) + [""]

    def choice() -> bool:
        good = combination()
        while words[0] == "OR":
            del words[0]
            good = combination() or good
        return good

    def combination() -> bool:
        good = licence()
        while words[0] == "AND":
            del words[0]
            good = licence() and good
        return good

    def licence() -> bool:
        name = words.pop(0)
        if name == "(":
            good = choice()
            if words.pop(0) != ")":
                raise ValueError(expression)
            return good
        if words[:1] == ["WITH"]:
            del words[0]
            name += f" WITH {words.pop(0)}"
        if not NAME.fullmatch(name):
            raise ValueError(expression)
        return name in licences

    good = choice()
    if words != [""]:
        raise ValueError(expression)
    return good


def wrong_licence(package: dict, licences: set[str]) -> str:
    """What is wrong with the licence of a package; empty: nothing."""
    expression = package["license"]
    if not expression:
        return "has no licence expression"
    try:
        if fits(expression, licences):
            return ""
    except ValueError:
        return f"has a licence that is no expression of SPDX: {expression}"
    return f"has the licence {expression}, which does not fit GPL-2.0-only"


def main(root: str, read: Callable[[str], Metadata] = metadata,
         duplicates: Table | None = None) -> int:
    os.chdir(root)
    waiting = dict(DUPLICATES if duplicates is None else duplicates)
    known = len(waiting)
    bad = []
    count = 0
    for workspace, more in WORKSPACES.items():
        packages = read(workspace)["packages"]
        versions = collections.defaultdict(set)
        for package in packages:
            versions[package["name"]].add(package["version"])
            wrong = wrong_licence(package, LICENCES | more)
            if wrong:
                bad.append(f"{workspace}: {package['name']} {package['version']} {wrong}")
        if not packages:
            bad.append(f"{workspace}: no package")
        count += len(packages)
        for name, found in sorted(versions.items()):
            if len(found) > 1 and waiting.pop((workspace, name), None) is None:
                bad.append(f"{workspace}: {name} is there in {len(found)} versions: "
                           f"{', '.join(sorted(found))}")
    bad += [f"{workspace}: {name} has one version or none: remove it from DUPLICATES"
            for workspace, name in sorted(waiting)]
    good = f"{count} packages have licences that fit GPL-2.0-only, and one version each"
    return gate.verdict(bad, good + f", besides {known} known ones" * bool(known),
                        "cargo tree -i NAME shows which crates use one: take another crate or "
                        "version")


if __name__ == "__main__":
    gate.run(main)
