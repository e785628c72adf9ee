# SPDX-License-Identifier: GPL-2.0-only
"""The package outboard: python_sockets.py CASE

Cases that compare do the same with Python's own sockets: results and errors must be equal.
"""

import contextlib
import errno
import gc
import hashlib
import http.client
import io
import os
import random
import signal
import socket as host
import struct
import sys
import tempfile
import threading
import time
import warnings

import outboard
from outboard import net

LOCAL = "127.0.0.1"


@contextlib.contextmanager
def in_thread(function, *arguments):
    """Runs the function beside the block, and hands on its exception."""
    failures = []

    def run():
        try:
            function(*arguments)
        except BaseException as error:  # pylint: disable=broad-exception-caught
            failures.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(300)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def kernel(**options):
    with outboard.Kernel(memory=256 << 20, **options) as new:
        new.net_configure("lo", "up")
        yield new


def failure(function, *arguments):
    """The error of a call that must fail, in a form to compare."""
    try:
        result = function(*arguments)
    except Exception as error:  # pylint: disable=broad-exception-caught
        return type(error), getattr(error, "errno", None)
    raise AssertionError(f"no error: {result!r}")


def reason(number, function, *arguments, **options):
    """The text of the KernelError of a call that must fail with this errno."""
    try:
        result = function(*arguments, **options)
    except outboard.KernelError as error:
        assert error.errno == number, error
        return error.strerror
    raise AssertionError(f"no error: {result!r}")


def compare(scenario):
    """The scenario's result must be the same with both modules."""
    with kernel():
        ours = scenario(net)
    theirs = scenario(host)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other, (mine, other)


# ---- streams ----------------------------------------------------------------


def echo(listener):
    connection, peer = listener.accept()
    with connection:
        assert peer == connection.getpeername()
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def test_streams():
    with kernel(), net.create_server((LOCAL, 0)) as listener, in_thread(echo, listener):
        data = random.Random(1).randbytes(16 << 20)
        got, room = hashlib.sha256(), bytearray(1 << 18)
        with net.create_connection(listener.getsockname(), 300) as connection:
            assert connection.gettimeout() == 300
            with in_thread(lambda: (connection.sendall(data),
                                    connection.shutdown(net.SHUT_WR))):
                while size := connection.recv_into(room):
                    got.update(memoryview(room)[:size])
        assert got.digest() == hashlib.sha256(data).digest()


def test_files():
    """makefile(): lines of text, bytes; the socket outlives close()."""
    def serve(listener):
        connection, _ = listener.accept()
        # Two files: a text file for both drops what it has read when it writes, as Python's own.
        with connection.makefile("r", newline="\n") as lines, connection.makefile("w") as answers:
            connection.close()
            for line in lines:
                answers.write(line.upper())
                answers.flush()
    with kernel(), net.create_server((LOCAL, 0)) as listener, in_thread(serve, listener):
        connection = net.create_connection(listener.getsockname())
        reader, writer = connection.makefile("rb"), connection.makefile("wb", 0)
        connection.close()
        assert connection.descriptor >= 0
        writer.write(b"one\ntwo\nthree")
        assert reader.readline() == b"ONE\n" and reader.readline() == b"TWO\n"
        connection.shutdown(net.SHUT_WR)
        assert reader.read() == b"THREE"
        reader.close()
        writer.close()
        assert connection.descriptor == -1


