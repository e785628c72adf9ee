# SPDX-License-Identifier: GPL-2.0-only
"""Sockets of a kernel, with the methods and the errors of Python's `socket`.

    from outboard import net

    with net.socket(net.AF_INET, net.SOCK_STREAM) as listener: ...

A socket belongs to the kernel that `kernel=` names, else to the one that has run longest. Constants
are those of `socket`, on the same host.

What differs from `socket`:

 - A socket has no descriptor of the host. fileno() raises io.UnsupportedOperation, so that select,
   selectors, asyncio and ssl.wrap_socket refuse it; `descriptor` is its number in the kernel.
 - getaddrinfo() and addresses take numeric addresses and "localhost", no other names.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import socket as _host
import time
import warnings
from socket import (AF_INET, AF_INET6, AF_UNIX, AI_NUMERICHOST, AI_PASSIVE, IPPROTO_IP,
                    IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, IPV6_V6ONLY, MSG_DONTWAIT, MSG_PEEK,
                    MSG_TRUNC, MSG_WAITALL, SHUT_RD, SHUT_RDWR, SHUT_WR, SO_BROADCAST, SO_ERROR,
                    SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_REUSEADDR, SO_REUSEPORT, SO_SNDBUF,
                    SOCK_DGRAM, SOCK_RAW, SOCK_STREAM, SOL_SOCKET, SOMAXCONN, TCP_NODELAY,
                    gaierror)
from types import TracebackType
from typing import IO, Any, Callable, Literal, cast, overload

from outboard._address import Address, Buffer, getaddrinfo, pack
from outboard._kernel import Kernel, default_kernel

__all__ = [
    "AF_INET", "AF_INET6", "AF_UNIX", "AI_NUMERICHOST", "AI_PASSIVE", "IPPROTO_IP", "IPPROTO_IPV6",
    "IPPROTO_TCP", "IPPROTO_UDP", "IPV6_V6ONLY", "MSG_DONTWAIT", "MSG_PEEK", "MSG_TRUNC",
    "MSG_WAITALL", "SHUT_RD", "SHUT_RDWR", "SHUT_WR", "SOCK_DGRAM", "SOCK_RAW", "SOCK_STREAM",
    "SOL_SOCKET", "SOMAXCONN", "SO_BROADCAST", "SO_ERROR", "SO_KEEPALIVE", "SO_LINGER", "SO_RCVBUF",
    "SO_REUSEADDR", "SO_REUSEPORT", "SO_SNDBUF", "TCP_NODELAY", "create_connection",
    "create_server", "gaierror", "getaddrinfo", "has_ipv6", "socket", "timeout",
]

has_ipv6 = True
# As in `socket`: another name of the same exception.
timeout = TimeoutError

# System calls of x86-64.
_CLOSE, _POLL = 3, 7
_SOCKET, _CONNECT, _SENDTO, _RECVFROM, _SHUTDOWN, _BIND, _LISTEN = 41, 42, 44, 45, 48, 49, 50
_GETSOCKNAME, _GETPEERNAME, _SETSOCKOPT, _GETSOCKOPT, _ACCEPT4 = 51, 52, 54, 55, 288

_POLLIN, _POLLOUT = 1, 4
_FLAGS = _host.SOCK_NONBLOCK | _host.SOCK_CLOEXEC

# A call that waits looks for Python's signals, such as that of Ctrl-C, so often.
_SLICE_SECONDS = 0.1

_Readable = bytes | bytearray | memoryview


class _PollEntry(ctypes.Structure):
    _fields_ = [("descriptor", ctypes.c_int), ("events", ctypes.c_short),
                ("returned", ctypes.c_short)]


class _Memory:
    """The address of a buffer's bytes, which stay while this does. Read-only ones are copied."""

    def __init__(self, data: Any, writable: bool = False):
        view = memoryview(data).cast("B")
        self.size = view.nbytes
        if writable and view.readonly:
            raise TypeError("read-write bytes-like object expected")
        # ctypes refuses a buffer of no bytes.
        if not view.readonly and self.size:
            self._kept: Any = (ctypes.c_char * self.size).from_buffer(view)
            self.address = ctypes.addressof(self._kept)
        else:
            self._kept = ctypes.c_char_p(data if isinstance(data, bytes) else bytes(view))
            self.address = ctypes.cast(self._kept, ctypes.c_void_p).value or 0


