# SPDX-License-Identifier: GPL-2.0-only
"""A second implementation of a client of a kernel's server, from docs/slots.md and
docs/protocol.md alone: sockets, shared memory and futexes, and nothing of the crates. It says what
a test wants it to say.
"""

import contextlib
import ctypes
import json
import mmap
import os
import select
import socket
import struct
from typing import Any

# Places in the header of a slot.
REQUEST, REPLY, SERVER_SLEEPS, CLIENT_SLEEPS = 0, 64, 128, 192
OPERATION, NUMBER, ARGUMENTS, RESULT, DATA = 256, 264, 272, 384, 4096
CALL, FORK, EXEC, LEAVE, EXIT = range(5)

MESSAGE = 0
VERSION = 1
MOST = 1 << 20

SYS_FUTEX, FUTEX_WAIT, FUTEX_WAKE = 202, 0, 1
LIBC = ctypes.CDLL(None, use_errno=True)

READ, WRITE, OPEN, CLOSE, LSEEK, PAUSE, GETPID, MKDIR, MOUNT = 0, 1, 2, 3, 8, 34, 39, 83, 165
GETTID, GETDENTS64 = 186, 217


def off(number: int) -> ctypes.c_long:
    """A number as off_t, for functions of the C library."""
    return ctypes.c_long(number)


class Ended(Exception):
    """The server has closed the connection."""


class Refused(Exception):
    """The server has answered that something failed."""


class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class Slot:
    """The memory of a thread."""

    def __init__(self, file: int, size: int) -> None:
        assert os.fstat(file).st_size == DATA + size
        self.size = size
        self.memory = mmap.mmap(file, DATA + size)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.last = 0
        # The server wakes this thread in any case.
        self.set_word(CLIENT_SLEEPS, 1)

    def word(self, place: int) -> int:
        return ctypes.c_uint32.from_address(self.base + place).value

    def set_word(self, place: int, value: int) -> None:
        ctypes.c_uint32.from_address(self.base + place).value = value

    def set_number(self, place: int, value: int) -> None:
        ctypes.c_uint64.from_address(self.base + place).value = value % (1 << 64)

    def result(self) -> int:
        return ctypes.c_int64.from_address(self.base + RESULT).value

    def put(self, offset: int, content: bytes) -> int:
        """Bytes into the data. Returns their offset."""
        assert 0 < offset and offset + len(content) <= self.size
        self.memory[DATA + offset:DATA + offset + len(content)] = content
        return offset

    def get(self, offset: int, length: int) -> bytes:
        return self.memory[DATA + offset:DATA + offset + length]

    def begin(self, operation: int, number: int, arguments: tuple[int, ...],
              step: int = 1) -> None:
        """Asks for something, and does not wait."""
        self.set_word(OPERATION, operation)
        self.set_number(NUMBER, number)
        for index, argument in enumerate((*arguments, *[0] * (6 - len(arguments)))):
            self.set_number(ARGUMENTS + 8 * index, argument)
        self.last = (self.last + step) % (1 << 32)
        self.set_word(REQUEST, self.last)
        # Without a look at SERVER_SLEEPS, which would need a barrier before it.
        self.futex(REQUEST, FUTEX_WAKE, (1 << 31) - 1)

    def futex(self, place: int, operation: int, value: int) -> None:
        time = Time(0, 100_000_000)
        LIBC.syscall(SYS_FUTEX, ctypes.c_void_p(self.base + place), operation,
                     ctypes.c_uint32(value), ctypes.byref(time), None, 0)


