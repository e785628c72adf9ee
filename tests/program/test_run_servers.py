# SPDX-License-Identifier: GPL-2.0-only
"""Servers of a Debian root, unmodified, which clients of the host reach by `outboard run -p`."""

import concurrent.futures
import http.client
import os
import random
import signal
import socket
import subprocess

import pytest

from support import debian_root, host
from support.patience import wait_until
from support.terminal import SIZE, Terminal

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600), pytest.mark.needs("mmdebstrap")]


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    image = debian_root.make(str(tmp_path_factory.mktemp("servers")))
    yield image
    os.unlink(image)


# ---- nginx ----

NGINX = ("nginx", "-g", "daemon off;")
FILES = 60
CLIENTS = 100
REQUESTS = 40


def make_site(directory):
    """Files from nothing to 200 KB, as a list of their bytes."""
    choose = random.Random(37)
    site = [choose.randbytes(i ** 2 * 60) for i in range(FILES)]
    os.mkdir(directory)
    for number, data in enumerate(site):
        with open(os.path.join(directory, f"f{number}"), "wb") as stream:
            stream.write(data)
    return site


def fetch(port, *paths):
    """The answers for paths, by one connection that stays."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    found = []
    for path in paths:
        connection.request("GET", path)
        answer = connection.getresponse()
        found.append((answer.status, answer.read()))
    kept = connection.sock is not None
    connection.close()
    return found, kept


def test_nginx(image, work):
    """Files are equal for many clients at once, with connections that stay and that do not."""
    site = make_site(f"{work}/site")

    def client(number):
        chosen = [(number * 7 + i) % FILES for i in range(REQUESTS)]
        found, kept = fetch(server.port, *(f"/f{i}" for i in chosen))
        assert found == [(200, site[i]) for i in chosen] and kept, number

    def short_client(number):
        chosen = number % FILES
        assert fetch(server.port, f"/f{chosen}")[0] == [(200, site[chosen])], number

    with debian_root.serving(image, 80, f"{work}/log", *NGINX,
                             options=("--bind", f"{work}/site:/var/www/html:ro")) as server:
        server.wait_for(lambda port: fetch(port, "/f0")[0] == [(200, b"")])
        assert fetch(server.port, "/none")[0][0][0] == 404
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(client, range(CLIENTS)))
            list(pool.map(short_client, range(10 * CLIENTS)))
        assert server.end() == 0, server.printed()
    assert [line for line in server.printed().splitlines() if " leads to " not in line] == []


# ---- redis ----

REDIS = ("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--dir", "/var/lib/redis",
         "--appendonly", "yes")
KEYS = 3000


class Redis:
    """A connection of Redis's protocol."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 300)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def call(self, *words):
        given = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(given) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in given))
        line = self.stream.readline()
        if not line.startswith(b"$"):
            return line.rstrip(b"\r\n").decode()
        data = self.stream.read(int(line[1:]) + 2) if line != b"$-1\r\n" else b""
        return data[:-2].decode()


def pong(port):
    with Redis(port) as client:
        return client.call("ping") == "+PONG"


def value(key):
    return f"{key} " * (key % 500)


def redis_benchmark(image, port):
    """By another kernel, whose programs reach the first one by the host's loopback."""
    done = host.run(*debian_root.words(
        image, "redis-benchmark", "-h", "10.0.2.2", "-p", str(port), "-n", "2000", "-c", "20",
        "--csv", "-t", "set,get,lpush,lrange_100,mset", options=("--net", "user,host-loopback")))
    assert '"GET"' in done.stdout and '"LRANGE_100' in done.stdout, done
    assert "rror" not in done.stdout + done.stderr, done


@pytest.mark.needs("qemu-img")
@pytest.mark.parametrize("ends", (signal.SIGTERM, signal.SIGKILL), ids=str)
def test_redis(image, work, ends):
    """Data that a client has had confirmed are there after an end by either signal."""
    overlay = f"{work}/redis.qcow2"
    always = (*REDIS, "--appendfsync", "always")
    with debian_root.serving(image, 6379, f"{work}/log", *always,
                             options=("--overlay", overlay)) as server:
        server.wait_for(pong)
        redis_benchmark(image, server.port)
        with Redis(server.port) as client:
            assert client.call("flushall") == "+OK"
            for key in range(KEYS):
                assert client.call("set", key, value(key)) == "+OK"
                if key == KEYS // 2:
                    # A child of fork() writes all so far, while its parent goes on.
                    assert client.call("bgrewriteaof").startswith("+Background"), key
        assert server.end(ends) == (0 if ends == signal.SIGTERM else -ends), server.printed()
    if ends == signal.SIGKILL:
        host.run("qemu-img", "check", "-r", "all", overlay, ok=(0, 2, 3))
    with debian_root.serving(image, 6379, f"{work}/log", *always,
                             options=("--overlay", overlay)) as server:
        server.wait_for(pong)
        with Redis(server.port) as client:
            wait_until(lambda: client.call("dbsize") == f":{KEYS}", "all keys are loaded")
            wrong = [key for key in range(KEYS) if client.call("get", key) != value(key)]
        assert wrong == []
        assert server.end() == 0, server.printed()


