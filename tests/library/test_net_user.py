# SPDX-License-Identifier: GPL-2.0-only
"""Rootless NAT without a kernel: a tap interface in a network namespace takes the kernel's place.

Another network namespace is the host. So no test uses the network of this machine. The C program
has the address sanitizer.
"""

import contextlib
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from library import test_capi as capi
from support import host, net_namespaces
from support.patience import wait_until

KINDS = ["passt", "slirp"]
GATEWAY, GATEWAY6 = "10.0.2.2", "fec0::2"
ADDRESS = "10.0.2.15"
SOURCES = ["net_user_test.c", "net_port_tap.c", "net_port.c", "net_host.c",
           *sorted(glob.glob(f"{capi.DEVICES}/net/user*.c")),
           *(f"{capi.DEVICES}/net/{name}.c" for name in
             ("deliver", "pcap", "pcap_read", "pcap_write", "replay", "report", "ring")),
           f"{capi.PLATFORM}/descriptor.c", f"{capi.PLATFORM}/fork_owner.c"]
INCLUDES = ["-I", capi.DEVICES, "-I", capi.PLATFORM,
            "-I", os.path.join(capi.REPOSITORY, "hypercall", "include")]

def identify(value) -> str:
    """pytest would make ids of whole files."""
    return "" if isinstance(value, (bytes, str)) else str(value)


on_tap = [pytest.mark.needs_root, pytest.mark.needs("ip", "passt", "busybox")]


@pytest.fixture(scope="module", name="program")
def program_fixture(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("net") / "net_user_test"), SOURCES, *INCLUDES,
                          *capi.SANITIZERS["address"])


class Link:
    """The running program, and the namespace with its tap."""

    def __init__(self, process, outside, guest):
        self.process, self.outside, self.guest = process, outside, guest

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def passt(self) -> int:
        """The process id of passt."""
        found = host.run("pgrep", "-P", self.process.pid, "passt").stdout.split()
        assert len(found) == 1
        return int(found[0])


def start(command, stdout=subprocess.PIPE, **options):
    # pylint: disable-next=consider-using-with
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, text=True,
                            env=host.environment(), **options)


def finish(process) -> str:
    """Closes the interface. Returns what the program printed since the last line that was read."""
    process.stdin.close()
    output = process.stdout.read()
    assert process.wait(60) == 0
    assert output.endswith("closed\n")
    return output


@contextlib.contextmanager
def linked(program, kind, work, *options, is_finished=True):
    """An interface that is up. The host's resolver is 127.0.0.1."""
    resolver = pathlib.Path(work, "resolv.conf")
    resolver.write_text("nameserver 127.0.0.1\n", encoding="ascii")
    with net_namespaces.outside() as outside, net_namespaces.new("guest") as guest:
        script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        process = start(outside.command("sh", "-c", script, resolver, program, "tap0", kind,
                                        *options))
        try:
            assert process.stdout.readline() == "ready 65520\n"
            outside.ip("link", "set", "tap0", "netns", guest.name)
            guest.run("sysctl", "-qw", "net.ipv6.conf.tap0.accept_dad=0")
            guest.ip("link", "set", "tap0", "mtu", "65520", "up")
            yield Link(process, outside, guest)
            if is_finished:
                finish(process)
        finally:
            process.kill()
            process.wait()


LEASE = """#!/bin/sh
[ "$1" = bound ] || exit 0
echo "lease $ip/$mask $router $dns"
ip address add $ip/$mask dev $interface
ip route add default via $router
"""


def configure(link, work) -> str:
    """DHCP, and the address of a router advertisement. Returns the lease."""
    script = pathlib.Path(work, "lease")
    script.write_text(LEASE, encoding="ascii")
    script.chmod(0o755)
    output = link.guest.run("busybox", "udhcpc", "-i", "tap0", "-n", "-q", "-T", "1", "-t", "10",
                            "-s", script).stdout
    wait_until(lambda: "fec0::" in link.guest.ip("-6", "address", "show", "dev", "tap0"),
               "the interface has an address of the router advertisement")
    return re.search("^lease (.*)$", output, flags=re.M)[1]


def exchange(client, server) -> None:
    """Sends a text each way over a connection that the server accepts."""
    # Debian 12's passt completes the handshake of a forward with the first data only.
    client.sendall(b"question")
    connection, _ = server.accept()
    connection.settimeout(20)
    assert connection.recv(100) == b"question"
    connection.sendall(b"answer")
    assert client.recv(100) == b"answer"
    connection.close()
    assert client.recv(100) == b""
    client.close()


