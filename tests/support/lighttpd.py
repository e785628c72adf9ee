# SPDX-License-Identifier: GPL-2.0-only
"""Debian's web server lighttpd, unmodified: its build, and configurations."""

import os
from collections.abc import Iterable

from . import debian, host

# Of these the server would need libraries of the host.
WITHOUT = ("pcre2", "pcre", "zlib", "bzip2", "brotli", "zstd", "openssl")


def build(directory: str, flags: Iterable[str] = (), libraries: Iterable[str] = ()) -> str:
    """Builds the server in a directory, with flags of the compiler and libraries besides its own.
    Returns the program's path.
    """
    tree = debian.source("lighttpd", directory)
    host.run("./configure", "-q", "--disable-dependency-tracking",
             *(f"--without-{name}" for name in WITHOUT), cwd=tree, timeout=600)
    host.run("make", "-s", "-j2", "-C", "src", "parsers", "versionstamp", "lighttpd",
             f"CFLAGS={' '.join(['-w', *flags])}", f"LIBS={' '.join(libraries)}", cwd=tree,
             timeout=600)
    return os.path.join(tree, "src", "lighttpd")


def configure(directory: str, root: str, address: str, connections: int = 0, **more: str) -> str:
    """Writes a configuration for files below `root`, and returns its path. The log is beside it.
    `connections`: so many at a time, of clients that may be slow; 0: lighttpd decides. `more`:
    settings server.NAME with their values, where a _ stands for a -.
    """
    settings = {"document-root": root, "bind": address, "errorlog": f"{directory}/log", **more}
    lines = [f'server.{name.replace("_", "-")} = "{value}"' for name, value in settings.items()]
    numbers = {"port": 8080}
    if connections:
        # The server insists on as many descriptors again, for files that it sends.
        numbers |= {"max-fds": 2 * connections, "max-connections": connections,
                    "listen-backlog": connections, "max-keep-alive-requests": 60000,
                    "max-keep-alive-idle": 3600, "max-read-idle": 3600, "max-write-idle": 3600}
    lines += [f"server.{name} = {value}" for name, value in numbers.items()]
    path = os.path.join(directory, "config")
    with open(path, "w", encoding="ascii") as stream:
        stream.write("\n".join(lines) + "\n")
    return path
