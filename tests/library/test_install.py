# SPDX-License-Identifier: GPL-2.0-only
"""The installed C library: programs that know it by pkg-config alone, as docs/c-api.md says, static
and not.
"""

import os
import sys

import pytest

from support import host, images
from support.program import REPOSITORY, good

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

PYTHON = """
import os
import outboard
from outboard import net
print(os.path.dirname(outboard.__file__))
with outboard.Kernel() as kernel, net.socket():
    print("works")
"""


def flags(root, *words, package="outboard"):
    library = f"{root}/opt/outboard/lib"
    return host.run("pkg-config", *words, "--cflags", "--libs", package,
                    PKG_CONFIG_PATH=f"{library}/pkgconfig",
                    PKG_CONFIG_SYSROOT_DIR=root).stdout.split()


@pytest.mark.needs("make", "pkg-config", "gcc")
def test_programs_of_users(work):
    root, source, program = f"{work}/root", f"{work}/program.c", f"{work}/program"
    host.run("make", "-C", REPOSITORY, "install", f"DESTDIR={root}", "PREFIX=/opt/outboard",
             timeout=600)
    with open(source, "w", encoding="ascii") as stream:
        stream.write(SOURCE)
    for words in ((), ("--static",)):
        options = [word.removeprefix("-") for word in words]
        host.run("gcc", "-Wall", "-Wextra", "-Werror", *options, "-o", program, source,
                 *flags(root, *words))
        # A static one finds its components in itself: nothing says where the library is.
        variables = {} if words else {"LD_LIBRARY_PATH": f"{root}/opt/outboard/lib"}
        assert host.run(program, **variables).stdout == "works\n", words
    # The example of the documentation, as a static program.
    os.mkdir(f"{work}/tree")
    with open(f"{work}/tree/file", "w", encoding="ascii") as stream:
        stream.write("text")
    image = images.make_ext4_of(f"{work}/image", f"{work}/tree")
    host.run("gcc", "-static", "-o", program, f"{REPOSITORY}/docs/examples/read_file.c",
             *flags(root, "--static"))
    assert host.run(program, image, "/file").stdout == "text"
    # The library of volumes, by its own package.
    source = f"{REPOSITORY}/docs/examples/read_volume.c"
    for words in ((), ("--static",)):
        options = [word.removeprefix("-") for word in words]
        host.run("gcc", *options, "-o", program, source,
                 *flags(root, *words, package="outboard-volume"))
        variables = {} if words else {"LD_LIBRARY_PATH": f"{root}/opt/outboard/lib"}
        assert host.run(program, image, "/dev/null", "/file", **variables).stdout == "text", words
    # The library of remote clients, which needs no other library.
    source = f"{REPOSITORY}/docs/examples/remote_file.c"
    for words in ((), ("--static",)):
        options = [word.removeprefix("-") for word in words]
        host.run("gcc", "-Wall", "-Wextra", "-Werror", *options, "-o", program, source,
                 *flags(root, *words, package="outboard-client"))
        variables = {} if words else {"LD_LIBRARY_PATH": f"{root}/opt/outboard/lib"}
        done = host.run(program, "unix:/none/socket", "/file", ok=(1,), **variables)
        assert done.stderr.startswith("cannot connect to unix:/none/socket: No such file"), words
    # The library of servers.
    source = f"{REPOSITORY}/docs/examples/serve.c"
    for words in ((), ("--static",)):
        options = [word.removeprefix("-") for word in words]
        host.run("gcc", "-Wall", "-Wextra", "-Werror", *options, "-o", program, source,
                 *flags(root, *words, package="outboard-server"))
        variables = {} if words else {"LD_LIBRARY_PATH": f"{root}/opt/outboard/lib"}
        done = host.run(program, "unix:/none/socket", ok=(1,), **variables)
        assert done.stderr == ("cannot serve unix:/none/socket: No such file or directory\n"), words
    # The Python package finds the library by its own place.
    package = f"{root}/opt/outboard/lib/python3/dist-packages"
    assert host.run(sys.executable, "-c", PYTHON, PYTHONPATH=package).stdout == (
        f"{package}/outboard\nworks\n")
    assert os.path.exists(f"{package}/outboard/py.typed")
    for shell, name in (("bash", "bash-completion/completions/outboard"),
                        ("zsh", "zsh/site-functions/_outboard"),
                        ("fish", "fish/vendor_completions.d/outboard.fish")):
        with open(f"{root}/opt/outboard/share/{name}", encoding="utf-8") as stream:
            assert stream.read() == good("completions", shell).out, shell


# A /usr/local and an /etc of its own: neither the files nor the loader's cache of the host change.
USR_LOCAL = r"""
set -e
mount -t tmpfs none /usr/local
mount -t tmpfs none "$1"
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
make -C "$2" install PREFIX=/usr/local DESTDIR= >&2
gcc -o "$1/program" "$3" $(pkg-config --cflags --libs outboard)
"$1/program"
"""


@pytest.mark.needs_root
@pytest.mark.needs("make", "pkg-config", "gcc", "unshare")
def test_usr_local_needs_no_variables(work):
    os.mkdir(f"{work}/memory")
    with open(f"{work}/program.c", "w", encoding="ascii") as stream:
        stream.write(SOURCE)
    said = host.run("unshare", "--mount", "bash", "-c", USR_LOCAL, "bash", f"{work}/memory",
                    REPOSITORY, f"{work}/program.c", timeout=600).stdout
    assert said == "works\n"
