# SPDX-License-Identifier: GPL-2.0-only
"""The check that imports have no circle: tests/import_circles.py, on tiny crates."""

import os

import import_circles
import pytest

from support import gates


def outcome(root, capsys, files, known=frozenset()):
    """Writes files below crates/; returns whether the check passes, and what it prints."""
    crates = {name.split("/", maxsplit=1)[0] for name in files}
    manifests = {f"{crate}/Cargo.toml": "" for crate in crates}
    gates.write_files(f"{root}/crates", {**files, **manifests})
    return gates.outcome(capsys, import_circles.main, str(root), known=set(known))


def modules(**sources):
    """A crate with these modules."""
    root = "".join(f"mod {name};\n" for name in sources)
    files = {f"one/src/{name}.rs": text for name, text in sources.items()}
    return {"one/src/lib.rs": root, **files}


@pytest.mark.parametrize("text", [
    "use crate::b;", "use crate::b::{self, X};", "use crate::{c, b};", "use super::b::X;",
    "pub use crate::b::X as Y;", "use crate::{\n    c::Z,\n    b::{X, Y},\n};",
    "fn f() { crate::b::g() }", "fn f() { super::b::g() }", "fn f(x: crate :: b::X) {}",
    "fn f(c: char) { if c == '\"' { crate::b::g() } }", "fn f<'a>(x: &'a crate::b::X) {}",
    "mod inner { use crate::b; }", "use crate::b as other;", "use crate::c; fn f() { c::Back }",
])
def test_circle_of_modules(tmp_path, capsys, text):
    files = modules(a=text, b="use crate::a::A;", c="pub use crate::b::Back;")
    passes, said = outcome(tmp_path, capsys, files)
    assert not passes and "files import each other: a.rs, b.rs" in said
    assert "crates/one/src/b.rs:1: b.rs uses a.rs" in said


@pytest.mark.parametrize("text", [
    "// use crate::b;", "/* crate::b */", "fn f() { g(\"use crate::b;\") }",
    "#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n", "use super::super::b;", "use crate::c;",
    "fn f() { g(r#\"\" crate::b \"#) }", "use other::b;", "use std::b;", "use self::b::X;",
    "pub(in crate::b) fn f() {}", "fn f() { b::g() }",
])
def test_no_circle(tmp_path, capsys, text):
    passes, said = outcome(tmp_path, capsys, modules(a=text, b="use crate::a::A;", c=""))
    assert passes, said


def nested(**texts):
    """A crate with a module `a`, and files below it."""
    files = modules(a=texts.pop("a"))
    files.update({f"one/src/a/{name}.rs": text for name, text in texts.items()})
    return files


@pytest.mark.parametrize("child", [
    "use super::Own;", "use crate::a::Own;", "fn f() { super::own() }", "use super::{self, Own};",
    "use super::*;",
])
def test_child_that_uses_its_parent(tmp_path, capsys, child):
    files = nested(a="mod b;\nuse b::X;\nstruct Own;\nfn own() {}\n", b=child)
    passes, said = outcome(tmp_path, capsys, files)
    assert not passes and "files import each other: a.rs, a/b.rs" in said
    assert "crates/one/src/a.rs:2: a.rs uses a/b.rs" in said
    # A parent that only declares its child does not use it.
    files["one/src/a.rs"] = "mod b;\nstruct Own;\nfn own() {}\n"
    assert outcome(tmp_path, capsys, files)[0]


@pytest.mark.parametrize("reexport", [
    "pub use c::Shared;", "pub use c::*;", "pub use self::c::{Other, Shared};",
    "pub use c::Hidden as Shared;", "pub(crate) use crate::a::c::Shared;", "use c::Shared;",
])
@pytest.mark.parametrize("used", ["use super::Shared;", "use crate::a::Shared;",
                                  "fn f() { super::Shared::new() }"])
