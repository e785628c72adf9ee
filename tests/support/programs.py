# SPDX-License-Identifier: GPL-2.0-only
"""Root directories with programs: the host's own, with the libraries that they are linked with."""

import os
import re
import shutil

from support import host


def files_of(path: str) -> list[str]:
    """The program, its interpreter and its libraries, as paths of the host. A static one has none.
    """
    return [path, *re.findall(r"(/\S+) \(0x", host.run("ldd", path, ok=(0, 1)).stdout)]


def copy_in(tree: str, path: str) -> None:
    copy = os.path.join(tree, path.lstrip("/"))
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    shutil.copy(os.path.realpath(path), copy)


def make_root(tree: str, *names: str) -> None:
    """Copies programs into a tree, and bash as /bin/sh."""
    bash = shutil.which("bash")
    for path in [bash, *(shutil.which(name) for name in names)]:
        for file in files_of(path):
            copy_in(tree, file)
    os.makedirs(os.path.join(tree, "bin"), exist_ok=True)
    shutil.copy(os.path.realpath(bash), os.path.join(tree, "bin", "sh"))