# ---- sshd ----

SSHD = """set -e
mkdir -p /run/sshd
useradd -m -s /bin/bash ann
for home in /root /home/ann; do
    install -D -m 600 /key.pub $home/.ssh/authorized_keys
    chmod 700 $home/.ssh
done
chown -R ann: /home/ann
exec /usr/sbin/sshd -D -e
"""


class Ssh:
    """Words of commands that reach the server with a key."""

    def __init__(self, port, work):
        self.port = port
        settings = {"BatchMode": "yes", "IdentitiesOnly": "yes", "StrictHostKeyChecking": "no",
                    "UserKnownHostsFile": f"{work}/known", "LogLevel": "ERROR"}
        self.options = ("-F", "none", "-i", f"{work}/key",
                        *(f"-o{name}={word}" for name, word in settings.items()))
        self.shell = " ".join(("ssh", *self.options, "-p", str(port)))

    def run(self, user, command, *options, input=None, ok=(0,)):
        return host.run("ssh", *options, *self.options, "-p", self.port, f"{user}@127.0.0.1",
                        command, input=input, ok=ok)


@pytest.fixture(name="ssh")
def fixture_ssh(image, work):
    host.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{work}/key")
    with debian_root.serving(image, 22, f"{work}/log", "sh", "-c", SSHD,
                             options=("--bind", f"{work}/key.pub:/key.pub")) as server:
        ssh = Ssh(server.port, work)
        server.wait_for(lambda _: ssh.run("root", "true", ok=None).returncode == 0)
        yield ssh
        assert server.end() == 0, server.printed()


@pytest.mark.needs("ssh", "ssh-keygen")
def test_ssh_commands(ssh):
    """Users, exit codes, signals, streams apart, and an input of megabytes."""
    assert ssh.run("ann", "id -un; pwd").stdout == "ann\n/home/ann\n"
    assert ssh.run("root", "echo out; echo err >&2; exit 7", ok=(7,)).stderr == "err\n"
    # OpenSSH's client returns 255 for an end by a signal.
    ssh.run("ann", "kill -9 $$", ok=(255,))
    lines = "".join(f"{i}\n" for i in range(500000))
    assert ssh.run("root", "cat", input=lines).stdout == lines
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        said = pool.map(lambda i: ssh.run("ann", f"echo {i}").stdout, range(40))
        assert list(said) == [f"{i}\n" for i in range(40)]


@pytest.mark.needs("ssh", "ssh-keygen")
def test_ssh_terminal(ssh):
    said = ssh.run("ann", "test -t 0 && tty; stty size; exit 5", "-tt", ok=(5,)).stdout
    assert "/dev/pts/" in said and "0 0" in said, said


ROUNDS_AT_TERMINAL = 40


def interrupt(terminal, number):
    """Ctrl-C ends a program. Text that follows at once, or later, arrives: Linux drops only what
    was typed before.

    The program says that it runs. Before it is in the foreground, Ctrl-C is the shell's, and does
    not end it, also at the terminal of any other sshd.
    """
    terminal.type(b"bash -c 'echo u\"\"p; exec sleep 1000'\r")
    terminal.expect(b"up\r\n")
    terminal.type(b"\x03")
    if number % 2:
        terminal.expect(b"^C")
        terminal.expect(b"ready> ")
    terminal.type(b"echo typed $((%d + 1)) $?\r" % number)
    terminal.expect(b"typed %d %d\r\n" % (number + 1, 128 + signal.SIGINT))
    terminal.expect(b"ready> ")


