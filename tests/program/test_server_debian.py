# SPDX-License-Identifier: GPL-2.0-only
"""Tools of a Debian root, unmodified, on one `outboard server`: each is a command of its own, and
finds what the ones before have set up. The commands are those of the server's user, and of another
user of the host whom a rule makes root inside; a third one may do less.
"""

import os
import subprocess

import pytest

from support import debian, program
from support.kernel_server import KernelServer, serving
from support.nobody import as_nobody
from support.mounts import AS_NOBODY, NOBODY
from support.terminal import Terminal

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.needs("mmdebstrap")]

PACKAGES = ("btrfs-progs", "cryptsetup-bin", "e2fsprogs", "ethtool", "iproute2", "iputils-ping",
            "libcap2-bin", "mount", "nftables", "procps", "tcpdump", "wireguard-tools")
WORDS = ("--variant=apt", f"--include={','.join(PACKAGES)}", "bookworm", "system.tar")


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    image = os.path.join(str(tmp_path_factory.mktemp("server")), "debian.img")
    program.good("mkfs", "ext4", image, "--from", debian.system(list(WORDS), []), "--size", "2G",
                 timeout=600)
    yield image
    os.unlink(image)


class ServerOfAnother(KernelServer):
    """A server, for the user nobody of the host, who did not start it."""

    def __init__(self, path, nobody):
        super().__init__(path)
        self.program = nobody.program

    def command(self, *words, options=()):
        return [*AS_NOBODY, self.program, "run", "--on", self.url, *options, "--", *words]

    def run(self, *words, options=(), timeout=120, **others):
        return program.Result(subprocess.run(self.command(*words, options=options), check=False,
                                             stdin=subprocess.DEVNULL, capture_output=True,
                                             timeout=timeout, cwd="/", **others))


def serving_image(image, inside):
    """A server whose kernel has the user nobody of the host as this one."""
    return serving("--memory", "2G", "--net", "none", "--allow", f"{NOBODY}={inside}", image)


@pytest.fixture(scope="module", name="server", params=["owner", "another"])
def fixture_server(request, image):
    with serving_image(image, 0) as server, as_nobody() as nobody:
        yield server if request.param == "owner" else ServerOfAnother(server.path, nobody)


def good(server, *words):
    done = server.run(*words, timeout=600)
    assert (done.code, done.err) == (0, ""), done
    return done.out


def test_interfaces_and_rules(server):
    """ip, ss, nft, tc, ping, ethtool: each shows what others have made."""
    for line in ("ip link add v0 type veth peer name v1", "ip netns add other",
                 "ip link set v1 netns other", "ip addr add 10.9.0.1/24 dev v0",
                 "ip link set v0 up", "ip -n other addr add 10.9.0.2/24 dev v1",
                 "ip -n other link set v1 up"):
        good(server, *line.split())
    assert "10.9.0.1/24" in good(server, "ip", "-br", "addr")
    assert " 0% packet loss" in good(server, "ping", "-c", "2", "-i", "0.2", "10.9.0.2")
    good(server, "tc", "qdisc", "add", "dev", "v0", "root", "netem", "delay", "30ms")
    assert "delay 30ms" in good(server, "tc", "qdisc", "show", "dev", "v0")
    reply = good(server, "ping", "-c", "1", "10.9.0.2")
    assert float(reply.split("time=")[1].split()[0]) >= 30, reply
    good(server, "nft", "add", "table", "inet", "filter")
    good(server, "nft", "add", "chain", "inet", "filter", "input",
         "{ type filter hook input priority 0; }")
    good(server, "nft", "add", "rule", "inet", "filter", "input", "icmp", "type",
         "echo-reply", "counter", "drop")
    assert "echo-reply" in good(server, "nft", "list", "ruleset")
    assert server.run("ping", "-c", "1", "-W", "1", "10.9.0.2").code == 1
    good(server, "nft", "flush", "ruleset")
    assert "v0" in good(server, "ethtool", "-i", "v0") or good(server, "ethtool", "v0")
    listening = subprocess.Popen(server.command("bash", "-c", "exec 3<>/dev/tcp/10.9.0.1/9"),
                                 stderr=subprocess.DEVNULL)
    assert listening.wait(60) == 1
    assert "State" in good(server, "ss", "-tuna")


