# SPDX-License-Identifier: GPL-2.0-only
"""For gdb: a thread that ends has given its vCPU away when it frees its stack, and has to wait for
the lock (V2).

It must not take part in anything of the vCPU any more, which is another thread's.
"""
# pylint: disable=import-error
import gdb

VCPU_AT = 24  # in struct ob_thread: asm/vcpu.h


def number(expression: str) -> int:
    return int(gdb.parse_and_eval(expression)) & (1 << 64) - 1


def is_called_by(function: str) -> bool:
    """At the first instruction of another one."""
    caller = number("*(unsigned long *)$rsp")
    return gdb.execute(f"info symbol {caller}", to_string=True).startswith(function)


gdb.execute("set pagination off")
gdb.execute("set width 0")
gdb.execute("handle SIGURG SIGSEGV nostop noprint pass")
# There is a kernel by then.
gdb.execute("break call")
gdb.execute("run")
gdb.execute("break *ob_stack_free")
gdb.execute("continue")
while not is_called_by("ob_run_apart"):
    gdb.execute("continue")
block = number("$fs_base") + number("*(unsigned long *)&ob_thread_block_offset") & (1 << 64) - 1
vcpu = number(f"*(unsigned long *){block + VCPU_AT}")
print(f"vcpu: {vcpu:#x}")
# Nobody else runs: the lock is taken, and the thread waits for it.
gdb.execute("set scheduler-locking on")
gdb.execute("set *(unsigned int *)&ob_stacks = 1")
gdb.execute("tbreak *ob_host_thread_yield")
gdb.execute("continue")
print("waits:", is_called_by("ob_spin_wait"))
gdb.execute("set *(unsigned int *)&ob_stacks = 0")
gdb.execute("set scheduler-locking off")
gdb.execute("delete")
gdb.execute("continue")
