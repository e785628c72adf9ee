# SPDX-License-Identifier: GPL-2.0-only
"""outboard/sockets.h: programs of sockets become clients of a kernel in their own process by one
option of the compiler. Their files are the host's.
"""

import os
import resource
import socket
import subprocess
import sys

import pytest

from library.test_capi import FLAGS, HERE, LIBRARIES, pkg_config, run
from support import debian
from support import lighttpd as lighttpd_build
from support import net_namespaces
from support.patience import wait_until

INCLUDE = ("-include", "outboard/sockets.h")
CASES = ["descriptors", "calls", "datagrams", "poll", "select", "epoll", "sendfile", "signals",
         "closed-peer", "threads", "limit", "orphans"]
# Cases that do not fit to sockets of the host behind the kernel's: each takes two descriptors, and
# an event may come after poll() has seen its reason, so that EPOLLET reports it once more.
ALONE = ["epoll", "limit", "orphans"]
TEXT = "contents of the file"


@pytest.fixture(name="path", scope="module")
def fixture_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("sockets") / "file"
    path.write_text(TEXT, encoding="ascii")
    return str(path)


def build(path, *words):
    source = os.path.join(HERE, "sockets_test.c")
    run("gcc", *FLAGS, *words, "-o", path, source, *pkg_config("--cflags", "--libs"))
    return path


@pytest.fixture(name="programs", scope="module")
def fixture_programs(tmp_path_factory):
    """The same program, as it is and as a local client."""
    directory = str(tmp_path_factory.mktemp("programs"))
    return {"host": build(f"{directory}/plain"), "kernel": build(f"{directory}/local", *INCLUDE)}


@pytest.mark.parametrize("sockets", ["host", "kernel"])
@pytest.mark.parametrize("case", CASES)
def test_as_on_the_host(programs, path, case, sockets):
    run(programs[sockets], case, path, timeout=120, LD_LIBRARY_PATH=LIBRARIES)


@pytest.mark.parametrize("case", [case for case in CASES if case not in ALONE])
def test_as_on_the_host_by_its_sockets(programs, path, case):
    """The kernel's sockets are the host's."""
    run(programs["kernel"], case, path, timeout=120, LD_LIBRARY_PATH=LIBRARIES,
        OUTBOARD_NET="host")


@pytest.mark.parametrize("sockets", ["host", "kernel"])
def test_ports_of_the_kernel_are_not_the_hosts(programs, path, sockets):
    environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES}
    with subprocess.Popen([programs[sockets], "port", path], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=environment) as process:
        port = int(process.stdout.readline())
        with socket.socket() as client:
            refused = client.connect_ex(("127.0.0.1", port)) != 0
        process.communicate(b"\n", timeout=60)
    assert process.returncode == 0
    assert refused == (sockets == "kernel")


def test_the_end_waits_for_data(programs, work):
    """The peer gets what the program has written before it ended, but for the receive buffer."""
    path = os.path.join(work, "count")
    with open(path, "w", encoding="ascii"):
        pass
    run(programs["kernel"], "drain", path, timeout=60, LD_LIBRARY_PATH=LIBRARIES)
    with open(path, encoding="ascii") as stream:
        assert int(stream.read()) > (1 << 20) - 200000


@pytest.mark.parametrize("standard", ["c99", "gnu17"])
def test_macros_of_the_program(work, standard):
    """A program may ask for any extensions of the C library, and use the names of functions."""
    source = os.path.join(work, "program.c")
    with open(source, "w", encoding="ascii") as stream:
        stream.write("#define _GNU_SOURCE\n#define _POSIX_C_SOURCE 200112L\n"
                     "#define _XOPEN_SOURCE 600\n#define _DEFAULT_SOURCE 1\n"
                     "#include <sys/socket.h>\n#include <signal.h>\n#include <unistd.h>\n"
                     "struct stream { int (*close)(int fd); int listen; };\n"
                     "int f(struct stream *stream, int socket);\n"
                     "int f(struct stream *stream, int socket)\n{\n"
                     "\tstruct sigaction action = { .sa_flags = 0 };\n"
                     "\tstream->close = close;\n"
                     "\treturn stream->close(socket) + stream->listen + action.sa_flags;\n}\n")
    words = ("-Wall", "-Wextra", "-Werror", "-pedantic", *INCLUDE, *pkg_config("--cflags"))
    run("gcc", f"-std={standard}", *words, "-c", "-o", f"{work}/program.o", source)
    assert "ob_local_close" in run("nm", "-u", f"{work}/program.o")


