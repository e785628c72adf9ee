# SPDX-License-Identifier: GPL-2.0-only
"""Watches a process and its children, for tests that interrupt them: a signal that comes too early
would meet something else."""

import contextlib
import os
import re
import time

from support.patience import GUARD, wait_until


def read(path: str) -> str:
    """Empty if the process has ended."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()
    return ""


def tree_of(pid: int) -> list:
    """The process and all below it."""
    children = " ".join(read(f"/proc/{pid}/task/{thread}/children") for thread in threads_of(pid))
    return [pid, *(below for child in children.split() for below in tree_of(int(child)))]


def threads_of(pid: int) -> list:
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def states_of(pid: int) -> set:
    """States of all threads of a process and of those below it, as letters: R runs or would, S
    waits.
    """
    texts = [
        read(f"/proc/{process}/task/{thread}/stat") for process in tree_of(pid)
        for thread in threads_of(process)
    ]
    return {text.rpartition(")")[2].split()[0] for text in texts if text}


def catches(pid: int, number: int) -> bool:
    caught = re.search(r"^SigCgt:\s*(\w+)$", read(f"/proc/{pid}/status"), re.MULTILINE)
    return bool(caught) and int(caught[1], 16) >> (number - 1) & 1 == 1


def wait_until_caught(pid: int, number: int) -> None:
    """Until the process has a handler for the signal."""
    wait_until(lambda: catches(pid, number), f"process {pid} catches signal {number}")


def wait_until_it_waits(pid: int, number: int) -> None:
    """Until the process has a handler for the signal, and has waited for something for a while:
    nothing in it would run.
    """
    wait_until_caught(pid, number)
    deadline, quiet = time.monotonic() + GUARD, 0
    while quiet < 15:
        assert time.monotonic() < deadline, f"process {pid} does not come to wait"
        quiet = quiet + 1 if states_of(pid) == {"S"} else 0
        time.sleep(0.02)


def blocks_open_below(pid: int, directory: str) -> int:
    """Blocks of 512 bytes of the files in a directory that a process, or one below it, has open:
    also of unnamed ones.
    """
    most = 0
    for process in tree_of(pid):
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{process}/fd"):
                path = f"/proc/{process}/fd/{number}"
                if os.readlink(path).startswith(f"{directory}/"):
                    most = max(most, os.stat(path).st_blocks)
    return most


def users_of(path: str) -> list:
    """Processes that have the file open."""
    wanted, found = os.stat(path), []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    have = os.stat(f"/proc/{process}/fd/{number}")
                    if (have.st_dev, have.st_ino) == (wanted.st_dev, wanted.st_ino):
                        found.append(int(process))
    return found


def wait_until_closed(path: str) -> None:
    """Until no process has the file open: after a kill, the children of the killed one end a moment
    later.
    """
    wait_until(lambda: not users_of(path), f"nobody has {path} open")
