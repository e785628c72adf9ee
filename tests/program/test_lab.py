# SPDX-License-Identifier: GPL-2.0-only
"""`outboard lab`: the shipped examples, results, captures, pictures, and wrong files."""

import contextlib
import glob
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as ET

import pytest

from support import images, net_namespaces, program
from support.json_output import document
from support.pages import first_arguments
from support.patience import GUARD, wait_until
from support.program import bad, good, run

LABS = os.path.join(program.REPOSITORY, "docs", "examples", "labs")
SVG = "{http://www.w3.org/2000/svg}"
PAIR = "nodes: {a: , b: }\nlinks: {l: {nodes: [a, b]}}\n"


def example(name: str) -> str:
    return os.path.join(LABS, f"{name}.yaml")


def lab_of(name: str, *options: str) -> dict:
    """The result of a shipped example that meets its expectations."""
    result = good("lab", "--json", *options, example(name))
    return document(result)["lab"]


def written(work: str, text: str) -> str:
    path = f"{work}/lab.yaml"
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    return path


def steps_by_name(lab: dict) -> dict:
    return {step["name"]: step for step in lab["steps"] if "name" in step}


def test_each_example_is_run_here():
    names = {os.path.basename(path)[:-5] for path in glob.glob(f"{LABS}/*.yaml")}
    assert len(names) == 6 and names <= first_arguments(__file__, "lab_of")


def test_a_lab_has_no_key(work):
    """It has no image: a key for one is a mistake, and standard input is not read."""
    path = written(work, PAIR + "steps:\n  - ping: {from: a, to: b}\n")
    reader, writer = os.pipe()
    try:  # nobody ever writes
        for words, code in ((["--key-file", "-"], 2), ([], 0)):
            done = subprocess.run(program.command("lab", *words, path), stdin=reader,
                                  capture_output=True, timeout=GUARD, check=False)
            assert done.returncode == code, done
            assert (b"lab does not use the option --key-file" in done.stderr) == (code == 2)
    finally:
        os.close(reader)
        os.close(writer)


def test_router():
    lab = lab_of("router")
    assert [step["met"] for step in lab["steps"]] == [True] * 3
    rows = {(row["link"], row["node"]): row for row in lab["interfaces"]}
    received = rows["west", "router"]["received_bytes"]
    sent = rows["east", "router"]["sent_bytes"]
    # The router passed on what it got, cut into packets in another way: each of 1,500 bytes has up
    # to 80 bytes of headers, or many bytes have one header. The left host may have sent more: a
    # busy router loses frames.
    assert sent >= 1_000_000
    assert abs(received - sent) < 80_000
    assert rows["west", "left"]["sent_bytes"] > received - 80_000


def test_line_of_255_nodes():
    lab = lab_of("line")
    assert lab["nodes"] == 255
    assert all(row["received_packets"] >= 4 for row in lab["interfaces"])


def test_ring_with_a_failing_link():
    lab = lab_of("ring")
    assert lab["steps"][2]["loss"] == 0 and lab["steps"][5]["loss"] == 1


def test_firewall():
    lab = lab_of("firewall")
    assert [step["reached"] for step in lab["steps"]] == [True] * 4 + [False] * 3


def texts_of(picture: str) -> list:
    return [text.text or "" for text in ET.parse(picture).getroot().iter(f"{SVG}text")]


def test_bbr_against_cubic(work):
    steps = steps_by_name(lab_of("bbr", "--plot", f"{work}/bbr.svg"))
    assert steps["bbr"]["rate"] >= 4 * steps["cubic"]["rate"]
    for name, size in (("cubic", 2_000_000), ("bbr", 8_000_000)):
        throughput = steps[name]["throughput"]
        assert sum(throughput["bytes"]) == size
        count = len(throughput["bytes"])
        assert (count - 1) * throughput["interval"] <= steps[name]["time"]
        assert steps[name]["time"] < count * throughput["interval"]
    curves = list(ET.parse(f"{work}/bbr.svg").getroot().iter(f"{SVG}polyline"))
    points = [len(curve.get("points", "").split()) for curve in curves]
    assert points == [len(steps[name]["throughput"]["bytes"]) for name in ("cubic", "bbr")]
    assert {"cubic", "bbr"} <= set(texts_of(f"{work}/bbr.svg"))


