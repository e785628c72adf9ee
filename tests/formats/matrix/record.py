# SPDX-License-Identifier: GPL-2.0-only
"""Results of a run of the matrix, as out/test-results/filesystems.json. filesystem_table.py makes
docs/filesystems.md of them.
"""

import functools
import json
import os
import shutil

from matrix import recipes, tools
from support import host, program

PATH = os.path.join(program.OUT, "test-results", "filesystems.json")


@functools.cache
def tool_version(tool: str) -> str:
    """"PACKAGE VERSION" of the Debian package that the tool comes from; "" if it comes from
    elsewhere.
    """
    found = shutil.which(tool, path=host.PATH)
    if not found:
        return ""
    for path in (found, os.path.realpath(found), found.replace("/usr/", "/", 1)):
        owner = host.run("dpkg", "-S", path, ok=None).stdout
        if owner:
            package = owner.split(":")[0]
            version = host.run("dpkg-query", "-W", "-f", "${Version}", package, ok=None).stdout
            return f"{package} {version}"
    return ""


def amitools_version() -> str:
    shown = host.run(os.path.join(tools.VENV, "pip"), "show", "amitools", ok=None).stdout
    versions = [line.split()[1] for line in shown.splitlines() if line.startswith("Version:")]
    return f"amitools {versions[0]}" if versions else ""


def versions_of(recipe) -> list:
    found = {amitools_version() if tool == "xdftool" else tool_version(tool)
             for tool in recipe.needs}
    return sorted(found - {""})


class Record:
    """Outcomes by recipe and step ("read", "written", "vcpus"), merged into the file of earlier
    parts of this run.
    """

    def __init__(self):
        self.outcomes = {}

    def note(self, recipe, step: str, outcome: str) -> None:
        self.outcomes.setdefault(recipe.name, {})[step] = outcome

    def save(self) -> None:
        if not self.outcomes:
            return
        entries = self.load()
        for recipe in recipes.RECIPES:
            if recipe.name in self.outcomes:
                entry = entries.setdefault(recipe.name, {})
                entry.update(self.describe(recipe))
                entry.update(self.outcomes[recipe.name])
        os.makedirs(os.path.dirname(PATH), exist_ok=True)
        document = {"file_systems": entries, "not_tested": recipes.NOT_TESTED}
        with open(PATH, "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1, sort_keys=True)

    @staticmethod
    def load() -> dict:
        if not os.path.exists(PATH):
            return {}
        with open(PATH, encoding="utf-8") as stream:
            return json.load(stream)["file_systems"]

    @staticmethod
    def describe(recipe) -> dict:
        return {"type": recipe.kind, "made_by": recipe.made_by, "filled_by": recipe.filled_by,
                "checked_by": recipe.checked_by,
                "read_by": recipe.read_by, "writable": recipe.written is not None,
                "versions": versions_of(recipe)}
