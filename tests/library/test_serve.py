# SPDX-License-Identifier: GPL-2.0-only
"""A program that serves its kernel, in C: liboutboard-server. Clients are those of
liboutboard-client, the second implementation, and the commands of `outboard`.
"""

import os
import re
import signal
import subprocess
import tempfile

import pytest

from support import host, program, remote_client
from support.json_output import document, items
from support.program import OUT, REPOSITORY
from support.remote_client import RemoteClient

HERE = os.path.join(REPOSITORY, "tests", "library")
EXAMPLES = os.path.join(REPOSITORY, "docs", "examples")
LIBRARIES = os.path.join(OUT, "lib")
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread")
ENODEV, EINVAL, EADDRINUSE, ENOENT = 19, 22, 98, 2

pytestmark = pytest.mark.needs("gcc", "pkg-config")


def build(work, source, package, *options) -> str:
    static = ("--static",) if "-static" in options else ()
    flags = host.run("pkg-config", *static, "--cflags", "--libs", package,
                     PKG_CONFIG_PATH=f"{LIBRARIES}/pkgconfig").stdout.split()
    path = os.path.join(work, os.path.basename(source).removesuffix(".c"))
    host.run("gcc", *FLAGS, *options, "-o", path, source, *flags,
             *(() if static else (f"-Wl,-rpath,{LIBRARIES}",)))
    return path


@pytest.fixture(scope="module", name="server_program")
def built_server(tmp_path_factory):
    return build(str(tmp_path_factory.mktemp("server")), f"{HERE}/serve_test.c",
                 "outboard-server")


@pytest.fixture(scope="module", name="client_program")
def built_client(tmp_path_factory):
    return build(str(tmp_path_factory.mktemp("client")), f"{HERE}/remote_client_test.c",
                 "outboard-client")


@pytest.fixture(name="short")
def short_directory():
    """A socket's path is short."""
    with tempfile.TemporaryDirectory(prefix="outboard-serve-", dir="/tmp") as directory:
        yield directory


