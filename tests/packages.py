#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails if a crate of crates/ is not ready to be published.

A crate that may be published has a description, keywords, categories, a README and the text of its
licence. No crate needs, for its tests, a crate that is built on it: such a circle cannot be
published. `cargo package` makes the packages of all crates, and refuses what a registry refuses.
With --build it does all that `cargo publish` does but the upload, and so builds each package,
without the rest of the repository; OUTBOARD_LIB_DIR names the directory of liboutboard then.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
from typing import Any

Package = dict[str, Any]
# The most of each that a registry of crates takes.
MOST_WORDS = 5


def cargo(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs cargo on crates/."""
    name, *rest = words
    return subprocess.run(["cargo", name, "--manifest-path", "crates/Cargo.toml", *rest],
                          check=False, text=True, **options)


def packages() -> dict[str, Package]:
    """The crates of the workspace, by their names."""
    done = cargo("metadata", "--no-deps", "--locked", "--format-version", "1",
                 stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit("cargo metadata has failed")
    return {package["name"]: package for package in json.loads(done.stdout)["packages"]}


def missing(package: Package) -> list[str]:
    """The things that a crate lacks for others."""
    directory = os.path.dirname(package["manifest_path"])
    lacks = [f"no {member} in its Cargo.toml" for member in ("description", "license", "readme")
             if not package[member]]
    for member in ("keywords", "categories"):
        if not 0 < len(package[member]) <= MOST_WORDS:
            lacks.append(f"{member}: 1 to {MOST_WORDS} are needed")
    return lacks + [f"no file {name}" for name in ("LICENSE", "README.md")
                    if not os.path.isfile(f"{directory}/{name}")]


def needed(name: str, crates: dict[str, Package]) -> set[str]:
    """The crates of the workspace that a crate is built with."""
    found: set[str] = set()
    new = [name]
    while new:
        for needs in crates[new.pop()]["dependencies"]:
            other = needs["name"]
            if other in crates and needs["kind"] != "dev" and other not in found:
                found.add(other)
                new.append(other)
    return found


def circles(crates: dict[str, Package]) -> list[str]:
    """Crates whose tests need a crate that is built on them."""
    return [f"{name}: its tests need {needs['name']}, which is built with {name}"
            for name, package in crates.items() for needs in package["dependencies"]
            if needs["kind"] == "dev" and needs["name"] in crates
            and name in needed(needs["name"], crates)]


def forget(crates: dict[str, Package]) -> None:
    """Removes the unpacked packages of an earlier run: cargo takes those of a version as they are.

    Cargo names the directory of a registry after its host. The registry of packages that are not
    published has none.
    """
    home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    for name, package in crates.items():
        found = f"{glob.escape(home)}/registry/src/-*/{name}-{package['version']}"
        for directory in glob.glob(found):
            shutil.rmtree(directory)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", action="store_true", help="also build each package")
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    crates = packages()
    public = {name for name, package in crates.items() if package["publish"] != []}
    complaints = circles(crates)
    for name in sorted(public):
        complaints += [f"{name}: {text}" for text in missing(crates[name])]
        complaints += [f"{name}: {other}, which it needs, is not published"
                       for other in sorted(needed(name, crates) - public)]
    for text in complaints:
        print(text)
    words = ["package", "--no-verify"]
    if options.build:
        # As well, it asks the registry for the versions that are there.
        words = ["publish", "--dry-run"]
    words += ["--workspace", "--locked", "--allow-dirty", "--quiet"]
    words += [word for name in sorted(set(crates) - public) for word in ("--exclude", name)]
    if options.build:
        forget(crates)
    failed = cargo(*words).returncode
    print(f"{len(public)} crates to publish, {len(complaints)} complaints")
    return 1 if complaints or failed else 0


if __name__ == "__main__":
    sys.exit(main())
