# SPDX-License-Identifier: GPL-2.0-only
"""Invariants V1 to V15 of the design: each has a test that fails when it is broken
(docs/invariants.md has the table).

Most are C programs of this directory; where something must happen inside the kernel, they load a
component of components/, built here with the kernel's own build directory. Tests of
tests/library are not repeated.
"""

import os
import shutil
import signal
import subprocess

import pytest

from library import test_capi as capi
from support import c_programs, host, images

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL_SOURCE = os.path.join(capi.OUT, "source", "linux")
KERNEL_BUILD = os.path.join(capi.OUT, "kernel", "full")
NOMMU = os.path.join(capi.LIBRARIES, "base-nommu")
MAPPINGS_LIMIT = "/proc/sys/vm/max_map_count"
PANIC = "outboard: kernel panic: "


def build(directory: str, name: str, *more: str) -> str:
    sources = [os.path.join(HERE, f"{source}.c") for source in (name, *more)]
    return capi.library_program(directory, *sources, os.path.join(capi.HERE, "client.c"))


def start(program: str, *arguments, timeout=120, wrapper=()) -> subprocess.CompletedProcess:
    """Runs a program however it may end."""
    environment = {**os.environ, "LD_LIBRARY_PATH": capi.LIBRARIES}
    environment.pop("OUTBOARD_LOG", None)
    return subprocess.run([*wrapper, program, *map(str, arguments)], env=environment,
                          capture_output=True, text=True, errors="replace", timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)


def good(program: str, *arguments, **options) -> str:
    done = start(program, *arguments, **options)
    assert done.returncode == 0, (f"{os.path.basename(program)} ended with {done.returncode}\n"
                                  f"{done.stdout}{done.stderr}")
    return done.stdout


def copy_of(image: str) -> str:
    copy = f"{image}.copy"
    host.copy_sparse(image, copy)
    return copy


@pytest.mark.parametrize("vcpus", [1, 2, 8])
def test_v1_binding(work, vcpus):
    good(build(work, "binding_test"), vcpus)


@pytest.mark.parametrize("vcpus", [1, 2, 4, 64])
def test_v2_v3_v4_handover(work, vcpus):
    good(build(work, "handover_test"), vcpus)


def in_gdb(program: str, script: str) -> str:
    command = ("env", "DEBUGINFOD_URLS=", "gdb", "-q", "-nx", "-batch", "-iex", "set auto-load no",
               "-x", os.path.join(HERE, script))
    done = start(program, wrapper=command, timeout=300)
    return done.stdout + done.stderr


@pytest.mark.needs("gdb")
def test_v2_thread_that_ends_has_no_vcpu(work):
    """Where it waits for others after it has given its vCPU away, it does nothing in the vCPU's
    name.
    """
    said = in_gdb(build(work, "exit_test"), "exit_wait.py")
    assert "vcpu: 0x0\n" in said and "waits: True\n" in said and "exited normally" in said, said


@pytest.mark.needs("gdb")
def test_v5_calls_from_handlers_run_with_interrupts_on(work):
    said = in_gdb(build(work, "nested_call_test"), "nested_call.py")
    assert "interrupts off: 0\n" in said and "exited normally" in said, said


def test_v4_leaving_looks_at_nothing_of_the_task(work):
    good(build(work, "leave_test"), "call", timeout=300)


def test_v4_interrupting_looks_at_no_task_that_is_gone(work):
    good(build(work, "leave_test"), "interrupt", timeout=300)


@pytest.mark.needs("strace")
def test_v4_no_host_call(work):
    """The calling thread asks the host for nothing. Evictions do, and a busy host has many: the
    quietest of some runs counts.
    """
    program, least = build(work, "null_call_test"), []
    for _ in range(5):
        made = host_calls(work, program)
        if len(made) < 100:
            return
        least = min(least or made, made, key=len)
    pytest.fail(f"{len(least)} host calls:\n{''.join(least[:20])}")


def host_calls(work, program) -> list:
    """The lines of strace about the host calls that a thread makes during 100,000 null calls."""
    trace = os.path.join(work, "trace")
    done = start(program, 100_000, wrapper=("strace", "-f", "-o", trace))
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("this host does not let strace trace")
    assert done.returncode == 0, done.stderr
    with open(trace, encoding="utf-8", errors="replace") as stream:
        lines = stream.readlines()
    begin, end = (next(i for i, line in enumerate(lines) if f"calls {word}" in line)
                  for word in ("begin", "end"))
    thread = lines[begin].split()[0]
    # Lines that begin with --- are signals: the ones that interrupt a vCPU.
    return [
        line for line in lines[begin + 1:end]
        if line.split()[0] == thread and line.split()[1] != "---"
    ]


def test_v7_slow_disk(work):
    image = images.make(os.path.join(work, "disk.img"), "ext4")
    good(build(work, "slow_disk_test", "model_disk"), image)


