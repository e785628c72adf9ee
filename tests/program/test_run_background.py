# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the background: `outboard run -d`, and ps, exec, logs and stop, which reach them."""

import json
import os
import signal
import socket
import struct
import subprocess

import pytest

from support import host, images, program, programs
from support.json_output import items
from support.patience import wait_until

# The kinds of frames (docs/protocol.md).
MESSAGE, INPUT, OUTPUT, ERROR = range(4)


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("background"))
    tree = os.path.join(directory, "root")
    programs.make_root(tree, "cat", "dd", "sleep", "id", "stty")
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree)


@pytest.fixture(name="place", autouse=True)
def fixture_place(tmp_path, monkeypatch):
    """The directory of runs is the test's own; all its runs end with it."""
    place = tmp_path / "runs"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    yield place
    for name in names():
        program.run("stop", "--time", "0", name)


def names():
    return [row["name"] for row in items(program.run("ps", "--json"))]


def start(image, *words, options=()):
    begun = program.run("run", "-d", *options, image, "--", *words)
    assert (begun.code, begun.err) == (0, ""), begun
    return begun.out.strip()


def control(place, name):
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(place / "outboard-runs" / name / "control"))
    return client


def send(client, kind, data):
    client.sendall(struct.pack("<IB", len(data), kind) + data)


def frames(client):
    """The frames until the connection ends."""
    stream = client.makefile("rb")
    while header := stream.read(5):
        length, kind = struct.unpack("<IB", header)
        yield kind, stream.read(length)


def test_a_run_has_a_name_a_log_and_an_end(image, place):
    name = start(image, "sh", "-c", "echo begun; echo wrong >&2; read -r line; echo end; exit 7",
                 options=("--name", "first"))
    assert name == "first" and names() == ["first"]
    wait_until(lambda: program.run("logs", name).out == "begun\nwrong\nend\n",
               "the output")
    # There is no input: the program ends at once.
    wait_until(lambda: not names(), "the end of the run")
    listed = items(program.run("ps", "--all", "--json"))
    assert [(row["state"], row["exit_code"]) for row in listed] == [("exited", 7)]
    assert oct(os.stat(place / "outboard-runs" / name).st_mode)[-3:] == "700"
    late = program.run("exec", name, "--", "cat")
    assert late.code == 125 and "has ended with exit code 7" in late.err, late


def test_names_follow_the_program(image):
    assert [start(image, "sleep", "1000") for _ in range(2)] == ["sleep", "sleep-2"]
    taken = program.run("run", "-d", "--name", "sleep", image, "--", "sleep", "1")
    assert taken.code == 125 and "outboard stop sleep" in taken.err, taken
    unknown = program.run("stop", "other")
    assert unknown.code == 1 and "there are: sleep, sleep-2" in unknown.err, unknown


def test_a_run_that_does_not_begin_says_why(image):
    missing = program.run("run", "-d", image, "--", "nothing")
    assert missing.code == 127 and "cannot run nothing" in missing.err, missing
    assert not names() and program.run("ps", "-a").out == ""
    for options in ((), ("--overlay", "/nowhere/changes.qcow2")):
        missing = program.run("run", "-d", *options, image + ".other", "--", "sleep", "1")
        assert missing.code == 125 and "No such file" in missing.err, missing


def test_a_script_starts_none(image, tmp_path):
    script = tmp_path / "script"
    script.write_text(f"run -d {image} -- sleep 1000\n", encoding="ascii")
    refused = program.run("run-script", str(script))
    assert refused.code == 2 and "--detach" in refused.err and not names(), refused


def test_exec_shares_root_and_environment(image):
    name = start(image, "sleep", "1000", options=("-e", "A=1", "-e", "B=2"))
    assert program.run("exec", name, "--", "sh", "-c", "echo x > /tmp/file; exit 3").code == 3
    found = program.run("exec", "-e", "B=3", "--workdir", "/tmp", name, "--", "sh", "-c",
                        "cat file; echo $A $B; echo wrong >&2; kill -TERM $$")
    assert (found.code, found.out, found.err) == (143, "x\n1 3\n", "wrong\n"), found
    assert program.run("exec", "--user", "7:8", name, "--", "id", "-u").out == "7\n"
    missing = program.run("exec", name, "--", "nothing")
    assert missing.code == 127 and "cannot run nothing" in missing.err, missing


