# SPDX-License-Identifier: GPL-2.0-only
"""The measuring itself: contenders take turns, round by round; medians are kept with all samples."""

import contextlib
import dataclasses
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests"))

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
    ratios: dict = dataclasses.field(default_factory=dict)  # contender to ratios of single rounds, where rounds are pairs

    def median(self, contender: str) -> float:
        return statistics.median(self.samples[contender])

    def pair(self, contender: str, peer: str) -> float:
        """Keeps the contender's ratio to the peer in each round. Returns their median."""
        self.ratios[contender] = [ours / theirs for ours, theirs in zip(self.samples[contender], self.samples[peer])]
        return statistics.median(self.ratios[contender])


def take_turns(contenders: list, rounds: int) -> dict:
    """Each round lets every contender run once, in an order that rotates. A contender that fails is left out, and said so."""
    samples = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        turn = number % len(contenders)
        for contender in contenders[turn:] + contenders[:turn]:
            if contender.name not in samples:
                continue
            try:
                samples[contender.name].append(contender.run())
            except (host.ToolFailed, OSError) as error:
                print(f"left out: {contender.name}: {str(error).splitlines()[0]}", file=sys.stderr)
                del samples[contender.name]
    return samples


def seconds(*command, stdout=subprocess.DEVNULL, **variables) -> float:
    """Wall time of one command, which must succeed."""
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                          env=host.environment(**variables), check=False)
    taken = time.monotonic() - start
    if done.returncode != 0:
        raise host.ToolFailed(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.decode()[-300:]}")
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
