# SPDX-License-Identifier: GPL-2.0-only
"""Interfaces whose back-end is another process (vhost-user): back-ends of DPDK and of rust-vmm, and
back-ends that break the rules."""

import contextlib
import os
import pathlib
import re
import socket
import struct
import subprocess
import threading

import pytest

from library.test_capi import HERE, LIBRARIES, library_program, run
from support import c_programs, host, program
from support.patience import wait_until
from support.program import OUT

PAIR = os.path.join(os.path.dirname(HERE), "vhost_pair")
# Checksums, and segmentation of TCP, in both directions.
OFFLOADS = 0x3f83
SHARED = {"LD_LIBRARY_PATH": LIBRARIES, "SHARED_MEMORY": "1"}


@pytest.fixture(name="pair", scope="module")
def built_pair():
    target = os.path.join(OUT, "cargo")
    host.run("cargo", "build", "--release", "--locked", "--manifest-path",
             os.path.join(PAIR, "Cargo.toml"), timeout=1500, CARGO_TARGET_DIR=target)
    return os.path.join(target, "release", "vhost-pair")


@pytest.fixture(name="two", scope="module")
def built(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("net")), "net_test.c", "stream.c",
                           "client.c")


@pytest.fixture(name="one", scope="module")
def built_one(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("net")), "net_vhost_user_test.c",
                           "client.c")


class Cable:
    """A process that joins the sockets a and b."""

    def __init__(self, work, *command):
        self.command, self.process = command, None
        self.sockets = [os.path.join(work, name) for name in "ab"]
        self.log = pathlib.Path(work, "cable.log")

    def start(self) -> None:
        for path in self.sockets:
            pathlib.Path(path).unlink(missing_ok=True)
        with open(self.log, "ab") as log:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=log,
                                            stderr=log, env=host.environment())
        wait_until(lambda: self.process.poll() is not None or all(map(host.listens, self.sockets)),
                   "the back-end listens")
        assert self.process.poll() is None, self.log.read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def descriptions(self, words="") -> list:
        return [f"vhost-user:{path},ip=10.1.0.{number}/24{words}"
                for number, path in enumerate(self.sockets, 1)]


@contextlib.contextmanager
def cable(work, *command):
    made = Cable(work, *command)
    made.start()
    try:
        yield made
    finally:
        made.kill()


def rust_vmm(pair, work, features):
    return cable(work, pair, os.path.join(work, "a"), os.path.join(work, "b"), f"{features:x}")


def dpdk(work, queues=1):
    """testpmd locks its memory by default: the host would then provide all of the kernel's."""
    devices = [word for number, name in enumerate("ab")
               for word in ("--vdev", f"net_vhost{number},iface={work}/{name},queues={queues}")]
    return cable(work, "dpdk-testpmd", "--no-huge", "--no-pci", "--no-telemetry", "-m", "64",
                 "--no-shconf", "--lcores", "0@0,1@0", *devices, "--", "--no-mlockall", "-i",
                 "--forward-mode=io", "--auto-start", "--total-num-mbufs=4096",
                 f"--rxq={queues}", f"--txq={queues}")


def transfer(two, ends, megabytes=16, vcpus=2):
    return run(two, "pair", ends[0], "10.1.0.1", ends[1], str(vcpus), str(megabytes << 20),
               timeout=900, **SHARED)


@pytest.mark.needs("cargo")
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("features", [0, OFFLOADS], ids=["plain", "offloads"])
def test_rust_vmm(work, two, pair, features, mtu):
    with rust_vmm(pair, work, features) as back_end:
        transfer(two, back_end.descriptions(f",mtu={mtu}"))
        wait_until(lambda: back_end.log.read_text().count("largest") == 3,
                   "the back-end has lost both front-ends, and one twice")
        largest = max(int(size) for size in re.findall("largest (\\d+)", back_end.log.read_text()))
    header = 12 + 14
    assert largest > 32768 if features else largest == header + mtu


@pytest.mark.needs("dpdk-testpmd")
@pytest.mark.parametrize("queues", [1, 2])
def test_dpdk(work, two, queues):
    with dpdk(work, queues) as back_end:
        transfer(two, back_end.descriptions(f",queues={queues}"))
        enabled = re.findall("set queue enable: 1 to qp idx: (\\d+)",
                             back_end.log.read_text(errors="replace"))
    assert set(enabled) == {str(index) for index in range(2 * queues)}


