# SPDX-License-Identifier: GPL-2.0-only
"""The DHCP client of the C API: its parser alone, and the client against a server in the kernel."""

import os

import pytest

from library.test_capi import (LIBRARIES, REPOSITORY, SANITIZERS, compile_c, library_program, run)

LIB = os.path.join(REPOSITORY, "lib")


@pytest.fixture(name="tester", scope="module")
def fixture_tester(tmp_path_factory):
    program = library_program(str(tmp_path_factory.mktemp("dhcp")), "dhcp_test.c",
                              "dhcp_server.c", "lease_cases.c", "net_far_end.c",
                              "net_links.c", "net_message.c", "client.c")

    def test(*arguments):
        return run(program, *arguments, timeout=120, LD_LIBRARY_PATH=LIBRARIES)
    return test


@pytest.mark.parametrize("count", [300000, pytest.param(10000000, marks=pytest.mark.long)])
def test_parser(work, count):
    sources = [os.path.join(LIB, name) for name in ("dhcp_message.c", "net_options.c", "error.c")]
    program = compile_c(os.path.join(work, "parser"), ["dhcp_message_test.c", *sources],
                        "-I", LIB, "-I", os.path.join(LIB, "include"),
                        "-I", os.path.join(REPOSITORY, "hypercall", "include"),
                        *SANITIZERS["address"])
    run(program, str(count), timeout=1200)


@pytest.mark.parametrize("case", ["lease", "routes", "gateway", "renewal", "expiry", "refused",
                                  "refused-renewal", "hostile", "descriptors", "interrupt", "halt",
                                  "fork", "link-goes", "down-and-up",
                                  "client-again"])
def test_client(tester, case):
    tester(case)