class Program:
    """A program that serves, and what it answers."""

    def __init__(self, path: str, *words: str) -> None:
        self.process = subprocess.Popen([path, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, command: str) -> tuple[int, str]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        number, text = self.process.stdout.readline().rstrip("\n").split(" ", 1)
        return int(number), text

    def do(self, command: str) -> None:
        assert self.ask(command) == (0, ""), command

    def finish(self) -> None:
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0


@pytest.fixture(name="served")
def serving_program(server_program):
    one = Program(server_program)
    one.do("boot")
    yield one
    one.process.kill()
    one.process.communicate()


def is_ended(client: RemoteClient) -> bool:
    client.wait_for_end()
    return True


def test_clients_beside_the_program(served, client_program, short):
    """Two processes, while the program uses its kernel: all have one tree."""
    url = f"unix:{short}/k"
    served.do(f"serve {url}")
    assert os.stat(f"{short}/k").st_mode & 0o777 == 0o600
    served.do("busy on")
    clients = [subprocess.Popen([client_program, test], env={**os.environ, "OUTBOARD_SERVER": url})
               for test in ("files", "sockets")]
    assert [client.wait(timeout=60) for client in clients] == [0, 0]
    served.do("busy off")
    with RemoteClient(f"{short}/k") as client:
        assert client.read(client.open("/busy"), 10) == b"own"
    assert served.ask("use /own") == (100, "")
    served.finish()


def test_commands(served, short):
    """Those of `outboard server` that make sense."""
    url = f"unix:{short}/k"
    served.do(f"serve {url}")
    with RemoteClient(f"{short}/k", name="second") as client:
        status = document(program.good("status", "--json", url))["server"]
        assert (status["host_process"], status["clients"], status["programs"]) == (
            served.process.pid, 1, 0)
        (row,) = items(program.good("ps", "--json", "--on", url))
        assert (row["kind"], row["process"], row["user"], row["name"]) == (
            "client", client.process, 0, "second")
    assert "Linux version" in program.good("dmesg", url).out
    for words, reason in ((("run", "--on", url, "--", "true"), "runs no programs"),
                          (("halt", url), f"belongs to process {served.process.pid}")):
        refused = program.run(*words)
        assert refused.code != 0 and reason in refused.err and refused.err.count("\n") == 1
    served.finish()


def test_an_end(served, short):
    """Clients go, the kernel stays, and can be served again."""
    url = f"unix:{short}/k"
    for command in (f"serve {url}", f"serve unix:{short}/l", f"serve {url}2"):
        served.do(command)
    with RemoteClient(f"{short}/k") as client, RemoteClient(f"{short}/l") as waiting:
        own = remote_client.processes(client) - {client.process, waiting.process}
        waiting.slot.begin(remote_client.CALL, remote_client.PAUSE, ())
        served.do("end")
        assert is_ended(client) and is_ended(waiting)
    assert os.listdir(short) == []
    served.do("end")
    assert served.ask("use /own") == (100, "")
    served.do(f"serve {url}")
    with RemoteClient(f"{short}/k") as client:
        assert client.read(client.open("/own"), 10) == b"own"
        assert remote_client.processes(client) == own | {client.process}
    served.finish()


def test_a_halt(served, short):
    """It ends serving. The next kernel has nothing of that."""
    url = f"unix:{short}/k"
    for _ in range(2):
        served.do(f"serve {url}")
        with RemoteClient(f"{short}/k") as client:
            assert client.open("/none") == -ENOENT
            assert client.open("/file", os.O_CREAT) >= 0
            client.slot.begin(remote_client.CALL, remote_client.PAUSE, ())
            served.do("halt")
            assert is_ended(client)
        assert os.listdir(short) == []
        assert served.ask(f"serve {url}")[0] == -ENODEV
        served.do("boot")
    assert served.ask("use /own") == (100, "")
    served.finish()


def test_places(served, short):
    for url, number, reason in (
            ("here", -EINVAL, "has a URL such as unix:"), ("unix:", -EINVAL, "a path follows"),
            ("tcp:127.0.0.1:0", -EINVAL, "token=PATH is missing"),
            ("unix:/none/k", -ENOENT, "No such file"),
            (f"tls:127.0.0.1:0,certificates={short}", -EINVAL, "authority.pem")):
        found, text = served.ask(f"serve {url}")
        assert found == number and text.startswith(f"cannot serve {url}: ") and reason in text
    served.do(f"serve-wrong unix:{short}/k")
    assert os.listdir(short) == []
    served.do(f"serve unix:{short}/k")
    assert served.ask(f"serve unix:{short}/k") == (
        -EADDRINUSE, f"cannot serve unix:{short}/k: a server listens there already")
    # With a rule for another user, all may connect, and the rule decides.
    served.do(f"serve-user 1234 unix:{short}/shared")
    assert os.stat(f"{short}/shared").st_mode & 0o777 == 0o666
    served.finish()


def test_a_program_that_has_changed_its_root(served, short):
    """It serves the whole kernel, and clients begin at the kernel's first root."""
    url = f"unix:{short}/k"
    served.do("chroot /jail")
    served.do(f"serve {url}")
    with RemoteClient(f"{short}/k") as client:
        assert client.open("/jail") >= 0 and client.open("/file", os.O_CREAT) >= 0
        assert client.write(client.open("/file", os.O_WRONLY), bytes(100_000)) == 100_000
        status = document(program.good("status", "--json", url))["server"]
        assert status["memory"] > 1 << 20
        (row,) = items(program.good("ps", "--json", "--on", url))
        assert row["user"] == 0
    served.do("end")
    served.finish()


def test_a_killed_program_leaves_its_socket(served, server_program, short):
    served.do(f"serve unix:{short}/k")
    served.process.kill()
    served.process.wait()
    assert os.listdir(short) == ["k"]
    next_one = Program(server_program)
    next_one.do("boot")
    next_one.do(f"serve unix:{short}/k")
    with RemoteClient(f"{short}/k") as client:
        assert client.call(remote_client.GETPID) == client.process
    next_one.do("halt")
    next_one.finish()


def test_kernels_of_instances(served, short):
    served.do(f"serve unix:{short}/k")
    served.do("other")
    assert served.ask(f"serve unix:{short}/o")[0] == -ENODEV
    served.do("boot")
    served.do(f"serve unix:{short}/o")
    assert served.ask("use /other") == (100, "")
    with RemoteClient(f"{short}/k") as client, RemoteClient(f"{short}/o") as other:
        assert client.open("/other") == -ENOENT and other.open("/other") >= 0
        served.do("halt")
        assert is_ended(other) and client.call(remote_client.GETPID) == client.process
    served.finish()


def test_a_child(served, short):
    """It has nothing of its parent's serving, and can serve a kernel of its own."""
    served.do(f"serve unix:{short}/k")
    with RemoteClient(f"{short}/k") as client:
        served.do(f"child unix:{short}/child")
        assert os.listdir(short) == ["k"]
        assert client.call(remote_client.GETPID) == client.process
    with RemoteClient(f"{short}/k") as client:
        assert client.call(remote_client.GETPID) == client.process
    served.finish()


def test_a_child_that_outlives_its_parent(served, short):
    """Clients notice the end of a server whose descriptors a child has."""
    served.do(f"serve unix:{short}/k")
    with RemoteClient(f"{short}/k") as client:
        served.do("leave-child")
        served.process.kill()
        served.process.wait()
        assert is_ended(client)
    with pytest.raises(ConnectionRefusedError):
        RemoteClient(f"{short}/k")


def test_a_network(served, client_program, short):
    with open(f"{short}/token", "w", encoding="ascii",
              opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write("0123456789abcdef\n")
    port, _ = served.ask(f"serve tcp:127.0.0.1:0,token={short}/token,user=0")
    assert port > 0
    host.run(client_program, "files", timeout=60,
             OUTBOARD_SERVER=f"tcp:127.0.0.1:{port},token={short}/token")
    served.do("halt")
    served.finish()


@pytest.mark.parametrize("options", [(), ("-static",)], ids=["shared", "static"])
def test_the_example_of_the_documentation(work, short, options):
    example = build(work, f"{EXAMPLES}/serve.c", "outboard-server", *options)
    reader = build(work, f"{EXAMPLES}/remote_file.c", "outboard-client", *options)
    server = subprocess.Popen([example, f"unix:{short}/k"], stdout=subprocess.PIPE, text=True)
    assert server.stdout and server.stdout.readline() == "ready\n"
    with RemoteClient(f"{short}/k") as client:
        assert client.write(client.open("/shared/text", os.O_WRONLY | os.O_CREAT), b"text\n") == 5
        assert host.run(reader, f"unix:{short}/k", "/shared/text").stdout == "text\n"
        server.send_signal(signal.SIGTERM)
        assert is_ended(client)
    assert server.wait(timeout=60) == 0 and os.listdir(short) == []
    refused = host.run(example, "unix:", ok=(1,))
    assert refused.stderr.startswith("cannot serve unix:: ")


def test_signals_are_those_of_the_program(served, short):
    """Threads of the library take none: a client that goes is no SIGPIPE, and ends nothing."""
    served.do(f"serve unix:{short}/k")
    for _ in range(20):
        RemoteClient(f"{short}/k").close()
    masks = []
    for thread in os.listdir(f"/proc/{served.process.pid}/task"):
        try:
            with open(f"/proc/{served.process.pid}/task/{thread}/status", encoding="ascii") as file:
                text = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name = re.search(r"^Name:\t(.*)$", text, re.MULTILINE)
        blocked = re.search(r"^SigBlk:\t(.*)$", text, re.MULTILINE)
        assert name and blocked
        if name[1] in ("accept", "keeper", "watcher"):
            masks.append(int(blocked[1], 16) & (1 << (signal.SIGPIPE - 1)))
    assert len(masks) == 3 and all(masks)
    assert served.ask("use /own") == (100, "")
    served.finish()
