# SPDX-License-Identifier: GPL-2.0-only
"""
Commands of gdb for a program that has Outboard's kernel in it, live or as a core dump. Load with

    (gdb) source outboard-gdb.py        'help outboard' lists what there is then

docs/debugging.md explains them. The package outboard_gdb, beside this file, reads the kernel; here
is what the user types and sees. Lists show what was found before something that cannot be read.
"""

import contextlib
import os
import sys

import gdb

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

# noqa: E402: these need the path above.
from outboard_gdb.components import SYMBOL_FILES, Module, modules  # noqa: E402
from outboard_gdb.instances import Instance, choose, chosen, instances  # noqa: E402
from outboard_gdb.log import log_lines  # noqa: E402
from outboard_gdb.memory import TYPES, Problem, Record, hexadecimal, location  # noqa: E402
from outboard_gdb.tasks import Task, Vcpu, World, selection_kept  # noqa: E402


def print_table(rows: list) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def guarded(function, otherwise="?"):
    """What the function says, or `otherwise` where memory is broken."""
    try:
        return str(function())
    except Problem:
        return otherwise


# Back-traces

def print_saved(addresses: list) -> None:
    for i, address in enumerate(addresses):
        print(f"#{i:<2} 0x{address:016x} in {location(address)}")


def print_backtrace(world: World, task: Task) -> None:
    print(f"Task {task.pid} {task.name}: {world.state_of(task)}, vCPU {task.vcpu()}, "
          f"{world.place_of(task)}")
    thread = world.thread_of(task)
    if thread is None and not task.number("thread.coroutine"):
        print("its stack is its host thread's, which is not there")
    elif thread is None:
        print_saved(task.saved_frames())
    elif left := world.left_frames(task, thread):
        print_saved(left)
    else:
        with selection_kept():
            thread.thread.switch()
            # Without the frame that was selected last.
            gdb.newest_frame().select()
            gdb.execute("backtrace")


# Signals

def is_kernels_fault() -> bool:
    """Whether the fault that stopped the selected thread is one that the library is there to
    handle, or to report.
    """
    info = gdb.parse_and_eval("$_siginfo")
    if int(info["si_code"]) <= 0:
        return False
    address = int(info["_sifields"]["_sigfault"]["si_addr"]) & (1 << 64) - 1
    pc = gdb.newest_frame().pc()
    return any(is_fault_of(instance, address, pc) for instance in instances())


def is_fault_of(instance: Instance, address: int, pc: int) -> bool:
    layout = Record("struct ob_layout", instance.need("ob_layout"))
    parts = [("ram", "ram_ceiling"), ("vmalloc", "vmalloc_end"), ("client", "client_end")]
    if any(layout.number(start) <= address < layout.number(end) for start, end in parts):
        return True
    return instance.has_code(pc)


class OwnFault(gdb.Function):
    """Condition of the catchpoint of SIGSEGV and SIGBUS: 0 for a fault that the library handles."""

    def __init__(self):
        super().__init__("_outboard_own_fault")

    def invoke(self):
        try:
            return 0 if is_kernels_fault() else 1
        except (gdb.error, Problem):
            return 1


def handle_signals() -> None:
    """The library's own signals pass; a fault of the program itself stops it, as it does without
    the library.
    """
    gdb.execute("handle SIGSEGV SIGBUS SIGURG nostop noprint pass", to_string=True)
    if any(point.type == getattr(gdb, "BP_CATCHPOINT", None)
           and point.condition == "$_outboard_own_fault()" for point in gdb.breakpoints()):
        return
    gdb.execute("catch signal SIGSEGV SIGBUS", to_string=True)
    gdb.execute("condition $bpnum $_outboard_own_fault()", to_string=True)


# Commands

