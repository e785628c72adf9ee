# SPDX-License-Identifier: GPL-2.0-only
"""Labs: lines of kernels, from the command to the first echo through all of them, against the same
line of network namespaces of the host. Memory and processor time of a lab's processes.
"""

import contextlib
import glob
import ipaddress
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from operator import itemgetter

from contenders import OURS, Contender, Result, host, program, scratch, take_turns
from support.processes import tree_of

NAMESPACES = "host's network namespaces"
LARGE, LARGE_SECONDS = 1000, 3.0
MIDDLE, MIDDLE_SECONDS = 255, 0.5
SMALL, SMALL_KILOBYTES = 100, 0.6 * 1024
# An echo passes so many nodes at most.
HOPS_MOST = 255
# An idle lab is watched from these times on after its start, for so many seconds. In its first
# minute a kernel renews its random numbers every five seconds or more, later once a minute.
WATCHED_FROM, WATCHED = (10, 60), 10
IDLE_PERCENT = 1.0
NETWORK = ipaddress.ip_network("10.0.0.0/16")


def topology(directory: str, count: int, interval: str = "1s", pings: int = 1) -> str:
    path = os.path.join(directory, f"line-{count}-{pings}.yaml")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f"""name: line of {count} nodes
routing: computed
addresses: {NETWORK}
nodes:
  n1..n{count}: {{forward: true, sysctls: {{net.ipv4.ip_default_ttl: 255}}}}
links:
  l: {{line: n1..n{count}}}
steps:
  - ping:
      {{from: n1, to: n{min(count, HOPS_MOST)}, count: {pings}, interval: {interval}, timeout: 10s}}
""")
    return path


# ---- the time to the first echo -----------------------------------------------------------------


def lab_seconds(path: str) -> float:
    """Of the whole process, its end included."""
    start = time.monotonic()
    done = host.run(program.PROGRAM, "lab", "--json", path)
    taken = time.monotonic() - start
    lab = json.loads(done.stdout)["lab"]
    step = lab["steps"][0]
    if not step["met"] or step["received"] != 1:
        raise host.ToolFailed(f"{lab['nodes']} nodes: {step['result']}")
    return taken


def of_node(links: list, node: int) -> Iterator[str]:
    """What a namespace of the line needs inside: for `ip -batch`."""
    for link, device, number in ((node - 1, "left", 2), (node, "right", 1)):
        if 0 <= link < len(links):
            yield f"addr add {links[link][number]}/30 dev {device}"
            yield f"link set {device} up"
    for beyond, link, number in ((links[:max(0, node - 1)], node - 1, 1),
                                 (links[node + 1:], node, 2)):
        for network in ipaddress.collapse_addresses(beyond):
            yield f"route add {network} via {links[link][number]}"


def write_lines(path: str, lines: Iterator[str]) -> None:
    with open(path, "w", encoding="ascii") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def script_of_line(directory: str, count: int, name: str) -> str:
    """A script that makes the line, and sends an echo through it."""
    links = list(NETWORK.subnets(new_prefix=30))[:count - 1]
    for node in range(count):
        write_lines(f"{directory}/{node}", of_node(links, node))
    write_lines(f"{directory}/cables", (
        f"link add right netns {name}{link} type veth peer name left netns {name}{link + 1}"
        for link in range(count - 1)))
    write_lines(f"{directory}/nodes", (f"netns add {name}{node}" for node in range(count)))
    path = f"{directory}/script"
    with open(path, "w", encoding="ascii") as stream:
        stream.write(f"""set -e
ip -batch {directory}/nodes
ip -batch {directory}/cables
for i in $(seq 0 {count - 1}); do
    ip netns exec {name}$i sh -ec '
        ip -batch {directory}/'$i'
        cd /proc/sys/net/ipv4; echo 1 >ip_forward; echo 255 >ip_default_ttl'
done
ip netns exec {name}0 ping -q -c 1 -W 10 {links[min(count, HOPS_MOST) - 2][2]}
""")
    return path


