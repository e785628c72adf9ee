# SPDX-License-Identifier: GPL-2.0-only
"""Servers that are killed under their clients, and started again, in each state of a client; and
clients that are killed. Clients go on by their policy. Descriptors, threads and memory are counted
before and after. Nothing hangs.
"""

import contextlib
import os
import random
import subprocess
import tempfile
import threading
import time

import pytest

from support.example_server import Server, build_client, build_example, make_proofs
from support.patience import GUARD, wait_until

# The scheme of the server, and the words of remote_restart_test.c.
CLIENTS = (("unix", "call", "forever"), ("unix", "call", "die"), ("unix", "busy", "seconds"),
           ("unix", "threads", "forever"), ("unix", "fork", "seconds"), ("unix", "fork", "die"),
           ("unix", "exec", "never"), ("unix", "connect", "never"), ("unix", "exit", "never"),
           ("tcp", "threads", "forever"), ("tls", "call", "seconds"))
# Kinds of clients that are killed themselves.
KILLED = ("call", "fork", "exec", "connect", "exit")
# Threads of a client that had not attached yet when it was counted, and the directory that counts.
MORE = 4
# A heap that was fragmented in the meantime.
MORE_MEMORY = 4 << 20


@pytest.fixture(scope="module", name="example")
def built_example():
    return build_example()


@pytest.fixture(scope="module", name="program")
def client_program(tmp_path_factory):
    return build_client(str(tmp_path_factory.mktemp("restarts")), "remote_restart_test.c")


class Survivor:
    """A client that lives longer than its servers."""

    def __init__(self, program: str, url: str, kind: str, policy: str) -> None:
        self.words = (kind, policy)
        self.reports = 0
        self.changed = threading.Condition()
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([program, *self.words], stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True,
                                        env={**os.environ, "OUTBOARD_SERVER": url})
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            assert line == "again\n"
            with self.changed:
                self.reports += 1
                self.changed.notify_all()

    def wait_for_report(self, seen: int) -> None:
        deadline = time.monotonic() + GUARD
        with self.changed:
            while not self.changed.wait_for(lambda: self.reports > seen, 0.5):
                assert self.process.poll() is None, (self.words, self.said())
                assert time.monotonic() < deadline, (self.words, "it hangs", self.said())

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def counts(self) -> tuple[int, int]:
        """Descriptors and threads."""
        directory = f"/proc/{self.process.pid}"
        return len(os.listdir(f"{directory}/fd")), len(os.listdir(f"{directory}/task"))

    def memory(self) -> int:
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def returns_to(self, counts: tuple[int, int]) -> bool:
        return all(now <= before + MORE for now, before in zip(self.counts(), counts))

    def end(self) -> str:
        """Returns its messages."""
        self.process.kill()
        self.reader.join()
        self.process.wait()
        return self.said()


def die_lines(survivor: Survivor, errors: str) -> bool:
    """Whether there are no other messages than those of clients that died with their server."""
    lines = errors.splitlines()
    return not lines or survivor.words[1] == "die" and all(
        line.startswith("the connection to ") and line.endswith(" was lost") for line in lines)


@pytest.mark.needs("gcc", "pkg-config")
@pytest.mark.parametrize("rounds", [10, pytest.param(1000, marks=pytest.mark.long)])
def test_clients_go_on_after_a_killed_server(example, program, tmp_path, rounds):
    make_proofs(tmp_path)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="outboard-restarts-", dir="/tmp"))
        server = Server(example, f"{directory}/socket", f"tcp:127.0.0.1:0,token={tmp_path}/token",
                        f"tls:127.0.0.1:0,certificates={tmp_path}/own")
        stack.callback(lambda: server.kill())
        urls = {url.split(":")[0]: url for url in (server.url, *server.network)}
        survivors = []
        for scheme, *words in CLIENTS:
            survivors.append(Survivor(program, urls[scheme], *words))
            stack.callback(survivors[-1].end)
        for survivor in survivors:
            survivor.wait_for_report(0)
        # The first restart is no measure: libraries load, and heaps grow.
        counts, memory = [], []
        for round_ in range(rounds):
            time.sleep(random.uniform(0, 0.03))
            server.kill()
            seen = [survivor.reports for survivor in survivors]
            server = Server(example, server.path, *server.network)
            for survivor, reports in zip(survivors, seen):
                survivor.wait_for_report(reports)
            if round_ == rounds // 4:
                counts = [survivor.counts() for survivor in survivors]
                memory = [survivor.memory() for survivor in survivors]
        for survivor, before, size in zip(survivors, counts, memory):
            wait_until(lambda: survivor.returns_to(before),
                       f"{survivor.words} has {before} descriptors and threads, "
                       f"not {survivor.counts()}", seconds=60)
            assert survivor.memory() <= size + MORE_MEMORY, survivor.words
        server.kill()
        for survivor in survivors:
            errors = survivor.end()
            assert die_lines(survivor, errors), (survivor.words, errors)


@pytest.mark.needs("gcc", "pkg-config")
@pytest.mark.parametrize("kind,rounds", [
    # The server keeps a copy or a next program for 10 s if its client is killed early.
    *[(kind, 8) for kind in KILLED if kind not in ("fork", "exec")],
    *[pytest.param(kind, 1000, marks=pytest.mark.long) for kind in KILLED],
])
def test_clients_that_are_killed(example, program, kind, rounds):
    """At any instant of a state: nothing of them is left, and others go on."""
    with tempfile.TemporaryDirectory(prefix="outboard-restarts-", dir="/tmp") as directory:
        server = Server(example, f"{directory}/socket")
        try:
            with server.all_processes_end():
                for _ in range(rounds):
                    client = Survivor(program, server.url, kind, "never")
                    time.sleep(random.uniform(0, 0.03))
                    client.end()
            server.check_alive()
        finally:
            server.kill()