def test_two_deterministic_runs():
    first, second = (lab_of("loss", "--deterministic") for _ in range(2))
    for lab in (first, second):
        assert 0 < lab["steps"][0]["loss"] < 1
    for index in (0, 1):
        one, other = first["steps"][index], second["steps"][index]
        assert one["received"] == other["received"], (one, other)


SEEDED = """
{of_file}
nodes: {{a: , b: }}
links: {{l: {{nodes: [a, b], loss: 50%{of_link}}}}}
steps:
  - ping: {{from: a, to: b, count: 500, interval: 10us, timeout: 1ms}}
    expect: any
"""


def dropped_of_500(work: str, of_file="", of_link="") -> int:
    """Requests of the node a that netem drops. Its own packets alone decide that."""
    text = SEEDED.format(of_file=of_file, of_link=of_link)
    lab = document(good("lab", "--json", "--deterministic", written(work, text)))["lab"]
    return next(row["dropped"] for row in lab["interfaces"] if row["node"] == "a")


def test_seeds_of_links_and_of_the_file(work):
    """The seed of the link comes first, then that of the file, then 1."""
    usual = dropped_of_500(work)
    five = dropped_of_500(work, of_file="seed: 5")
    assert 100 < usual < 400 and usual != five
    assert dropped_of_500(work, of_file="seed: 1") == usual
    assert dropped_of_500(work, of_file="seed: 9", of_link=", seed: 5") == five


BAD = """
seed: 1
nodes: {a: , b: , c: , d: , e: , f: }
links:
  early: {nodes: [a, b], delay: 1s, reorder: 50%}
  uneven: {nodes: [c, d], delay: 20ms, jitter: 15ms}
  full: {nodes: [e, f], delay: 500ms, limit: 5}
steps:
  - ping: {from: a, to: b, count: 20, interval: 1ms, timeout: 60s}
  - ping: {from: c, to: d, count: 30, interval: 1ms, timeout: 60s}
  - udp: {from: e, to: f, count: 40, size: 100, timeout: 60s}
    expect: [reachable, loss >= 25%]
"""


def least_and_most(step: dict) -> tuple:
    """Seconds of the quickest and the slowest reply, as the result of a ping shows them."""
    found = re.search(r"\(([\d.]+) (\w+) to ([\d.]+) (\w+)\)", step["result"])
    units = {"us": 1e-6, "ms": 1e-3, "s": 1}
    return float(found[1]) * units[found[2]], float(found[3]) * units[found[4]]


def test_links_that_reorder_vary_and_overflow(work):
    lab = document(good("lab", "--json", "--deterministic", written(work, BAD)))["lab"]
    early, uneven, full = lab["steps"]
    least, most = least_and_most(early)
    # Some packets do not wait, in one direction at least.
    assert least < 2 <= most, early
    least, most = least_and_most(uneven)
    assert least >= 0.01 and most - least > 0.01, uneven
    # The rest did not fit into the queue.
    sender = next(row for row in lab["interfaces"] if row["node"] == "e")
    assert sender["dropped"] == 40 - full["received"]


def test_a_link_of_64_nodes(work):
    nodes = ", ".join(f"n{number}" for number in range(1, 65))
    text = (f"nodes: {{n1..n64: }}\nlinks: {{l: {{nodes: [{nodes}]}}}}\nsteps:\n"
            "  - ping: {from: n1, to: n64}\n  - ping: {from: n64, to: n33}\n")
    lab = document(good("lab", "--json", written(work, text)))["lab"]
    assert lab["nodes"] == 64 and len(lab["interfaces"]) == 64


KNOWN = """
nodes: {a: , b: , c: , d: , e: , f: , n01..n02: }
links:
  slow: {nodes: [a, b], rate: 2 Mbit/s}
  twice: {nodes: [c, d], duplicate: 100%, capture: true}
  lossy: {nodes: [e, f], loss: 100%}
  pair: {nodes: [n01, n02], prefix: [192.0.2.6/31, 'fd00::/127']}
steps:
  - tcp: {from: a, to: b, bytes: 200 kB, timeout: 60s}
    name: slow
    expect: [reachable, rate <= 2 Mbit/s]
  - udp: {from: c, to: d, count: 40, size: 100}
    expect: loss = 0%
  - ping: {from: e, to: f, count: 30, interval: 1ms, timeout: 1s}
    expect: unreachable
  - ping: {from: n01, to: 192.0.2.7}
  - ping: {from: n02, to: 'fd00::'}
"""


