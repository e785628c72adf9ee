# SPDX-License-Identifier: GPL-2.0-only
"""Clients that say anything, for a while, beside an honest one, which gets right answers all the
time: with the shipped kernel, and with those that check themselves.
"""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from support import modules, program, remote_client
from support.example_server import Server, build_example
from support.remote_client import RemoteClient

HOSTILE = (sys.executable, "-m", "support.hostile_client")
TESTS = os.path.join(program.REPOSITORY, "tests")
CLIENTS = 2
SHIPPED = "shipped"
CASES = [pytest.param(SHIPPED, 3)] + [
    pytest.param(variant, 120, marks=pytest.mark.long)
    for variant in (SHIPPED, "base-asan-ubsan", "base-debug")]


def answers(client: RemoteClient) -> None:
    """Right answers, by memory and without."""
    assert client.call(remote_client.GETPID) == client.process
    content = os.urandom(4096)
    file = client.open("/honest", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    assert file >= 0 and client.write(file, content) == len(content)
    assert client.call(remote_client.LSEEK, file, 0, os.SEEK_SET) == 0
    assert client.read(file, len(content)) == content
    assert client.call(remote_client.CLOSE, file) == 0


@pytest.mark.parametrize("variant,seconds", CASES)
def test_hostile_clients_hurt_themselves_alone(variant, seconds):
    variables = {"OUTBOARD_LOG": "warning"}
    if variant != SHIPPED:
        if not modules.is_built(variant):
            pytest.skip(f"tests/run --long {variant} has not been run")
        variables["LD_LIBRARY_PATH"] = modules.libraries_of(variant)
    with tempfile.TemporaryDirectory(prefix="outboard-hostile-", dir="/tmp") as directory, \
            open(f"{directory}/log", "w+", encoding="utf-8", errors="replace") as log:
        server = Server(build_example(), f"{directory}/socket", errors=log, **variables)
        try:
            with RemoteClient(server.path) as honest:
                with server.all_processes_end():
                    hostile = [subprocess.Popen([*HOSTILE, server.path, str(seconds), str(seed)],
                                                cwd=TESTS) for seed in range(CLIENTS)]
                    end = time.monotonic() + seconds
                    while time.monotonic() < end:
                        answers(honest)
                    for client in hostile:
                        assert client.wait(300) == 0
                answers(honest)
        finally:
            server.kill()
        log.seek(0)
        text = log.read()
        found = program.REPORT.search(text)
        assert not found, f"the kernel reports\n{text[found.start():][:6000]}"
