# SPDX-License-Identifier: GPL-2.0-only
"""`outboard server`: one kernel for several commands, and status, ps --on, dmesg and halt."""

import os
import signal
import socket
import struct
import subprocess

import pytest

from support import host, images, program, programs
from support.kernel_server import serving
from support.nobody import as_nobody
from support.mounts import NOBODY
from support.patience import wait_until

PROGRAMS = ("cat", "id", "ls", "mkdir", "mount", "sleep", "touch")


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    tree = str(tmp_path_factory.mktemp("server") / "root")
    programs.make_root(tree, *PROGRAMS)
    return tree


@pytest.fixture(scope="module", name="server")
def fixture_server(root):
    with serving("--root", root) as server:
        yield server


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory, root):
    directory = str(tmp_path_factory.mktemp("image"))
    return images.make_ext4_of(os.path.join(directory, "root.img"), root)


# ---- programs ----

def test_programs_have_streams_environment_and_exit_codes(server):
    done = server.run("sh", "-c", "pwd; echo $A; echo wrong >&2; exit 7",
                      options=("-e", "A=1", "--workdir", "/tmp"))
    assert (done.code, done.out, done.err) == (7, "/tmp\n1\n", "wrong\n"), done
    assert server.run("sh", "-c", "kill -TERM $$").code == 143
    missing = server.run("nothing")
    assert missing.code == 127 and "cannot run nothing" in missing.err, missing
    assert server.run("id", "-u", options=("--user", "7:8")).out == "7\n"


def test_input_and_output_pass_whole(server):
    data = os.urandom(3_000_001)
    passed = subprocess.run(server.command("cat"), input=data, capture_output=True, timeout=120)
    assert passed.stdout == data and passed.returncode == 0, passed.stderr


def test_signals_reach_programs(server):
    script = "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.01; done"
    running = subprocess.Popen(server.command("sh", "-c", script), stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"ready\n"
    running.send_signal(signal.SIGTERM)
    assert running.stdout.readline() == b"asked\n" and running.wait(60) == 9


def test_a_signal_ends_the_wait_for_others(server):
    """A program has ended, and somebody else holds its output."""
    script = "sleep 1002 & echo $!; exit 5"
    running = subprocess.Popen(server.command("sh", "-c", script), stdout=subprocess.PIPE)
    other = running.stdout.readline().decode().strip()
    wait_until(lambda: not any(row["host_process"] == running.pid for row in server.processes()),
               "the end of the program")
    assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) == 5
    assert server.run("sh", "-c", f"kill {other}").code == 0


def test_programs_share_the_kernel(server):
    """Files in memory, mounts and processes of one are the next one's, too."""
    made = server.run("sh", "-c", "mkdir /mnt; mount -t tmpfs none /mnt; echo kept > /mnt/file; "
                                  "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")
    assert made.code == 0 and not made.err, made
    found = server.run("cat", "/mnt/file", f"/proc/{made.out.strip()}/comm")
    assert found.out == "kept\nsleep\n", found
    running = subprocess.Popen(server.command("sh", "-c", "echo up; exec sleep 1001"),
                               stdout=subprocess.PIPE)
    assert running.stdout.readline() == b"up\n"
    assert server.run("sh", "-c", f"kill {made.out}").code == 0
    rows = [row for row in server.processes() if row["host_process"] == running.pid]
    assert [(row["kind"], row["user"], row["threads"], row["calls"]) for row in rows] == [
        ("program", 0, None, None)] and "sleep 1001" in rows[0]["name"], rows
    assert server.status()["programs"] >= 1
    running.kill()
    running.wait()
    wait_until(lambda: not any(row["host_process"] == running.pid for row in server.processes()),
               "the end of the program")


def test_no_program_is_left_to_wait_for(server):
    """The thread that waits for programs ends with the last one, and comes again."""
    for number in range(5):
        wait_until(lambda: server.status()["programs"] == 0, "the end of all programs")
        assert server.run("sh", "-c", f"exit {number}").code == number


# ---- the server ----

def processes_of(server):
    """The keeper and the server itself, on the host."""
    pid = server.status()["host_process"]
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return int(stat.read().rpartition(")")[2].split()[1]), pid


def test_status_and_log(server):
    status = server.status()
    assert status["kernel"].startswith("6.") and status["clients"] == 0
    assert 1 << 20 < status["memory"] < 1 << 30 and status["seconds"] < 3600
    shown = program.run("status", server.url)
    assert f"process   {status['host_process']}\n" in shown.out, shown
    log = program.run("dmesg", server.url)
    assert "Linux version" in log.out and not log.out.startswith("<"), log.out[:300]


