# SPDX-License-Identifier: GPL-2.0-only
"""For gdb: a thread waits on its way into the kernel, for the service thread that is at work for
its vCPU.

When that has ended, and before the thread looks again, a signal handler of the program makes a
call: interrupts are on in that.
"""
# pylint: disable=import-error
import gdb

# In struct ob_thread: asm/vcpu.h.
PARKED_AT, VCPU_AT, INTERRUPTS_OFF_AT = 8, 24, 62
# Of a vCPU's state: core/vcpu.h.
INTERRUPT = 4
VCPU_BYTES = 64


def number(expression: str) -> int:
    return int(gdb.parse_and_eval(expression)) & (1 << 64) - 1


def word(address: int, kind: str = "unsigned long") -> int:
    return number(f"*({kind} *){address}")


def state_address(block: int) -> int:
    """Where the vCPU says that it is parked on the thread's task. 0: it is not, the task was
    evicted.
    """
    vcpu, parked = word(block + VCPU_AT), word(block + PARKED_AT)
    return next((at for at in range(vcpu, vcpu + VCPU_BYTES, 8) if word(at) == parked), 0)


def stop_at(place: str) -> None:
    gdb.execute(f"tbreak *{place}")
    gdb.execute("continue")


gdb.execute("set pagination off")
gdb.execute("set width 0")
gdb.execute("handle SIGURG SIGSEGV SIGUSR1 nostop noprint pass")
gdb.execute("break main")
gdb.execute("run")
stop_at("about_to_call")
block = number("$fs_base") + number("*(unsigned long *)&ob_thread_block_offset") & (1 << 64) - 1
# Nobody else runs: the vCPU looks as if its service thread had just taken it.
gdb.execute("set scheduler-locking on")
while not (state := state_address(block)):
    gdb.execute("set scheduler-locking off")
    stop_at("about_to_call")
    gdb.execute("set scheduler-locking on")
parked = word(state)
gdb.execute(f"set *(unsigned long *){state} = {INTERRUPT}")
stop_at("ob_host_thread_yield")
gdb.execute(f"set *(unsigned long *){state} = {parked}")
gdb.execute("queue-signal SIGUSR1")
stop_at("sys_getppid")
print(f"interrupts off: {word(block + INTERRUPTS_OFF_AT, 'unsigned char')}")
gdb.execute("set scheduler-locking off")
gdb.execute("delete")
gdb.execute("continue")