@pytest.mark.needs("dpdk-testpmd", "cargo")
@pytest.mark.parametrize("kind", ["dpdk", "rust-vmm"])
def test_the_back_end_is_killed(work, two, pair, kind):
    """A transfer goes on after each restart of the back-end, and its contents are right."""
    with dpdk(work) if kind == "dpdk" else rust_vmm(pair, work, OFFLOADS) as back_end:
        ends = back_end.descriptions()
        command = [two, "pair", ends[0], "10.1.0.1", ends[1], "2", str(1 << 30)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                              env=host.environment(**SHARED)) as process:
            assert process.stdout.readline() == "connected\n"
            for _ in range(3):
                back_end.kill()
                assert process.poll() is None
                back_end.start()
            process.stdout.read()
            assert process.wait() == 0


# ---- back-ends that break the rules ---------------------------------------------------

REQUESTS = {1: "GET_FEATURES", 2: "SET_FEATURES", 3: "SET_OWNER", 5: "SET_MEM_TABLE",
            8: "SET_VRING_NUM", 9: "SET_VRING_ADDR", 10: "SET_VRING_BASE", 11: "GET_VRING_BASE",
            12: "SET_VRING_KICK", 13: "SET_VRING_CALL", 15: "GET_PROTOCOL_FEATURES",
            16: "SET_PROTOCOL_FEATURES", 17: "GET_QUEUE_NUM", 18: "SET_VRING_ENABLE",
            20: "NET_SET_MTU"}
VERSION_1, PROTOCOL_FEATURES = 1 << 32, 1 << 30
MULTIQUEUE, ACKNOWLEDGE = 1 << 0, 1 << 3
REPLY, NEED_REPLY = 5, 8


def message(request, payload, flags=REPLY) -> bytes:
    return struct.pack("<III", request, flags, len(payload)) + payload


class BackEnd:
    """Answers as the protocol says, but for the requests that `wrong` has other answers to: bytes,
    None (no answer at all), or a function of the connection."""

    def __init__(self, path, **wrong):
        self.wrong, self.seen, self.connection = wrong, [], None
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connection = connection
            with connection, contextlib.suppress(OSError, struct.error):
                while self.answer(connection):
                    pass

    def take(self, fds) -> None:
        for fd in fds:
            os.close(fd)

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def drop(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self, connection) -> bool:
        header, fds, _, _ = socket.recv_fds(connection, 12, 8, socket.MSG_WAITALL)
        self.take(fds)
        number, flags, size = struct.unpack("<III", header)
        payload = connection.recv(size, socket.MSG_WAITALL) if size else b""
        name = REQUESTS[number]
        self.seen.append(name)
        right = self.right(name, payload, flags)
        reply = self.wrong.get(name, message(number, right) if right else b"")
        if callable(reply):
            return reply(connection)
        connection.sendall(reply or b"")
        return True

    @staticmethod
    def right(name, payload, flags) -> bytes:
        answers = {"GET_FEATURES": VERSION_1 | PROTOCOL_FEATURES,
                   "GET_PROTOCOL_FEATURES": MULTIQUEUE | ACKNOWLEDGE, "GET_QUEUE_NUM": 2}
        if name in answers:
            return struct.pack("<Q", answers[name])
        if name == "GET_VRING_BASE":
            return payload
        return bytes(8) if flags & NEED_REPLY else b""


class Filler(BackEnd):
    """Whoever writes an eventfd that it got blocks."""

    def take(self, fds) -> None:
        for fd in fds:
            if os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[eventfd]":
                os.set_blocking(fd, False)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(fd)
                os.eventfd_write(fd, 2**64 - 2)
                os.set_blocking(fd, True)
        super().take(fds)


@contextlib.contextmanager
def back_end_of(work, kind=BackEnd, **wrong):
    path = os.path.join(work, "socket")
    made = kind(path, **wrong)
    try:
        yield made, f"vhost-user:{path}"
    finally:
        made.close()
        os.unlink(path)


def hang_up(_connection) -> bool:
    return False


def unasked(connection) -> bool:
    connection.sendall(bytes(20))
    return True


def added(one, description) -> str:
    return run(one, "add", description, LD_LIBRARY_PATH=LIBRARIES, timeout=300).strip()


