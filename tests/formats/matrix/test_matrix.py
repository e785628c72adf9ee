# SPDX-License-Identifier: GPL-2.0-only
"""Every recipe: we read what other tools wrote, other tools check and read what we wrote.

Each test notes its outcome for docs/filesystems.md: "yes", "no", "not tested: reason".
"""

import contextlib
import os

import pytest

from matrix import tools
from matrix.recipes import RECIPES
from matrix.record import Record
from support import host, program, trees

READABLE = [recipe for recipe in RECIPES if recipe.fill]
WRITABLE = [recipe for recipe in RECIPES if recipe.written]
SCALED = [(recipe, count) for recipe in WRITABLE for count in recipe.vcpus]


def by_name(recipe):
    return recipe.name if hasattr(recipe, "name") else f"{recipe}vcpus"


@pytest.fixture(scope="module")
def record():
    kept = Record()
    yield kept
    kept.save()


@contextlib.contextmanager
def noted(record, recipe, step):
    """Notes how the body ended."""
    try:
        yield
    except pytest.skip.Exception as reason:
        record.note(recipe, step, f"not tested: {reason}")
        raise
    except BaseException:
        record.note(recipe, step, "no")
        raise
    record.note(recipe, step, "yes")


def require(recipe):
    for tool in recipe.needs:
        present = host.have(tool) or os.path.exists(os.path.join(tools.VENV, tool))
        if not present:
            pytest.skip(f"the tool {tool} is not installed")


def require_host_mount(recipe, work):
    """The host's kernel must know the type and this variant of it."""
    host.require_root()
    if not host.knows(recipe.kind):
        pytest.skip(f"the host's kernel does not mount {recipe.kind}")
    probe = os.path.join(work, "probe")
    recipe.empty(probe)
    try:
        with host.loop_mount(probe, recipe.kind):
            pass
    except host.ToolFailed:
        pytest.skip("the host's kernel does not mount this variant")
    finally:
        os.unlink(probe)


def require_filler(recipe, work):
    if recipe.fill_needs == "loop":
        require_host_mount(recipe, work)
    if recipe.fill_needs == "fuse":
        host.require_root()
        if not host.has_fuse():
            pytest.skip("no FUSE here")


def same(expected, actual, abilities):
    lines = trees.differences(expected, actual, abilities.for_user(host.IS_ROOT))
    assert not lines, "\n".join(["the trees differ:", *lines[:25]])


@pytest.mark.parametrize("recipe", READABLE, ids=by_name)
def test_read(recipe, work, record):
    with noted(record, recipe, "read"):
        require(recipe)
        require_filler(recipe, work)
        tree, image, copy = (os.path.join(work, name) for name in ("tree", "image", "copy"))
        abilities = recipe.filled.for_user(host.IS_ROOT)
        trees.build(tree, abilities)
        recipe.fill(image, tree)
        expected = trees.describe(tree)
        program.good("cp", *recipe.options, "-a", f"{image}:/", copy, vcpus=2,
                     notes=program.LOSSES)
        same(expected, trees.describe(copy), abilities)
        compare_listing(recipe, image, tree)


def compare_listing(recipe, image, tree):
    """`ls -R` shows the names, `cat` the bytes."""
    shown = program.good("ls", *recipe.options, "-a", "-R", f"{image}:/").out
    for name in os.listdir(tree):
        assert name in shown, f"ls does not show {name}"
    with open(os.path.join(tree, "text"), "rb") as stream:
        assert program.good("cat", *recipe.options, f"{image}:/text").raw == stream.read()


@pytest.mark.parametrize("recipe", WRITABLE, ids=by_name)
def test_write(recipe, work, record):
    with noted(record, recipe, "written"):
        compared = write_and_check(recipe, work, "full", 2)
        record.note(recipe, "read_independently", "yes" if compared else "no")


@pytest.mark.parametrize("recipe, count", SCALED, ids=by_name)
def test_write_small(recipe, count, work, record):
    """The same with other numbers of vCPUs."""
    with noted(record, recipe, f"written with {count} vCPUs"):
        write_and_check(recipe, work, "small", count)


def write_and_check(recipe, work, size, vcpus):
    """Returns whether an independent reader took part."""
    require(recipe)
    tree, image, copy = (os.path.join(work, name) for name in ("tree", "image", "copy"))
    abilities = recipe.written.for_user(host.IS_ROOT)
    trees.build(tree, abilities, size)
    recipe.empty(image)
    expected = trees.describe(tree)
    program.good("cp", *recipe.options, "-a", tree, f"{image}:/", vcpus=vcpus, notes=program.LOSSES)
    if recipe.check:
        recipe.check(image)
    program.good("cp", *recipe.options, "-a", f"{image}:/tree", copy, vcpus=vcpus,
                 notes=program.LOSSES)
    same(expected, trees.describe(copy), abilities)
    return read_independently(recipe, image, tree, os.path.join(work, "theirs"), work)


def read_independently(recipe, image, tree, directory, work):
    """Somebody else's reader sees the same; a reader that this host lacks is left out."""
    if not recipe.read:
        return False
    if recipe.read_fully:
        try:
            require_host_mount(recipe, work)
        except pytest.skip.Exception:
            return False
        recipe.read(image, directory, tree)
        same(trees.describe(tree), trees.describe(directory), recipe.written)
        return True
    recipe.compare_contents(image, tree, directory)
    return True
