# SPDX-License-Identifier: GPL-2.0-only
"""Socket activation of `outboard run`: sockets that systemd passes (sd_listen_fds(3)), and runs
that end when nobody uses them.
"""

import contextlib
import os
import select
import socket
import subprocess
import urllib.request

import pytest

from support import images, program, programs

PROGRAMS = ("busybox", "mkdir", "sleep")
# The server is late: a client has to wait for it.
HTTPD = ("mkdir -p /srv; echo page > /srv/index.html; sleep 1; "
         "exec busybox httpd -f -p {} -h /srv")
START = 'exec 3<&"$0" {0}<&-; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("activation"))
    tree = os.path.join(directory, "root")
    programs.make_root(tree, *PROGRAMS)
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree)


def listening(family=socket.AF_INET, address="127.0.0.1"):
    server = socket.create_server((address, 0), family=family)
    return server, server.getsockname()[1]


def start(server, *words, **options):
    """The command with the socket as descriptor 3, as systemd starts it."""
    number = server.fileno()
    return subprocess.Popen(["bash", "-c", START.format(number), str(number),
                             *program.command("run", *words)],
                            pass_fds=[number], stderr=subprocess.PIPE, text=True, **options)


def get(url):
    with urllib.request.urlopen(url, timeout=120) as answer:
        return answer.read()


def serve(image, port, *options, listen="80"):
    return ("-p", f"{port}:80", *options, image, "--", "sh", "-c", HTTPD.format(listen))


def get_page(client):
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    client.settimeout(120)
    answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert answer.endswith(b"page\n"), answer


@pytest.mark.parametrize("family,address,listen", (
    (socket.AF_INET, "127.0.0.1", "80"), (socket.AF_INET6, "::1", "[::]:80")))
def test_a_client_comes_before_the_server(image, family, address, listen):
    """Its connection waits in the socket that is passed."""
    server, port = listening(family, address)
    with server, socket.create_connection((address, port), 60) as client:
        with start(server, *serve(image, port, listen=listen)) as running:
            get_page(client)
            running.terminate()
            assert running.wait(60) == 143
        # The socket belongs to systemd: the next client waits for the next start.
        socket.create_connection((address, port), 5).close()


def test_a_run_ends_and_begins_again(image):
    server, port = listening()
    with server:
        for _ in range(2):
            with contextlib.ExitStack() as stack:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
                assert select.select([server], [], [], 60)[0]
                words = serve(image, port, "--exit-idle-time", "2")
                running = stack.enter_context(start(server, *words))
                get_page(client)
                client.close()
                assert running.wait(120) == 0
                assert "nobody has used it for 2 s" in running.stderr.read()


def test_a_connection_is_use(image):
    """A client that sends nothing keeps the run: the server's answer comes late."""
    server, port = listening()
    with server, start(server, *serve(image, port, "--exit-idle-time", "1")) as running:
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            assert get(f"http://127.0.0.1:{port}/") == b"page\n"
            client.settimeout(4)
            with pytest.raises(TimeoutError):
                client.recv(1)
            assert running.poll() is None
        assert running.wait(120) == 0


def test_systemds_own_tool(image):
    server, port = listening()
    server.close()
    words = program.command("run", *serve(image, port, "--exit-idle-time", "1"))
    command = ["systemd-socket-activate", "-l", f"127.0.0.1:{port}", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert "Listening on" in running.stderr.readline()
        assert get(f"http://127.0.0.1:{port}/") == b"page\n"
        assert running.wait(120) == 0


def test_sockets_that_are_refused(image, tmp_path):
    for make, options, mentions in (
            (lambda: socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True),
             ("-p", "{port}:80"), "BindIPv6Only=ipv6-only"),
            (lambda: listening()[0], ("-p", "1:80"), "leads nowhere: add -p {port}:PORT"),
            (lambda: listening()[0], ("-d", "-p", "{port}:80"), "leave out -d"),
            (socket.socket, (), "no TCP socket that listens")):
        with make() as server:
            port = server.getsockname()[1]
            given = [word.format(port=port) for word in options]
            with start(server, *given, image, "--", "sh", "-c", "exit 0") as done:
                error = done.communicate(timeout=60)[1]
            assert done.returncode in (2, 125) and mentions.format(port=port) in error, error
            assert len(error.splitlines()) == 1, error
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        with start(server, image, "--", "sh", "-c", "exit 0") as done:
            error = done.communicate(timeout=60)[1]
        assert done.returncode == 125 and "ListenStream=" in error, error