def test_a_server_needs_an_address(root):
    for words, text in (((), "required"), ((root,), "needs an address"),
                        (("tcp:127.0.0.1:1",), "token=PATH is missing"),
                        (("unix:",), "a path follows"),
                        (("--root", root, "image", "unix:/a"), "one root")):
        refused = program.run("server", *words)
        assert refused.code == 2 and text in refused.err, refused
    refused = program.run("run", "--on", "tcp:a:1", "--", "id")
    assert refused.code == 2 and "token=PATH is missing" in refused.err, refused
    refused = program.run("run", "--on", "unix:/nowhere", "--memory", "1G", "--", "id")
    assert refused.code == 2 and "uses the server's kernel" in refused.err, refused
    nobody = program.run("run", "--on", "unix:/nowhere", "--", "id")
    assert nobody.code == 125 and "no server listens there" in nobody.err, nobody


def test_a_socket_has_one_server(root, server, tmp_path):
    assert os.stat(server.path).st_mode & 0o777 == 0o600
    second = program.run("server", "--daemon", "--root", root, server.url)
    assert second.code == 1 and "listens there already" in second.err, second
    assert server.run("sh", "-c", "exit 3").code == 3
    file = tmp_path / "file"
    file.write_text("kept")
    wrong = program.run("server", "--daemon", "--root", root, f"unix:{file}")
    assert wrong.code == 1 and "cannot listen" in wrong.err and file.read_text() == "kept", wrong


def test_a_server_without_a_root_runs_no_programs():
    with serving() as server:
        refused = server.run("id")
        assert refused.code == 125 and "runs no program" in refused.err, refused
        assert refused.err.count("\n") == 1
        assert server.status()["programs"] == 0


def test_a_server_that_does_not_begin_says_why(tmp_path):
    path = tmp_path / "k"
    failed = program.run("server", "--daemon", "/nowhere/image", f"unix:{path}")
    assert failed.code == 1 and "/nowhere/image" in failed.err and not path.exists(), failed


