# SPDX-License-Identifier: GPL-2.0-only
"""The check of the licences and versions of crates: tests/licences.py, on tiny workspaces."""

import licences
import pytest

from support import gates

OWN = {"name": "own", "version": "0.1.0", "license": "GPL-2.0-only"}


def outcome(root, capsys, packages, workspace="crates", duplicates=()):
    """Returns whether the check passes, and what it prints. Each of the packages of the workspace
    is a name, a version and a licence."""
    keys = ("name", "version", "license")
    found = [dict(zip(keys, package)) for package in packages]

    def read(asked):
        return {"packages": [OWN] + (found if asked == workspace else [])}

    reasons = dict.fromkeys(duplicates, "a reason")
    return gates.outcome(capsys, licences.main, str(root), read, reasons)


@pytest.mark.parametrize("expression", [
    "MIT", "MIT OR Apache-2.0", "Apache-2.0 OR MIT", "MIT/Apache-2.0", "Apache-2.0/MIT",
    "(MIT OR Apache-2.0) AND Unicode-3.0", "Apache-2.0 AND MIT OR Zlib",
    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", "GPL-3.0-only OR BSD-2-Clause",
    "MIT AND (BSD-3-Clause OR Apache-2.0)", "((MIT))",
])
def test_licences_that_fit(tmp_path, capsys, expression):
    passes, said = outcome(tmp_path, capsys, [("other", "1.0.0", expression)])
    assert passes and said.startswith("4 packages have licences that fit"), said


@pytest.mark.parametrize("expression", [
    "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "GPL-3.0-only", "MPL-2.0", "AGPL-3.0-only",
    "MIT AND Apache-2.0", "Apache-2.0 AND (MIT OR Zlib)", "MIT WITH LLVM-exception", "mit",
])
def test_licences_that_do_not(tmp_path, capsys, expression):
    passes, said = outcome(tmp_path, capsys, [("other", "1.0.0", expression)])
    assert not passes
    wanted = f"crates: other 1.0.0 has the licence {expression}, which does not fit GPL-2.0-only\n"
    assert said.startswith(wanted)


@pytest.mark.parametrize("expression", [
    "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Zlib", "MIT WITH", "()", "AND", "MIT OR OR MIT",
])
def test_expressions_that_are_none(tmp_path, capsys, expression):
    passes, said = outcome(tmp_path, capsys, [("other", "1.0.0", expression)])
    assert not passes and "other 1.0.0 has a licence that is no expression of SPDX" in said


@pytest.mark.parametrize("expression", [None, ""])
def test_no_licence(tmp_path, capsys, expression):
    passes, said = outcome(tmp_path, capsys, [("other", "1.0.0", expression)])
    assert not passes and "other 1.0.0 has no licence expression" in said


def test_workspaces_may_have_more(tmp_path, capsys):
    packages = [("other", "1.0.0", "Apache-2.0 AND MIT")]
    for workspace in licences.WORKSPACES:
        passes = outcome(tmp_path, capsys, packages, workspace)[0]
        assert passes == (workspace == "tests/vhost_pair"), workspace


def test_versions(tmp_path, capsys):
    packages = [("other", "1.0.0", "MIT"), ("other", "2.0.0", "MIT")]
    passes, said = outcome(tmp_path, capsys, packages)
    assert not passes and "crates: other is there in 2 versions: 1.0.0, 2.0.0\n" in said
    known = [("crates", "other")]
    assert outcome(tmp_path, capsys, packages, duplicates=known)[0]
    # It is known of the other workspace only.
    assert not outcome(tmp_path, capsys, packages, "fuzz", known)[0]


def test_known_versions_that_are_gone(tmp_path, capsys):
    known = [("fuzz", "other")]
    passes, said = outcome(tmp_path, capsys, [("other", "1.0.0", "MIT")], "fuzz", known)
    assert not passes and "fuzz: other has one version or none" in said


def test_no_package(tmp_path, capsys):
    passes, printed = gates.outcome(capsys, licences.main, str(tmp_path),
                                    lambda _: {"packages": []}, {})
    assert not passes and "crates: no package" in printed