@pytest.mark.parametrize("kind", KINDS)
class TestTraffic:
    pytestmark = on_tap

    def test_configuration(self, program, work, kind):
        with linked(program, kind, work) as link:
            lease = configure(link, work).split()
            assert lease[:2] == [f"{ADDRESS}/24", GATEWAY]
            assert lease[2] == ("10.0.2.3" if kind == "slirp" else GATEWAY)
            route = link.guest.ip("-6", "route", "show", "default")
            assert re.match(r"default via fe80::\S+ dev tap0 proto ra", route)
            # Debian 12's passt does not answer, but the ping needs the neighbour.
            link.guest.run("busybox", "ping", "-c", "1", "-W", "2", GATEWAY,
                           ok=None if kind == "passt" else (0,))
            assert re.search(r"lladdr \S+ (REACHABLE|DELAY)",
                             link.guest.ip("neigh", "show", GATEWAY))

    def test_out(self, program, work, kind):
        with linked(program, kind, work) as link:
            configure(link, work)
            for there, address in (("127.0.0.1", GATEWAY), ("::1", GATEWAY6)):
                with link.outside.server(there, 7000) as server:
                    exchange(link.guest.connect(address, 7000), server)

    def test_names(self, program, work, kind):
        question = bytes.fromhex("1234 0100 0001 0000 0000 0000") + b"\4host\0\0\1\0\1"
        with linked(program, kind, work) as link:
            configure(link, work)
            with link.outside.server("127.0.0.1", 53, socket.SOCK_DGRAM) as server:
                client = link.guest.connect("10.0.2.3", 53, socket.SOCK_DGRAM)
                client.send(question)
                asked, address = server.recvfrom(600)
                assert asked == question
                server.sendto(question + b"answer", address)
                assert client.recv(600) == question + b"answer"

    def test_forwards(self, program, work, kind):
        forwards = "forwards=8080:80,tcp:127.0.0.1:8081:81,[::1]:8082:82,udp:5353:53"
        with linked(program, kind, work, forwards) as link:
            configure(link, work)
            # passt knows the guest's addresses from its first packets.
            with link.outside.server("::1", 7000) as server:
                exchange(link.guest.connect(GATEWAY6, 7000), server)
            for there, port, inside, guest_port in (
                    ("127.0.0.1", 8080, ADDRESS, 80), ("192.0.2.1", 8080, ADDRESS, 80),
                    ("::1", 8080, "::", 80), ("127.0.0.1", 8081, ADDRESS, 81),
                    ("::1", 8082, "::", 82)):
                with link.guest.server(inside, guest_port) as server:
                    exchange(link.outside.connect(there, port), server)
            with pytest.raises(ConnectionRefusedError):
                link.outside.connect("192.0.2.1", 8081)
            with link.guest.server(ADDRESS, 53, socket.SOCK_DGRAM) as server:
                client = link.outside.connect("127.0.0.1", 5353, socket.SOCK_DGRAM)
                client.send(b"question")
                asked, address = server.recvfrom(100)
                assert asked == b"question"
                server.sendto(b"answer", address)
                assert client.recv(100) == b"answer"

    def test_bulk(self, program, work, kind, record_property):
        """Contents arrive as they were sent, in both directions at once."""
        data = os.urandom(1 << 20)
        rounds = 24
        wanted = hashlib.sha256(data * rounds).hexdigest()
        with linked(program, kind, work) as link:
            configure(link, work)
            with link.outside.server("127.0.0.1", 7000) as server:
                client = link.guest.connect(GATEWAY, 7000)
                connection, _ = server.accept()
                began = time.monotonic()
                found = {}
                threads = [threading.Thread(target=send_all, args=(end, data, rounds))
                           for end in (client, connection)]
                threads += [threading.Thread(target=hash_all, args=(end, rounds << 20, found))
                            for end in (client, connection)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                record_property("MB/s", 2 * rounds / (time.monotonic() - began))
                assert list(found.values()) == [wanted, wanted]

    def test_fork(self, program, work, kind):
        """A forked child gives up its copy; the parent's interface works."""
        with linked(program, kind, work, "fork=1") as link:
            configure(link, work)
            with link.outside.server("127.0.0.1", 7000) as server:
                exchange(link.guest.connect(GATEWAY, 7000), server)


def send_all(end, data, rounds):
    end.settimeout(120)
    for _ in range(rounds):
        end.sendall(data)


def hash_all(end, size, found):
    """Debian 12's passt repeats data to a guest that has closed its own direction: nobody does."""
    digest = hashlib.sha256()
    while size:
        data = end.recv(min(size, 1 << 16))
        digest.update(data)
        size -= len(data)
    found[end] = digest.hexdigest()


@pytest.mark.needs_root
@pytest.mark.needs("ip", "passt", "busybox", "pgrep")
def test_passt_dies(program, work):
    with linked(program, "passt", work) as link:
        configure(link, work)
        os.kill(link.passt(), signal.SIGKILL)
        assert "passt was ended by signal 9; the interface has no link" in link.line()
        assert link.line() == "link down"
        assert link.guest.run("busybox", "ping", "-c", "2", "-W", "1", GATEWAY, ok=(1,))


@pytest.mark.needs_root
@pytest.mark.needs("ip", "passt", "pgrep")
def test_passt_ends_with_the_program(program, work):
    with linked(program, "passt", work, is_finished=False) as link:
        passt = link.passt()
        link.process.kill()
        wait_until(lambda: is_gone(passt), "passt has ended")


def is_gone(process: int) -> bool:
    """Has the process ended? Nobody may have waited for it."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return "\nState:\tZ" in status


@pytest.mark.needs_root
@pytest.mark.needs("ip", "passt")
def test_choice(program):
    """A host without routes: passt does not start there, and libslirp is used anyway."""
    with net_namespaces.new("empty") as outside:
        process = start(outside.command(program, "-", ""))
        assert finish(process) == "ready 65520\nclosed\n"
        process = start(outside.command(program, "-", "passt"))
        output, _ = process.communicate(timeout=60)
        assert output.startswith("error net user: passt cannot start: No external routable")


# ---- requests that are wrong -----------------------------------------------


def refused(program, *arguments, **variables) -> str:
    return capi.run(program, "-", *arguments, ok=1, **variables).removeprefix("error ").strip()


@pytest.mark.parametrize("forwards", [
    "", ",", "8080", "8080:", ":80", "0:80", "80:0", "65536:80", "080:80", "80 :80", " 80:80",
    "-1:80", "+1:80", "8080:80,", ",8080:80", "8080:80:", "icmp:1:1", "TCP:1:1", "tcp:", "udp:8080",
    "1.2.3:1:1", "1.2.3.4.5:1:1", "1.2.3.4:1", "256.1.1.1:1:1", "[::1:1:1", "[::1]1:1",
    "[1.2.3.4]:1:1", "::1:1:1", "[]:1:1", f"[{'f' * 100}]:1:1", "localhost:1:1",
    "99999999999999999999:1",
], ids=identify)
def test_bad_forwards(program, forwards):
    wrong = [part for part in forwards.split(",") if part != "8080:80"]
    assert refused(program, "", f"forwards={forwards}") == (
        f'net user: bad port forward "{wrong[0][:100]}"; '
        "write [tcp:|udp:][address:]host-port:guest-port")


@pytest.mark.parametrize("forwards, named", [
    ("8080:80,8080:81", "8080:81"), ("8080:80,127.0.0.1:8080:81", "127.0.0.1:8080:81"),
    ("[::1]:1:1,tcp:[0:0::1]:1:2", "tcp:[0:0::1]:1:2"),
    ("0.0.0.0:1:1,127.0.0.1:1:1", "127.0.0.1:1:1"),
], ids=identify)
def test_forwards_of_one_port(program, forwards, named):
    assert refused(program, "", f"forwards={forwards}") == (
        f'net user: the host\'s port in "{named}" is forwarded twice')


def test_many_forwards(program):
    forwards = ",".join(f"{port}:80" for port in range(2000, 2065))
    assert refused(program, "", f"forwards={forwards}") == "net user: more than 64 port forwards"


@pytest.mark.parametrize("kind, protocol", [
    (socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp"),
])
def test_port_in_use(program, kind, protocol):
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            server.listen()
        port = server.getsockname()[1]
        assert refused(program, "", f"forwards={protocol}:{port}:80") == (
            f"net user: cannot forward {protocol.upper()} port {port} of the host: another program "
            "uses the port; choose another port")


@pytest.mark.needs_root
@pytest.mark.needs("ip", "setpriv")
def test_low_port(program):
    """Without rights."""
    with net_namespaces.outside() as outside:
        done = outside.run("setpriv", "--bounding-set=-all", "--inh-caps=-all", program, "-", "",
                           "forwards=80:80", ok=(1,))
    assert done.stdout == ("error net user: cannot forward TCP port 80 of the host: low ports need "
                           "privileges; choose a port above 1023\n")


def test_other_errors(program):
    assert refused(program, "foo") == (
        'net user: unknown kind "foo"; use user, user:passt or user:slirp')
    for mtu in (1, 1279, 65521):
        assert refused(program, "", f"mtu={mtu}") == (
            f"net user: mtu {mtu} is not between 1280 and 65520")
    assert "the host has no such address" in refused(program, "", "forwards=192.0.2.77:8080:80")


def test_too_few_descriptors(program):
    for kind in ("", "slirp"):
        assert (refused(program, kind, "descriptors=0")
                == "net user: libslirp cannot start: Too many open files")


def test_passt_not_installed(program, work):
    """A passt that is found by a relative entry of PATH is not used."""
    os.symlink("/bin/true", os.path.join(work, "passt"))
    assert capi.run("sh", "-c", 'cd "$0" && PATH=.: exec "$1" - passt', work, program, ok=1) == (
        "error net user: passt is not installed; install the package passt\n")


@pytest.mark.needs_root
@pytest.mark.needs("unshare")
def test_nothing_installed(program, work):
    libraries = glob.glob("/usr/lib/*/libslirp.so.0")
    assert libraries
    script = 'for i; do mount --bind /dev/null "$i"; done; PATH=/nowhere exec "$0" - "$KIND"'
    for kind, message in (
            ("", "neither libslirp nor passt is installed; install the package libslirp0, or "
             "passt"),
            ("slirp", "libslirp0 is not installed; install the package libslirp0")):
        output = capi.run("unshare", "-m", "sh", "-c", script, program, *libraries, ok=1, KIND=kind)
        assert output == f"error net user: {message}\n"


# ---- a passt that misbehaves ------------------------------------------------


class Fake:
    """A program in passt's place."""

    def __init__(self, work, mode):
        self.directory = pathlib.Path(work)
        shutil.copy(os.path.join(capi.HERE, "fake_passt"), self.directory / "passt")
        (self.directory / "mode").write_text(mode, encoding="ascii")

    def start(self, program, *arguments):
        variables = host.environment(PATH=f"{self.directory}:{host.PATH}")
        # pylint: disable-next=consider-using-with
        return subprocess.Popen([program, "-", "passt", *arguments], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True, env=variables)

    def count(self) -> int:
        """Frames that it has read until now, in the mode "slow"."""
        path = self.directory / "count"
        return int(path.read_text(encoding="ascii")) if path.exists() else 0

    def found(self) -> dict:
        path = self.directory / "found"
        wait_until(path.exists, "passt has written what it found")
        return json.loads(path.read_text(encoding="ascii"))


def test_what_passt_gets(program, work):
    """A clean environment, four descriptors, a session of its own; options as the request says."""
    fake = Fake(work, "good")
    with open(os.path.join(work, "mode"), encoding="ascii") as leak:
        os.set_inheritable(leak.fileno(), True)
        process = fake.start(program, "mtu=9000",
                             "forwards=8080:80,udp:127.0.0.1:53535:53,[::1]:1234:5")
        assert process.stdout.readline() == "ready 9000\n"
        found = fake.found()
    # The shell or Python adds these.
    assert set(found["environment"]) <= {"PWD", "SHLVL", "_", "LC_CTYPE"}
    assert {name for name in found["descriptors"] if name < "4"} == {"0", "1", "2", "3"}
    assert found["descriptors"]["0"] == found["descriptors"]["1"] == "/dev/null"
    assert found["descriptors"]["2"].startswith("pipe:")
    assert found["descriptors"]["3"].startswith("socket:")
    assert not [path for path in found["descriptors"].values() if path.endswith("/mode")]
    text = " ".join(found["arguments"])
    assert "--mtu 9000 --fd 3" in text
    assert text.endswith("--tcp-ports 8080:80 --udp-ports 127.0.0.1/53535:53 "
                         "--tcp-ports ::1/1234:5")
    finish(process)


def test_frames_stay_whole(program, work):
    """passt reads slowly: frames are dropped as a whole, and the others arrive as they were."""
    fake = Fake(work, "slow")
    process = fake.start(program, "send=4000")
    assert process.stdout.readline().startswith("ready")
    sent = int(process.stdout.readline().removeprefix("sent "))
    # Buffers of 16 to 24 MB against 57 MB at once.
    assert 1000 < sent < 3950
    # The end drops the frames in the backlog.
    wait_until(lambda: fake.count() > sent - 1000, "passt has read most frames")
    finish(process)
    assert fake.count() <= fake.found()["frames"] <= sent


@pytest.mark.parametrize("mode, message", [
    ("long", "passt has sent a frame of a wrong length; the interface has no link"),
    ("short", "passt has sent a frame of a wrong length; the interface has no link"),
    ("half", "passt has ended with exit code 0; the interface has no link"),
    ("exits", "passt has ended with exit code 7; the interface has no link"),
], ids=["long", "short", "half", "exits"])
def test_passt_fails_later(program, work, mode, message):
    process = Fake(work, mode).start(program)
    output = process.stdout.readline()
    assert output.startswith("ready")
    lines = [process.stdout.readline()]
    while lines[-1] != "link down\n":
        lines.append(process.stdout.readline())
        assert lines[-1]
    assert f"log net user: {message}, add it again to have one\n" in lines
    if mode == "exits":
        assert lines[0] == "log net user: passt: cannot go on\n"
    finish(process)


def test_passt_fails_at_once(program, work):
    process = Fake(work, "fails").start(program)
    output, _ = process.communicate(timeout=60)
    assert output == "error net user: passt cannot start: no such thing; really not\n"


def test_passt_does_not_end(program, work):
    """passt ignores the end of the connection: it is killed."""
    process = Fake(work, "hangs").start(program)
    assert process.stdout.readline().startswith("ready")
    began = time.monotonic()
    finish(process)
    # It had a second to end by itself.
    assert time.monotonic() - began > 0.9


# ---- captures ---------------------------------------------------------------


def blocks(data: bytes):
    """The blocks of a pcapng file of this machine: type and contents."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0 and struct.unpack_from("<I", data, at + length - 4) == (length,)
        yield kind, data[at + 8:at + length - 4]
        at += length


def statistics(path) -> tuple:
    """Seen and dropped frames of the last block, and the number of packets in the file."""
    found = list(blocks(pathlib.Path(path).read_bytes()))
    assert [kind for kind, _ in found[:2]] == [0x0a0d0d0a, 1]
    kind, contents = found[-1]
    assert kind == 5
    options, at = {}, 12
    while at < len(contents):
        code, length = struct.unpack_from("<HH", contents, at)
        options[code] = contents[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    packets = sum(kind == 6 for kind, _ in found)
    return struct.unpack("<Q", options[4])[0], struct.unpack("<Q", options[7])[0], packets


def fields(path, *names) -> list:
    arguments = [word for name in names for word in ("-e", name)]
    output = host.run("tshark", "-n", "-r", path, "-T", "fields", *arguments).stdout
    return [tuple(line.split("\t")) for line in output.splitlines()]


@pytest.mark.needs_root
@pytest.mark.needs("ip", "passt", "busybox", "tshark", "capinfos")
def test_capture(program, work):
    path = os.path.join(work, "capture")
    with linked(program, "slirp", work, f"pcap={path}") as link:
        configure(link, work)
        with link.outside.server("127.0.0.1", 7000) as server:
            exchange(link.guest.connect(GATEWAY, 7000), server)
    assert os.stat(path).st_mode & 0o777 == 0o600
    info = host.run("capinfos", path).stdout
    assert re.search(r"File type: +Wireshark/... - pcapng\n", info)
    assert re.search(r"File encapsulation: +Ethernet\n", info)
    assert re.search(r"File timestamp precision: +nanoseconds \(9\)\n", info)
    assert "Name = user\n" in info and "Number of stat entries = 1\n" in info
    found = fields(path, "frame.time_epoch", "frame.packet_flags_direction", "_ws.col.Protocol",
                   "tcp.payload")
    assert all(abs(float(when) - time.time()) < 600 for when, *_ in found)
    text = {(int(direction, 16), payload) for _, direction, _, payload in found if payload}
    assert text == {(2, b"question".hex()), (1, b"answer".hex())}
    assert {"ARP", "DHCP", "ICMPv6", "TCP"} <= {protocol for _, _, protocol, _ in found}
    assert statistics(path) == (len(found), 0, len(found))
    # A classic tool reads it, too.
    assert host.run("tcpdump", "-nr", path, "arp", ok=None).stdout


def retried(command):
    """Starts the program again until the FIFO has its reader."""
    def try_once():
        process = start(command)
        return process if process.stdout.readline().startswith("ready") else process.kill()
    return wait_until(try_once, "the FIFO has a reader")


@pytest.mark.needs("tshark")
def test_live_capture(program, work):
    """Into a FIFO, and into a descriptor."""
    fifo = os.path.join(work, "fifo")
    os.mkfifo(fifo)
    message = refused(program, "slirp", f"pcap={fifo}")
    assert message == (f"net user: cannot write the capture to {fifo}: nothing reads the FIFO; "
                       "start its reader first")
    copy = os.path.join(work, "copy")
    with open(copy, "wb") as target, start(["cat", fifo], stdout=target):
        process = retried([program, "-", "slirp", f"pcap={fifo}", "send=12"])
        assert process.stdout.readline() == "sent 12\n"
        finish(process)
    assert statistics(copy)[1:] == (0, 12)
    assert [int(length) for length, in fields(copy, "frame.len")] == [60] * 10 + [
        50000 + i * 7919 % 15000 for i in range(10, 12)]
    with open(os.path.join(work, "third"), "wb") as target:
        process = start([program, "-", "slirp", f"pcap=fd:{target.fileno()}", "send=12"],
                        pass_fds=[target.fileno()])
        finish(process)
    assert statistics(os.path.join(work, "third"))[1:] == (0, 12)


def test_bad_capture_paths(program, work):
    for path, reason in (("/nowhere/x", "No such file or directory"), (work, "Is a directory"),
                         ("fd:77", "Bad file descriptor"),
                         ("/dev/full", "No space left on device")):
        assert refused(program, "slirp", f"pcap={path}") == (
            f"net user: cannot write the capture to {path}: {reason}")


def pcap_program(directory, sanitizer):
    sources = [source for source in SOURCES
               if not re.search(r"user_test|/user|replay|ring", source)]
    return capi.compile_c(os.path.join(directory, f"pcap-{sanitizer}"),
                          ["net_pcap_test.c", *sources], *INCLUDES, *capi.SANITIZERS[sanitizer])


@pytest.mark.parametrize("sanitizer", [capi.PLAIN, "address", "thread"])
def test_capture_by_threads(work, sanitizer):
    """Each of 80,000 frames is in the file as a whole, or counted as dropped."""
    path = os.path.join(work, "capture")
    inbound = capi.run(pcap_program(work, sanitizer), "threads", path)
    seen, dropped, packets = statistics(path)
    assert seen == 80000 and packets == seen - dropped
    assert 1000 < int(inbound.split()[1]) <= packets


@pytest.mark.parametrize("kind", ["stuck", "number"])
def test_capture_without_reader(work, kind):
    fifo = os.path.join(work, "fifo")
    os.mkfifo(fifo)
    assert capi.run(pcap_program(work, "address"), kind, fifo) == (
        "log net tap0: the capture ends early: its reader does not read\n")


@pytest.mark.parametrize("kind", ["full", "behind"])
def test_capture_that_cannot_grow(work, kind):
    output = capi.run(pcap_program(work, "address"), kind, os.path.join(work, "capture"))
    assert output == "log net tap0: the capture ends early: File too large\n"


def test_capture_into_a_file_in_use(work):
    capi.run(pcap_program(work, "address"), "used", os.path.join(work, "capture"))


def test_capture_that_cannot_be_closed(work):
    output = capi.run(pcap_program(work, "address"), "close", os.path.join(work, "capture"))
    assert output == "log net tap0: the capture ends early: No space left on device\n"


# ---- replay -----------------------------------------------------------------


FRAMES = [bytes(range(14)) + bytes([i]) * (46 + 97 * i) for i in range(30)]


def old_capture(frames, order="<", magic=0xa1b2c3d4, link=1) -> bytes:
    """A classic pcap file with a frame each 10 ms."""
    fraction = 1000 if magic == 0xa1b23c4d else 1
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)
    for i, frame in enumerate(frames):
        data += struct.pack(order + "IIII", 1000, 10000 * i * fraction, len(frame), len(frame))
        data += frame
    return data


def block(order, kind, contents) -> bytes:
    contents += bytes(-len(contents) % 4)
    length = struct.pack(order + "I", len(contents) + 12)
    return struct.pack(order + "I", kind) + length + contents + length


def new_capture(frames, order="<", resolution=6, per_second=10 ** 6) -> bytes:
    """A pcapng file with a frame each 10 ms, an outbound frame, a block of an unknown kind, and a
    packet of another link type.
    """
    data = block(order, 0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1))
    data += block(order, 1, struct.pack(order + "HHI", 101, 0, 0))
    data += block(order, 1, struct.pack(order + "HHIHHBxxx", 1, 0, 0, 9, 1, resolution))
    data += block(order, 0x80001234, bytes(50))
    data += packet(order, 0, 0, frames[0])
    data += packet(order, 1, 0, frames[1], 2)
    for i, frame in enumerate(frames):
        data += packet(order, 1, 5 * per_second + i * per_second // 100, frame, i % 2)
    return data


def packet(order, interface, when, frame, flags=0) -> bytes:
    contents = struct.pack(order + "IIIII", interface, when >> 32, when & 0xffffffff, len(frame),
                           len(frame)) + frame + bytes(-len(frame) % 4)
    if flags:
        contents += struct.pack(order + "HHIHH", 2, 4, flags, 0, 0)
    return block(order, 6, contents)


def simple_capture(frames) -> bytes:
    data = block("<", 0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1))
    data += block("<", 1, struct.pack("<HHI", 1, 0, 0))
    return data + b"".join(block("<", 3, struct.pack("<I", len(frame)) + frame) for frame in frames)


def replay(program, work, data, mode=",fast") -> tuple:
    """Returns the frames that the interface received, the last line of the log, and the time."""
    source, copy = os.path.join(work, "source"), os.path.join(work, "copy")
    pathlib.Path(source).write_bytes(data)
    began = time.monotonic()
    process = start([program, "-", f"pcap:{source}{mode}", f"pcap={copy}"])
    # The thread of the interface may be faster.
    lines = {process.stdout.readline().strip(), process.stdout.readline().strip()}
    assert "ready 65535" in lines
    line, = lines - {"ready 65535"}
    took = time.monotonic() - began
    finish(process)
    found = [contents[20:20 + struct.unpack_from("<I", contents, 12)[0]]
             for kind, contents in blocks(pathlib.Path(copy).read_bytes()) if kind == 6]
    assert line.startswith(f"log net pcap: {source}: replayed {len(found)} frames")
    return found, line.partition(" frames")[2], took


@pytest.mark.parametrize("data, rest", [
    (old_capture(FRAMES), ""), (old_capture(FRAMES, ">"), ""),
    (old_capture(FRAMES, magic=0xa1b23c4d), ""), (old_capture(FRAMES, ">", 0xa1b23c4d), ""),
    (new_capture(FRAMES), ", left out 1 packets that are no whole Ethernet frames"),
    (new_capture(FRAMES, ">", 9, 10 ** 9),
     ", left out 1 packets that are no whole Ethernet frames"),
    (new_capture(FRAMES) + new_capture(FRAMES, ">"),
     ", left out 2 packets that are no whole Ethernet frames"),
    (simple_capture(FRAMES), ""),
], ids=["pcap", "pcap-big", "pcap-nano", "pcap-nano-big", "pcapng", "pcapng-big", "two-sections",
        "simple"])
def test_replay(program, work, data, rest):
    found, line, took = replay(program, work, data)
    assert found in (FRAMES, FRAMES + FRAMES)
    assert line == rest
    assert took < 10


@pytest.mark.parametrize("data", [
    old_capture(FRAMES), old_capture(FRAMES, ">", 0xa1b23c4d), new_capture(FRAMES),
    new_capture(FRAMES, ">", 9, 10 ** 9), new_capture(FRAMES, "<", 0x94, 2 ** 20),
], ids=["micro", "nano", "pcapng-micro", "pcapng-nano", "pcapng-binary"])
def test_replay_in_time(program, work, data):
    found, _, took = replay(program, work, data, "")
    assert found == FRAMES
    assert 0.28 < took < 10


def test_replay_is_interrupted(program, work):
    """The next frame is due in 136 years."""
    data = bytearray(old_capture(FRAMES[:2]))
    at = 24 + 16 + len(FRAMES[0])
    data[at:at + 4] = b"\xff\xff\xff\xff"
    path = os.path.join(work, "source")
    pathlib.Path(path).write_bytes(data)
    process = start([program, "-", f"pcap:{path}"])
    assert process.stdout.readline().startswith("ready")
    time.sleep(0.3)
    assert finish(process) == "closed\n"


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new):]


PCAPNG = new_capture(FRAMES)
# The packet of the unknown link type is behind a section, two interfaces and an unknown block.
FIRST_PACKET = 28 + 20 + 28 + 64


@pytest.mark.parametrize("data, problem, count", [
    (PCAPNG[:-2], "it ends in the middle of a block", 29),
    (PCAPNG + b"\0\0\0", "it ends in the middle of a block", 30),
    (with_bytes(PCAPNG, FIRST_PACKET + 4, b"\x0b"), "a block has a wrong length", 0),
    (with_bytes(PCAPNG, FIRST_PACKET + 4, b"\x08\0\0\0"), "a block has a wrong length", 0),
    (with_bytes(PCAPNG, FIRST_PACKET + 4, b"\xfc\xff\xff\xff"),
     "it ends in the middle of a block", 0),
    (with_bytes(PCAPNG, FIRST_PACKET + 4, b"\x10\0\0\0"), "the two lengths of a block differ", 0),
    (with_bytes(PCAPNG, FIRST_PACKET + 8, b"\2"),
     "a packet is of an interface that was not described", 0),
    (with_bytes(PCAPNG, FIRST_PACKET + 20, b"\xff\xff\xff\xff"),
     "a packet is longer than its block", 0),
    (with_bytes(PCAPNG, FIRST_PACKET + 20, b"\0\1"), "a packet is longer than its block", 0),
    (PCAPNG + block("<", 6, bytes(16)), "a block is too short or too long", 30),
    (PCAPNG + block("<", 1, bytes(4)), "a block is too short or too long", 30),
    (PCAPNG + block("<", 1, bytes(8)) * 300, "it has too many interfaces", 30),
    (PCAPNG + block("<", 0x0a0d0d0a, bytes(16)), "a section has no byte order", 30),
    (old_capture(FRAMES)[:-1], "it ends in the middle of a packet", 29),
    (old_capture(FRAMES) + bytes(15), "it ends in the middle of a block", 30),
], ids=identify)
def test_replay_of_damaged_files(program, work, data, problem, count):
    found, line, _ = replay(program, work, data)
    assert found == FRAMES[:count]
    assert line.endswith(f", stopped early: {problem}")


@pytest.mark.parametrize("data, problem", [
    (b"", "it is too short"), (b"12345678901", "it is too short"),
    (b"x" * 100, "it is neither pcapng nor pcap"),
    (old_capture([])[:20], "it ends in the middle of a block"),
    (old_capture(FRAMES, link=113), "its packets are not Ethernet frames"),
    (PCAPNG[:8] + bytes(4) + PCAPNG[12:], "a section has no byte order"),
], ids=identify)
def test_replay_of_other_files(program, work, data, problem):
    path = os.path.join(work, "source")
    pathlib.Path(path).write_bytes(data)
    assert refused(program, f"pcap:{path}") == f"net pcap: cannot replay {path}: {problem}"


def test_replay_of_no_file(program, work):
    for path, problem in ((work, "it is not a regular file"),
                          ("/dev/zero", "it is not a regular file"),
                          ("/nowhere", "No such file or directory")):
        assert refused(program, f"pcap:{path}") == f"net pcap: cannot replay {path}: {problem}"
    assert refused(program, "pcap:") == "net pcap: no file was given; write pcap:FILE"


@pytest.mark.parametrize("data", [old_capture(FRAMES), PCAPNG], ids=["pcap", "pcapng"])
def test_changed_bytes(work, data):
    """Whatever a file has, reading it touches no memory of others, and ends."""
    path = os.path.join(work, "source")
    pathlib.Path(path).write_bytes(data)
    output = capi.run(pcap_program(work, "address"), "damage", path, "4000")
    assert 400 < int(output.split()[1]) < 4000


# ---- libslirp ---------------------------------------------------------------


def test_declarations_of_libslirp(work):
    """Our header says the same as that of the package libslirp-dev."""
    if not os.path.exists("/usr/include/slirp/libslirp.h"):
        pytest.skip("the package libslirp-dev is not installed")
    capi.compile_c(os.path.join(work, "api"), ["slirp_api_test.c"], *INCLUDES)


# ---- the tests themselves ---------------------------------------------------


@pytest.mark.needs("ip")
@pytest.mark.needs_root
def test_namespaces_of_killed_tests_go():
    host.run("ip", "netns", "add", "ob-99999999-0-killed")
    net_namespaces.remove_leftovers.__wrapped__()
    assert not os.path.exists("/run/netns/ob-99999999-0-killed")
