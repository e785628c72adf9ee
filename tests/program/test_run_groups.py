# SPDX-License-Identifier: GPL-2.0-only
"""Control groups of `outboard run`: programs limit, stop and end groups of programs as on any
Linux. All that is here passes on the host, too, but for the warnings.
"""

import os
import re

import pytest

from support import images, program, programs

# Each function works on the group "box".
FUNCTIONS = """
cd /sys/fs/cgroup
echo "+memory +cpu +pids" > cgroup.subtree_control
mkdir box
set_up() { echo "$2" > box/$1; }
inside() { sh -c 'echo 0 > box/cgroup.procs; exec "$@"' sh "$@"; }
counted() { sed -n "s/^$2 //p" box/$1; }
wait_for() { until [ "$(counted cgroup.events $1)" = $2 ]; do sleep 0.05; done; }
until_counted() { until [ "$(counted $1 $2)" -gt 0 ]; do sleep 0.05; done; }
"""
REPORTS = pytest.mark.kernel_reports("the kernel's log has Linux's report on memory")


@pytest.fixture(scope="module", name="image")
def fixture_image(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("groups"))
    tree = os.path.join(directory, "root")
    programs.make_root(tree, "cat", "dd", "grep", "mkdir", "sed", "sleep", "sort", "sync")
    with open(os.path.join(tree, "file"), "wb") as stream:
        stream.write(bytes(40 << 20))
    return images.make_ext4_of(os.path.join(directory, "root.img"), tree)


def script(image, text):
    return program.run("run", image, "--", "bash", "-c", FUNCTIONS + text)


def outcome(image, text):
    """The output of a script that succeeds. The kernel has killed nobody for memory."""
    done = script(image, text)
    assert done.code == 0 and "outboard:" not in done.err, done
    return done.out.splitlines()


@REPORTS
def test_a_group_that_wants_more_memory(image):
    """The kernel takes what the group may have from the host, and no more, however often."""
    done = script(image, """
        set_up memory.max 16M
        inside sleep 1000 & sleep 1000 &
        for i in 1 2 3; do
            inside dd if=/dev/zero of=/dev/null bs=400M count=1; echo status $?
            size=$(grep spanned /proc/zoneinfo)
            [ "$size" = "$before" ] && echo as large; before=$size
        done
        counted memory.events oom_kill
        kill %1 && kill %2 && echo others live
    """)
    assert done.code == 0 and done.out.endswith("status 137\nas large\n3\nothers live\n"), done
    told = re.findall(r"^outboard: warning: (\S+) \(process \d+\) was killed: (.*)$", done.err,
                      re.MULTILINE)
    assert told == [("dd", "memory.max of /box is 16384 KB")] * 3, done


@REPORTS
def test_a_group_that_ends_as_one(image):
    done = script(image, """
        set_up memory.max 16M; set_up memory.oom.group 1
        inside sleep 1000 & other=$!; wait_for populated 1
        inside dd if=/dev/zero of=/dev/null bs=90M count=1; echo status $?
        wait $other; echo status $?
    """)
    assert (done.code, done.out) == (0, "status 137\nstatus 137\n"), done
    told = re.findall(r"^outboard: warning: (\S+) \(process \d+\) was killed: memory.max of /box "
                      r"is 16384 KB$", done.err, re.MULTILINE)
    assert sorted(told) == ["dd", "sleep"], done


def test_files_in_memory_are_the_groups(image):
    """What a group has read makes room for what it reads."""
    held, most, kills = outcome(image, """
        set_up memory.max 16M
        inside cat /file | { while read -r -N 1000000 _; do :; done; }
        counted memory.stat file; cat box/memory.peak; counted memory.events oom_kill
    """)
    assert 1 << 20 < int(held) <= int(most) <= 16 << 20 and kills == "0"


def test_most_programs_of_a_group(image):
    assert outcome(image, """
        set_up pids.max 2
        inside bash -c ': & : & : &' 2> /dev/null
        [ $(counted pids.events max) -gt 0 ] && echo refused
    """) == ["refused"]


def test_a_share_of_the_processor(image):
    """A tenth of each period, though a tick may end it late."""
    assert outcome(image, """
        set_up cpu.max "10000 100000"
        inside bash -c 'while :; do :; done' &
        until [ "$(counted cpu.stat nr_throttled)" -ge 10 ]; do sleep 0.05; done
        used=$(counted cpu.stat usage_usec); periods=$(counted cpu.stat nr_periods)
        [ $used -lt $((periods * 30000)) ] && echo limited
        set_up cgroup.kill 1; wait_for populated 0
    """) == ["limited"]


def test_stopped_means_stopped(image):
    assert outcome(image, """
        inside bash -c 'while :; do :; done' & until_counted cpu.stat usage_usec
        set_up cgroup.freeze 1; wait_for frozen 1
        before=$(counted cpu.stat usage_usec); sleep 0.3
        [ $before = $(counted cpu.stat usage_usec) ] && echo stands
        set_up cgroup.freeze 0; wait_for frozen 0
        until [ $(counted cpu.stat usage_usec) -gt $before ]; do sleep 0.05; done; echo goes on
        set_up cgroup.kill 1; wait $!; echo $?; wait_for populated 0
    """) == ["stands", "goes on", "137"]
