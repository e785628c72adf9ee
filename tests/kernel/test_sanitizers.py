# SPDX-License-Identifier: GPL-2.0-only
"""KASAN and UBSAN (SANITIZE=address,undefined) see what they must: the mistakes of
tests/kernel/sanitizers/mistakes.c.

`tests/run --long` builds its smallest profile before. For the whole program, see docs/debugging.md.
"""

import os
import shutil

import pytest

from support import host, modules, program

# The first that is built.
VARIANT = next((name for name in ("base-asan-ubsan", "vfs-asan-ubsan")
                if os.path.exists(os.path.join(program.OUT, "lib", name))), "")
KERNEL_SOURCE = os.path.join(program.OUT, "source", "linux")
KERNEL_BUILD = os.path.join(program.OUT, "kernel", VARIANT)
MISTAKES = os.path.join(program.REPOSITORY, "tests", "kernel", "sanitizers")

# The mistake, its report, and the function that the report names.
REPORTS = {
    "slab-overflow": ("KASAN: slab-out-of-bounds in slab_overflow", "Read of size 1"),
    "slab-copy": ("KASAN: slab-out-of-bounds in slab_copy", "Read of size 101"),
    "slab-string": ("KASAN: slab-out-of-bounds in strlen", "slab_string"),
    "use-after-free": ("KASAN: slab-use-after-free in use_after_free", "Freed by task"),
    "double-free": ("KASAN: double-free in double_free", "Freed by task"),
    "page-after-free": ("KASAN: use-after-free in page_after_free", "Read of size 1"),
    "vmalloc-overflow": ("KASAN: vmalloc-out-of-bounds in vmalloc_overflow", "Read of size 1"),
    "global-overflow": ("KASAN: global-out-of-bounds in global_overflow", "Read of size 1"),
    "array-index": ("UBSAN: array-index-out-of-bounds", "array_index"),
    "shift": ("UBSAN: shift-out-of-bounds", "shift_too_far"),
    "bool": ("UBSAN: invalid-load", "not_a_bool"),
}

pytestmark = [
    pytest.mark.long,
    pytest.mark.kernel_reports("mistakes that the sanitizers must report"),
    pytest.mark.skipif(
        not VARIANT, reason="make SANITIZE=address,undefined PROFILE=base library has not been run")
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return modules.compile_runner(str(tmp_path_factory.mktemp("runner")), VARIANT)


@pytest.fixture(scope="module")
def component(tmp_path_factory):
    """The smallest kernel has no components, and so no list of what they may use: it is not asked
    for.
    """
    directory = str(tmp_path_factory.mktemp("mistakes"))
    shutil.copytree(MISTAKES, directory, dirs_exist_ok=True)
    build = ("make", "-C", KERNEL_SOURCE, f"O={KERNEL_BUILD}", "ARCH=outboard")
    host.run(*build, "modules_prepare", MAKEFLAGS="", MAKELEVEL="")
    host.run(*build, f"M={directory}", "KBUILD_MODPOST_WARN=1", "modules", MAKEFLAGS="",
             MAKELEVEL="")
    return os.path.join(directory, "mistakes.ko")


def log_of(runner, component, how) -> str:
    run = modules.Run(runner, [component], parameters=f"how={how}", timeout=60)
    assert run.result == 0, run.tail
    return run.log


def test_nothing_to_report(runner, component):
    log = log_of(runner, component, "none")
    assert not program.REPORT.search(log), log


@pytest.mark.parametrize("how", REPORTS)
def test_report(runner, component, how):
    log = log_of(runner, component, how)
    assert program.REPORT.search(log), f"nothing is reported\n{log[-3000:]}"
    for text in REPORTS[how]:
        assert text in log, f"no {text!r} in\n{log}"
