# SPDX-License-Identifier: GPL-2.0-only
"""Addresses of sockets, as Python's `socket` has them and as Linux has them, and getaddrinfo()."""

from __future__ import annotations

import ctypes
import socket
import struct
from typing import Any

# What Python programs give: (host, port), (host, port, flow, scope), a path, bytes of others.
Address = Any
Info = tuple[int, int, int, str, Address]

# Room for every address: struct sockaddr_storage.
STORAGE_BYTES = 128

KINDS = ((socket.SOCK_STREAM, socket.IPPROTO_TCP), (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
         (socket.SOCK_RAW, 0))


def _number(host: str, family: int) -> bytes | None:
    try:
        return socket.inet_pton(family, host)
    except OSError:
        return None


def _resolved(host: str | bytes | None, family: int) -> str:
    """The text of a host's address. "": all addresses."""
    text = host.decode("ascii") if isinstance(host, bytes) else host
    if not text:
        return "::" if family == socket.AF_INET6 else "0.0.0.0"
    if text == "<broadcast>" and family == socket.AF_INET:
        return "255.255.255.255"
    if text == "localhost":
        return "::1" if family == socket.AF_INET6 else "127.0.0.1"
    return text


def _pack_ipv4(address: Address) -> bytes:
    host, port = address
    bytes_ = _number(_resolved(host, socket.AF_INET), socket.AF_INET)
    if bytes_ is None:
        raise _unresolved(host)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", _port(port), bytes_)


def _pack_ipv6(address: Address) -> bytes:
    host, port, flow, scope = (*address, 0, 0)[:4]
    bytes_ = _number(_resolved(host, socket.AF_INET6), socket.AF_INET6)
    if bytes_ is None:
        raise _unresolved(host)
    return (struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16s", _port(port), flow, bytes_)
            + struct.pack("=I", scope))


def _port(port: object) -> int:
    if not isinstance(port, int):
        raise TypeError(f"a port is an integer, not {type(port).__name__}")
    if not 0 <= port <= 65535:
        raise OverflowError("port must be 0-65535.")
    return port


def _unresolved(host: object) -> socket.gaierror:
    return socket.gaierror(socket.EAI_NONAME,
                           f"{host!r} is no address: outboard.net does not resolve names")


def pack(family: int, address: Address) -> bytes:
    """A struct sockaddr. `address` may be one already: then the socket's family does not matter."""
    if isinstance(address, (bytes, bytearray, memoryview)) and family != socket.AF_UNIX:
        return bytes(address)
    if family == socket.AF_INET:
        return _pack_ipv4(address)
    if family == socket.AF_INET6:
        return _pack_ipv6(address)
    if family == socket.AF_UNIX:
        path = address.encode() if isinstance(address, str) else bytes(address)
        return struct.pack("=H", family) + path + b"\0"
    raise OSError(f"addresses of the family {family} are bytes: a struct sockaddr")


def unpack(bytes_: bytes) -> Address:
    """What Python programs get. b"": no address, as after recvfrom() of a stream."""
    if len(bytes_) < 2:
        return None
    family, = struct.unpack_from("=H", bytes_)
    if family == socket.AF_INET and len(bytes_) >= 8:
        port, host = struct.unpack_from("!H4s", bytes_, 2)
        return socket.inet_ntop(family, host), port
    if family == socket.AF_INET6 and len(bytes_) >= 28:
        port, flow, host = struct.unpack_from("!HI16s", bytes_, 2)
        scope, = struct.unpack_from("=I", bytes_, 24)
        return socket.inet_ntop(family, host), port, flow, scope
    if family == socket.AF_UNIX:
        path = bytes_[2:]
        return path if path[:1] == b"\0" else path.rstrip(b"\0").decode()
    return bytes_


class Buffer:
    """A struct sockaddr that the kernel fills in, and its length."""

    def __init__(self) -> None:
        self._storage = ctypes.create_string_buffer(STORAGE_BYTES)
        self._length = ctypes.c_int(STORAGE_BYTES)
        self.address = ctypes.addressof(self._storage)
        self.length_address = ctypes.addressof(self._length)

    def unpack(self) -> Address:
        return unpack(self._storage.raw[:min(self._length.value, STORAGE_BYTES)])


def _port_number(service: str | bytes | int | None) -> int:
    if service is None:
        return 0
    text = service.decode("ascii") if isinstance(service, bytes) else str(service)
    if text.isascii() and text.isdigit():
        return _port(int(text))
    raise socket.gaierror(socket.EAI_SERVICE,
                          f"{service!r} is no port: outboard.net does not know names of services")


def _hosts(host: str | bytes | None, family: int, flags: int) -> list[tuple[int, str]]:
    """Families and addresses."""
    text = host.decode("ascii") if isinstance(host, bytes) else host
    found: list[tuple[int, str]] = []
    for each in (socket.AF_INET6, socket.AF_INET):
        if family not in (each, socket.AF_UNSPEC):
            continue
        numeric = text
        if not text:
            numeric = _resolved("" if flags & socket.AI_PASSIVE else "localhost", each)
        elif not flags & socket.AI_NUMERICHOST:
            numeric = _resolved(text, each)
        if numeric and _number(numeric, each) is not None:
            found.append((each, numeric))
    return found


def getaddrinfo(host: str | bytes | None, port: str | bytes | int | None, family: int = 0,
                type: int = 0, proto: int = 0,  # pylint: disable=redefined-builtin
                flags: int = 0) -> list[Info]:
    """As socket.getaddrinfo(), for addresses and "localhost": other names raise gaierror."""
    number = _port_number(port)
    hosts = _hosts(host, family, flags)
    if not hosts:
        raise _unresolved(host)
    return [(each, kind, default, "",
             (text, number) if each == socket.AF_INET else (text, number, 0, 0))
            for each, text in hosts for kind, default in KINDS
            if type in (0, kind) and proto in (0, default)]