def test_v8_eviction(work):
    good(build(work, "eviction_test"))


@pytest.mark.parametrize("watches", ["lent", "waits"])
@pytest.mark.parametrize("held_up", ["handler", "stopped"])
@pytest.mark.parametrize("vcpus", [1, 2])
def test_v15_thread_that_does_not_come(work, vcpus, held_up, watches):
    good(build(work, "late_thread_test"), vcpus, held_up, watches, timeout=300)


def is_clean(image: str, kind: str) -> bool:
    """Whether nothing of a journal needs to be replayed."""
    if kind == "ext4":
        return "needs_recovery" not in host.run("dumpe2fs", "-h", image).stdout
    return "<CLEAN>" in host.run("xfs_logprint", "-t", image).stdout


def check(image: str, kind: str) -> None:
    if kind == "ext4":
        host.run("e2fsck", "-f", "-n", image)
    else:
        host.run("xfs_repair", "-n", "-f", image)


@pytest.mark.needs("dumpe2fs", "xfs_logprint")
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_v9_exit_work(work, kind):
    """An unmounted file system is clean although nobody halted the kernel. One that stayed mounted
    is not, so the check sees the difference.
    """
    program = build(work, "exit_work_test")
    for end, clean in ("unmount", True), ("stay", False):
        image = images.make(os.path.join(work, f"{end}.img"), kind)
        good(program, image, kind, end)
        assert is_clean(image, kind) == clean
        if clean:
            check(image, kind)


@pytest.mark.parametrize("state", ["parked", "evicted", "calls", "watched"])
@pytest.mark.parametrize("vcpus", [1, 2])
def test_v9_client_that_polls(work, vcpus, state):
    good(build(work, "completion_test"), vcpus, state, timeout=300)


class Mended:
    """Reads a file of an image in a fresh process, which replays the journal first."""

    def __init__(self, directory: str):
        self.program = build(directory, "read_test")

    def read(self, image: str, kind: str, path: str) -> str:
        text = good(self.program, image, kind, path)
        check(image, kind)
        return text


@pytest.fixture
def mended(work):
    return Mended(work)


WAYS = ["fsync", "fdatasync", "syncfs", "sync", "umount", "O_SYNC"]


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_v11_durable(work, mended, kind):
    """The process is killed as soon as the call returned, and what the disk has not been told to
    flush is lost.
    """
    program = build(work, "durable_test", "model_disk")
    image = images.make(os.path.join(work, "disk.img"), kind)
    for way in WAYS + WAYS:
        stable = copy_of(image)
        done = start(program, image, stable, kind, way)
        assert done.returncode == -signal.SIGKILL, done.stderr
        lines = 21 if way == "O_SYNC" else 1000
        assert mended.read(stable, kind, f"by-{way}") == "".join(f"{way} {i}\n"
                                                                 for i in range(lines))
        os.replace(stable, image)


def test_v11_power_cut_is_one(work, mended):
    """The same without any flush: the file is lost, so the test above can fail."""
    program = build(work, "durable_test", "model_disk")
    image = images.make(os.path.join(work, "disk.img"), "ext4")
    stable = copy_of(image)
    assert start(program, image, stable, "ext4", "nothing").returncode == -signal.SIGKILL
    assert mended.read(stable, "ext4", "by-nothing") == ""


def test_v12_client_window(work):
    image = images.make(os.path.join(work, "disk.img"), "ext4")
    good(build(work, "window_test"), image)
    host.run("e2fsck", "-f", "-y", image, ok=(0, 1))
    text = host.run("debugfs", "-R", "cat /by-mapping", image, text=False).stdout
    assert text.startswith(b"round 4 of msync\0")
    assert text[4096:].startswith(b"second page, round 4\0")


def test_v12_more_mappings_than_the_host_has(work):
    with open(MAPPINGS_LIMIT, encoding="ascii") as stream:
        limit = int(stream.read())
    if limit > 90_000:
        pytest.skip(
            f"the host allows {limit} mappings: the kernel's memory does not suffice to pass that")
    good(build(work, "many_mappings_test"), limit + 5000)


@pytest.mark.long
def test_v12_without_mmu(work):
    if not os.path.exists(os.path.join(NOMMU, "liboutboard.so")):
        pytest.skip("the library without an MMU is not built here: make test-long PARTS=base-nommu")
    program = c_programs.build(os.path.join(work, "boot"), os.path.join(capi.HERE, "boot.c"),
                               library=NOMMU)
    assert "booted" in capi.run(program, timeout=60)


@pytest.mark.parametrize("ceiling,size,end", [(1024, 512, "fits"), (64, 256, "full")])
def test_v13_memory(work, ceiling, size, end):
    good(build(work, "growth_test"), ceiling, size, end)


