# SPDX-License-Identifier: GPL-2.0-only
"""The default memory of a kernel in cgroups with limits. The host's files are those of a test: a
process in a mount namespace of its own has other contents of /proc/self/cgroup and mountinfo.
"""

import os

import pytest

from support.host import require_user_namespaces
from test_capi import LIBRARIES, library_program, run

MB = 1 << 20
SCRIPT = """
mount --bind "$1/cgroup" /proc/$$/cgroup
mount --bind "$1/mountinfo" /proc/$$/mountinfo
shift
exec "$@"
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    require_user_namespaces()
    return library_program(str(tmp_path_factory.mktemp("program")), "memory_limit_test.c",
                           "client.c")


class Host:
    """Files of cgroups, and what /proc says of them."""

    def __init__(self, directory):
        self.directory = directory
        self.cgroups, self.mounts = [], []

    def mount(self, kind, root="/", name="the cgroups", options="rw"):
        """A mounted hierarchy."""
        point = os.path.join(self.directory, name)
        os.makedirs(point)
        shown = point.replace(" ", "\\040")
        self.mounts.append(f"32 31 0:29 {root} {shown} rw,relatime shared:4 - {kind} {kind} "
                           f"{options}\n")
        return point

    def output(self, program):
        for name, lines in (("cgroup", self.cgroups), ("mountinfo", self.mounts)):
            with open(os.path.join(self.directory, name), "w", encoding="ascii") as stream:
                stream.write("".join(lines))
        return run("unshare", "--map-root-user", "--mount", "sh", "-ec", SCRIPT, "sh",
                   self.directory, program, LD_LIBRARY_PATH=LIBRARIES)


@pytest.fixture
def faked(work):
    return Host(work)


def cgroup(directory, **numbers):
    """Writes the files of a cgroup: `max` and so on for memory.max."""
    os.makedirs(directory, exist_ok=True)
    for name, number in numbers.items():
        with open(os.path.join(directory, f"memory.{name}"), "w", encoding="ascii") as stream:
            stream.write(f"{number}\n")


def default_memory(host, program):
    return int(host.output(program).splitlines()[0])


@pytest.mark.parametrize("files, wanted", [
    ({"max": 300 * MB, "high": "max"}, 128 * MB),
    ({"max": "max", "high": 200 * MB}, 96 * MB),
    ({"max": 300 * MB, "current": 200 * MB}, 48 * MB),
    ({"max": 300 * MB, "current": 200 * MB,
      "stat": f"anon 1\nfile {160 * MB}\nactive_file {60 * MB}\ninactive_file {80 * MB}\n"
              f"workingset_activate_file {MB}"}, 112 * MB),
    ({"max": 30 * MB, "current": 29 * MB}, 16 * MB),
    ({"max": 0}, 16 * MB),
])
def test_one_limit(faked, program, files, wanted):
    cgroup(os.path.join(faked.mount("cgroup2"), "unit"), **files)
    faked.cgroups.append("0::/unit\n")
    assert default_memory(faked, program) == wanted


def test_limits_of_all_ancestors(faked, program):
    root = faked.mount("cgroup2")
    cgroup(f"{root}/slice", max=900 * MB, current=100 * MB)
    cgroup(f"{root}/slice/pod", max=500 * MB, high=260 * MB, current=60 * MB)
    cgroup(f"{root}/slice/pod/unit", max="max", current=10 * MB)
    faked.cgroups.append("0::/slice/pod/unit\n")
    assert default_memory(faked, program) == 96 * MB


@pytest.mark.parametrize("root, path, place", [
    ("/", "/", ""),  # a namespace of its own
    ("/docker/1f", "/docker/1f", ""),  # the namespace of the host, and a part of the hierarchy
    ("/docker/1f", "/docker/1f/unit", ""),
    ("/docker/1f", "/docker/1f/unit", "unit"),
    ("/docker/1f", "/docker/1f5", ""),  # not below
    ("/", "/../other", ""),  # outside of the namespace
])
def test_a_part_of_the_hierarchy(faked, program, root, path, place):
    point = faked.mount("cgroup2", root)
    cgroup(os.path.join(point, "unit"), max="max")
    cgroup(os.path.join(point, place), max=300 * MB)
    faked.cgroups.append(f"0::{path}\n")
    assert default_memory(faked, program) == 128 * MB


def test_version_1_beside_version_2(faked, program):
    cgroup(os.path.join(faked.mount("cgroup2", name="unified"), "unit"), max=800 * MB)
    root = faked.mount("cgroup", name="memory", options="rw,cpu,memory")
    cgroup(f"{root}/a", limit_in_bytes=300 * MB, usage_in_bytes=120 * MB,
           stat=f"total_active_file {10 * MB}\ntotal_inactive_file {10 * MB}")
    cgroup(f"{root}/a/b", limit_in_bytes=(1 << 63) - 4096, usage_in_bytes=MB)
    cgroup(os.path.join(faked.mount("cgroup", name="freezer", options="rw,freezer"), "a"),
           limit_in_bytes=MB)
    faked.cgroups += ["5:freezer:/a\n", "4:cpu,memory:/a/b\n", "0::/unit\n"]
    assert default_memory(faked, program) == 96 * MB


def test_no_limit(faked, program):
    cgroup(faked.mount("cgroup2"), max="max")
    faked.cgroups.append("0::/\n")
    without = default_memory(faked, program)
    # A quarter of the host's.
    assert without == max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4, 64 * MB)
    assert "cgroups" not in faked.output(program)
    faked.cgroups[:] = ["no line of this kind", "\n", "0::\n", "::\n"]
    assert default_memory(faked, program) == without


def test_the_log_says_so(faked, program):
    cgroup(os.path.join(faked.mount("cgroup2"), "unit"), max=300 * MB)
    faked.cgroups.append("0::/unit\n")
    assert ("outboard: memory: 128 MB (half of what memory limits of cgroups leave)"
            in faked.output(program))