@pytest.mark.needs("ssh", "ssh-keygen")
def test_ssh_job_control(ssh):
    shell = "env PS1='ready> ' bash --norc --noediting -i"
    words = ("ssh", "-tt", *ssh.options, "-p", str(ssh.port), "ann@127.0.0.1", shell)
    with Terminal(*words) as terminal:
        terminal.expect(b"ready> ")
        terminal.type(b"stty size\r")
        terminal.expect(b"%d %d\r\n" % SIZE)
        terminal.expect(b"ready> ")
        for number in range(ROUNDS_AT_TERMINAL):
            interrupt(terminal, number)
        terminal.type(b"cat\r")
        terminal.type(b"one\r")
        terminal.expect(b"one\r\none\r\n")
        terminal.type(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.type(b"fg\r")
        terminal.expect(b"fg\r\ncat\r\n")
        terminal.type(b"two\r")
        terminal.expect(b"two\r\ntwo\r\n")
        terminal.type(b"\x04")
        terminal.expect(b"ready> ")
        terminal.set_size(20, 70)
        terminal.type(b"until [ \"$(stty size)\" = '20 70' ]; do sleep 0.05; done; echo fi''ts\r")
        terminal.expect(b"fits\r\n")
        terminal.type(b"exit 5\r")
        assert terminal.running.wait(60) == 5


@pytest.mark.needs("ssh", "ssh-keygen", "scp", "rsync")
def test_ssh_copies_trees(ssh, work):
    tree = f"{work}/tree"
    # scp knows no symbolic links.
    host.run("cp", "-a", "-L", "/usr/share/perl", tree)
    host.run("scp", "-q", "-r", "-p", *ssh.options, "-P", ssh.port, tree, "root@127.0.0.1:/srv/scp")
    host.run("rsync", "-a", "-H", "-X", "-e", ssh.shell, f"{tree}/", "root@127.0.0.1:/srv/rsync/")
    for name in ("scp", "rsync"):
        back = f"{work}/{name}"
        host.run("rsync", "-a", "-e", ssh.shell, f"root@127.0.0.1:/srv/{name}/", f"{back}/")
        host.run("diff", "-r", "--no-dereference", tree, back)
    changed = host.run("rsync", "-a", "-n", "-i", "--checksum", "--delete", "-e", ssh.shell,
                       f"{tree}/", "root@127.0.0.1:/srv/rsync/").stdout
    assert changed == ""


# ---- PostgreSQL ----

BIN = "/usr/lib/postgresql/15/bin"
DATA = "/var/lib/postgresql/tested"
CONNECT = "-h /tmp -U postgres postgres"
INITIALIZE = f"""set -e
{BIN}/initdb -D {DATA} --data-checksums -A trust
{BIN}/pg_ctl -D {DATA} -o '-k /tmp' -w -l /tmp/log start
{BIN}/pgbench -i -s 2 {CONNECT}
psql -c 'CREATE TABLE done(i int PRIMARY KEY)' {CONNECT}
{BIN}/pg_ctl -D {DATA} -w stop
"""
# Beside the server pgbench works, and a client prints the number of each row once it is committed.
WORK = f"""
(
    until {BIN}/pg_isready -q -h /tmp; do sleep 0.1; done
    {BIN}/pgbench -n -c 4 -j 2 -T 100000 {CONNECT} >/dev/null 2>&1 &
    first=$(psql -At -c 'SELECT coalesce(max(i), 0) FROM done' {CONNECT})
    for ((i = first + 1; ; i++)); do
        echo "INSERT INTO done VALUES($i) RETURNING 'row ' || i;"
        sleep 0.01
    done | psql -At -q {CONNECT}
) 2>/dev/null &
exec {BIN}/postgres -D {DATA} -k /tmp 2>/dev/null
"""
# Each transaction of pgbench adds the same number to all four.
SUMS = """SELECT count(DISTINCT s) FROM (SELECT sum(abalance) s FROM pgbench_accounts
UNION ALL SELECT sum(bbalance) FROM pgbench_branches
UNION ALL SELECT sum(tbalance) FROM pgbench_tellers
UNION ALL SELECT coalesce(sum(delta), 0) FROM pgbench_history) t"""
CHECK = f"""set -e
{BIN}/pg_ctl -D {DATA} -o '-k /tmp' -w -t 300 -l /tmp/log start >&2
psql -At -c 'SELECT max(i), count(*) FROM done' -c "{SUMS}" \
    -c 'SELECT count(*) > 0 FROM pgbench_history' {CONNECT}
psql -q -c 'REINDEX DATABASE postgres' -c 'VACUUM FULL' {CONNECT}
{BIN}/pg_ctl -D {DATA} -w stop >&2
{BIN}/pg_checksums -c -D {DATA} >&2
cat /tmp/log >&2
"""
ROUNDS = 4


def postgres(image, overlay, script):
    return debian_root.words(image, "bash", "-c", script,
                             options=("--overlay", overlay, "--user", "postgres"))


def committed(words, rows):
    """Kills a command after its server has committed some rows. Returns the number of the last one.
    """
    last = 0
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as process:
        for line in process.stdout:
            last = int(line.removeprefix("row "))
            rows -= 1
            if not rows:
                process.kill()
        code = process.wait(60)
    assert code == -signal.SIGKILL, f"the server ended by itself with {code}"
    return last


@pytest.mark.needs("qemu-img")
def test_postgresql(image, work):
    """Rows whose commit a client has seen outlive the killed command, and pgbench's sums agree."""
    choose = random.Random(37)
    overlay = f"{work}/postgresql.qcow2"
    host.run(*postgres(image, overlay, INITIALIZE), timeout=1200)
    for _ in range(ROUNDS):
        last = committed(postgres(image, overlay, WORK), choose.randrange(20, 200))
        host.run("qemu-img", "check", "-r", "all", overlay, ok=(0, 2, 3))
        done = host.run(*postgres(image, overlay, CHECK), timeout=1200)
        highest, count = map(int, done.stdout.split("\n")[0].split("|"))
        assert highest >= last and highest == count, done
        assert done.stdout.split("\n")[1:3] == ["1", "t"], done
        assert "database system was not properly shut down" in done.stderr, done