class Connection:
    """A connection, which need not be a client's yet."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)

    def send(self, message: Any) -> None:
        self.send_frame(MESSAGE, json.dumps(message).encode())

    def send_frame(self, kind: int, content: bytes) -> None:
        self.socket.sendall(struct.pack("<IB", len(content), kind) + content)

    def receive(self) -> tuple[Any, list[int]]:
        """A message, and the descriptors that came with it."""
        head, files, _, _ = socket.recv_fds(self.socket, 5, 4)
        if not head:
            raise Ended
        while len(head) < 5:
            head += self.some(5 - len(head))
        length, kind = struct.unpack("<IB", head)
        assert length <= MOST and kind == MESSAGE
        content = b""
        while len(content) < length:
            content += self.some(length - len(content))
        return json.loads(content), files

    def some(self, most: int) -> bytes:
        content = self.socket.recv(most)
        if not content:
            raise Ended
        return content

    def is_open(self) -> bool:
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return not poll.poll(0)

    def wait_for_end(self) -> None:
        """The server closes it."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(4096):
                pass

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteClient(Connection):
    """A process of the server's kernel, with one thread or more."""

    def __init__(self, path: str, ticket: bytes | None = None, name: str = "python",
                 version: int = VERSION) -> None:
        super().__init__(path)
        try:
            self.send({"Client": {"version": version, "name": name,
                                  "ticket": ticket.hex() if ticket else None}})
            answer, files = self.expect("Attached")
        except BaseException:
            self.close()
            raise
        self.path = path
        assert answer["version"] == VERSION
        self.process: int = answer["process"]
        self.thread: int = answer["thread"]
        self.size: int = answer["slot_size"]
        self.file = files[0]
        self.slot = Slot(self.file, self.size)

    def expect(self, name: str) -> tuple[dict, list[int]]:
        answer, files = self.receive()
        if "Failed" in answer:
            raise Refused(answer["Failed"]["reason"])
        return answer[name], files

    def further(self) -> tuple[int, Slot]:
        """Another thread: its number and its slot."""
        self.send("Thread")
        answer, files = self.expect("Thread")
        slot = Slot(files[0], self.size)
        os.close(files[0])
        return answer["thread"], slot

    def finish(self, slot: Slot | None = None) -> int:
        """Waits for the end of what was begun."""
        slot = slot or self.slot
        while (seen := slot.word(REPLY)) != slot.last:
            if not self.is_open():
                raise Ended
            slot.futex(REPLY, FUTEX_WAIT, seen)
        return slot.result()

    def call(self, number: int, *arguments: int, slot: Slot | None = None) -> int:
        slot = slot or self.slot
        slot.begin(CALL, number, arguments)
        return self.finish(slot)

    def operate(self, operation: int, *arguments: int) -> int:
        self.slot.begin(operation, 0, arguments)
        return self.finish()

    def open(self, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        return self.call(OPEN, self.slot.put(64, path.encode() + b"\0"), flags, mode)

    def read(self, descriptor: int, length: int) -> bytes:
        result = self.call(READ, descriptor, 4096, length)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return self.slot.get(4096, result)

    def write(self, descriptor: int, content: bytes) -> int:
        return self.call(WRITE, descriptor, self.slot.put(4096, content), len(content))

    def fork(self) -> tuple[int, bytes]:
        """The number of the copy, and its ticket."""
        process = self.operate(FORK, 64)
        assert process > 0, process
        return process, self.slot.get(64, 16)

    def close(self) -> None:
        super().close()
        if hasattr(self, "file"):
            os.close(self.file)
            del self.file


def entries(client: RemoteClient, directory: int) -> list[str]:
    """The names in an open directory."""
    names = []
    while (length := client.call(GETDENTS64, directory, 4096, 65536)) > 0:
        content, place = client.slot.get(4096, length), 0
        while place < length:
            size = struct.unpack_from("<H", content, place + 16)[0]
            names.append(content[place + 19:place + size].split(b"\0")[0].decode())
            place += size
    return names


def processes(client: RemoteClient) -> set[int]:
    """The processes of the kernel, also those that nobody has waited for, but its own threads."""
    found = set()
    client.call(MKDIR, client.slot.put(64, b"/proc\0"), 0o755)
    if (directory := client.open("/proc/self/..", os.O_RDONLY | os.O_DIRECTORY)) < 0:
        name = client.slot.put(64, b"proc\0/proc\0")
        assert client.call(MOUNT, name, name + 5, name, 0, 0) == 0
        directory = client.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    for number in filter(str.isdigit, entries(client, directory)):
        file = client.open(f"/proc/{number}/stat")
        if file < 0:
            continue
        with contextlib.suppress(ProcessLookupError):
            # Behind the name: the state, and the parent. Number 2 makes the kernel's threads.
            parent = int(client.read(file, 4096).rpartition(b")")[2].split()[1])
            if 2 not in (parent, int(number)):
                found.add(int(number))
        client.call(CLOSE, file)
    client.call(CLOSE, directory)
    return found
