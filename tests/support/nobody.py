# SPDX-License-Identifier: GPL-2.0-only
"""The program as an unprivileged user."""

import contextlib
import os
import shutil
import subprocess

from support import host, program
from support.mounts import AS_NOBODY


class AsNobody:
    """The program, copied into a directory that this user can reach and write."""

    def __init__(self, directory):
        self.directory = directory
        self.program = shutil.copy(program.PROGRAM, os.path.join(directory, "outboard"))
        os.chmod(directory, 0o777)

    def run(self, *words):
        return program.Result(subprocess.run(
            [*AS_NOBODY, self.program, *words], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=60, check=False, cwd=self.directory, env={**os.environ, "HOME": "/"}))


@contextlib.contextmanager
def as_nobody():
    """Outside the usual scratch directory: a repository below /root is closed to others."""
    directory = host.temporary_directory()
    try:
        yield AsNobody(directory)
    finally:
        shutil.rmtree(directory)
