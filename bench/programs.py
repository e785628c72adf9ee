# SPDX-License-Identifier: GPL-2.0-only
"""Programs as processes of the kernel: the same statically linked program (program.c) on the host,
in Outboard, in User Mode Linux and in gVisor, with two processors and pinned to one.

UML is Debian's, with the directory as root by hostfs. gVisor is the Go module gvisor.dev/gvisor,
and its runsc is looked for in PATH and beside the programs of the benchmarks.
"""

import os
import shutil
from collections.abc import Collection

from contenders import OURS, OUT, Contender, Result, host, program, scratch, take_turns
from support import images, programs

NATIVE, UML, GVISOR = "host's own", "UML", "gVisor"
GCC = ("/usr/bin/gcc", "/small.i", "/tmp/small")
SECONDS_MOST = 180
# Row of program.c to what it is, and the most microseconds with two processors and with one.
# A row without them is compared with the host.
ROWS = {
    "call": ("getppid", (1.0, 6.5)),
    "write": ("write of 4 KB to /dev/null", (1.0, 6.5)),
    "signal": ("signal to itself, handler, return", (10, 30)),
    "fault": ("page fault in order", (2.7, 2.7)),
    "mmap": ("mmap of 64 KB, touch, munmap", (40, 40)),
    "switch": ("context switch by pipe", (16, 16)),
    "fork": ("fork and exit", (300, 300)),
    "exec": ("fork and exec of a static program", (1200, 1200)),
    "gcc": ("gcc -O2 of a small file", None),
}
GCC_MOST = 1.8


def part_of_gcc(kind: str, name: str) -> str:
    printed = host.run("gcc", f"-print-{kind}-name={name}").stdout.strip()
    return os.path.normpath(shutil.which(printed, mode=os.F_OK, path=host.PATH) or printed)


def copy_gcc(tree: str) -> None:
    """A C compiler that links, without headers."""
    for name in ("cc1", "collect2", "as", "ld", "lto-wrapper"):
        for file in programs.files_of(part_of_gcc("prog", name)):
            programs.copy_in(tree, file)
    for file in programs.files_of(GCC[0]):
        programs.copy_in(tree, file)
    for name in ("liblto_plugin.so", "crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o",
                 "crtbeginS.o", "crtend.o", "crtendS.o", "libgcc.a", "libgcc_s.so",
                 "libgcc_s.so.1", "libc.so", "libc.so.6", "libc_nonshared.a"):
        programs.copy_in(tree, part_of_gcc("file", name))


def make_tree(tree: str) -> None:
    for name in ("dev", "proc", "tmp", "usr/bin", "usr/lib", "usr/lib64"):
        os.makedirs(os.path.join(tree, name))
    for name in ("bin", "lib", "lib64"):
        os.symlink(f"usr/{name}", os.path.join(tree, name))
    shutil.copy(os.path.join(OUT, "program"), tree)
    source = os.path.join(program.REPOSITORY, "bench", "program.c")
    host.run("gcc", "-E", "-P", "-o", os.path.join(tree, GCC[1].lstrip("/")), source)
    copy_gcc(tree)
    os.mknod(os.path.join(tree, "dev/null"), 0o20666, os.makedev(1, 3))


def found(name: str) -> str:
    """The path of a peer's program."""
    path = shutil.which(name, path=f"{OUT}:{host.PATH}")
    if not path:
        raise host.ToolFailed(f"no {name} is installed")
    return path


def figures_of(output: str, rows: Collection[str], unit: float, who: str) -> dict[str, float]:
    """The lines "ROW NUMBER" of a program, divided by `unit`: one for each row."""
    lines = (line.split() for line in output.splitlines())
    figures = {words[0]: float(words[1]) / unit for words in lines
               if len(words) == 2 and words[0] in rows}
    if set(figures) != set(rows):
        raise host.ToolFailed(f"{who} has no figure of {set(rows) - set(figures)}")
    return figures


def measure(command: list) -> dict[str, float]:
    """Microseconds by row. What else a machine's console shows is left alone."""
    output = host.run("timeout", SECONDS_MOST, *command).stdout
    return figures_of(output, ROWS, 1000, command[0])


def commands(tree: str, image: str) -> dict:
    words = ["/program", *GCC]
    return {
        NATIVE: lambda: ["chroot", tree, *words],
        OURS: lambda: [program.PROGRAM, "run", image, "--", *words],
        UML: lambda: [found("linux.uml"), "mem=512M", "root=/dev/root", "rootfstype=hostfs",
                      f"rootflags={tree}", "rw", "quiet", "con=null", "con0=null,fd:1",
                      f"init={words[0]}", "--", *GCC, "init"],
        GVISOR: lambda: [found("runsc"), "--platform=systrap", "--network=none", "--rootless",
                         "--ignore-cgroups", "do", "-root", tree, *words],
    }


def result(name: str, turns, pinned: bool) -> Result:
    what, most = ROWS[name]
    where = "one processor" if pinned else "two processors"
    of = turns.result(f"{what}, {where}", "us", "", lambda figures: figures[name])
    if OURS not in of.samples:
        of.target = "not measured"
    elif most:
        of.target = f"at most {most[pinned]} us"
        of.reached = of.median(OURS) <= most[pinned]
    elif NATIVE in of.samples:
        of.target = f"at most {GCC_MOST} of the host's own"
        of.ratio = of.pair(OURS, NATIVE)
        of.reached = of.ratio <= GCC_MOST
    return of


def run_programs(rounds: int) -> list[Result]:
    """Processes of the kernel, beside those of other kernels in user space."""
    if os.geteuid() != 0:
        print("left out: programs: only root may make devices and change the root directory")
        return []
    processor = str(min(os.sched_getaffinity(0)))
    results = []
    with scratch() as directory:
        tree = os.path.join(directory, "tree")
        make_tree(tree)
        image = images.make_ext4_of(os.path.join(directory, "root.img"), tree, 256)
        for pinned in (False, True):
            prefix = ["taskset", "-c", processor] if pinned else []
            contenders = [
                Contender(who, lambda command=command, prefix=prefix:
                          measure([*prefix, *command()]))
                for who, command in commands(tree, image).items()
            ]
            turns = take_turns(contenders, rounds)
            results += [result(name, turns, pinned) for name in ROWS]
    return results
