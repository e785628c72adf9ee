# SPDX-License-Identifier: GPL-2.0-only
"""Linux's own programs of tools/testing/selftests, unmodified, inside of `outboard run`: all that
pass on the host pass inside, but for those of `KNOWN`. They are compiled here, beside the sources.
"""

import os
import re
import shutil
import subprocess

import pytest

from support import host, images, program, programs

SOURCE = os.path.join(program.OUT, "source", "linux")
# What they are made of, besides the headers for programs.
PARTS = ("tools/testing/selftests", "tools/include", "tools/scripts", "tools/arch/x86",
         "mm/gup_test.h")
TARGETS = "cgroup clone3 exec futex mm pidfd ptrace rseq seccomp sigaltstack timers x86"
# Some are not made: they want headers that are none of programs, 32-bit code or liburing.
LEAST_MADE = 120
TOOLS = ("basename", "busybox", "cat", "chmod", "dirname", "echo", "grep", "ip", "ls", "mkdir",
         "mount", "rm", "sleep", "timeout", "true")
# glibc loads it when a thread ends.
UNWINDER = "/lib/x86_64-linux-gnu/libgcc_s.so.1"
# Seconds until a program is killed, on the host as inside.
PATIENCE = 240
# Some give an operation 10 milliseconds, which is short on a busy machine.
TRIES = 4

# Programs with their arguments. Left out are those that change the host (its time, its huge pages),
# those that run for more than a minute or never print a result, and test_vsyscall: the host's page
# of vsyscalls answers, but no map shows it.
PROGRAMS = {
    "clone3": ("clone3", "clone3_cap_checkpoint_restore", "clone3_clear_sighand",
               "clone3_set_tid"),
    "exec": ("execveat", "load_address.0x1000", "load_address.0x200000", "load_address.0x1000000",
             "load_address.static.0x1000", "load_address.static.0x200000",
             "load_address.static.0x1000000", "non-regular", "null-argv", "recursion-depth"),
    "futex/functional": ("futex_requeue", "futex_requeue_pi", "futex_requeue_pi -b",
                         "futex_requeue_pi -b -l", "futex_requeue_pi -b -l -o",
                         "futex_requeue_pi_mismatched_ops", "futex_requeue_pi_signal_restart",
                         "futex_wait", "futex_wait_private_mapped_file", "futex_wait_timeout",
                         "futex_wait_uninitialized_heap", "futex_wait_wouldblock", "futex_waitv"),
    "mm": ("cow", "droppable", "ksm_functional_tests", "madv_populate",
           "map_fixed_noreplace", "map_populate", "mdwe_test", "memfd_secret", "migration",
           "mkdirty", "mlock-random-test", "mlock2-tests", "mrelease_test", "mremap_dontunmap",
           "mremap_test", "mseal_test", "on-fault-limit", "pagemap_ioctl", "seal_elf",
           "protection_keys_64", "uffd-unit-tests"),
    "pidfd": ("pidfd_fdinfo_test", "pidfd_getfd_test", "pidfd_open_test", "pidfd_poll_test",
              "pidfd_setns_test", "pidfd_test", "pidfd_wait"),
    "ptrace": ("get_set_sud", "get_syscall_info", "peeksiginfo", "vmaccess"),
    "rseq": ("basic_test", "param_test -T s -r 1000 -t 4", "param_test -T b -r 1000 -t 4",
             "param_test_compare_twice -T s -r 1000 -t 4", "param_test_mm_cid -T s -r 1000 -t 4"),
    "seccomp": ("seccomp_bpf",),
    "sigaltstack": ("sas",),
    "timers": ("inconsistency-check -t 3", "nanosleep", "threadtest -n 8 -t 3"),
    "x86": ("check_initial_reg_state_64", "corrupt_xstate_header_64", "fsgsbase_64",
            "fsgsbase_restore_64", "ioperm_64", "iopl_64", "nx_stack_64", "sigaltstack_64",
            "sigtrap_loop_64", "single_step_syscall_64", "syscall_arg_fault_64", "syscall_nt_64",
            "sysret_rip_64", "sysret_ss_attrs_64", "test_mremap_vdso_64"),
}
ALL = [f"{directory}/{words}" for directory, names in PROGRAMS.items() for words in names]

