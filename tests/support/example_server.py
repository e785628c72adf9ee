# SPDX-License-Identifier: GPL-2.0-only
"""A server that tests can kill: the example of outboard-server. And programs that are its clients
by liboutboard-client.
"""

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from typing import IO

from support import host, remote_client
from support.patience import wait_until
from support.program import OUT, REPOSITORY
from support.remote_client import RemoteClient

SOURCES = os.path.join(REPOSITORY, "tests", "library")
LIBRARIES = os.path.join(OUT, "lib")
FLAGS = ("-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread")
COMPILERS = {"c": ("gcc", "-std=c11"), "c++": ("g++", "-std=c++17", "-xc++")}
# The kernel has more of its own when there was much to do.
MORE_THREADS = 8
EXAMPLES = os.path.join(OUT, "cargo", "release", "examples")


class Server:
    """A kernel with clients."""

    def __init__(self, program: str, path: str, *others: str,
                 errors: IO[str] | None = None, **variables: str) -> None:
        """Serves a path, and the URLs of a network. `errors`: where its log goes. `variables`: of
        its environment.
        """
        self.path = path
        self.process = subprocess.Popen([program, self.url, *others], stdout=subprocess.PIPE,
                                        stderr=errors, text=True,
                                        env={**os.environ, **variables})
        assert self.process.stdout
        lines = [self.process.stdout.readline().rstrip("\n") for _ in range(len(others) + 1)]
        assert lines[-1] == "ready"
        self.network = [url.replace("127.0.0.1:0", line) for url, line in zip(others, lines)]

    @property
    def url(self) -> str:
        return f"unix:{self.path}"

    def descriptors(self) -> int:
        """Those of clients: connections and slots. The kernel opens others as it grows."""
        count, directory = 0, f"/proc/{self.process.pid}/fd"
        for name in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):
                target = os.readlink(f"{directory}/{name}")
                count += target.startswith(("socket:", "/memfd:outboard-slot"))
        return count

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    @contextlib.contextmanager
    def all_processes_end(self) -> Iterator[None]:
        """Those that begin meanwhile end, and their descriptors are closed. One client looks: its
        own end would be one of a process, too.
        """
        with RemoteClient(self.path) as watcher:
            before, files = remote_client.processes(watcher), self.descriptors()
            threads = self.threads() + MORE_THREADS
            yield
            wait_until(lambda: remote_client.processes(watcher) <= before,
                       f"the kernel has only the processes {before}")
            wait_until(lambda: self.descriptors() <= files, "all descriptors are closed")
            wait_until(lambda: self.threads() <= threads, "all threads have ended")

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def check_alive(self) -> None:
        with RemoteClient(self.path) as client:
            assert client.call(remote_client.GETPID) == client.process
        assert self.process.poll() is None


def build_example() -> str:
    """All crates, as test_rust_api.py builds them. Returns the program of a Server."""
    host.run("cargo", "build", "--offline", "--release", "--locked", "--workspace", "--examples",
             cwd=os.path.join(REPOSITORY, "crates"), timeout=1500,
             CARGO_TARGET_DIR=os.path.join(OUT, "cargo"), OUTBOARD_LIB_DIR=LIBRARIES)
    return os.path.join(EXAMPLES, "serve_kernel")


def build_client(work: str, source: str, compiler: tuple[str, ...] = COMPILERS["c"]) -> str:
    """A program that knows the library by pkg-config, and finds it by itself."""
    flags = host.run("pkg-config", "--cflags", "--libs", "outboard-client",
                     PKG_CONFIG_PATH=f"{LIBRARIES}/pkgconfig").stdout.split()
    path = os.path.join(work, os.path.basename(source).removesuffix(".c"))
    host.run(*compiler, *FLAGS, "-I", SOURCES, "-o", path, os.path.join(SOURCES, source), *flags,
             f"-Wl,-rpath,{LIBRARIES}")
    return path


def make_proofs(directory) -> None:
    """A token, and certificates of two authorities. The examples are built."""
    for name in ("token", "wrong"):
        file = directory / name
        file.touch(mode=0o600)
        file.write_text(f"{name}{random.randbytes(16).hex()}\n")
    tool = os.path.join(EXAMPLES, "make_certificates")
    for name in ("own", "foreign"):
        host.run(tool, str(directory / name))