def test_right_back_end(work, one):
    with back_end_of(work) as (back_end, description):
        with watched(one, f"{description},mtu=1400"):
            wait_until(lambda: back_end.seen.count("SET_VRING_ENABLE") == 2,
                       "the queues were started")
        wait_until(lambda: back_end.seen.count("GET_VRING_BASE") == 2, "the queues were stopped")
    assert back_end.seen[:5] == ["GET_FEATURES", "GET_PROTOCOL_FEATURES", "SET_PROTOCOL_FEATURES",
                                 "GET_QUEUE_NUM", "SET_OWNER"]


@pytest.mark.parametrize("wrong, reason", [
    ({"GET_FEATURES": hang_up}, "the back-end closed the connection at GET_FEATURES"),
    ({"GET_FEATURES": None}, "the back-end did not answer GET_FEATURES in 10 seconds"),
    ({"GET_FEATURES": b"ab"}, "the back-end did not answer GET_FEATURES in 10 seconds"),
    ({"GET_FEATURES": message(1, bytes(8), flags=1)},
     "the back-end answered GET_FEATURES with flags 0x1"),
    ({"GET_FEATURES": message(1, bytes(8), flags=6)},
     "the back-end answered GET_FEATURES with flags 0x6"),
    ({"GET_FEATURES": message(2, bytes(8))}, "the back-end answered GET_FEATURES with message 2"),
    ({"GET_FEATURES": message(1, bytes(4))},
     "the back-end answered GET_FEATURES with 4 bytes, not 8"),
    ({"GET_FEATURES": message(1, bytes(100000))},
     "the back-end answered GET_FEATURES with 100000 bytes, not 8"),
    ({"GET_FEATURES": struct.pack("<III", 1, REPLY, 0xffffffff)},
     "the back-end answered GET_FEATURES with 4294967295 bytes, not 8"),
    ({"GET_FEATURES": message(1, bytes(8))}, "the back-end does not know virtio 1.0 (features 0)"),
    ({"GET_QUEUE_NUM": message(17, bytes(8))}, "the back-end has no queues"),
    ({"SET_OWNER": message(3, struct.pack("<Q", 22))}, "the back-end refuses SET_OWNER (22)"),
    ({"SET_OWNER": b"garbage" * 5},
     "the back-end answered SET_OWNER with message 1651663207"),
], ids=lambda value: None if isinstance(value, dict) else value[13:40])
def test_wrong_answers(work, one, wrong, reason):
    with back_end_of(work, **wrong) as (_, description):
        assert added(one, description) == f"{description.replace(':', ' ')}: {reason}"


def test_queues_that_the_back_end_lacks(work, one):
    with back_end_of(work) as (_, description):
        assert added(one, f"{description},queues=3").endswith(
            "queues=3: the back-end has 2 queue pairs")
        assert added(one, f"{description},queues=2") == "added"


def test_refusals(work, one):
    path = os.path.join(work, "socket")
    assert added(one, f"vhost-user:{path}") == (
        f"vhost-user {path}: cannot connect: No such file or directory; start the back-end first")
    pathlib.Path(path).touch()
    assert added(one, f"vhost-user:{path}") == (
        f"vhost-user {path}: cannot connect: Connection refused; start the back-end first")
    assert added(one, f"vhost-user:/{'x' * 200}").endswith(
        "the path of a socket has at most 107 characters")
    assert added(one, f"vhost-user:{path},pcap={work}/frames") == (
        f"pcap={work}/frames: the frames of a vhost-user interface pass through its back-end only; "
        "capture them there")
    assert added(one, "vhost-user:") == (
        "vhost-user: the target is missing: write vhost-user:/run/switch")
    private = run(one, "private", f"vhost-user:{path}", LD_LIBRARY_PATH=LIBRARIES)
    assert private == ("vhost-user: the back-end cannot map this kernel's memory; boot the kernel "
                       "with OB_SHARED_MEMORY\n")