def test_other_headers_before(work):
    """Headers that came first have not declared everything: one error says what to do."""
    source = os.path.join(work, "program.c")
    with open(source, "w", encoding="ascii") as stream:
        stream.write("#include <stdio.h>\n#include <outboard/sockets.h>\n")
    words = ("gcc", "-fsyntax-only", source, *pkg_config("--cflags"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode and "before all other headers" in done.stderr
    run(*words, "-D_GNU_SOURCE")


def test_wrong_description_of_the_network(programs, path):
    done = subprocess.run([programs["kernel"], "calls", path], capture_output=True, text=True,
                          check=False, timeout=60, env={**os.environ, "OUTBOARD_NET": "user:x",
                                                        "LD_LIBRARY_PATH": LIBRARIES})
    assert done.returncode == 1
    assert done.stderr.startswith("outboard: user:x: write user, user:passt or user:slirp")


def local_client(directory):
    """The object of a client that runs in the server's process."""
    target = os.path.join(directory, "local_client.o")
    run("gcc", *FLAGS, "-c", *pkg_config("--cflags"), "-o", target,
        os.path.join(HERE, "local_client.c"))
    return target


def request(program, *words, port, text, answer, stdin=None, **variables):
    """Runs a server until its client has the answer. The client ends the server by SIGTERM."""
    environment = {**os.environ, **variables, "LD_LIBRARY_PATH": LIBRARIES,
                   "LOCAL_PORT": str(port), "LOCAL_REQUEST": text, "LOCAL_ANSWER": answer}
    done = subprocess.run([program, *words], env=environment, capture_output=True, timeout=120,
                          check=False, stdin=stdin)
    with open(answer, "rb") as stream:
        return done, stream.read()


@pytest.mark.needs("apt-get", "dpkg-source", "make", "gcc")
def test_netcat(work):
    """Debian's netcat, unmodified: its select() waits for a file of the host and a socket."""
    tree = debian.source("netcat", work)
    flags = [*INCLUDE, "-w", "-DLINUX", '-DDEBIAN_VERSION="test"', *pkg_config("--cflags")]
    program = os.path.join(work, "netcat")
    run("gcc", *flags, "-o", program, os.path.join(tree, "netcat.c"), local_client(work),
        *pkg_config("--libs"), "-lresolv", "-pthread")
    contents = os.urandom(3000000)
    with open(f"{work}/contents", "wb") as stream:
        stream.write(contents)
    with open(f"{work}/contents", "rb") as stream:
        done, answer = request(program, "-q", "60", "-l", "-p", "7777", port=7777,
                               text="a request", answer=f"{work}/answer", stdin=stream,
                               LOCAL_BYTES=str(len(contents)))
    assert done.stdout == b"a request", done.stderr
    assert answer == contents


@pytest.fixture(name="lighttpd", scope="module")
def fixture_lighttpd(tmp_path_factory):
    """Debian's lighttpd as a local client."""
    directory = str(tmp_path_factory.mktemp("lighttpd"))
    return lighttpd_build.build(
        directory, ["-O1", *INCLUDE, *pkg_config("--cflags")],
        [local_client(directory), *pkg_config("--libs"), "-pthread"])


@pytest.mark.needs("apt-get", "dpkg-source", "make", "gcc")
@pytest.mark.parametrize("waits", ["linux-sysepoll", "poll", "select"])
def test_lighttpd(work, lighttpd, waits):
    contents = os.urandom(3000000)
    os.mkdir(f"{work}/served")
    with open(f"{work}/served/file.bin", "wb") as stream:
        stream.write(contents)
    config = lighttpd_build.configure(work, f"{work}/served", "127.0.0.1", event_handler=waits)
    done, answer = request(lighttpd, "-D", "-f", config, port=8080, LOCAL_TIMES="20",
                           text="GET /file.bin HTTP/1.0\r\n\r\n", answer=f"{work}/answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK"), (head, done.stderr)
    assert body == contents
    # SIGTERM ended its wait, and it cleaned up.
    with open(f"{work}/log", encoding="utf-8") as stream:
        assert "server stopped" in stream.read()


@pytest.fixture(name="tap")
def fixture_tap():
    """A network namespace with a tap interface, for many connections: docs/net.md."""
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("the host has no /dev/net/tun")
    with net_namespaces.new("tap") as namespace:
        namespace.ip("tuntap", "add", "dev", "tap0", "mode", "tap")
        namespace.ip("address", "add", "10.9.0.1/24", "dev", "tap0")
        namespace.ip("link", "set", "tap0", "txqueuelen", "10000", "up")
        yield namespace


def answers(namespace, address):
    """Does a server listen there?"""
    with namespace.new_socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        return client.connect_ex((address, 8080)) == 0


def complaints(path):
    """Lines of lighttpd's log about what failed."""
    usual = ("server started", "server stopped", "[note]")
    with open(path, encoding="utf-8") as stream:
        return [line for line in stream if not any(text in line for text in usual)]


@pytest.mark.needs("apt-get", "dpkg-source", "make", "gcc", "ip")
@pytest.mark.needs_root
@pytest.mark.parametrize("requests", [1, 3], ids=["closed", "kept-alive"])
@pytest.mark.parametrize("connections", [4000, pytest.param(10000, marks=pytest.mark.long)])
def test_many_connections_at_once(work, lighttpd, tap, connections, requests):
    """All are open before the first request. Each request gets its file."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * connections:
        pytest.skip("the host allows too few descriptors")
    os.mkdir(f"{work}/served")
    for number in range(20):
        with open(f"{work}/served/{number}", "wb") as stream:
            stream.write(os.urandom(100 + 2000 * number))
    config = lighttpd_build.configure(work, f"{work}/served", "10.9.0.2", connections)
    environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES,
                   "OUTBOARD_NET": "tap:tap0,ip=10.9.0.2/24"}
    with subprocess.Popen(tap.command(lighttpd, "-D", "-f", config), env=environment) as server:
        wait_until(lambda: answers(tap, "10.9.0.2"), "the server listens")
        done = tap.run(sys.executable, os.path.join(HERE, "http_load.py"), "10.9.0.2", "8080",
                       connections, requests, f"{work}/served", timeout=600)
        server.terminate()
        server.wait(timeout=60)
    assert int(done.stdout) == connections * requests
    assert not complaints(f"{work}/log")