# The exit code, or the number of cases.
EXIT, PLAN = "exit code", "plan"
# Programs with what they have otherwise, and why. One that has it not is a failure, too.
KNOWN = {
    "clone3/clone3": ({18}, "no time namespaces (CONFIG_TIME_NS)"),
    "mm/cow": ({PLAN}, "no huge pages of anonymous memory: fewer cases"),
    "mm/ksm_functional_tests": ({PLAN, EXIT}, "no KSM"),
    "mm/madv_populate": ({PLAN, EXIT}, "it looks for PAGEMAP_SCAN by a pointer to nothing, which "
                                       "the kernel finds wrong only when it has a result"),
    "mm/memfd_secret": ({PLAN, EXIT}, "no CONFIG_SECRETMEM"),
    "mm/mkdirty": ({PLAN}, "no huge pages of anonymous memory, no userfaultfd"),
    "mm/pagemap_ioctl": ({PLAN}, "no userfaultfd"),
    "mm/uffd-unit-tests": ({EXIT}, "no userfaultfd"),
    "ptrace/get_set_sud": ({1, EXIT}, "no PR_SET_SYSCALL_USER_DISPATCH"),
    "seccomp/seccomp_bpf": ({36, 98, 99}, "no CONFIG_CHECKPOINT_RESTORE"),
    "x86/fsgsbase_64": ({EXIT}, "a debugger cannot change segment registers"),
    "x86/fsgsbase_restore_64": ({EXIT}, "no 32-bit system calls, by which it makes a segment"),
    "x86/sysret_rip_64": ({EXIT}, "the addresses of programs end before the last ones below 2^47"),
}

# Programs that are not compared with the host, and how many cases each has. The host's groups may
# be of version 1. Timers of Linux 6.13 and newer do more than those of 6.12.
ALONE = {"cgroup/test_core": 12, "cgroup/test_cpu": 8, "cgroup/test_freezer": 10,
         "cgroup/test_kill": 3, "cgroup/test_kmem": 6, "cgroup/test_memcontrol": 14,
         "cgroup/test_pids": 2, "timers/posix_timers": 18}
# Of these, the cases that never pass, and why. "The guest" is Debian's Linux of the same version in
# QEMU, with two processors.
NOT_PASSING = {
    "cgroup/test_cpu": {
        4: "skipped: fewer than four processors, also in the guest",
        6: "skipped: fewer than four processors, also in the guest",
    },
    "cgroup/test_kmem": {
        4: "it wants a page of kernel stack for each thread; Linux counts 1 KB for one here, since "
           "the stack itself is memory of the host. In the guest it passes",
        6: "it allows for 64 pages of other memory for each processor; 1000 groups have more on "
           "two processors, also in the guest",
    },
    "cgroup/test_memcontrol": {
        4: "it expects no event of memory.low in the child without protection, which the mount "
           "option memory_recursiveprot gives one, also in the guest with that option",
        10: "skipped: no swap, also in the guest",
    },
    # They test what Linux 6.13 changed in signals of timers that are ignored, changed or deleted.
    "timers/posix_timers": {
        7: "6.12 loses the count of overruns when the signal becomes ignored, also in the guest",
        9: "6.12 keeps the pending signal when a timer is changed, also in the guest",
        10: "6.12 keeps the pending signal when a timer is deleted, also in the guest",
    },
}
# Cases that pass or fail by chance, and why.
BY_CHANCE = {
    "cgroup/test_cpu": dict.fromkeys(
        (7, 8),
        "a group may have 1 ms in each period of 100 ms, and used more than 2.5 % in the first "
        "second. Linux stops it at a tick, of 10 ms here (4 ms in the guest). Time counts in which "
        "the host runs others in the vCPU's place. Both are paid back: on a busy host too, such a "
        "group has used 1 ms for each period at its end"),
    "cgroup/test_memcontrol": {
        3: "three processes read one file by one position at the same time. Chance decides which "
           "group has which share of it. The guest fails it sometimes",
        11: "it reads the group's memory of sockets once, right after the connection has ended. "
            "Linux adds such numbers up when 64 pages for each processor have changed, else every "
            "two seconds. After a connection with less memory it reads the sum before the end; "
            "reading cpu.stat, which adds all up, makes it 0. The guest fails it, too",
    },
}


