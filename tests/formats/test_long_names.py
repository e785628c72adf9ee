# SPDX-License-Identifier: GPL-2.0-only
"""Names that a driver of Linux cuts without an error are refused."""

import pytest

from matrix.recipes import RECIPES
from matrix.test_matrix import require
from support import host
from support.images import MEGABYTE
from support.program import bad, good


def refuses(image, longest, message):
    kept, cut = "a" * longest, "b" * (longest + 1)
    good("touch", f"{image}:/{kept}")
    for words in (("mkdir", f"{image}:/{cut}"), ("touch", f"{image}:/{cut}"),
                  ("mv", f"{image}:/{kept}", f"{image}:/{cut}")):
        bad(*words, mentions=[message])
    assert good("ls", f"{image}:/").out.split() == [kept]


@pytest.mark.needs("hformat")
def test_names_on_hfs(work):
    image = host.sparse_file(f"{work}/image", 8 * MEGABYTE)
    host.run("hformat", "-l", "long", image)
    refuses(image, 31, "has only names of up to 31 bytes")


def test_names_on_affs(work, tmp_path):
    recipe, = (recipe for recipe in RECIPES if recipe.name == "affs-ffs")
    require(recipe)
    recipe.fill(f"{work}/image", str(tmp_path))
    refuses(f"{work}/image", 30, "File name too long")
