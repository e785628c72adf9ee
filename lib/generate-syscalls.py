#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes the system call headers and stubs from a Linux source tree.

    lib/generate-syscalls.py TREE OUTDIR

writes
    OUTDIR/outboard/syscall.h       OB_SYS_name numbers (x86-64)
    OUTDIR/outboard/syscalls.h      prototypes of ob_sys_name()
    OUTDIR/outboard/client_calls.h  the same functions for liboutboard-client, inline
    OUTDIR/syscalls.c               the stubs: compile with
                                    -I lib/include -I hypercall/include -I OUTDIR

Numbers come from arch/x86/entry/syscalls/syscall_64.tbl, prototypes from
include/linux/syscalls.h. Kernel types become those that a C program has; a
structure is only declared, so that the headers of the host's C library
can define it. A prototype with a type that is not known here is an error,
so that a newer tree cannot give a wrong stub in silence.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

TABLE = "arch/x86/entry/syscalls/syscall_64.tbl"
PROTOTYPES = "include/linux/syscalls.h"

# System calls of the table that get a number but no stub.
NO_STUB = {
    "arch_prctl": "changes x86 processor state of the calling thread, which belongs to the host",
    "ioperm": "x86 port access",
    "iopl": "x86 port access",
    "map_shadow_stack": "x86 shadow stacks belong to the host",
    "modify_ldt": "x86 segments belong to the host",
    "rt_sigreturn": "only a signal frame returns through it",
    "uretprobe": "only a probe's trampoline calls it",
    "uprobe": "only a probe's trampoline calls it",
}

# Written by hand: the kernel declares no prototype, or one per architecture, or
# one that does not say what is an address and what is only read.
BY_HAND = {
    "clone": "unsigned long flags, void *stack, int *parent_tid, int *child_tid, unsigned long tls",
    "fanotify_mark": "int fanotify_fd, unsigned int flags, uint64_t mask, int fd, "
                     "const char *pathname",
    "getsockopt": "int fd, int level, int optname, void *optval, int *optlen",
    "madvise": "void *address, size_t length, int advice",
    "mlock": "const void *address, size_t length",
    "mmap": "void *address, size_t length, int protection, int flags, int fd, off_t offset",
    "mount": "const char *device, const char *directory, const char *type, unsigned long flags, "
             "const void *data",
    "mprotect": "void *address, size_t length, int protection",
    "mremap": "void *old_address, size_t old_length, size_t new_length, int flags, "
              "void *new_address",
    "msync": "void *address, size_t length, int flags",
    "munlock": "const void *address, size_t length",
    "munmap": "void *address, size_t length",
    "pread64": "int fd, void *buf, size_t count, loff_t pos",
    "pwrite64": "int fd, const void *buf, size_t count, loff_t pos",
    "read": "int fd, void *buf, size_t count",
    "setsockopt": "int fd, int level, int optname, const void *optval, int optlen",
    "umount2": "const char *name, int flags",
    "write": "int fd, const void *buf, size_t count",
}

# These return an address; all others return a long.
RETURNS_POINTER = {"mmap", "mremap", "shmat"}

# The kernel's types that a C program does not have or names differently.
# The signal types are void: the kernel's struct sigaction is not the C library's,
# and its sigset_t is shorter (the size is passed along).
TYPES = {
    "aio_context_t": "unsigned long",
    "cap_user_data_t": "struct __user_cap_data_struct *",
    "cap_user_header_t": "struct __user_cap_header_struct *",
    "enum landlock_rule_type": "unsigned int",
    "key_serial_t": "int32_t",
    "key_t": "int32_t",
    "loff_t": "int64_t",
    "mqd_t": "int",
    "qid_t": "uint32_t",
    "rwf_t": "int",
    "siginfo_t": "void",
    "sigset_t": "void",
    "struct __kernel_itimerspec": "struct itimerspec",
    "struct __kernel_old_itimerval": "struct itimerval",
    "struct __kernel_old_timeval": "struct timeval",
    "struct __kernel_timespec": "struct timespec",
    "struct __kernel_timex": "struct timex",
    "__kernel_old_time_t": "time_t",
    "struct new_utsname": "struct utsname",
    "struct sigaction": "void",
    "struct sigaltstack": "void",
    "struct siginfo": "void",
    "struct user_msghdr": "struct msghdr",
    "timer_t": "int",
    "umode_t": "mode_t",
    "__s32": "int32_t",
    "__u32": "uint32_t",
    "s32": "int32_t",
    "u32": "uint32_t",
    "s64": "int64_t",
    "u64": "uint64_t",
    "unsigned": "unsigned int",
}