def stream_scenario(module):
    with module.create_server((LOCAL, 0)) as listener:
        # Both sides, one after the other: what is sent is there to receive.
        near = module.create_connection(listener.getsockname())
        far, peer = listener.accept()
        with near, far:
            yield peer == near.getsockname()
            yield listener.family, listener.type, listener.proto
            yield near.getsockopt(module.SOL_SOCKET, module.SO_ERROR)
            near.setsockopt(module.IPPROTO_TCP, module.TCP_NODELAY, 1)
            yield near.getsockopt(module.IPPROTO_TCP, module.TCP_NODELAY)
            near.setsockopt(module.SOL_SOCKET, module.SO_LINGER, struct.pack("ii", 1, 7))
            yield near.getsockopt(module.SOL_SOCKET, module.SO_LINGER, 8)
            yield near.send(b"abc"), far.recv(2), far.recv(9, module.MSG_PEEK), far.recv(9)
            yield near.send(memoryview(b"0123456789")[2:5]), far.recv(9)
            yield near.send(bytearray(b"xyz")), far.recvfrom(9)[0]
            yield near.sendall(b""), near.send(b"")
            room = bytearray(10)
            yield near.send(b"four"), far.recv_into(memoryview(room)[3:], 2), room
            yield far.recv(0), far.recv(9)
            yield failure(far.recv, -1), failure(far.recv_into, b"read only")
            yield failure(far.recv_into, bytearray(2), 3)
            near.shutdown(module.SHUT_WR)
            yield far.recv(9), far.recv(9)
            yield failure(near.send, b"after the end")


def test_stream_results():
    compare(lambda module: list(stream_scenario(module)))


# ---- datagrams --------------------------------------------------------------


def datagram_scenario(module, family, address):
    with module.socket(family, module.SOCK_DGRAM) as first, \
            module.socket(family, module.SOCK_DGRAM) as second:
        for each in (first, second):
            each.bind((address, 0))
            each.settimeout(60)
        yield first.sendto(b"to the second", second.getsockname())
        data, sender = second.recvfrom(100)
        yield data, sender == first.getsockname(), len(sender)
        yield second.sendto(b"cut", 0, sender), first.recv(2)
        first.settimeout(0.05)
        yield failure(first.recv, 2)
        first.settimeout(60)
        room = bytearray(8)
        yield second.sendto(bytearray(b"12345"), sender), first.recvfrom_into(room)[0], room
        second.connect(sender)
        yield second.getpeername() == sender, second.send(b""), first.recv(10)
        first.setblocking(False)
        yield failure(first.recv, 9), first.gettimeout(), first.getblocking()
        yield failure(first.sendto, bytes(70000), second.getsockname())


def test_datagrams():
    def scenario(module):
        return [*datagram_scenario(module, module.AF_INET, LOCAL),
                *datagram_scenario(module, module.AF_INET6, "::1")]
    compare(scenario)


# ---- errors -----------------------------------------------------------------


def free_port(module):
    with module.socket() as unused:
        unused.bind((LOCAL, 0))
        return unused.getsockname()[1]


def error_scenario(module):
    port = free_port(module)
    yield failure(module.create_connection, (LOCAL, port))
    yield failure(module.create_connection, (LOCAL, port), None, ("192.0.2.77", 0))
    with module.socket() as one, module.socket() as other:
        yield one.connect_ex((LOCAL, port)), failure(one.getpeername), failure(one.listen, 1, 2)
        other.bind((LOCAL, 0))
        yield failure(one.bind, other.getsockname()), failure(one.bind, ("192.0.2.77", 0))
        yield failure(one.bind, (LOCAL, 65536)), failure(one.bind, (LOCAL, -1))
        yield failure(one.bind, (LOCAL, "80")), failure(one.accept), failure(one.shutdown, 2)
        yield failure(one.settimeout, -1), failure(one.setsockopt, 1, 9999, 1)
        yield failure(one.getsockopt, 1, 9999), failure(one.makefile, "x")
        other.listen(1)
        other.settimeout(0.05)
        yield failure(other.accept), other.timeout
        other.settimeout(0)
        yield failure(other.accept)
        with module.create_connection(other.getsockname(), 0.05) as connected:
            yield failure(connected.recv, 1)
            with connected.makefile("rb") as lines:
                yield failure(lines.read, 1), failure(lines.read, 1)
            connected.setblocking(False)
            yield failure(connected.recv, 1)
            with connected.makefile("rb", 0) as raw:
                yield raw.read(1)
                yield failure(raw.write, b"")
    yield failure(one.recv, 1), failure(one.bind, (LOCAL, 0))
    one.close()
    with module.socket() as later:
        later.setblocking(False)
        yield failure(later.connect, (LOCAL, 9)), later.getblocking()
    yield failure(module.socket, 99), failure(module.socket, module.AF_INET, 77)


