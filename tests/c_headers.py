#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Fails if a public C header breaks a rule of docs/c-api.md, "Rules of the headers".

It checks the rules that can be read off declarations. `sockets.h` only has to pair each function
with its macro: its functions are those of the C library.
"""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import gate

DIRECTORIES = ("lib/include/outboard", "crates/outboard-c/include/outboard",
               "crates/outboard-client/include/outboard")
SOCKETS = "sockets.h"
# Structs without a size, which no version can make longer.
FIXED = {"ob_serve_user", "ob_volume_time"}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
MACRO = re.compile(r"^#define (\w+)([^\n]*)", re.MULTILINE)
PREPROCESSOR = re.compile(r"^#(?:[^\n\\]|\\\n)*", re.MULTILINE)
EXTERN_C = re.compile(r'extern "C" \{(.*)\}', re.DOTALL)
STRUCT = re.compile(r"\bstruct (\w+) \{(.*?)\n\};", re.DOTALL)
ENUM = re.compile(r"\benum (\w+) \{(.*?)\};", re.DOTALL)
CALLBACK = re.compile(r"\btypedef ([^;(]*?)(\w+)\(([^;]*)\);")
FUNCTION = re.compile(r"^((?:const )?(?:struct )?\w+ \**)(\w+)\((.*?)\);", re.MULTILINE | re.DOTALL)
HANDLE = re.compile(r"(?:const )?struct (\w+) \*\w+$")
POINTER_TO_FUNCTION = re.compile(r"\(\*(\w+)\)\((.*)\)$")
CONTEXT = re.compile(r"void \*(?:\w+_)?context$")
# A pointer to a pointer, but to constant things of the caller.
STORED = re.compile(r"^(?!const \w+ \*const \*).*\*\*\w+$")
RESULT = re.compile(r"^(?!const )\w[\w ]* \*+\w+$")
OWNED = re.compile(r"^(?:char|void) \*\w+$")
NO_WIDTH = re.compile(r"^(?:unsigned|long|short|signed)\b")


class Header(NamedTuple):
    """The declarations of a header."""

    name: str
    macros: dict[str, str]
    structs: dict[str, list[str]]   # the members
    enums: dict[str, list[str]]     # the constants
    callbacks: dict[str, tuple[str, list[str]]]  # result and arguments
    functions: dict[str, tuple[str, list[str]]]  # result and arguments


def split(text: str) -> list[str]:
    """Arguments, with their blanks made equal."""
    arguments, depth, start = [], 0, 0
    for place, letter in enumerate(text + ","):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            arguments.append(" ".join(text[start:place].split()))
            start = place + 1
    return [argument for argument in arguments if argument not in ("", "void")]


def read(path: str) -> Header:
    with open(path, encoding="ascii") as stream:
        text = COMMENT.sub("", stream.read())
    macros = dict(MACRO.findall(text))
    text = EXTERN_C.sub(r"\1", PREPROCESSOR.sub("", text))
    structs = {name: [" ".join(member.split()) for member in body.split(";") if member.strip()]
               for name, body in STRUCT.findall(text)}
    enums = {name: re.findall(r"\w+(?= =)", body) for name, body in ENUM.findall(text)}
    text = ENUM.sub("", STRUCT.sub("", text))
    callbacks = {name: (result.strip(), split(arguments))
                 for result, name, arguments in CALLBACK.findall(text)}
    text = CALLBACK.sub("", text)
    functions = {name: (result.strip(), split(arguments))
                 for result, name, arguments in FUNCTION.findall(text)}
    return Header(os.path.basename(path), macros, structs, enums, callbacks, functions)


def names(header: Header) -> Iterator[str]:
    for name in [*header.structs, *header.enums, *header.callbacks, *header.functions]:
        if not name.startswith("ob_"):
            yield f"{name} does not begin with ob_"
    constants = [name for members in header.enums.values() for name in members]
    for name in [*header.macros, *constants]:
        if not name.startswith(("OB_", "OUTBOARD_")):
            yield f"{name} does not begin with OB_"
    everything = [*header.structs, *header.enums, *header.callbacks, *header.functions]
    everything += [member for members in header.structs.values() for member in members]
    everything += [argument for _, arguments in header.functions.values() for argument in arguments]
    for text in everything:
        if re.search(r"(?:\b|_)kind(?:\b|_)", text):
            yield f"{text}: the word is type, not kind"


def structs(header: Header) -> Iterator[str]:
    for name, members in header.structs.items():
        if name not in FIXED and members[0] != "size_t size":
            yield f"the first member of struct {name} is not size_t size"
        for member in members:
            if NO_WIDTH.search(member):
                yield f"struct {name}: {member} has no fixed width"
            if member.endswith(" flags") and member != "uint32_t flags":
                yield f"struct {name}: {member} is not uint32_t flags"
        release = f"{name}_free"
        owns = [member for member in members if OWNED.match(member) and not CONTEXT.match(member)]
        if owns and release not in header.functions:
            yield f"struct {name} has memory of the caller ({owns[0]}), but there is no {release}()"


def handles_of(headers: list[Header]) -> set[str]:
    """The structs that have no members in any header, but are an argument or a result there."""
    members = {name for header in headers for name in header.structs}
    found = {name for header in headers for _, arguments in header.functions.values()
             for argument in arguments
             for name in re.findall(r"struct (ob_\w+) \**\w+$", argument)}
    return found - members


def base_name(name: str) -> str:
    return name.removesuffix("_on")


def handles(header: Header, opaque: set[str]) -> Iterator[str]:
    for name, (_, arguments) in header.functions.items():
        first = HANDLE.match(arguments[0]) if arguments else None
        if not first or first[1] not in opaque:
            continue
        if name.startswith(f"{first[1]}_") or (first[1] == "ob_instance" and name.endswith("_on")):
            continue
        yield f"{name}(): the first argument is a {first[1]}, with which the name does not begin"


def pairs(opaque: set[str], functions: set[str]) -> Iterator[str]:
    for name in sorted(opaque):
        found = {verb for verb in ("new", "free", "open", "close") if f"{name}_{verb}" in functions}
        if found not in ({"new", "free"}, {"open", "close"}):
            yield (f"struct {name} has the functions {', '.join(sorted(found)) or 'none'}: it "
                   "needs new and free, or open and close")


def twins(header: Header) -> Iterator[str]:
    for name, (result, arguments) in header.functions.items():
        if not name.endswith("_on"):
            continue
        base = header.functions.get(base_name(name))
        if arguments[:1] != ["struct ob_instance *instance"]:
            yield f"{name}() does not begin with the instance"
        elif base != (result, arguments[1:]):
            yield f"{name}() does not have the arguments and the result of {base_name(name)}()"


def is_function(text: str, callbacks: set[str]) -> bool:
    called = re.match(r"(\w+) \*\w+$", text)
    return bool(POINTER_TO_FUNCTION.search(text)) or bool(called and called[1] in callbacks)


def callbacks(header: Header, known: set[str]) -> Iterator[str]:
    for name, (result, arguments) in header.callbacks.items():
        struct = name.removesuffix("_function")
        wanted = ("int", ["void *context", f"const struct {struct} *"])
        if (result, [arguments[0], re.sub(r"\w+$", "", arguments[-1])]) != wanted:
            yield f"{name} is not int (void *context, const struct {struct} *)"
        if struct not in header.structs:
            yield f"{name} is not named after a struct"
    places = {f"struct {name}": members for name, members in header.structs.items()}
    places |= {f"{name}()": arguments for name, (_, arguments) in header.functions.items()}
    for place, members in places.items():
        # A table of functions has one context, beside the pointer to it.
        is_table = all(is_function(member, known) for member in members[1:])
        for member, after in zip(members, [*members[1:], ""]):
            pointer = POINTER_TO_FUNCTION.search(member)
            if pointer and split(pointer[2])[0] != "void *context":
                yield f"{place}: the function {pointer[1]} does not get its context first"
            if is_function(member, known) and not is_table and not CONTEXT.match(after):
                yield f"{place}: no context follows the function {member}"


def results_last(header: Header) -> Iterator[str]:
    for name, (_, arguments) in header.functions.items():
        stored = [place for place, argument in enumerate(arguments) if STORED.match(argument)]
        for argument in arguments[stored[0]:] if stored else []:
            if not RESULT.match(argument):
                yield f"{name}(): the argument {argument} comes after a result"


def local_functions(header: Header) -> Iterator[str]:
    for name in header.functions:
        plain = name.removeprefix("ob_local_")
        if plain == name or name not in header.macros.get(plain, ""):
            yield f"{name}() has no macro that gives its name to the C library's function"


def complaints(headers: list[Header]) -> Iterator[str]:
    functions = {name for header in headers for name in header.functions}
    known = {name for header in headers for name in header.callbacks}
    opaque = handles_of([header for header in headers if header.name != SOCKETS])
    for header in headers:
        if header.name == SOCKETS:
            found = local_functions(header)
        else:
            found = (line for lines in (
                names(header), structs(header), handles(header, opaque), twins(header),
                callbacks(header, known), results_last(header)) for line in lines)
        for line in found:
            yield f"{header.name}: {line}"
    yield from pairs(opaque, functions)


def main(root: str) -> int:
    paths = [f"{root}/{directory}/{name}" for directory in DIRECTORIES
             for name in sorted(os.listdir(f"{root}/{directory}")) if name.endswith(".h")]
    headers = [read(path) for path in paths]
    count = sum(len(header.functions) for header in headers)
    bad = list(complaints(headers))
    if not count:
        bad.append("no function in the headers")
    return gate.verdict(bad, f"{count} functions of {len(headers)} headers keep the rules",
                        'the rules: docs/c-api.md, "Rules of the headers"')


if __name__ == "__main__":
    gate.run(main)