def test_a_lab_with_known_answers(work):
    """Each property of a link has its effect, and the counters show it."""
    lab = document(good("lab", "--json", "--deterministic", "--pcap", f"{work}/frames",
                        written(work, KNOWN)))["lab"]
    # A busy machine only makes it slower.
    assert 0 < steps_by_name(lab)["slow"]["rate"] <= 2e6
    rows = {(row["link"], row["node"]): row for row in lab["interfaces"]}
    assert rows["twice", "c"]["sent_packets"] >= 80
    assert rows["lossy", "e"]["dropped"] >= 30
    assert rows["twice", "c"]["dropped"] == 0
    assert sorted(os.listdir(f"{work}/frames")) == ["twice-c.pcapng", "twice-d.pcapng"]


def test_captures_of_all_ends_have_files_of_their_own(work):
    text = """
nodes: {a: , b-c: , c: }
links:
  a-b: {nodes: [a, c], prefix: 10.1.0.0/24}
  a: {nodes: [a, b-c], prefix: 10.2.0.0/24}
"""
    good("lab", "--pcap", f"{work}/frames", written(work, text))
    assert sorted(os.listdir(f"{work}/frames")) == [
        "a-a.pcapng", "a-b-a.pcapng", "a-b.c.pcapng", "a.b-c.pcapng"]


def test_a_firewall_of_many_rules(work):
    rules = "".join(f"        - accept tcp port {2000 + i} from 10.0.{i % 256}.0/24 to 10.0.0.0/8 "
                    f"new\n" for i in range(1500))
    text = (f"nodes:\n  a:\n  b:\n    firewall:\n      policy: drop\n      rules:\n{rules}"
            f"        - accept icmp\nlinks: {{l: {{nodes: [a, b]}}}}\n"
            f"steps:\n  - ping: {{from: a, to: b}}\n")
    good("lab", written(work, text))


def test_expectations_that_are_not_met(work):
    steps = "steps:\n  - ping: {from: a, to: b}\n    expect: [unreachable, 'rtt > 1min']\n"
    result = run("lab", "--json", written(work, PAIR + steps))
    lab = document(result)["lab"]
    assert result.code == 1 and not lab["met"]
    assert lab["steps"][0]["missed"] == ["unreachable", "rtt > 1min"]
    text = bad("lab", written(work, PAIR + steps), code=1, mentions=["not all expectations"])
    assert "FAILED" in text.out and "expected unreachable" in text.out


def test_a_setting_that_a_node_refuses(work):
    text = "nodes: {a: {sysctls: {net.ipv4.no_such_thing: 1}}}\n"
    bad("lab", written(work, text), code=1, mentions=["node a", "net.ipv4.no_such_thing"])


JOINED = """
nodes:
  a: {routes: [default via 10.0.0.9]}
  b: {routes: [default via 10.1.0.9]}
  c: {forward: true}
  d:
links:
  l:
    nodes:
      a: 10.0.0.1/24
      b: [10.1.0.1/24, 'fd00::1/64']
      c: [10.0.0.9/24, 10.1.0.9/24, 'fd00::9/64']
      d:
steps:
  - ping: {from: a, to: 10.1.0.1}
  - ping: {from: b, to: 'fd00::9'}
"""


def test_a_link_with_two_networks_and_a_router(work):
    """Not each node has IPv6, and one has no address."""
    assert document(good("lab", "--json", written(work, JOINED)))["lab"]["met"]


