# SPDX-License-Identifier: GPL-2.0-only
"""The measuring itself: contenders take turns, round by round; medians are kept with all samples.
"""

import contextlib
import dataclasses
import mmap
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "tests"))

from support import host, program  # noqa: E402  (needs the path above)

OUT = os.path.join(program.OUT, "bench")
OURS = "outboard"


@dataclasses.dataclass
class Contender:
    name: str
    run: Callable  # returns the measured value


@dataclasses.dataclass
class Result:
    """One line of the table: medians of each contender, and what was to be reached."""

    name: str
    unit: str
    samples: dict  # contender to list of values
    target: str
    reached: bool | None  # None: shown, not judged
    ratio: float | None = None  # what the target is about, ours against the peer's
    # Contender to ratios of single rounds, where rounds are pairs.
    ratios: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    # Contender to the reason why it has no samples.
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)

    def median(self, contender: str) -> float:
        return statistics.median(self.samples[contender])

    def pair(self, contender: str, peer: str) -> float:
        """Keeps the contender's ratio to the peer in each round. Returns their median."""
        self.ratios[contender] = [
            ours / theirs for ours, theirs in zip(self.samples[contender], self.samples[peer])
        ]
        return statistics.median(self.ratios[contender])


@dataclasses.dataclass
class Turns:
    """Measurements of contenders in turns. Each one has a sample of every round, or is left out."""

    samples: dict[str, list]
    left_out: dict[str, str]  # contender to the reason

    def result(self, name: str, unit: str, target: str,
               value: Callable[[Any], float] = lambda measured: measured) -> Result:
        """One line of the table, not judged yet. `value` makes a sample of what a run measured."""
        samples = {who: list(map(value, measured)) for who, measured in self.samples.items()}
        return Result(name, unit, samples, target, None, left_out=self.left_out)


def reason(error: Exception) -> str:
    """The first line of an error that has this word, or the last line, short and without this
    machine's paths. Often a tool wrote it.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = next((line for line in lines if "error" in line.lower()), lines[-1])
    line = line.replace(program.OUT, "out").replace(program.REPOSITORY + os.sep, "")
    return line if len(line) <= 120 else f"...{line[-117:]}"


WARM_BYTES = 1 << 30
REST_SECONDS = 20


def touch_memory() -> None:
    with mmap.mmap(-1, WARM_BYTES) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        zeros = bytes(1 << 20)
        for _ in range(WARM_BYTES >> 20):
            memory.write(zeros)


def warm_memory() -> None:
    """Touches memory of the machine and frees it. A virtual machine may have given free memory back
    to its host: without this, the contender that asks for memory first pays for that. By a process
    of its own: a child inherits the peak of its parent's memory.
    """
    child = multiprocessing.get_context("fork").Process(target=touch_memory)
    child.start()
    child.join()
    assert child.exitcode == 0


def rest() -> None:
    """As long as a virtual machine takes to give free memory back: what comes after a break."""
    time.sleep(REST_SECONDS)


def take_turns(contenders: list[Contender], rounds: int,
               before: Callable[[], None] = warm_memory) -> Turns:
    """
    Each round lets every contender run once, in an order of its own: none runs always behind the
    same one, which may leave the caches cold. `before` is called ahead of each. A contender that
    fails once is left out with the reason: rounds are compared as pairs, so all or none of its
    samples count.
    """
    samples: dict[str, list] = {contender.name: [] for contender in contenders}
    left_out: dict[str, str] = {}
    for number in range(rounds):
        for contender in random.Random(number).sample(contenders, len(contenders)):
            if contender.name not in samples:
                continue
            try:
                before()
                samples[contender.name].append(contender.run())
            except (host.ToolFailed, OSError) as error:
                print(f"left out: {contender.name}, round {number + 1}: {error}", file=sys.stderr)
                left_out[contender.name] = f"round {number + 1} of {rounds}: {reason(error)}"
                del samples[contender.name]
    return Turns(samples, left_out)


def seconds(*command, stdout=subprocess.DEVNULL, **variables) -> float:
    """Wall time of one command, which must succeed."""
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, env=host.environment(**variables), check=False)
    taken = time.monotonic() - start
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace")[-300:]
        words = " ".join(map(str, command))
        raise host.ToolFailed(f"{words} ended with {done.returncode}:\n{said}")
    return taken


@contextlib.contextmanager
def scratch():
    """A directory on the disk that out/ is on."""
    directory = os.path.join(OUT, "scratch")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
