#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Where the time of a boot goes: rewrites the table in docs/boot.md.

    bench/run boot && bench/boot_table.py

Boots with initcall_debug and takes the least of many boots for each step: this machine's
other work only ever adds. Telling the time costs time too, so the sum is more than a boot takes.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.environ.get("OUTBOARD_OUT", os.path.join(HERE, "..", "out"))
PAGE = os.path.join(HERE, "..", "docs", "boot.md")
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
ROUNDS = 20
SHOWN = 20

CALL = re.compile(r"initcall (\w+)\+\S+ returned \S+ after (\d+) usecs")
LINE = re.compile(r"^\[ *(\d+\.\d+)\] (.*)$", re.MULTILINE)
# The first line of the log that belongs to a stage.
STAGES = [("memory map, per-CPU areas", "Linux version"),
          ("allocators, scheduler, RCU, console", "Kernel command line"),
          ("first processes, before initcalls", "Calibrating delay loop"),
          ("initcalls", "devtmpfs: initialized"), ("root, /dev, init", "Run /init as init process")]


def boot(profile: str, command_line: str) -> tuple[float, str]:
    done = subprocess.run([
        os.path.join(OUT, "bench", f"boot_time-{profile}"),
        *([command_line] if command_line else [])
    ], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[0]), done.stderr


def stages(log: str) -> list[float]:
    starts = []
    for _, text in STAGES:
        starts.append(
            next((float(time) * 1e6 for time, line in LINE.findall(log) if line.startswith(text)),
                 None))
    if None in starts:
        raise ValueError(
            f"the kernel's log has no line that starts with: {STAGES[starts.index(None)][1]}")
    return [later - sooner for sooner, later in zip(starts, starts[1:])]


def measure(profile: str) -> list[str]:
    whole = min(boot(profile, "")[0] for _ in range(ROUNDS))
    logs = [boot(profile, "initcall_debug")[1] for _ in range(ROUNDS)]
    plain = [boot(profile, "quiet loglevel=8")[1] for _ in range(ROUNDS)]
    least: dict[str, int] = {}
    for log in logs:
        for name, time in CALL.findall(log):
            least[name] = min(int(time), least.get(name, 1 << 30))
    rows = [f"\n### {profile}: {whole:.2f} ms\n", "| step | microseconds |", "|---|---|"]
    for (name, _), times in zip(STAGES, zip(*map(stages, plain))):
        rows.append(f"| {name} | {min(times):.0f} |")
    largest = sorted(least.items(), key=lambda item: -item[1])
    rows += [f"| initcall `{name}` | {time} |" for name, time in largest[:SHOWN]]
    rest = sum(time for _, time in largest[SHOWN:])
    rows.append(f"| the other {len(largest) - SHOWN} initcalls | {rest} |")
    return rows


def main() -> int:
    rows = [row for profile in ("base", "full") for row in measure(profile)]
    with open(PAGE, encoding="utf-8") as stream:
        before, _, rest = stream.read().partition(BEGIN)
    _, _, after = rest.partition(END)
    with open(PAGE, "w", encoding="utf-8") as stream:
        stream.write(before + BEGIN + "\n".join(rows) + "\n\n" + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
