#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails for a circle of imports among the crates of crates/, or among the source files of one.

Imports are computed from the sources: `use` lines, and paths such as `crate::a::X`, `super::X` or
`a::X`. A path leads to the file that defines its name: re-exports are followed, also those of `*`.
So a file that only declares and re-exports its children uses them, and is used by nobody. A `mod`
line is no use. Unit tests (`#[cfg(test)] mod NAME`) may use any file; files that only they have do
not count either.
KNOWN lists files whose circles wait for a fix. A row without a circle is a failure, too.
"""

import os
import re

import gate

Graph = dict[str, dict[str, str]]
Place = tuple[str, ...]
Known = set[tuple[str, tuple[str, ...]]]

CRATES = "crates"
ROOTS = ("lib.rs", "main.rs")
# Crate, and files below its src/ that may import each other. This list only shrinks.
KNOWN: Known = set()

COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]{1,8}?|[^\\\n])\'',
    re.DOTALL)
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod (\w+)\s*([{;])")
VISIBILITY = re.compile(r"\bpub\(in [^)]*\)")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])((?:crate|super|self|\w+)(?:\s*::\s*\w+)+)")
DEFINITION = re.compile(r"\b(?:struct|enum|union|trait|type|fn|const|static|macro_rules!)\s+(\w+)")


def without_text(source: str) -> str:
    """The source without comments, literals and `pub(in PATH)`. Lines keep their numbers."""
    source = COMMENT_OR_TEXT.sub(lambda found: re.sub(r"[^\n]+", " ", found[0]), source)
    return VISIBILITY.sub("pub", source)


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


def names_of(tree: str) -> list[tuple[str, str]]:
    """The paths in the tree of a `use` line, each with its name in the file that has the line:
    `a::{b, c as d}` has `a::b` as `b`, and `a::c` as `d`."""
    start = tree.find("{")
    if start < 0:
        path, _, name = tree.partition(" as ")
        path = re.sub(r"\s+", "", path).removeprefix("::").removesuffix("::self")
        return [(path, name.strip() or path.rsplit("::", maxsplit=1)[-1])]
    group = tree[start + 1:tree.rindex("}")]
    return [found for part in parts_of(group) for found in names_of(tree[:start] + part)]


def imports(source: str) -> list[tuple[int, str]]:
    """The paths that a source names, each with its line."""
    found = []
    for use in USE.finditer(source):
        line = source.count("\n", 0, use.start(1)) + 1
        found += [(line, path) for path, _ in names_of(use[1])]
    rest = USE.sub(lambda use: re.sub(r"[^\n]+", " ", use[0]), source)
    for path in PATH.finditer(rest):
        line = rest.count("\n", 0, path.start()) + 1
        found.append((line, re.sub(r"\s+", "", path[1])))
    return found


class Module:
    """A source file: the names that its `use` lines bring, and those that it defines."""

    def __init__(self, path: str, source: str):
        self.path = path
        self.used: dict[str, str] = {}
        self.globs: list[str] = []
        for use in USE.finditer(source):
            for full, name in names_of(use[1]):
                if name == "*":
                    self.globs.append(full.removesuffix("::*"))
                else:
                    self.used[name] = full
        self.defined = set(DEFINITION.findall(source))
        self.imports = imports(source)


class Crate:
    """The sources of a crate, without tests."""

    def __init__(self, directory: str):
        self.directory = directory
        self.name = os.path.basename(directory)
        sources: dict[str, str] = {}
        left_out: set[str] = set()
        for path in sorted(rust_files(f"{directory}/src")):
            with open(path, encoding="utf-8") as stream:
                sources[path], tests = without_tests(without_text(stream.read()))
            left_out |= {os.path.join(module_directory(path), name) for name in tests}
        self.modules = {self.place(path): Module(path, source) for path, source in sources.items()
                        if not any(path == f"{test}.rs" or path.startswith(f"{test}/")
                                   for test in left_out)}

    def place(self, path: str) -> Place:
        """The module that a file is, as the names on the way to it. Empty: the crate's root."""
        name = os.path.relpath(path, f"{self.directory}/src")
        if name in ROOTS:
            return ()
        return tuple(name.removesuffix(".rs").removesuffix("/mod").split("/"))

    def top_level(self) -> set[str]:
        """The names of the modules that the crate's root declares."""
        return {place[0] for place in self.modules if place}

    def target(self, here: Place, path: str, seen: frozenset[tuple[Place, str]] = frozenset()
               ) -> Module | None:
        """The file that defines what a path in a file leads to. None: another crate's, or unknown.
        `seen`: the steps on the way here, so that re-exports of each other end."""
        if (here, path) in seen:
            return None
        seen |= {(here, path)}
        words = path.split("::")
        if words[0] == "crate":
            here, words = (), words[1:]
        elif words[0] in ("self", "super"):
            while words and words[0] in ("self", "super"):
                if words[0] == "super" and not here:
                    return None
                here, words = here[:-1] if words[0] == "super" else here, words[1:]
        elif here + (words[0],) not in self.modules:
            return self.named(here, words, seen) if words[0] in self.modules[here].used else None
        while words and here + (words[0],) in self.modules:
            here, words = here + (words[0],), words[1:]
        if here not in self.modules:
            return None
        return self.named(here, words, seen) if words else self.modules[here]

    def named(self, here: Place, words: list[str], seen: frozenset[tuple[Place, str]]
              ) -> Module | None:
        """The file that defines a name of a module: the module's own, or that of a re-export."""
        module = self.modules[here]
        if words[0] in module.used:
            return self.target(here, "::".join([module.used[words[0]]] + words[1:]), seen)
        if words[0] not in module.defined:
            for path in module.globs:
                found = self.target(here, "::".join([path] + words), seen)
                if found and words[0] in found.defined:
                    return found
        return module

    def graph(self) -> Graph:
        """Source files, those that each uses, and a place where it does."""
        source = f"{self.directory}/src"
        names = {module.path: os.path.relpath(module.path, source)
                 for module in self.modules.values()}
        graph: Graph = {name: {} for name in names.values()}
        for here, module in self.modules.items():
            for line, used in module.imports:
                there = self.target(here, used)
                if there and there is not module:
                    graph[names[module.path]].setdefault(names[there.path], f"{module.path}:{line}")
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
        own = crate.top_level()
        for module in crate.modules.values():
            for line, used in module.imports:
                there = names.get(used.split("::")[0])
                # The root may have a module of this name.
                if there and there != crate.name and used.split("::")[0] not in own:
                    graph[crate.name].setdefault(there, f"{module.path}:{line}")
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


