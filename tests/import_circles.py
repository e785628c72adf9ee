#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails for a circle of imports among the crates of crates/, or among the top-level modules of one.

Imports are computed from the sources: `use` lines and paths that begin with `crate::`, `super::` or
the name of another crate. A name that the crate's root re-exports counts as its module's. Unit
tests (`#[cfg(test)] mod NAME`) may use any module; files that only they have do not count either.
KNOWN lists circles that wait for a fix. A row that is no circle any more is a failure, too.
"""

import os
import re
import sys

Graph = dict[str, dict[str, str]]

PLACE = "crates"
ROOTS = ("lib.rs", "main.rs")
ROOT = "(root)"
# Crate, and the modules of one circle in alphabetical order. This list only shrinks.
KNOWN: set[tuple[str, tuple[str, ...]]] = set()

COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]{1,8}?|[^\\\n])\'',
    re.DOTALL)
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub )?mod (\w+)\s*([{;])")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])((?:crate|super|self|\w+)(?:\s*::\s*\w+)+)")
MODULE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE)


def without_text(source: str) -> str:
    """The source without comments and literals. Lines keep their numbers."""
    return COMMENT_OR_TEXT.sub(lambda found: re.sub(r"[^\n]+", " ", found[0]), source)


def without_tests(source: str) -> tuple[str, set[str]]:
    """The source without inline test modules, and the names of test modules in other files."""
    others = set()
    position = 0
    while found := TEST_MODULE.search(source, position):
        if found[2] == ";":
            others.add(found[1])
            source = source[:found.start()] + source[found.end():]
            position = found.start()
            continue
        depth, end = 1, found.end()
        while depth and end < len(source):
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            end += 1
        lines = "\n" * source.count("\n", found.start(), end)
        source = source[:found.start()] + lines + source[end:]
        position = found.start()
    return source, others


def parts_of(group: str) -> list[str]:
    """The parts between commas outside of braces."""
    parts, depth = [""], 0
    for character in group:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def paths_of(tree: str) -> list[str]:
    """The paths in the tree of a `use` line: `a::{b, c as d}` has `a::b` and `a::c`."""
    start = tree.find("{")
    if start < 0:
        return [re.sub(r"\s+", "", tree.split(" as ")[0])]
    group = tree[start + 1:tree.rindex("}")]
    return [path for part in parts_of(group) for path in paths_of(tree[:start] + part)]


def imports(source: str) -> list[tuple[int, str]]:
    """The paths that a source names, each with its line."""
    found = []
    for use in USE.finditer(source):
        line = source.count("\n", 0, use.start(1)) + 1
        found += [(line, path.removeprefix("::")) for path in paths_of(use[1])]
    rest = USE.sub(lambda use: re.sub(r"[^\n]+", " ", use[0]), source)
    for path in PATH.finditer(rest):
        line = rest.count("\n", 0, path.start()) + 1
        found.append((line, re.sub(r"\s+", "", path[1])))
    return found


class Crate:
    """The sources of a crate, without tests."""

    def __init__(self, directory: str):
        self.directory = directory
        self.name = os.path.basename(directory)
        self.sources: dict[str, str] = {}
        left_out: set[str] = set()
        for path in sorted(rust_files(f"{directory}/src")):
            with open(path, encoding="utf-8") as stream:
                source, tests = without_tests(without_text(stream.read()))
            self.sources[path] = source
            left_out |= {os.path.join(module_directory(path), name) for name in tests}
        for path in list(self.sources):
            if any(path == f"{test}.rs" or path.startswith(f"{test}/") for test in left_out):
                del self.sources[path]
        self.modules = {self.module(path)[0] for path in self.sources if self.module(path)}

    def module(self, path: str) -> list[str]:
        """The module that a file is, as the names on the way to it. Empty: the crate's root."""
        name = os.path.relpath(path, f"{self.directory}/src")
        if name in ROOTS:
            return []
        return name.removesuffix(".rs").removesuffix("/mod").split("/")

    def reexports(self) -> dict[str, str | None]:
        """Names of the root that are a module's. None: those that are another crate's."""
        names: dict[str, str | None] = {}
        for path, source in self.sources.items():
            if self.module(path):
                continue
            for use in USE.finditer(source):
                for full in paths_of(use[1]):
                    words = [word for word in full.split("::") if word not in ("self", "crate")]
                    names[words[-1]] = words[0] if words[0] in self.modules else None
        return names

    def target(self, module: list[str], path: str,
               names: dict[str, str | None]) -> str | None:
        """The top-level module that a path leads to. None: another crate, or nothing known."""
        words = path.split("::")
        if words[0] == "crate":
            words = words[1:]
        elif words[0] == "super":
            up = len([word for word in words if word == "super"])
            if up > len(module):
                return None
            words = module[:len(module) - up] + words[up:]
        elif not module and words[0] in self.modules:
            return words[0]
        else:
            return None
        if not words or words[0] in ("*", "self"):
            return ROOT
        first = words[0]
        return first if first in self.modules else names.get(first, ROOT)

    def graph(self) -> Graph:
        """Top-level modules, those that each uses, and a place where it does."""
        graph: Graph = {module: {} for module in self.modules | {ROOT}}
        names = self.reexports()
        for path, source in self.sources.items():
            module = self.module(path)
            here = module[0] if module else ROOT
            for line, used in imports(source):
                there = self.target(module, used, names)
                if there and there != here:
                    graph[here].setdefault(there, f"{path}:{line}")
        return graph


