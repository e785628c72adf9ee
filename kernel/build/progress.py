#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Shows how far Linux's build is.

Reads make's output from standard input. Lines that only name a step
("  CC      mm/slub.o") are counted; everything else, warnings and errors
above all, is passed on as it is. On a terminal a bar is drawn, otherwise a
line is written every 30 seconds.

usage: progress.py NAME DONE TOTAL    (TOTAL 0: not known)
"""
import re
import sys
import time

STEP = re.compile(r"^  (\[M\] )?[A-Z0-9_]{2,11}\s+(\[M\]\s+)?\S+$")
COMPILED = re.compile(r"^  (CC|AS|HOSTCC)\s")
NOISE = re.compile(r"^(make(\[\d+\])?: (Entering|Leaving) directory|  GEN     Makefile$)")
INTERVAL = 30
WIDTH = 40


class Display:
    def __init__(self, name, done, total, stream):
        self.name = name
        self.done = done
        self.total = total
        self.stream = stream
        self.terminal = stream.isatty()
        self.started = time.monotonic()
        self.shown = self.started if not self.terminal else 0.0

    def state(self):
        elapsed = int(time.monotonic() - self.started)
        clock = f"{elapsed // 60}:{elapsed % 60:02d}"
        if not self.total:
            return f"{self.name}: {self.done} objects, {clock}"
        total = max(self.total, self.done)
        percent = 100 * self.done // total
        if not self.terminal:
            return f"{self.name}: {self.done} of about {total} objects ({percent} %), {clock}"
        filled = WIDTH * self.done // total
        bar = "#" * filled + "." * (WIDTH - filled)
        return f"{self.name} [{bar}] {percent:3d} % {self.done}/{total} {clock}"

    def update(self):
        now = time.monotonic()
        if now - self.shown < (0.1 if self.terminal else INTERVAL):
            return
        self.shown = now
        if self.terminal:
            self.stream.write("\r\033[K" + self.state())
        else:
            self.stream.write("outboard: " + self.state() + "\n")
        self.stream.flush()

    def message(self, line):
        if self.terminal:
            self.stream.write("\r\033[K")
        self.stream.write(line)
        self.stream.flush()

    def finish(self):
        if self.terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()


def main():
    name, done, total = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    display = Display(name, done, total, sys.stdout)
    for line in sys.stdin:
        if COMPILED.match(line):
            display.done += 1
        elif not STEP.match(line) and not NOISE.match(line):
            display.message(line)
        display.update()
    display.finish()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
