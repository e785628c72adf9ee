#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Makes docs/filesystems.md from what a run of the matrix recorded.

Usage: filesystem_table.py [--json FILE] [--output FILE]
"""

import argparse
import json
import os
import sys
import textwrap

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from matrix import record  # noqa: E402  (needs the path above)
from support.program import REPOSITORY  # noqa: E402

HEAD = """\
<!-- Made by tests/formats/filesystem_table.py from a run of tests/formats/matrix. Do not edit. -->
# File systems

Each row is one kind of image that the tests make with other people's tools.

*Read*: those tools put a tree into the image. `outboard` reads the tree, and the test compares
contents, modes, owners, times, links, extended attributes, ACLs and device nodes, as far as the
type and the tool keep them.

*Written*: `outboard` copies such a tree into an empty image. Then the checker finds nothing,
`outboard` reads the same tree back with another boot, and the independent reader agrees. The host's
kernel compares all of the tree. Other readers compare the contents of files, as far as their
drivers go (GRUB: files of up to 8 MB, in some types none with holes). If no tool of Debian 12
makes an empty volume, `outboard` does, and the row says so.

| type | image made by | filled by | read | written | checked by | then read by |
|---|---|---|---|---|---|---|
"""


def outcome(entry: dict, step: str, otherwise: str) -> str:
    found = [value for key, value in sorted(entry.items())
             if key == step or key.startswith(step + " with")]
    worst = [value for value in found if value != "yes"]
    return worst[0].replace("|", "/") if worst else "yes" if found else otherwise


def line(entry: dict) -> str:
    writable = entry["writable"]
    cells = [
        entry["type"], f"`{entry['made_by'].strip()}`", entry["filled_by"] or "-",
        outcome(entry, "read", "what we wrote" if writable else "-"),
        outcome(entry, "written", "-"),
        (entry["checked_by"] or "no checker") if writable else "-",
        entry["read_by"] if entry.get("read_independently") == "yes" else "-",
    ]
    return "| " + " | ".join(cells) + " |\n"


def paragraph(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False) + "\n"


def table(document: dict) -> str:
    entries = sorted(document["file_systems"].items(), key=lambda item: (item[1]["type"], item[0]))
    text = HEAD + "".join(line(entry) for _, entry in entries)
    text += "\nNot tested:\n\n"
    text += "".join(paragraph(f"- {name}: {reason}", "  ")
                    for name, reason in sorted(document["not_tested"].items()))
    versions = sorted({version for _, entry in entries for version in entry["versions"]})
    return text + "\n" + paragraph("Tools: " + ", ".join(versions) + ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default=record.PATH)
    parser.add_argument("--output", default=os.path.join(REPOSITORY, "docs", "filesystems.md"))
    chosen = parser.parse_args()
    with open(chosen.json, encoding="utf-8") as stream:
        document = json.load(stream)
    with open(chosen.output, "w", encoding="utf-8") as stream:
        stream.write(table(document))


if __name__ == "__main__":
    main()
