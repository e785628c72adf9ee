# SPDX-License-Identifier: GPL-2.0-only
"""Servers that misbehave: a proxy before a good server, which spoils its answers after a while."""

import contextlib
import socket
import threading

from support.servers import HOST

# What becomes of the bytes of answers. Each kind needs no knowledge of the protocol.
KINDS = ("silent", "drip", "short", "lie", "end")
# Seconds between two bytes.
PAUSE = 0.3


class BadProxy:
    """Passes `good_bytes` on, of requests and answers, over all connections. Then it

    * silent: passes no answer on,
    * drip: passes them on byte by byte, slowly,
    * short: leaves 1,000 bytes out,
    * lie: sends 0xff in the place of answers, so lengths are wrong,
    * end: ends each connection, in the middle of an answer.
    """

    def __init__(self, kind: str, port: int, good_bytes: int):
        assert kind in KINDS
        self.kind, self.server_port, self.good_bytes = kind, port, good_bytes
        self.lock = threading.Lock()
        self.is_over = threading.Event()
        self.sockets = []
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection((HOST, self.server_port))
                for source, target, spoil in ((client, server, self.count),
                                              (server, client, self.spoil)):
                    self.sockets.append(source)
                    threading.Thread(target=self.pass_on, args=(source, target, spoil),
                                     daemon=True).start()

    def pass_on(self, source: socket.socket, target: socket.socket, spoil):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.send(target, spoil(data))
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        # A client may connect again hundreds of times.
        source.close()

    def send(self, target: socket.socket, data: bytes):
        drips = self.kind == "drip" and self.good_bytes == 0
        for piece in ([data] if not drips else [data[i:i + 1] for i in range(len(data))]):
            target.sendall(piece)
            if drips and self.is_over.wait(PAUSE):
                return

    def begin(self):
        """From now on it passes nothing good on."""
        with self.lock:
            self.good_bytes = 0

    def count(self, data: bytes) -> bytes:
        with self.lock:
            self.good_bytes = max(0, self.good_bytes - len(data))
        return data

    def spoil(self, data: bytes) -> bytes:
        """What is sent for the next bytes of the server."""
        good = data[:self.good_bytes]
        self.count(good)
        bad = data[len(good):]
        if not bad or self.kind == "drip":
            return data
        if self.kind == "end":
            raise OSError
        replaced = {"silent": b"", "short": bad[1000:], "lie": b"\xff" * len(bad)}
        return good + replaced[self.kind]

    def close(self):
        self.is_over.set()
        # shutdown() ends an accept() that blocks; close() does not.
        for end in [self.listener, *self.sockets]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def before(port: int, kind: str, good_bytes: int):
    """A proxy before the server at this port."""
    proxy = BadProxy(kind, port, good_bytes)
    threading.Thread(target=proxy.run, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()