# Types that mean the same on both sides.
SAME_TYPES = {
    "char", "unsigned char", "int", "unsigned int", "long", "unsigned long", "void",
    "clockid_t", "fd_set", "gid_t", "off_t", "pid_t", "size_t", "uid_t",
    "int32_t", "int64_t", "uint32_t", "uint64_t", "mode_t", "time_t",
}

# Names of parameters that C++ does not allow.
RESERVED = {
    "new", "delete", "class", "this", "private", "public", "template", "namespace", "operator"
}

NOTICE = "/* Made by lib/generate-syscalls.py from the kernel's own tables: do not edit. */\n"


class Entry(NamedTuple):
    number: int
    name: str
    function: str | None  # sys_..., None for a number without a function


class Parameter(NamedTuple):
    text: str  # "const char *name"
    name: str
    is_pointer: bool
    tag: str | None  # "struct stat": to be declared


class Failure(Exception):
    """Something in the tree that this program does not understand."""


def read_table(path: Path) -> list[Entry]:
    entries = []
    for line in path.read_text().splitlines():
        fields = line.split("#")[0].split()
        if not fields:
            continue
        number, abi, name = fields[:3]
        if abi not in ("common", "64"):
            continue
        entries.append(Entry(int(number), name, fields[3] if len(fields) > 3 else None))
    if not entries:
        raise Failure(f"{path}: no system calls found")
    return entries


def read_prototypes(path: Path) -> dict[str, str]:
    """sys_name -> its parameters, as one line. The last declaration of a name wins."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
    found = re.finditer(r"asmlinkage\s+long\s+(sys_\w+)\s*\(([^;]*?)\)\s*;", text)
    return {match[1]: " ".join(match[2].split()) for match in found}


def convert_type(kernel_type: str, where: str) -> str:
    base = TYPES.get(kernel_type, kernel_type)
    if base in SAME_TYPES or base.endswith("*") or re.fullmatch(r"(struct|union) \w+", base):
        return base
    raise Failure(f"{where}: unknown type '{kernel_type}'")


BASE_TYPE = re.compile(
    r"(?:(?:struct|union|enum) \w+|unsigned (?:int|long|char)|unsigned|\w+)")


def convert_parameter(text: str, position: int, where: str) -> Parameter:
    """Turns one parameter of the kernel's prototype into one for C programs."""
    text = re.sub(r"\b__user\b", " ", text).replace("*", " * ")
    text = " ".join(text.split())
    constant = text.startswith("const ")
    text = text.removeprefix("const ")
    match = BASE_TYPE.match(text)
    if not match:
        raise Failure(f"{where}: cannot read '{text}'")
    rest = text[match.end():].split()
    name = f"argument{position}"
    if rest and rest[-1] not in ("*", "const"):
        name = rest.pop()
    if name in RESERVED:
        name += "_"
    base = convert_type(match[0], where)
    stars = "".join("*" if word == "*" else "const " for word in rest)
    tag = re.match(r"(?:struct|union) \w+", base)
    prefix = "const " if constant else ""
    separator = "" if base.endswith("*") else " "
    return Parameter(f"{prefix}{base}{separator}{stars}{name}", name,
                     "*" in stars or base.endswith("*"), tag[0] if tag else None)


