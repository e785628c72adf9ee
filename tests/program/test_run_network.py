# SPDX-License-Identifier: GPL-2.0-only
"""The network of programs of an image: `outboard run`."""

import contextlib
import os
import re
import socket
import subprocess
import threading
import urllib.request

import pytest

from support import host, images, program, programs

PROGRAMS = ("busybox", "cat", "cut", "ip", "ls", "mkdir", "mount", "ping", "sleep", "tc")
NAME = "box.example"
HERE = os.path.dirname(os.path.abspath(__file__))


def make_image(directory, *, hosts=None, resolver=None, link=None):
    """A root with these texts of /etc/hosts and /etc/resolv.conf, or a link in the place of that.
    """
    tree = os.path.join(directory, "root")
    programs.make_root(tree, *PROGRAMS)
    host.run("gcc", "-static", "-o", os.path.join(tree, "bin", "udp_echo"),
             os.path.join(HERE, "udp_echo.c"))
    os.makedirs(os.path.join(tree, "etc"), exist_ok=True)
    for name, text in (("hostname", f"{NAME}\n"), ("hosts", hosts), ("resolv.conf", resolver)):
        if text is not None:
            with open(os.path.join(tree, "etc", name), "w", encoding="ascii") as stream:
                stream.write(text)
    if link:
        os.symlink(link, os.path.join(tree, "etc", "resolv.conf"))
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree)


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    return make_image(str(tmp_path_factory.mktemp("network")))


def script(image, text, *options):
    return program.run("run", *options, image, "--", "sh", "-c", text)


@pytest.mark.parametrize("address", ("127.0.0.1", "::1", "localhost", NAME, "box"))
def test_loopback_is_up(image, address):
    done = script(image, f"ping -c 1 -W 5 {address} && cat /proc/sys/kernel/hostname")
    assert done.code == 0 and done.out.endswith(f"{NAME}\n"), done


def test_descriptors_are_limited_as_on_any_linux(image):
    done = script(image, "ulimit -n; ulimit -Hn; ulimit -n 5000 && ulimit -n")
    assert done.out == "1024\n1048576\n5000\n", done


def test_the_image_keeps_its_hosts(work):
    image = make_image(work, hosts="127.0.0.1 localhost own\n")
    assert script(image, "cat /etc/hosts").out == "127.0.0.1 localhost own\n"


def test_shown_files_leave_nothing_behind(work):
    """Places for mounts go with the run, unless a program has put something there."""
    image = make_image(work)
    shown = os.path.join(work, "shown")
    os.mkdir(shown)
    file = os.path.join(shown, "file")
    with open(file, "w", encoding="ascii") as stream:
        stream.write("of the host\n")
    text = ("cat /etc/hosts /etc/resolv.conf /place/file /a/b/file; echo kept > /a/kept; "
            "mkdir /place/made; ls -d /own")
    done = program.run("run", "--rw", "--bind", f"{shown}:/place", "--bind", f"{shown}:/own",
                       "--bind", f"{file}:/a/b/file", image, "--", "sh", "-c", text)
    assert f"127.0.1.1 {NAME} box\n" in done.out and "nameserver 10.0.2.3\n" in done.out, done
    assert done.out.count("of the host\n") == 2 and done.code == 0, done
    found = program.good("find", f"{image}:/", "-path", "/etc*", "-o", "-path", "/a*", "-o",
                         "-name", "place", "-o", "-name", "own").out.split()
    left = [line.removeprefix(f"{image}:") for line in found]
    assert sorted(left) == ["/a", "/a/kept", "/etc", "/etc/hostname"], left
    assert sorted(os.listdir(shown)) == ["file", "made"]
    host.run("e2fsck", "-fn", image)


def test_no_network(image):
    """Loopback is up all the same."""
    done = script(image, "ping -c 1 -W 5 ::1 && ip -o link | cut -d: -f2; cat /etc/resolv.conf",
                  "--net", "none")
    assert done.out.split("\n")[-2].strip() == "lo" and "resolv.conf" in done.err, done


@pytest.mark.parametrize("link", (None, "../run/systemd/resolve/stub-resolv.conf",
                                  "/run/resolvconf/resolv.conf"))
def test_name_servers_are_shown(work, link):
    """The image has none, or a link to what a service of a running system makes."""
    image = make_image(work, link=link)
    done = script(image, "cat /etc/resolv.conf; ip -o -4 addr show dev eth0")
    assert done.out.startswith("nameserver 10.0.2.3\n") and "10.0.2.15/24" in done.out, done


def test_the_image_keeps_its_name_servers(work):
    image = make_image(work, resolver="nameserver 192.0.2.1\n")
    done = program.run("run", "--rw", image, "--", "cat", "/etc/resolv.conf")
    assert done.out == "nameserver 10.0.2.3\n", done
    assert program.good("cat", f"{image}:/etc/resolv.conf").out == "nameserver 192.0.2.1\n"


@contextlib.contextmanager
def served(family=socket.AF_INET, address="127.0.0.1"):
    """A server of the host that answers each connection. Yields its port, and the connections."""
    accepted = []
    with socket.create_server((address, 0), family=family) as server:
        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                accepted.append(1)
                with connection:
                    connection.sendall(b"reached\n")
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], accepted
        server.shutdown(socket.SHUT_RDWR)


