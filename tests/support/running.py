# SPDX-License-Identifier: GPL-2.0-only
"""Whether tests run: each pytest holds a lock in out/ until it ends, however it ends."""

import contextlib
import fcntl
import os

from support import program

LOCK = os.path.join(program.OUT, "tests.lock")
held: list = []


def opened() -> int:
    os.makedirs(program.OUT, exist_ok=True)
    return os.open(LOCK, os.O_RDONLY | os.O_CREAT, 0o644)


def begin() -> None:
    """Until the end of this process. Waits for the end of nobody(), too."""
    held.append(opened())
    fcntl.flock(held[-1], fcntl.LOCK_SH)


@contextlib.contextmanager
def nobody():
    """Yields whether no tests run with this out/. If so, none begin before the block ends."""
    lock = opened()
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
            return
        yield False
    finally:
        os.close(lock)
