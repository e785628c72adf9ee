# SPDX-License-Identifier: GPL-2.0-only
"""A terminal of the host with a command, on which a test types."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios

from .patience import GUARD

# Rows and columns at first.
SIZE = (30, 90)


def take_terminal() -> None:
    """In the child: a session whose terminal is standard input."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, *words: str, **streams) -> None:
        self.main, other = pty.openpty()
        self.set_size(*SIZE)
        self.before = termios.tcgetattr(other)
        streams = {"stdin": other, "stdout": other, "stderr": other, **streams}
        self.running = subprocess.Popen(words, preexec_fn=take_terminal, **streams)
        self.other = other
        self.shown = b""

    def set_size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settings(self) -> list:
        return termios.tcgetattr(self.other)

    def type(self, keys: bytes) -> None:
        os.write(self.main, keys)

    def expect(self, text: bytes) -> None:
        """Reads until the text appears, and drops it and what was before."""
        while text not in self.shown:
            assert select.select([self.main], [], [], GUARD)[0], (text, self.shown)
            more = os.read(self.main, 4096)
            assert more, (text, self.shown)
            self.shown += more
        self.shown = self.shown.split(text, 1)[1]

    def close(self) -> None:
        os.close(self.other)
        os.close(self.main)

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.running.kill()
        self.running.wait()
        for end in (self.other, self.main):
            try:
                os.close(end)
            except OSError:
                pass
