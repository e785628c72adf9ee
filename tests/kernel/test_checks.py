# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own tests of the checks in a kernel that checks itself (DEBUG=1, SANITIZE=undefined): the
lock validator and the undefined behaviour sanitizer. SLUB's are a KUnit suite: test_kunit.py.

`tests/run --long` builds this kernel, in the smallest profile, before.
"""

import re
from collections import Counter

import pytest

from support import modules

pytestmark = [
    pytest.mark.long,
    pytest.mark.kernel_reports("the tests make mistakes that must be reported"),
    pytest.mark.skipif(
        not modules.is_built(modules.DEBUG_SUITES),
        reason="make library PROFILE=base DEBUG=1 SANITIZE=undefined SUITES=y"
        " has not been run")
]

# How test_ubsan.ko announces a mistake: a function, a word on it, and whether its check is on.
MISTAKE = re.compile(r"(test_ubsan_\w+) +(?:(\w[\w ]*\w) +)?\(CONFIG_(UBSAN_\w+)=([yn])\)")
# The mistakes by the check that must report each, and what the report is called.
CHECKED = {
    "UBSAN_SHIFT": (2, "shift-out-of-bounds"), "UBSAN_BOUNDS": (2, "array-index-out-of-bounds"),
    "UBSAN_BOOL": (1, "invalid-load"), "UBSAN_ENUM": (1, "invalid-load")
}
# Checks that are off, with the number of their mistakes: kernel/configs/ubsan.config.
OFF = {"UBSAN_SIGNED_WRAP": 4, "UBSAN_ALIGNMENT": 1}
# How many mistakes nothing reports although their check is on.
NOT_REPORTED = {
    # For gcc, an enum of C may have every value of its integer type.
    "UBSAN_ENUM": 1,
    # Linux is compiled with -fno-strict-overflow: a bit may be shifted out of a signed number.
    "UBSAN_SHIFT": 1
}


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return modules.compile_runner(str(tmp_path_factory.mktemp("checks")), modules.DEBUG_SUITES)


def test_ubsan(runner):
    """A report follows each mistake whose check is on, and no other."""
    paths = modules.needed_by("test_ubsan", variant=modules.DEBUG_SUITES)
    run = modules.Run(runner, paths, timeout=120)
    assert run.result == 0, run.tail
    found = list(MISTAKE.finditer(run.log))
    ends = [match.start() for match in found[1:]] + [len(run.log)]
    made, reported = {}, {}
    for match, end in zip(found, ends, strict=True):
        option, is_on = match[3], match[4] == "y"
        assert is_on == (option in CHECKED), match[0]
        made[option] = made.get(option, 0) + 1
        for report in re.findall(r"UBSAN: ([\w-]+) in", run.log[match.start():end]):
            assert report == CHECKED[option][1], f"{match[0]}: {report}"
            reported[option] = reported.get(option, 0) + 1
    assert made == OFF | {option: count for option, (count, _) in CHECKED.items()}, run.tail
    must = {option: count - NOT_REPORTED.get(option, 0) for option, (count, _) in CHECKED.items()}
    assert +Counter(reported) == +Counter(must), run.tail


def test_lock_validator(runner):
    """Runs in every boot of this kernel. One unexpected result turns the validator off."""
    paths = modules.needed_by("test_ubsan", variant=modules.DEBUG_SUITES)
    run = modules.Run(runner, paths, timeout=120)
    assert "| Locking API testsuite:" in run.boot, run.boot[-3000:]
    done = re.search(r"Good, all +(\d+) testcases passed!", run.boot)
    assert done, run.boot[-6000:]
    assert int(done[1]) >= 358, done[0]
    assert "FAILED" not in run.boot
