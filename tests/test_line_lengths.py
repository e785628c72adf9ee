# SPDX-License-Identifier: GPL-2.0-only
"""The check that no line is too long: tests/line_lengths.py, on tiny trees."""

import os

import line_lengths
import pytest

from support import gates

LONG = "word " * 20 + "x"
FITS = LONG[:-1].rstrip() + "x"


def outcome(root, capsys, path, text):
    """Writes one file into the tree, and returns whether the check passes and what it prints.

    The tree also has a README.md, so that there is something to check.
    """
    with open(f"{root}/README.md", "w", encoding="utf-8"):
        pass
    os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
    with open(f"{root}/{path}", "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    return gates.outcome(capsys, line_lengths.main, str(root))


@pytest.mark.parametrize("path", [
    "lib/a.c", "hypercall/posix/a.h", "kernel/arch/a.S", "kernel/build/a.sh", "bench/a.py",
    "kernel/arch/Kconfig", "kernel/arch/Kconfig.debug", "docs/lab/a.md", "tests/formats/a.py",
    "crates/outboard/src/a.rs", "crates/Cargo.toml", "fuzz/src/a.rs", "Makefile",
    "tests/library/secrets/Kbuild", "new/a.c", "a.bash",
])
def test_too_long(tmp_path, capsys, path):
    passes, said = outcome(tmp_path, capsys, path, f"{FITS}\n{LONG}\n")
    assert not passes and f"{path}:2: 101 columns" in said
    assert f"{path}:1:" not in said


def test_tabs(tmp_path, capsys):
    passes, said = outcome(tmp_path, capsys, "lib/a.c", "\t" * 12 + "12345\n")
    assert not passes and "lib/a.c:1: 101 columns" in said
    assert outcome(tmp_path, capsys, "lib/a.c", "\t" * 12 + "1234\n")[0]


def test_scripts_without_a_suffix(tmp_path, capsys):
    for path in ("bench/run", ".ci/run"):
        assert not outcome(tmp_path, capsys, path, f"#!/bin/bash\n# {LONG}\n")[0]
        assert outcome(tmp_path, capsys, path, f"{LONG}\n")[0]


@pytest.mark.parametrize("text", [
    f"| {LONG} |\n", f"```sh\n{LONG}\n```\n", f"  ```\n  {LONG}\n  ```\n", "x" * 120 + "\n",
    "* " + "x" * 120 + "\n", f"```\n```sh\n{LONG}\n```\n",
])
def test_markdown_that_may_be_long(tmp_path, capsys, text):
    assert outcome(tmp_path, capsys, "docs/a.md", text)[0]


@pytest.mark.parametrize("text", [
    f"{LONG}\n", f"* {LONG}\n", f"```\na\n```\n{LONG}\n", f"    {LONG}\n", "```\na\n",
])
def test_markdown_that_may_not(tmp_path, capsys, text):
    assert not outcome(tmp_path, capsys, "docs/a.md", text)[0]


def test_what_is_left_out(tmp_path, capsys):
    for path in ("docs/a.svg", "kernel/out.bin", "tests/a.txt", "out/a.c", ".git/a.c",
                 "fuzz/seeds/tar/a.c", "crates/target/a.rs", "tests/.pytest_cache/README.md"):
        assert outcome(tmp_path, capsys, path, f"{LONG}\n")[0], path
    assert not outcome(tmp_path, capsys, "tests/out/a.c", f"{LONG}\n")[0]


def test_unclosed_fence_is_named(tmp_path, capsys):
    said = outcome(tmp_path, capsys, "docs/a.md", f"a\n```\n{LONG}\n")[1]
    assert "docs/a.md: line 2 opens a code block" in said


def test_bytes_that_are_no_text(tmp_path, capsys):
    assert outcome(tmp_path, capsys, "lib/a.c", "\udcff\n")[0]


def test_fifo(tmp_path, capsys):
    os.makedirs(f"{tmp_path}/lib")
    os.mkfifo(f"{tmp_path}/lib/b.c")
    assert outcome(tmp_path, capsys, "lib/a.c", "\n")[0]


def test_nothing_to_check(tmp_path, capsys):
    passes, printed = gates.outcome(capsys, line_lengths.main, str(tmp_path))
    assert not passes and "no file to check" in printed
