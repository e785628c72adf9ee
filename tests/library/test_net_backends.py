# SPDX-License-Identifier: GPL-2.0-only
"""Back-ends of network interfaces (devices/net) without a kernel: C programs test them."""

import glob
import os

import pytest

from library import test_capi as capi

NET = os.path.join(capi.DEVICES, "net")


def build(directory, back_end, tests, sanitizer):
    """Tests with one back-end and the device that stands in for a kernel's."""
    sources = sorted(glob.glob(os.path.join(NET, f"{back_end}*.c")))
    sources += [*(os.path.join(NET, f"{name}.c") for name in ("deliver", "report")),
                *(os.path.join(capi.PLATFORM, f"{name}.c") for name in
                  ("descriptor", "fork_owner"))]
    return capi.compile_c(os.path.join(directory, "program"),
                          [*tests, "net_port.c", "net_host.c", *sources], "-DOB_CHECKS",
                          "-I", NET, "-I", capi.DEVICES, "-I", capi.PLATFORM,
                          "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"),
                          *capi.SANITIZERS[sanitizer])


@pytest.mark.needs("ip")
@pytest.mark.needs_root
@pytest.mark.parametrize("test", ["net_tap_test.c", "net_tap_open_test.c", "net_tap_poll_test.c"])
@pytest.mark.parametrize("sanitizer", [capi.PLAIN, "address"])
def test_tap(work, test, sanitizer):
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("the host has no /dev/net/tun")
    capi.run(build(work, "tap", [test, "net_tap_bed.c"], sanitizer), timeout=600)


@pytest.mark.parametrize("test", ["net_hub_test.c", "net_hub_bad_test.c"])
@pytest.mark.parametrize("sanitizer", [capi.PLAIN, "address"])
def test_hub(work, test, sanitizer):
    program = build(work, "hub", [test, "net_hub_member.c"], sanitizer)
    capi.run(program, work, timeout=300)


def test_changes_of_the_taker_are_checked(work):
    program = capi.compile_c(os.path.join(work, "program"), ["net_taker_test.c"], "-DOB_CHECKS",
                             "-I", NET)
    capi.run(program)


@pytest.mark.parametrize("sanitizer", [capi.PLAIN, "address"])
def test_queues(work, sanitizer):
    program = capi.compile_c(os.path.join(work, "program"),
                             ["virtqueue_test.c", os.path.join(capi.DEVICES, "virtqueue.c")],
                             "-I", capi.DEVICES, "-I", capi.PLATFORM,
                             "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"),
                             *capi.SANITIZERS[sanitizer])
    capi.run(program, "100000")


@pytest.mark.parametrize("sanitizer", [capi.PLAIN, "address"])
def test_receivers(work, sanitizer):
    """Drivers with all sets of features, of which each gets frames that it can take."""
    device = [os.path.join(NET, f"{name}.c") for name in ("device", "control", "segment")]
    program = capi.compile_c(os.path.join(work, "program"),
                             ["net_receiver_test.c", "net_receiver_frames.c", "net_host.c",
                              *device, os.path.join(capi.DEVICES, "virtqueue.c")],
                             "-I", NET, "-I", capi.DEVICES, "-I", capi.PLATFORM,
                             "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"),
                             *capi.SANITIZERS[sanitizer])
    capi.run(program, "512", timeout=300)


@pytest.mark.parametrize("test, source", [
    (("net_bell_test.c", "net_host.c"), "bell.c"), (("net_hub_learn_test.c",), "hub_learn.c")])
@pytest.mark.parametrize("sanitizer", [capi.PLAIN, "address"])
def test_one_file(work, test, source, sanitizer):
    """A bell; the table of addresses of a hub."""
    program = capi.compile_c(os.path.join(work, "program"), [*test, os.path.join(NET, source)],
                             "-I", NET, "-I", capi.DEVICES, "-I", capi.PLATFORM,
                             "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"),
                             *capi.SANITIZERS[sanitizer])
    capi.run(program)