def rust_files(directory: str):
    for place, directories, names in os.walk(directory):
        directories.sort()
        yield from (os.path.join(place, name) for name in names if name.endswith(".rs"))


def module_directory(path: str) -> str:
    """Where the modules are that a file declares."""
    if os.path.basename(path) in ("mod.rs",) + ROOTS:
        return os.path.dirname(path)
    return path.removesuffix(".rs")


def crate_graph(crates: list[Crate]) -> Graph:
    """Crates, those that each uses, and a place where it does."""
    names = {crate.name.replace("-", "_"): crate.name for crate in crates}
    graph: Graph = {crate.name: {} for crate in crates}
    for crate in crates:
        for path, source in crate.sources.items():
            for line, used in imports(source):
                there = names.get(used.split("::")[0])
                # The root may have a module of this name.
                if there and there != crate.name and used.split("::")[0] not in crate.modules:
                    graph[crate.name].setdefault(there, f"{path}:{line}")
    return graph


def reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += graph.get(node, {})
    return seen


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """The groups of nodes that all lead to each other."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {tuple(sorted(other for other in reach[node] if node in reach[other]))
              for node in graph if node in reach[node]}
    return sorted(groups)


def describe(graph: Graph, circle: tuple[str, ...]) -> str:
    lines = [f"    {place}: {node} uses {other}" for node in circle
             for other, place in sorted(graph[node].items()) if other in circle]
    return "\n".join(lines)


def main(root: str, known: set[tuple[str, tuple[str, ...]]] | None = None) -> int:
    os.chdir(root)
    known = KNOWN if known is None else known
    directories = [f"{PLACE}/{name}" for name in sorted(os.listdir(PLACE))
                   if os.path.isfile(f"{PLACE}/{name}/Cargo.toml")]
    crates = [Crate(directory) for directory in directories]
    graphs = [("", crate_graph(crates))] + [(crate.name, crate.graph()) for crate in crates]
    bad = [] if crates else [f"no crate in {PLACE}/"]
    waiting = set(known)
    for name, graph in graphs:
        for circle in circles(graph):
            if (name, circle) in waiting:
                waiting.remove((name, circle))
                continue
            what = f"{PLACE}/{name}: modules" if name else f"{PLACE}: crates"
            bad.append(f"{what} import each other: {', '.join(circle)}\n"
                       f"{describe(graph, circle)}")
    bad += [f"crates/{name}: {', '.join(circle)} is no circle any more: remove it from KNOWN"
            for name, circle in sorted(waiting)]
    if bad:
        print("\n".join(bad))
        print("move what two modules share into a third, below both")
        return 1
    modules = sum(len(crate.modules) for crate in crates)
    print(f"{len(crates)} crates and their {modules} modules have no circle of imports"
          + (f", besides {len(known)} known ones" if known else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