def test_captures_and_a_picture(work):
    steps = "steps:\n  - ping: {from: a, to: b, count: 2}\n"
    good("lab", "--pcap", f"{work}/frames", "--svg", f"{work}/lab.svg",
         written(work, PAIR + steps))
    assert sorted(os.listdir(f"{work}/frames")) == ["l-a.pcapng", "l-b.pcapng"]
    with open(f"{work}/frames/l-b.pcapng", "rb") as stream:
        frames = stream.read()
    # Echo requests and replies: the addresses, ICMP's type, and the data.
    assert bytes((10, 0, 0, 1, 10, 0, 0, 2, 8, 0)) in frames
    assert bytes((10, 0, 0, 2, 10, 0, 0, 1, 0, 0)) in frames
    # Statistics (type 5) are the last block: the capture was ended, not cut off.
    length = int.from_bytes(frames[-4:], "little")
    assert int.from_bytes(frames[-length:][:4], "little") == 5
    texts = texts_of(f"{work}/lab.svg")
    assert "a" in texts and "b" in texts and any(text.startswith("l: ") for text in texts)


TUNNEL = """
nodes: {{ {name}: }}
links:
  wan: {{nodes: {{ {name}: [{inside}/24, {inside6}/64]}}, tunnel: {remote}, delay: {delay}}}
steps: {steps}
"""


@contextlib.contextmanager
def two_machines():
    """Two network namespaces with a cable between them, and their addresses."""
    with net_namespaces.new("west") as west, net_namespaces.new("east") as east:
        west.ip("link", "add", "cable", "type", "veth", "peer", "cable", "netns", east.name)
        for machine, address in ((west, "192.0.2.1"), (east, "192.0.2.2")):
            machine.ip("address", "add", f"{address}/24", "dev", "cable")
            machine.ip("link", "set", "cable", "up")
        yield west, east


def test_a_node_with_many_links(work):
    """Each interface needs descriptors, more than the limit of most shells divided by the nodes."""
    links = "".join(f"  l{number}: {{nodes: [a, b]}}\n" for number in range(64))
    step = "steps:\n  - ping: {from: a, to: b}\n"
    good("lab", written(work, f"nodes: {{a: , b: }}\nlinks:\n{links}{step}"))


def test_a_capture_needs_a_path_of_utf_8(work):
    path = written(work, PAIR + "steps:\n  - ping: {from: a, to: b}\n")
    bad("lab", "--pcap", f"{work}/\udcff", path, mentions=["cannot capture into", "UTF-8"])
    good("lab", "--pcap", f"{work}/odd, \\name", path)
    assert len(os.listdir(f"{work}/odd, \\name")) == 2


def test_a_picture_replaces_no_disk_image(work):
    image = images.make(f"{work}/disk.img", "ext4", 4)
    with open(image, "rb") as stream:
        before = stream.read()
    path = written(work, PAIR + "steps:\n  - ping: {from: a, to: b}\n")
    for option in ("--svg", "--plot"):
        done = bad("lab", option, image, path, mentions=[image, "looks like a disk image"])
        assert "replies" in done.out, done
        good("lab", option, f"{work}/picture", path)
        good("lab", option, f"{work}/picture", path)
    with open(image, "rb") as stream:
        assert stream.read() == before


@pytest.mark.needs("ip")
@pytest.mark.needs_root
def test_a_tunnel_between_labs_on_two_machines(work):
    texts = {
        "west": TUNNEL.format(name="a", inside="10.1.0.1", inside6="fd00::1", delay="10ms",
                              remote="192.0.2.2:4790", steps="""
  - await: {from: a, to: 10.1.0.2, timeout: 5min}
  - await: {from: a, to: fd00::2}
  - ping: {from: a, to: 10.1.0.2, count: 20, size: 4000, timeout: 30s}
    expect: [loss = 0%, rtt >= 13ms]
  - ping: {from: a, to: 10.1.0.3, count: 1, timeout: 100ms}
    expect: unreachable"""),
        "east": TUNNEL.format(name="b", inside="10.1.0.2", inside6="fd00::2", delay="3ms",
                              remote="192.0.2.1:4790", steps="[wait: 60min]"),
    }
    for name, text in texts.items():
        with open(f"{work}/{name}.yaml", "w", encoding="utf-8") as stream:
            stream.write(text)
    with two_machines() as (west, east):
        other = subprocess.Popen(east.command(*program.command("lab", f"{work}/east.yaml")))
        try:
            lab = document(good("lab", "--json", f"{work}/west.yaml", prefix=west.command(),
                                timeout=GUARD))["lab"]
        finally:
            other.send_signal(signal.SIGINT)
            code = other.wait(GUARD)
    # The delay is that of the two senders.
    assert lab["steps"][2]["rtt"] < 1
    assert lab["nodes"] == 2
    tunnel = next(row for row in lab["interfaces"] if row["node"] == "wan-tunnel")
    assert tunnel["received_bytes"] > 20 * 4000 and tunnel["sent_bytes"] > 20 * 4000
    assert code == 128 + signal.SIGINT


