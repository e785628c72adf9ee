# SPDX-License-Identifier: GPL-2.0-only
"""The check that C files have no circle: tests/c_circles.py, on tiny files."""

import c_circles
import pytest

from support import gates

PLACE = "lib"


def outcome(root, capsys, files, known=None):
    """Writes the files of one place; returns whether the check passes, and what it prints."""
    alone = "int alone(void)\n{\n\treturn 0;\n}\n"
    gates.write_files(str(root), {f"{place}/alone.c": alone for place in c_circles.PLACES})
    gates.write_files(f"{root}/{PLACE}", files)
    return gates.outcome(capsys, c_circles.main, str(root), known=known or {})


B = "int of_b(void)\n{\n\treturn of_a();\n}\nint number_of_b = 1;\n"


@pytest.mark.parametrize("text", [
    "int of_a(void)\n{\n\treturn of_b();\n}\n",
    "int of_a(void)\n{\n\treturn number_of_b;\n}\n",
    "static int f(void)\n{\n\treturn of_b();\n}\n\nint of_a(void)\n{\n\treturn 1;\n}\n",
    "int (*const table[])(void) = { of_b };\nint of_a(void)\n{\n\treturn 1;\n}\n",
])
def test_circle(tmp_path, capsys, text):
    passes, said = outcome(tmp_path, capsys, {"a.c": text, "b.c": B})
    assert not passes and "lib: files use each other: a.c b.c" in said
    assert "lib/b.c:3 (of_a): lib/b.c uses lib/a.c" in said


def test_circle_by_a_header(tmp_path, capsys):
    files = {"a.c": "#include \"a.h\"\nint of_a(void)\n{\n\treturn inline_of_a();\n}\n",
             "a.h": "int of_a(void);\n\nstatic inline int inline_of_a(void)\n{\n"
                    "\treturn of_a();\n}\n"}
    passes, said = outcome(tmp_path, capsys, files)
    assert not passes and "files use each other: a.c a.h" in said


@pytest.mark.parametrize("text", [
    "/* of_b() */\nint of_a(void)\n{\n\treturn 1;\n}\n",
    "int of_a(void)\n{\n\tputs(\"of_b()\");\n\treturn 1;\n}\n",
    "int of_a(void)\n{\n\treturn x->of_b + y.of_b;\n}\n",
    "static int of_b(void)\n{\n\treturn 1;\n}\n",
])
def test_no_circle(tmp_path, capsys, text):
    passes, said = outcome(tmp_path, capsys, {"a.c": text, "b.c": B})
    assert passes, said


def test_a_header_may_declare_all(tmp_path, capsys):
    header = "int of_a(void);\nint of_b(void);\n"
    files = {"all.h": header, "a.c": "#include \"all.h\"\nint of_a(void)\n{\n\treturn 1;\n}\n",
             "b.c": f"#include \"all.h\"\n{B}"}
    passes, said = outcome(tmp_path, capsys, files)
    assert passes, said


def test_known_circles(tmp_path, capsys):
    known = {("lib", "a.c b.c"): "a reason"}
    text = "int of_a(void)\n{\n\treturn of_b();\n}\n"
    passes, said = outcome(tmp_path, capsys, {"a.c": text, "b.c": B}, known)
    assert passes, said
    passes, said = outcome(tmp_path, capsys, {"a.c": ""}, known)
    assert not passes and "lib: a.c b.c is no circle any more" in said
