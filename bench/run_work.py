# SPDX-License-Identifier: GPL-2.0-only
"""Whole commands of `outboard run`, the start of the kernel included, beside the same by chroot, in
User Mode Linux and in gVisor.
"""

import os
import time
from collections.abc import Callable

from contenders import OURS, Contender, Result, host, take_turns
from debian_system import REPOSITORY, SCRIPTS, TO_INSTALL, System, system
from programs import GVISOR, NATIVE, UML

# UML is so slow that more rounds of work take too long.
ROUNDS_MOST = 3
SECONDS_MOST = 300
START, MAKE, CLONE, INSTALL = "start", "make", "clone", "install"
START_SECONDS, RATIO_MOST = 0.025, 1.8
PACKAGES, FILES, SOURCES = 20, 20000, 100
NAMES = {
    START: "true, whole command",
    MAKE: f"make -j2 of {SOURCES} C files",
    CLONE: f"git clone of {FILES:,} files, by copying",
    INSTALL: f"apt-get install of {PACKAGES} packages",
}
# Each checks what it has made.
COMMANDS = {
    START: "true",
    MAKE: f"make -s -j2 -C /srv/small && [ $(ls /srv/small/*.o | wc -l) = {SOURCES} ]",
    CLONE: f"""git clone -q --no-hardlinks /srv/first.git /srv/second
[ -e /srv/second/d199/f99 ]""",
    INSTALL: f"""export DEBIAN_FRONTEND=noninteractive
apt-get -qq -y -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root -o Dpkg::Options::=--force-unsafe-io \
    install {" ".join(TO_INSTALL)} >/srv/installed
[ $(grep -c ^Setting /srv/installed) = {PACKAGES} ]""",
}
PREPARE = f"""cd {REPOSITORY}
apt-ftparchive packages . >Packages
apt-ftparchive release . >Release
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:{REPOSITORY} ./' >/etc/apt/sources.list
apt-get -qq -o APT::Sandbox::User=root update

mkdir -p /srv/small /srv/work
cd /srv/small
for ((i = 0; i < {SOURCES}; i++)); do
    printf '#include <stdio.h>\\n#include <stdlib.h>\\n#include <string.h>\\n' >c$i.c
    for j in 1 2 3 4 5; do
        echo "int f${{i}}_$j(const char *a) {{ printf(\\"%s\\", a); return atoi(a) + strlen(a); }}"
    done >>c$i.c
done
echo "all: $(echo c*.c | sed 's/\\.c/.o/g')" >Makefile

cd /srv/work
git init -q
for i in {{0..199}}; do
    mkdir d$i
    for j in {{0..99}}; do printf 'line of %s\\n' "$i.$j."{{0..49}} >d$i/f$j; done
done
git add .
git -c user.name=a -c user.email=a@example.org commit -q -m first
git clone -q --bare . /srv/first.git
git -C /srv/first.git gc -q
rm -r /srv/work
"""


def taken(command: list[str], marked: bool = False) -> float:
    """Seconds of a whole command. `marked`: a line of its output has the status."""
    start = time.monotonic()
    done = host.run("timeout", SECONDS_MOST, *command)
    end = time.monotonic()
    if marked and "status 0" not in done.stdout.split("\n"):
        raise host.ToolFailed(f"{command[0]}: {done.stdout[-300:]}")
    return end - start


def native(made: System, name: str) -> float:
    with made.native() as root:
        return taken(made.chroot(f"{SCRIPTS}/{name}", root=root))


def uml(made: System, name: str) -> float:
    made.forget_changes()
    return taken(made.uml(f"{SCRIPTS}/{name}"), marked=True)


def contenders(made: System, name: str) -> list[Contender]:
    script = f"{SCRIPTS}/{name}"
    ways: dict[str, Callable[[], float]] = {
        NATIVE: lambda: native(made, name),
        OURS: lambda: taken(made.outboard(script)),
        UML: lambda: uml(made, name),
        GVISOR: lambda: taken(made.gvisor(script)),
    }
    return [Contender(who, way) for who, way in ways.items()]


def judged(name: str, result: Result) -> Result:
    """At most a time or a ratio, and ahead of the other kernels."""
    if OURS not in result.samples or NATIVE not in result.samples:
        return result
    peers = [peer for peer in (UML, GVISOR) if peer in result.samples]
    if name == START:
        reached = result.median(OURS) <= START_SECONDS
    else:
        result.ratio = result.pair(OURS, NATIVE)
        reached = result.ratio <= RATIO_MOST
    result.reached = reached and all(result.median(OURS) < result.median(peer) for peer in peers)
    return result


def run_work(rounds: int) -> list[Result]:
    """Work of programs in an image."""
    if os.geteuid() != 0:
        print("left out: run_work: only root may change the root directory")
        return []
    with system(COMMANDS, PREPARE) as made:
        results = []
        for name, what in NAMES.items():
            most = "25 ms" if name == START else f"{RATIO_MOST} of {NATIVE}"
            count = rounds if name == START else min(rounds, ROUNDS_MOST)
            turns = take_turns(contenders(made, name), count)
            results.append(judged(name, turns.result(
                what, "s", f"at most {most}, ahead of the other kernels")))
        return results
