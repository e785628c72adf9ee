# SPDX-License-Identifier: GPL-2.0-only
"""stress-ng as programs of the kernel: every stressor for a second, which verifies its results. The
kernel reports nothing.
"""

import re
import subprocess

import pytest

from support import host, real_root

PACKAGE = "stress-ng"

# In this order, each stressor belongs to its first class. All are in "os" or in one before.
CLASSES = ("cpu", "cpu-cache", "memory", "vm", "scheduler", "interrupt", "filesystem", "io", "pipe",
           "network", "device", "security", "os")

# stress-ng itself keeps these off machines that somebody needs.
HARMFUL = "stress-ng asks for --pathological"
# Stressors that cannot run, with the reason. One that can is a failure, too.
NOT_RUN = {
    "bind-mount": HARMFUL, "mlockmany": HARMFUL, "oom-pipe": HARMFUL, "smi": HARMFUL,
    "sysinval": HARMFUL, "watchdog": HARMFUL,
    "binderfs": "no binder file system (Android)",
    "efivar": "no EFI firmware",
    "l1cache": "no sizes of caches in sysfs: the host's are not the kernel's to describe",
    "llc-affinity": "no sizes of caches in sysfs",
    "netlink-proc": "no connector of process events (CONFIG_PROC_EVENTS)",
    "netlink-task": "no taskstats (CONFIG_TASKSTATS)",
    "numa": "one memory node",
    "pci": "no PCI device",
    "rawdev": "the root is an overlay, which lies on no block device",
    "swap": "the overlay's files can be no swap space",
    "tmpfs": "stress-ng looks for a tmpfs among mounts on paths that it knows",
    "uprobe": "no uprobes",
}

SCRIPT = r"""
not_run=$1
shift
ip link set lo up
cd /tmp
for stressor; do
	# A second is short on one busy vCPU, which threads with SCHED_FIFO may keep for themselves.
	times="1 10"
	# On a busy host the second can be over before a stressor has seen that it cannot run.
	[[ $not_run == *" $stressor "* ]] && times=10
	for seconds in $times; do
		timeout -s KILL 120 stress-ng --$stressor 2 -t $seconds --verify --oomable \
			>/tmp/output 2>&1
		code=$?
		[ $code = 0 ] && break
	done
	echo "$stressor: $code"
	[ $code = 0 ] || cat /tmp/output >&2
	rm -rf /tmp/tmp-stress*
done
"""


def stressors(class_name):
    """The names that stress-ng lists, or none without the package."""
    if not host.have("stress-ng"):
        return []
    done = subprocess.run(["stress-ng", "--class", f"{class_name}?"], capture_output=True,
                          text=True, check=False)
    return re.search(r"stressors: (.*)", done.stdout + done.stderr)[1].split()


def by_class():
    found, seen = {}, set()
    for name in CLASSES:
        found[name] = [one for one in stressors(name) if one not in seen]
        seen.update(found[name])
    return found


@pytest.fixture(scope="module", name="root")
def fixture_root(tmp_path_factory):
    return real_root.make(str(tmp_path_factory.mktemp("stress")), PACKAGE)


@pytest.fixture(scope="module", name="stressors_of")
def fixture_stressors_of():
    return by_class()


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("vcpus", (1, 2, 4))
@pytest.mark.parametrize("class_name", CLASSES)
def test_class(root, stressors_of, class_name, vcpus):
    names = stressors_of[class_name]
    not_run = f" {' '.join(NOT_RUN)} "
    done = real_root.run(root, SCRIPT, not_run, *names, vcpus=vcpus, timeout=7000)
    codes = {name: int(code) for name, code in re.findall(r"^(\S+): (\d+)$", done.out, re.M)}
    assert set(codes) == set(names), done
    wrong = {name: code for name, code in codes.items() if (code == 0) == (name in NOT_RUN)}
    assert not wrong, f"{wrong}\n{done.err[-6000:]}"