def convert_parameters(text: str, where: str) -> list[Parameter]:
    if text == "void":
        return []
    return [convert_parameter(part, position, where)
            for position, part in enumerate(text.split(","), start=1)]


def with_stubs(entries: list[Entry],
               prototypes: dict[str, str]) -> list[tuple[Entry, list[Parameter]]]:
    stubs = []
    for entry in entries:
        if entry.function is None or entry.name in NO_STUB:
            continue
        text = BY_HAND.get(entry.name, prototypes.get(entry.function))
        if text is None:
            raise Failure(f"{entry.name}: no prototype of {entry.function} in {PROTOTYPES}; "
                          "add it to BY_HAND or NO_STUB")
        parameters = convert_parameters(text, entry.name)
        if len(parameters) > 6:
            raise Failure(f"{entry.name}: more than six parameters")
        stubs.append((entry, parameters))
    return stubs


def declaration(entry: Entry, parameters: list[Parameter]) -> str:
    result = "void *" if entry.name in RETURNS_POINTER else "long "
    return f"{result}ob_sys_{entry.name}({', '.join(p.text for p in parameters) or 'void'})"


def numbers_header(entries: list[Entry]) -> str:
    lines = [f"#define OB_SYS_{entry.name} {entry.number}" for entry in entries]
    return (f"{NOTICE}#ifndef OUTBOARD_SYSCALL_H\n#define OUTBOARD_SYSCALL_H\n\n"
            + "\n".join(lines) + "\n\n#endif\n")


def handle_stub(entry: Entry, parameters: list[Parameter]) -> str:
    """The same call with an instance's handle: inline, so that the library does not have all names
    twice.
    """
    result, cast = ("void *", "(void *)") if entry.name in RETURNS_POINTER else ("long ", "")
    texts = ["struct ob_instance *instance", *(p.text for p in parameters)]
    arguments = [f"(long){p.name}" for p in parameters] + ["0"] * (6 - len(parameters))
    call = f"ob_sys_on(instance, {entry.number}, {', '.join(arguments)})"
    return (f"static inline {result}ob_sys_{entry.name}_on({', '.join(texts)})\n"
            f"{{\n\treturn {cast}{call};\n}}\n")


def declared_tags(stubs: list[tuple[Entry, list[Parameter]]]) -> str:
    tags = sorted({p.tag for _, parameters in stubs for p in parameters if p.tag})
    return "".join(f"{tag};\n" for tag in tags)


def missing_calls() -> str:
    return "".join(f" *   {name}: {reason}\n" for name, reason in sorted(NO_STUB.items()))


def not_both(other: str) -> str:
    """A file calls one kernel: its functions would be those of one header or the other."""
    return (f"#ifdef OUTBOARD_{other}_H\n"
            "#error include <outboard/syscalls.h> or <outboard/client_calls.h>, not both\n"
            "#endif\n\n")


