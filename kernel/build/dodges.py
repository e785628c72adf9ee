#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes docs/dodges.md: where Linux would be in the way, and what is done instead of a patch.

    kernel/build/dodges.py           prints the page
    kernel/build/dodges.py --wraps   prints the wrapped names, one a line

What is dodged is read from the sources that do it. Why is in a comment of the same file:

    Dodge NAME[, NAME ...]: reason.

A dodge without a reason, and a reason for what is no dodge, are errors.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ARCH = Path("kernel/arch")
SETUP = ARCH / "core/setup.c"
SYSCTL = ARCH / "core/sysctl.c"
SYSCALLS = ARCH / "core/syscall_table.c"
CONSOLE = ARCH / "drivers/console.c"
SCRIPT = ARCH / "kernel/vmlinux.lds.S"
MAKEFILE = ARCH / "Makefile"
LINK = Path("kernel/build/link-kernel.sh")

TITLE = """# Dodges

For kernel developers who ask: if not one line of Linux is changed, what is done where it is in the
way?

`kernel/build/dodges.py` makes this page from the sources. A test fails when the two disagree, or
when the linked kernel wraps other names. Another test stops a program at each wrap. The wraps for
devices are checked by their effects on a driver (`tests/library/test_device.py`).
"""


class Wrong(Exception):
    """The sources and their comments disagree."""


@dataclass(frozen=True)
class Dodge:
    name: str
    place: Path


@dataclass(frozen=True)
class Means:
    """One way to get around Linux, and all that is done in this way."""

    title: str
    text: str
    column: str
    dodges: list


def read(path: Path) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


def found(pattern: str, text: str, place: Path) -> list:
    return [Dodge(name, place) for name in dict.fromkeys(re.findall(pattern, text, flags=re.M))]


def c_files() -> list:
    return sorted(path.relative_to(REPOSITORY) for path in (REPOSITORY / ARCH).rglob("*.c"))


def wraps() -> list:
    """The names __wrap_NAME that files of the arch define or declare."""
    return sorted(
        (dodge for path in c_files() for dodge in found(r"\b__wrap_(\w+)", read(path), path)),
        key=lambda dodge: dodge.name,
    )


def command_line() -> list:
    function = read(SETUP).split("ob_command_line_setup(void)\n", 1)[1].split("\n}", 1)[0]
    strings = "".join(re.findall(r'"([^"]*)"', function))
    return found(r"([\w.]+)=", strings, SETUP)


def system_calls() -> list:
    return found(r"^\t\[__NR_(\w+)\] = ", read(SYSCALLS), SYSCALLS)


def means() -> list:
    return [
        Means(
            "Wrapped by the linker",
            "`ld --wrap`: all other files get `__wrap_NAME` where they name NAME.",
            "function or variable",
            wraps(),
        ),
        Means(
            "Own system calls",
            "The table of system calls names a function of the arch, or none.",
            "call",
            system_calls(),
        ),
        Means(
            "Words on the kernel's command line",
            "Each boot gets them; the program's own words come behind and win.",
            "word",
            command_line(),
        ),
        Means(
            "Messages left out of the log",
            "The console does not pass them on; the kernel's own log (dmesg) has them.",
            "function of Linux",
            found(r'^\t\{ "(\w+)", "', read(CONSOLE), CONSOLE),
        ),
        Means(
            "Settings",
            "Changed when Linux registers the table that they are in.",
            "setting",
            found(r'^\t\{ "\w+", "(\w+)"', read(SYSCTL), SYSCTL),
        ),
        Means(
            "Initcalls run later, or again",
            "The linker script puts them aside.",
            "file of Linux",
            found(r"KEEP\(\*(\S+\.o)\(\.initcall", read(SCRIPT), SCRIPT),
        ),
        Means(
            "Flags of the compiler",
            "For modules only.",
            "flag",
            found(
                r"(?:^|\s)(-D\w+|-include \S+)",
                "\n".join(re.findall(r"^KBUILD_\w*FLAGS.*", read(MAKEFILE), flags=re.M)),
                MAKEFILE,
            ),
        ),
        Means(
            "Code of Linux's x86",
            "Compiled with other flags than the rest.",
            "directory or object",
            found(r"^x86-(?:directory|object) := (\S+)", read(MAKEFILE), MAKEFILE),
        ),
        Means(
            "Sections changed after the link",
            "`objcopy` on the linked kernel.",
            "section",
            [
                Dodge(name, LINK)
                for line in re.findall(r"^for section in ([\w. ]+); do", read(LINK), flags=re.M)
                for name in line.split()
            ],
        ),
    ]


def paragraphs(place: Path) -> list:
    """Of all comments of the file, without their marks."""
    is_c = place.suffix in (".c", ".S")
    blocks = re.findall(
        r"/\*.*?\*/" if is_c else r"(?:^[ \t]*#.*\n)+",
        read(place),
        flags=re.M | re.S if is_c else re.M,
    )
    return [
        paragraph
        for block in blocks
        for paragraph in re.split(
            r"\n\s*\n|^(?=Dodge )",
            re.sub(r"^[ \t]*(?:/\*|\*(?!/)|#)[ \t]?|\*/$", "", block, flags=re.M),
            flags=re.M,
        )
    ]


def reasons(place: Path) -> dict:
    """Why, by name."""
    by_name = {}
    for paragraph in paragraphs(place):
        match = re.fullmatch(r"\s*Dodge ([^:]+): (.+)", paragraph, flags=re.S)
        for name in re.split(r",\s+", match[1]) if match else ():
            if name in by_name:
                raise Wrong(f"{place}: two reasons for {name}")
            by_name[name] = " ".join(match[2].split()).rstrip(".")
    return by_name


def check(every: list) -> None:
    for place in {dodge.place for one in every for dodge in one.dodges} | set(c_files()):
        names = {dodge.name for one in every for dodge in one.dodges if dodge.place == place}
        said = set(reasons(place))
        if names - said:
            raise Wrong(
                f"{place}: no comment 'Dodge NAME: reason' for {', '.join(sorted(names - said))}"
            )
        if said - names:
            raise Wrong(
                f"{place}: a comment explains what is no dodge: {', '.join(sorted(said - names))}"
            )


def rows(dodges: list) -> dict:
    """The names that are dodged in one file for one reason."""
    together = {}
    for dodge in dodges:
        together.setdefault((dodge.place, reasons(dodge.place)[dodge.name]), []).append(dodge.name)
    return together


def page(every: list) -> str:
    lines = [TITLE]
    for one in every:
        if not one.dodges:
            raise Wrong(f"nothing found for: {one.title}")
        lines += [
            f"## {one.title}",
            "",
            one.text,
            "",
            f"| {one.column} | why | where |",
            "|---|---|---|",
        ]
        for (place, reason), names in rows(one.dodges).items():
            lines.append(f"| {', '.join(f'`{name}`' for name in names)} | {reason} | `{place}` |")
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wraps", action="store_true", help="print the wrapped names only")
    if parser.parse_args().wraps:
        print("\n".join(dodge.name for dodge in wraps()))
        return
    every = means()
    check(every)
    print(page(every), end="")


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"dodges.py: {wrong}")
