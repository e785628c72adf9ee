# SPDX-License-Identifier: GPL-2.0-only
"""Clients of a kernel in another process: liboutboard-client, and a second implementation that can
lie (support/remote_client.py). The server is the example of outboard-server, which tests can kill,
or `outboard server`.
"""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from support import host, kernel_server, patience, remote_client
from support.example_server import COMPILERS, Server, build_client, build_example, make_proofs
from support.program import REPOSITORY
from support.remote_client import Connection, Ended, Refused, RemoteClient

EFAULT, EINVAL, ESRCH, EINTR = 14, 22, 3, 4


@pytest.fixture(scope="module", name="example")
def built_example():
    return build_example()


@pytest.fixture(name="place")
def place_of_socket():
    # A socket's path is short.
    with tempfile.TemporaryDirectory(prefix="outboard-clients-", dir="/tmp") as directory:
        yield f"{directory}/socket"


@pytest.fixture(name="server")
def running_server(example, place):
    server = Server(example, place)
    yield server
    server.kill()


@pytest.fixture(scope="module", name="program")
def test_program(tmp_path_factory):
    return build_client(str(tmp_path_factory.mktemp("remote")), "remote_client_test.c")


@pytest.mark.needs("gcc", "pkg-config")
@pytest.mark.parametrize("test", ["files", "large", "large-streams", "sockets", "epoll", "threads",
                                  "fork", "kill", "credentials", "capabilities", "early",
                                  "signals", "exec", "thread-exec", "connections"])
def test_calls(server, program, test):
    with server.all_processes_end():
        host.run(program, test, OUTBOARD_SERVER=server.url, timeout=60)


@pytest.fixture(scope="module", name="proofs")
def made_proofs(example, tmp_path_factory):
    directory = tmp_path_factory.mktemp("proofs")
    make_proofs(directory)
    return directory


@pytest.fixture(scope="module", name="far")
def network_server(example, proofs):
    """The same over TCP and TLS."""
    with tempfile.TemporaryDirectory(prefix="outboard-clients-", dir="/tmp") as directory:
        server = Server(example, f"{directory}/socket",
                        f"tcp:127.0.0.1:0,token={proofs}/token,user=0",
                        f"tls:127.0.0.1:0,certificates={proofs}/own,user=0")
        yield server
        server.kill()


@pytest.mark.needs("gcc", "pkg-config")
@pytest.mark.parametrize("scheme", [0, 1], ids=["tcp", "tls"])
@pytest.mark.parametrize("test", ["files", "large", "large-streams", "sockets", "epoll", "threads",
                                  "fork", "kill", "credentials", "signals", "exec",
                                  "thread-exec"])
def test_calls_over_a_network(far, program, scheme, test):
    with far.all_processes_end():
        host.run(program, test, OUTBOARD_SERVER=far.network[scheme], timeout=60)


@pytest.mark.needs("gcc", "pkg-config")
@pytest.mark.parametrize("scheme", ["unix", "tcp", "tls"])
def test_a_client_that_leaves_a_child(far, program, scheme):
    """Killed on the host, it ends in the kernel, though a child of the host's fork(2) lives on."""
    urls = (url for url in (far.url, *far.network) if url.startswith(scheme))
    with far.all_processes_end():
        client = subprocess.Popen([program, "orphan"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "OUTBOARD_SERVER": next(urls)})
        assert client.stdout and client.stdout.readline() == "ready\n"
        client.kill()
        client.wait()
    # The child ends with its input.
    client.communicate()


@pytest.mark.needs("gcc", "pkg-config")
def test_others_of_a_network(far, program, proofs):
    """Those who do not prove that they may use the server, and a server that proves nothing."""
    tcp, tls = far.network
    for url in (tcp.replace("/token", "/wrong"), tls.replace("/own", "/foreign")):
        done = host.run(program, "files", OUTBOARD_SERVER=url, ok=(1,), timeout=60)
        assert done.stderr.startswith(f"cannot connect to {url.split(',')[0]}: "), done.stderr
    os.chmod(proofs / "wrong", 0o644)
    done = host.run(program, "files", OUTBOARD_SERVER=tcp.replace("/token", "/wrong"), ok=(1,))
    assert "chmod 600" in done.stderr
    host.run(program, "files", OUTBOARD_SERVER=tcp)