def test_capture(server):
    """tcpdump sees what another command sends, and ends by its own count."""
    capture = subprocess.Popen(server.command("tcpdump", "-l", "-n", "-c", "2", "-i", "lo", "icmp"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = ""
    while "listening on" not in line:
        line = capture.stderr.readline()
        assert line, "tcpdump has ended"
    good(server, "ping", "-c", "2", "-i", "0.2", "127.0.0.1")
    shown, _ = capture.communicate(timeout=120)
    assert capture.returncode == 0 and shown.count("ICMP echo") == 2, shown


def test_wireguard(server):
    good(server, "ip", "link", "add", "wg0", "type", "wireguard")
    key = good(server, "bash", "-c", "umask 077; wg genkey | tee /run/key | wg pubkey").strip()
    good(server, "wg", "set", "wg0", "private-key", "/run/key", "listen-port", "5555")
    assert f"public key: {key}" in good(server, "wg", "show", "wg0")


def test_file_systems(server):
    """mount, df, btrfs, cryptsetup: mounts and devices stay between commands."""
    good(server, "bash", "-c", "truncate -s 200M /tmp/b && mkfs.btrfs -q /tmp/b")
    good(server, "mkdir", "-p", "/srv/b")
    good(server, "mount", "-o", "loop", "/tmp/b", "/srv/b")
    good(server, "btrfs", "subvolume", "create", "/srv/b/first")
    assert "first" in good(server, "btrfs", "subvolume", "list", "/srv/b")
    assert "/srv/b" in good(server, "df", "-h", "/srv/b")
    assert "/srv/b" in good(server, "findmnt", "-t", "btrfs")
    good(server, "umount", "/srv/b")
    make = ("truncate -s 40M /tmp/c; echo -n secret > /run/pass; cryptsetup -q luksFormat "
            "--pbkdf pbkdf2 --pbkdf-force-iterations 1000 /tmp/c /run/pass")
    good(server, "bash", "-c", make)
    good(server, "mount", "-t", "devtmpfs", "none", "/dev")
    opened = server.run("cryptsetup", "open", "--key-file", "/run/pass", "/tmp/c", "vault",
                        options=("-e", "DM_DISABLE_UDEV=1"))
    assert opened.code == 0, opened
    good(server, "bash", "-c", "mkfs.ext4 -q /dev/mapper/vault && mount /dev/mapper/vault /srv/b")
    assert "/dev/mapper/vault" in good(server, "df", "/srv/b")
    good(server, "umount", "/srv/b")
    closed = server.run("cryptsetup", "close", "vault", options=("-e", "DM_DISABLE_UDEV=1"))
    assert closed.code == 0, closed
    good(server, "umount", "/dev")


def test_a_shell_at_a_terminal(server):
    with Terminal(*server.command("bash", "--norc")) as terminal:
        terminal.type(b"echo $((6*7))-; tty\n")
        terminal.expect(b"42-")
        terminal.expect(b"/dev/pts/")
        terminal.type(b"exit 4\n")
        assert terminal.running.wait(60) == 4


# What a user without rights inside may do on any Linux, and a word of the output.
ALLOWED = (("id -u", "1000"), ("ip -br link", "lo"), ("ss -tuna", "State"),
           ("tc qdisc show dev v0", "noqueue"), ("ping -c 1 10.9.0.1", " 0% packet loss"),
           ("ethtool -i v0", "driver: veth"), ("df /srv/b", "/srv/b"),
           ("btrfs filesystem usage /srv/b", "Device size"), ("tcpdump --version", "libpcap"),
           ("cryptsetup luksUUID /srv/b/vault", "-"), ("bash -c pwd", "/"))
REFUSED = ("ip link add type dummy", "nft add table x",
           "tc qdisc add dev v0 root netem delay 1ms", "wg set wg0 listen-port 1",
           "ethtool -K v0 tso off", "tcpdump -c 1 -i lo", "mount -t tmpfs none /mnt",
           "umount /srv/b", "btrfs subvolume create /srv/b/x", "touch /etc/x",
           "cryptsetup open --key-file /dev/null /srv/b/vault v")


def test_another_user_may_look_and_not_change(image):
    with serving_image(image, 1000) as server, as_nobody() as nobody:
        for line in ("ip link add v0 type veth peer name v1", "ip addr add 10.9.0.1/24 dev v0",
                     "ip link set v0 up", "ip link add wg0 type wireguard", "mkdir /srv/b",
                     "truncate -s 200M /tmp/b", "mkfs.btrfs -q /tmp/b",
                     "mount -o loop /tmp/b /srv/b", "truncate -s 40M /srv/b/vault"):
            good(server, *line.split())
        good(server, "bash", "-c", "echo -n secret > /run/pass; cryptsetup -q luksFormat --pbkdf "
             "pbkdf2 --pbkdf-force-iterations 1000 /srv/b/vault /run/pass")
        another = ServerOfAnother(server.path, nobody)
        for line, word in ALLOWED:
            done = another.run(*line.split())
            assert done.code == 0 and word in done.out + done.err, done
        for line in REFUSED:
            refused = another.run(*line.split())
            # The program has run, and has been refused.
            assert 0 < refused.code < 125, refused
        with Terminal(*another.command("bash", "--norc")) as terminal:
            terminal.type(b"echo $((6*7))-; exit 4\n")
            terminal.expect(b"42-")
            assert terminal.running.wait(60) == 4
        # Root of a user namespace may do more, but there alone.
        own = another.run("unshare", "-Urnm", "bash", "-c",
                          "ip link add d0 type dummy && mount -t tmpfs none /mnt && ip -br link")
        assert own.code == 0 and "d0" in own.out, own
        assert "d0" not in good(server, "ip", "-br", "link")
