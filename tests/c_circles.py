#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails for a circle of C files: files that need each other to be understood.

A file uses another one if it includes it, or if its code has a name that the other one defines.
Declarations in headers are neither uses nor definitions, inline functions there are both.
KNOWN lists the circles that are there for a reason. A row that is no circle any more is a failure,
too.
"""

import os
import re

import gate
from import_circles import Graph, circles, describe

# Each is looked at for itself: its files call those of others by public headers only.
PLACES = ("hypercall/loader", "hypercall/posix", "hypercall/mock", "devices", "lib", "kernel/arch")
# The place, and the files of a circle there in alphabetical order; and why it stays.
KNOWN: dict[tuple[str, str], str] = {
    ("hypercall/posix", "descriptor.c raw.h"):
        "raw.h gives new descriptors to descriptor.c, which makes its calls by raw.h",
    ("kernel/arch", (
        "core/adopt.c core/baton.c core/baton.h core/carrier.c core/component.c core/coroutine.c "
        "core/eintr.c core/evict.c core/gate.c core/idle.c core/init.c core/interrupt.c "
        "core/irq.c core/leader.c core/lock.h core/parked.c core/service.c core/service.h "
        "core/signal.c core/smp.c core/space_access.c core/space_fault.c core/space_map.c "
        "core/spin.c core/stop.c core/switch.c core/switch.h core/syscall_table.c core/thread.c "
        "core/time.c core/vcpu.c core/vcpu.h core/work.c include/asm/irqflags.h "
        "include/asm/spin.h include/asm/uaccess.h")):
        "the scheduler: a thread that waits runs what others wait for, for a program's memory too",
    ("kernel/arch", "drivers/socket_calls.c drivers/socket_message.c drivers/sockets.c"):
        "one kind of socket in three files: its table of calls has all of them",
}

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                             re.DOTALL)
ATTRIBUTE = re.compile(r"__attribute__\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# A line that begins with one of these words defines nothing that other files can use.
NO_DEFINITION = r"(?!static\b|typedef\b|extern\b|return\b|else\b|asm\b|_Static_assert\b)"
FUNCTION = re.compile(rf"^{NO_DEFINITION}[A-Za-z_][\w \t*()]*?\b(\w+)\([^;{{}}]*\)\s*\{{",
                      re.MULTILINE)
VARIABLE = re.compile(rf"^{NO_DEFINITION}(?:const |volatile |struct |enum |unsigned )*\w+[ \t*]+"
                      r"(?:\w+ )*(\w+)(?:\[[^\]]*\])*(?:\s+\w+)?\s*(?:=|;)", re.MULTILINE)
INLINE = re.compile(r"^static (?:__always_)?(?:inline |\w+ )*[\w \t*]*?\b(\w+)\([^;{]*\)\s*"
                    r"(\{.*?^\})", re.MULTILINE | re.DOTALL)
# Members of structs are no names of files.
WORD = re.compile(r"(?<![\w.>])[A-Za-z_]\w*|(?<=[^-]>)[A-Za-z_]\w*")


def without_text(source: str) -> str:
    """The source without comments, literals and attributes. Lines keep their numbers."""
    def blank(found: re.Match) -> str:
        if source.startswith("#include", source.rfind("\n", 0, found.start()) + 1):
            return found[0]
        return re.sub(r"[^\n]+", " ", found[0])

    return ATTRIBUTE.sub("", COMMENT_OR_TEXT.sub(blank, source)).replace("\n ", "\n")


class File:
    """The names that a C file or a header defines and uses, and its includes."""

    def __init__(self, path: str):
        self.defined: set[str] = set()
        self.used: dict[str, str] = {}  # word to a place
        self.included: dict[str, str] = {}  # path to a place
        with open(path, encoding="utf-8") as stream:
            source = without_text(stream.read())
        for found in INCLUDE.finditer(source):
            place = f"{path}:{source.count(chr(10), 0, found.start()) + 1}"
            target = os.path.join(os.path.dirname(path), found[1])
            self.included[os.path.normpath(target)] = place
        if path.endswith(".c"):
            self.defined = set(FUNCTION.findall(source)) | set(VARIABLE.findall(source))
            self.use(path, source, 0)
            return
        for found in INLINE.finditer(source):
            self.defined.add(found[1])
            self.use(path, found[2], source.count("\n", 0, found.start(2)))

    def use(self, path: str, text: str, lines_before: int) -> None:
        for number, line in enumerate(text.splitlines(), lines_before + 1):
            for word in WORD.findall(line):
                self.used.setdefault(word, f"{path}:{number} ({word})")


def files_of(place: str) -> dict[str, File]:
    paths = [os.path.join(directory, name) for directory, _, names in os.walk(place)
             for name in names if name.endswith((".c", ".h"))]
    return {path: File(path) for path in sorted(paths)}


def graph_of(files: dict[str, File]) -> Graph:
    """Files, those that each uses, and a place where it does."""
    definers: dict[str, set[str]] = {}
    for path, file in files.items():
        for word in file.defined:
            definers.setdefault(word, set()).add(path)
    graph: Graph = {path: {} for path in files}
    for path, file in files.items():
        uses = graph[path]
        for target, place in file.included.items():
            if target in files:
                uses.setdefault(target, place)
        for word, place in file.used.items():
            # A name that several files define is chosen by the configuration: no use of one.
            if len(definers.get(word, ())) == 1:
                uses.setdefault(next(iter(definers[word])), place)
        uses.pop(path, None)
    return graph


def main(root: str, known: dict[tuple[str, str], str] | None = None) -> int:
    os.chdir(root)
    known = KNOWN if known is None else known
    waiting, bad, count = set(known), [], 0
    for place in PLACES:
        files = files_of(place)
        count += len(files)
        if not files:
            bad.append(f"no C file in {place}/")
        graph = graph_of(files)
        for circle in circles(graph):
            names = " ".join(os.path.relpath(path, place) for path in circle)
            if (place, names) in waiting:
                waiting.remove((place, names))
                continue
            bad.append(f"{place}: files use each other: {names}\n{describe(graph, circle)}")
    bad += [f"{place}: {names} is no circle any more: remove it from KNOWN"
            for place, names in sorted(waiting)]
    return gate.verdict(bad, f"{count} C files and headers have no circle, besides {len(known)} "
                        "known ones", "move what two files share into a third, below both")


if __name__ == "__main__":
    gate.run(main)
