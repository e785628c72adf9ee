# SPDX-License-Identifier: GPL-2.0-only
"""Ciphers that are ours (kernel/arch/drivers/aesni.c) against Linux's portable ones, by a module: crypto/."""

import os

import pytest

from support import modules, program

SOURCE = os.path.join(program.REPOSITORY, "tests", "kernel", "crypto")

pytestmark = pytest.mark.skipif(" aes " not in open("/proc/cpuinfo", encoding="utf-8").read(), reason="the processor has no instructions for AES")


def test_same_as_the_portable_ones(tmp_path):
    modules.build(SOURCE, str(tmp_path))
    run = modules.Run(modules.compile_runner(str(tmp_path)), [*modules.needed_by("aes_generic", "xts", "cbc", "ecb"), *modules.needed_by("aesni"),
                                                              str(tmp_path / "aes_test.ko")], timeout=120)
    assert run.result == 0, run.tail
    assert run.log.count("rounds are equal") == 3, run.log
