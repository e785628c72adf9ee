# SPDX-License-Identifier: GPL-2.0-only
"""The check that crates can be published: tests/packages.py, on tiny crates."""

import packages


def crate(directory, *needs, **members):
    """A crate that lacks nothing, as cargo describes it, with other values of these members."""
    manifest = directory / "Cargo.toml"
    for name in ("Cargo.toml", "LICENSE", "README.md"):
        (directory / name).touch()
    return {"manifest_path": str(manifest), "description": "a crate", "license": "GPL-2.0-only",
            "readme": "README.md", "keywords": ["a"], "categories": ["b"], "publish": None,
            "dependencies": [{"name": name, "kind": kind} for name, kind in needs], **members}


def test_a_crate_lacks_nothing(tmp_path):
    assert not packages.missing(crate(tmp_path))


def test_what_a_crate_lacks(tmp_path):
    lacking = crate(tmp_path, description=None, keywords=[], categories=list("abcdef"))
    (tmp_path / "LICENSE").unlink()
    found = "\n".join(packages.missing(lacking))
    for word in ("description", "keywords", "categories", "LICENSE"):
        assert word in found, found
    assert "README" not in found, found


def test_what_an_earlier_run_has_unpacked(tmp_path, monkeypatch):
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    ours, other = (tmp_path / "registry" / "src" / name / "low-0.1.0"
                   for name in ("-0123", "index.crates.io-0123"))
    for directory in (ours, other):
        directory.mkdir(parents=True)
    packages.forget({"low": crate(tmp_path, version="0.1.0")})
    assert not ours.exists() and other.exists()


def test_tests_that_need_a_crate_above(tmp_path):
    crates = {"low": crate(tmp_path, ("high", "dev")), "middle": crate(tmp_path, ("low", None)),
              "high": crate(tmp_path, ("middle", None), ("images", "dev")),
              "images": crate(tmp_path)}
    found, = packages.circles(crates)
    assert "low" in found and "high" in found
    crates["low"]["dependencies"].clear()
    assert not packages.circles(crates)