def waiting_row(known: Known, name: str, circle: tuple[str, ...]):
    """The row of `known` that has all files of a circle."""
    return next((row for row in known if row[0] == name and set(circle) <= set(row[1])), None)


def main(root: str, known: Known | None = None) -> int:
    os.chdir(root)
    known = KNOWN if known is None else known
    directories = [f"{CRATES}/{name}" for name in sorted(os.listdir(CRATES))
                   if os.path.isfile(f"{CRATES}/{name}/Cargo.toml")]
    crates = [Crate(directory) for directory in directories]
    graphs = [("", crate_graph(crates))] + [(crate.name, crate.graph()) for crate in crates]
    bad = [] if crates else [f"no crate in {CRATES}/"]
    waiting = set(known)
    for name, graph in graphs:
        for circle in circles(graph):
            if row := waiting_row(known, name, circle):
                waiting.discard(row)
                continue
            what = f"{CRATES}/{name}: files" if name else f"{CRATES}: crates"
            bad.append(f"{what} import each other: {', '.join(circle)}\n"
                       f"{describe(graph, circle)}")
    bad += [f"crates/{name}: {', '.join(files)}: no circle any more, remove the row from KNOWN"
            for name, files in sorted(waiting)]
    files = sum(len(crate.modules) for crate in crates)
    good = f"{len(crates)} crates and their {files} files have no circle of imports"
    return gate.verdict(bad, good + f", besides those of {len(known)} known groups" * bool(known),
                        "move what two files share into a third, below both")


if __name__ == "__main__":
    gate.run(main)
