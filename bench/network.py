# SPDX-License-Identifier: GPL-2.0-only
"""TCP of a kernel in a process, against the host's own: over a tap, a hub, and loopback.

Everything happens in two network namespaces that live as long as one measurement. The peer is the
host's kernel in the second one. Without root, only the hub and loopback are measured.
"""

import contextlib
import dataclasses
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

from contenders import OURS, OUT, Contender, Result, Turns, host, take_turns

PROGRAM = os.path.join(OUT, "network")
NEAR, FAR = f"ob-{os.getpid()}-near", f"ob-{os.getpid()}-far"
HOST, GUEST, PORT = "10.9.0.1", "10.9.0.2", "7007"
MEGABYTES, TRIPS = 2048, 20000
VETH, LOOPBACK = "host's veth pair", "host's loopback"


def ip(*words: str) -> None:
    host.run("ip", *words)


@contextlib.contextmanager
def namespaces() -> Iterator[None]:
    """A veth pair between two namespaces, and a tap in the far one."""
    ip("netns", "add", NEAR)
    ip("netns", "add", FAR)
    try:
        for name in (NEAR, FAR):
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", NEAR, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns",
           FAR)
        ip("-n", NEAR, "addr", "add", "10.8.0.2/24", "dev", "veth0")
        ip("-n", FAR, "addr", "add", "10.8.0.1/24", "dev", "veth0")
        ip("-n", FAR, "tuntap", "add", "dev", "tap0", "mode", "tap")
        ip("-n", FAR, "addr", "add", f"{HOST}/24", "dev", "tap0")
        ip("-n", NEAR, "link", "set", "veth0", "up")
        for name in ("veth0", "tap0"):
            ip("-n", FAR, "link", "set", name, "up")
        yield
    finally:
        ip("netns", "del", NEAR)
        ip("netns", "del", FAR)


def inside(namespace: str | None) -> list[str]:
    return ["ip", "netns", "exec", namespace] if namespace else []


@contextlib.contextmanager
def server(namespace: str | None, stack: str) -> Iterator[int]:
    """Gives the number of the process. `ip netns exec` becomes the program that it starts."""
    with subprocess.Popen([*inside(namespace), PROGRAM, stack, "serve", PORT],
                          stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def processor_time(process: int) -> float:
    """Seconds, of all threads. The number of the clock: clock_getcpuclockid(3), and
    CPUCLOCK_SCHED of the kernel's posix-timers.h.
    """
    return time.clock_gettime(~process << 3 | 2)


@dataclasses.dataclass
class End:
    """One end of a connection: its network namespace, and its network stack."""

    namespace: str | None
    stack: str


def measured(what: str, serving: End, asking: End, address: str) -> list[float]:
    """Returns the figures that the program prints. Round trips have the processor time of both ends
    as the last one, in microseconds for each trip.
    """
    amount = TRIPS if what == "rr" else MEGABYTES
    with server(serving.namespace, serving.stack) as process:
        before = processor_time(process)
        done = host.run(*inside(asking.namespace), PROGRAM, asking.stack, what, address, PORT,
                        str(amount))
        used = processor_time(process) - before
    values = [float(word) for word in done.stdout.split()]
    if what == "rr":
        values[-1] += used / TRIPS * 1e6
    return values


def over_tap(what: str) -> list[float]:
    with namespaces():
        return measured(what, End(FAR, "native"), End(FAR, f"tap:tap0,ip={GUEST}/24"), HOST)


def over_veth(what: str) -> list[float]:
    with namespaces():
        return measured(what, End(FAR, "native"), End(NEAR, "native"), "10.8.0.1")


def over_hub(what: str) -> list[float]:
    with tempfile.TemporaryDirectory() as directory:
        hub = f"hub:{directory}/hub"
        return measured(what, End(None, f"{hub},ip={HOST}/24"), End(None, f"{hub},ip={GUEST}/24"),
                        HOST)


def over_host_loopback(what: str) -> list[float]:
    return measured(what, End(None, "native"), End(None, "native"), "127.0.0.1")


def over_sockets_of_the_host(what: str) -> list[float]:
    return measured(what, End(None, "native"), End(None, "host"), "127.0.0.1")


def turns(ways: dict[str, Callable], what: str, rounds: int) -> Turns:
    return take_turns([Contender(who, lambda way=way: way(what)) for who, way in ways.items()],
                      rounds)


def bulk(name: str, measured_in_turns: Turns) -> Result:
    return measured_in_turns.result(name, "MB/s", "", lambda values: values[0])


def round_trip(name: str, measured_in_turns: Turns, part: int) -> Result:
    return measured_in_turns.result(name, "us", "", lambda values: values[part])


def processors(name: str, measured_in_turns: Turns, peer: str) -> Result:
    """Beside a round trip: a side that polls answers sooner, and pays with processor time."""
    result = measured_in_turns.result(name, "us", "shown", lambda values: values[2])
    if OURS in result.samples and peer in result.samples:
        result.ratio = result.pair(OURS, peer)
    return result


def judged(result: Result, peer: str, limit: float, larger: bool) -> Result:
    side = "at least" if larger else "at most"
    result.target = f"{side} {limit} of {peer}"
    if OURS in result.samples and peer in result.samples:
        result.ratio = result.pair(OURS, peer)
        result.reached = result.ratio >= limit if larger else result.ratio <= limit
    return result


def on_a_tap(rounds: int) -> list[Result]:
    ways = {OURS: over_tap, VETH: over_veth}
    out, back, trips = (turns(ways, what, rounds) for what in ("out", "in", "rr"))
    return [
        judged(bulk("TCP on a tap, to the host", out), VETH, 0.7, True),
        judged(bulk("TCP on a tap, from the host", back), VETH, 0.7, True),
        judged(round_trip("TCP round trip on a tap", trips, 0), VETH, 1.5, False),
        judged(round_trip("the same, 99th percentile", trips, 1), VETH, 1.5, False),
        processors("TCP round trip on a tap, processor time of both ends", trips, VETH),
    ]


def on_a_hub(rounds: int) -> list[Result]:
    ways = {OURS: over_hub, LOOPBACK: over_host_loopback}
    out, trips = (turns(ways, what, rounds) for what in ("out", "rr"))
    return [
        judged(bulk("TCP on a hub, two processes", out), LOOPBACK, 0.5, True),
        judged(round_trip("TCP round trip on a hub", trips, 0), LOOPBACK, 1.0, False),
        processors("TCP round trip on a hub, processor time of both ends", trips, LOOPBACK),
    ]


def on_sockets_of_the_host(rounds: int) -> list[Result]:
    ways = {OURS: over_sockets_of_the_host, LOOPBACK: over_host_loopback}
    out, back, trips = (turns(ways, what, rounds) for what in ("out", "in", "rr"))
    return [
        judged(bulk("TCP by sockets of the host, out", out), LOOPBACK, 0.7, True),
        judged(bulk("TCP by sockets of the host, in", back), LOOPBACK, 0.7, True),
        judged(round_trip("TCP round trip by sockets of the host", trips, 0), LOOPBACK, 1.5, False),
        processors("TCP round trip by sockets of the host, processor time of both ends", trips,
                   LOOPBACK),
    ]


def network(rounds: int) -> list[Result]:
    """TCP: bulk and round trips."""
    results = on_a_tap(rounds) if os.geteuid() == 0 else []
    return results + on_a_hub(rounds) + on_sockets_of_the_host(rounds)