def test_reexported_names_are_of_the_file_that_defines_them(tmp_path, capsys, reexport, used):
    files = nested(a=f"mod b;\nmod c;\npub use b::X;\n{reexport}\n", b=used,
                   c="pub struct Shared;\npub struct Hidden;\n")
    passes, said = outcome(tmp_path, capsys, files)
    assert passes, said
    files["one/src/a/c.rs"] += "use super::b::X;\n"
    said = outcome(tmp_path, capsys, files)[1]
    assert "files import each other: a/b.rs, a/c.rs\n" in said


def test_names_that_reexport_each_other_end(tmp_path, capsys):
    files = modules(a="pub use crate::b::X;", b="pub use crate::a::X;")
    assert outcome(tmp_path, capsys, files)[0]


def test_siblings_and_children_of_siblings(tmp_path, capsys):
    files = modules(a="mod deep;\nuse deep::X;", b="use crate::a::deep::A;")
    files["one/src/a/deep/mod.rs"] = "use super::super::b::B;\n"
    said = outcome(tmp_path, capsys, files)[1]
    assert "crates/one/src/a/deep/mod.rs:1: a/deep/mod.rs uses b.rs" in said
    assert "files import each other: a/deep/mod.rs, b.rs\n" in said


def test_files_of_tests_do_not_count(tmp_path, capsys):
    files = modules(a="#[cfg(test)]\nmod tests;\n", b="use crate::a::A;")
    files["one/src/a/tests.rs"] = "use crate::b::B;\n"
    passes, said = outcome(tmp_path, capsys, files)
    assert passes, said


def test_long_circle(tmp_path, capsys):
    files = modules(a="use crate::b;", b="use crate::c;", c="use crate::a;", d="use crate::a;")
    assert "files import each other: a.rs, b.rs, c.rs\n" in outcome(tmp_path, capsys, files)[1]


def test_names_of_the_root(tmp_path, capsys):
    files = modules(a="use crate::B;", b="use crate::a::A;")
    files["one/src/lib.rs"] += "pub use b::B;\npub use other::Thing;\n"
    assert "import each other: a.rs, b.rs\n" in outcome(tmp_path, capsys, files)[1]
    files["one/src/a.rs"] = "use crate::Thing;"
    assert outcome(tmp_path, capsys, files)[0]
    # A constant of the root itself, for which it uses a module.
    files["one/src/a.rs"] = "use crate::OWN;"
    files["one/src/lib.rs"] += "use a::A;\nconst OWN: A = A;\n"
    assert "import each other: a.rs, b.rs, lib.rs\n" in outcome(tmp_path, capsys, files)[1]


def test_circle_of_crates(tmp_path, capsys):
    files = {"first-one/src/lib.rs": "use second_one::B;", "second-one/src/lib.rs": "mod a;\n",
             "second-one/src/a.rs": "fn f() { first_one::g() }"}
    passes, said = outcome(tmp_path, capsys, files)
    assert not passes and "crates: crates import each other: first-one, second-one" in said
    files["second-one/src/a.rs"] = ""
    assert outcome(tmp_path, capsys, files)[0]


def test_known_circles(tmp_path, capsys):
    files = modules(a="use crate::b;", b="use crate::a;", c="")
    known = {("one", ("a.rs", "b.rs", "c.rs"))}
    assert outcome(tmp_path, capsys, files, known)[0]
    assert not outcome(tmp_path, capsys, files, {("one", ("a.rs", "c.rs"))})[0]
    assert not outcome(tmp_path, capsys, files, {("two", ("a.rs", "b.rs"))})[0]
    files["one/src/b.rs"] = ""
    passes, said = outcome(tmp_path, capsys, files, known)
    assert not passes and "a.rs, b.rs, c.rs: no circle any more, remove the row from KNOWN" in said


def test_no_crate(tmp_path, capsys):
    os.makedirs(f"{tmp_path}/crates")
    assert not outcome(tmp_path, capsys, {})[0]


def test_the_repository(capsys):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    passes, said = gates.outcome(capsys, import_circles.main, root)
    assert passes, said
