# SPDX-License-Identifier: GPL-2.0-only
"""Runs a check of the sources, such as tests/import_circles.py, on files of a test."""

import contextlib
import os
from collections.abc import Callable, Mapping


def write_files(root: str, files: Mapping[str, str]) -> None:
    """Paths below the root to texts."""
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)


def outcome(capsys, check: Callable[..., int], *arguments, **named) -> tuple[bool, str]:
    """Whether the check passes, and what it prints. It changes the working directory."""
    with contextlib.chdir(os.getcwd()):
        passes = check(*arguments, **named) == 0
    return passes, capsys.readouterr().out