@pytest.mark.needs("gcc", "pkg-config")
def test_clients_of_the_program(program):
    """`outboard server`, which sandboxes itself, has clients beside its programs."""
    with kernel_server.serving() as server:
        for test in ("files", "large", "fork", "exec", "kill", "threads", "credentials"):
            host.run(program, test, OUTBOARD_SERVER=server.url, timeout=60)
        with RemoteClient(server.path, name="second") as client:
            rows = [row for row in server.processes() if row["name"] == "second"]
            assert [(row["kind"], row["process"], row["host_process"]) for row in rows] == [
                ("client", client.process, os.getpid())]
        patience.wait_until(lambda: server.status()["clients"] == 0, "all clients have ended")


@pytest.mark.needs("g++", "pkg-config")
def test_headers_are_those_of_cplusplus(server, work):
    program = build_client(work, "remote_client_test.c", COMPILERS["c++"])
    host.run(program, "files", OUTBOARD_SERVER=server.url)


@pytest.mark.needs("gcc", "pkg-config")
def test_the_example_of_the_documentation(server, work):
    program = build_client(work, f"{REPOSITORY}/docs/examples/remote_file.c")
    with RemoteClient(server.path) as client:
        file = client.open("/text", os.O_WRONLY | os.O_CREAT)
        assert client.write(file, b"a text\n") == 7
    assert host.run(program, server.url, "/text").stdout == "a text\n"
    done = host.run(program, server.url, "/none", ok=(1,))
    assert done.stderr == "/none: No such file or directory\n"