class socket:  # pylint: disable=invalid-name,too-many-public-methods
    """A socket of a kernel. As socket.socket."""

    def __init__(self, family: int = AF_INET, type: int = SOCK_STREAM,
                 proto: int = 0, *,  # pylint: disable=redefined-builtin
                 kernel: Kernel | None = None, _descriptor: int | None = None):
        self._descriptor = -1
        self._timeout = _host.getdefaulttimeout()
        self._files, self._is_closing = 0, False
        self.kernel = kernel or default_kernel()
        self.family, self.type, self.proto = family, type & ~_FLAGS, proto
        if type & _host.SOCK_NONBLOCK:
            self._timeout = 0.0
        if _descriptor is None:
            _descriptor = _checked(self.kernel.syscall(_SOCKET, family, type | _FLAGS, proto))
        self._descriptor = _descriptor

    def __repr__(self) -> str:
        state = "closed" if self._descriptor < 0 else f"descriptor={self._descriptor}"
        return f"<outboard.net.socket {state}, family={self.family}, type={self.type}>"

    def __enter__(self) -> socket:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if not self._is_closing:
            self.close()

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self._close()

    @property
    def descriptor(self) -> int:
        """Its number in the kernel; -1: it is closed."""
        return self._descriptor

    def fileno(self) -> int:
        """Raises io.UnsupportedOperation: the host has no descriptor of this socket."""
        raise io.UnsupportedOperation("a socket of outboard.net has no descriptor of the host: "
                                      "`descriptor` is its number in the kernel")

    # ---- waiting

    def _call(self, number: int, *arguments: int) -> int:
        """A call that does not wait. Returns -errno for an error."""
        if self._descriptor < 0:
            return -errno.EBADF
        return self.kernel.syscall(number, self._descriptor, *arguments)

    def _deadline(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def _wait(self, events: int, deadline: float | None) -> None:
        """Waits until the socket is ready, or raises TimeoutError."""
        while True:
            left = _SLICE_SECONDS
            if deadline is not None:
                left = min(left, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError("timed out")
            if self._descriptor < 0:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            entry = _PollEntry(self._descriptor, events, 0)
            # Rounded up: a wait of no time would look again and again.
            ready = self.kernel.syscall(_POLL, ctypes.addressof(entry), 1, int(left * 1000) + 1)
            if ready > 0:
                return
            if ready < 0 and ready != -errno.EINTR:
                _checked(ready)

    def _waiting_call(self, events: int, call: Callable[[], int],
                      deadline: float | None = None) -> int:
        """A call that waits as the timeout says."""
        if deadline is None:
            deadline = self._deadline()
        while True:
            result = call()
            if result == -errno.EINTR:
                continue
            if result != -errno.EAGAIN or self._timeout == 0:
                return _checked(result)
            self._wait(events, deadline)

    def settimeout(self, value: float | None) -> None:
        """Seconds that a call waits; None: without an end; 0: not at all."""
        if value is not None:
            value = float(value)
            if not value >= 0:
                raise ValueError("Timeout value out of range")
        self._timeout = value

    def gettimeout(self) -> float | None:
        return self._timeout

    @property
    def timeout(self) -> float | None:
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._timeout != 0

    # ---- connections

    def _address_call(self, number: int, address: Address) -> int:
        memory = _Memory(pack(self.family, address))
        return self._call(number, memory.address, memory.size)

    def bind(self, address: Address) -> None:
        _checked(self._address_call(_BIND, address))

    def listen(self, backlog: int = SOMAXCONN) -> None:
        _checked(self._call(_LISTEN, max(backlog, 0)))

    def accept(self) -> tuple[socket, Address]:
        buffer = Buffer()
        descriptor = self._waiting_call(_POLLIN, lambda: self._call(
            _ACCEPT4, buffer.address, buffer.length_address, _FLAGS))
        new = socket(self.family, self.type, self.proto, kernel=self.kernel,
                     _descriptor=descriptor)
        return new, buffer.unpack()

    def connect(self, address: Address) -> None:
        deadline = self._deadline()
        result = self._address_call(_CONNECT, address)
        if result not in (-errno.EINPROGRESS, -errno.EINTR) or self._timeout == 0:
            _checked(result)
            return
        self._wait(_POLLOUT, deadline)
        _checked(-self.getsockopt(SOL_SOCKET, SO_ERROR))

    def connect_ex(self, address: Address) -> int:
        """As connect(), but returns the error's number: EAGAIN if the time is over."""
        try:
            self.connect(address)
        except TimeoutError as error:
            return error.errno or errno.EAGAIN
        except gaierror:
            raise
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def shutdown(self, how: int) -> None:
        _checked(self._call(_SHUTDOWN, how))

    def _name(self, number: int) -> Address:
        buffer = Buffer()
        _checked(self._call(number, buffer.address, buffer.length_address))
        return buffer.unpack()

    def getsockname(self) -> Address:
        return self._name(_GETSOCKNAME)

    def getpeername(self) -> Address:
        return self._name(_GETPEERNAME)

    # ---- data

    def _send(self, address: int, size: int, flags: int, to: bytes = b"",
              deadline: float | None = None) -> int:
        receiver = _Memory(to)
        return self._waiting_call(_POLLOUT, lambda: self._call(
            _SENDTO, address, size, flags | _host.MSG_NOSIGNAL, receiver.address if to else 0,
            receiver.size), deadline)

    def send(self, data: _Readable, flags: int = 0) -> int:
        memory = _Memory(data)
        return self._send(memory.address, memory.size, flags)

    def sendall(self, data: _Readable, flags: int = 0) -> None:
        memory, deadline, done = _Memory(data), self._deadline(), 0
        while True:
            done += self._send(memory.address + done, memory.size - done, flags,
                               deadline=deadline)
            if done == memory.size:
                return

    @overload
    def sendto(self, data: _Readable, address: Address, /) -> int: ...
    @overload
    def sendto(self, data: _Readable, flags: int, address: Address, /) -> int: ...

    def sendto(self, data: _Readable, *rest: Any) -> int:
        """sendto(data, address) or sendto(data, flags, address)"""
        flags, address = rest if len(rest) > 1 else (0, *rest)
        memory = _Memory(data)
        return self._send(memory.address, memory.size, flags, pack(self.family, address))

    def _receive(self, memory: _Memory, size: int, flags: int, sender: Buffer | None) -> int:
        places = (sender.address, sender.length_address) if sender else (0, 0)
        return self._waiting_call(_POLLIN, lambda: self._call(
            _RECVFROM, memory.address, size, flags, *places))

    def recvfrom_into(self, buffer: bytearray | memoryview, nbytes: int = 0,
                      flags: int = 0) -> tuple[int, Address]:
        memory, sender = _Memory(buffer, writable=True), Buffer()
        size = self._receive(memory, _room(memory, nbytes), flags, sender)
        return size, sender.unpack()

    def recv_into(self, buffer: bytearray | memoryview, nbytes: int = 0, flags: int = 0) -> int:
        memory = _Memory(buffer, writable=True)
        return self._receive(memory, _room(memory, nbytes), flags, None)

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Address]:
        room = _new_room(bufsize)
        size, sender = self.recvfrom_into(room, 0, flags)
        return bytes(memoryview(room)[:size]), sender

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        room = _new_room(bufsize)
        return bytes(memoryview(room)[:self.recv_into(room, 0, flags)])

    # ---- options

    @overload
    def getsockopt(self, level: int, optname: int) -> int: ...
    @overload
    def getsockopt(self, level: int, optname: int, buflen: int) -> bytes: ...

    def getsockopt(self, level: int, optname: int, buflen: int | None = None) -> int | bytes:
        value = ctypes.create_string_buffer(4 if buflen is None else buflen)
        length = ctypes.c_int(len(value))
        _checked(self._call(_GETSOCKOPT, level, optname, ctypes.addressof(value),
                            ctypes.addressof(length)))
        if buflen is not None:
            return value.raw[:length.value]
        return int.from_bytes(value.raw, "little", signed=True)

    def setsockopt(self, level: int, optname: int, value: int | _Readable) -> None:
        data = value.to_bytes(4, "little", signed=True) if isinstance(value, int) else value
        memory = _Memory(data)
        _checked(self._call(_SETSOCKOPT, level, optname, memory.address, memory.size))

    # ---- files, and the end

    def makefile(self, mode: str = "r", buffering: int | None = None, *,
                 encoding: str | None = None, errors: str | None = None,
                 newline: str | None = None) -> IO[Any]:
        """A file of the socket, as socket.makefile(). The socket stays open until it is closed."""
        if not set(mode) <= set("rwb"):
            raise ValueError(f"invalid mode {mode!r} (only r, w, b allowed)")
        reads, writes = "r" in mode or "w" not in mode, "w" in mode
        raw = SocketIO(self, reads, writes)
        size = io.DEFAULT_BUFFER_SIZE if buffering in (None, -1) else buffering
        if size == 0:
            if "b" not in mode:
                raise ValueError("unbuffered streams must be binary")
            return cast(IO[Any], raw)
        buffered = _buffered(raw, size or 0)
        if "b" in mode:
            return cast(IO[Any], buffered)
        return io.TextIOWrapper(buffered, encoding, errors, newline)

    def close(self) -> None:
        """Closes the socket, as soon as its files are closed."""
        self._is_closing = True
        if not self._files:
            self._close()

    def detach(self) -> int:
        """Closes the object only. Returns the kernel's descriptor, which stays open."""
        self._is_closing = True
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            # A kernel that has halted has closed it.
            self.kernel.syscall(_CLOSE, descriptor)

    def _file_opened(self) -> None:
        self._files += 1

    def _file_closed(self) -> None:
        self._files -= 1
        if self._is_closing and not self._files:
            self._close()


class SocketIO(io.RawIOBase):
    """The bytes of a stream socket as a raw file."""

    def __init__(self, stream: socket, reads: bool, writes: bool):
        super().__init__()
        self._stream, self._reads, self._writes = stream, reads, writes
        self._has_timed_out = False
        stream._file_opened()  # pylint: disable=protected-access

    def readable(self) -> bool:
        return self._reads and not self.closed

    def writable(self) -> bool:
        return self._writes and not self.closed

    def readinto(self, buffer: Any) -> int | None:
        """None: there is nothing now, and the socket does not wait."""
        self._checkClosed()
        if not self._reads:
            raise io.UnsupportedOperation("not readable")
        if self._has_timed_out:
            raise OSError("cannot read from timed out object")
        try:
            return self._stream.recv_into(buffer)
        except TimeoutError:
            # Bytes that a buffer has lost would be missing.
            self._has_timed_out = True
            raise
        except BlockingIOError:
            return None

    def write(self, data: Any) -> int | None:
        self._checkClosed()
        if not self._writes:
            raise io.UnsupportedOperation("not writable")
        try:
            return self._stream.send(data)
        except BlockingIOError:
            return None

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream._file_closed()  # pylint: disable=protected-access


def _buffered(raw: SocketIO, size: int) -> Any:
    if raw.readable() and raw.writable():
        return io.BufferedRWPair(raw, raw, size)
    return io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def _room(memory: _Memory, size: int) -> int:
    if size < 0:
        raise ValueError("negative buffersize")
    if size > memory.size:
        raise ValueError("nbytes is greater than the length of the buffer")
    return size or memory.size


def _new_room(size: int) -> bytearray:
    if size < 0:
        raise ValueError("negative buffersize")
    return bytearray(size)


_Unset = Literal["unset"]


def create_connection(address: tuple[str | None, int], timeout: float | None | _Unset = "unset",
                      source_address: tuple[str, int] | None = None, *,
                      kernel: Kernel | None = None) -> socket:
    """Connects to a TCP server, and returns the socket. As socket.create_connection()."""
    # pylint: disable=redefined-outer-name
    failure: OSError | None = None
    for family, kind, proto, _, numeric in getaddrinfo(*address, 0, SOCK_STREAM):
        new = socket(family, kind, proto, kernel=kernel)
        try:
            if timeout != "unset":
                new.settimeout(timeout)
            if source_address:
                new.bind(source_address)
            new.connect(numeric)
            return new
        except OSError as error:
            new.close()
            failure = failure or error
        except BaseException:
            new.close()
            raise
    assert failure
    raise failure


def create_server(address: Address, *, family: int = AF_INET, backlog: int = SOMAXCONN,
                  reuse_port: bool = False, kernel: Kernel | None = None) -> socket:
    """A TCP socket that listens at the address. As socket.create_server()."""
    new = socket(family, SOCK_STREAM, kernel=kernel)
    try:
        new.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        if reuse_port:
            new.setsockopt(SOL_SOCKET, SO_REUSEPORT, 1)
        if family == AF_INET6:
            new.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
        new.bind(address)
        new.listen(backlog)
        return new
    except BaseException:
        new.close()
        raise