def test_errors():
    compare(lambda module: list(error_scenario(module)))


def info_scenario(module):
    for host_name in (LOCAL, "::1", "localhost", None, "fe80::1"):
        for kind in (0, module.SOCK_STREAM):
            found = module.getaddrinfo(host_name, 80, 0, kind, 0,
                                       module.AI_NUMERICHOST if host_name != "localhost" else 0)
            yield sorted(info[:3] + info[4:] for info in found)
    yield failure(module.getaddrinfo, "1.2.3.4.5", 80, 0, 0, 0, module.AI_NUMERICHOST)[0]
    yield failure(module.getaddrinfo, LOCAL, 80, module.AF_INET6, 0, 0, module.AI_NUMERICHOST)[0]
    yield [info[4] for info in module.getaddrinfo(None, "8080", module.AF_INET, 0, 0,
                                                  module.AI_PASSIVE)]


def test_infos():
    with kernel():
        mine = list(info_scenario(net))
    # What the host answers depends on its interfaces, but for addresses.
    theirs = list(info_scenario(host))
    for ours, other in zip(mine, theirs, strict=True):
        if ours != other:
            assert {info[:3] for info in ours} >= {info[:3] for info in other}, (ours, other)


def test_own_errors():
    """What Python's sockets do not have."""
    assert failure(net.socket) == (outboard.KernelError, errno.ENODEV)
    assert "memory" in reason(errno.EINVAL, outboard.Kernel, memory=4096)
    with kernel() as ours:
        assert failure(ours.net_add, "eth") == (outboard.KernelError, errno.EINVAL)
        text = reason(errno.EINVAL, ours.net_add, "user,ip=10.0.0.2")
        assert text.startswith("ip=10.0.0.2: write the length"), text
        with net.socket() as one:
            for file in (one, one.makefile("rb")):
                try:
                    file.fileno()
                    raise AssertionError("no error")
                except io.UnsupportedOperation as error:
                    assert "no descriptor of the host" in str(error)
                if file is not one:
                    file.close()
            assert failure(one.connect, ("example.org", 80))[0] is net.gaierror
        waiting = net.create_server((LOCAL, 0))

        def wait():
            assert failure(waiting.accept) == (OSError, errno.ENODEV)
        with in_thread(wait):
            time.sleep(0.3)
            ours.halt()
        assert failure(net.socket) == (outboard.KernelError, errno.ENODEV)
        waiting.close()


class Woken(Exception):
    """By a signal's handler."""


