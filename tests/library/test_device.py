# SPDX-License-Identifier: GPL-2.0-only
"""Drivers of PCI devices, in a kernel on the platform hypercall/mock.

One device is virtio_rng.c: Linux's own driver is linked into the kernel that is built for the
suites. The other devices are memory_device.c and port_device.c: their drivers are the modules in
memory_driver/, which check what drivers can do. Everything below the drivers (PCI, MSI, DMA, device
memory, ports) is in each kernel.
"""

import os
import re

import pytest

from library import test_capi as capi
from library.test_mock import MOCK, PLATFORM, image_of
from support import modules

SUITES = modules.libraries_of(modules.BASE_SUITES)
SOURCES = ["device_test.c", "device_bed.c", "virtio_rng.c", "memory_device.c", "pci_config.c"]
CASES = ["transfers", "transfers-2", "early", "unknown", "unbind", "affinity", "not-pinned",
         "no-dma", "old-table", "short-table", "bus", "borders", "halt", "halt-2", "two-kernels",
         "wrong-extents", "many-extents", "wrong-window"]
# Those of the module.
DRIVER_CASES = ["memory", "memory-mapped", "memory-of-two", "masks", "resource",
                "halt-order"]
PORT_CASES = ["ports", "no-ports", "port-windows", "bounce", "covered", "no-devices"]


@pytest.fixture(scope="module", name="device")
def device_program(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("device") / "device_test"),
                          [*SOURCES, *PLATFORM],
                          "-I", MOCK, "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.mark.parametrize("case", CASES)
def test_device(device, case):
    assert capi.run(device, image_of(SUITES), case, timeout=120) == "done\n"


@pytest.fixture(scope="module", name="ports")
def port_program(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("ports") / "port_test"),
                          ["port_test.c", "port_device.c", "device_bed.c", "pci_config.c",
                           *PLATFORM],
                          "-I", MOCK, "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.fixture(scope="module", name="drivers")
def driver_modules(tmp_path_factory):
    """The directory with the modules."""
    image_of(SUITES)
    directory = str(tmp_path_factory.mktemp("memory_driver"))
    modules.build(os.path.join(capi.HERE, "memory_driver"), directory, modules.BASE_SUITES)
    return directory


@pytest.mark.parametrize("case", DRIVER_CASES)
def test_driver(device, drivers, case):
    """Where the host maps device memory, no access is a hypercall; elsewhere each access is."""
    driver = os.path.join(drivers, "memory_driver.ko")
    assert capi.run(device, image_of(SUITES), case, driver, timeout=120) == "done\n"


@pytest.mark.parametrize("case", PORT_CASES)
def test_ports(ports, drivers, case):
    """Ports, and DMA of a device that reaches the lower 4 GB of the bus only."""
    driver = os.path.join(drivers, "port_driver.ko")
    assert capi.run(ports, image_of(SUITES), case, driver, timeout=120) == "done\n"


def fences(directory: str, function: str) -> set:
    """The instructions of a function of the module that order memory."""
    code = capi.run("objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}",
                    os.path.join(directory, "memory_driver.ko"))
    assert f"<{function}>:" in code
    return set(re.findall(r"\b(?:[lms]fence|lock)\b", code))


def test_barriers(drivers):
    """wmb() and its relatives order write-combining memory. An ordinary access, and barriers
    between processors or for DMA, cost no instruction.
    """
    assert fences(drivers, "memory_driver_ordered") == {"sfence", "lfence", "mfence"}
    assert fences(drivers, "memory_driver_unordered") == set()
