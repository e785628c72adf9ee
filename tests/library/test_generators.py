# SPDX-License-Identifier: GPL-2.0-only
"""The generators of lib/, on small trees: what they make compiles and is right, what they do not
know is an error.
"""

import os
import subprocess
import sys

import pytest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

TABLE = """\
# a comment
0	common	read			sys_read
1	64	rename		sys_rename
2	common	gettid			sys_gettid
3	common	mmap			sys_mmap
4	common	iopl		sys_iopl
5	64	uselib
512	x32	rename		compat_sys_rename
"""

PROTOTYPES = """\
/* asmlinkage long sys_commented_out(struct unknown what); */
asmlinkage long sys_rename(const char __user *old,
			   const char __user *new);
asmlinkage long sys_gettid(void);
asmlinkage long sys_read(unsigned int fd, char __user *buf, size_t count);
"""


@pytest.fixture
def tree(tmp_path):
    def make(table=TABLE, prototypes=PROTOTYPES):
        for name, text in (("arch/x86/entry/syscalls/syscall_64.tbl", table),
                           ("include/linux/syscalls.h", prototypes)):
            path = tmp_path / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "tree"
    return make


def generate(program, *arguments):
    return subprocess.run(
        [sys.executable,
         os.path.join(REPOSITORY, "lib", program), *map(str, arguments)], capture_output=True,
        text=True, check=False)


# Echoes number and arguments, or fails as asked.
GATE = r"""
#include <errno.h>
#include <stdio.h>
#include <outboard/gate.h>
#include <outboard/syscall.h>
#include <outboard/syscalls.h>

static long answer, seen[7];

long ob_kernel_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long now[7] = { number, a, b, c, d, e, f };

	for (int i = 0; i < 7; i++)
		seen[i] = now[i];
	return answer;
}

static struct ob_instance *asked;

long ob_sys_on(struct ob_instance *instance, long number, long a, long b, long c, long d,
	       long e, long f)
{
	asked = instance;
	return ob_kernel_syscall(number, a, b, c, d, e, f);
}

int main(void)
{
	char buffer[4];

	answer = 3;
	if (ob_sys_read(7, buffer, 4) != 3 || seen[0] != OB_SYS_read || seen[1] != 7 ||
	    seen[2] != (long)buffer || seen[3] != 4 || seen[4] || seen[6])
		return 1;
	answer = -4095;
	errno = 0;
	if (ob_sys_gettid() != -1 || errno != 4095 || seen[0] != 2)
		return 2;
	answer = -4096;
	errno = 0;
	if (ob_sys_rename("a", "b") != -4096 || errno)
		return 3;
	answer = -12;
	if (ob_sys_mmap(0, 1, 2, 3, -1, 4096) != (void *)-1 || errno != ENOMEM || seen[5] != -1 ||
	    seen[6] != 4096)
		return 4;
	answer = 4096;
	if (ob_sys_read_on((void *)buffer, 7, buffer, 4) != 4096 || (void *)asked != buffer ||
	    seen[0] != OB_SYS_read || seen[1] != 7 || seen[2] != (long)buffer || seen[3] != 4 ||
	    seen[4])
		return 5;
	if (ob_sys_mmap_on(0, 0, 1, 2, 3, -1, 4096) != (void *)4096 || asked)
		return 6;
	return 0;
}
"""


