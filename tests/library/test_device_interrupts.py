# SPDX-License-Identifier: GPL-2.0-only
"""Interrupts of PCI devices, in a kernel on the platform hypercall/mock.

The devices of pin_bus.c interrupt by pins or messages. Their driver is the module in pin_driver/.
"""

import os

import pytest

from library import test_capi as capi
from library.test_mock import MOCK, PLATFORM, image_of
from support import modules

SUITES = modules.libraries_of(modules.BASE_SUITES)
SOURCES = ["device_interrupt_test.c", "device_bed.c", "pin_bus.c", "pci_config.c"]
CASES = ["level", "level-threaded", "edge", "shared", "shared-threaded", "disabled", "spurious",
         "storm", "unrouted", "wrong-pin", "other-flags", "halt", "messages", "few-messages",
         "sets", "sets-messages"]


@pytest.fixture(scope="module", name="program")
def test_program(tmp_path_factory):
    return capi.compile_c(str(tmp_path_factory.mktemp("interrupts") / "device_interrupt_test"),
                          [*SOURCES, *PLATFORM],
                          "-I", MOCK, "-I", os.path.join(capi.REPOSITORY, "hypercall", "include"))


@pytest.fixture(scope="module", name="driver")
def driver_module(tmp_path_factory):
    image_of(SUITES)
    directory = str(tmp_path_factory.mktemp("pin_driver"))
    modules.build(os.path.join(capi.HERE, "pin_driver"), directory, modules.BASE_SUITES)
    return os.path.join(directory, "pin_driver.ko")


@pytest.mark.parametrize("case", CASES)
def test_interrupts(program, driver, case):
    assert capi.run(program, image_of(SUITES), case, driver, timeout=120) == "done\n"