def test_signals():
    """The handler of a signal runs while the main thread waits, and may end the wait."""
    calls = []

    def handle(*_):
        calls.append(1)
        if len(calls) == 2:
            raise Woken

    with kernel(), net.create_server((LOCAL, 0)) as listener:
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        assert failure(listener.accept) == (Woken, None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        # The socket goes on.
        listener.settimeout(0.01)
        assert failure(listener.accept) == (TimeoutError, None)


# ---- kernels ----------------------------------------------------------------


def serve_page(listener, page):
    """A small HTTP server, for one connection."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        assert stream.readline() == b"GET /page HTTP/1.1\r\n"
        while stream.readline() != b"\r\n":
            pass
        stream.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)


class Connection(http.client.HTTPConnection):
    """From one kernel."""

    kernel = None

    def connect(self):
        self.sock = net.create_connection((self.host, self.port), self.timeout, kernel=self.kernel)


def test_kernels():
    """http.client in one kernel, a server in another one, on a hub."""
    page = random.Random(2).randbytes(3 << 20)
    with tempfile.TemporaryDirectory() as directory, outboard.Kernel() as first, \
            outboard.Kernel(memory=128 << 20, vcpus=1) as second:
        assert outboard.default_kernel() is first
        hub = os.path.join(directory, "hub")
        interface = first.net_add(f"hub:{hub},ip=10.1.0.1/24")
        assert interface.name == "eth0"
        second.net_add(f"hub:{hub},ip=10.1.0.2/24,name=lan0")
        Connection.kernel = second
        with net.create_server(("10.1.0.1", 80)) as listener, \
                in_thread(serve_page, listener, page):
            connection = Connection("10.1.0.1", timeout=300)
            connection.request("GET", "/page")
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read() == page
            connection.close()
        interface.configure("down")
        interface.remove()
        assert failure(interface.remove) == (outboard.KernelError, errno.ENOENT)
        first.halt()
        assert outboard.default_kernel() is second
        assert first.syscall(39) == -errno.ENODEV and second.syscall(39) > 0


def test_most():
    """The 17th kernel is refused, until one of the 16 has halted."""
    small = {"memory": 32 << 20, "vcpus": 1}
    with contextlib.ExitStack() as stack:
        kernels = [stack.enter_context(outboard.Kernel(**small)) for _ in range(16)]
        text = reason(errno.EAGAIN, outboard.Kernel, **small)
        assert text == "this process has 16 kernels already, which is the most: halt one", text
        kernels[7].halt()
        stack.enter_context(outboard.Kernel(**small))


def test_forgotten():
    """A kernel that nobody can halt any more is halted, and takes no room from others."""
    for _ in range(17):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outboard.Kernel(memory=32 << 20, vcpus=1)
            gc.collect()
        assert [warning.category for warning in caught] == [ResourceWarning], caught
    assert failure(outboard.default_kernel) == (outboard.KernelError, errno.ENODEV)
    with net.socket(kernel=outboard.Kernel(memory=32 << 20, vcpus=1)) as held:
        gc.collect()
        assert held.getsockname() == ("0.0.0.0", 0)
    held.kernel.halt()


def test_options():
    """Mistakes in values are named."""
    for components in ("nonsense", ["nonsense"]):
        try:
            outboard.Kernel(components=components)
            assert False
        except outboard.KernelError as error:
            assert "nonsense" in str(error), error
    for name in ("vcpus", "memory", "spare_interfaces"):
        try:
            outboard.Kernel(**{name: -1})
            assert False
        except ValueError as error:
            assert name in str(error) and "-1" in str(error), error


def test_shared_memory():
    """A back-end of vhost-user is looked for only if it can map the kernel's memory."""
    back_end = "vhost-user:/nowhere/socket"
    with kernel() as ours:
        assert "OB_SHARED_MEMORY" in reason(errno.EINVAL, ours.net_add, back_end)
    with kernel(shared_memory=True) as ours:
        assert "cannot connect" in reason(errno.ENOENT, ours.net_add, back_end)


def test_spare():
    """A kernel from a snapshot has interfaces in advance, and another one has not."""
    with tempfile.TemporaryDirectory() as directory:
        hub = f"hub:{directory}/hub,name=eth0"
        for _ in range(2):
            with kernel(snapshots=directory, spare_interfaces=1) as one:
                assert failure(one.net_add, hub) == (outboard.KernelError, errno.EEXIST)
        with kernel() as one:
            one.net_add(hub)


def test_fork():
    """A child of fork() has no kernel, until it boots one."""
    with kernel() as ours, net.create_server((LOCAL, 0)) as listener:
        child = os.fork()
        if not child:
            try:
                assert failure(net.socket) == (outboard.KernelError, errno.ENODEV)
                assert failure(listener.accept) == (OSError, errno.ENODEV)
                assert failure(ours.halt) == (outboard.KernelError, errno.ENODEV)
                test_streams()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with in_thread(echo, listener), net.create_connection(listener.getsockname()) as one:
            one.sendall(b"still here")
            assert one.recv(100) == b"still here"
            one.shutdown(net.SHUT_WR)


def test_threads():
    """Many connections at once."""
    def ask(address, number):
        with net.create_connection(address, 300) as connection:
            connection.sendall(b"%d\n" % number)
            with connection.makefile("rb") as answer:
                assert answer.read() == b"%d\n" % number

    def serve(listener):
        for _ in range(200):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(connection.recv(100))

    with kernel(), net.create_server((LOCAL, 0)) as listener, in_thread(serve, listener):
        with contextlib.ExitStack() as threads:
            for number in range(200):
                threads.enter_context(in_thread(ask, listener.getsockname(), number))


CASES = {name.removeprefix("test_"): function
         for name, function in list(globals().items()) if name.startswith("test_")}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