def test_no_process_and_no_file_is_left(work):
    temporary = f"{work}/temporary"
    os.mkdir(temporary)
    good("lab", written(work, PAIR), TMPDIR=temporary)
    assert os.listdir(temporary) == []
    found = subprocess.run(["pgrep", "-f", temporary], capture_output=True, text=True, check=False)
    assert found.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_lab_and_leaves_nothing(work, number):
    """As a terminal does, it goes to the lab and to all nodes."""
    temporary = f"{work}/temporary"
    os.mkdir(temporary)
    lab = subprocess.Popen(program.command("lab", written(work, PAIR + "steps: [wait: 60min]")),
                           env={**os.environ, "TMPDIR": temporary}, start_new_session=True)
    try:
        wait_until(lambda: any(files for _, _, files in os.walk(temporary)), "file of a link")
        os.killpg(lab.pid, number)
        assert lab.wait(GUARD) == 128 + number
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(lab.pid, signal.SIGKILL)
    assert os.listdir(temporary) == []


NODES = "nodes: {a: , b: }\n"
STEP = PAIR + "steps:\n  - "
WRONG = {
    "nodes: {a: , a: }": ["line 1", '"a" is there already'],
    "nodes:\n  a: {forwards: true}": ["line 2", 'unknown key "forwards"'],
    "nodes: {a/b: }": ["line 1", '"a/b" is no name'],
    "nodes: {n1..n9999: }": ["line 1", "no range"],
    "nodes: {n1..n1500: , m1..m1500: }": ["line 1", "more than 2000 nodes"],
    "nodes: {n1..n5: , n3: }": ["line 1", 'two nodes "n3"'],
    "nodes: {n1..n2000: }\nlinks:\n  k: {line: n1..n2000}\n  l: {line: n1..n2000}\n"
    "  m: {line: n1..n2000}": ["line 5", "more than 4000 links"],
    f"nodes: {{n1..n65: }}\nlinks:\n  l: {{nodes: [{', '.join(f'n{i}' for i in range(1, 66))}]}}":
        ["line 3", "more than 64 nodes on one link"],
    "links: {}": ["nodes are missing"],
    NODES + "links:\n  l: {nodes: [a, c]}": ["line 3", 'no node "c"'],
    NODES + "links:\n  l: {nodes: [a]}": ["line 3", "too few"],
    NODES + "links:\n  l: {nodes: [a, a]}": ["line 3", "twice"],
    NODES + "links:\n  l: {nodes: [a, b], prefix: 10.0.0.0/33}": ["line 3", "10.0.0.0/33"],
    NODES + "links:\n  l: {nodes: [a, b], prefix: 10.0.0.0/32}": ["line 3", "too few addresses"],
    "nodes: {a: , b: , c: }\nlinks:\n  l: {nodes: [a, b, c], prefix: 10.0.0.0/31}":
        ["line 3", "too few addresses"],
    "nodes: {n01..n03: }\nlinks:\n  l: {nodes: [n1, n3]}": ["line 3", 'no node "n1"'],
    NODES + "links:\n  l: {nodes: {a: 10.0.0.1/24, b: 10.0.0.1/24}}": ["line 3", "10.0.0.1"],
    NODES + "links:\n  l: {nodes: {a: 10.0.0.255/24, b: 10.0.0.1/24}}":
        ["line 3", "10.0.0.255/24 of node a is no address of a host"],
    NODES + "links:\n  l: {nodes: [a, b], prefix: 'fd00::/64', mtu: 1000}": ["line 3", "1280"],
    NODES + "links:\n  l: {nodes: [a, b], loss: 200%}": ["line 3", "loss", "200%"],
    NODES + "links:\n  l: {nodes: [a, b], reorder: 5%}": ["line 3", "set a delay"],
    NODES + "links:\n  l: {nodes: [a, b], line: [a, b]}": ["line 3", "one of nodes, line, ring"],
    NODES + "links:\n  l: {nodes: {a: 10.0.0.1/24, b: 10.1.0.1/24}}":
        ["line 3", "a (10.0.0.1/24) and b (10.1.0.1/24) share no network"],
    "nodes: {a: , b: , c: }\nlinks:\n  l: {nodes: {a: 10.0.0.1/24, b: 10.0.0.2/24}}\n"
    "  m: {nodes: {b: 10.0.0.3/24, c: 10.0.0.4/24}}": ["line 4", "links l and m overlap at node b"],
    "nodes:\n  a: {routes: [default via 10.9.9.9]}\n  b:\n"
    "links: {l: {nodes: [a, b], prefix: 10.0.0.0/24}}":
        ["line 2", "node a is in no network with the gateway 10.9.9.9"],
    NODES + "links:\n  l: {nodes: [a, b], delay: 5}": ["line 3", "delay", "us, ms, s or min"],
    "addresses: 10.0.0.0/30\nnodes: {a: , b: , c: }\nlinks:\n  l: {line: [a, b, c]}":
        ["line 4", "used up"],
    "nodes:\n  a: {routes: [default through 10.0.0.1]}": ["line 2", "no route"],
    "nodes:\n  a: {firewall: {rules: [allow all]}}": ["line 2", "allow all"],
    "nodes:\n  a: {firewall: {rules: ['drop from 10.0.0.0/8 to fd00::/8']}}":
        ["line 2", "for IPv4 or for IPv6"],
    STEP + "ping: {from: a, to: c}": ["line 4", 'no node "c"'],
    "nodes: {a: }\nlinks:\n  l: {nodes: {a: 10.0.0.1/24}, tunnel: 10.0.0}": ["line 3", "tunnel"],
    "nodes: {a: }\nlinks:\n  l: {nodes: [a], tunnel: 192.0.2.1}": ["line 3", "addresses"],
    "nodes: {a: }\nlinks:\n  l: {nodes: {a: 10.0.0.1/24}, tunnel: 192.0.2.1, mtu: 1500}":
        ["line 3", "1450"],
    "nodes: {a: }\nlinks:\n  l: {nodes: {a: 10.0.0.1/24}, tunnel: 192.0.2.1}\n"
    "  m: {nodes: {a: 10.0.1.1/24}, tunnel: 192.0.2.2}": ["line 4", "ADDRESS:4790"],
    STEP + "await: {from: a, to: b}\n    expect: rtt <= 1s": ["line 5", "does not fit"],
    STEP + "tcp: {from: a, to: b}\n    expect: rate >= 2 * nosuch":
        ["line 5", 'no earlier step has the name "nosuch"'],
    STEP + "ping: {from: a, to: b}\n    expect:": ["line 5", "nothing is expected"],
    STEP + "fly: {from: a, to: b}": ["line 4", 'unknown key "fly"'],
    STEP + "down: m": ["line 4", 'no link "m"'],
    STEP + "ping: {from: a, to: b}\n    expect: rate >= 1 Mbit/s": ["line 5", "does not fit"],
    STEP + "ping: {from: a, to: b, ip: 6}": ["line 4", "no such address"],
    STEP + "tcp: {from: a, to: a}": ["line 4", "same node"],
    "a: &x [1]\nb: *x": ["line 1", "anchors"],
    "[" * 1000: ["line 1"],
    "": ["empty"],
    "\0": ["lab.yaml"],
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_wrong_files(work, text):
    bad("lab", written(work, text), code=2, mentions=["lab.yaml", *WRONG[text]])


def test_files_that_cannot_be_read(work):
    bad("lab", f"{work}/missing.yaml", code=1, mentions=["missing.yaml"])
    with open(f"{work}/bytes.yaml", "wb") as stream:
        stream.write(b"name: \xff\n")
    bad("lab", f"{work}/bytes.yaml", code=2, mentions=["UTF-8"])
    with open(f"{work}/large.yaml", "wb") as stream:
        stream.write(b"#" * (2 << 20))
    bad("lab", f"{work}/large.yaml", code=2, mentions=["1 MiB"])
