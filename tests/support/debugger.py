# SPDX-License-Identifier: GPL-2.0-only
"""gdb with a script of commands."""

import subprocess

from support import host


def run_script(script: str, program: str, **environment: str) -> str:
    """The output of gdb and the program. `script`: the file of commands, which runs the program."""
    done = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", "-iex", "set auto-load no", "-x", script, program],
        env=host.environment(DEBUGINFOD_URLS="", **environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=600,
        check=False,
    )
    return done.stdout
