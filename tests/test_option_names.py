# SPDX-License-Identifier: GPL-2.0-only
"""The check that the engine names no option of the program: tests/option_names.py, on tiny crates.
"""

import option_names
import pytest

from support import gates

ENGINE = "outboard-volume/src/layers.rs"
GOOD = {
    option_names.COMMANDS: 'commands! {\n    "fsck" Fsck(FsckArgs) {\n    "tar-in" TarIn(A) {\n',
    "outboard-cli/src/hints.rs": 'const A: &str = "outboard fsck --key-file";\n',
    ENGINE: '// --key-file\n/// outboard fsck\nconst A: &str = "a--b, this outboard has";\n'
            'const B: &[u8] = b"--role";\n\n'
            '#[cfg(test)]\nmod tests {\n    const C: &str = "--key-file";\n}\n',
    "outboard-volume/src/layers/tests.rs": 'const A: &str = "--key-file";\n',
}


def outcome(root, capsys, allowed=frozenset(), **changes):
    """Writes the crates; returns whether the check passes, and what it prints."""
    gates.write_files(f"{root}/crates", {**GOOD, **changes})
    return gates.outcome(capsys, option_names.main, str(root), allowed=set(allowed))


def test_good(tmp_path, capsys):
    passes, printed = outcome(tmp_path, capsys)
    assert passes and "1 texts of the engine name no option" in printed


@pytest.mark.parametrize("text, found", [
    ('"give --key-file FILE"', "--key-file"),
    ('r#"(--ro)"#', "--ro"),
    ('"run outboard fsck"', "outboard fsck"),
    ('"unpack it: outboard \\\n    tar-in"', "outboard tar-in"),
])
def test_bad(tmp_path, capsys, text, found):
    passes, printed = outcome(tmp_path, capsys, **{ENGINE: f"fn a() {{\n    b({text});\n}}\n"})
    assert not passes and f'crates/{ENGINE}:2: "{found}" is the program\'s' in printed


def test_allowed(tmp_path, capsys):
    source = 'const A: &str = "Use --verbose.";\n'
    allowed = {(ENGINE, "Use --verbose.")}
    passes, _ = outcome(tmp_path, capsys, allowed, **{ENGINE: source})
    assert passes
    passes, printed = outcome(tmp_path, capsys, allowed)
    assert not passes and f'{ENGINE} has no text "Use --verbose."' in printed


def test_arguments_of_tools(tmp_path, capsys):
    calls = min(option_names.CALLS)
    passes, _ = outcome(tmp_path, capsys, **{calls: 'const A: &str = "--size={}";\n'})
    assert passes
    for path, text in [(ENGINE, "--size={}"), (calls, "give --size"), (calls, "--size 1G")]:
        passes, printed = outcome(tmp_path, capsys, **{path: f'const A: &str = "{text}";\n'})
        assert not passes and f'crates/{path}:1: "--size" is the program\'s' in printed


def test_no_commands(tmp_path, capsys):
    passes, printed = outcome(tmp_path, capsys, **{option_names.COMMANDS: "commands! {}\n"})
    assert not passes and "no command" in printed
