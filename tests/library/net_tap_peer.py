# SPDX-License-Identifier: GPL-2.0-only
"""The host's end of a tap interface, in a network namespace of its own: net_tap_peer.py PROGRAM

Makes tap0 with 10.9.0.1/24, and has PROGRAM (net_test) send and receive through it: to an echo
server of the host, and as an echo server for the host. One queue, two queues, and an MTU of 9000.
"""

import hashlib
import os
import random
import socket
import subprocess
import sys
import threading

HOST, GUEST, PORT = "10.9.0.1", "10.9.0.2", 7007
BYTES = 32 << 20


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def make_tap(queues: int, mtu: int) -> None:
    ip("tuntap", "add", "dev", "tap0", "mode", "tap", *(["multi_queue"] if queues > 1 else []))
    ip("link", "set", "tap0", "mtu", str(mtu), "up")
    ip("addr", "add", f"{HOST}/24", "dev", "tap0")


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def serve_echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        echo(connection)


def guest_connects(program: str, spec: str) -> None:
    with socket.create_server((HOST, PORT)) as server:
        thread = threading.Thread(target=serve_echo, args=(server,))
        thread.start()
        subprocess.run([program, "host", spec, HOST, str(PORT), str(BYTES)], check=True,
                       timeout=300)
        thread.join()


def send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def host_connects(program: str, spec: str) -> None:
    with subprocess.Popen([program, "listen", spec, str(PORT)], stdout=subprocess.PIPE) as guest:
        assert guest.stdout and guest.stdout.readline() == b"ready\n"
        data = random.Random(1).randbytes(BYTES)
        got = hashlib.sha256()
        with socket.create_connection((GUEST, PORT), timeout=300) as connection:
            sender = threading.Thread(target=send, args=(connection, data))
            sender.start()
            while part := connection.recv(1 << 20):
                got.update(part)
            sender.join()
        assert got.digest() == hashlib.sha256(data).digest()
        assert guest.wait(timeout=60) == 0


def main() -> None:
    program = sys.argv[1]
    # The host counts frames whose checksum is wrong.
    for queues, mtu in ((1, 1500), (2, 1500), (1, 9000)):
        make_tap(queues, mtu)
        spec = f"tap:tap0,ip={GUEST}/24,queues={queues},mtu={mtu}"
        guest_connects(program, spec)
        host_connects(program, spec)
        ip("link", "del", "tap0")


if __name__ == "__main__":
    if os.environ.get("OUTBOARD_NET_NAMESPACE") != "yes":
        os.environ["OUTBOARD_NET_NAMESPACE"] = "yes"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    ip("link", "set", "lo", "up")
    main()