@contextlib.contextmanager
def removed(directory: str, count: int, name: str) -> Iterator[None]:
    try:
        yield
    finally:
        path = f"{directory}/ends"
        write_lines(path, (f"netns del {name}{node}" for node in range(count)))
        host.run("ip", "-force", "-batch", path, ok=None)


def namespaces_seconds(scratch_directory: str, count: int) -> float:
    name = f"ob-{os.getpid()}-"
    with (tempfile.TemporaryDirectory(dir=scratch_directory) as directory,
          removed(directory, count, name)):
        path = script_of_line(directory, count, name)
        start = time.monotonic()
        host.run("sh", path)
        return time.monotonic() - start


def first_echo(directory: str, count: int, most: float, rounds: int) -> Result:
    path = topology(directory, count)
    lab_seconds(path)       # which makes the snapshot
    contenders = [Contender(OURS, lambda: lab_seconds(path))]
    if os.geteuid() == 0:
        contenders.append(Contender(NAMESPACES, lambda: namespaces_seconds(directory, count)))
    result = take_turns(contenders, rounds).result(
        f"a line of {count} nodes: to the first echo through "
        f"{'all' if count <= HOPS_MOST else f'the first {HOPS_MOST}'}", "s", f"at most {most} s")
    result.reached = OURS in result.samples and result.median(OURS) <= most
    return result


# ---- memory and processor time ------------------------------------------------------------------


def private_kilobytes(process: int) -> int:
    with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as stream:
        return sum(int(line.split()[1]) for line in stream if line.startswith("Private_"))


def processor_seconds(process: int) -> float:
    """Of all threads, in the scheduler's own count: the ticks of `stat` miss short work."""
    total = 0
    for path in glob.glob(f"/proc/{process}/task/*/schedstat"):
        with open(path, encoding="ascii") as stream:
            total += int(stream.read().split()[0])
    return total / 1e9


def running_lab(path: str) -> list[float]:
    """Private memory of a node in kB, and the shares of a core that the idle lab takes, in %."""
    with subprocess.Popen([program.PROGRAM, "lab", path], stdout=subprocess.DEVNULL) as lab:
        start = time.monotonic()
        shares = []
        try:
            for begin in WATCHED_FROM:
                time.sleep(max(0, start + begin - time.monotonic()))
                processes = tree_of(lab.pid)    # its own, and one of each node
                before = sum(map(processor_seconds, processes))
                time.sleep(WATCHED)
                used = sum(map(processor_seconds, processes)) - before
                shares.append(100 * used / WATCHED)
            memory = sum(map(private_kilobytes, processes[1:])) / len(processes[1:])
        finally:
            lab.terminate()
    return [memory, *shares]


def size_and_idling(directory: str, rounds: int) -> list[Result]:
    # Two echoes, the second one after the lab was watched.
    path = topology(directory, SMALL, f"{2 * (max(WATCHED_FROM) + WATCHED)}s", 2)
    measured = take_turns([Contender(OURS, lambda: running_lab(path))], rounds)
    memory = measured.result(f"private memory of one of {SMALL} nodes", "kB",
                             "at most 0.6 MB", lambda values: values[0])
    memory.reached = memory.median(OURS) <= SMALL_KILOBYTES
    results = [memory]
    for place, begin in enumerate(WATCHED_FROM, 1):
        idle = measured.result(
            f"processor time of {SMALL} idle nodes, of a core, from second {begin} to "
            f"{begin + WATCHED}", "%", f"at most {IDLE_PERCENT:g} %",
            itemgetter(place))
        idle.reached = idle.median(OURS) <= IDLE_PERCENT
        results.append(idle)
    return results


def labs(rounds: int) -> list[Result]:
    """Lines of kernels."""
    os.environ.setdefault("XDG_CACHE_HOME", os.path.join(program.OUT, "test-cache"))
    with scratch() as directory:
        return [
            first_echo(directory, MIDDLE, MIDDLE_SECONDS, rounds),
            first_echo(directory, LARGE, LARGE_SECONDS, rounds),
            *size_and_idling(directory, rounds),
        ]