class Command(gdb.Command):
    """A command whose failures are sentences."""

    is_of_one = True  # looks at the chosen instance

    def __init__(self):
        super().__init__(self.name, gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        try:
            words = gdb.string_to_argv(argument)
            instance, all_of_them = choose(self.is_of_one)
            SYMBOL_FILES.update()
            if len(all_of_them) > 1 and self.is_of_one:
                print(f"Instance {instance.number}:")
            self.run(words)
        except Problem:
            raise
        except Exception as error:  # pylint: disable=broad-except
            # Damaged data can be damaged in any way.
            raise Problem(f"{self.name}: the kernel's data make no sense: {error}") from None

    def no_arguments(self, words) -> None:
        if words:
            raise Problem(f"{self.name} takes no argument")


class Instances(Command):
    """Lists the instances: number, state, vCPUs, where the kernel's code is, and * for the one that
the other commands look at. 'set outboard-instance NUMBER' chooses another one."""

    name = "outboard-instances"
    is_of_one = False

    def run(self, words):
        self.no_arguments(words)
        rows = [("", "INSTANCE", "STATE", "VCPUS", "TEXT")]
        for instance in instances():
            mark = "*" if instance.number == chosen().number else ""
            rows.append((mark, str(instance.number), guarded(instance.state),
                         guarded(lambda: instance.machine.number("vcpus")),
                         hexadecimal(instance.need("_text"))))
        print_table(rows)


class Tasks(Command):
    """Lists all tasks: number, process, state, last vCPU, name, and where the stack is."""

    name = "outboard-tasks"

    def run(self, words):
        self.no_arguments(words)
        world = World()
        rows, problems = [("PID", "TGID", "STATE", "VCPU", "NAME", "HOST")], []
        for task, problem in world.tasks():
            if task is None:
                problems.append(problem)
                continue
            rows.append((guarded(lambda: task.pid), guarded(lambda: task.number("tgid")),
                         guarded(lambda: world.state_of(task)), guarded(task.vcpu),
                         guarded(lambda: task.name, hexadecimal(task.address)),
                         guarded(lambda: world.place_of(task))))
        print_table(rows)
        for problem in problems:
            raise problem


class Backtrace(Command):
    """outboard-backtrace PID|NAME|ADDRESS|all: the back-trace of a task, or of all tasks."""

    name = "outboard-backtrace"

    def run(self, words):
        if len(words) != 1:
            raise Problem("outboard-backtrace PID, NAME, ADDRESS (of a task_struct) or all: "
                          "see outboard-tasks")
        world = World()
        if words[0] != "all":
            print_backtrace(world, world.find(words[0]))
            return
        problems = []
        for task, problem in world.tasks():
            if task is None:
                problems.append(problem)
                continue
            try:
                print_backtrace(world, task)
            except Problem as broken:
                print(f"not shown: {broken}")
            print()
        for problem in problems:
            raise problem


class Vcpus(Command):
    """Lists the vCPUs: state, pending interrupts, leaves of clients, task and host thread."""

    name = "outboard-vcpus"

    def run(self, words):
        self.no_arguments(words)
        world = World()
        rows = [("VCPU", "STATE", "PENDING", "LEAVES", "TASK", "HOST")]
        for vcpu in world.vcpus:
            rows.append((str(vcpu.index), vcpu.state(), guarded(vcpu.pending),
                         str(vcpu.number("leaves")), *self.who(world, vcpu)))
        print_table(rows)
        if world.machine.number("stopping"):
            print("the machine has stopped")

    def who(self, world: World, vcpu: Vcpu) -> tuple:
        task, thread = 0, None
        if vcpu.state() not in ("parked", "arriving", "offline", "stopped"):
            task, thread = vcpu.holder(world.threads)
        if vcpu.parked_task():
            task = vcpu.parked_task()
            thread = world.own.get(task)
        if not task:
            return "-", "on its way to another task" if vcpu.state() == "held" else "-"
        name = guarded(lambda: f"{Task(task).pid} {Task(task).name}", hexadecimal(task))
        if thread:
            return name, f"{thread}, {thread.kind}"
        return name, "-" if vcpu.state() == "free" else "not there"


class Dmesg(Command):
    """Prints the kernel's log, all levels, whatever OUTBOARD_LOG says."""

    name = "outboard-dmesg"

    def run(self, words):
        self.no_arguments(words)
        for nanoseconds, text in log_lines():
            for line in text.split("\n"):
                print(f"[{nanoseconds // 10**9:5d}.{nanoseconds // 1000 % 10**6:06d}] {line}")


class Modules(Command):
    """Lists the loaded components: size in bytes, state, users, address of the code."""

    name = "outboard-modules"

    def run(self, words):
        self.no_arguments(words)
        rows = [("NAME", "SIZE", "STATE", "USERS", "TEXT")]
        try:
            for module in modules(chosen()):
                bases = [base for kind, base, _ in module.regions if kind == Module.TEXT]
                rows.append((module.name, str(module.size()), module.state(),
                             guarded(lambda: self.users(module), "-"),
                             hexadecimal(bases[0]) if bases else "-"))
        finally:
            print_table(rows)

    def users(self, module: Module) -> int:
        """The kernel counts from 1."""
        return module.number("refcnt.counter") - 1


class Symbols(Command):
    """outboard-symbols FILE.ko...: reads the symbols of loaded components from their files.
Breakpoints and source lines need them."""

    name = "outboard-symbols"

    def run(self, words):
        if not words:
            raise Problem("outboard-symbols FILE.ko...: see outboard-modules for what is loaded")
        loaded = {module.name: module for module in modules(chosen())}
        for path in words:
            self.read(os.path.expanduser(path), loaded)

    def read(self, path: str, loaded: dict) -> None:
        name = os.path.basename(path).split(".")[0].replace("-", "_")
        if name not in loaded:
            raise Problem(f"{name} is not loaded: see outboard-modules")
        sections = loaded[name].sections()
        text = sections.pop(".text", None)
        if text is None:
            raise Problem(f"the kernel does not say where the sections of {name} are")
        others = " ".join(f"-s {section} {address:#x}" for section, address in sections.items())
        SYMBOL_FILES.read_file(loaded[name], path, f"{text:#x} {others}")
        print(f"{name}: symbols of {path} at {text:#x}")


class Overview(gdb.Command):
    """Outboard's kernels: outboard-instances, -tasks, -backtrace, -vcpus, -dmesg and others.
The others are outboard-modules and outboard-symbols. 'help outboard-tasks' etc. say more."""

    def __init__(self):
        super().__init__("outboard", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        print(self.__doc__)


def start() -> None:
    for command in (Overview, Instances, Tasks, Backtrace, Vcpus, Dmesg, Modules, Symbols):
        command()
    OwnFault()
    handle_signals()
    with contextlib.suppress(Problem):
        TYPES.load()


start()
