# SPDX-License-Identifier: GPL-2.0-only
"""System calls of a kernel in another process (remote.c), by liboutboard-client at a Unix socket,
beside the host's own kernel and two baselines: a round trip by a Unix socket, and one by a word of
shared memory at which both sides spin.
"""

import contextlib
import os
from collections.abc import Collection, Iterator

from contenders import OURS, OUT, Contender, Result, Turns, host, program, scratch, seconds, \
    take_turns
from programs import NATIVE, figures_of

PROGRAM = os.path.join(OUT, "remote")
SOCKET, SPIN = "Unix socket, round trip", "shared word, both spin"
SECONDS_MOST = 300
CROWD, FEW = 100, 2
# Row of remote.c to what it is, and the most nanoseconds with free processors and with one; None:
# shown.
ROWS = {
    "null": ("getppid", (250, 5000)),
    "idle": ("getppid after 1 ms of rest", (8000, 8000)),
    "stat": ("stat", (500, None)),
    "open": ("open, read of 4 KB, close", (1500, None)),
    "message": ("sendmsg and recvmsg of 64 bytes", (None, None)),
}
READ_LEAST = 2.0
CROWD_LEAST, SLOWEST_LEAST = 1.0, 0.1
START_MOST = 0.010


@contextlib.contextmanager
def served(directory: str, *words: str, prefix: Collection[str] = ()) -> Iterator[str]:
    """A server, and its URL. `prefix`: a command that starts another one."""
    url = f"unix:{directory}/kernel"
    host.run(*prefix, program.PROGRAM, "server", "--daemon", *words, url)
    try:
        yield url
    finally:
        host.run(program.PROGRAM, "halt", url)


def measure(rows: Collection[str], *words: str) -> dict[str, float]:
    output = host.run("timeout", SECONDS_MOST, *words).stdout
    return figures_of(output, rows, 1, words[0])


def native(prefix: list[str]) -> dict[str, float]:
    return measure((*ROWS, "read", "socket", "socket-idle", "spin"), *prefix, PROGRAM, "native")


def remote(prefix: list[str], url: str) -> dict[str, float]:
    return measure((*ROWS, "read"), *prefix, PROGRAM, url)


def with_baselines(result: Result, turns: Turns, pinned: bool, idle: bool) -> Result:
    """Shows what two processes need to reach each other at all."""
    rows = {SOCKET: "socket-idle" if idle else "socket"}
    if not pinned and not idle:
        rows[SPIN] = "spin"
    for who, row in rows.items():
        if NATIVE in turns.samples:
            result.samples[who] = [figures[row] for figures in turns.samples[NATIVE]]
    return result


def call_rows(turns: Turns, pinned: bool) -> list[Result]:
    where = "one processor" if pinned else "free processors"
    results = []
    for row, (what, limits) in ROWS.items():
        result = turns.result(f"remote {what}, {where}", "ns", "shown",
                              lambda figures, row=row: figures[row])
        most = limits[pinned]
        if most and OURS in result.samples:
            result.target = f"at most {most} ns"
            result.reached = result.median(OURS) <= most
        results.append(with_baselines(result, turns, pinned, row == "idle"))
    return results


def read_row(turns: Turns, pinned: bool) -> Result:
    where = "one processor" if pinned else "free processors"
    result = turns.result(f"remote read of 1 GB in pieces of 64 KB, {where}", "GB/s",
                          f"at least {READ_LEAST} GB/s", lambda figures: figures["read"])
    if OURS in result.samples:
        result.reached = result.median(OURS) >= READ_LEAST
    return result


def calls(directory: str, rounds: int, pinned: bool) -> list[Result]:
    processor = str(min(os.sched_getaffinity(0)))
    prefix = ["taskset", "-c", processor] if pinned else []
    with served(directory, prefix=prefix) as url:
        turns = take_turns([
            Contender(OURS, lambda: remote(prefix, url)),
            Contender(NATIVE, lambda: native(prefix)),
        ], rounds)
    return [*call_rows(turns, pinned), read_row(turns, pinned)]


def crowds(url: str, rounds: int) -> list[Result]:
    """Many clients at a time against few."""
    rows = ("calls", "slowest")

    def crowd(count: int) -> dict[str, float]:
        return measure(rows, PROGRAM, "crowd", str(count), url)

    turns = take_turns([Contender(OURS, lambda: (crowd(CROWD), crowd(FEW)))], rounds)
    ratio = turns.result(f"remote getppid, {CROWD} clients against {FEW}: calls per second",
                         "times", f"at least {CROWD_LEAST}",
                         lambda both: both[0]["calls"] / both[1]["calls"])
    slowest = turns.result(f"remote getppid, {CROWD} clients: the slowest against the mean",
                           "times", f"at least {SLOWEST_LEAST}", lambda both: both[0]["slowest"])
    for result, least in ((ratio, CROWD_LEAST), (slowest, SLOWEST_LEAST)):
        if OURS in result.samples:
            result.ratio = result.median(OURS)
            result.reached = result.ratio >= least
    return [ratio, slowest]


def make_root(tree: str) -> None:
    """A root with one program, which ends at once."""
    source = f"{tree}.c"
    for name in ("dev", "proc", "sys", "tmp"):
        os.makedirs(os.path.join(tree, name))
    with open(source, "w", encoding="ascii") as text:
        text.write("int main(void)\n{\n\treturn 0;\n}\n")
    host.run("gcc", "-static", "-O2", "-o", os.path.join(tree, "true"), source)


def start(directory: str, rounds: int) -> Result:
    """A program on a server, whole: the command that connects, starts it and waits."""
    tree = os.path.join(directory, "root")
    make_root(tree)
    with served(directory, "--root", tree) as url:
        turns = take_turns([
            Contender(OURS, lambda: seconds(program.PROGRAM, "run", "--on", url, "--", "/true")),
            Contender("outboard run, a kernel of its own", lambda: seconds(
                program.PROGRAM, "run", "--root", tree, "--", "/true")),
            Contender(NATIVE, lambda: seconds(os.path.join(tree, "true"))),
        ], rounds)
    result = turns.result("run --on URL -- true, whole", "s", "at most 10 ms")
    if OURS in result.samples:
        result.reached = result.median(OURS) <= START_MOST
    return result


def remote_calls(rounds: int) -> list[Result]:
    """A kernel in a server, used by other processes."""
    with scratch() as directory:
        results = [*calls(directory, rounds, False), *calls(directory, rounds, True)]
        with served(directory) as url:
            results += crowds(url, rounds)
        return [*results, start(directory, rounds)]
