# SPDX-License-Identifier: GPL-2.0-only
"""Crash safety: kill -9 at random moments. Data in the host's page cache survives:
docs/invariants.md has power cuts.

Each round first copies a file and waits for its end: that file is durable from then on (invariant
V11). Then it kills a second copy, lets the file system's own journal mend the image, checks it, and
goes on with the same image. In the end every durable file must be whole.
"""

import os
import random
import subprocess
import time

import pytest

from support import host, images, program, trees
from support.processes import wait_until_closed

# Kills that must land while a copy runs; the long test has OUTBOARD_CRASH_ROUNDS.
KILLS = [10,
         pytest.param(int(os.environ.get("OUTBOARD_CRASH_ROUNDS", "50")), marks=pytest.mark.long)]


def mend_ext4(image: str, _round: int) -> None:
    images.check_ext4(image)


def mend_xfs(image: str, number: int) -> None:
    """Replays the log, by the host's kernel and by ours in turn; then nothing may be wrong. We
    replay only to write.
    """
    if number % 2 and host.knows("xfs"):
        with host.loop_mount(image, "xfs"):
            pass
    else:
        program.good("cp", __file__, f"{image}:/replayed")
    host.run("xfs_repair", "-n", "-f", image)


def make_load(directory: str) -> str:
    """Many small files and a few larger ones: metadata and data are both under way when the kill
    comes.
    """
    content = random.Random(7)
    tree = os.path.join(directory, "load")
    for folder in range(20):
        os.makedirs(f"{tree}/{folder}")
        for number in range(50):
            with open(f"{tree}/{folder}/{number}", "wb") as stream:
                stream.write(content.randbytes(200_000 if number == 0 else content.randrange(6000)))
    return tree


def copy_time(tree: str, image: str) -> float:
    start = time.monotonic()
    program.good("cp", "-r", tree, f"{image}:/first")
    return time.monotonic() - start


def kill_a_copy(tree: str, image: str, target: str, delay: float) -> bool:
    """Starts a copy and kills it after `delay` seconds. True if it was still running."""
    running = subprocess.Popen(program.command("cp", "-r", tree, f"{image}:/{target}"),
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        running.wait(timeout=delay)
        return False
    except subprocess.TimeoutExpired:
        running.kill()
        landed = running.wait() == -9
        wait_until_closed(image)
        return landed


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("kind, mend", [("ext4", mend_ext4), ("xfs", mend_xfs)],
                         ids=["ext4", "xfs"])
def test_killed_copies(work, kind, mend, kills, capsys):
    tree, image = make_load(work), images.make(f"{work}/crash.img", kind, 1024)
    program.good("cp", "-r", tree, f"{image}:/durable")
    longest = copy_time(tree, image)
    moments, killed, durable = random.Random(11), 0, {}
    while killed < kills:
        name = f"file{len(durable)}"
        with open(f"{work}/{name}", "wb") as stream:
            stream.write(moments.randbytes(moments.randrange(1, 400_000)))
        program.good("cp", f"{work}/{name}", f"{image}:/durable/{name}")
        durable[name] = trees.sha256_of(f"{work}/{name}")
        if kill_a_copy(tree, image, f"load{killed % 4}", moments.uniform(0, longest * 1.1)):
            killed += 1
        else:
            # It was done sooner than the one that was timed: other work on the host has ended.
            longest *= 0.8
        mend(image, len(durable))
        last = subprocess.run(program.command("cat", f"{image}:/durable/{name}"),
                              capture_output=True, timeout=60, check=True)
        with open(f"{work}/{name}", "rb") as stream:
            assert last.stdout == stream.read(), (
                f"round {len(durable)}: {name} was reported durable and is not whole")
    program.good("cp", "-r", f"{image}:/durable", f"{work}/back")
    found = trees.describe(f"{work}/back")
    assert {name: found[name].sha256 for name in durable} == durable
    with capsys.disabled():
        print(f"\n{kind}: {len(durable)} rounds, {killed} copies killed, one copy takes "
              f"{longest:.2f} s")
