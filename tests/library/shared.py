#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Lists what Linux chooses at random before a snapshot is saved, for docs/snapshots.md.

    tests/library/shared.py          prints the table
    tests/library/shared.py --write  puts it into the page

gdb stops a booting kernel with all components at each function of Linux that gives random numbers.
Each caller must be known here, with what it chooses and what becomes of that in a start from a
snapshot. A caller that is not known, and a known one that does not call, are errors.
"""

import argparse
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from support import c_programs, debugger, modules  # noqa: E402  (needs the path above)

PAGE = REPOSITORY / "docs" / "snapshots.md"
BEGIN, END = "<!-- shared: begin -->\n", "<!-- shared: end -->\n"

SOURCES = (
    "get_random_bytes",
    "get_random_bytes_user",
    "get_random_u8",
    "get_random_u16",
    "get_random_u32",
    "get_random_u64",
    "__get_random_u32_below",
)
# Callers are at most this far from there.
FRAMES = 6
# Parts of the kernel's own suites, and devices that are only there to be tested with.
NOT_LOADED = re.compile(r"test|kunit|dummy")


class Wrong(Exception):
    """Linux and the list below disagree."""


@dataclass(frozen=True)
class Choice:
    what: str
    # Why all starts have the same. None: each start has its own, by kernel/arch/core/renew.c.
    stays: str | None = None


BY_FUNCTION = {
    "fill_ptr_key": Choice("the secret that hides addresses in messages (`%p`)"),
    "kcmp_cookies_init": Choice("the secret of the order that kcmp(2) reports"),
    "net_ns_init": Choice("the hash secret of the network namespace: ports, sockets, addresses"),
    "rt_genid_init": Choice("where the count of changes of addresses begins"),
    "neigh_hash_alloc": Choice("the hash secrets of the tables of neighbours (ARP, NDP)"),
    "uuid_gen": Choice("the UUIDs of tmpfs and sysfs"),
    "bucket_table_alloc": Choice(
        "hash secrets of tables: netlink sockets, fragments, System V IPC, components",
        "live tables are sorted by them; a table that grows gets another one",
    ),
    "__shmem_get_inode": Choice(
        "generation numbers of files in `/` and `/dev`", "file handles name them; no secret"
    ),
    "key_alloc": Choice("serial numbers of root's keyrings", "keyrings are sorted by them"),
    "key_set_index_key": Choice("the hash secret of keyrings", "live keyrings are sorted by it"),
    "ip_rt_init": Choice(
        "the first identifiers of IP packets",
        "a destination gets one by a secret that each start chooses for itself",
    ),
    "neigh_parms_alloc": Choice(
        "how long a neighbour counts as reachable, for each device",
        "no secret; chosen again every five minutes",
    ),
    "neigh_table_init": Choice(
        "the same, for new devices", "no secret; chosen again every five minutes"
    ),
    "prandom_seed_full_state": Choice(
        "from where the scheduler takes tasks first", "no secret; it spreads load"
    ),
    "init_cfs_bandwidth": Choice(
        "when the periods of a control group's `cpu.max` begin",
        "no secret; each group chooses for itself, and the first one has no limit",
    ),
    "sbitmap_init_node": Choice(
        "where a vCPU begins to look for a free tag of an NBD disk", "nothing outside sees tags"
    ),
}
# Names of a component's own functions are not known to gdb.
BY_COMPONENT = {
    "bonding": Choice("the MAC address of `bond0`"),
    "ip6_tunnel": Choice("the addresses of its first device"),
    "ip6_gre": Choice("the addresses of its first device"),
    "cifs": Choice(
        "the number that hides pointers in its requests for locks",
        "a server sees it only mixed with a hash of an address",
    ),
    "ifb": Choice("the MAC addresses of its devices"),
    "ipvlan": Choice(
        "the hash secret of its tables of addresses", "nothing outside of the component reaches it"
    ),
    "nfsd": Choice(
        "the first numbers of clients, and the key of write verifiers",
        "the time when a server starts goes along with both",
    ),
    "sctp": Choice(
        "the secret that signs cookies of its control socket",
        "nothing outside of the component reaches it; other sockets choose their own",
    ),
    "vxlan": Choice(
        "the hash secret of forwarding tables", "nothing outside of the component reaches it"
    ),
}


def gdb_script() -> str:
    stops = "".join(
        f"break {name}\ncommands\nsilent\necho draw\\n\nbacktrace {FRAMES}\ncontinue\nend\n"
        for name in SOURCES
    )
    # struct module: the name is behind its state and its list.
    return (
        "set pagination off\nset breakpoint pending on\nhandle all nostop noprint pass\n"
        f"{stops}"
        "break do_init_module\ncommands\nsilent\n"
        'printf "component %s\\n", $rdi + 24\ncontinue\nend\n'
        "break ob_vcpus_start_later\ncommands\nsilent\necho ready\\n\nkill\nquit\nend\nrun\n"
    )


def trace(directory: str) -> str:
    """The output of gdb while a kernel boots."""
    sources = (str(Path(__file__).with_name(name)) for name in ("snapshot_test.c", "client.c"))
    boot = c_programs.build(os.path.join(directory, "boot"), *sources)
    script = Path(directory, "script")
    script.write_text(gdb_script(), encoding="ascii")
    components = " ".join(name for name in modules.every() if not NOT_LOADED.search(name))
    said = debugger.run_script(str(script), boot, COMPONENTS=components)
    if "\nready\n" not in said:
        raise Wrong(f"the kernel did not boot:\n{said[-3000:]}")
    return said


def caller(frames: list, component: str) -> str:
    for name in frames:
        if name in BY_FUNCTION:
            return name
    if "??" in frames and component in BY_COMPONENT:
        return component
    raise Wrong(f"unknown: {' < '.join(frames)}, component {component or '(none)'}")


def callers(output: str) -> set:
    found, component = set(), ""
    for event in re.split(r"^(?=draw$|component )", output, flags=re.M):
        if event.startswith("component "):
            component = event.split()[1]
        elif event.startswith("draw"):
            frames = re.findall(r"^#\d+\s+(?:0x\w+ in )?([\w?]+)", event, flags=re.M)
            found.add(caller(frames, component))
    return found


def table(found: set) -> str:
    every = {**BY_FUNCTION, **BY_COMPONENT}
    if missing := set(every) - found:
        raise Wrong(f"chooses nothing any more: {', '.join(sorted(missing))}")
    lines = ["| chosen at random while the kernel boots | by | in two starts |", "|---|---|---|"]
    for name, choice in every.items():
        result = f"the same: {choice.stays}" if choice.stays else "differs"
        place = f"component `{name}`" if name in BY_COMPONENT else f"`{name}`"
        lines.append(f"| {choice.what} | {place} | {result} |")
    return "\n".join(lines) + "\n"


def on_page() -> str:
    return PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]


def made() -> str:
    with tempfile.TemporaryDirectory() as directory:
        return table(callers(trace(directory)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    chosen = parser.parse_args()
    new = made()
    if chosen.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        _, after = rest.split(END)
        PAGE.write_text("".join((before, BEGIN, new, END, after)), encoding="utf-8")
    else:
        print(new, end="")


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"shared.py: {wrong}")
