# SPDX-License-Identifier: GPL-2.0-only
"""Corrupt metadata: one byte changed at each of some seeded places of an image, for each type of
the matrix.

The program may read what is left (0), or report an error (1). If the kernel panics, the program
ends with the exit code of that and a message, or, if it checks itself, reports it; such images
belong into docs/caveats.md. It never hangs and never dies silently. LIMITS says for each type how
many images must be read, and how many may panic. An error must not cost the other files: of most
images, a tenth of the files must come out right (USEFUL). Of an image without a change, all must.
"""

import concurrent.futures
import filecmp
import os
import random
import subprocess
import typing

import pytest

from matrix.recipes import RECIPES
from matrix.test_matrix import require
from support import host, program

# Images of each type. The program runs twice on each.
PLACES = [20, pytest.param(100, marks=pytest.mark.long)]
# No image takes so long, on the slowest machine.
TIMEOUT = 180
SEED = 20_26
FILL = b"\xa5"
OLDER = "damaged: its last log cannot be read, so files are as an earlier checkpoint has them"


def make_tree(tree: str, holds) -> None:
    """Much metadata; all that files hold is FILL."""
    for folder in ("a", "a/b", "a/b/c", "many"):
        os.makedirs(f"{tree}/{folder}")
        for size in (0, 10, 3000, 20_000):
            with open(f"{tree}/{folder}/size{size}", "wb") as stream:
                stream.write(FILL * size)
    for number in range(min(300, holds.many)):
        with open(f"{tree}/many/rather long name of file {number}", "wb") as stream:
            stream.write(FILL * number)
    if holds.symlinks:
        os.symlink("a/b", f"{tree}/link")
        os.symlink("x" * 150, f"{tree}/longlink")
    if holds.hardlinks:
        os.link(f"{tree}/a/size10", f"{tree}/hard")
    if holds.xattrs:
        os.setxattr(f"{tree}/a/size10", "user.name", b"value" * 50)


def tree_of(image: str) -> str:
    """The tree that an image holds."""
    return os.path.join(os.path.dirname(image), "tree")


def make_image(image: str, recipe) -> None:
    """Filled by us, or where we only read the type by the recipe's own filler."""
    holds, tree = recipe.written or recipe.filled, tree_of(image)
    make_tree(tree, holds)
    if recipe.written:
        recipe.empty(image)
        program.good("cp", *recipe.options, "-a" if holds.hardlinks else "-r",
                     tree, f"{image}:/")
        return
    if recipe.kind == "ufs":
        # makefs makes as many inodes as the files' bytes ask for.
        with open(f"{tree}/many/large", "wb") as stream:
            stream.write(FILL * 2_000_000)
    recipe.fill(image, tree)


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


def places(image: str, count: int) -> list:
    """(offset, mask) pairs, the same ones for the same image and number."""
    chosen = random.Random(SEED)
    ranges = metadata(image)
    return [(chosen.choice(ranges) + chosen.randrange(64), chosen.randrange(1, 256))
            for _ in range(count)]


def change_byte(image: str, offset: int, mask: int) -> None:
    with open(image, "r+b") as stream:
        stream.seek(offset)
        old = stream.read(1) or b"\0"
        stream.seek(offset)
        stream.write(bytes([old[0] ^ mask]))


class Outcome(typing.NamedTuple):
    """The result for one changed image."""

    text: str  # "ok", "error...", "kernel bug...", or "wrong..." with what must not be
    share: float  # of the regular files: those that were copied right


def copied_right(tree: str, copy: str) -> float:
    """The share of the tree's regular files that the copy has."""
    found = []
    for directory, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(directory, name)
            other = os.path.join(copy, os.path.relpath(path, tree))
            if not os.path.islink(path):
                found.append(os.path.isfile(other) and filecmp.cmp(path, other, shallow=False))
    return sum(found) / len(found)


