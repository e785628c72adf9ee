# SPDX-License-Identifier: GPL-2.0-only
"""The check that outboard-worker starts all processes: tests/second_processes.py, on tiny crates.
"""

import pytest
import second_processes

from support import gates

VOLUME = "outboard-volume/src/mount.rs"
GOOD = {
    "outboard-worker/src/launch.rs": "use std::process::Command;\nuse outboard_sys::fork;\n",
    "outboard-test-images/src/lib.rs": "use std::process::Command;\n",
    "outboard-volume/src/mount/tests.rs": "use std::process::Command;\n",
    VOLUME: '// std::process::Command\nuse std::process::{ExitStatus, Stdio};\n'
            'use outboard_worker::Launch;\nfn f() -> clap::Command { clap::Command::new("fork") }\n'
            'const A: &str = "std::process::Command";\n'
            "#[cfg(test)]\nmod tests {\n    use std::process::Command;\n}\n",
}


def outcome(root, capsys, **changes):
    """Writes the crates; returns whether the check passes, and what it prints."""
    gates.write_files(f"{root}/crates", {**GOOD, **changes})
    return gates.outcome(capsys, second_processes.main, str(root))


def test_good(tmp_path, capsys):
    passes, printed = outcome(tmp_path, capsys)
    assert passes and "1 sources of crates/ start processes by outboard-worker alone" in printed


@pytest.mark.parametrize("text, found", [
    ("use std::process::Command;", "std::process::Command"),
    ("use std::process::{self, Command as Program};", "std::process::Command"),
    ("fn f() { process::Command::new(x); }", "process::Command::new"),
    ("pub use outboard_sys::{errno, fork};", "outboard_sys::fork"),
    ("fn f() { outboard_sys::fork_apart(x, y); }", "outboard_sys::fork_apart"),
    ("fn f() { unsafe { libc::fork() }; }", "libc::fork"),
])
def test_bad(tmp_path, capsys, text, found):
    passes, printed = outcome(tmp_path, capsys, **{VOLUME: f"\n{text}\n"})
    assert not passes and f"crates/{VOLUME}:2: {found} starts a process" in printed


def test_nothing(tmp_path, capsys):
    passes, printed = gates.outcome(capsys, second_processes.main, str(empty(tmp_path)))
    assert not passes and "no source" in printed


def empty(root):
    """A repository without crates."""
    (root / "crates").mkdir()
    return root
