# SPDX-License-Identifier: GPL-2.0-only
"""Network interfaces by the C API: descriptions, and what becomes of them in the kernel."""

import pytest

from library.test_capi import LIBRARIES, library_program, run

EINVAL, ENODEV = -22, -19

# A description that is refused, and what the reason says.
REFUSED = {
    "": "no such kind",
    "eth": "eth: no such kind",
    "user:x": "write user, user:passt or user:slirp",
    "hub": "hub: the target is missing",
    "hub:": "hub: the target is missing",
    "user,": "(nothing): unknown word",
    "user,ips=1": "ips=1: unknown word",
    "user,=1": "=1: unknown word",
    "user,ip": "ip: the value is missing",
    "user,ip=10.0.0.2": "ip=10.0.0.2: write the length",
    "user,ip=10.0.0.256/24": "ip=10.0.0.256/24: not an IPv4",
    "user,ip=10.0.0/24": "not an IPv4",
    "user,ip=10.0.0.2/33": "from 1 to 32",
    "user,ip=fd00::1/129": "from 1 to 128",
    "user,ip=10.0.0.2/": "from 1 to 32",
    "user,ip=10.0.0.2/+8": "from 1 to 32",
    "user,ip=10.0.0.2/0": "from 1 to 32",
    "user,ip=10.0.0.0/24": "ip=10.0.0.0/24: not the address of a host",
    "user,ip=10.0.0.255/24": "not the address of a host",
    "user,ip=224.0.0.1/24": "not the address of a host",
    "user,ip=ff02::1/64": "not the address of a host",
    "user,ip=::/64": "not the address of a host",
    "user,ip=10.0.0.2/24,ip=10.0.0.2/16": "ip=10.0.0.2/16: this address is there twice",
    "user,gw=10.0.0.1": "gw=10.0.0.1: no address of the interface",
    "user,ip=10.0.0.2/24,gw=10.0.1.1": "gw=10.0.1.1: no address of the interface",
    "user,ip=10.0.0.2/25,gw=10.0.0.129": "no address of the interface",
    "user,ip=fd00::2/64,gw=fd01::1": "gw=fd01::1: no address of the interface",
    "user,ip=fd00::2/64,gw=10.0.0.1": "no address of the interface",
    "user,ip=10.0.0.2/24,gw=10.0.0.2": "own address",
    "user,ip=10.0.0.2/24,gw=10.0.0.1,gw=10.0.0.3": "gw=10.0.0.3: there is a gateway for IPv4",
    "user,gw=host": "gw=host: not an IPv4",
    "user,dns=host": "dns=host: not an IPv4",
    "user,dns=1.1.1.1,dns=1.1.1.1": "this server is there twice",
    "user,mac=02:00:00:00:00": "six bytes",
    "user,mac=02:00:00:00:00:01:02": "six bytes",
    "user,mac=2:0:0:0:0:1": "six bytes",
    "user,mac=03:00:00:00:00:01": "even first byte",
    "user,mac=00:00:00:00:00:00": "even first byte",
    "user,mac=02:00:00:00:00:01,mac=02:00:00:00:00:01": "this word is there twice",
    "user,mtu=67": "mtu=67: the MTU is a number from 68 to 65535",
    "user,mtu=65536": "the MTU is a number",
    "user,mtu=1e3": "the MTU is a number",
    "user,mtu=99999999999999999999": "the MTU is a number",
    "user,mtu=1279,ip=fd00::1/64": "mtu=1279: IPv6 needs",
    "user,queues=0": "1 to 16 queues",
    "user,queues=17": "1 to 16 queues",
    "user,name=": "name=: a name has",
    "user,name=a-name-too-long-": "a name has",
    "user,name=a/b": "a name has",
    "user,name=..": "a name has",
    "user,up=1": "up=1: this word has no value",
    "user,up,down": "contradict",
    "user,up,up": "up: this word is there twice",
    "user,dhcp,down": "dhcp, down:",
    "user,dhcp=0": "seconds",
    "user,dhcp6=3601": "dhcp6=3601: the time is a number of seconds from 1 to 3600",
    "user,dhcp6,down": "dhcp6, down:",
    "user,dhcp6,mtu=1279": "mtu=1279: IPv6 needs",
    "user,slaac=x": "seconds",
    "user,ip=10.0.0.2/24,gw=10.0.0.1,down": "gw, down:",
    "tap:tap0,forward=80:80": "forward=80:80: a tap interface has no forwards",
    "user,pcap=": "write the path",
    "user,pcap=a\\": "ends with a backslash",
    "user,a\nb": "a?b: unknown word",
    "user,pcap=" + "a" * 4096: "at most 4095",
    "user" + ",ip=10.0.0.2/24" * 2: "twice",
    "user" + "".join(f",ip=10.0.{n}.2/24" for n in range(17)): "16 addresses at most",
    "user" + "".join(f",dns=10.0.{n}.2" for n in range(9)): "8 name servers at most",
}

# Right ones: refused only because no kernel runs.
RIGHT = [
    "user",
    "tap",
    "tap:tap0,ip=10.0.0.2/24,ip=fd00::2/64,gw=10.0.0.1,gw=fd00::1,mac=02:00:00:00:00:01,mtu=9000,"
    "queues=2,name=eth0,dhcp,dns=10.0.0.1",
    "hub:/run/lab\\,one,ip=10.0.0.2/31,gw=10.0.0.3",
    # The platform reads forwards.
    "user,forward=80",
    "user,forward=8080:80,forward=udp:53:5353,pcap=/tmp/a\\,b.pcapng",
    "user,forward=127.0.0.1:8080:80,forward=tcp:[::1]:8080:80",
    "pcap:C:\\\\file,slaac=5,dhcp6=7",
    "user,ip=fd00::2/64,gw=fe80::1",
    "user,ip=10.0.0.2/32,down",
]

CHANGES_REFUSED = {
    "queues=2": "queues=2: this is decided when",
    "forward=80:80": "this is decided when",
    "pcap=x": "this is decided when",
    "user": "user: unknown word",
    "": "(nothing): unknown word",
}


@pytest.fixture(name="tester", scope="module")
def fixture_tester(tmp_path_factory):
    program = library_program(str(tmp_path_factory.mktemp("net")), "net_config_test.c",
                              "net_links.c", "net_message.c", "client.c")

    def test(*arguments):
        return run(program, *arguments, timeout=120, LD_LIBRARY_PATH=LIBRARIES)
    return test


def results(tester, call, descriptions):
    """Yields each description with the result and the reason of the call."""
    for description, line in zip(descriptions, tester(call, *descriptions).splitlines(),
                                 strict=True):
        result, _, reason = line.partition(" ")
        yield description, int(result), reason


def test_wrong_descriptions(tester):
    for description, result, reason in results(tester, "add", REFUSED):
        assert result == EINVAL and REFUSED[description] in reason, (description, result, reason)


def test_right_descriptions(tester):
    for description, result, reason in results(tester, "add", RIGHT):
        assert (result, reason) == (ENODEV, "no kernel runs"), description


def test_wrong_changes(tester):
    for changes, result, reason in results(tester, "configure", CHANGES_REFUSED):
        assert result == EINVAL and CHANGES_REFUSED[changes] in reason, (changes, result, reason)


@pytest.mark.parametrize("case", ["addresses", "gateways", "changes", "undone", "servers",
                                  "foreign-servers", "namespaces", "capture-file", "slaac",
                                  "slaac-in-vain", "link-at-once", "down-and-up", "halt",
                                  "instances"])
def test_configuration(tester, case):
    tester(case)
