# SPDX-License-Identifier: GPL-2.0-only
"""Host threads, vCPUs and tasks, and who is where."""

import contextlib

import gdb

from outboard_gdb.instances import chosen, machine, symbol
from outboard_gdb.memory import (TYPES_FILE, Problem, Record, kernel_type, offset_of, read_word,
                                 walk_list)

FRAMES_LIMIT = 64


class HostThread:
    """A thread of the process, and what it is to the kernel."""

    KINDS = {0: "client", 1: "carrier", 2: "service"}

    def __init__(self, thread: gdb.InferiorThread):
        self.thread = thread
        self.lwp = thread.ptid[1]
        self.pointer = 0  # the C library's, as the kernel's handles are
        self.kind = self.task = self.vcpu = None
        self.own_task = None  # even while it runs as another one; 0: none yet

    def examine(self, offset, boot: int, first_vcpu: int, end: int) -> None:
        """Reads the thread's block. A thread that has none, a damaged one, or one of a kernel that
        has halted stays without a kind.
        """
        self.thread.switch()
        with contextlib.suppress(Problem, gdb.error):
            self.pointer = int(gdb.newest_frame().read_register("fs_base")) & (1 << 64) - 1
            block = Record("struct ob_thread", (self.pointer + offset) & (1 << 64) - 1)
            vcpu = block.number("vcpu")
            kind = block.number("kind")
            if block.number("boot") == boot and first_vcpu <= vcpu < end and kind in self.KINDS:
                self.kind, self.vcpu, self.task = self.KINDS[kind], vcpu, block.number("task")
                loan = block.number("loan")
                self.own_task = Record("struct ob_loan", loan).number("task") if loan else self.task

    def __str__(self):
        return f"thread {self.thread.num} (LWP {self.lwp})"


@contextlib.contextmanager
def selection_kept():
    """The user's thread and frame are selected again afterwards."""
    thread = gdb.selected_thread()
    frame = None
    with contextlib.suppress(gdb.error):
        frame = gdb.selected_frame()
    try:
        yield
    finally:
        if thread is not None and thread.is_valid():
            thread.switch()
            if frame is not None and frame.is_valid():
                with contextlib.suppress(gdb.error):
                    frame.select()


def host_threads() -> list:
    offset = read_word(symbol("ob_thread_block_offset"), "ob_thread_block_offset")
    boot = read_word(symbol("ob_boot"), "ob_boot") & 0xffffffff
    first = symbol("ob_vcpus")
    end = first + 64 * kernel_type("struct ob_vcpu").sizeof
    found = []
    with selection_kept():
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
            if thread.is_valid() and thread.is_stopped():
                found.append(HostThread(thread))
                found[-1].examine(offset, boot, first, end)
    return found


# vCPUs

class Vcpu(Record):
    PARKED, HELD, INTERRUPT, STOPPED, ARRIVING, MOVED = 1, 2, 4, 8, 16, 32
    BOOT_SHIFT = 48  # the number of the boot is above

    def __init__(self, address: int, index: int):
        super().__init__("struct ob_vcpu", address)
        self.index = index  # in the table: the kernel's own `id` is 0 until the vCPU starts
        self.word = self.number("state")

    def parked_task(self) -> int:
        address = self.word & (1 << self.BOOT_SHIFT) - 1
        return address & ~(self.PARKED | self.ARRIVING
                           | self.MOVED) if self.word & self.PARKED else 0

    def state(self) -> str:
        if self.word & self.PARKED:
            return "arriving" if self.word & self.ARRIVING else "parked"
        if self.word == self.HELD:
            return "free" if self.number("watcher_baton") else "held"
        return {0: "offline", self.INTERRUPT: "interrupt",
                self.STOPPED: "stopped"}.get(self.word, f"? {self.word:#x}")

    def pending(self) -> str:
        names = [
            field for field in kernel_type("enum ob_pending").fields()
            if field.enumval & self.number("pending")
        ]
        return ",".join(field.name.replace("OB_PENDING_", "").lower() for field in names) or "-"

    def holder(self, threads: list):
        """
        Returns the task that runs kernel code on this vCPU, and its host thread: (task, thread).
        A free vCPU has (idle task, None); a vCPU without a known holder has (0, None).

        A service or carrier thread has a task only while it holds the vCPU. A client's thread keeps
        its task when it leaves, so `bound_thread` tells which client's thread holds the vCPU.
        """
        if self.state() == "free":
            return self.number("carrier.to_run"), None
        mine = [thread for thread in threads if thread.vcpu == self.address and thread.task]
        for kind in ("service", "carrier"):
            for thread in mine:
                if thread.kind == kind:
                    return thread.task, thread
        bound_thread = self.number("bound_thread")
        clients = [thread for thread in mine if thread.kind == "client"]
        for thread in clients:
            if thread.lwp == bound_thread:
                return thread.task, thread
        # In a container the process may see other thread numbers than gdb does.
        for thread in clients:
            task = Task(thread.task)
            if task.number("on_cpu") and task.number("thread.vcpu") == self.address:
                return thread.task, thread
        return 0, None


