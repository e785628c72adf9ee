# SPDX-License-Identifier: GPL-2.0-only
"""The table of arguments of remote calls, beside the kernel's definitions of its system calls.

A wrong row would let a client choose an address of the server's memory, so each argument that is a
pointer in the kernel's sources must be one in the table, with the size of what it points to.
"""

import os
import re
import subprocess

import pytest

from support import host, program

KERNEL_SOURCE = os.path.join(program.OUT, "source", "linux")
NUMBERS = os.path.join(KERNEL_SOURCE, "arch/x86/entry/syscalls/syscall_64.tbl")
DIRECTORIES = ("arch/x86/kernel", "block", "drivers/char", "fs", "io_uring", "ipc", "kernel", "mm",
               "net", "security")
DEFINITION = re.compile(r"^SYSCALL_DEFINE\d\(\s*(\w+)\s*,?([^)]*)\)", re.MULTILINE)
# Types that are pointers without a star.
POINTERS = ("cap_user_header_t", "cap_user_data_t")
# Calls and arguments that are numbers for the compiler, and addresses for some commands.
CHOOSERS = {
    "ioctl": (2,), "fcntl": (2,), "prctl": (1,), "semctl": (3,), "keyctl": (1,), "sysfs": (1,),
}
# Only some commands use these pointers.
CHOSEN = {
    "shmctl": (2,), "msgctl": (2,), "setsockopt": (3,), "getsockopt": (3,), "quotactl": (3,),
    "quotactl_fd": (3,), "fsconfig": (3,), "landlock_add_rule": (2,),
}
# Types of a fixed size whose argument has another one.
OTHER_SIZES = {
    ("utimes", 1): "two of them",
    ("futimesat", 2): "two of them",
    ("utimensat", 2): "two of them",
    ("pipe", 0): "two of them",
    ("pipe2", 0): "two of them",
    ("socketpair", 3): "two of them",
}
# The kernel's own headers for programs, but for those of the processor.
UAPI = os.path.join(KERNEL_SOURCE, "include", "uapi")
HEADERS = ("asm/ioctls", "asm/siginfo", "asm/stat", "asm/statfs", "asm/termbits",
           "linux/capability", "linux/dqblk_xfs", "linux/eventpoll", "linux/fcntl", "linux/fs",
           "linux/if_tun", "linux/keyctl", "linux/landlock", "linux/loop", "linux/mman",
           "linux/mount", "linux/mqueue", "linux/msg", "linux/openat2", "linux/prctl",
           "linux/quota", "linux/resource", "linux/sem", "linux/shm", "linux/sockios",
           "linux/stat", "linux/sysinfo", "linux/time", "linux/time_types", "linux/times",
           "linux/timex", "linux/types", "linux/utime", "linux/utsname")
CHOICES = [os.path.join(program.REPOSITORY, "crates/outboard-protocol/src/choice", name)
           for name in ("command.rs", "ioctl.rs")]
# A row: its number, and the kernel's name of it behind that.
CHOICE = re.compile(r"^ +\((0x[\da-f_]+|\d+), .*\), +// (\w+)$", re.MULTILINE)


def sources():
    """The text of each file that may define calls."""
    for directory in DIRECTORIES:
        for place, _, names in os.walk(os.path.join(KERNEL_SOURCE, directory)):
            for name in (name for name in names if name.endswith(".c")):
                with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                    yield file.read()


def definitions():
    """Function to its arguments, each a pair of type and name."""
    found = {}
    for text in sources():
        for function, arguments in DEFINITION.findall(text):
            words = [" ".join(word.split()) for word in arguments.split(",") if word.strip()]
            found.setdefault(function, list(zip(words[::2], words[1::2])))
    return found


def is_pointer(kind):
    return "*" in kind or kind.removeprefix("const ") in POINTERS


@pytest.fixture(scope="module", name="calls")
def fixture_calls():
    """Number to name and arguments."""
    functions, calls = definitions(), {}
    with open(NUMBERS, encoding="utf-8") as file:
        rows = [line.split() for line in file if line[0].isdigit()]
    for number, abi, name, *rest in rows:
        if abi in ("common", "64") and rest and rest[0] != "sys_ni_syscall":
            calls[int(number)] = (name, functions[rest[0].removeprefix("sys_")])
    return calls