def attempt(pristine: str, recipe, offset: int, mask: int) -> Outcome:
    image = f"{pristine}.{offset}.{mask}"
    copy = image + ".out"
    host.copy_sparse(pristine, image)
    change_byte(image, offset, mask)
    try:
        kind = ("--type", recipe.kind)
        outcomes = [ended("ls", "--ro", *kind, "-R", f"{image}:/"),
                    ended("cp", *kind, "-r", f"{image}:/", copy)]
        share = copied_right(tree_of(pristine), f"{copy}/tree" if recipe.written else copy)
    finally:
        subprocess.run(["rm", "-rf", image, copy], check=True)
    for worst in ("wrong", "kernel bug", "error"):
        for outcome in outcomes:
            if outcome.startswith(worst):
                return Outcome(f"{outcome} (byte {offset} ^ {mask:#x})", share)
    return Outcome("ok", share)


def only_older(messages: str) -> bool:
    """Whether the only error is that nilfs2 shows the checkpoint before a damaged log.

    The image of this test has one log, so most changes damage it. The command fails to warn about
    missing files, but it has read the older state without a further error.
    """
    lines = [line for line in messages.splitlines() if not line.startswith("  kernel: ")]
    others = [line for line in lines if OLDER not in line]
    return len(others) < len(lines) and all(
        "without replaying its journal" in line for line in others)


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
        return "ok" if only_older(result.err) else "error"
    if result.kernel_bug:
        return "kernel bug: " + next(line for line in result.err.splitlines()
                                     if "kernel panic" in line)
    return f"wrong: {words[0]} ended with {result.code}: {result.err.strip()[-300:]}"


# The first recipe of each type.
FIRST = {recipe.kind: recipe for recipe in reversed(RECIPES)}
# Of 100 images: how many must be read without an error, some less than usual because a maker's time
# and identity move the places; and how many may panic, of which one is always allowed. cramfs has
# sorted names, and Linux finds none behind one that is out of order: most changes are an error.
LIMITS = {
    "affs": (20, 0), "btrfs": (70, 0), "cramfs": (3, 0), "erofs": (40, 0),
    "exfat": (35, 0), "ext2": (65, 0), "ext3": (65, 0),
    "ext4": (35, 0), "f2fs": (40, 0), "hfs": (65, 0), "hfsplus": (35, 0),
    "iso9660": (70, 0), "jfs": (70, 3),
    "minix": (70, 0), "nilfs2": (70, 0), "ntfs3": (70, 0), "romfs": (70, 0),
    "squashfs": (35, 0), "udf": (30, 0),
    "ufs": (65, 0), "vfat": (65, 0), "xfs": (60, 0),
}

# Of 100 images: of how many a tenth of the files must be copied right. In squashfs, one block has
# the ends of all files. nilfs2 goes back to the checkpoint before a damaged log: here, to no file.
USEFUL = {"nilfs2": 0, "squashfs": 25}
USUALLY_USEFUL = 60


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", PLACES)
@pytest.mark.parametrize("kind", sorted(FIRST))
def test_changed_bytes(work, kind, count, capsys):
    recipe, pristine = FIRST[kind], f"{work}/{kind}.img"
    require(recipe)
    make_image(pristine, recipe)
    assert attempt(pristine, recipe, 0, 0) == ("ok", 1), "without a change"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda place: attempt(pristine, recipe, *place),
                                 places(pristine, count)))
    texts = [outcome.text for outcome in outcomes]
    wrong = [text for text in texts if text.startswith("wrong")]
    bugs = [text for text in texts if text.startswith("kernel bug")]
    read, useful = texts.count("ok"), sum(outcome.share >= 0.1 for outcome in outcomes)
    with capsys.disabled():
        print(f"\n{kind}: {read} read, {len(outcomes) - read - len(bugs) - len(wrong)} refused, "
              f"{len(bugs)} kernel bugs, {len(wrong)} wrong, {useful} of use")
        for line in bugs:
            print("  " + line)
    assert not wrong, "\n".join(wrong)
    must_be_read, may_panic = LIMITS[kind]
    assert read * 100 >= must_be_read * count, "\n".join(texts)
    assert useful * 100 >= USEFUL.get(kind, USUALLY_USEFUL) * count, outcomes
    assert len(bugs) <= max(1, may_panic * count // 100), "\n".join(bugs)


def test_every_type_of_the_matrix_has_limits():
    assert set(LIMITS) == {recipe.kind for recipe in RECIPES}
