# SPDX-License-Identifier: GPL-2.0-only
"""A root image of Debian as mmdebstrap installs it: servers, tools and their maintainer scripts'
work. And its servers, run by `outboard run`, with ports of the host that lead to them.
"""

import contextlib
import http.client
import os
import re
import signal
import subprocess

from . import debian, program
from .patience import wait_until

PACKAGES = ("adduser", "apt-utils", "btrfs-progs", "ca-certificates", "dpkg-dev", "e2fsprogs",
            "fdisk", "gdb", "git", "iproute2", "iputils-ping", "mount", "nftables", "nginx-light",
            "nodejs", "openssh-server", "passwd", "postgresql", "procps", "python3",
            "redis-server", "rsync", "sqlite3", "strace", "wireguard-tools", "xfsprogs")
WORDS = ("--variant=apt", f"--include={','.join(PACKAGES)}", "bookworm", "system.tar")
PUBLISHED = re.compile(rb"note: 127\.0\.0\.1:(\d+) leads to port \d+ ")


def make(directory: str) -> str:
    """An ext4 image of the system with 2 GB and more of free space. Returns its path."""
    image = os.path.join(directory, "debian.img")
    program.good("mkfs", "ext4", image, "--from", debian.system(list(WORDS), []), "--size", "4G",
                 timeout=600)
    return image


def words(image: str, *command: str, options=()) -> list:
    return program.command("run", "--memory", "2G", *options, image, "--", *command, vcpus=2)


class Server:
    """A running command, the port of the host that leads to its server, and what both print."""

    def __init__(self, process, port: int, log: str):
        self.process = process
        self.port = port
        self.log = log

    def answers(self, ask) -> bool:
        """Whether `ask(port)` is true. An error of the socket means that it is not yet."""
        assert self.process.poll() is None, self.printed()
        try:
            return ask(self.port)
        except (OSError, http.client.HTTPException):
            return False

    def wait_for(self, ask) -> None:
        wait_until(lambda: self.answers(ask), "the server answers")

    def printed(self) -> str:
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            return stream.read()

    def end(self, number=signal.SIGTERM) -> int:
        """Ends it by a signal to the command, and returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextlib.contextmanager
def serving(image: str, port: int, log: str, *command: str, options=()):
    """A server that listens to a port inside. The caller waits until it answers."""
    chosen = ("-p", f"0:{port}", *options)
    with (open(log, "wb") as stream,
          subprocess.Popen(words(image, *command, options=chosen), stdin=subprocess.DEVNULL,
                           stdout=stream, stderr=stream) as process):
        try:
            yield Server(process, published(process, log), log)
        finally:
            if process.poll() is None:
                process.kill()


def published(process, log: str) -> int:
    """The port of the host, which the command chooses and prints."""
    def found():
        with open(log, "rb") as stream:
            said = stream.read()
        assert process.poll() is None, said
        return PUBLISHED.search(said)
    return int(wait_until(found, "the command has printed its port")[1])