@pytest.fixture(scope="module", name="table")
def fixture_table():
    """Number to name and words of the arguments, or None; and the lines of choices."""
    crates = os.path.join(program.REPOSITORY, "crates")
    done = subprocess.run(
        ["cargo", "run", "--quiet", "--release", "--locked", "--package", "outboard-protocol",
         "--example", "print_table"],
        cwd=crates, check=True, capture_output=True, text=True, timeout=600)
    calls, choices = {}, {}
    for line in done.stdout.splitlines():
        kind, number, *words = line.split()
        if kind == "choice":
            choices.setdefault(int(number), []).append((int(words[0]), words[1]))
        else:
            calls[int(number)] = (words[0], None if kind == "refused" else words[1:])
    return calls, choices


def test_every_call_is_there(calls, table):
    assert len(calls) > 350
    assert {number: name for number, (name, _) in table[0].items()} == \
        {number: name for number, (name, _) in calls.items()}


def expected(name, arguments):
    """What the table says of each argument, without sizes."""
    chosen = (*CHOOSERS.get(name, ()), *CHOSEN.get(name, ()))
    return ["chosen" if index in chosen else "pointer" if is_pointer(kind) else "number"
            for index, (kind, _) in enumerate(arguments)]


def test_pointers_are_pointers(calls, table):
    wrong = {}
    for number, (name, words) in table[0].items():
        if words is None:
            continue
        found = [word.split(":")[0] for word in words]
        if found != expected(name, calls[number][1]):
            wrong[name] = (found, calls[number][1])
    assert not wrong


def fixed_sizes(calls, table):
    """Call, argument, its type, and the size that the table has."""
    for number, (name, words) in table[0].items():
        for index, word in enumerate(words or ()):
            kind, _, size = word.partition(":")
            if kind == "pointer" and size and (name, index) not in OTHER_SIZES:
                pointed = calls[number][1][index][0]
                pointed = pointed.replace("__user", "").replace("const", "").replace("*", "")
                yield name, index, " ".join(pointed.split()), int(size)


# The kernel's names of types that its headers for programs do not have, or have by other names.
TYPES = {
    "cap_user_header_t": "struct __user_cap_header_struct",
    "cap_user_data_t": "struct __user_cap_data_struct",
    "fd_set": "__kernel_fd_set", "gid_t": "__kernel_gid32_t", "loff_t": "__kernel_loff_t",
    "sigset_t": "__u64", "struct sched_param": "int", "struct siginfo": "siginfo_t",
    "struct ustat": "char[32]", "timer_t": "__kernel_timer_t", "uid_t": "__kernel_uid32_t",
    "u32": "__u32",
}


def compile_checks(directory, checks):
    """Each is an expression and its name."""
    os.makedirs(directory / "linux")
    for name in ("compiler.h", "compiler_types.h"):
        (directory / "linux" / name).touch()
    lines = [f"#include <{name}.h>" for name in HEADERS]
    lines += [f'_Static_assert({check}, "{name}");' for check, name in checks]
    source = directory / "checks.c"
    source.write_text("\n".join(lines) + "\n", encoding="ascii")
    host.run("gcc", "-fsyntax-only", "-D__user=", "-D__EXPORTED_HEADERS__",
             "-I", str(directory), "-I", UAPI, str(source))


def test_structures_have_their_sizes(calls, table, tmp_path):
    rows = [row for row in fixed_sizes(calls, table) if row[2] != "void"]
    assert len(rows) > 60
    compile_checks(tmp_path, [
        (f"sizeof({TYPES.get(kind, kind)}) == {size}", f"{name} {index}: {kind}")
        for name, index, kind, size in rows])


def test_choices_have_their_numbers(tmp_path):
    rows = []
    for name in CHOICES:
        with open(name, encoding="utf-8") as file:
            rows += CHOICE.findall(file.read())
    assert len(rows) > 200
    compile_checks(tmp_path, [(f"{name} == {number.replace('_', '')}", name)
                              for number, name in rows])