def test_exec_passes_input_and_output_whole(image, tmp_path):
    name = start(image, "sleep", "1000")
    data = os.urandom(5_000_001)
    passed = subprocess.run(program.command("exec", name, "--", "cat"), input=data,
                            capture_output=True, timeout=120)
    assert passed.stdout == data and passed.returncode == 0, passed.stderr
    # Of an output that nobody reads, the program learns.
    endless = subprocess.Popen(program.command("exec", name, "--", "dd", "if=/dev/zero"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    endless.stdout.read(100_000)
    endless.stdout.close()
    endless.stderr.read()
    assert endless.wait(60) == 141
    # A program that does not read its input ends, too.
    short = subprocess.run(program.command("exec", name, "--", "sleep", "0"), input=data,
                           capture_output=True, timeout=120)
    assert short.returncode == 0, short


def test_signals_reach_a_further_program(image):
    name = start(image, "sleep", "1000")
    script = "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.01; done"
    running = subprocess.Popen(program.command("exec", name, "--", "sh", "-c", script),
                               stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"ready\n"
    running.send_signal(signal.SIGTERM)
    assert running.stdout.readline() == b"asked\n"
    assert running.wait(60) == 9
    # A command that is killed takes its program with it: the terminal hangs up, as it were.
    running = subprocess.Popen(program.command("exec", name, "--", "sh", "-c",
                                               "echo ready; exec sleep 4321"),
                               stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"ready\n"
    running.kill()
    running.wait()
    count = ["exec", name, "--", "sh", "-c", "cat /proc/[0-9]*/cmdline"]
    wait_until(lambda: "4321" not in program.run(*count).out, "the end of the program")


def test_stop_ends_by_term_and_then_by_kill(image):
    polite = start(image, "sh", "-c", "trap 'echo asked; exit 4' TERM; echo up;"
                                      " while :; do sleep 0.01; done", options=("--name", "a"))
    wait_until(lambda: "up" in program.run("logs", polite).out, "its trap")
    assert program.run("stop", polite).code == 0
    assert program.run("logs", polite).out == "up\nasked\n"
    deaf = start(image, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.01; done",
                 options=("--name", "b"))
    wait_until(lambda: "up" in program.run("logs", deaf).out, "its trap")
    assert program.run("stop", "--time", "0", deaf).code == 0
    listed = items(program.run("ps", "-a", "--json"))
    assert [row["exit_code"] for row in listed] == [4, 137]


def test_changes_are_whole_after_stop(image, tmp_path):
    copy = str(tmp_path / "copy.img")
    subprocess.run(["cp", "--sparse=always", image, copy], check=True)
    name = start(copy, "sleep", "1000", options=("--rw",))
    assert program.run("exec", name, "--", "sh", "-c", "echo kept > /kept").code == 0
    busy = program.run("run", "--rw", copy, "--", "cat", "/kept")
    assert busy.code == 125 and "in use" in busy.err, busy
    assert program.run("stop", name).code == 0
    host.run("e2fsck", "-fn", copy)
    assert program.run("cat", f"{copy}:/kept").out == "kept\n"


def test_a_killed_run_is_lost_and_its_name_free(image):
    name = start(image, "sleep", "1000")
    [row] = items(program.run("ps", "--json"))
    os.kill(row["pid"], signal.SIGKILL)
    wait_until(lambda: not names(), "the end of the run")
    [row] = items(program.run("ps", "-a", "--json"))
    assert row["state"] == "lost" and row["exit_code"] is None
    gone = program.run("exec", name, "--", "cat")
    assert gone.code == 125 and "nobody knows how" in gone.err, gone
    assert start(image, "sleep", "1000") == name


def test_a_run_that_nobody_uses_ends(image):
    idle = ("--exit-idle-time", "1")
    name = start(image, "sleep", "1000", options=idle)
    wait_until(lambda: not names(), "the end of the run")
    [row] = items(program.run("ps", "-a", "--json"))
    assert (row["state"], row["exit_code"]) == ("exited", 0), row
    assert "nobody has used it for 1 s" in program.run("logs", name).out
    # A program that does not end by the signal has its own exit code.
    name = start(image, "sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.01; done",
                 options=idle)
    wait_until(lambda: not names(), "the end of the run")
    [row] = [row for row in items(program.run("ps", "-a", "--json")) if row["name"] == name]
    assert row["exit_code"] == 9, row


def test_a_command_is_use_of_a_run(image):
    name = start(image, "sleep", "1000", options=("--exit-idle-time", "1"))
    assert program.run("exec", name, "--", "sleep", "3").code == 0
    wait_until(lambda: not names(), "the end of the run")


def test_a_run_that_nobody_can_use(image):
    done = program.run("run", "--exit-idle-time", "1", image, "--", "sleep", "1000")
    assert done.code == 2 and "add -d, or -p" in done.err, done
    assert program.run("run", "-d", "--exit-idle-time", "0", image, "--", "true").code == 2


def test_logs_follow_until_the_end(image):
    name = start(image, "sh", "-c", "for n in 1 2 3; do echo $n; sleep 0.2; done")
    followed = program.run("logs", "-f", name)
    assert (followed.code, followed.out) == (0, "1\n2\n3\n")


def test_garbage_harms_no_run(image, place):
    """Frames that are wrong, cut off, or come at the wrong time; clients that do not read."""
    name = start(image, "sleep", "1000")
    words = {"words": [{"Unix": list(b"cat")}], "environment": [], "directory": None,
             "user": None, "terminal": None}
    run = json.dumps({"Run": words}).encode()
    wrong = (b"", b"\x01", b"\xff\xff\xff\xff\x00", b"\x00\x00\x00\x00\x09",
             struct.pack("<IB", 2, MESSAGE) + b"{}", struct.pack("<IB", 9, MESSAGE) + b"short",
             struct.pack("<IB", 3, INPUT) + b"abc",
             struct.pack("<IB", len(run), MESSAGE) + run + b"\x00\x00\x00\x00\x02",
             struct.pack("<IB", len(run), MESSAGE) + run + b"\xff\xff\xff\x00\x01")
    for data in wrong:
        with control(place, name) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            for kind, body in frames(client):
                assert kind == MESSAGE and (b"Failed" in body or b"Started" in body
                                            or b"Ended" in body), (data, body)
    idle = [control(place, name) for _ in range(80)]
    answers = [client for client in idle if select_read(client)]
    assert len(answers) >= 15 and all(b"Failed" in client.recv(200) for client in answers)
    for client in idle:
        client.close()
    script = ("exec", name, "--", "sh", "-c", "echo well")
    wait_until(lambda: program.run(*script).out == "well\n", "room for a command")


def select_read(client):
    client.settimeout(0.05)
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        client.settimeout(10)


def test_the_protocol_alone_runs_a_program(image, place):
    """A second implementation, from docs/protocol.md."""
    name = start(image, "sleep", "1000")
    words = [{"Unix": list(word)} for word in (b"sh", b"-c", b"cat; echo wrong >&2; exit 5")]
    request = {"words": words, "environment": [], "directory": None, "user": None,
               "terminal": None}
    with control(place, name) as client:
        send(client, MESSAGE, json.dumps({"Run": request}).encode())
        send(client, INPUT, b"some text")
        outputs = {OUTPUT: b"", ERROR: b""}
        messages = []
        for kind, body in frames(client):
            if kind == MESSAGE:
                messages.append(json.loads(body))
                if messages[-1] == "Taken":
                    send(client, INPUT, b"")
                if "Ended" in messages[-1]:
                    break
            else:
                outputs[kind] += body
    assert messages == ["Started", "Taken", {"Ended": 5 << 8}]
    assert outputs == {OUTPUT: b"some text", ERROR: b"wrong\n"}
