# SPDX-License-Identifier: GPL-2.0-only
"""nginx and Redis of a Debian system, for clients on the host: behind a tap and by `-p` of
`outboard run`, beside the host by chroot and gVisor behind a veth pair, and UML behind a tap.
"""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator

import network
from contenders import OURS, Contender, Result, host, take_turns
from debian_system import SCRIPTS, System, system
from network import FAR, GUEST, NEAR
from programs import GVISOR, NATIVE, UML
from support.patience import wait_until

PUBLISHED = f"{OURS} -p"
VETH = "10.8.0.2"
# Where clients in the far network namespace reach nginx and Redis.
PLACES = {
    NATIVE: ((VETH, "80"), (VETH, "6379")),
    OURS: ((GUEST, "80"), (GUEST, "6379")),
    PUBLISHED: (("127.0.0.1", "8080"), ("127.0.0.1", "6379")),
    UML: ((GUEST, "80"), (GUEST, "6379")),
    GVISOR: ((VETH, "80"), (VETH, "6379")),
}
ROUNDS_MOST = 5
CONNECTIONS, SECONDS, FILE_BYTES, QUESTIONS = 32, 3, 4096, 30000
RATIO_LEAST = 0.4
CONFIGURATION = "/srv/nginx.conf"
PREPARE = f"""mkdir /srv/site
head -c {FILE_BYTES} /dev/zero >/srv/site/file
cat >{CONFIGURATION} <<'end'
daemon off;
worker_processes auto;
error_log /dev/null;
events {{}}
http {{
    access_log off;
    server {{
        listen 80;
        root /srv/site;
    }}
}}
end
"""
# Serves until a line comes, or the end of the input.
SERVE = f"""redis-server --save '' --protected-mode no --bind 0.0.0.0 >/dev/null &
nginx -c {CONFIGURATION} &
read -r || true
kill %1 %2
wait
"""
ON_TAP = f"""ip link set lo up
ip addr add {GUEST}/24 dev vec0
ip link set vec0 up
exec {SCRIPTS}/serve
"""
ASK = """exec 3<>"/dev/tcp/$1/$2"
printf "$3" >&3
read -t 5 -r line <&3
[[ $line = $4* ]]
"""


def command(made: System, who: str, root: str) -> list[str]:
    serve, far = f"{SCRIPTS}/serve", network.inside(FAR)
    if who == NATIVE:
        return [*network.inside(NEAR), *made.chroot(serve, root=root)]
    if who == OURS:
        tap = ("--no-sandbox", "--net", f"tap:tap0,ip={GUEST}/24")
        return [*far, *made.outboard(serve, options=tap)]
    if who == PUBLISHED:
        return [*far, *made.outboard(serve, options=("-p", "8080:80", "-p", "6379:6379"))]
    if who == UML:
        made.forget_changes()
        tap = ("con0=fd:0,fd:1", "vec0:transport=tap,ifname=tap0,depth=128,gro=1")
        return [*far, *made.uml(f"{SCRIPTS}/tap", options=tap)]
    return made.gvisor_bundle(serve, namespace=NEAR)


def answers(place: tuple[str, str], question: str, answer: str) -> bool:
    done = host.run(*network.inside(FAR), "bash", "-ec", ASK, "bash", *place, question, answer,
                    ok=None)
    return done.returncode == 0


@contextlib.contextmanager
def serving(made: System, who: str) -> Iterator[None]:
    """The servers, which answer. They end by a line on their input."""
    nginx, redis = PLACES[who]
    with network.namespaces(), made.native() as root, subprocess.Popen(
            command(made, who, root), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=host.environment()) as process:
        try:
            wait_until(lambda: answers(nginx, r"GET /file HTTP/1.0\r\n\r\n", "HTTP/1.1 200"),
                       f"nginx answers, {who}")
            wait_until(lambda: answers(redis, r"PING\r\n", "+PONG"), f"Redis answers, {who}")
            yield
        finally:
            process.communicate(b"\n", timeout=60)


def requests(place: tuple[str, str]) -> float:
    """Requests for a file per second. All must succeed."""
    text = host.run(*network.inside(FAR), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s",
                    f"http://{':'.join(place)}/file").stdout
    failed = re.search(r"(Socket errors|Non-2xx).*", text)
    if failed:
        raise host.ToolFailed(failed[0])
    return float(re.search(r"Requests/sec: *([\d.]+)", text)[1])


def questions(made: System, place: tuple[str, str]) -> float:
    """GET per second of a key that exists."""
    address, port = place
    text = host.run(*network.inside(FAR), *made.chroot(
        "redis-benchmark", "-h", address, "-p", port, "-t", "set,get", "-c", str(CONNECTIONS),
        "-n", str(QUESTIONS), "--csv")).stdout
    return float(re.search(r'"GET","([\d.]+)"', text)[1])


def rates(made: System, who: str) -> tuple[float, float]:
    nginx, redis = PLACES[who]
    with serving(made, who):
        return requests(nginx), questions(made, redis)


def judged(result: Result) -> Result:
    result.target = f"at least {RATIO_LEAST} of {NATIVE}, ahead of {GVISOR}"
    if OURS in result.samples and NATIVE in result.samples:
        result.ratio = result.pair(OURS, NATIVE)
        result.reached = result.ratio >= RATIO_LEAST and (
            GVISOR not in result.samples or result.median(OURS) > result.median(GVISOR))
    return result


def run_servers(rounds: int) -> list[Result]:
    """Servers in an image."""
    if os.geteuid() != 0:
        print("left out: run_servers: only root may make network namespaces")
        return []
    with system({"serve": SERVE, "tap": ON_TAP}, PREPARE) as made:
        turns = take_turns([Contender(who, lambda who=who: rates(made, who)) for who in PLACES],
                           min(rounds, ROUNDS_MOST))
    return [
        judged(turns.result(f"{what}, {CONNECTIONS} connections", "/s", "",
                            lambda measured, index=index: measured[index]))
        for index, what in enumerate(("nginx: requests for 4 KB", "Redis: GET"))
    ]