@pytest.mark.needs("gcc", "pkg-config")
@pytest.mark.parametrize("scheme", ["unix", "tcp", "tls"])
def test_a_server_that_is_killed(example, program, place, proofs, scheme):
    """The call under way fails, the next one is that of another server's process. Then the client
    dies with its server, as it has chosen.
    """
    proof = {"tcp": f",token={proofs}/token", "tls": f",certificates={proofs}/own"}.get(scheme)
    server = Server(example, place, *([f"{scheme}:127.0.0.1:0{proof}"] if proof else []))
    url = (server.network or [server.url])[0]
    client = subprocess.Popen([program, "reconnect"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.PIPE,
                              env={**os.environ, "OUTBOARD_SERVER": url})
    assert client.stdout and client.stdout.readline() == "ready\n"
    server.kill()
    server = Server(example, place, *server.network)
    assert client.stdout.readline() == "again\n"
    server.kill()
    _, said = client.communicate(timeout=60)
    shown = url.split(",")[0]
    assert client.returncode == 1 and said == f"the connection to {shown} was lost\n"


@pytest.mark.needs("gcc", "pkg-config")
@pytest.mark.parametrize("kinds,rounds", [
    (("hold", "threads", "large"), 30),
    pytest.param(("hold", "threads", "fork", "large", "exec"), 1000,
                 marks=pytest.mark.long),
])
def test_clients_that_are_killed(server, program, kinds, rounds):
    """At any time: nothing of them is left."""
    with server.all_processes_end():
        for round_ in range(rounds):
            kind = kinds[round_ % len(kinds)]
            client = subprocess.Popen([program, kind], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL,
                                      env={**os.environ, "OUTBOARD_SERVER": server.url})
            time.sleep(random.uniform(0, 0.03))
            client.kill()
            client.wait()
    server.check_alive()


def test_the_second_implementation(server):
    with RemoteClient(server.path, name="second") as client:
        assert client.call(remote_client.GETPID) == client.process
        assert client.call(remote_client.GETTID) == client.thread
        file = client.open("/second", os.O_RDWR | os.O_CREAT)
        assert file >= 0 and client.write(file, b"hello") == 5
        assert client.call(remote_client.LSEEK, file, 1, os.SEEK_SET) == 1
        assert client.read(file, 100) == b"ello"
        assert client.open("/none") == -2
        process, ticket = client.fork()
        with RemoteClient(server.path, ticket) as copy:
            assert copy.process == process == copy.call(remote_client.GETPID)
            # The position is shared.
            assert copy.call(remote_client.LSEEK, file, 0, os.SEEK_CUR) == 5
        number, slot = client.further()
        assert client.call(remote_client.GETTID, slot=slot) == number
        assert client.call(remote_client.GETPID, slot=slot) == client.process
        slot.begin(remote_client.LEAVE, 0, ())
        # A signal handler has run while the thread sleeps.
        client.slot.begin(remote_client.CALL, remote_client.PAUSE, ())
        time.sleep(0.05)
        client.send({"Interrupt": {"thread": client.thread, "request": client.slot.last}})
        assert client.finish() == -EINTR
        # The connection may end before the reply.
        with contextlib.suppress(Ended):
            assert client.operate(remote_client.EXIT, 3) == 0
        client.wait_for_end()
    with pytest.raises(Refused, match="ticket"):
        RemoteClient(server.path, ticket)


def test_wrong_first_messages(server):
    with pytest.raises(Refused, match="version 1"):
        RemoteClient(server.path, version=2)
    with pytest.raises(Refused):
        RemoteClient(server.path, bytes(16))
    for frame in (b"\0\0\0\0\0", b"\2\0\0\0\0{}", b"\xff\xff\xff\xff\0", b"\1\0\0\0\x09x",
                  b'\7\0\0\0\0"Start"', b"\5\0\0\0\0[[[[["):
        with Connection(server.path) as connection:
            connection.socket.sendall(frame)
            connection.socket.shutdown(socket.SHUT_WR)
            connection.wait_for_end()
    server.check_alive()


def test_later_messages_that_make_no_sense(server):
    for send in (lambda client: client.send({"Client": {"version": 1, "name": "x"}}),
                 lambda client: client.send({"Interrupt": {"thread": "x"}}),
                 lambda client: client.send_frame(3, b"x"),
                 lambda client: client.socket.sendall(b"\xff\xff\xff\xff\0")):
        with RemoteClient(server.path) as client:
            send(client)
            client.wait_for_end()
    with RemoteClient(server.path) as other, RemoteClient(server.path) as client:
        # Threads and tickets of others are nobody's.
        other.slot.begin(remote_client.CALL, remote_client.PAUSE, ())
        client.send({"Interrupt": {"thread": other.thread, "request": 1}})
        client.send({"Interrupt": {"thread": -1, "request": 1 << 31}})
        client.send({"Cancel": {"ticket": "0" * 32}})
        assert client.call(remote_client.GETPID) == client.process
        assert other.slot.word(remote_client.REPLY) == 0
    server.check_alive()


def test_half_open_connections(server):
    with contextlib.ExitStack() as stack:
        for content in (b"", b"\x10", b"\x10\0\0\0\0", b"\x10\0\0\0\0{"):
            for _ in range(20):
                connection = stack.enter_context(Connection(server.path))
                connection.socket.sendall(content)
        server.check_alive()


def test_offsets_and_lengths_that_lie_outside(server):
    with RemoteClient(server.path) as client:
        file = client.open("/dev/zero" if client.open("/dev/zero") >= 0 else "/", os.O_RDONLY)
        size, most = client.size, (1 << 64) - 1
        for offset, length in ((size, 1), (size - 1, 2), (64, size), (most, 2), (64, most),
                               (most - 63, 64), (0x7fff_0000_0000, 8)):
            assert client.call(remote_client.READ, file, offset, length) == -EFAULT
        assert client.call(remote_client.OPEN, size) == -EFAULT
        assert client.call(remote_client.OPEN, most) == -EFAULT
        # A message whose parts lie outside, and one with a length behind a pointer.
        client.slot.put(64, struct.pack("<7I", 0, 0, 128, (1 << 32) - 1, 0, 0, 0))
        assert client.call(46, file, 64, 0) == -EFAULT
        client.slot.put(64, struct.pack("<I", (1 << 32) - 1))
        assert client.call(51, file, 128, 64) == -EFAULT
        for operation, arguments in ((remote_client.FORK, (size - 8,)), (remote_client.FORK, (0,)),
                                     (remote_client.EXEC, (most, 64)),
                                     (remote_client.EXEC, (64, size))):
            assert client.operate(operation, *arguments) == -EFAULT
        assert client.operate(99) == -EINVAL
        assert client.call(remote_client.GETPID) == client.process


def test_the_memory_of_a_slot_stays(server):
    with RemoteClient(server.path) as client:
        for size in (0, 4096, 1 << 30):
            with pytest.raises(OSError):
                os.ftruncate(client.file, size)
        assert client.call(remote_client.GETPID) == client.process


def test_numbers_of_requests_that_jump(server):
    with RemoteClient(server.path) as client:
        for step in (5, 1 << 31, (1 << 32) - 7, 2):
            client.slot.begin(remote_client.CALL, remote_client.GETPID, (), step)
            assert client.finish() == client.process
        # The words of the server are its own business.
        client.slot.set_word(remote_client.REPLY, 77)
        client.slot.set_word(remote_client.SERVER_SLEEPS, 0)
        assert client.call(remote_client.GETPID) == client.process


def scribble(slot, end):
    """All of a slot changes, all the time, while its thread is asked for calls."""
    source = random.Random(1)
    while not end.is_set():
        for _ in range(100):
            place = source.randrange(0, 512 if source.random() < 0.5 else slot.size) & ~7
            slot.set_number(place, source.choice((0, 1, 7, 64, 2**32 - 1, 2**63, 4090,
                                                  source.getrandbits(64))))
        # pause(2) and its kin would sleep: reads of nothing, polls, messages.
        slot.set_word(remote_client.OPERATION, remote_client.CALL)
        slot.set_number(remote_client.NUMBER, source.choice((0, 1, 7, 20, 46, 47, 51, 54, 55, 257)))
        slot.set_word(remote_client.REQUEST, source.getrandbits(32))
        slot.futex(remote_client.REQUEST, remote_client.FUTEX_WAKE, 1)


def test_a_slot_that_changes_all_the_time(server):
    with RemoteClient(server.path) as good, contextlib.ExitStack() as stack:
        end = threading.Event()
        hostile = [stack.enter_context(RemoteClient(server.path)) for _ in range(2)]
        threads = [threading.Thread(target=scribble, args=(client.slot, end))
                   for client in hostile]
        for thread in threads:
            thread.start()
        for _ in range(200):
            assert good.call(remote_client.GETPID) == good.process
        end.set()
        for thread in threads:
            thread.join()
    server.check_alive()


def test_threads_have_a_limit(server):
    with RemoteClient(server.path) as client:
        threads = []
        with pytest.raises(Refused, match="thread"):
            for _ in range(1000):
                threads.append(client.further())
        assert len(threads) > 100
        for number, slot in threads[:10]:
            assert client.call(remote_client.GETTID, slot=slot) == number


def test_a_killed_process_has_no_calls(server):
    with RemoteClient(server.path) as client, RemoteClient(server.path) as other:
        other.slot.begin(remote_client.CALL, remote_client.PAUSE, ())
        assert client.call(62, other.process, signal.SIGKILL) == 0
        with contextlib.suppress(Ended):
            assert other.finish() == -ESRCH
        other.wait_for_end()
        assert client.call(remote_client.GETPID) == client.process
