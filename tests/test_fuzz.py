# SPDX-License-Identifier: GPL-2.0-only
"""Corrupt metadata: one byte changed at each of 200 seeded places of an image.

The program may read what is left (0), or say what is wrong (1). If the kernel panics, the program ends with
the exit code of that and a message, or, if it checks itself, reports it; such images belong into docs/caveats.md. It never hangs and never dies silently.
"""

import concurrent.futures
import os
import random
import subprocess

import pytest

from support import host, images, program

PLACES = int(os.environ.get("OUTBOARD_FUZZ_PLACES", "200"))
TIMEOUT = 20
SEED = 20_26
FILL = b"\xa5"


def make_tree(tree: str, links: bool) -> None:
    """Much metadata; all that files hold is FILL."""
    for folder in ("a", "a/b", "a/b/c", "many"):
        os.makedirs(f"{tree}/{folder}")
        for size in (0, 10, 3000, 20_000):
            with open(f"{tree}/{folder}/size{size}", "wb") as stream:
                stream.write(FILL * size)
    for number in range(300):
        with open(f"{tree}/many/a rather long name of a file {number}", "wb") as stream:
            stream.write(FILL * number)
    if links:
        os.symlink("a/b", f"{tree}/link")
        os.symlink("x" * 150, f"{tree}/longlink")
        os.link(f"{tree}/a/size10", f"{tree}/hard")
        os.setxattr(f"{tree}/a/size10", "user.name", b"value" * 50)


def metadata(image: str) -> list:
    """Where the ranges of 64 bytes are that are neither zero nor what the tree's files hold."""
    dull = (bytes(64), FILL * 64)
    found = []
    with open(image, "rb") as stream:
        position, end = 0, os.path.getsize(image)
        while position < end:
            try:
                position = os.lseek(stream.fileno(), position, os.SEEK_DATA)
            except OSError:
                break
            piece = os.pread(stream.fileno(), 1 << 16, position)
            found += [position + start for start in range(0, len(piece), 64)
                      if piece[start:start + 64] not in dull]
            position += len(piece)
    return found


def places(image: str) -> list:
    """(offset, mask) pairs, the same ones for the same image."""
    chosen = random.Random(SEED)
    ranges = metadata(image)
    return [(chosen.choice(ranges) + chosen.randrange(64), chosen.randrange(1, 256)) for _ in range(PLACES)]


def change_byte(image: str, offset: int, mask: int) -> None:
    with open(image, "r+b") as stream:
        stream.seek(offset)
        old = stream.read(1) or b"\0"
        stream.seek(offset)
        stream.write(bytes([old[0] ^ mask]))


def attempt(pristine: str, kind: str, offset: int, mask: int) -> str:
    """One changed image: "ok", "error", "kernel bug", or a line that says what must not be."""
    image = f"{pristine}.{offset}.{mask}"
    copy = image + ".out"
    host.copy_sparse(pristine, image)
    change_byte(image, offset, mask)
    try:
        outcomes = [ended("ls", "--ro", "--type", kind, "-R", f"{image}:/"), ended("cp", "--type", kind, "-r", f"{image}:/", copy)]
    finally:
        subprocess.run(["rm", "-rf", image, copy], check=True)
    for worst in ("wrong", "kernel bug", "error"):
        for outcome in outcomes:
            if outcome.startswith(worst):
                return f"{outcome} (byte {offset} ^ {mask:#x})"
    return "ok"


def ended(*words) -> str:
    try:
        result = program.run(*words, vcpus=1, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"wrong: {words[0]} hangs"
    except program.Reported as found:
        return f"kernel bug: {words[0]}: {found.line}"
    if result.code == 0:
        return "ok"
    if result.code == 1 and result.err.strip():
        return "error"
    if result.kernel_bug:
        return f"kernel bug: {result.err.strip().splitlines()[-1]}"
    return f"wrong: {words[0]} ended with {result.code}: {result.err.strip()[-300:]}"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "vfat"])
def test_changed_bytes(work, kind, capsys):
    tree, pristine = f"{work}/tree", f"{work}/{kind}.img"
    make_tree(tree, links=kind != "vfat")
    images.make(pristine, kind)
    program.good("cp", "-a" if kind != "vfat" else "-r", tree, f"{pristine}:/")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda place: attempt(pristine, kind, *place), places(pristine)))
    wrong = [outcome for outcome in outcomes if outcome.startswith("wrong")]
    bugs = [outcome for outcome in outcomes if outcome.startswith("kernel bug")]
    with capsys.disabled():
        read = outcomes.count("ok")
        print(f"\n{kind}: {read} read, {len(outcomes) - read - len(bugs) - len(wrong)} refused, {len(bugs)} kernel bugs, "
              f"{len(wrong)} wrong")
        for line in bugs:
            print("  " + line)
    assert not wrong, "\n".join(wrong)
