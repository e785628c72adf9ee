# SPDX-License-Identifier: GPL-2.0-only
"""Pages of docs/, and a place to run the examples that are printed there."""

import ast
import os
import re
import subprocess

from support import host, program

DOCS = os.path.join(program.REPOSITORY, "docs")
USER = 12345
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(path) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def blocks(text: str) -> list:
    """The language and the code of each code block between fences."""
    return BLOCK.findall(text)


def sections(page: str) -> dict:
    """The shell code of each section of a page, by its heading of the second level."""
    found = {}
    for section in read(os.path.join(DOCS, page)).split("\n## ")[1:]:
        title, text = section.split("\n", 1)
        found[title] = [code for language, code in blocks(text) if language == "sh"]
    return found


def first_arguments(file: str, function: str) -> set:
    """The text that calls of a function in a Python file begin with."""
    return {node.args[0].value for node in ast.walk(ast.parse(read(file)))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function
            and node.args and isinstance(node.args[0], ast.Constant)}


def kernel_log_of_tests() -> dict:
    """The variable that has kernels write warnings where conftest.py finds them."""
    return {name: value for name, value in os.environ.items() if name == "OUTBOARD_LOG_FILE"}


class Desk:
    """A directory of a user without rights, who has nothing but the programs."""

    def __init__(self, directory: str):
        self.directory = directory
        self.user = ()
        if host.IS_ROOT:
            self.user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        os.mkdir(f"{directory}/bin")
        os.symlink(program.PROGRAM, f"{directory}/bin/outboard")
        self.give()

    def give(self) -> None:
        """Makes all files here the user's."""
        if host.IS_ROOT:
            host.run("chown", "-hR", f"{USER}:{USER}", self.directory)

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def write(self, name: str, text: str) -> str:
        """Writes a file, and makes the directories above it."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as stream:
            stream.write(text)
        return path

    def run(self, code: str, ends: int = 0, timeout: int = 300, **variables) -> str:
        """Runs code of a page, which must end with this exit code. Returns its output."""
        self.give()
        variables = {"PATH": f"{self.directory}/bin:{host.PATH}", "HOME": self.directory,
                     "TMPDIR": self.directory, "XDG_CACHE_HOME": f"{self.directory}/cache",
                     "LC_ALL": "C.UTF-8", **kernel_log_of_tests(), **variables}
        done = subprocess.run([*self.user, "sh", "-euc", code], env=variables, cwd=self.directory,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                              check=False)
        output = done.stdout.decode(errors="replace")
        errors = done.stderr.decode(errors="replace")
        assert done.returncode == ends, \
            f"{code}\nended with {done.returncode}\n{output[-3000:]}\n{errors[-3000:]}"
        return output
