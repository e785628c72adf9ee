# SPDX-License-Identifier: GPL-2.0-only
"""`outboard server`, killed at any instant: while it starts, and under its commands. The next start
replaces the socket that is left, and commands end with one line.
"""

import os
import random
import signal
import subprocess
import time

import pytest

from support import program, programs
from support.kernel_server import serving
from support.patience import wait_until

COMMANDS = (("sh", "-c", "exit 3"), ("sh", "-c", "while :; do echo line; done"),
            ("sleep", "1000"), ("cat",))
# A program's own end, and that of the server.
ENDS, LOST = (0, 3), 125


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("kills") / "root")
    programs.make_root(tree, "cat", "sleep")
    return tree


def start_again(root, server):
    """A server that has lost its keeper may still listen for a moment."""
    def started():
        done = program.run("server", "--daemon", "--root", root, server.url)
        assert done.code == 0 or "listens there already" in done.err, done
        return done.code == 0

    wait_until(started, "the next server starts")


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.long)])
def test_a_server_killed_while_it_starts(root, rounds):
    with serving("--root", root) as server:
        for _ in range(rounds):
            assert server.halt().code == 0
            keeper = subprocess.Popen(program.command("server", "--root", root, server.url),
                                      stderr=subprocess.DEVNULL)
            time.sleep(random.uniform(0, 0.2))
            keeper.kill()
            keeper.wait()
            start_again(root, server)
            assert server.run("sh", "-c", "exit 3").code == 3


def begin(server):
    """Commands that are on their way: they start, run, print or end."""
    running = []
    for words in COMMANDS:
        running.append(subprocess.Popen(server.command(*words), stdin=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True))
        time.sleep(random.uniform(0, 0.02))
    return running


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.long)])
def test_commands_of_a_killed_server(root, rounds):
    with serving("--root", root) as server:
        for _ in range(rounds):
            pid = server.status()["host_process"]
            running = begin(server)
            os.kill(pid, signal.SIGKILL)
            for command in running:
                _, errors = command.communicate(timeout=60)
                lines = errors.count("\n")
                is_lost = command.returncode == LOST and lines == 1
                assert is_lost or command.returncode in ENDS and not lines, (
                    command.args, command.returncode, errors)
            wait_until(lambda: not os.path.exists(server.path), "the keeper removes the socket")
            start_again(root, server)
