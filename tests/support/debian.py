# SPDX-License-Identifier: GPL-2.0-only
"""Debian systems made by mmdebstrap, and sources of Debian's packages, from the mirror that this
machine's apt uses. They are made or fetched once and kept.
"""

import functools
import hashlib
import os
import shutil

import pytest

from . import host, program

# A directory for $PATH: a program that takes the place of mmdebstrap with what a test has made by
# it.
STAND_IN = """#!/bin/sh -e
[ "$*" = "{words}" ] || {{ echo "other words than the test's: $*" >&2; exit 1; }}
mv "$(dirname "$0")/kept" "{name}"
"""


@functools.cache
def mirror(suite: str) -> str:
    """Where this machine gets the packages of a suite from."""
    if not host.have("apt-get"):
        pytest.skip("no apt, which would know a mirror of Debian")
    listed = host.run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                      "Created-By: Packages", ok=None).stdout
    for uri, release, component in (line.split() for line in listed.splitlines()):
        if (release, component) == (suite, "main"):
            return uri
    pytest.skip(f"apt has no mirror of Debian's {suite} here")


def system(words: list, user: list) -> str:
    """The archive that mmdebstrap makes with these words (the last two: suite and a name), run by
    `user`.
    """
    uri = mirror(words[-2])
    cache = os.path.join(os.environ["XDG_CACHE_HOME"], "debian")
    os.makedirs(cache, exist_ok=True)
    kept = os.path.join(cache,
                        hashlib.sha256(" ".join([*words, uri]).encode()).hexdigest() + ".tar")
    if os.path.exists(kept):
        return kept
    scratch = os.path.join(program.OUT, "test-tmp", "debian")
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    os.chmod(scratch, 0o777)
    try:
        made = os.path.join(scratch, "system.tar")
        done = host.run(*user, "mmdebstrap", *words[:-1], made, uri, ok=None, cwd=scratch,
                        TMPDIR=scratch, HOME=scratch, timeout=1800)
        missing = [
            line for line in done.stderr.splitlines() if line.startswith("E: Failed to fetch")
        ]
        if done.returncode and missing:
            pytest.skip(f"Debian's mirror cannot be had: {missing[0]}")
        assert done.returncode == 0, done.stderr[-3000:]
        shutil.move(made, kept)
    finally:
        # After a timeout, children of mmdebstrap may still be at work.
        host.remove_tree(scratch)
    return kept


def stand_in(directory: str, words: list, kept: str) -> None:
    """Makes a "mmdebstrap" in a directory, whose work is done already."""
    host.copy_sparse(kept, os.path.join(directory, "kept"))
    path = os.path.join(directory, "mmdebstrap")
    with open(path, "w", encoding="ascii") as stream:
        stream.write(STAND_IN.format(words=" ".join(words), name=words[-1]))
    os.chmod(path, 0o755)


KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def suite() -> str:
    with open("/etc/os-release", encoding="utf-8") as stream:
        for line in stream:
            name, _, value = line.partition("=")
            if name == "VERSION_CODENAME":
                return value.strip().strip('"')
    pytest.skip("this machine does not say which Debian it has")


def fetch_source(package: str, directory: str) -> None:
    """Unpacks the source of a package, with apt's lists in the directory: apt itself is unchanged.
    """
    name = suite()
    for part in ("lists/partial", "cache/archives/partial", "source"):
        os.makedirs(os.path.join(directory, part))
    signed = f"[signed-by={KEYRING}] " if os.path.exists(KEYRING) else ""
    with open(os.path.join(directory, "sources.list"), "w", encoding="ascii") as stream:
        stream.write(f"deb-src {signed}{mirror(name)} {name} main\n")
    settings = {
        "Dir::Etc::SourceList": f"{directory}/sources.list", "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": f"{directory}/lists", "Dir::Cache": f"{directory}/cache",
        "APT::Sandbox::User": "root"
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    for words in (["update"], ["source", package]):
        done = host.run("apt-get", *options, *words, ok=None, cwd=f"{directory}/source",
                        timeout=300)
        if done.returncode:
            pytest.skip(f"Debian's mirror has no source of {package}: {done.stderr[-300:]}")


def source(package: str, directory: str) -> str:
    """The unpacked source of a package, as Debian builds it, as a copy in a directory."""
    kept = os.path.join(os.environ["XDG_CACHE_HOME"], "debian-source", package)
    if not os.path.exists(kept):
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        scratch = os.path.join(program.OUT, "test-tmp", "debian-source")
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            fetch_source(package, scratch)
            shutil.move(os.path.join(scratch, "source"), kept)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    tree = next(entry for entry in sorted(os.listdir(kept))
                if os.path.isdir(os.path.join(kept, entry)))
    return shutil.copytree(os.path.join(kept, tree), os.path.join(directory, tree), symlinks=True)
