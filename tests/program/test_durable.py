# SPDX-License-Identifier: GPL-2.0-only
"""Changes of a command are on stable storage when it returns: its system calls to the host show
this.
"""

import os
import re
import subprocess
import typing

import pytest

from support import host, images
from support.program import command

pytestmark = pytest.mark.needs("strace")
# Calls that write to a file, and those that put what was written on stable storage.
WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "fallocate", "ftruncate",
          "copy_file_range", "sendfile", "splice")
FLUSHES = ("fsync", "fdatasync", "syncfs")
NAMES = ("rename", "renameat", "renameat2", "link", "linkat")
LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\((.*)| resumed>(.*))")


class Call(typing.NamedTuple):
    name: str
    arguments: str
    result: str
    start: int
    end: int


def calls(trace: str) -> list[Call]:
    """The calls of a trace; an interrupted line of strace counts up to its end."""
    found, begun = [], {}
    with open(trace, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines):
            match = LINE.match(line)
            if not match:
                continue
            process, name, whole, rest = match.groups()
            if whole is None:
                head, start = begun.pop((process, name), ("", number))
                text = head + rest
            elif whole.endswith("<unfinished ...>"):
                begun[process, name] = (whole, number)
                continue
            else:
                text, start = whole, number
            arguments, _, result = text.rpartition(" = ")
            found.append(Call(name, arguments, result, start, number))
    return found


def concerns(call: Call, path: str) -> bool:
    """Whether it is about a descriptor of this file."""
    return re.search(rf"\d+<{re.escape(path)}>", call.arguments) is not None


def last_flush(found: list[Call], path: str) -> int:
    """When the last flush of a file began that succeeded."""
    return max((call.start for call in found if call.name in FLUSHES and concerns(call, path)
                and call.result.split()[0] == "0"), default=-1)


def is_plain_write(call: Call) -> bool:
    """Whether its bytes need a flush."""
    return call.name in WRITES and "RWF_DSYNC" not in call.arguments


def assert_durable(found: list[Call], path: str) -> None:
    written = [call for call in found if call.name in WRITES and concerns(call, path)]
    assert written, f"nothing was written to {path}"
    flushed = last_flush(found, path)
    late = [call for call in written if is_plain_write(call) and call.end > flushed]
    assert late == []


def traced(work: str, *words: str, **variables: str) -> list[Call]:
    trace = f"{work}/trace"
    chosen = ",".join((*WRITES, *FLUSHES, *NAMES))
    done = subprocess.run(["strace", "-f", "-y", "-s", "300", "-o", trace, "-e", f"trace={chosen}",
                           *command(*words)], capture_output=True, text=True, check=False,
                          env={**os.environ, **variables})
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("this host does not let strace trace")
    assert done.returncode == 0, done.stderr
    return calls(trace)


@pytest.fixture(name="tree")
def small_tree(work):
    os.mkdir(f"{work}/tree")
    with open(f"{work}/tree/file", "w", encoding="ascii") as stream:
        stream.write("text\n" * 10_000)
    return f"{work}/tree"


@pytest.mark.parametrize("kind", ["ext4", "vfat", "btrfs"])
@pytest.mark.parametrize("words", [("cp", "-r", "TREE", "IMAGE:/"), ("tar-in", "IMAGE:/", "TAR"),
                                   ("edit", "IMAGE:/file")], ids=lambda words: words[0])
def test_a_changed_image(work, tree, kind, words):
    image = images.make(f"{work}/image", kind, 128)
    host.run(*command("cp", f"{tree}/file", f"{image}:/file"))
    host.run("tar", "-C", tree, "-cf", f"{work}/archive.tar", "file")
    paths = {"TREE": tree, "TAR": f"{work}/archive.tar"}
    operands = [paths.get(word, word).replace("IMAGE", image) for word in words]
    found = traced(work, *operands, EDITOR="sed -i s/text/other/")
    assert_durable(found, image)
    with pytest.raises(AssertionError):
        assert_durable([call for call in found if call.name not in FLUSHES], image)


@pytest.mark.parametrize("words", [("cp", "-r", "TREE", "IMAGE:/"), ("tar-in", "IMAGE:/", "TAR"),
                                   ("mkfs", "ext4", "NEW", "--size", "64M")],
                         ids=lambda words: words[0])
def test_a_flush_that_fails(work, tree, words):
    """The command does not claim success."""
    image = images.make(f"{work}/image", "ext4", 64)
    host.run("tar", "-C", tree, "-cf", f"{work}/archive.tar", "file")
    paths = {"TREE": tree, "TAR": f"{work}/archive.tar", "NEW": f"{work}/new"}
    operands = [paths.get(word, word).replace("IMAGE", image) for word in words]
    done = subprocess.run(["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e",
                           "inject=fsync,fdatasync:error=EIO", *command(*operands)],
                          capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("this host does not let strace trace")
    assert done.returncode == 1, done.stderr
    assert "nput/output error" in done.stderr
    assert not os.path.exists(f"{work}/new")


@pytest.mark.parametrize("kind, more", [("ext4", ()), ("ext4", ("--from", "TREE")),
                                        ("vfat", ("--from", "TREE")),
                                        ("squashfs", ("--from", "TREE"))],
                         ids=["empty", "kernel", "vfat", "tool"])
def test_a_new_image(work, tree, kind, more):
    """Its bytes before it has its name, and its name before the command returns."""
    size = () if kind == "squashfs" else ("--size", "64M")
    found = traced(work, "mkfs", kind, f"{work}/new", *size, *(tree if word == "TREE" else word
                                                               for word in more))
    named = [call for call in found if call.name in NAMES and call.arguments.count('"') >= 4
             and re.search(r'[/"]new"', call.arguments)]
    assert len(named) == 1, named
    before = [call for call in found if call.end < named[0].start]
    temporary = re.findall(r'"([^"]*)"', named[0].arguments)[0]
    flushed = last_flush(before, temporary)
    assert flushed >= 0
    late = [call for call in found if call.name in WRITES and concerns(call, temporary)
            and is_plain_write(call) and call.end > flushed]
    assert late == []
    assert last_flush(found, work) > named[0].end
