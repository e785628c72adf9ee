#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails if a crate of crates/ has lost or changed a public item that its version promises.

    tests/semver.py [REVISION]

Compares the libraries that may be published with those of a git revision, by cargo-semver-checks.
Without an argument, the environment's SINCE names the revision. Without that, it is the last tag;
in a repository without tags it is the merge base of HEAD and its upstream branch.

The first run installs the tool in out/tools. Only the documentation of crates is built, which needs
no library of Outboard.
"""

import os
import shutil
import subprocess
import sys

import packages

TOOL = "cargo-semver-checks"
# Reads the documentation of the compiler that the project uses.
VERSION = "0.51.0"
ADVICE = ("keep the item, with #[deprecated] if need be, or raise the version in crates/Cargo.toml "
          "as the failure asks for")


def git(*words: str) -> str | None:
    """The line that git prints. None: it fails."""
    done = subprocess.run(["git", "-c", "safe.directory=*", *words], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return None if done.returncode else done.stdout.strip()


def revision(arguments: list[str]) -> str:
    """The name of the revision to compare with."""
    given = arguments[0] if arguments else os.environ.get("SINCE")
    name = (given or git("describe", "--tags", "--abbrev=0")
            or git("merge-base", "HEAD", "@{upstream}"))
    if not name:
        sys.exit("there is no tag and no upstream branch: give a revision, as in "
                 "tests/semver.py HEAD~10")
    if not git("rev-parse", "--verify", f"{name}^{{commit}}"):
        sys.exit(f"there is no revision {name}: run git fetch, or name another one")
    return name


def compared(crates: dict[str, packages.Package], since: str) -> list[str]:
    """The crates with a library that others may get, and that the revision has, too."""
    public = [name for name, package in sorted(crates.items()) if package["publish"] != []
              and any("lib" in target["kind"] for target in package["targets"])]
    found = [name for name in public
             if git("cat-file", "-e", f"{since}:crates/{name}/Cargo.toml") is not None]
    for name in sorted(set(public) - set(found)):
        print(f"{name}: {since} does not have it")
    return found


def tool(out: str) -> str:
    """The program, which is installed if it is missing."""
    path = f"{out}/tools/bin/{TOOL}"
    version = subprocess.run([path, "--version"], check=False, text=True, stdout=subprocess.PIPE) \
        if os.path.exists(path) else None
    if not version or version.stdout.split()[-1:] != [VERSION]:
        print(f"installing {TOOL} {VERSION} in {out}/tools: takes some minutes", flush=True)
        work = f"{out}/tools/build"
        subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", f"{out}/tools",
                        "--target-dir", work, "--version", VERSION, TOOL], check=True)
        shutil.rmtree(work, ignore_errors=True)
    return path


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    out = os.environ.get("OUTBOARD_OUT") or os.path.realpath("out")
    since = revision(arguments)
    names = compared(packages.packages(), since)
    if not names:
        print(f"{since} has no crate to compare with")
        return 1
    print(f"comparing {len(names)} crates with {since}", flush=True)
    command = [tool(out), "semver-checks", "--manifest-path", "crates/Cargo.toml",
               "--baseline-rev", since]
    failed = subprocess.run(
        command + [word for name in names for word in ("--package", name)], check=False,
        env={**os.environ, "DOCS_RS": "1", "OUTBOARD_LIB_DIR": "/nonexistent",
             "CARGO_TARGET_DIR": f"{out}/cargo-semver"}).returncode
    print(ADVICE if failed else f"{len(names)} crates keep what {since} has promised")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