class Suite:
    """The programs, and an image with them below /selftests."""

    def __init__(self, directory):
        self.directory = os.path.join(directory, "kselftest")
        self.tree = os.path.join(directory, "root")
        self.make(directory)
        self.image = self.make_image(os.path.join(directory, "root.img"))

    def make(self, directory):
        headers, sources = (os.path.join(directory, name) for name in ("headers", "linux"))
        host.run("make", "-s", "-C", SOURCE, f"O={headers}", "headers_install",
                 timeout=3000)
        for part in PARTS:
            host.run("cp", "-r", "--parents", part, sources_of(sources), cwd=SOURCE)
        host.run("make", "-k", f"-j{os.cpu_count()}", f"TARGETS={TARGETS}", f"O={directory}",
                 f"KHDR_INCLUDES=-isystem {headers}/usr/include", ok=None, timeout=3000,
                 cwd=os.path.join(sources, "tools/testing/selftests"))

    def made(self):
        paths = (os.path.join(place, name) for place, _, names in os.walk(self.directory)
                 for name in names)
        return [path for path in paths if os.access(path, os.X_OK)]

    def make_image(self, path):
        os.makedirs(os.path.join(self.tree, "usr", "bin"))
        os.symlink("usr/bin", os.path.join(self.tree, "bin"))
        programs.make_root(self.tree, *TOOLS)
        programs.copy_in(self.tree, UNWINDER)
        libraries = {file for made in self.made() for file in programs.files_of(made)[1:]}
        for file in libraries:
            if os.path.exists(file) and not file.startswith(self.directory):
                programs.copy_in(self.tree, file)
        shutil.copytree(self.directory, os.path.join(self.tree, "selftests"), symlinks=True)
        return images.make_ext4_of(path, self.tree, 600)

    def native(self, name):
        directory, words = os.path.split(name)
        words = f"cd {self.directory}/{directory} && exec timeout -s KILL {PATIENCE} ./{words}"
        done = subprocess.run(["bash", "-c", words], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=600, check=False)
        return Outcome(done.returncode, done.stdout.decode(errors="replace"))

    def inside(self, name, vcpus=2):
        directory, words = os.path.split(name)
        words = (f"ip link set lo up; echo 4096 > /proc/sys/kernel/pid_max;"
                 f" cd /selftests/{directory} && exec timeout -s KILL {PATIENCE} ./{words}")
        done = program.run("run", "--memory", "3G", self.image, "--", "bash", "-c", words,
                           vcpus=vcpus, timeout=600)
        return Outcome(done.code, done.out + done.err)


def sources_of(path):
    os.makedirs(path, exist_ok=True)
    return path


class Outcome:
    """The exit code, and the results of cases by their numbers. Nested cases do not count."""

    LINE = re.compile(r"(?:^|\.\.)(ok|not ok) (\d+)(.*)$", re.MULTILINE)

    def __init__(self, code, text):
        self.code, self.text = code, text
        self.cases = {int(number): "skipped" if "# SKIP" in rest or "# XFAIL" in rest else result
                      for result, number, rest in self.LINE.findall(text)}

    def worse_than(self, native):
        """Numbers of cases that pass there only, `EXIT` and `PLAN`."""
        if set(self.cases) != set(native.cases):
            worse = {PLAN}
        else:
            worse = {number for number, result in native.cases.items()
                     if result == "ok" and self.cases[number] != "ok"}
        return worse | ({EXIT} if self.code not in (0, native.code) else set())


@pytest.fixture(scope="module", name="suite")
def fixture_suite(tmp_path_factory):
    for header in ("sys/capability.h", "numa.h"):
        if not os.path.exists(f"/usr/include/{header}"):
            pytest.skip(f"the header {header} is not installed")
    return Suite(str(tmp_path_factory.mktemp("selftests")))


pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def test_they_are_made(suite):
    assert len(suite.made()) >= LEAST_MADE


@pytest.mark.parametrize("name", ALL)
def test_as_on_the_host(suite, name):
    for _ in range(TRIES):
        native, inside = suite.native(name), suite.inside(name)
        worse = inside.worse_than(native)
        if worse == KNOWN.get(name, (set(),))[0]:
            return
    pytest.fail(f"{sorted(worse, key=str)}, ended with {inside.code}\n{inside.text[-3000:]}")


@pytest.mark.kernel_reports("the kernel's log has Linux's report on memory")
@pytest.mark.parametrize("name", ALONE)
def test_alone(suite, name):
    known, chance = (set(cases.get(name, ())) for cases in (NOT_PASSING, BY_CHANCE))
    for _ in range(TRIES):
        inside = suite.inside(name)
        other = {number for number, result in inside.cases.items() if result != "ok"} - chance
        if other == known and set(inside.cases) == set(range(1, ALONE[name] + 1)):
            return
    pytest.fail(f"{sorted(other)}, ended with {inside.code}\n{inside.text[-3000:]}")
