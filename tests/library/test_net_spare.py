# SPDX-License-Identifier: GPL-2.0-only
"""Interfaces that a snapshot has in advance."""

import os
import subprocess

import pytest

from library.test_capi import LIBRARIES, library_program, run

SPARE = 2


@pytest.fixture(name="program", scope="module")
def built(tmp_path_factory):
    return library_program(str(tmp_path_factory.mktemp("spare")), "net_spare_test.c",
                           "net_links.c", "net_message.c", "client.c")


def words(output) -> dict:
    """The rest of each line, by its first word."""
    return dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)


def pair(program, work, count, cache) -> list:
    """What both sides print."""
    hubs = [os.path.join(work, name) for name in ("hub", "other")]
    settings = {"LD_LIBRARY_PATH": LIBRARIES, "SPARE_INTERFACES": str(count)}
    if cache:
        settings["SNAPSHOTS"] = cache
    with subprocess.Popen([program, "serve", *hubs], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **settings}) as server:
        first = ""
        while "ready" not in first:
            line = server.stdout.readline()
            assert line, "the server has ended"
            first += line
        second = run(program, "ask", *hubs, **settings)
        assert server.wait(timeout=300) == 0
    return [words(first), words(second)]


@pytest.mark.parametrize("count", [0, SPARE])
def test_without_a_snapshot_there_are_none(program, work, count):
    for side in pair(program, work, count, cache=None):
        assert side["before"] == "end"


def test_the_snapshot_has_them(program, work):
    cache = os.path.join(work, "cache")
    os.mkdir(cache, 0o700)
    addresses = set()
    for expected in (("not used: there was none; saved as", "started from"),
                     ("started from", "started from")):
        sides = pair(program, work, SPARE, cache)
        for side, fate in zip(sides, expected):
            assert side["snapshot"].startswith(fate)
            assert side["before"] == "eth0 eth1 end"
        addresses.add(sides[1]["mac"])
    assert len(addresses) == 2
    # Another number is another snapshot.
    side = pair(program, work, 0, cache)[0]
    assert side["snapshot"].startswith("not used: there was none") and side["before"] == "end"


def test_too_many(program, work):
    hub = os.path.join(work, "hub")
    with pytest.raises(AssertionError, match="spare_interfaces is 33: use 0 to 32"):
        run(program, "serve", hub, hub, LD_LIBRARY_PATH=LIBRARIES, SPARE_INTERFACES="33")


def test_threads_of_vcpus_leave_the_heap_alone(work):
    """While they make the interfaces, and save them."""
    cache = os.path.join(work, "cache")
    os.mkdir(cache, 0o700)
    program = library_program(work, "heap_test.c", "client.c")
    for expected in ("saved as", "started from"):
        said = run(program, cache, f"hub:{work}/hub", LD_LIBRARY_PATH=LIBRARIES)
        assert expected in said, said
