# SPDX-License-Identifier: GPL-2.0-only
"""Servers in Go and Rust by `outboard run -p`: threads, goroutines and a collector of garbage at
work for many clients at once.
"""

import concurrent.futures
import functools
import hashlib
import http.client
import os

import pytest

from support import debian_root, host, images, programs

pytestmark = pytest.mark.long

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "servers")
CLIENTS = 20
REQUESTS = 200
# Kilobytes of a request.
MOST = 24


def data(count: int) -> bytes:
    return bytes((i + j) % 256 for i in range(count) for j in range(1024))


@functools.cache
def go_sum(count: int) -> str:
    return hashlib.sha256(data(count)).hexdigest()


@functools.cache
def rust_sum(count: int) -> str:
    found = 0xcbf29ce484222325
    for byte in data(count):
        found = (found ^ byte) * 0x100000001b3 % 2 ** 64
    return f"{found:016x}"


def make_image(directory: str, server: str) -> str:
    tree = os.path.join(directory, "tree")
    for path in programs.files_of(server):
        programs.copy_in(tree, path)
    os.rename(os.path.join(tree, server.lstrip("/")), os.path.join(tree, "server"))
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree)


def get(connection, path: str) -> tuple[int, str]:
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def once(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        return get(connection, path)
    finally:
        connection.close()


def ask(port: int, expected, number: int) -> None:
    """A client with two connections that stay, one after the other."""
    for half in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        for i in range(REQUESTS // 2):
            count = (number * 7 + half + i) % MOST
            assert get(connection, f"/sum?n={count}") == (200, expected(count)), count
        connection.close()


def serve(server, expected) -> None:
    server.wait_for(lambda port: once(port, "/sum?n=1") == (200, expected(1)))
    assert once(server.port, "/none")[0] == 404
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(functools.partial(ask, server.port, expected), range(CLIENTS)))


@pytest.mark.needs("go")
def test_go(work):
    """SIGTERM, which the server's runtime hands to a goroutine, ends it with all answers given."""
    built = os.path.join(work, "built")
    host.run("go", "build", "-o", built, os.path.join(HERE, "go_server.go"), cwd=work)
    image = make_image(work, built)
    with debian_root.serving(image, 80, f"{work}/log", "/server") as server:
        serve(server, go_sum)
        assert server.end() == 0, server.printed()
    collections, = [line for line in server.printed().splitlines() if "collections" in line]
    assert int(collections.split()[1]) > 10


@pytest.mark.needs("rustc")
def test_rust(work):
    built = os.path.join(work, "built")
    host.run("rustc", "--edition", "2021", "-O", "-D", "warnings", "-o", built,
             os.path.join(HERE, "rust_server.rs"), cwd=work)
    image = make_image(work, built)
    with debian_root.serving(image, 80, f"{work}/log", "/server") as server:
        serve(server, rust_sum)
        once(server.port, "/end")
        # The server looks whether it is to end after it has accepted a connection.
        once_more = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        once_more.connect()
        once_more.close()
        assert server.process.wait(60) == 0, server.printed()
    requests, = [line for line in server.printed().splitlines() if "requests" in line]
    assert int(requests.split()[1]) >= CLIENTS * REQUESTS
