# SPDX-License-Identifier: GPL-2.0-only
"""tests/sweep.py removes what a killed run of the tests has left."""

import os
import stat
import subprocess
import sys
import tempfile

import pytest

from support import host, mounts, net_namespaces
from support.patience import wait_until

TESTS = os.path.dirname(os.path.abspath(__file__))

# Stands for a pytest with an out/ of its own. It prints numbers and names of what it has made.
RUN = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from support import host, kernel_log, net_namespaces, program, running
running.begin()
kernel_log.begin(None)
work = f"{program.OUT}/test-tmp/t1"
os.makedirs(f"{work}/closed", 0o755)
os.chmod(f"{work}/closed", 0)
server = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(server.pid, host.temporary_directory())
if host.IS_ROOT:
    loop = host.loop_device(host.sparse_file(f"{work}/disk", 1 << 20))
    mount = host.mounted("mount", "-t", "tmpfs", "none")
    namespace = net_namespaces.new("swept")
    print(loop.__enter__(), mount.__enter__(), namespace.__enter__().name)
sys.stdout.flush()
time.sleep(1000)
"""


@pytest.fixture
def swept(work):
    """Runs the sweep for an out/ of its own, and returns what it prints."""
    variables = {**os.environ, "OUTBOARD_OUT": f"{work}/out"}
    del variables["OUTBOARD_LOG_FILE"]

    def sweep():
        return subprocess.run([f"{TESTS}/sweep.py"], env=variables, check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    return sweep


def is_alive(pid: str) -> bool:
    return "Z" not in (host.run("ps", "-o", "stat=", "-p", pid, ok=(0, 1)).stdout or "Z")


@pytest.mark.needs("ps")
def test_what_a_killed_run_leaves(work, swept):
    with subprocess.Popen([sys.executable, "-c", RUN, TESTS], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OUTBOARD_OUT": f"{work}/out"}) as killed:
        server, temporary = killed.stdout.readline().split()
        if host.IS_ROOT:
            loop, mount, namespace = killed.stdout.readline().split()
        assert "nothing is swept" in swept() and is_alive(server)
        killed.kill()
    said = swept()
    assert f"process {server}" in said and f"{temporary}\n" in said, said
    wait_until(lambda: not is_alive(server), "the server has ended")
    assert not os.path.exists(temporary) and os.listdir(f"{work}/out/test-tmp") == []
    if host.IS_ROOT:
        assert not host.mounts_below(mount) and not os.path.exists(mount)
        assert f"{work}/out/test-tmp/t1/disk" not in host.loop_devices().values(), loop
        assert not os.path.exists(f"/run/netns/{namespace}")
    assert swept() == ""


def test_what_belongs_to_others_stays(work, swept):
    """Also a process of a run that goes on, in another namespace where out/ has the same name."""
    log = f"{work}/out/test-results/kernel-warnings-{os.getpid()}/0.log"
    server = subprocess.Popen(["sleep", "1000"], env={**os.environ, "OUTBOARD_LOG_FILE": log})
    mine = host.temporary_directory()
    foreign = tempfile.mkdtemp(prefix=f"{host.TEMPORARY}of-somebody-")
    try:
        swept()
        assert swept() == ""
        assert os.path.isdir(mine) and os.path.isdir(foreign) and is_alive(str(server.pid))
    finally:
        server.kill()
        server.wait()
        os.rmdir(mine)
        os.rmdir(foreign)


@pytest.mark.needs_root
@pytest.mark.needs("ip")
def test_namespaces_of_this_run_stay(swept):
    with net_namespaces.new("kept") as namespace:
        swept()
        assert namespace.ip("link")


def test_the_mode_of_a_device_is_restored(work):
    """As mounts.fuse_for_all keeps it for /dev/fuse."""
    device = host.sparse_file(f"{work}/device", 0)
    os.chmod(device, 0o666)
    with open(f"{work}/mode", "w+", encoding="ascii") as kept:
        assert mounts.restore_mode(kept, device) == ""
        assert stat.S_IMODE(os.stat(device).st_mode) == 0o666
        kept.write("600")
        assert mounts.restore_mode(kept, device) == "600"
        assert mounts.restore_mode(kept, device) == ""
    assert stat.S_IMODE(os.stat(device).st_mode) == 0o600