def vcpus() -> list:
    count = machine().number("vcpus")
    first, size = symbol("ob_vcpus"), kernel_type("struct ob_vcpu").sizeof
    if not 0 < count <= 64:
        raise Problem(f"the number of vCPUs reads {count}: the kernel's data is damaged, or "
                      f"{TYPES_FILE} is of another build")
    return [Vcpu(first + i * size, i) for i in range(count)]


# Tasks

class Task(Record):
    INTERRUPTIBLE, UNINTERRUPTIBLE, STOPPED, TRACED = 1, 2, 4, 8
    PARKED, DEAD, NOLOAD, NEW = 0x40, 0x80, 0x400, 0x800
    EXIT_ZOMBIE = 0x20

    def __init__(self, address: int):
        super().__init__("struct task_struct", address)

    @property
    def pid(self) -> int:
        return self.number("pid")

    @property
    def name(self) -> str:
        return self.text("comm")

    def is_client(self) -> bool:
        return self.number("thread.host_thread") != 0

    def vcpu(self) -> str:
        address = self.number("thread.vcpu")
        return str(Record("struct ob_vcpu", address).number("id")) if address else "-"

    def state(self, parked: set, holders: dict) -> str:
        """One word; docs/debugging.md explains them."""
        word, ended = self.number("__state"), self.number("exit_state")
        if self.address in parked:
            return "parked"
        if self.is_client() and self.number("thread.away"):
            return "evicted"
        if ended:
            return "zombie" if ended & self.EXIT_ZOMBIE else "dead"
        if self.address in holders:
            return holders[self.address]
        if word == 0:
            return "switching" if self.number("on_cpu") else "ready"
        if word & self.UNINTERRUPTIBLE:
            return "idle" if word & self.NOLOAD else "blocked"
        for bit, name in ((self.INTERRUPTIBLE, "sleeping"), (self.STOPPED, "stopped"), (self.TRACED,
                                                                                        "traced"),
                          (self.PARKED, "unplugged"), (self.DEAD, "dead"), (self.NEW, "new")):
            if word & bit:
                return name
        return f"{word:#x}"

    def saved_frames(self) -> list:
        """Return addresses of a coroutine that is switched out, innermost first."""
        return saved_frames(self.number("thread.coroutine"), self.number("thread.stack"),
                            f"the stack of task {self.pid}")


def saved_frames(stack: int, bottom: int, what: str) -> list:
    """Return addresses on a stack that a thread has left, innermost first. On a host thread's stack
    the first one of host code is the last: such code keeps no frame pointers.
    """
    # What ob_coroutine_switch() has pushed: r15 r14 r13 r12 rbx rbp and the return address.
    frame, addresses = read_word(stack + 40, what), [read_word(stack + 48, what)]
    with contextlib.suppress(Problem):
        while (len(addresses) < FRAMES_LIMIT and chosen().has_code(addresses[-1])
               and bottom <= frame < bottom + (64 << 10) and not frame % 8):
            following, back = read_word(frame, what), read_word(frame + 8, what)
            if not back:
                break
            addresses.append(back)
            if following <= frame:
                break
            frame = following
    return addresses


