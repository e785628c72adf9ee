# SPDX-License-Identifier: GPL-2.0-only
"""Links of README.md and docs/: files and headings that they name exist. So do pages of docs/ that
sources name.
"""

import os
import re

import pytest
from line_lengths import files_below
from support import program

ROOT = program.REPOSITORY
SOURCES = ("Makefile", "README.md", "bench", "crates", "devices", "docs", "hypercall", "kernel",
           "lib", "tests")
CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2`*[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.MULTILINE)
NAMED_PAGE = re.compile(r"(?<![\w./-])docs/[\w./-]+\.md\b")


def read(path) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def anchors(text: str) -> set:
    """The anchors that GitHub gives the headings of a page."""
    found = set()
    for heading in HEADING.findall(CODE.sub("", text)):
        shown = LINK.sub(lambda link: link[0][1:link[0].index("](")], heading)
        anchor = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = 0
        while (f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def links(text: str) -> list:
    """The targets of a page's links, without those that begin with a scheme."""
    text = re.sub(r"`[^`\n]*`", "", CODE.sub("", text))
    return [target for target in LINK.findall(text) if not re.match(r"\w+:", target)]


def is_broken(page: str, target: str) -> bool:
    path, _, anchor = target.partition("#")
    path = os.path.join(os.path.dirname(page), path) if path else page
    if not os.path.exists(path):
        return True
    return bool(anchor) and anchor not in anchors(read(path))


def broken_links(page: str) -> list:
    return [target for target in links(read(page)) if is_broken(page, target)]


def pages() -> list:
    found = [os.path.join(ROOT, "README.md")]
    for directory, _, names in sorted(os.walk(os.path.join(ROOT, "docs"))):
        found += [os.path.join(directory, name) for name in sorted(names) if name.endswith(".md")]
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: os.path.relpath(page, ROOT))
def test_page(page):
    assert broken_links(page) == []


def test_every_page_can_be_reached():
    """From README.md, by links."""
    reached, todo = set(), [os.path.join(ROOT, "README.md")]
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        paths = {target.partition("#")[0] for target in links(read(page))}
        todo += [os.path.normpath(os.path.join(os.path.dirname(page), path))
                 for path in paths if path.endswith(".md")]
    assert [os.path.relpath(page, ROOT) for page in pages() if page not in reached] == []


def test_pages_that_sources_name():
    """Without tests/test_*.py, which also name pages that they make."""
    missing, named = [], set()
    for path in (path for place in SOURCES for path in files_below(os.path.join(ROOT, place))):
        if re.fullmatch(r"tests/test_\w+\.py", os.path.relpath(path, ROOT)):
            continue
        with open(path, encoding="utf-8", errors="replace") as stream:
            names = set(NAMED_PAGE.findall(stream.read()))
        named |= names
        missing += [f"{os.path.relpath(path, ROOT)}: {name}" for name in sorted(names)
                    if not os.path.exists(os.path.join(ROOT, name))]
    assert named and missing == []


@pytest.mark.parametrize("text, broken", [
    ("[a](b.md) [a](#one) [a](b.md#two-words) [a](https://example.org/x)\n# One\n", []),
    ("[a](c.md)\n", ["c.md"]),
    ("[a `b`](#two)\n# One\n", ["#two"]),
    ("[a](b.md#one)\n# One\n", ["b.md#one"]),
    ("[a](#x)\n```\n# X\n[a](c.md)\n```\n", ["#x"]),
    ("| [a](c.md), `[a](d.md)` |\n", ["c.md"]),
    ("[a](#ls-cat) [a](#ls-cat-1) [a](#ls-cat-2)\n## `ls`, cat\n## ls, cat\n", ["#ls-cat-2"]),
])
def test_what_is_found(tmp_path, text, broken):
    (tmp_path / "a.md").write_text(text)
    (tmp_path / "b.md").write_text("## Two *words*\n")
    assert broken_links(str(tmp_path / "a.md")) == broken
