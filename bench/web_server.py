# SPDX-License-Identifier: GPL-2.0-only
"""HTTP: lighttpd as a local client of a kernel behind a tap, against the same server on the host's
stack behind a veth pair. wrk asks from the host, at the other end.

The server is Debian's, built from its source twice: with and without outboard/sockets.h.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator

import network
from contenders import OURS, Contender, Result, host, program, scratch, take_turns
from network import FAR, GUEST, NEAR, VETH
from support import lighttpd
from support.patience import wait_until

ADDRESS = {OURS: GUEST, VETH: "10.8.0.2"}
NAMESPACE = {OURS: FAR, VETH: NEAR}
CONNECTIONS = (1, 4, 64, 1024)
SECONDS, FILE_BYTES = 3, 1000


def build(directory: str, stack: str) -> str:
    flags, libraries = ["-O2"], []
    if stack == OURS:
        library = os.path.join(program.OUT, "lib")
        flags += ["-include", "outboard/sockets.h", f"-I{program.OUT}/include"]
        libraries = [f"-L{library}", f"-Wl,-rpath,{library}", "-loutboard", "-pthread"]
    place = os.path.join(directory, stack.replace(" ", "-").replace("'", ""))
    os.mkdir(place)
    return lighttpd.build(place, flags, libraries)


def wrk(stack: str, connections: int, seconds: int) -> str:
    """What wrk prints. Its descriptors are more than the usual limit."""
    words = [*network.inside(FAR), "sh", "-ec", 'ulimit -n 8192; exec "$@"', "sh", "wrk", "-t1",
             f"-c{connections}", f"-d{seconds}s", f"http://{ADDRESS[stack]}:8080/file"]
    return host.run(*words).stdout


def listens(stack: str) -> bool:
    connect = f"exec 3<>/dev/tcp/{ADDRESS[stack]}/8080"
    return host.run(*network.inside(FAR), "bash", "-c", connect, ok=None).returncode == 0


@contextlib.contextmanager
def server(stack: str, path: str, directory: str) -> Iterator[None]:
    config = lighttpd.configure(directory, f"{directory}/served", ADDRESS[stack], max(CONNECTIONS))
    environment = host.environment(OUTBOARD_NET=f"tap:tap0,ip={GUEST}/24")
    command = [*network.inside(NAMESPACE[stack]), path, "-D", "-f", config]
    with subprocess.Popen(command, env=environment) as process:
        try:
            wait_until(lambda: listens(stack), f"lighttpd listens at {ADDRESS[stack]}")
            yield
        finally:
            process.terminate()


def rate(stack: str, connections: int) -> float:
    """Requests per second. All must succeed."""
    text = wrk(stack, connections, SECONDS)
    failed = re.search(r"(Socket errors|Non-2xx).*", text)
    if failed:
        raise host.ToolFailed(f"{connections} connections: {failed[0]}")
    return float(re.search(r"Requests/sec: *([\d.]+)", text)[1])


def rates(stack: str, path: str, directory: str) -> list[float]:
    with network.namespaces(), server(stack, path, directory):
        return [rate(stack, connections) for connections in CONNECTIONS]


def web_server(rounds: int) -> list[Result]:
    """Requests per second of a web server."""
    if os.geteuid() != 0:
        print("left out: web_server: only root may make network namespaces")
        return []
    os.environ.setdefault("XDG_CACHE_HOME", os.path.join(program.OUT, "test-cache"))
    with scratch() as directory:
        os.mkdir(f"{directory}/served")
        with open(f"{directory}/served/file", "wb") as stream:
            stream.write(bytes(FILE_BYTES))
        paths = {stack: build(directory, stack) for stack in (OURS, VETH)}
        turns = take_turns([Contender(stack, lambda stack=stack, path=path:
                                      rates(stack, path, directory))
                            for stack, path in paths.items()], rounds)
    return [
        network.judged(turns.result(f"HTTP requests per second, {connections} connections", "/s",
                                    "", lambda measured, index=index: measured[index]),
                       VETH, 0.97, True)
        for index, connections in enumerate(CONNECTIONS)
    ]
