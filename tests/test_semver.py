# SPDX-License-Identifier: GPL-2.0-only
"""What the check of versions compares with: tests/semver.py, in tiny repositories of git."""

import subprocess

import pytest
import semver


@pytest.fixture(name="git")
def repository(tmp_path, monkeypatch):
    """A repository with two commits. Returns a function that runs git there."""
    def git(*words):
        done = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words],
                              check=True, capture_output=True, text=True)
        return done.stdout.strip()

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SINCE", raising=False)
    git("init", "-q", "-b", "main")
    for name in "one", "two":
        (tmp_path / "crates" / name).mkdir(parents=True)
        (tmp_path / "crates" / name / "Cargo.toml").touch()
        git("add", "-A")
        git("commit", "-q", "-m", name)
    return git


def test_revisions(git, monkeypatch):
    with pytest.raises(SystemExit, match="give a revision"):
        semver.revision([])
    git("branch", "work")
    git("checkout", "-q", "work")
    git("branch", "-q", "--set-upstream-to=main")
    git("commit", "-q", "--allow-empty", "-m", "more")
    assert semver.revision([]) == git("rev-parse", "main")
    git("tag", "v1", "main~1")
    assert semver.revision([]) == "v1"
    monkeypatch.setenv("SINCE", "main")
    assert semver.revision([]) == "main"
    assert semver.revision(["HEAD~1"]) == "HEAD~1"
    with pytest.raises(SystemExit, match="no revision v2"):
        semver.revision(["v2"])


def test_crates(git, capsys):
    def crate(publish, *kinds):
        return {"publish": publish, "targets": [{"kind": list(kinds)}]}

    crates = {"one": crate(None, "lib"), "two": crate(None, "lib"), "three": crate(None, "bin"),
              "four": crate([], "lib")}
    assert semver.compared(crates, "HEAD") == ["one", "two"]
    assert semver.compared(crates, "HEAD~1") == ["one"]
    assert "two: HEAD~1 does not have it" in capsys.readouterr().out
    assert git("status", "--porcelain") == ""
