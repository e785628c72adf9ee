# SPDX-License-Identifier: GPL-2.0-only
"""Servers of tests: `outboard server`, in the background, at a socket in a short directory."""

import contextlib
import os
import shutil
import tempfile

from support import program
from support.json_output import document, items


class KernelServer:
    """A server that serves."""

    def __init__(self, path):
        self.path = path
        self.url = f"unix:{path}"

    def run(self, *words, options=(), **others):
        """A program on the server."""
        return program.run("run", "--on", self.url, *options, "--", *words, **others)

    def command(self, *words, options=()):
        return program.command("run", "--on", self.url, *options, "--", *words)

    def status(self):
        return document(program.run("status", "--json", self.url))["server"]

    def processes(self):
        return items(program.run("ps", "--json", "--on", self.url))

    def halt(self):
        return program.run("halt", self.url)


@contextlib.contextmanager
def serving(*words, warning=""):
    """A server with these words, which ends with the block, if it did not before. It prints a
    warning with this text, or nothing.
    """
    # A socket's path is short, and other users may look into the directory.
    directory = tempfile.mkdtemp(prefix="outboard-server-", dir="/tmp")
    os.chmod(directory, 0o755)
    server = KernelServer(os.path.join(directory, "kernel"))
    try:
        begun = program.run("server", "--daemon", *words, server.url)
        assert (begun.code, begun.out) == (0, ""), begun
        assert warning in begun.err if warning else not begun.err, begun
        yield server
    finally:
        server.halt()
        shutil.rmtree(directory)
