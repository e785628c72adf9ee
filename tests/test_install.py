# SPDX-License-Identifier: GPL-2.0-only
"""The installed C library: programs that know it by pkg-config alone, as docs/c-api.md says, static and not."""

import os

import pytest

from support import host, images
from support.program import REPOSITORY

SOURCE = r"""
#include <stdio.h>
#include <outboard/outboard.h>
#include <outboard/syscall.h>
#include <outboard/syscalls.h>

int main(void)
{
	int error = ob_boot(NULL);

	if (error)
		return fprintf(stderr, "boot: %d\\n", error), 1;
	if (ob_syscall(OB_SYS_getpid) != ob_sys_getpid())
		return fprintf(stderr, "two processes\\n"), 1;
	/* Not built in: it comes out of the archive of components. */
	error = ob_component_load("minix", NULL);
	if (error)
		return fprintf(stderr, "component: %d\\n", error), 1;
	puts("works");
	return ob_halt() != 0;
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory that stands for the root of another system."""
    root = str(tmp_path_factory.mktemp("root"))
    host.run("make", "-C", REPOSITORY, "install", f"DESTDIR={root}", "PREFIX=/opt/outboard", timeout=600)
    return root


def flags(root, *words):
    library = f"{root}/opt/outboard/lib"
    return host.run("pkg-config", *words, "--cflags", "--libs", "outboard", PKG_CONFIG_PATH=f"{library}/pkgconfig",
                    PKG_CONFIG_SYSROOT_DIR=root).stdout.split()


@pytest.mark.needs("pkg-config", "gcc")
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_a_program_of_a_user(work, installed, static):
    with open(f"{work}/program.c", "w", encoding="ascii") as stream:
        stream.write(SOURCE)
    words = ("-static",) if static else ()
    host.run("gcc", "-Wall", "-Wextra", "-Werror", *words, "-o", f"{work}/program", f"{work}/program.c",
             *flags(installed, *(f"-{word}" for word in words)))
    # A static one finds its components in itself: nothing says where the library is.
    variables = {} if static else {"LD_LIBRARY_PATH": f"{installed}/opt/outboard/lib"}
    assert host.run(f"{work}/program", **variables).stdout == "works\n"


@pytest.mark.needs("pkg-config", "gcc")
def test_the_example_of_the_documentation_is_static(work, installed):
    image = images.make(f"{work}/image", "ext4")
    os.makedirs(f"{work}/tree")
    with open(f"{work}/tree/file", "w", encoding="ascii") as stream:
        stream.write("text")
    host.run("mke2fs", "-q", "-F", "-d", f"{work}/tree", image)
    source = f"{REPOSITORY}/docs/examples/read_file.c"
    host.run("gcc", "-static", "-o", f"{work}/program", source, *flags(installed, "--static"))
    assert host.run(f"{work}/program", image, "/file").stdout == "text"
