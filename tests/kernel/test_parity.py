# SPDX-License-Identifier: GPL-2.0-only
"""Parity of RAID-5 and RAID-6: Linux's x86 code runs with the processor's vector units
(kernel/arch/core/vector.c), and computes what a computation byte by byte does.
"""

import os
import re

import pytest

from support import host, modules, program

SOURCE = os.path.join(program.REPOSITORY, "tests", "kernel", "parity")
AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl"}
# Modules that hide features of the processor, and which of these they leave.
HIDES = {
    None: AVX512 | {"ssse3", "avx", "avx2"},
    "only_avx2": {"ssse3", "avx", "avx2"},
    "only_sse2": set(),
}


def expected(module) -> dict:
    """The code that Linux chooses without a measurement: of generation, of recovery, of sums."""
    has = host.processor_features() & HIDES[module]
    if has >= {"avx2"} | AVX512:
        return {"generation": "avx512x4", "recovery": "avx512x2", "sums": "avx"}
    if "avx2" in has:
        return {"generation": "avx2x4", "recovery": "avx2x2", "sums": "avx"}
    return {
        "generation": "sse2x4",
        "recovery": "ssse3x2" if "ssse3" in has else "intx1",
        "sums": "avx" if "avx" in has else "prefetch64-sse",
    }


@pytest.fixture(name="built", scope="module")
def fixture_built(tmp_path_factory) -> str:
    directory = str(tmp_path_factory.mktemp("parity"))
    modules.build(SOURCE, directory)
    modules.compile_runner(directory)
    return directory


@pytest.mark.parametrize("module", HIDES)
def test_parity(built, module):
    run = modules.Run(os.path.join(built, "run_modules"), [
        *([os.path.join(built, f"{module}.ko")] if module else []),
        *modules.needed_by("raid6_pq", "xor"),
        os.path.join(built, "parity_test.ko")
    ], timeout=120)
    assert run.result == 0, run.tail
    assert "all parities are right" in run.log
    found = re.search(r"(\d+) interrupts in the middle, a thread ran (\d+) times, (\d+) too early",
                      run.log)
    # The thread has to wait until the computation is over: preemption is off.
    assert int(found[1]) > 0 and int(found[2]) > 0 and int(found[3]) == 0, run.tail
    has_avx = "avx" in host.processor_features() & HIDES[module]
    assert has_avx == ("upper halves are clear" in run.log), run.tail
    assert expected(module) == {
        "generation": re.search(r"raid6: skipped pq benchmark and selected (\S+)", run.log)[1],
        "recovery": re.search(r"raid6: using (\S+) recovery algorithm", run.log)[1],
        "sums": re.search(r"xor: automatically using best checksumming function +(\S+)",
                          run.log)[1],
    }
