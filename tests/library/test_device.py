# SPDX-License-Identifier: GPL-2.0-only
"""Drivers of PCI devices, in a kernel on the platform hypercall/mock.

One device is virtio_rng.c: Linux's own driver is linked into the kernel that is built for the
suites. The other device is memory_device.c: its driver is the module in memory_driver/, which
checks what drivers can do. Everything below the drivers (PCI, MSI, DMA, device memory) is in each
kernel.
"""

import os

import pytest

from library import test_capi as capi
from library.test_mock import MOCK, PLATFORM, image_of
from support import modules

SUITES = modules.libraries_of(modules.BASE_SUITES)
BED = ["device_bed.c", "memory_device.c", "pci_config.c"]
SOURCES = ["device_test.c", "virtio_rng.c", *BED]
CASES = ["transfers", "transfers-2", "early", "unknown", "unbind", "affinity", "not-pinned",
         "no-dma", "old-table", "short-table", "bus", "borders", "halt", "halt-2", "two-kernels",
         "wrong-extents", "many-extents", "wrong-window"]
# Those of the module.
DRIVER_CASES = ["memory", "memory-mapped", "memory-of-two", "masks", "resource",
                "halt-order"]


@pytest.fixture(scope="module", name="device")
def device_program(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("device") / "device_test"),
                          [*SOURCES, *PLATFORM],
                          "-I", MOCK, "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.mark.parametrize("case", CASES)
def test_device(device, case):
    assert capi.run(device, image_of(SUITES), case, timeout=120) == "done\n"


@pytest.fixture(scope="module", name="driver")
def driver_module(tmp_path_factory):
    image_of(SUITES)
    directory = str(tmp_path_factory.mktemp("memory_driver"))
    modules.build(os.path.join(capi.HERE, "memory_driver"), directory, modules.BASE_SUITES)
    return os.path.join(directory, "memory_driver.ko")


@pytest.mark.parametrize("case", DRIVER_CASES)
def test_driver(device, driver, case):
    """Where the host maps device memory, no access is a hypercall; elsewhere each access is."""
    assert capi.run(device, image_of(SUITES), case, driver, timeout=120) == "done\n"