# A hostile root sends packets for the host's own addresses through the interface.
ROUTES = ("ip route del table local local 127.0.0.0/8; ip route del table local local 127.0.0.1;"
          "ip addr del 127.0.0.1/8 dev lo; ip route add 127.0.0.0/8 via 10.0.2.2 dev eth0;"
          "echo 1 > /proc/sys/net/ipv4/conf/eth0/route_localnet;"
          "ip -6 route add ::/80 dev eth0;")


@pytest.mark.parametrize("address", ("10.0.2.2", "127.0.0.1", "127.0.0.2", "0.0.0.0"))
def test_the_loopback_of_the_host_is_closed(image, address):
    with served() as (port, accepted):
        done = script(image, f"{ROUTES} busybox nc -w 3 {address} {port} < /dev/null")
        assert "reached" not in done.out and not accepted, done


def test_the_loopback_of_the_host_can_be_opened(image):
    with served() as (port, accepted):
        done = script(image, f"busybox nc -w 20 10.0.2.2 {port} < /dev/null",
                      "--net", "user,host-loopback")
        assert done.out == "reached\n" and accepted, done


def test_the_host_is_reached(image):
    """At an address of the host that is not its loopback, as any machine."""
    address = host_address()
    with served(address=address) as (port, _):
        done = script(image, f"busybox nc -w 20 {address} {port} < /dev/null")
        assert done.out == "reached\n", done


def host_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("the host has no route")
        return probe.getsockname()[0]


@contextlib.contextmanager
def running(image, text, *options):
    """A script that runs until the end of its input. It has printed a line."""
    words = program.command("run", *options, image, "--", "sh", "-c", text)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        try:
            line = process.stdout.readline()
            assert line, process.communicate(timeout=60)
            yield process
        finally:
            process.stdin.close()
            process.wait(60)


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


HTTPD = ("mkdir -p /srv; echo page > /srv/index.html; busybox httpd -p {} -h /srv; echo ready;"
         "cat > /dev/null")


@pytest.mark.parametrize("address,shown", (("", "127.0.0.1"), ("[::1]:", "[::1]"),
                                           ("127.0.0.9:", "127.0.0.9")))
def test_a_port_of_the_host(image, address, shown):
    port = free_port()
    with running(image, HTTPD.format(80), "-p", f"{address}{port}:80"):
        with urllib.request.urlopen(f"http://{shown}:{port}/", timeout=60) as answer:
            assert answer.read() == b"page\n"
        if not address:
            with pytest.raises(OSError):
                socket.create_connection((host_address(), port), 5)


def test_a_free_port_is_chosen_and_named(image):
    with running(image, HTTPD.format(80), "-p", "0:80") as process:
        note = process.stderr.readline().decode()
        found = re.search(r"note: (127\.0\.0\.1:\d+) leads to port 80 ", note)
        with urllib.request.urlopen(f"http://{found[1]}/", timeout=60) as answer:
            assert answer.read() == b"page\n"


def test_a_port_of_udp(image):
    port = free_port(socket.SOCK_DGRAM)
    words = program.command("run", "--net", "user,host-loopback", "-p", f"{port}:5000/udp", image,
                            "--", "udp_echo")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", port))
            client.settimeout(0.5)
            for _ in range(100):
                client.send(b"datagram")
                with contextlib.suppress(OSError):
                    if client.recv(100) == b"datagram":
                        break
            else:
                process.kill()
                pytest.fail("no answer")
        process.terminate()
        process.wait(60)


def test_a_port_in_use(image):
    with served() as (port, _):
        done = script(image, "true", "-p", f"{port}:80")
        assert done.code == 125 and len(done.err.splitlines()) == 1, done
        assert f"port {port} " in done.err and "another program uses the port" in done.err, done


@pytest.mark.parametrize("given,code,mentions", (
    (("-p", "80"), 2, "HOSTPORT:PORT"), (("-p", "1:0"), 2, "1 and 65535"),
    (("-p", "70000:80"), 2, "70000"), (("-p", "::1:80:80"), 2, "::1"),
    (("-p", "1:2", "--net", "none"), 2, "by the kind user alone"),
    (("-p", "192.0.2.77:8080:80"), 125, "no such address"),
    (("--net", "tap:tap0"), 125, "the sandbox forbids tap:tap0"),
    (("--net", "nothing"), 125, "no such kind"),
    (("--net", "user,mtu=none"), 125, "mtu=none")))
def test_wrong_networks(image, given, code, mentions):
    done = script(image, "true", *given)
    assert done.code == code and mentions in done.err, done


def test_sockets_of_the_host(image):
    """Programs share the host's addresses and ports."""
    port = free_port()
    with running(image, HTTPD.format(f"127.0.0.1:{port}"), "--net", "host"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            assert answer.read() == b"page\n"


def test_virtual_networks(image):
    """Drivers load when programs ask for them."""
    text = ("ip netns add a && ip link add v0 type veth peer name v1 netns a &&"
            "ip addr add 10.9.0.1/24 dev v0 && ip link set v0 up &&"
            "ip -n a addr add 10.9.0.2/24 dev v1 && ip -n a link set v1 up &&"
            "ip link add w0 type wireguard && ip link add b0 type bridge &&"
            "tc qdisc add dev v0 root netem delay 1ms && tc qdisc show dev v0 &&"
            "ping -c 1 -W 5 10.9.0.2")
    done = script(image, text)
    assert done.code == 0 and "netem" in done.out and "1 received" in done.out, done
