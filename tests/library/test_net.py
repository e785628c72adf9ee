# SPDX-License-Identifier: GPL-2.0-only
"""Kernels with network interfaces: transfers with checked contents between two kernels, and between
a kernel and the host."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from library.test_capi import HERE, LIBRARIES, library_program, run


@pytest.fixture(name="program", scope="module")
def built(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("net")), "net_test.c", "stream.c",
                           "client.c")


@pytest.mark.parametrize("vcpus", [1, 2, 4])
@pytest.mark.parametrize("mtu", [1500, 65521])
def test_two_kernels_on_a_hub(work, program, vcpus, mtu):
    hub = f"hub:{os.path.join(work, 'hub')}"
    run(program, "pair", f"{hub},ip=10.1.0.1/24,mtu={mtu}", "10.1.0.1",
        f"{hub},ip=10.1.0.2/24,mtu={mtu}", str(vcpus), str(64 << 20), LD_LIBRARY_PATH=LIBRARIES,
        timeout=600)


@pytest.mark.parametrize("megabytes", [16, 256, 2048])
def test_sockets_may_use_memory_that_is_still_to_come(work, megabytes):
    """A kernel boots with 16 MB. Linux's own rules apply to the memory that it may get."""
    program = library_program(work, "tcp_memory_test.c", "client.c")
    settings = {}
    for line in run(program, str(megabytes), LD_LIBRARY_PATH=LIBRARIES).splitlines():
        name, *values = line.split()
        settings[name] = [int(value) for value in values]
    pages, share = megabytes * 256, megabytes * (1 << 20) // 128
    assert settings["tcp_mem"][1] == pages // 16
    assert settings["udp_mem"][1] == pages // 8
    assert settings["tcp_rmem"][2] == max(128 << 10, min(6 << 20, share))
    assert settings["tcp_wmem"][2] == max(64 << 10, min(4 << 20, share))
    assert settings["tcp_max_orphans"] == [megabytes * 4]
    assert settings["tcp_max_tw_buckets"] == [megabytes * 4]
    # An eighth of the memory may be for threads, which have 1 KB each.
    assert settings["threads-max"] == [megabytes * 128]
    # One of them takes less than 256 bytes.
    assert settings["max_user_watches"][0] > (megabytes << 20) // 25 // 256


@pytest.mark.needs("ip", "unshare")
@pytest.mark.needs_root
def test_the_host_on_a_tap(program):
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("the host has no /dev/net/tun")
    run(sys.executable, os.path.join(HERE, "net_tap_peer.py"), program, LD_LIBRARY_PATH=LIBRARIES,
        timeout=900)


HOST_SOURCES = ("net_host_test.c", "net_host_transfers.c", "net_host_connections.c",
                "net_host_waits.c", "net_host_options.c", "net_host_bed.c", "stream.c",
                "client.c")


@pytest.mark.parametrize("vcpus", [1, 2, 4])
def test_sockets_of_the_host(work, vcpus):
    program = library_program(work, *HOST_SOURCES)
    run(program, str(vcpus), str(8 << 20), f"hub:{os.path.join(work, 'hub')}",
        LD_LIBRARY_PATH=LIBRARIES, timeout=600)


PROTOCOLS = ("vlan", "vxlan", "wireguard", "bridge", "bond", "ipsec", "mptcp", "sctp", "nftables",
             "tls", "bpf")


@pytest.fixture(name="protocols", scope="module")
def built_protocols(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("net")), "net_protocols_test.c",
                           "net_ipsec.c", "net_nftables.c", "net_wireguard.c", "net_links.c",
                           "net_message.c", "stream.c", "client.c")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocols_between_kernels(work, protocols, protocol):
    """Two kernels in two processes, on a hub: checked contents pass through each of these."""
    hub = os.path.join(work, "hub")
    with ThreadPoolExecutor() as pool:
        sides = [pool.submit(run, protocols, protocol, str(side), hub, LD_LIBRARY_PATH=LIBRARIES)
                 for side in (1, 2)]
        for side in sides:
            side.result()


KINDS = ("dummy", "bridge", "bond", "ifb", "nlmon", "wireguard", "veth")
# Families, types and protocols: TCP, MPTCP, SCTP, IPv6, packets, UNIX, vsock, netlink of IPsec and
# of the packet filter.
SOCKETS = ("2.1.0", "2.1.262", "2.1.132", "10.1.0", "10.1.262", "17.3.768", "1.1.0", "40.1.0",
           "16.3.6", "16.3.12")
COMPONENTS = ("8021q", "macvlan", "ipvlan", "vxlan", "geneve", "vrf", "tls", "esp4", "esp6", "ah4",
              "xfrm_interface", "nf_tables", "nf_conntrack", "nft_ct", "nft_nat", "nft_masq",
              "nft_redir", "nft_reject_inet", "nft_limit", "nft_fib_inet", "sch_netem", "sch_htb",
              "sch_tbf", "sch_fq", "sch_fq_codel", "sch_cake", "sch_ingress", "cls_u32",
              "cls_flower", "act_mirred", "act_police", "tcp_bbr", "tcp_dctcp", "tun", "sit",
              "ipip", "ip_gre", "ip6_tunnel", "ip6_gre")


def test_components_of_the_network(work):
    program = library_program(work, "net_kinds_test.c", "net_links.c", "net_message.c", "client.c")
    run(program, ",".join(KINDS), ",".join(SOCKETS), ",".join(COMPONENTS),
        LD_LIBRARY_PATH=LIBRARIES)


@pytest.mark.parametrize("seconds", [15, pytest.param(300, marks=[pytest.mark.long,
                                                                  pytest.mark.timeout(1200)])])
def test_connections_come_and_go(work, seconds):
    """2,000 at a time. Memory returns to its level."""
    program = library_program(work, "net_soak_test.c", "client.c")
    run(program, str(seconds), os.path.join(work, "hub"), LD_LIBRARY_PATH=LIBRARIES,
        timeout=seconds + 600)
