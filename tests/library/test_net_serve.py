# SPDX-License-Identifier: GPL-2.0-only
"""A port of a hub for front-ends of vhost-user: the kernel's own, QEMU's, and front-ends that break
the rules."""

import array
import contextlib
import fcntl
import glob
import mmap
import os
import random
import signal
import socket
import struct
import subprocess

import pytest

from library.test_capi import (DEVICES, LIBRARIES, PLATFORM, REPOSITORY, SANITIZERS, compile_c,
                               library_program, platform_sources, run)
from support import guest, host, program
from support.patience import wait_until

SHARED = {"LD_LIBRARY_PATH": LIBRARIES, "SHARED_MEMORY": "1"}
PORT = 7007


@pytest.fixture(name="programs", scope="module")
def built(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("net"))
    return {"serve": library_program(directory, "net_serve_test.c"),
            "net": library_program(directory, "net_test.c", "stream.c", "client.c"),
            "one": library_program(directory, "net_vhost_user_test.c", "client.c")}


@pytest.fixture(name="checked", scope="module")
def built_with_sanitizers(programs, tmp_path_factory):
    """The server finds a wrong access."""
    directory = str(tmp_path_factory.mktemp("checked"))
    patterns = (f"{DEVICES}/*.c", f"{DEVICES}/net/*.c")
    files = platform_sources()
    files += [file for pattern in patterns for file in sorted(glob.glob(pattern))]
    files += [f"{REPOSITORY}/lib/{name}.c" for name in ("net_serve", "net_options", "error")]
    folders = (PLATFORM, f"{REPOSITORY}/hypercall/include", f"{REPOSITORY}/lib",
               f"{REPOSITORY}/lib/include")
    server = compile_c(os.path.join(directory, "serve"),
                       ["net_serve_test.c", "mock_kernel.c", *files],
                       *(f"-I{folder}" for folder in folders), "-ldl", "-lxxhash",
                       *SANITIZERS["address"])
    return {**programs, "serve": server}


class Server:
    def __init__(self, command, work, name="socket"):
        self.hub, self.path = os.path.join(work, "hub"), os.path.join(work, name)
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(
            [command, f"hub:{self.hub}", self.path], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=host.environment(LD_LIBRARY_PATH=LIBRARIES))
        assert self.line() == "ready"

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def refusal(self) -> str:
        return self.line().removeprefix(f"vhost-user {self.path}: ")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self) -> list:
        self.process.stdin.close()
        lines = self.process.stdout.read().splitlines()
        assert self.process.wait() == 0
        return lines


@contextlib.contextmanager
def served(programs, work, name="socket"):
    server = Server(programs["serve"], work, name)
    try:
        yield server
        assert server.end()[-1] == "ended"
    finally:
        server.process.kill()
        server.process.wait()


@pytest.mark.parametrize("mtu", [1500, 65521])
def test_own_front_end(work, programs, mtu):
    """A kernel on the hub, and one behind the socket, which comes back once."""
    with served(programs, work) as server:
        run(programs["net"], "pair", f"hub:{server.hub},ip=10.1.0.1/24,mtu={mtu}", "10.1.0.1",
            f"vhost-user:{server.path},ip=10.1.0.2/24,mtu={mtu}", "2", str(64 << 20),
            timeout=600, **SHARED)


