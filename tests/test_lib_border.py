# SPDX-License-Identifier: GPL-2.0-only
"""The check of lib/'s border: tests/lib_border.py, on tiny files."""

import lib_border
import pytest

from support import gates

PAGE = ("# lib\n\n## Any host\n\n| file | what |\n|---|---|\n| `a.c`, `a.h` | loads |\n\n"
        "## Linux\n\n| file | what |\n|---|---|\n| `b.c` | boots |\n| `more/` | more |\n")
GOOD = {
    "a.c": "#include <stdio.h>\n#include <outboard/platform.h>\n\n#include \"a.h\"\n",
    "a.h": "struct ob_host;\nint ob_platform_a(struct ob_host *host);\n",
    "b.c": "#include <pthread.h>\n/* ob_host_random() */\nint b = sizeof(\"ob_host_random\");\n",
    "more/c.c": "#include <outboard/platform_host.h>\n",
    "README.md": PAGE,
}


def outcome(root, capsys, **changes):
    """Writes the files; returns whether the check passes, and what it prints."""
    gates.write_files(f"{root}/lib", {**GOOD, **changes})
    return gates.outcome(capsys, lib_border.main, str(root))


def test_good(tmp_path, capsys):
    passes, said = outcome(tmp_path, capsys)
    assert passes and "4 C files and headers of lib/ make no hypercall; 2 of them" in said


@pytest.mark.parametrize("name", ["b.c", "more/c.c", "a.h"])
def test_hypercall(tmp_path, capsys, name):
    text = GOOD[name] + "\nint b(void)\n{\n\treturn ob_host_random(host, &b, 1);\n}\n"
    passes, said = outcome(tmp_path, capsys, **{name: text})
    assert not passes
    assert f"lib/{name}:{text.count(chr(10)) - 1}: ob_host_random is a hypercall" in said


@pytest.mark.parametrize("header", ["<pthread.h>", "<outboard/platform_host.h>", "\"b.h\""])
def test_not_for_any_host(tmp_path, capsys, header):
    page = PAGE.replace("`b.c`", "`b.c`, `b.h`")
    passes, said = outcome(tmp_path, capsys, **{
        "a.h": f"#include {header}\n", "b.h": "int b;\n", "README.md": page})
    assert not passes and f"lib/a.h:1: {header[1:-1]} is not for any host" in said


@pytest.mark.parametrize("page, complaint", [
    (PAGE.replace("`b.c`", "`b.h`"), "b.c is listed 0 times, not once"),
    (PAGE.replace("`b.c`", "`b.h`"), "there is no b.h"),
    (PAGE.replace("`b.c`", "`b.c`, `a.c`"), "a.c is listed 2 times, not once"),
    (PAGE.replace("| `more/`", "| more"), "more/ is listed 0 times, not once"),
    (PAGE.replace("## Any host", "## Some hosts"), "no file is listed under \"## Any host\""),
])
def test_list(tmp_path, capsys, page, complaint):
    passes, said = outcome(tmp_path, capsys, **{"README.md": page})
    assert not passes and complaint in said
