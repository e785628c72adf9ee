# SPDX-License-Identifier: GPL-2.0-only
"""gdb and the script lib/outboard-gdb.py: a live process, a core dump of a panic, the program, what
'make install' installs.

gdb runs in batch mode. Each test compares the output of a command with the output
of the program under test.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from support import c_programs, host, images, program

HERE = os.path.join(program.REPOSITORY, "tests", "kernel", "gdb")
CAPI = os.path.join(program.REPOSITORY, "tests", "library")
LIBRARIES = c_programs.LIBRARIES
KERNEL_BUILD = os.path.join(program.OUT, "kernel", "full")
SCRIPT = os.path.join(LIBRARIES, "outboard-gdb.py")

pytestmark = [
    pytest.mark.needs("gdb"),
    pytest.mark.kernel_reports("the kernel that gdb looks at has a BUG()")
]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """The program of target.c."""
    return c_programs.build(str(tmp_path_factory.mktemp("gdb") / "target"),
                            os.path.join(HERE, "target.c"), os.path.join(CAPI, "client.c"))


@pytest.fixture(scope="module")
def component(tmp_path_factory):
    """The module of hold.c, with debug information."""
    directory = str(tmp_path_factory.mktemp("component"))
    for name in ("Kbuild", "hold.c"):
        shutil.copy(os.path.join(HERE, name), directory)
    host.run("make", "-C", os.path.join(program.OUT, "source", "linux"), f"O={KERNEL_BUILD}",
             "ARCH=outboard", f"M={directory}", "KCFLAGS=-g", "modules", MAKEFLAGS="", MAKELEVEL="")
    return os.path.join(directory, "hold.ko")


class Live:
    """A process that has said that it is ready."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.threads = {}  # host's number by name
        for line in self.process.stdout:
            if line == "ready\n":
                return
            name, number = line.split()
            self.threads[name] = int(number)
        raise AssertionError(f"{command} ended with {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def gdb(*arguments, script=SCRIPT, commands=(), timeout=120):
    """The output of gdb, which must not contain a Python back-trace."""
    words = [
        "gdb", "-q", "-nx", "-batch", "-iex", "set auto-load no", "-ex", "set width 0", "-ex",
        "set pagination off"
    ]
    if script:
        words += ["-ex", f"source {script}"]
    for command in commands:
        words += ["-ex", f"echo ==== {command}\\n", "-ex", command]
    done = subprocess.run([*words, *arguments], env=host.environment(DEBUGINFOD_URLS=""),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout,
                          check=False)
    said = done.stdout
    for text in ("Traceback", "Python Exception", "Error occurred in Python"):
        assert text not in said, said
    return said


def outputs(said: str) -> list:
    """The output of each command, in order."""
    return re.split(r"^==== .*\n", said, flags=re.M)[1:]


def table(text: str, first: str) -> list:
    """Rows of a table by the names of its columns. Columns are two spaces apart."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(first))
    starts = [match.start() for match in re.finditer(r"\S+", lines[start])]
    names = lines[start].split()
    rows = []
    for line in lines[start + 1:]:
        if line.strip():
            rows.append({
                name: line[begin:end].strip()
                for name, begin, end in zip(names, starts, [*starts[1:], None])
            })
    return rows


def by_name(rows: list) -> dict:
    return {row["NAME"]: row for row in rows}


def check_clients(tasks: dict, threads: dict, leader_has_left: bool) -> None:
    """Tasks that wait, and that are out, have the host threads that they say they have."""
    for name, states in (("pipe-reader", {"sleeping"}), ("futex-waiter", {"sleeping"}),
                         ("gone-out", {"evicted", "parked"})):
        assert tasks[name]["STATE"] in states, tasks[name]
        assert f"(LWP {threads[name]})" in tasks[name]["HOST"], tasks[name]
    assert len({
        tasks[name]["TGID"]
        for name in ("pipe-reader", "futex-waiter", "gone-out", "main-thread")
    }) == 1
    if leader_has_left:
        assert tasks["main-thread"]["STATE"] in {"evicted", "parked"}
    assert f"(LWP {threads['main-thread']})" in tasks["main-thread"]["HOST"]
    assert tasks["kthreadd"]["HOST"] == "coroutine"
    assert tasks["kthreadd"]["PID"] == "2"


def check_log(text: str) -> None:
    lines = text.splitlines()
    assert any(re.match(r"\[ +\d+\.\d{6}\] Linux version 6\.12\.", line) for line in lines), text
    assert any(line.endswith("] gdb_target: a line of ours") for line in lines), text


def functions(backtrace: str) -> list:
    return re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([\w.]+) \(", backtrace, flags=re.M)


def in_order(wanted, got) -> bool:
    rest = iter(got)
    return all(name in rest for name in wanted)


def test_live_process(target, component):
    with Live(target, component, "how=") as live:
        attached = ("-p", str(live.process.pid))
        tasks_text, vcpus_text, log, modules_text = outputs(
            gdb(*attached, commands=("outboard-tasks", "outboard-vcpus", "outboard-dmesg",
                                     "outboard-modules")))
        tasks = by_name(table(tasks_text, "PID"))
        check_clients(tasks, live.threads, leader_has_left=True)
        assert tasks["hold-asleep"]["STATE"] == "sleeping" and tasks["hold-asleep"][
            "HOST"] == "coroutine"
        assert tasks["hold-looping"]["STATE"] == "running" and tasks["hold-looping"]["VCPU"] == "1"
        assert re.fullmatch(r"coroutine, on thread \d+ \(LWP \d+\)", tasks["hold-looping"]["HOST"])

        vcpus = table(vcpus_text, "VCPU")
        assert [row["VCPU"] for row in vcpus] == ["0", "1"]
        assert vcpus[1]["STATE"] == "held"
        assert vcpus[1]["TASK"] == f"{tasks['hold-looping']['PID']} hold-looping"
        carrier = tasks["hold-looping"]["HOST"].removeprefix("coroutine, on ")
        assert vcpus[1]["HOST"] == f"{carrier}, carrier"
        if vcpus[0]["STATE"] == "free":
            assert vcpus[0]["TASK"] == "0 swapper/0"

        check_log(log)
        modules = by_name(table(modules_text, "NAME"))
        assert modules["hold"]["STATE"] == "live" and int(modules["hold"]["SIZE"]) >= 4096

        wanted = {
            "pipe-reader": ("pipe_read", "ob_kernel_syscall", "read_empty_pipe"),
            "futex-waiter": ("schedule", "futex_wait", "ob_kernel_syscall", "wait_for_futex"),
            "gone-out": ("stay_in_host_code", "leave_the_kernel"),
            "hold-asleep": ("__switch_to", "schedule", "sleep_for_good", "hold_asleep", "kthread",
                            "ob_coroutine_main"),
            "hold-looping": ("hold_looping", "kthread", "ob_coroutine_main"),
            "kthreadd": ("schedule", "kthreadd"),
        }
        pids = [tasks[name]["PID"] for name in wanted]
        commands = [f"outboard-backtrace {pid}" for pid in [*pids, "pipe-reader"]]
        commands += ["outboard-tasks", "outboard-backtrace all"]
        *shown, named, tasks_text, everything = outputs(gdb(*attached, commands=commands))
        assert named == shown[0]
        for name, text in zip(wanted, shown):
            assert f" {name}: " in text
            assert in_order(wanted[name], functions(text)), text
            assert text.strip() in everything or name == "hold-looping"
        assert everything.count("\nTask ") == len(tasks_text.splitlines()) - 2, "each task once"

        _, text = outputs(
            gdb(
                *attached, commands=(f"outboard-symbols {component}",
                                     f"outboard-backtrace {tasks['hold-looping']['PID']}")))
        assert re.search(r"hold_looping \(.*hold\.c:\d+", text), text


def test_vcpus_that_have_not_started(work):
    """Right after a boot most of 64 vCPUs are offline. They have their numbers all the same."""
    source, path = f"{work}/boot.c", f"{work}/boot"
    with open(source, "w", encoding="ascii") as stream:
        stream.write("""
#include <outboard/outboard.h>

int main(void)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 64, .log_level = OB_LOG_DEFAULT,
	};

	return ob_boot(&config) || ob_halt();
}
""")
    c_programs.build(path, source)
    *_, text = outputs(gdb(path, commands=("break ob_halt", "run", "outboard-vcpus")))
    rows = table(text, "VCPU")
    assert [row["VCPU"] for row in rows] == [str(number) for number in range(64)]


def backtraces(text: str) -> dict:
    """The back-trace of each task in the output of 'outboard-backtrace all', by its name."""
    parts = re.split(r"^Task \d+ (.+?): ", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def check_panic(said: str, threads: dict) -> None:
    """Checks the output of PANIC_COMMANDS after a BUG() in the module, in a core or in the process
    that gdb has stopped.
    """
    tasks_text, vcpus_text, log, backtrace, everything = outputs(said)
    tasks = by_name(table(tasks_text, "PID"))
    check_clients(tasks, threads, leader_has_left=False)
    assert tasks["main-thread"]["STATE"] == "running"
    held = [row for row in table(vcpus_text, "VCPU") if row["STATE"] == "held"]
    mine = [row for row in held if row["TASK"] == f"{tasks['main-thread']['PID']} main-thread"]
    assert len(mine) == 1 and mine[0]["HOST"] == tasks["main-thread"]["HOST"] + ", client"
    check_log(log)
    assert in_order(("ob_host_panic", "panic", "hold_bug", "do_one_initcall", "load_module",
                     "ob_kernel_syscall", "main"), functions(backtrace)), backtrace
    shown = backtraces(everything)
    for task, wanted in (("pipe-reader", "pipe_read"), ("futex-waiter", "futex_wait"),
                         ("gone-out", "stay_in_host_code"), ("kthreadd", "kthreadd"),
                         ("main-thread", "hold_bug")):
        assert wanted in functions(shown[task]), everything


PANIC_COMMANDS = ("outboard-tasks", "outboard-vcpus", "outboard-dmesg", "backtrace",
                  "outboard-backtrace all")


def threads_named(said: str) -> dict:
    """The lines in which target.c says who is who. gdb may begin a line of its own before one."""
    return {
        name: int(number)
        for name, number in re.findall(r"(main-thread|pipe-reader|futex-waiter|gone-out) (\d+)$",
                                       said, flags=re.M)
    }


def core_file(directory: str):
    """The one core in the directory, when it is complete."""
    names = [name for name in os.listdir(directory) if name.startswith("core")]
    return os.path.join(directory, names[0]) if names else None


def core_of(directory: str, *command) -> tuple:
    """The core of a program that panics, and what the program has printed."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as stream:
        pattern = stream.read().strip()
    if "/" in pattern or not pattern.startswith("core"):
        pytest.skip(f"the host's core_pattern is {pattern!r}: "
                    "its cores are not written where the program is")
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("the host forbids core dumps (ulimit -H -c)")

    def allow_cores():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)

    done = subprocess.run(command, cwd=directory, preexec_fn=allow_cores, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGABRT and "outboard: kernel panic: BUG!" in done.stderr
    core = core_file(directory)
    assert core, "no core was written"
    assert os.path.getsize(core) < 200 << 20, "memory that was never used is in it"
    return core, done.stdout


def test_core_of_the_host(target, component, work):
    """A panic ends by abort(): the host itself writes the core."""
    core, said = core_of(work, target, component, "how=bug")
    check_panic(gdb(target, core, commands=PANIC_COMMANDS), threads_named(said))


def test_core_with_several_instances(target, component, work):
    core, _ = core_of(work, target, "two", component, "how=bug")
    check_panic_of_the_second(gdb(target, core, commands=SEVERAL_COMMANDS))


def test_panic_under_gdb(target, component):
    """The program runs under gdb, which stops at the panic and at nothing else."""
    said = gdb("--args", target, component, "how=bug", commands=("run", *PANIC_COMMANDS))
    stop, rest = said.split("==== ", 2)[1:]
    assert "received signal SIGABRT" in stop and "SIGSEGV" not in stop and "Catchpoint" not in stop
    check_panic("==== " + rest, threads_named(stop))


def select(lwp: int) -> str:
    return ("python next(t for t in gdb.selected_inferior().threads() "
            f"if t.ptid[1] == {lwp}).switch()")


def test_several_instances(target):
    """The setting chooses one; without it the selected thread's, or else the first."""
    with Live(target, "two") as live:
        attached = ("-p", str(live.process.pid))
        listed, = outputs(gdb(*attached, commands=("outboard-instances",)))
        rows = instance_rows(listed)
        assert [(row["STATE"], row["VCPUS"]) for row in rows] == [("running", "2"),
                                                                  ("running", "1")]
        assert rows[0]["MARK"] == "*" and not rows[1]["MARK"] and rows[0]["TEXT"] != rows[1]["TEXT"]
        first, second = (row["INSTANCE"] for row in rows)
        said = outputs(gdb(*attached, commands=(
            "outboard-tasks", f"set outboard-instance {second}", "outboard-instances",
            "outboard-tasks", "outboard-vcpus", "outboard-backtrace second-reader",
            "outboard-backtrace kthreadd", "outboard-backtrace pipe-reader", "outboard-dmesg",
            f"set outboard-instance {first}", "outboard-backtrace pipe-reader", "outboard-dmesg",
            "show outboard-instance", "set outboard-instance 12345", "outboard-tasks",
            "set outboard-instance 0", select(live.threads["second-reader"]), "outboard-tasks",
            select(live.threads["main-thread"]), "outboard-tasks")))
    assert said[0].startswith(f"Instance {first}:\n")
    check_clients(by_name(table(said[0], "PID")), live.threads, leader_has_left=True)
    assert [row["MARK"] for row in instance_rows(said[2])] == ["", "*"]
    tasks = by_name(table(said[3], "PID"))
    reader = tasks["second-reader"]
    assert reader["STATE"] == "sleeping"
    assert f"(LWP {live.threads['second-reader']})" in reader["HOST"]
    assert "pipe-reader" not in tasks
    assert len(table(said[4], "VCPU")) == 1
    assert in_order(("pipe_read", "read_second_pipe"), functions(said[5])), said[5]
    assert in_order(("schedule", "kthreadd", "ob_coroutine_main"), functions(said[6])), said[6]
    assert "there is no task pipe-reader" in said[7]
    assert "a line of the second" in said[8] and "a line of ours" not in said[8]
    assert in_order(("pipe_read", "ob_kernel_syscall", "read_empty_pipe"),
                    functions(said[10])), said[10]
    assert "a line of ours" in said[11] and "a line of the second" not in said[11]
    assert f"look at instance {first}." in said[12]
    assert "there is no instance 12345: see outboard-instances" in said[14]
    assert "second-reader" in said[17] and "pipe-reader" in said[19]


def instance_rows(text: str) -> list:
    """Rows of outboard-instances; the first column has no name."""
    lines = [line for line in text.splitlines() if re.match(r"[ *]  +[\dI]", line)]
    names = ["MARK", *lines[0].split()]
    return [dict(zip(names, [line[0].strip(), *line[1:].split()])) for line in lines[1:]]


SEVERAL_COMMANDS = ("outboard-instances", "outboard-tasks", "outboard-backtrace second-reader",
                    "set outboard-instance 1", "outboard-tasks", "outboard-backtrace pipe-reader")


def check_panic_of_the_second(said: str) -> None:
    """Without a choice, commands look at the kernel that has panicked."""
    listed, tasks, second, _, others, first = outputs(said)
    states = [(row["MARK"], row["STATE"]) for row in instance_rows(listed)]
    assert states == [("", "running"), ("*", "panicked")]
    assert "second-reader" in by_name(table(tasks, "PID"))
    assert "pipe-reader" in by_name(table(others, "PID"))
    assert in_order(("pipe_read", "read_second_pipe"), functions(second)), second
    assert in_order(("pipe_read", "ob_kernel_syscall", "read_empty_pipe"), functions(first)), first


def test_faults(target):
    """Those that the library handles do not stop the program; one of its own does."""
    said = gdb("--args", target, "fault", commands=("run", "backtrace", "outboard-vcpus"))
    run, backtrace, vcpus = outputs(said)
    assert run.count("Catchpoint 1") == 1, said
    assert functions(backtrace)[:2] == ["fault_of_our_own", "main"], said
    assert len(table(vcpus, "VCPU")) >= 2


@pytest.fixture
def image(work):
    """A file system with a file that is larger than a pipe takes."""
    tree = os.path.join(work, "tree")
    os.mkdir(tree)
    images.write_noise(os.path.join(tree, "big"), 4)
    return images.make_ext4_of(os.path.join(work, "image"), tree)


def check_program(path: str, script: str, image: str) -> None:
    """`outboard cat` that waits for its reader."""
    with subprocess.Popen([path, "cat", f"{image}:/big"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.read(1)
            time.sleep(0.5)
            attached = gdb(
                "-p", str(process.pid), script=script,
                commands=("outboard-tasks", "outboard-vcpus", "outboard-dmesg", "outboard-modules",
                          "outboard-backtrace 2"))
        finally:
            process.kill()
    tasks, vcpus, log, modules, backtrace = outputs(attached)
    assert f"(LWP {process.pid})" in tasks
    assert by_name(table(tasks, "PID"))["kthreadd"]["PID"] == "2"
    assert table(vcpus, "VCPU")
    assert "Linux version" in log
    assert "NAME" in modules
    assert in_order(("schedule", "kthreadd", "ob_coroutine_main"), functions(backtrace)), backtrace


def test_program(image):
    check_program(program.PROGRAM, SCRIPT, image)


def test_installed(work, image):
    prefix = os.path.join(work, "prefix")
    host.run("make", "-C", program.REPOSITORY, "install", f"PREFIX={prefix}", "DESTDIR=",
             MAKEFLAGS="", MAKELEVEL="")
    check_program(os.path.join(prefix, "bin", "outboard"),
                  os.path.join(prefix, "lib", "outboard-gdb.py"), image)
    found = os.path.realpath(os.path.join(prefix, "lib", "liboutboard.so.0-gdb.py"))
    assert found == os.path.join(prefix, "lib", "outboard-gdb.py")


COMMANDS = ("outboard-tasks", "outboard-backtrace 1", "outboard-vcpus", "outboard-dmesg",
            "outboard-modules", "outboard-symbols x.ko")


def test_says_what_is_missing(target, work):
    for text in outputs(gdb(target, commands=COMMANDS)):
        assert "there is no process" in text
    for text in outputs(gdb("/bin/sleep", commands=("starti", *COMMANDS))[1:])[1:]:
        assert "no kernel of Outboard here" in text
    for text in outputs(gdb(target, commands=("break main", "run", *COMMANDS)))[2:]:
        assert "no kernel has been booted" in text

    alone = os.path.join(work, "outboard-gdb.py")
    shutil.copy(SCRIPT, alone)
    shutil.copytree(os.path.join(LIBRARIES, "outboard_gdb"), os.path.join(work, "outboard_gdb"))
    with Live(target) as live:
        for text in outputs(gdb("-p", str(live.process.pid), script=alone, commands=COMMANDS)):
            assert "outboard-types.o is missing" in text
        wrong = ("outboard-backtrace", "outboard-backtrace 1 2", "outboard-tasks 1",
                 "outboard-backtrace 99999", "outboard-backtrace x", "outboard-symbols",
                 "outboard-symbols /nowhere/hold.ko")
        reasons = ("PID, NAME, ADDRESS", "PID, NAME, ADDRESS", "takes no argument",
                   "there is no task 99999", "there is no task", "outboard-symbols FILE.ko",
                   "hold is not loaded")
        for text, reason in zip(outputs(gdb("-p", str(live.process.pid), commands=wrong)), reasons):
            assert reason in text


@pytest.mark.parametrize(
    "damage,command,reason",
    [
        # The second task's links, the descriptors of the log, a vCPU's state, the number of vCPUs,
        # the list of modules.
        ("set *(long *)(((struct task_struct *)&init_task)->tasks.next) = 0x10", "outboard-tasks",
         "the list of tasks: an entry at 0x10 cannot be read"),
        ("set *(long *)(((struct task_struct *)&init_task)->tasks.next) = 0x10",
         "outboard-backtrace all", "an entry at 0x10 cannot be read"),
        ("set (*(struct printk_ringbuffer **)&prb)->desc_ring.descs = 0x20", "outboard-dmesg",
         "struct prb_desc at 0x"),
        ("set *(long *)&prb = 0", "outboard-dmesg",
         "struct printk_ringbuffer at 0x0 cannot be read"),
        ("set ((struct ob_vcpu *)&ob_vcpus)->state = 0x101", "outboard-vcpus", "parked"),
        ("set ((struct ob_machine *)&ob_machine)->vcpus = 12345", "outboard-vcpus",
         "the number of vCPUs reads 12345"),
        ("set *(long *)&modules = 0x30", "outboard-modules",
         "the list of modules: an entry at 0x30 cannot be read"),
        ("set ((struct task_struct *)&init_task)->comm[0] = 0", "outboard-tasks",
         "of another build than the kernel"),
    ])
def test_broken_memory(target, damage, command, reason):
    """Commands show the data that can still be read, and name the rest."""
    with Live(target) as live:
        said = gdb("-p", str(live.process.pid), commands=(damage, command))
        assert "cannot" not in outputs(said)[0], "the damage itself failed"
        assert reason in outputs(said)[1], said
        if command == "outboard-tasks" and "tasks.next" in damage:
            assert "pipe-reader" in outputs(said)[1], "found by its host thread"