def test_memory_is_shared_where_the_interface_needs_it(work):
    """By the program, and for the programs of OUTBOARD_NET: only the back-end is missing."""
    interface = f"vhost-user:{work}/socket"
    missing = f"vhost-user {work}/socket: cannot connect: No such file or directory"
    program.bad("--no-sandbox", "--net", f"{interface},ip=10.1.0.1/24", "ls",
                "nbd://10.1.0.2/export", mentions=[missing])
    source = pathlib.Path(work, "client.c")
    source.write_text("int main(void) { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }\n",
                      encoding="ascii")
    client = c_programs.build(os.path.join(work, "client"), str(source),
                              flags=("-include", "outboard/sockets.h"))
    done = subprocess.run([client], capture_output=True, text=True, check=True, timeout=60,
                          env=host.environment(OUTBOARD_NET=interface))
    assert done.stderr == f"outboard: {missing}; start the back-end first\n"


def test_shared_memory_excludes_snapshots(work, one):
    os.chmod(work, 0o700)
    with back_end_of(work) as (_, description):
        for _ in range(2):
            said = run(one, "add", description, LD_LIBRARY_PATH=LIBRARIES, SNAPSHOTS=work)
            assert said.splitlines() == [
                "snapshot not used: other processes share the kernel's memory", "added"]
    assert run(one, "flags", "", LD_LIBRARY_PATH=LIBRARIES) == (
        "flags is 0x4: use OB_SHARED_MEMORY, OB_CONTAIN_PANIC, both or 0\n")


@contextlib.contextmanager
def watched(one, description):
    """A kernel whose link is up. At the end the interface is removed, and the kernel halts."""
    with subprocess.Popen([one, "watch", f"{description},ip=10.1.0.1/24"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=host.environment(LD_LIBRARY_PATH=LIBRARIES,
                                               OUTBOARD_LOG="warning")) as process:
        assert process.stdout.readline() == "up\n"
        yield process
        process.stdin.close()
        assert process.stdout.read().splitlines()[-1] == "halted"
        assert process.wait() == 0


@pytest.mark.parametrize("wrong, reason", [
    ({"GET_FEATURES": hang_up}, "the back-end closed the connection at GET_FEATURES"),
    ({"GET_FEATURES": message(1, struct.pack("<Q", VERSION_1))}, None),
    ({"GET_QUEUE_NUM": message(17, struct.pack("<Q", 1))},
     "the back-end that is back has 1 queue pairs, not 2"),
    ({"SET_MEM_TABLE": message(5, struct.pack("<Q", 12))},
     "the back-end refuses SET_MEM_TABLE (12)"),
    ({"SET_VRING_ENABLE": unasked}, "the back-end answered SET_VRING_ENABLE with message 0"),
], ids=["gone", "less", "queues", "memory", "unasked"])
def test_the_link_follows_the_back_end(work, one, wrong, reason):
    """The back-end goes away, is back but of no use, and then of use."""
    with back_end_of(work) as (back_end, description):
        with watched(one, f"{description},queues=2") as process:
            back_end.wrong = wrong
            back_end.drop()
            # The front-end may be about to say something, and then names that.
            assert re.search("the back-end closed the connection( at [A-Z_]+)?; the interface has "
                             "no link", until(process, "vhost-user"))
            assert process.stdout.readline() == "down\n"
            if reason:
                assert reason in until(process, "vhost-user")
            back_end.wrong = {}
            assert process.stdout.readline() == "up\n"


def test_a_message_that_nobody_has_asked_for(work, one):
    with back_end_of(work) as (back_end, description), watched(one, description) as process:
        wait_until(lambda: back_end.seen.count("SET_VRING_ENABLE") == 2, "the queues run")
        back_end.connection.sendall(b"x")
        assert "the back-end sent a message unasked" in until(process, "vhost-user")
        wait_until(lambda: back_end.seen.count("SET_VRING_ENABLE") == 4, "the queues run again")


def until(process, word) -> str:
    """The next line of standard error with the word."""
    return next(line for line in process.stderr if word in line)


@pytest.mark.parametrize("wrong", [None, hang_up, b"garbage" * 5], ids=["mute", "gone", "garbage"])
def test_the_queues_are_not_stopped(work, one, wrong):
    """The kernel removes the interface, and halts, whatever the back-end answers."""
    with back_end_of(work, GET_VRING_BASE=wrong) as (back_end, description):
        with watched(one, description):
            wait_until(lambda: back_end.seen.count("SET_VRING_ENABLE") == 2, "the queues run")
        assert "GET_VRING_BASE" in back_end.seen


def test_full_eventfds(work, one):
    """Neither a kernel that sends nor its end waits for a back-end that lets no write through."""
    with back_end_of(work, Filler) as (_, description), watched(one, description):
        pass
