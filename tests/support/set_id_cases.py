# SPDX-License-Identifier: GPL-2.0-only
"""
Changes data of programs with set-user-ID and set-group-ID bits, each case on a file of its own in
the directory that is the argument. Prints as JSON the error numbers, as whom the program runs
afterwards, and its mode.
"""

import ctypes
import json
import mmap
import os
import stat
import subprocess
import sys

PAGE = 4096
LIBC = ctypes.CDLL(None, use_errno=True)
OWNER, GROUP = 1000, 2000
# User and group of each caller.
CALLERS = {
    "owner": (OWNER, GROUP), "owner elsewhere": (OWNER, 2001), "member": (1001, GROUP),
    "stranger": (1002, 2002), "root": (0, 0)
}
MODES = (0o6777, 0o2767)
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16


def allocate(file, mode, offset, length):
    if LIBC.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write_directly(path, offset):
    with mmap.mmap(-1, PAGE) as buffer:
        file = os.open(path, os.O_WRONLY | os.O_DIRECT)
        os.pwritev(file, [buffer], offset)
        os.close(file)


def copy_to(path, offset):
    with open(f"{os.path.dirname(path)}/source", "rb") as source, open(path, "r+b") as target:
        os.copy_file_range(source.fileno(), target.fileno(), PAGE, 0, offset)


def on_file(work):
    def run(path):
        file = os.open(path, os.O_RDWR)
        work(file)
        os.close(file)
    return run


with open("/usr/bin/id", "rb") as stream:
    PROGRAM = stream.read()
# Behind the program are some pages that nobody misses.
START = (len(PROGRAM) + PAGE - 1) // PAGE * PAGE
END = START + 4 * PAGE
OPERATIONS = {
    "overwrite": on_file(lambda file: os.pwrite(file, b"x", START + 10)),
    "extend": on_file(lambda file: os.pwrite(file, b"x" * PAGE, END)),
    "extend far": on_file(lambda file: os.pwrite(file, b"x", END + 40 * PAGE)),
    "direct overwrite": lambda path: write_directly(path, START),
    "direct extend": lambda path: write_directly(path, END),
    "truncate": lambda path: os.truncate(path, START),
    "ftruncate": on_file(lambda file: os.ftruncate(file, START)),
    "truncate up": lambda path: os.truncate(path, END + 4 * PAGE),
    "open to nothing": lambda path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
    "fallocate": on_file(lambda file: allocate(file, 0, START, 8 * PAGE)),
    "fallocate within": on_file(lambda file: allocate(file, KEEP_SIZE, START, 8 * PAGE)),
    "punch": on_file(lambda file: allocate(file, PUNCH_HOLE | KEEP_SIZE, START, PAGE)),
    "zero": on_file(lambda file: allocate(file, ZERO_RANGE, START, PAGE)),
    "copy into": lambda path: copy_to(path, START),
    "copy behind": lambda path: copy_to(path, END),
}


def in_child(user, group, work):
    """Runs work as a user; returns its error number, or 0."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            work()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def identity(path):
    """As whom the program runs that a stranger starts."""
    done = subprocess.run([path], user=3000, group=3000, extra_groups=[], capture_output=True,
                          text=True, check=False)
    return done.stdout


def outcome(directory, number, mode, caller, work):
    path = f"{directory}/{number}"
    with open(path, "wb") as stream:
        stream.write(PROGRAM)
        stream.truncate(END)
    os.chown(path, OWNER, GROUP)
    os.chmod(path, mode)
    # The host knows the mode now.
    os.stat(path)
    error = in_child(*CALLERS[caller], lambda: work(path))
    try:
        runs_as = identity(path)
    except OSError as failed:
        runs_as = failed.errno
    return error, runs_as, oct(stat.S_IMODE(os.stat(path).st_mode))


def main(directory):
    with open(f"{directory}/source", "wb") as stream:
        stream.write(bytes(PAGE))
    os.chmod(f"{directory}/source", 0o644)
    found = {}
    for mode in MODES:
        for caller in CALLERS:
            for name, work in OPERATIONS.items():
                found[f"{name}, {oct(mode)}, {caller}"] = outcome(directory, len(found), mode,
                                                                  caller, work)
    json.dump(found, sys.stdout)


main(sys.argv[1])
