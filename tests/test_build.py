# SPDX-License-Identifier: GPL-2.0-only
"""The build scripts in checkouts, and with directories of modules, whose paths have characters that
make, Linux's build or a shell takes for something else.
"""

import os
import shutil
import subprocess

import pytest

from support import host, program

BUILD = os.path.join(program.REPOSITORY, "kernel", "build")
ODD = ("two  blanks", "a:b", "100%", "a#b", "it's", 'say "x"', "a,b", "a$b", "back\\slash", "`ls`",
       "a;b&c", "x=y", "(a)", "*?[a]", "\u00fcber", "tab\there")
# Prints the directories that a build script uses.
SHOW = 'source kernel/build/common.sh; printf "%s\n" "$REPO" "$OUT" "$OBJECTS" "$TREE"'


def checkout(directory: str) -> str:
    """As much of a checkout as the scripts look at first."""
    os.makedirs(f"{directory}/kernel/build")
    os.makedirs(f"{directory}/crates")
    for name in ("common.sh", "help.sh"):
        shutil.copy(f"{BUILD}/{name}", f"{directory}/kernel/build")
    shutil.copy(f"{program.REPOSITORY}/Makefile", directory)
    shutil.copy(f"{program.REPOSITORY}/crates/Cargo.toml", f"{directory}/crates")
    return directory


def places(directory: str, cache: str) -> list:
    return host.run("bash", "-c", SHOW, cwd=directory, XDG_CACHE_HOME=cache).stdout.splitlines()


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_an_odd_checkout(work, name):
    """make and Linux's build see plain paths only, and out/ leads to them."""
    directory = checkout(f"{work}/{name}")
    found = places(directory, f"{work}/cache")
    repository, out, *_ = found
    assert all(path.startswith(f"{work}/cache/") for path in found), found
    assert os.path.samefile(repository, directory)
    os.makedirs(out, exist_ok=True)
    assert os.path.samefile(f"{directory}/out", out)
    # The link decides, not the cache directory of the day.
    assert places(directory, f"{work}/other") == found
    said = host.run("make", "help", cwd=directory, MAKEFLAGS="", MAKELEVEL="").stdout
    assert said.startswith("make  ")


def test_a_plain_checkout(work):
    directory = checkout(f"{work}/plain-1.0_x@y+z~")
    assert places(directory, f"{work}/cache")[:2] == [directory, f"{directory}/out"]
    assert not os.path.lexists(f"{directory}/out") and not os.path.exists(f"{work}/cache")


def test_a_copy_of_an_odd_checkout(work):
    """It builds in a directory of its own, although it has the link of the other."""
    first = places(checkout(f"{work}/a b"), f"{work}/cache")
    shutil.copytree(f"{work}/a b", f"{work}/c d", symlinks=True)
    second = places(f"{work}/c d", f"{work}/cache")
    assert first[1] != second[1] and os.path.samefile(second[0], f"{work}/c d")
    assert places(f"{work}/a b", f"{work}/cache") == first


@pytest.mark.parametrize("cache", ["a cache", "a%cache"])
def test_no_plain_path_at_all(work, cache):
    directory = checkout(f"{work}/a b")
    done = subprocess.run(["bash", "-c", SHOW], cwd=directory, capture_output=True, text=True,
                          env=host.environment(XDG_CACHE_HOME=f"{work}/{cache}"), check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "set XDG_CACHE_HOME" in done.stderr


def test_a_module_in_an_odd_directory(work):
    directory = f"{work}/it's my: module, 100%"
    shutil.copytree(os.path.join(program.REPOSITORY, "docs", "examples", "hello_module"), directory)
    host.run("make", "-s", "-C", program.REPOSITORY, "modules", f"M={directory}", MAKEFLAGS="",
             MAKELEVEL="")
    assert os.path.exists(f"{directory}/hello.ko")


def test_a_prefix_that_no_program_could_be_built_with(work):
    done = host.run("make", "-C", program.REPOSITORY, "install", f"PREFIX={work}/a b", ok=(2,),
                    MAKEFLAGS="", MAKELEVEL="")
    assert "has characters that pkg-config refuses" in done.stderr
    assert os.listdir(work) == []
