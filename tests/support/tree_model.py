# SPDX-License-Identifier: GPL-2.0-only
"""A model of a file tree with directories, files, links and attributes, and of what each operation
on it must do.
"""

import dataclasses
import errno
import random


@dataclasses.dataclass
class Node:
    kind: str  # "directory", "file", "link"
    mode: int
    entries: dict = dataclasses.field(default_factory=dict)
    data: bytes = b""
    target: str = ""
    attributes: dict = dataclasses.field(default_factory=dict)


class Refused(Exception):
    """The operation fails with this error, and changes nothing."""

    def __init__(self, number: int):
        super().__init__(errno.errorcode[number])
        self.number = number


def refuse_if(condition: bool, number: int) -> None:
    if condition:
        raise Refused(number)


class Model:
    """Paths are tuples of names. Parents of what is named must be directories that exist."""

    def __init__(self):
        self.root = Node("directory", 0o755)

    def find(self, path: tuple) -> Node | None:
        node = self.root
        for name in path:
            node = node.entries.get(name)
            if node is None:
                return None
        return node

    def parent(self, path: tuple) -> Node:
        return self.find(path[:-1])

    def needed(self, path: tuple) -> Node:
        node = self.find(path)
        refuse_if(node is None, errno.ENOENT)
        return node

    def paths(self, below: tuple = (), kinds: tuple = ("directory", "file", "link")) -> list:
        """All below a directory, in an order that does not change."""
        found, waiting = [], [below]
        while waiting:
            path = waiting.pop()
            for name, node in sorted(self.find(path).entries.items()):
                if node.kind in kinds:
                    found.append((*path, name))
                if node.kind == "directory":
                    waiting.append((*path, name))
        return found

    def add(self, path: tuple, node: Node) -> None:
        refuse_if(self.find(path) is not None, errno.EEXIST)
        self.parent(path).entries[path[-1]] = node

    # The next methods have the names of the system calls.

    def mkdir(self, path):
        self.add(path, Node("directory", 0o755))

    def create(self, path, data):
        self.add(path, Node("file", 0o644, data=data))

    def symlink(self, path, target):
        self.add(path, Node("link", 0o777, target=target))

    def link(self, path, new):
        node = self.needed(path)
        refuse_if(self.find(new) is not None, errno.EEXIST)
        refuse_if(node.kind == "directory", errno.EPERM)
        self.add(new, node)

    def rmdir(self, path):
        node = self.needed(path)
        refuse_if(node.kind != "directory", errno.ENOTDIR)
        refuse_if(bool(node.entries), errno.ENOTEMPTY)
        del self.parent(path).entries[path[-1]]

    def unlink(self, path):
        refuse_if(self.needed(path).kind == "directory", errno.EISDIR)
        del self.parent(path).entries[path[-1]]

    def rename(self, path, new):
        node, other = self.needed(path), self.find(new)
        refuse_if(new[:len(path)] == path and new != path, errno.EINVAL)
        refuse_if(path[:len(new)] == new and new != path, errno.ENOTEMPTY)
        if node is other:
            return
        if other is not None:
            refuse_if(node.kind == "directory" and other.kind != "directory", errno.ENOTDIR)
            refuse_if(node.kind != "directory" and other.kind == "directory", errno.EISDIR)
            refuse_if(bool(other.entries), errno.ENOTEMPTY)
        del self.parent(path).entries[path[-1]]
        self.parent(new).entries[new[-1]] = node

    def truncate(self, path, size):
        node = self.needed(path)
        refuse_if(node.kind == "directory", errno.EISDIR)
        refuse_if(node.kind == "link", errno.ELOOP)
        node.data = node.data[:size].ljust(size, b"\0")

    def setxattr(self, path, name, value):
        self.needed(path).attributes[name] = value

    def chmod(self, path, mode):
        self.needed(path).mode = mode

    def describe(self) -> dict:
        """All that there is, by path; hard links by what they have in common."""
        names = {}
        for path in self.paths():
            names.setdefault(id(self.find(path)), []).append("/".join(path))
        found = {}
        for group in names.values():
            node = self.find(tuple(group[0].split("/")))
            mode = None if node.kind == "link" else node.mode
            for name in group:
                found[name] = (node.kind, mode, node.data, node.target,
                               tuple(sorted(node.attributes.items())), tuple(sorted(group)))
        return found


class Chooser:
    """Chooses operations below a directory: a name of a method of the model, and its arguments."""

    WEIGHTS = {
        "mkdir": 10, "create": 14, "symlink": 4, "link": 6, "rmdir": 5, "unlink": 7, "rename": 12,
        "truncate": 8, "setxattr": 6, "chmod": 4
    }
    NAMES = ("a", "b", "c", "name with a space", "\u00fc\u4e00", "n" * 200)

    def __init__(self, model: Model, seed: int):
        self.model, self.random = model, random.Random(seed)

    def directory(self, below: tuple) -> tuple:
        inner = [path for path in self.model.paths(below, ("directory",)) if len(path) < 7]
        return self.random.choice([below, *inner])

    def place(self, below: tuple) -> tuple:
        """Mostly a new name, sometimes one that is there."""
        number = self.random.randrange(40)
        return (*self.directory(below), f"{self.random.choice(self.NAMES)}{number}")

    def present(self, below: tuple, kinds=("directory", "file", "link")) -> tuple:
        """Mostly something that is there."""
        paths = self.model.paths(below, kinds)
        if paths and self.random.random() < 0.95:
            return self.random.choice(paths)
        return self.place(below)

    def choose(self, below: tuple = ()) -> tuple:
        (name,) = self.random.choices(list(self.WEIGHTS), self.WEIGHTS.values())
        chance = self.random
        if name == "mkdir":
            return name, self.place(below)
        if name == "create":
            return name, self.place(below), chance.randbytes(int(chance.expovariate(1 / 3000)))
        if name == "symlink":
            return name, self.place(below), chance.choice(("a", "../b", "/c/d", "t" * 100))
        if name in ("link", "rename"):
            new = self.place(below) if chance.random() < 0.7 else self.present(below)
            return name, self.present(below), new
        if name == "truncate":
            return name, self.present(below), chance.randrange(9000)
        if name == "setxattr":
            where = self.present(below, ("directory", "file"))
            key = f"user.{chance.randrange(4)}"
            return name, where, key, chance.randbytes(chance.randrange(1, 200)).hex()
        if name == "chmod":
            where = self.present(below, ("directory", "file"))
            return name, where, chance.choice((0o600, 0o644, 0o755, 0o1777, 0o750))
        return name, self.present(below)

    def apply(self, operation: tuple) -> int:
        """Does it in the model. Returns the error's number, or 0."""
        name, *arguments = operation
        try:
            getattr(self.model, name)(*arguments)
            return 0
        except Refused as refused:
            return refused.number
