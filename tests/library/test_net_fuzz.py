# SPDX-License-Identifier: GPL-2.0-only
"""A kernel receives random and mutated frames, from a hub and from a tap. It reports nothing, and
its network works after that."""

import os
import subprocess

import pytest

from library import test_capi as capi
from support import host, net_namespaces

NET = os.path.join(capi.DEVICES, "net")
FRAMES, MANY = 20_000, 1_000_000
CHECKED = "net-builtin-asan-ubsan"
WITHOUT = "make test-long PARTS=net-builtin-asan-ubsan has not been run"

KERNELS = [
    pytest.param("", FRAMES, id="shipped"),
    pytest.param(CHECKED, MANY, id="checked", marks=[
        pytest.mark.long,
        pytest.mark.skipif(not os.path.exists(os.path.join(capi.LIBRARIES, CHECKED)),
                           reason=WITHOUT)]),
]


@pytest.fixture(name="sender", scope="module")
def built_sender(tmp_path_factory):
    hub = sorted(os.path.join(NET, name) for name in os.listdir(NET)
                 if name.startswith("hub") and name.endswith(".c"))
    return capi.compile_c(str(tmp_path_factory.mktemp("fuzz") / "sender"),
                          ["net_fuzz_sender.c", "net_fuzz_frames.c", "net_port.c", "net_host.c",
                           *hub, os.path.join(NET, "deliver.c"),
                           os.path.join(capi.PLATFORM, "descriptor.c"),
                           os.path.join(capi.PLATFORM, "fork_owner.c")],
                          "-I", NET, "-I", capi.DEVICES, "-I", capi.PLATFORM,
                          "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.fixture(name="receiver", scope="module")
def built_receiver(tmp_path_factory):
    return capi.library_program(str(tmp_path_factory.mktemp("fuzz")), "net_fuzz_test.c",
                                "net_links.c", "net_message.c", "client.c")


def fuzz(receiver, sender, kernel, frames):
    """Most frames must arrive: some have headers that the kernel's driver refuses."""
    environment = {**os.environ, "LD_LIBRARY_PATH": os.path.join(capi.LIBRARIES, kernel)}
    with subprocess.Popen(receiver, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        sent = int(capi.run(*sender, str(frames), str(frames + 1), timeout=3600))
        output, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert sent > frames / 2
    assert int(output) > frames / 2


@pytest.mark.parametrize("kernel,frames", KERNELS)
def test_frames_of_a_hub(work, receiver, sender, kernel, frames):
    hub = os.path.join(work, "hub")
    fuzz([receiver, f"hub:{hub}"], [sender, "hub", hub], kernel, frames)


@pytest.mark.needs("ip")
@pytest.mark.needs_root
@pytest.mark.parametrize("kernel,frames", KERNELS)
def test_frames_of_a_tap(receiver, sender, kernel, frames):
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("the host has no /dev/net/tun")
    with net_namespaces.new("fuzz") as inside:
        inside.run("sh", "-c", "ip tuntap add dev fuzz0 mode tap && ip link set fuzz0 up")
        fuzz(inside.command(receiver, "tap:fuzz0"), inside.command(sender, "packet", "fuzz0"),
             kernel, frames)