@contextlib.contextmanager
def hub_program(hub, *sockets, prefix=()):
    """`outboard hub`. SIGTERM ends it, and removes the sockets."""
    command = [*prefix, *program.command("hub", "--mtu", "9000", hub, *sockets)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        wait_until(lambda: all(map(host.listens, sockets)) or server.poll() is not None,
                   "the program listens")
        yield
        server.terminate()
        assert server.stderr.read() == ""
        assert server.wait() == 128 + signal.SIGTERM
    assert not any(map(os.path.exists, sockets))


def check_pair(work, programs) -> None:
    """Two kernels, each behind a socket of `outboard hub`."""
    ends = [f"vhost-user:{work}/a\\,{number},ip=10.1.0.{number + 1}/24,mtu=9000"
            for number in range(2)]
    run(programs["net"], "pair", ends[0], "10.1.0.1", ends[1], "2", str(16 << 20), timeout=600,
        **SHARED)


@pytest.mark.needs_root
@pytest.mark.needs("setpriv")
def test_two_programs_of_a_user(work, programs):
    """Each is in a sandbox, and gets the memory of the other's port."""
    hub, sockets = os.path.join(work, "hub"), [os.path.join(work, f"a,{name}") for name in "01"]
    os.chown(work, 12345, 12345)
    user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    with hub_program(hub, sockets[0], prefix=user), hub_program(hub, sockets[1], prefix=user):
        check_pair(work, programs)


def test_the_program(work, programs):
    sockets = [os.path.join(work, f"a,{name}") for name in "01"]
    with hub_program(os.path.join(work, "hub,0"), *sockets):
        check_pair(work, programs)
    program.bad("hub", os.path.join(work, "none/hub"), sockets[0], mentions=["none/hub"])
    program.bad("hub", os.path.join(work, "hub"), os.path.join(work, "none/socket"),
                mentions=["none/socket: cannot listen: No such file or directory"])


SCRIPT = """
ip link set eth0 up
ip address add 10.1.0.2/24 dev eth0
head -c 20000000 /dev/urandom > sent
nc 10.1.0.1 7007 < sent > back
cmp sent back
"""


@pytest.mark.skipif(not guest.usable(), reason="no QEMU, kernel or tools for a guest")
def test_qemu(work, programs):
    """A guest of QEMU sends checked contents to a kernel on the hub, and gets them back.

    Without KVM, QEMU 7.2 crashes when a vhost device has MSI-X: vectors=0.
    """
    with served(programs, work) as server:
        options = ("-object", "memory-backend-memfd,id=memory,size=512M,share=on",
                   "-machine", "memory-backend=memory",
                   "-chardev", f"socket,id=socket,path={server.path}",
                   "-netdev", "vhost-user,id=net,chardev=socket",
                   "-device", "virtio-net-pci,netdev=net,romfile=,vectors=0")
        command = [programs["net"], "listen", f"hub:{server.hub},ip=10.1.0.1/24", str(PORT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                              env=host.environment(**SHARED)) as kernel:
            try:
                assert kernel.stdout.readline() == "ready\n"
                guest.run(SCRIPT, [], options=options)
                assert kernel.wait() == 0
            finally:
                kernel.kill()


def test_fork(work, programs):
    with served(programs, work) as server:
        server.process.stdin.write("ff")
        server.process.stdin.flush()
        assert added(programs, server) == "added"


def test_fork_while_a_port_opens(work, programs):
    """The server waits for the lock of the hub's file, which it has open already."""
    with served(programs, work) as server, open(server.hub, "r+b") as hub:
        lock = struct.pack("@hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 1 << 32, 1, 0) + bytes(4)
        fcntl.fcntl(hub, fcntl.F_OFD_SETLK, lock)
        with socket.socket(socket.AF_UNIX) as front:
            front.connect(server.path)
            wait_until(lambda: is_open(server.process, server.hub), "the server opens the hub")
            server.process.stdin.write("f")
            server.process.stdin.flush()
            assert server.line() == "forked"


def is_open(process, path) -> bool:
    directory = f"/proc/{process.pid}/fd"
    for name in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(os.path.join(directory, name)) == path:
                return True
    return False


def added(programs, server) -> str:
    return run(programs["one"], "add", f"vhost-user:{server.path}", LD_LIBRARY_PATH=LIBRARIES,
               timeout=300).strip()


def test_refusals(work, programs):
    def refused(hub, path):
        return run(programs["serve"], hub, path, LD_LIBRARY_PATH=LIBRARIES, ok=1).strip()

    hub, path = f"hub:{work}/hub", f"{work}/socket"
    assert refused(f"pcap:{path}", path) == (
        f"pcap:{path}: only a hub can be offered, as hub:/run/lab")
    assert refused(f"{hub},ip=10.0.0.1/24", path) == (
        f"{hub},ip=10.0.0.1/24: a hub that is offered has the word mtu only")
    assert refused(hub, f"{work}/{'x' * 108}").endswith("has at most 107 characters")
    assert refused(hub, f"{work}/none/socket") == (
        f"vhost-user {work}/none/socket: cannot listen: No such file or directory")
    assert "cannot" in refused(f"hub:{work}/none/hub", path)
    with open(path, "wb"):
        pass
    assert refused(hub, path) == f"vhost-user {path}: cannot listen: Address already in use"
    os.unlink(path)
    with served(programs, work) as server:
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert refused(hub, path) == f"vhost-user {path}: cannot listen: Address already in use"
        server.process.kill()
        server.process.wait()
        assert os.path.exists(path)
        # What a process left behind is in nobody's way.
        again = Server(programs["serve"], work)
        again.end()
        server.process = again.process = subprocess.Popen(["echo", "ended"], text=True,
                                                          stdin=subprocess.PIPE,
                                                          stdout=subprocess.PIPE)


# ---- front-ends that break the rules -----------------------------------------------------

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = 8, 9, 10, 11
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = 12, 13, 14
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE = 15, 16, 17, 18
VERSION_1, MERGED_BUFFERS = 1 << 32, 1 << 15
FEATURES = VERSION_1 | MERGED_BUFFERS | 1 << 30
SIZE = 1 << 20
USER = 0x10000000
BUFFERS = 0x80000
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class FrontEnd:
    """Memory of SIZE bytes: at guest address 0 and at address USER of the front-end."""

    def __init__(self, server, flags=os.EFD_NONBLOCK):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(300)
        self.socket.connect(server.path)
        self.memory = memory_file()
        self.bytes = mmap.mmap(self.memory, SIZE)
        self.events = [os.eventfd(0, flags) for _ in range(4)]
        self.offered = self.seen = 0

    def close(self) -> None:
        self.socket.close()
        for fd in (self.memory, *self.events):
            os.close(fd)

    def send(self, request, payload=b"", fds=(), flags=1) -> None:
        header = struct.pack("<III", request, flags, len(payload))
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([header, payload], control)

    def ask(self, request, payload=b"") -> bytes:
        self.send(request, payload)
        answered, flags, size = struct.unpack("<III", self.receive(12))
        assert (answered, flags) == (request, 5)
        return self.receive(size)

    def receive(self, size) -> bytes:
        return self.socket.recv(size, socket.MSG_WAITALL)

    def set_memory(self, *regions, fds=None) -> None:
        regions = regions or ((0, SIZE, USER, 0),)
        table = struct.pack("<II", len(regions), 0)
        table += b"".join(struct.pack("<QQQQ", *region) for region in regions)
        self.send(SET_MEM_TABLE, table, fds or [self.memory] * len(regions))

    def set_queue(self, index, descriptors=0x1000, used=0x3000, available=0x2000, size=256,
                  base=0) -> None:
        at = index << 16
        self.send(SET_VRING_NUM, struct.pack("<II", index, size))
        self.send(SET_VRING_BASE, struct.pack("<II", index, base))
        self.send(SET_VRING_ADDR, struct.pack("<IIQQQQ", index, 0, USER + at + descriptors,
                                              USER + at + used, USER + at + available, 0))
        self.send(SET_VRING_CALL, struct.pack("<Q", index), [self.events[2 + index]])
        self.send(SET_VRING_KICK, struct.pack("<Q", index), [self.events[index]])
        self.send(SET_VRING_ENABLE, struct.pack("<II", index, 1))

    def start(self, features=FEATURES, **queue) -> None:
        self.send(SET_OWNER)
        self.send(SET_FEATURES, struct.pack("<Q", features))
        self.set_memory()
        self.set_queue(0)
        self.set_queue(1, **queue)

    def taken(self) -> int:
        """Frames that the server has taken."""
        return struct.unpack("<H", self.bytes[0x13002:0x13004])[0]

    def offer(self, count) -> None:
        """Buffers of 2048 bytes for received frames."""
        for _ in range(count):
            place = self.offered % 256
            descriptor, entry = 0x1000 + 16 * place, 0x2004 + 2 * place
            self.bytes[descriptor:descriptor + 16] = struct.pack(
                "<QIHH", BUFFERS + 2048 * place, 2048, 2, 0)
            self.bytes[entry:entry + 2] = struct.pack("<H", place)
            self.offered += 1
        self.bytes[0x2002:0x2004] = struct.pack("<H", self.offered)
        os.eventfd_write(self.events[0], 1)

    def used(self) -> int:
        """Buffers with frames that were received."""
        return struct.unpack("<H", self.bytes[0x3002:0x3004])[0]

    def received(self) -> bytes:
        place, length = struct.unpack_from("<II", self.bytes, 0x3004 + 8 * (self.seen % 256))
        self.seen += 1
        return self.bytes[BUFFERS + 2048 * place:BUFFERS + 2048 * place + length]

    def is_closed(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            return self.socket.recv(100) == b""
        return True


def memory_file(seals=SEALS, size=SIZE) -> int:
    fd = os.memfd_create("guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def huge_file() -> int:
    """It may have no page at all: the host finds that out when one is used."""
    try:
        fd = os.memfd_create("guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
    except OSError:
        pytest.skip("the host has no hugetlbfs")
    os.truncate(fd, 1 << 30)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


@contextlib.contextmanager
def front_end(server, **options):
    made = FrontEnd(server, **options)
    try:
        yield made
    finally:
        made.close()


def test_a_front_end_by_the_rules(work, checked):
    """A frame comes out at another front-end's end, too; the base is where the queue stopped."""
    with served(checked, work) as server:
        before = server.descriptors()
        with front_end(server) as front:
            offered, = struct.unpack("<Q", front.ask(GET_FEATURES))
            assert offered & FEATURES == FEATURES
            assert front.ask(GET_QUEUE_NUM) == struct.pack("<Q", 1)
            front.start()
            send_frame(front, 0)
            wait_until(lambda: front.taken() == 1, "the frame was taken")
            assert front.ask(GET_VRING_BASE, struct.pack("<II", 1, 0)) == struct.pack("<II", 1, 1)
            assert front.ask(GET_VRING_BASE, struct.pack("<II", 0, 0)) == struct.pack("<II", 0, 0)
        assert added(checked, server) == "added"
        wait_until(lambda: server.descriptors() == before, "both front-ends have gone")


def send_frame(front, number, address=0x40000, length=100) -> None:
    place = number % 256
    descriptor, entry = 0x11000 + 16 * place, 0x12004 + 2 * place
    front.bytes[descriptor:descriptor + 16] = struct.pack("<QIHH", address, length, 0, 0)
    front.bytes[entry:entry + 2] = struct.pack("<H", place)
    front.bytes[0x12002:0x12004] = struct.pack("<H", number + 1)
    os.eventfd_write(front.events[1], 1)


SEGMENT, SEGMENTS = 1400, 40


def put_large_frame(front) -> bytes:
    """A frame of TCP to be cut, at 0x40000. Returns the payload."""
    payload = random.Random(1).randbytes(SEGMENT * SEGMENTS - 100)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0xfff0, 0, 64, 6, 0,
                     bytes((10, 9, 0, 1)), bytes((10, 9, 0, 2)))
    tcp = struct.pack(">HHIIBBHHH", 1, 2, 0xfffffff0, 4, 0x50, 0x19, 65535, 0, 0)
    header = struct.pack("<BBHHHHH", 1, 1, 54, SEGMENT, 34, 16, 0)
    frame = header + bytes.fromhex("0200000000020200000000010800") + ip + tcp + payload
    front.bytes[0x40000:0x40000 + len(frame)] = frame
    send_frame(front, 0, length=len(frame))
    return payload


def is_sum_right(data) -> bool:
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    return total % 0xffff == 0


def check_segments(segments, payload) -> None:
    got = b""
    for number, segment in enumerate(segments):
        header, frame = segment[:12], segment[12:]
        assert header == bytes(10) + struct.pack("<H", 1)
        assert struct.unpack_from(">HH", frame, 16) == (len(frame) - 14, 0xfff0 + number & 0xffff)
        assert is_sum_right(frame[14:34])
        assert is_sum_right(frame[26:34] + struct.pack(">HH", 6, len(frame) - 34) + frame[34:])
        assert struct.unpack_from(">I", frame, 38)[0] == 0xfffffff0 + len(got) & 0xffffffff
        assert frame[47] == (0x19 if number == SEGMENTS - 1 else 0x10)
        got += frame[54:]
    assert got == payload


@pytest.mark.parametrize("features", [FEATURES, FEATURES & ~MERGED_BUFFERS, FEATURES | 2],
                         ids=["plain", "no merged buffers", "checksums"])
def test_a_guest_without_segmentation(work, checked, features):
    """A frame of another guest comes in parts with finished checksums, as buffers are offered."""
    with served(checked, work) as server, served(checked, work, "other") as other, \
            front_end(server) as front:
        front.start(features)
        front.offer(16)
        # A port knows those that joined before it.
        front.ask(GET_QUEUE_NUM)
        with front_end(other) as sender:
            sender.start()
            payload = put_large_frame(sender)
            wait_until(lambda: front.used() == 16, "all buffers are full")
        front.offer(SEGMENTS - 16)
        wait_until(lambda: front.used() == SEGMENTS, "the rest has come")
        check_segments([front.received() for _ in range(SEGMENTS)], payload)


def test_frames_that_no_guest_can_get(work, checked):
    """The log has their number."""
    with served(checked, work) as server, served(checked, work, "other") as other:
        with front_end(server) as front:
            front.start()
            front.offer(100)
            front.ask(GET_QUEUE_NUM)
            with front_end(other) as sender:
                sender.start()
                for number in range(2):
                    send_frame(sender, number, length=9000)
                send_frame(sender, 2)
                wait_until(lambda: front.used() == 1, "the short frame has come")
            assert len(front.received()) == 100
        assert server.refusal() == ("2 frames to the front-end are dropped: they are larger than "
                                    "its buffers, or not what their headers say")


def fill(event) -> None:
    """Whoever writes this eventfd next blocks."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_read(event)
    os.eventfd_write(event, 2**64 - 2)
    os.set_blocking(event, True)


@pytest.mark.parametrize("is_early", [False, True])
@pytest.mark.parametrize("is_ended", [False, True])
def test_full_eventfds(work, checked, is_early, is_ended):
    """A front-end makes threads of the server block. Another guest gets frames, and the server
    serves the next front-end, or ends."""
    with served(checked, work) as server, served(checked, work, "other") as other, \
            served(checked, work, "third") as third:
        with front_end(server) as front, front_end(other) as guest:
            if is_early:
                fill(front.events[2])
            for receiver in (front, guest):
                receiver.start()
                receiver.offer(100)
            guest.ask(GET_QUEUE_NUM)
            if not is_early:
                front.ask(GET_QUEUE_NUM)
                fill(front.events[2])
            with front_end(third) as sender:
                sender.start()
                for number in range(8):
                    send_frame(sender, number)
                wait_until(lambda: guest.used() == 8, "another guest has all frames")
            if is_ended:
                assert server.end()[-1] == "ended"
                server.process = subprocess.Popen(["echo", "ended"], text=True,
                                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not is_ended:
            assert added(checked, server) == "added"


def test_blocking_eventfds(work, checked):
    """The server never waits in a read of a kick."""
    with served(checked, work) as server, front_end(server, flags=0) as front:
        front.start()
        for number in range(100):
            send_frame(front, number)
        wait_until(lambda: front.taken() == 100, "all frames were taken")


def bad_fd(kind) -> int:
    read, write = os.pipe()
    os.close(write if kind == "read" else read)
    return read if kind == "read" else write


OUTSIDE = "the front-end is disconnected: a queue is outside of its memory, or has a wrong size"
MISPLACED = "a region of its memory has no size, or is misplaced"
WRONG = {
    "version": (lambda f: f.send(GET_FEATURES, flags=2),
                "the front-end is disconnected: it speaks another version of the protocol"),
    "a reply": (lambda f: f.send(GET_FEATURES, flags=5),
                "the front-end is disconnected: it speaks another version of the protocol"),
    "long": (lambda f: f.send(SET_MEM_TABLE, bytes(1000)),
             "the front-end is disconnected: it sent a message that is too long"),
    "huge": (lambda f: f.socket.sendall(struct.pack("<III", 5, 1, 0xffffffff)),
             "the front-end is disconnected: it sent a message that is too long"),
    "unknown": (lambda f: f.send(77), "a request (77) of the front-end is refused"),
    "size": (lambda f: f.send(SET_FEATURES, bytes(4)),
             "SET_FEATURES (2) of the front-end is refused"),
    "features": (lambda f: f.send(SET_FEATURES, struct.pack("<Q", FEATURES | 1 << 50)),
                 "SET_FEATURES (2) of the front-end is refused"),
    "old": (lambda f: f.send(SET_FEATURES, struct.pack("<Q", 0)),
            "SET_FEATURES (2) of the front-end is refused"),
    "protocol": (lambda f: f.send(SET_PROTOCOL_FEATURES, struct.pack("<Q", 1 << 15)),
                 "SET_PROTOCOL_FEATURES (16) of the front-end is refused"),
    "index": (lambda f: f.send(SET_VRING_NUM, struct.pack("<II", 2, 256)),
              "SET_VRING_NUM (8) of the front-end is refused"),
    "power": (lambda f: f.send(SET_VRING_NUM, struct.pack("<II", 0, 100)),
              "SET_VRING_NUM (8) of the front-end is refused"),
    "many": (lambda f: f.send(SET_VRING_NUM, struct.pack("<II", 0, 65536)),
             "SET_VRING_NUM (8) of the front-end is refused"),
    "base": (lambda f: f.send(SET_VRING_BASE, struct.pack("<II", 0, 65536)),
             "SET_VRING_BASE (10) of the front-end is refused"),
    "no kick": (lambda f: f.send(SET_VRING_KICK, struct.pack("<Q", 0)),
                "SET_VRING_KICK (12) of the front-end is refused"),
    "a pipe": (lambda f: f.send(SET_VRING_KICK, struct.pack("<Q", 0), [bad_fd("read")]),
               "SET_VRING_KICK (12) of the front-end is refused"),
    "another pipe": (lambda f: f.send(SET_VRING_CALL, struct.pack("<Q", 0), [bad_fd("write")]),
                     "SET_VRING_CALL (13) of the front-end is refused"),
    "descriptors": (lambda f: f.send(SET_OWNER, fds=[0] * 20),
                    "the front-end is disconnected: it sent too many descriptors"),
    "no file": (lambda f: f.send(SET_MEM_TABLE, struct.pack("<IIQQQQ", 1, 0, 0, SIZE, USER, 0)),
                "SET_MEM_TABLE (5) of the front-end is refused"),
    "nine": (lambda f: f.send(SET_MEM_TABLE, struct.pack("<II", 9, 0) + bytes(256)),
             "SET_MEM_TABLE (5) of the front-end is refused"),
    "empty": (lambda f: f.set_memory((0, 0, USER, 0)), MISPLACED),
    "offset": (lambda f: f.set_memory((0, 4096, USER, 5)), MISPLACED),
    "wraps": (lambda f: f.set_memory((1 << 63, 1 << 63, USER, 0)), MISPLACED),
    "overlap": (lambda f: f.set_memory((0, 8192, USER, 0), (4096, 8192, 2 * USER, 0)),
                "two regions of its memory overlap"),
    "beyond": (lambda f: f.set_memory((0, 2 * SIZE, USER, 0)),
               "its memory reaches beyond the end of the file"),
    "far": (lambda f: f.set_memory((0, 4096, USER, 1 << 40)),
            "its memory reaches beyond the end of the file"),
    "shrinks": (lambda f: f.set_memory(fds=[memory_file(0)]),
                "its memory may shrink; use sealed memory, as QEMU's memory-backend-memfd"),
    "huge pages": (lambda f: f.set_memory(fds=[huge_file()]),
                   "its memory is in hugetlbfs; use ordinary pages"),
    "read-only": (lambda f: f.set_memory(fds=[memory_file(SEALS | fcntl.F_SEAL_WRITE)]),
                  "its memory cannot be mapped for writing"),
    "descriptor table": (lambda f: f.start(descriptors=SIZE), OUTSIDE),
    "end of rings": (lambda f: f.start(used=SIZE - 65536 - 1024), OUTSIDE),
    "alignment": (lambda f: f.start(descriptors=0x1001), OUTSIDE),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_messages(work, checked, name):
    """The server names the fault, disconnects the front-end, and serves the next one."""
    wrong, line = WRONG[name]
    with served(checked, work) as server:
        before = server.descriptors()
        with front_end(server) as front:
            wrong(front)
            assert server.refusal() == line
            assert front.is_closed()
        wait_until(lambda: server.descriptors() == before, "all descriptors are closed")
        assert added(checked, server) == "added"


def test_refusals_are_answered(work, checked):
    """A front-end that asks for acknowledgements hears of a refusal, and may go on."""
    with served(checked, work) as server, front_end(server) as front:
        assert front.ask(GET_PROTOCOL_FEATURES) == struct.pack("<Q", 8)
        front.send(SET_PROTOCOL_FEATURES, struct.pack("<Q", 8))
        for request, payload, result in ((SET_VRING_NUM, struct.pack("<II", 0, 3), 1), (99, b"", 1),
                                         (SET_VRING_NUM, struct.pack("<II", 0, 4), 0)):
            front.send(request, payload, flags=9)
            assert front.receive(20) == struct.pack("<IIIQ", request, 5, 8, result)


def test_half_a_message(work, checked):
    """It ends with the connection, or with the server."""
    with served(checked, work) as server:
        with front_end(server) as front:
            front.socket.sendall(b"abc")
        with front_end(server) as front:
            front.socket.sendall(struct.pack("<III", SET_FEATURES, 1, 8) + b"ab")
            assert server.end()[-1] == "ended"
            server.process = subprocess.Popen(["echo", "ended"], text=True, stdin=subprocess.PIPE,
                                              stdout=subprocess.PIPE)


@pytest.mark.parametrize("address, length", [(SIZE - 50, 100), (1 << 60, 100), (0, 0xffffffff),
                                             (2**64 - 50, 100)])
def test_frames_outside_of_the_memory(work, checked, address, length):
    with served(checked, work) as server:
        with front_end(server) as front:
            front.start()
            send_frame(front, 0, address, length)
            # The queue is broken: the frame after it is not taken either.
            send_frame(front, 1)
            base = front.ask(GET_VRING_BASE, struct.pack("<II", 1, 0))
            assert base == struct.pack("<II", 1, 0)
        assert added(checked, server) == "added"


@pytest.mark.parametrize("seed", range(3))
def test_random_queues(work, checked, seed):
    """Queues of random bytes, and messages in any order, while frames come from the hub. The server
    survives, and loses nothing."""
    chosen = random.Random(seed)
    with served(checked, work) as server, served(checked, work, "other") as other, \
            front_end(other) as sender:
        sender.start()
        before, sent = server.descriptors(), 0
        for _ in range(40):
            with front_end(server) as front, contextlib.suppress(OSError):
                front.start()
                for _ in range(20):
                    disturb(front, chosen)
                    send_frame(sender, sent)
                    sent += 1
                    wait_until(lambda: sender.taken() == sent, "the hub has the frame")
        wait_until(lambda: server.descriptors() == before, "all descriptors are closed")
        assert added(checked, server) == "added"


def disturb(front, chosen) -> None:
    for queue in (0, 1 << 16):
        at = queue + 0x1000
        front.bytes[at:at + 4096] = b"".join(
            struct.pack("<QIHH", chosen.choice((0, 0x40000, SIZE - 10, chosen.getrandbits(64))),
                        chosen.choice((12, 100, 1514, 70000, 0xffffffff)), chosen.randrange(8),
                        chosen.randrange(300)) for _ in range(256))
        front.bytes[queue + 0x2004:queue + 0x2204] = b"".join(
            struct.pack("<H", chosen.randrange(260)) for _ in range(256))
        index = chosen.choice((1, 7, 256, 257, chosen.getrandbits(16)))
        front.bytes[queue + 0x2000:queue + 0x2004] = struct.pack("<HH", chosen.randrange(2), index)
    for event in front.events[:2]:
        os.eventfd_write(event, 1)
    match chosen.randrange(6):
        case 0:
            front.set_memory()
        case 1:
            front.set_queue(chosen.randrange(2), base=chosen.getrandbits(16),
                            size=1 << chosen.randrange(9))
        case 2:
            front.ask(GET_VRING_BASE, struct.pack("<II", chosen.randrange(2), 0))
        case 3:
            front.send(SET_VRING_ENABLE, struct.pack("<II", chosen.randrange(2), 0))
        case 4:
            front.send(SET_VRING_CALL, struct.pack("<Q", 0x100 | chosen.randrange(2)))