def prototypes_header(stubs: list[tuple[Entry, list[Parameter]]]) -> str:
    return (
        f"{NOTICE}"
        "/*\n"
        " * Linux system calls, as functions: they return what the kernel returns, or -1\n"
        " * with errno set. Include the C library's header that defines the structure\n"
        " * you pass. Without a function are:\n"
        f"{missing_calls()}"
        " */\n"
        "#ifndef OUTBOARD_SYSCALLS_H\n#define OUTBOARD_SYSCALLS_H\n\n"
        f"{not_both('CLIENT_CALLS')}"
        "#include <stddef.h>\n#include <stdint.h>\n"
        "#include <sys/select.h>\n#include <sys/types.h>\n#include <time.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
        + declared_tags(stubs) + "\n"
        + "".join(declaration(*stub) + ";\n" for stub in stubs)
        + "\n/* The same on an instance (outboard.h). Any call: all arguments as numbers, errno as"
        " above. */\n"
        "struct ob_instance;\n"
        "long ob_sys_on(struct ob_instance *instance, long number, long a, long b, long c,\n"
        "\t       long d, long e, long f);\n\n"
        + "\n".join(handle_stub(*stub) for stub in stubs)
        + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n")


def client_stub(entry: Entry, parameters: list[Parameter]) -> str:
    """The same call by the client's library: inline, so that a program may have both libraries."""
    arguments = "".join(f", (long){p.name}" for p in parameters)
    call = f"ob_client_finish(ob_client_syscall({entry.number}L{arguments}))"
    cast = "(void *)" if entry.name in RETURNS_POINTER else ""
    return f"static inline {declaration(entry, parameters)}\n{{\n\treturn {cast}{call};\n}}\n"


def client_header(stubs: list[tuple[Entry, list[Parameter]]]) -> str:
    return (
        "/* SPDX-License-Identifier: MIT */\n"
        f"{NOTICE}"
        "/*\n"
        " * System calls of a kernel in another process, as functions with the names and\n"
        " * prototypes of <outboard/syscalls.h>, instead of which a C file includes this. They\n"
        " * return what that kernel returns, or -1 with errno set: see ob_client_syscall() in\n"
        " * <outboard/client.h>. Include the C library's header that defines the structure you\n"
        " * pass. Without a function are:\n"
        f"{missing_calls()}"
        " */\n"
        "#ifndef OUTBOARD_CLIENT_CALLS_H\n#define OUTBOARD_CLIENT_CALLS_H\n\n"
        f"{not_both('SYSCALLS')}"
        "#include <errno.h>\n#include <stddef.h>\n#include <stdint.h>\n"
        "#include <sys/select.h>\n#include <sys/types.h>\n#include <time.h>\n"
        "#include <outboard/client.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
        + declared_tags(stubs) + "\n"
        "/* The C library's convention: -1 and errno. */\n"
        "static inline long ob_client_finish(long result)\n{\n"
        "\tif ((unsigned long)result < -4095ul)\n\t\treturn result;\n"
        "\terrno = (int)-result;\n\treturn -1;\n}\n\n"
        + "\n".join(client_stub(*stub) for stub in stubs)
        + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n")


def stub_source(entry: Entry, parameters: list[Parameter]) -> str:
    arguments = [f"(long){p.name}" for p in parameters] + ["0"] * (6 - len(parameters))
    call = f"finish(ob_kernel_syscall({entry.number}, {', '.join(arguments)}))"
    cast = "(void *)" if entry.name in RETURNS_POINTER else ""
    return f"{declaration(entry, parameters)}\n{{\n\treturn {cast}{call};\n}}\n"


def stubs_source(stubs: list[tuple[Entry, list[Parameter]]]) -> str:
    return (
        f"{NOTICE}"
        "#include <errno.h>\n\n#include <outboard/gate.h>\n#include <outboard/syscalls.h>\n\n"
        "/* The C library's convention: -1 and errno. */\n"
        "static long finish(long result)\n{\n"
        "\tif ((unsigned long)result < -4095ul)\n\t\treturn result;\n"
        "\terrno = (int)-result;\n\treturn -1;\n}\n\n"
        + "\n".join(stub_source(*stub) for stub in stubs))


def write(path: Path, text: str) -> None:
    """Writes only what changed, so that make does not rebuild what depends on it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Makes system call headers and stubs from a Linux tree.")
    parser.add_argument("tree", type=Path, help="Linux source tree")
    parser.add_argument("outdir", type=Path, help="directory for the results")
    arguments = parser.parse_args()
    try:
        entries = read_table(arguments.tree / TABLE)
        stubs = with_stubs(entries, read_prototypes(arguments.tree / PROTOTYPES))
    except (Failure, OSError) as error:
        print(f"generate-syscalls.py: {error}", file=sys.stderr)
        return 1
    write(arguments.outdir / "outboard/syscall.h", numbers_header(entries))
    write(arguments.outdir / "outboard/syscalls.h", prototypes_header(stubs))
    write(arguments.outdir / "outboard/client_calls.h", client_header(stubs))
    write(arguments.outdir / "syscalls.c", stubs_source(stubs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
