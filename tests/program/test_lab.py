# SPDX-License-Identifier: GPL-2.0-only
"""`outboard lab`: the shipped examples, results, captures, pictures, and wrong files."""

import glob
import os
import subprocess
import xml.etree.ElementTree as ET

import pytest

from support import program
from support.json_output import document
from support.program import bad, good, run

LABS = os.path.join(program.REPOSITORY, "docs", "examples", "labs")
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
    with open(__file__, encoding="utf-8") as stream:
        text = stream.read()
    names = [os.path.basename(path)[:-5] for path in glob.glob(f"{LABS}/*.yaml")]
    assert len(names) == 6
    for name in names:
        assert f'lab_of("{name}"' in text, name


def test_router():
    lab = lab_of("router")
    assert [step["met"] for step in lab["steps"]] == [True] * 3
    sent = {(row["link"], row["node"]): row["sent_bytes"] for row in lab["interfaces"]}
    # The router passed on what the left host sent, cut into packets in another way.
    assert sent["east", "router"] >= 1_000_000
    assert abs(sent["west", "left"] - sent["east", "router"]) < 20_000


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


def test_bbr_against_cubic():
    steps = steps_by_name(lab_of("bbr"))
    assert steps["bbr"]["rate"] >= 2 * steps["cubic"]["rate"]


def test_two_deterministic_runs():
    first, second = (lab_of("loss", "--deterministic") for _ in range(2))
    for lab in (first, second):
        assert 0 < lab["steps"][0]["loss"] < 1
    for index in (0, 1):
        one, other = first["steps"][index], second["steps"][index]
        assert one["received"] == other["received"], (one, other)


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
    root = ET.parse(f"{work}/lab.svg").getroot()
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a" in texts and "b" in texts and any((text or "").startswith("l: ") for text in texts)


def test_no_process_and_no_file_is_left(work):
    temporary = f"{work}/temporary"
    os.mkdir(temporary)
    good("lab", written(work, PAIR), TMPDIR=temporary)
    assert os.listdir(temporary) == []
    found = subprocess.run(["pgrep", "-f", temporary], capture_output=True, text=True, check=False)
    assert found.stdout == ""


NODES = "nodes: {a: , b: }\n"
STEP = PAIR + "steps:\n  - "
WRONG = {
    "nodes: {a: , a: }": ["line 1", '"a" is there already'],
    "nodes:\n  a: {forwards: true}": ["line 2", 'unknown key "forwards"'],
    "nodes: {a/b: }": ["line 1", '"a/b" is no name'],
    "nodes: {n1..n9999: }": ["line 1", "no range"],
    "nodes: {n1..n1500: , m1..m1500: }": ["line 1", "more than 2000 nodes"],
    "nodes: {n1..n5: , n3: }": ["line 1", 'two nodes "n3"'],
    "links: {}": ["nodes are missing"],
    NODES + "links:\n  l: {nodes: [a, c]}": ["line 3", 'no node "c"'],
    NODES + "links:\n  l: {nodes: [a]}": ["line 3", "too few"],
    NODES + "links:\n  l: {nodes: [a, a]}": ["line 3", "twice"],
    NODES + "links:\n  l: {nodes: [a, b], prefix: 10.0.0.0/33}": ["line 3", "10.0.0.0/33"],
    NODES + "links:\n  l: {nodes: [a, b], prefix: 10.0.0.0/31}": ["line 3", "too few addresses"],
    NODES + "links:\n  l: {nodes: {a: 10.0.0.1/24, b: 10.0.0.1/24}}": ["line 3", "10.0.0.1"],
    NODES + "links:\n  l: {nodes: [a, b], loss: 200%}": ["line 3", "loss", "200%"],
    NODES + "links:\n  l: {nodes: [a, b], reorder: 5%}": ["line 3", "set a delay"],
    NODES + "links:\n  l: {nodes: [a, b], line: [a, b]}": ["line 3", "one of nodes, line, ring"],
    "addresses: 10.0.0.0/30\nnodes: {a: , b: , c: }\nlinks:\n  l: {line: [a, b, c]}":
        ["line 4", "used up"],
    "nodes:\n  a: {routes: [default through 10.0.0.1]}": ["line 2", "no route"],
    "nodes:\n  a: {firewall: {rules: [allow all]}}": ["line 2", "allow all"],
    STEP + "ping: {from: a, to: c}": ["line 4", 'no node "c"'],
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
