# SPDX-License-Identifier: GPL-2.0-only
"""Kernels with network interfaces: transfers with checked contents between two kernels, and between
a kernel and the host."""

import os
import sys

import pytest

from library.test_capi import HERE, LIBRARIES, library_program, run


@pytest.fixture(name="program", scope="module")
def built(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("net")), "net_test.c", "client.c")


@pytest.mark.parametrize("vcpus", [1, 2, 4])
@pytest.mark.parametrize("mtu", [1500, 65521])
def test_two_kernels_on_a_hub(work, program, vcpus, mtu):
    hub = f"hub:{os.path.join(work, 'hub')}"
    run(program, "pair", f"{hub},ip=10.1.0.1/24,mtu={mtu}", "10.1.0.1",
        f"{hub},ip=10.1.0.2/24,mtu={mtu}", str(vcpus), str(64 << 20), LD_LIBRARY_PATH=LIBRARIES,
        timeout=600)


@pytest.mark.needs("ip", "unshare")
@pytest.mark.needs_root
def test_the_host_on_a_tap(program):
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("the host has no /dev/net/tun")
    run(sys.executable, os.path.join(HERE, "net_tap_peer.py"), program, LD_LIBRARY_PATH=LIBRARIES,
        timeout=900)
