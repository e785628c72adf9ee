# SPDX-License-Identifier: GPL-2.0-only
"""Warnings of all kernels that the tests run. They append to the file $OUTBOARD_LOG_FILE, also
where nobody reads their standard error: in servers of mounts, and in programs of the C API.
"""

import os

from support import program


def path() -> str:
    return os.environ["OUTBOARD_LOG_FILE"]


def prepare() -> None:
    """One file for each pytest."""
    directory = os.path.join(program.OUT, "test-results")
    os.makedirs(directory, exist_ok=True)
    os.environ["OUTBOARD_LOG_FILE"] = os.path.join(directory, f"kernel-warnings-{os.getpid()}.log")
    with open(path(), "wb"):
        # Programs of other users write to it as well.
        os.chmod(path(), 0o666)


def size() -> int:
    return os.stat(path()).st_size


def report_since(position: int) -> str:
    """What has come since, from its first report on. Empty: there is no report."""
    with open(path(), "rb") as stream:
        stream.seek(position)
        text = stream.read().decode(errors="replace")
    for found in program.REPORT.finditer(text):
        if not program.KNOWN_REPORT.match(text, found.start()):
            return text[text.rfind("\n", 0, found.start()) + 1:]
    return ""