def test_syscalls(tree, tmp_path):
    done = generate("generate-syscalls.py", tree(), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    numbers = (tmp_path / "outboard/syscall.h").read_text()
    assert "#define OB_SYS_iopl 4\n" in numbers and "#define OB_SYS_uselib 5\n" in numbers
    assert "512" not in numbers
    prototypes = (tmp_path / "outboard/syscalls.h").read_text()
    assert "long ob_sys_rename(const char *old, const char *new_);\n" in prototypes
    assert "ob_sys_iopl" not in prototypes and "ob_sys_uselib" not in prototypes
    (tmp_path / "gate.c").write_text(GATE)
    subprocess.run([
        "gcc", "-Wall", "-Wextra", "-Werror", "-I", tmp_path, "-I",
        os.path.join(REPOSITORY, "hypercall", "include"), "-o", tmp_path / "program",
        tmp_path / "gate.c", tmp_path / "syscalls.c"
    ], check=True)
    subprocess.run([tmp_path / "program"], check=True)


# The same functions for the other library, which gets the number and as many arguments.
CLIENT = r"""
#include <stdarg.h>
#include <stdio.h>
#include <outboard/client_calls.h>

static long answer, seen[4];

long ob_client_syscall(long number, ...)
{
	va_list list;

	seen[0] = number;
	va_start(list, number);
	for (int i = 1; i < 4; i++)
		seen[i] = number == 2 ? 0 : va_arg(list, long);
	va_end(list);
	return answer;
}

int main(void)
{
	char buffer[4];

	answer = 3;
	if (ob_sys_read(7, buffer, 4) != 3 || seen[0] || seen[1] != 7 ||
	    seen[2] != (long)buffer || seen[3] != 4)
		return 1;
	answer = -4095;
	errno = 0;
	if (ob_sys_gettid() != -1 || errno != 4095 || seen[0] != 2)
		return 2;
	answer = -12;
	if (ob_sys_mmap(0, 1, 2, 3, -1, 4096) != (void *)-1 || errno != ENOMEM || seen[2] != 1)
		return 3;
	return 0;
}
"""


@pytest.mark.parametrize("compiler", [("gcc", "-std=c11"), ("g++", "-std=c++17", "-xc++")])
def test_calls_of_clients(tree, tmp_path, compiler):
    generate("generate-syscalls.py", tree(), tmp_path)
    (tmp_path / "client.c").write_text(CLIENT)
    header = os.path.join(REPOSITORY, "crates", "outboard-client", "include")
    subprocess.run([*compiler, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", tmp_path,
                    "-I", header, "-o", tmp_path / "program", tmp_path / "client.c"], check=True)
    subprocess.run([tmp_path / "program"], check=True)


@pytest.mark.parametrize("names", [("syscalls", "client_calls"), ("client_calls", "syscalls")])
def test_a_file_calls_one_kernel(tree, tmp_path, names):
    generate("generate-syscalls.py", tree(), tmp_path)
    (tmp_path / "both.c").write_text(
        "".join(f"#include <outboard/{name}.h>\n" for name in names))
    header = os.path.join(REPOSITORY, "crates", "outboard-client", "include")
    done = subprocess.run(["gcc", "-fsyntax-only", "-I", tmp_path, "-I", header,
                           tmp_path / "both.c"], check=False, capture_output=True)
    assert done.returncode


def test_unchanged_files_keep_their_time(tree, tmp_path):
    generate("generate-syscalls.py", tree(), tmp_path)
    before = os.stat(tmp_path / "syscalls.c").st_mtime_ns
    generate("generate-syscalls.py", tree(), tmp_path)
    assert os.stat(tmp_path / "syscalls.c").st_mtime_ns == before


@pytest.mark.parametrize("table,prototypes,reason", [
    (TABLE, PROTOTYPES.replace("size_t", "mystery_t"), "read_x: unknown type 'mystery_t'"),
    (TABLE, "", "no prototype of sys_read"),
    ("", PROTOTYPES, "no system calls found"),
    ("0 common f sys_f", f"asmlinkage long sys_f({', '.join(['int'] * 7)});",
     "f: more than six parameters"),
])
def test_what_is_not_understood_is_an_error(tree, tmp_path, table, prototypes, reason):
    # A name that is not written by hand.
    table, prototypes = table.replace("	read	", "	read_x	"), prototypes
    done = generate("generate-syscalls.py", tree(table, prototypes), tmp_path)
    assert done.returncode == 1
    assert reason in done.stderr
    assert not (tmp_path / "syscalls.c").exists()


def test_missing_tree(tmp_path):
    done = generate("generate-syscalls.py", tmp_path / "none", tmp_path)
    assert done.returncode == 1
    assert "No such file" in done.stderr and "Traceback" not in done.stderr


CONFIG_PROGRAM = r"""
#include <stdio.h>
#include "config.h"

int main(void)
{
	printf("%s %s", ob_config_release, ob_config_profile);
	for (const char *entry = ob_config_options; *entry; entry++)
		for (putchar('|'); *entry; entry++)
			putchar(*entry);
	return 0;
}
"""


def test_config(tmp_path):
    (tmp_path / "include/config").mkdir(parents=True)
    (tmp_path / ".config").write_text(
        '# CONFIG_OFF is not set\nCONFIG_ON=y\nCONFIG_TEXT="a \\"quoted\\" \\\\ ??/ 1"\n'
        'CONFIG_EMPTY=""\nCONFIG_N=12\n')
    (tmp_path / "include/config/kernel.release").write_text("6.12.90\n")
    done = generate("generate-config.py", tmp_path, "vfs", tmp_path / "made")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "main.c").write_text(CONFIG_PROGRAM)
    subprocess.run(["gcc", "-I", os.path.join(REPOSITORY, "lib"), "-o", tmp_path / "program",
                    tmp_path / "main.c", tmp_path / "made/config.c"], check=True)
    output = subprocess.run([tmp_path / "program"], check=True, capture_output=True,
                            text=True).stdout
    assert output == ('6.12.90 vfs|CONFIG_ON=y|CONFIG_TEXT=a "quoted" \\ ??/ 1|'
                      'CONFIG_EMPTY=|CONFIG_N=12')


def test_config_of_a_build_that_is_not_there(tmp_path):
    done = generate("generate-config.py", tmp_path, "full", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