@pytest.fixture(scope="session")
def components(tmp_path_factory):
    """The modules of components/, built in a directory of their own."""
    exports = os.path.join(KERNEL_BUILD, "Module.symvers")
    assert os.path.exists(exports), f"no kernel that takes components in {KERNEL_BUILD}"
    directory = str(tmp_path_factory.mktemp("components"))
    shutil.copytree(os.path.join(HERE, "components"), directory, dirs_exist_ok=True)
    host.run("make", "-C", KERNEL_SOURCE, f"O={KERNEL_BUILD}", "ARCH=outboard", f"M={directory}",
             "modules", MAKEFLAGS="", MAKELEVEL="")
    return directory


@pytest.fixture
def component_program(work, components):
    program = build(work, "component_test")

    def command(name, parameters, vcpus, *more):
        return program, os.path.join(components, f"{name}.ko"), parameters, vcpus, *more

    return command


@pytest.mark.parametrize("vcpus", [1, 2, 4, 64])
def test_v2_v3_alone_on_a_vcpu(component_program, vcpus):
    """Kernel code that does not sleep keeps its vCPU, task and per-CPU data to itself, whatever
    goes on around it.
    """
    entries = ["any:exclusive:60", "any:exclusive-kthread:20"] * 8
    lines = good(*component_program("exclusive", "", vcpus, *entries)).splitlines()
    assert len(lines) == len(entries)
    assert all(line.endswith(": 0 mistakes") for line in lines), lines


@pytest.mark.parametrize("entry", ["spin-jiffies", "spin-kthread"])
@pytest.mark.parametrize("vcpus", [1, 2])
def test_v6_ticks_reach_a_loop(component_program, vcpus, entry):
    output = good(*component_program("spin", "", vcpus, f"0:{entry}:1"), timeout=30)
    assert output == f"{entry}: three ticks came\n"


def test_v5_v6_calls_reach_a_loop(component_program):
    """An interrupt between vCPUs runs on its target, in the middle of what loops there, and not on
    its sender.
    """
    output = good(*component_program("spin", "", 2, "1:spin-called:1", "0:spin-call:1"), timeout=30)
    assert "spin-called: on vCPU 1, in an interrupt 1, of the spinner 1\n" in output
    assert "spin-call: error 0, from vCPU 0\n" in output


def test_v5_interrupts_wait_until_enabled(component_program):
    """None while they are off, though the signal comes; at once when they are on again."""
    output = good(*component_program("spin", "", 1, "0:spin-masked:1"), timeout=30)
    assert output == "spin-masked: 0 while off, 1 when on, 0 ticks\n"


def test_large_folios(component_program, work):
    """The page cache of xfs has pieces larger than a page: asm/pgtable_huge.h."""
    image = images.make(os.path.join(work, "xfs.img"), "xfs")
    good(*component_program("folio", "path=/disk/large", 2, "on", image, "xfs"))


DEATHS = {
    "read": ("die_by_read", "bad memory access"),
    "write": ("die_by_write", "bad memory access"),
    "copy": ("__memcpy", "bad memory access"),
    "jump": ("die_by_jump", "bad memory access"),
    "panic": ("die_by_panic", "the component asked for it"),
    "bug": ("die_by_bug", "BUG"),
    "kthread": ("die_by_read", "bad memory access"),
}


@pytest.mark.kernel_reports("the component's own mistakes")
@pytest.mark.parametrize("how", DEATHS)
def test_v10_panic(work, component_program, how):
    """The end says what and where, and the image is as after a power cut."""
    image = images.make(os.path.join(work, "disk.img"), "ext4")
    done = start(*component_program("die", f"how={how}", 2, "--", image), timeout=60)
    function, what = DEATHS[how]
    assert done.returncode == -signal.SIGABRT, done.stderr
    assert PANIC in done.stderr and what in done.stderr and function in done.stderr
    assert not is_clean(image, "ext4")
    host.run("e2fsck", "-f", "-y", image, ok=(0, 1))
    check(image, "ext4")
    assert host.run("debugfs", "-R", "cat /durable", image).stdout == "written before the end\n"


@pytest.mark.kernel_reports("the component's own mistake")
def test_v1_guard_page(component_program):
    """A kernel thread that uses more than its stack ends the process there and then. Without a
    guard it would come back.
    """
    done = start(*component_program("die", "how=overflow", 2), timeout=60)
    assert done.returncode in (-signal.SIGABRT,
                               -signal.SIGSEGV), f"ended with {done.returncode}: {done.stderr}"


@pytest.mark.kernel_reports("the component's own mistake")
def test_v10_contained_panic(work, components):
    """Of two kernels one panics, and the other goes on."""
    sources = [os.path.join(capi.HERE, name) for name in ("instance_test.c", "client.c")]
    good(capi.library_program(work, *sources), "panic", os.path.join(components, "die.ko"))