def threads_of(leader: Task):
    shift = offset_of("struct task_struct", "thread_node")
    head = Record("struct signal_struct", leader.number("signal")).value("thread_head").address
    for entry in walk_list(int(head), f"the threads of process {leader.pid}"):
        yield Task(entry - shift)


def listed_tasks():
    """All tasks that the kernel has in its list of processes."""
    first = Task(symbol("init_task"))
    shift = offset_of("struct task_struct", "tasks")
    for entry in walk_list(first.address + shift, "the list of tasks"):
        yield from threads_of(Task(entry - shift))


class World:
    """Who is where, at one moment: read once for each command."""

    def __init__(self):
        self.machine = machine()
        self.threads = host_threads()
        self.vcpus = vcpus()
        self.parked = {vcpu.parked_task() for vcpu in self.vcpus} - {0}
        self.running = {}  # host threads by the task that they run in the kernel
        self.holders = {}  # what such a task is called
        for vcpu in self.vcpus:
            if vcpu.state() in ("held", "free", "interrupt"):
                task, thread = vcpu.holder(self.threads)
                if task:
                    self.running[task] = thread
                    self.holders[task] = "waiting" if vcpu.state() == "free" else "running"
        self.own = {
            thread.own_task: thread
            for thread in self.threads if thread.kind == "client" and thread.own_task
        }
        self.by_lwp = {thread.lwp: thread for thread in self.threads}

    def tasks(self):
        """(task, None), and at the end (None, problem) if the list breaks off."""
        seen = set()
        try:
            for task in listed_tasks():
                seen.add(task.address)
                yield task, None
        except Problem as problem:
            yield None, problem
        # Idle tasks, and what a broken list does not reach any more.
        for address in [*self.running, *self.own]:
            if address not in seen:
                seen.add(address)
                yield Task(address), None

    def thread_of(self, task: Task):
        """The host thread whose stack the task's is now, None for a coroutine that is switched out.
        """
        return self.running.get(task.address) or self.own.get(task.address)

    def left_frames(self, task: Task, thread: HostThread) -> list:
        """The task's frames if its own thread, this one, has left its stack for a coroutine's,
        else none.
        """
        if thread.task in (0, task.address) or not Task(thread.task).number("thread.stack"):
            return []
        context = Record("struct ob_vcpu", thread.vcpu).number("carrier.context")
        return saved_frames(context, context, f"the stack of {thread}")

    def state_of(self, task: Task) -> str:
        return task.state(self.parked, self.holders)

    def place_of(self, task: Task) -> str:
        thread = self.running.get(task.address)
        if task.is_client():
            number = task.number("thread.host_thread")
            # A waiting client's thread may run another task meanwhile.
            own = self.own.get(task.address) or self.by_lwp.get(number)
            text = str(own) if own else f"LWP {number}, which is not there"
            if thread and own and thread is not own:
                return f"{text}, in whose place {thread} runs"
            return text
        return f"coroutine, on {thread}" if thread else "coroutine"

    def find(self, wanted: str) -> Task:
        """By its number, by the address of its task_struct, or by its name if no other task has the
        same.
        """
        try:
            number = int(wanted, 0)
        except ValueError:
            number = None
        found, problems = [], []
        for task, problem in self.tasks():
            if task is None:
                problems.append(f"; {problem}")
            elif number in (task.pid, task.address):
                return task
            elif number is None and task.name == wanted:
                found.append(task)
        if not found:
            raise Problem(f"there is no task {wanted}: see outboard-tasks{''.join(problems)}")
        if len(found) > 1:
            pids = ", ".join(str(task.pid) for task in found)
            raise Problem(f"{len(found)} tasks have the name {wanted}: {pids}")
        return found[0]
