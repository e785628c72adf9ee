# SPDX-License-Identifier: GPL-2.0-only
"""Dodges: docs/dodges.md is what the sources and the linked kernel do, and a program reaches each
wrap. The program checks that it does what the page says, where no other test does.
"""

import os
import re

import pytest

from support import debugger, host, program

GENERATOR = os.path.join(program.REPOSITORY, "kernel", "build", "dodges.py")
PAGE = os.path.join(program.REPOSITORY, "docs", "dodges.md")
TESTS = os.path.join(program.REPOSITORY, "tests")
LIBRARIES = os.path.join(program.OUT, "lib")
KERNEL = os.path.join(program.OUT, "kernel", "full", "outboard-link", "kernel.image")
# Wrapped only in a kernel with KASAN.
ONLY_KASAN = {"kasan_populate_vmalloc", "kasan_release_vmalloc"}
# For the devices of a bus, which the POSIX platform lacks. tests/library/test_device.py loads a
# driver that checks what these return: masks and resource fail without them.
ONLY_DEVICES = {
    "dma_direct_get_required_mask", "dma_direct_map_resource", "dma_direct_supported",
}
# A table of functions is no place to stop at: this is the function that it has of ours.
FUNCTION_OF = {"kernfs_dir_iops": "ob_kernfs_lookup"}


def wraps() -> set:
    return set(host.run(GENERATOR, "--wraps").stdout.split()) - ONLY_KASAN


def test_page_is_what_the_sources_do():
    with open(PAGE, encoding="utf-8") as page:
        assert (
            page.read() == host.run(GENERATOR).stdout
        ), "run: kernel/build/dodges.py >docs/dodges.md"


def test_page_has_what_the_kernel_wraps():
    symbols = host.run("nm", "--defined-only", KERNEL).stdout
    assert set(re.findall(r" [a-zA-Z] __wrap_(\w+)$", symbols, flags=re.M)) == wraps()


@pytest.mark.needs("gdb")
@pytest.mark.kernel_reports("the kernel runs out of memory")
def test_each_wrap_is_reached(tmp_path):
    target, script = tmp_path / "dodges", tmp_path / "script"
    host.run(
        "gcc",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-I",
        os.path.join(program.OUT, "include"),
        "-o",
        str(target),
        os.path.join(TESTS, "kernel", "gdb", "dodges.c"),
        os.path.join(TESTS, "library", "client.c"),
        "-L",
        LIBRARIES,
        f"-Wl,-rpath,{LIBRARIES}",
        "-loutboard",
    )
    stops = {
        name: FUNCTION_OF.get(name, f"__wrap_{name}") for name in wraps() - ONLY_DEVICES
    }
    commands = "silent\necho reached {}\\n\ncontinue\nend"
    script.write_text(
        "\n".join(
            (
                "set breakpoint pending on",
                "handle all nostop noprint pass",
                *(
                    f"tbreak {function}\ncommands\n{commands.format(name)}"
                    for name, function in stops.items()
                ),
                "run\n",
            )
        )
    )
    said = debugger.run_script(str(script), str(target))
    assert "\ndone\n" in said, said
    assert set(re.findall(r"^reached (\w+)$", said, flags=re.M)) == set(stops), said
