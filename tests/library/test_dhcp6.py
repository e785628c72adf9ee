# SPDX-License-Identifier: GPL-2.0-only
"""The DHCPv6 client of the C API: its parser alone, the client against a server in the kernel, and
against dnsmasq on a tap."""

import contextlib
import os
import signal
import subprocess

import pytest

from library.test_capi import (LIBRARIES, REPOSITORY, SANITIZERS, compile_c, library_program, run)
from support import net_namespaces
from support.patience import wait_until

LIB = os.path.join(REPOSITORY, "lib")
# Of the tap, and of the client.
MAC = "02:00:00:00:06:01"
NETWORK, SERVER = "fd00:9::", "fd00:9::53"


@pytest.fixture(name="tester", scope="module")
def fixture_tester(tmp_path_factory):
    program = library_program(str(tmp_path_factory.mktemp("dhcp6")), "dhcp6_test.c",
                              "dhcp6_server.c", "lease_cases.c", "net_far_end.c",
                              "net_links.c", "net_message.c", "client.c")

    def test(*arguments):
        return run(program, *arguments, timeout=600, LD_LIBRARY_PATH=LIBRARIES)
    return test


@pytest.mark.parametrize("count", [300000, pytest.param(10000000, marks=pytest.mark.long)])
def test_parser(work, count):
    sources = [os.path.join(LIB, name) for name in ("dhcp6_message.c", "net_options.c", "error.c")]
    program = compile_c(os.path.join(work, "parser"), ["dhcp6_message_test.c", *sources],
                        "-I", LIB, "-I", os.path.join(LIB, "include"),
                        "-I", os.path.join(REPOSITORY, "hypercall", "include"),
                        *SANITIZERS["address"])
    run(program, str(count), timeout=1200)


@pytest.mark.parametrize("case", ["lease", "choice", "renewal", "expiry", "refused",
                                  "refused-renewal", "silent", "hostile", "managed",
                                  "managed-silent", "information", "flags", "interrupt", "halt"])
def test_client(tester, case):
    tester(case)


@pytest.fixture(name="show", scope="module")
def fixture_show(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("dhcp6")), "net_show.c", "net_links.c",
                           "net_message.c", "client.c")


@contextlib.contextmanager
def dnsmasq(namespace, work, *options):
    """A DHCPv6 server and router of the distribution. Yields the path of its list of leases."""
    leases, log = os.path.join(work, "leases"), os.path.join(work, "dnsmasq.log")
    command = namespace.command(
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--port=0",
        "--pid-file=", "--interface=tap0", "--bind-interfaces", "--enable-ra",
        "--ra-param=tap0,4", "--log-dhcp", f"--log-facility={log}",
        f"--dhcp-leasefile={leases}", f"--dhcp-option=option6:dns-server,[{SERVER}]", *options)
    with subprocess.Popen(command) as server:
        try:
            yield leases
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)


@contextlib.contextmanager
def tap():
    """A namespace with a tap, which has an address of the network."""
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("the host has no /dev/net/tun")
    with net_namespaces.new("dhcp6") as namespace:
        namespace.ip("tuntap", "add", "dev", "tap0", "mode", "tap")
        namespace.ip("address", "add", f"{NETWORK}1/64", "dev", "tap0", "nodad")
        namespace.ip("link", "set", "tap0", "up")
        yield namespace


@contextlib.contextmanager
def shown(namespace, show, words):
    """Yields what the client prints, while the interface is there."""
    environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES}
    with subprocess.Popen(namespace.command(show, f"tap:tap0,mac={MAC},{words}"),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=environment) as client:
        lines = []
        for line in client.stdout:
            if line == "ready\n":
                break
            lines.append(line)
        yield "".join(lines)
        client.stdin.close()
        assert client.wait(timeout=300) == 0


def leased(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="ascii") as leases:
        return leases.read()


@pytest.mark.needs("ip", "dnsmasq")
@pytest.mark.needs_root
@pytest.mark.parametrize("words", ["dhcp6=120", "slaac=120"])
def test_address_of_dnsmasq(work, show, words):
    """By the word, and because the router's announcement says so."""
    with tap() as namespace, \
            dnsmasq(namespace, work, f"--dhcp-range={NETWORK}1000,{NETWORK}1000,64,2m") as leases:
        with shown(namespace, show, words) as output:
            assert output.startswith("0 \n"), output
            # All 128 bits are the prefix; scope 0 is global.
            assert "fd000009000000000000000000001000 02 80 00" in output
            assert f"nameserver {SERVER}\n" in output
            wait_until(lambda: f"{NETWORK}1000" in leased(leases), "dnsmasq has the lease")
            assert MAC in leased(leases)
        # The client has released it.
        wait_until(lambda: f"{NETWORK}1000" not in leased(leases), "dnsmasq drops the lease")


@pytest.mark.needs("ip", "dnsmasq")
@pytest.mark.needs_root
def test_information_of_dnsmasq(work, show):
    """The address comes from the router, the name server by DHCPv6."""
    with tap() as namespace, \
            dnsmasq(namespace, work, f"--dhcp-range={NETWORK},ra-stateless,64,2m") as leases, \
            shown(namespace, show, "slaac=120") as output:
        assert output.startswith("0 \n"), output
        assert "fd000009000000000000" in output
        assert f"nameserver {SERVER}\n" in output
        assert f"{NETWORK}1" not in leased(leases)


@pytest.mark.needs("ip")
@pytest.mark.needs_root
def test_nobody_answers(show):
    with tap() as namespace, shown(namespace, show, "dhcp6=3") as output:
        assert output.startswith("-110 eth0: dhcp6: no server has given a lease in 3 seconds\n")
