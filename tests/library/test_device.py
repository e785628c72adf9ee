# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own driver of a PCI device, in a kernel on the platform hypercall/mock.

The device is virtio_rng.c; its driver is linked into the kernel that is built for the suites.
Everything below the driver (PCI, MSI, DMA, device memory) is in each kernel.
"""

import glob
import os

import pytest

from library import test_capi as capi
from library.test_mock import MOCK, image_of

SUITES = os.path.join(capi.LIBRARIES, "base-suites")
CASES = ["transfers", "transfers-2", "early", "unknown", "unbind", "affinity", "not-pinned",
         "no-dma", "old-table", "short-table", "bus", "borders"]


@pytest.fixture(scope="module", name="device")
def device_program(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("device") / "device_test"),
                          ["device_test.c", "virtio_rng.c",
                           *sorted(glob.glob(os.path.join(MOCK, "*.c")))],
                          "-I", MOCK, "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.mark.parametrize("case", CASES)
def test_device(device, case):
    assert capi.run(device, image_of(SUITES), case, timeout=120) == "done\n"
