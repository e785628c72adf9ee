# SPDX-License-Identifier: GPL-2.0-only
"""Network namespaces of the host, and sockets in them. Needs root."""

import contextlib
import ctypes
import functools
import itertools
import os
import re
import socket
import threading

from support import host

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = itertools.count()
# The process that made a namespace of the tests or benchmarks, by the name.
MAKER = re.compile(r"ob-(\d+)-")


class Namespace:
    """A network namespace by its name. Its loopback interface is up."""

    def __init__(self, name: str):
        self.name = name

    def command(self, *command) -> list:
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, *command, **options):
        return host.run(*self.command(*command), **options)

    def ip(self, *command) -> str:
        return host.run("ip", "-n", self.name, *command).stdout

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is in the namespace. Sockets that it makes stay there."""
        before = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
        inside = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            enter(inside)
            yield
        finally:
            enter(before)
            os.close(before)
            os.close(inside)

    def new_socket(self, family, kind, timeout=20.0) -> socket.socket:
        with self.entered():
            new = socket.socket(family, kind)
        new.settimeout(timeout)
        return new

    def server(self, address: str, port: int, kind=socket.SOCK_STREAM) -> socket.socket:
        """A socket that listens, or receives datagrams."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        new = self.new_socket(family, kind)
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            new.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        new.bind((address, port))
        if kind == socket.SOCK_STREAM:
            new.listen()
        return new

    def connect(self, address: str, port: int, kind=socket.SOCK_STREAM) -> socket.socket:
        new = self.new_socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        new.connect((address, port))
        return new


def enter(descriptor: int) -> None:
    if LIBC.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@functools.cache
def remove_leftovers() -> None:
    """Removes the namespaces of tests and benchmarks that were killed."""
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else ():
        found = re.match(r"(ob|outboard-near|outboard-far)-(\d+)", name)
        if found and not os.path.exists(f"/proc/{found[2]}"):
            # Another run may do the same.
            host.run("ip", "netns", "del", name, ok=None)


@contextlib.contextmanager
def new(purpose: str):
    remove_leftovers()
    name = f"ob-{os.getpid()}-{next(NUMBERS)}-{purpose}"
    host.run("ip", "netns", "add", name)
    try:
        namespace = Namespace(name)
        namespace.ip("link", "set", "lo", "up")
        yield namespace
    finally:
        host.run("ip", "netns", "del", name)


@contextlib.contextmanager
def outside():
    """A host of its own, with addresses and default routes that lead nowhere."""
    with new("outside") as namespace:
        namespace.ip("link", "add", "up0", "type", "veth", "peer", "up1")
        namespace.ip("address", "add", "192.0.2.1/24", "dev", "up0")
        namespace.ip("address", "add", "2001:db8::1/64", "dev", "up0", "nodad")
        namespace.ip("link", "set", "up0", "up")
        namespace.ip("link", "set", "up1", "up")
        namespace.ip("route", "add", "default", "via", "192.0.2.254")
        namespace.ip("-6", "route", "add", "default", "via", "2001:db8::fe")
        yield namespace