def test_a_killed_server_ends_all_commands(root):
    with serving("--root", root) as server:
        running = subprocess.Popen(server.command("sh", "-c", "echo up; exec sleep 1000"),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert running.stdout.readline() == "up\n"
        keeper, pid = processes_of(server)
        os.kill(pid, signal.SIGKILL)
        assert running.wait(60) == 125
        errors = running.stderr.read()
        assert "the connection to the kernel is lost" in errors and errors.count("\n") == 1
        wait_until(lambda: not os.path.exists(server.path), "the end of the socket's file")
        wait_until(lambda: not os.path.exists(f"/proc/{keeper}"), "the end of the keeper")
        # After a keeper that was killed, a stale file stays. The next server replaces it.
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(server.path)
        again = program.run("server", "--daemon", "--root", root, server.url)
        assert again.code == 0, again
        assert server.run("sh", "-c", "exit 4").code == 4


@pytest.mark.parametrize("end", ("halt", "signal", "shown", "keeper"))
def test_changes_are_whole_at_the_end(image, tmp_path, end):
    copy = str(tmp_path / "copy.img")
    host.run("cp", "--sparse=always", image, copy)
    with serving("--rw", copy) as server:
        assert server.run("sh", "-c", "echo kept > /kept; exec sleep 0").code == 0
        busy = subprocess.Popen(server.command("sleep", "1000"), stderr=subprocess.DEVNULL)
        keeper, pid = processes_of(server)
        if end == "halt":
            assert server.halt().code == 0 and not os.path.exists(server.path)
        else:
            os.kill(pid if end == "shown" else keeper,
                    signal.SIGKILL if end == "keeper" else signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the server")
        assert busy.wait(60) in (125, 137)
    host.run("e2fsck", "-fn", copy)
    assert program.run("cat", f"{copy}:/kept").out == "kept\n"


def test_a_further_volume(image, root):
    with serving("--root", root, "--mount", f"{image}:/srv/data") as server:
        found = server.run("sh", "-c", "ls /srv/data/bin; touch /srv/data/new; ls /srv/data/new")
        assert found.code == 0 and "sh" in found.out.split(), found
    assert program.run("ls", f"{image}:/new").code == 1
    with serving("--mount", f"{image}:/srv/data") as server:
        assert server.halt().code == 0
    host.run("e2fsck", "-fn", image)


def test_systemd_starts_a_server(root, tmp_path):
    """Sockets that are passed, and the readiness that is reported."""
    path = str(tmp_path / "k")
    notify = str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX) as given, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reports:
        given.bind(path)
        given.listen()
        reports.bind(notify)
        number = given.fileno()
        start = 'exec 3<&"$0"; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
        words = program.command("server", "--root", root, f"unix:{path}")
        running = subprocess.Popen(["bash", "-c", start, str(number), *words],
                                   pass_fds=[number], env={**os.environ, "NOTIFY_SOCKET": notify})
        assert reports.recv(100) == b"READY=1\n"
        done = program.run("run", "--on", f"unix:{path}", "--", "sh", "-c", "exit 5")
        assert done.code == 5, done
        running.terminate()
        assert running.wait(60) == 0 and reports.recv(100) == b"STOPPING=1\n"
        assert os.path.exists(path)


def test_clients_are_listed_and_end_with_the_server(image, tmp_path):
    """docs/slots.md: a process outside whose system calls come to the kernel."""
    copy = str(tmp_path / "copy.img")
    host.run("cp", "--sparse=always", image, copy)
    hello = b'{"Client": {"version": 1, "name": "stranger", "ticket": null}}'
    with serving("--rw", copy) as server, socket.socket(socket.AF_UNIX) as client:
        client.connect(server.path)
        client.sendall(struct.pack("<IB", len(hello), 0) + hello)
        answer, files, _, _ = socket.recv_fds(client, 1000, 1)
        assert b"Attached" in answer and len(files) == 1, answer
        [row] = server.processes()
        assert (row["kind"], row["name"], row["host_process"], row["user"]) == (
            "client", "stranger", os.getpid(), 0), row
        assert row["threads"] == 1 and server.status()["clients"] == 1
        assert server.halt().code == 0
        assert client.recv(100) == b""
        os.close(files[0])
    host.run("e2fsck", "-fn", copy)


# ---- other users ----

def test_other_users_need_a_rule(root):
    number = str(NOBODY)
    with as_nobody() as nobody, serving("--root", root, "--allow", "1=1") as server:
        assert os.stat(server.path).st_mode & 0o777 == 0o666
        for words in (("run", "--on", server.url, "--", "id"), ("status", server.url),
                      ("ps", "--on", server.url), ("halt", server.url), ("dmesg", server.url)):
            refused = nobody.run(*words)
            assert refused.code in (1, 125), refused
            assert f"no rule for user {number}" in refused.err and not refused.out, refused
        assert server.run("id", "-u").out == "0\n"
    with as_nobody() as nobody, serving("--root", root, "--allow", f"{number}=7:8") as server:
        on = ("run", "--on", server.url)
        script = "id -u; id -g; id -G; echo no > /file"
        shown = nobody.run(*on, "--", "sh", "-c", script)
        assert shown.out == "7\n8\n8\n" and shown.code == 1, shown
        assert nobody.run(*on, "--user", "7:8", "--", "id", "-u").out == "7\n"
        for user in ("0", "root", "7:0"):
            refused = nobody.run(*on, "--user", user, "--", "id")
            assert refused.code == 125 and "alone" in refused.err, refused
        assert nobody.run("status", server.url).code == 0
        for command in ("halt", "dmesg"):
            refused = nobody.run(command, server.url)
            assert refused.code == 1 and "not root inside" in refused.err, refused
        assert server.status()["programs"] == 0


def test_without_rules_the_host_keeps_others_out(server):
    with as_nobody() as nobody:
        refused = nobody.run("status", server.url)
        assert refused.code == 1 and "Permission denied" in refused.err, refused


# ---- strangers ----

def test_garbage_harms_no_server(server):
    wrong = (b"", b"\x01", b"\xff\xff\xff\xff\x00", b"\x00\x00\x00\x00\x09",
             struct.pack("<IB", 2, 0) + b"{}", struct.pack("<IB", 9, 0) + b"short",
             struct.pack("<IB", 3, 1) + b"abc")
    for data in wrong:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.path)
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: client.recv(1000), b""))
            assert not answer or b"Failed" in answer, (data, answer)
    for request in (b'{"Stop": {"signal": null, "milliseconds": 0}}',
                    b'{"Client": {"version": 9, "name": "x", "ticket": null}}'):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.path)
            client.sendall(struct.pack("<IB", len(request), 0) + request)
            assert b"Failed" in client.recv(1000)
    idle = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    for client in idle:
        client.connect(server.path)
    assert server.run("sh", "-c", "exit 6").code == 6
    for client in idle:
        client.close()
