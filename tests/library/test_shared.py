# SPDX-License-Identifier: GPL-2.0-only
"""Memory that two starts of one snapshot share, or not: the table of docs/snapshots.md."""

import itertools
import operator
import os

import pytest

from library import shared
from library.test_capi import LIBRARIES, library_program, run
from support import modules

HERE = os.path.dirname(os.path.abspath(__file__))
SECRETS = {"pointer", "namespace", "addresses", "neighbours", "root", "order"}


@pytest.mark.needs("gdb")
def test_page_has_all_that_linux_chooses():
    assert shared.on_page() == shared.made(), "run: tests/library/shared.py --write"


def test_starts_have_secrets_of_their_own(work, tmp_path):
    cache = os.path.join(work, "cache")
    os.mkdir(cache, 0o700)
    modules.build(os.path.join(HERE, "secrets"), str(tmp_path))
    program = library_program(work, "secrets_test.c", "client.c")
    starts = []
    for expected in ("saved as", "started from", "started from"):
        said = run(program, str(tmp_path / "secrets.ko"), SNAPSHOTS=cache,
                   LD_LIBRARY_PATH=LIBRARIES)
        assert expected in said
        starts.append(dict(line.split(maxsplit=1) for line in said.splitlines() if line))
    for name in SECRETS:
        assert len({start[name] for start in starts}) == len(starts), (name, starts)


def network_of_start(program, work, number, expected):
    """What the network chooses: a list of words for each name."""
    said = run(program, os.path.join(work, f"hub{number}"), SNAPSHOTS=os.path.join(work, "cache"),
               COMPONENTS="bonding ifb ip6_tunnel ip6_gre", LD_LIBRARY_PATH=LIBRARIES)
    lines = dict(line.split(maxsplit=1) for line in said.splitlines())
    assert expected in lines.pop("snapshot:")
    return {name: words.split() for name, words in lines.items()}


def overlap(one, other):
    """Whether all pairs of ranges overlap. Their numbers are 32 bits long and may wrap."""
    ranges = zip(*(map(int, words) for words in (one[::2], one[1::2], other[::2], other[1::2])))
    return all((second - first) % 2**32 <= (last - first) % 2**32
               or (first - second) % 2**32 <= (end - second) % 2**32
               for first, last, second, end in ranges)


def test_networks_of_starts_have_secrets_of_their_own(work):
    """TCP's numbers, time stamps, ports and cookies, IP's identifiers, addresses, WireGuard."""
    os.mkdir(os.path.join(work, "cache"), 0o700)
    program = library_program(work, "net_secrets_test.c", "net_wireguard.c", "net_links.c",
                              "net_message.c", "client.c")
    starts = [network_of_start(program, work, number, expected) for number, expected
              in enumerate(("saved as", "started from", "started from"))]
    assert len(starts[0]) == 14
    for one, other in itertools.combinations(starts, 2):
        for name, words in one.items():
            shared = overlap if name.startswith("range-") else operator.eq
            assert not shared(words, other[name]), (name, starts)


def test_starts_without_ipv6(work):
    """Linux has no table of IPv6 neighbours then, whose secret could be renewed."""
    cache = os.path.join(work, "cache")
    os.mkdir(cache, 0o700)
    program = library_program(work, "threads_test.c", "client.c")
    for expected in ("saved as", "started from"):
        assert expected in run(program, "2", "2", SNAPSHOTS=cache, COMMAND_LINE="ipv6.disable=1",
                               LD_LIBRARY_PATH=LIBRARIES)
