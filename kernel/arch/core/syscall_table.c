// SPDX-License-Identifier: GPL-2.0-only
/*
 * The system call table, with x86-64's numbers, and the few calls that a library answers in another
 * way: there is no program to replace, and no host thread to copy or end from inside.
 *
 * Dodge futex: futex words outside of the client window have no page; they are private futexes.
 * Dodge rt_sigaction: a signal whose default is to end the process is ignored, for a library must
 * not end.
 * Dodge sched_getaffinity, sched_setaffinity: vCPUs that come up late are waited for.
 * Dodge read, readv, pread64, preadv, preadv2, write, writev, pwrite64, pwritev, pwritev2: direct
 * I/O with a buffer outside of the client window goes through pages of the kernel.
 * Dodge clock_gettime, gettimeofday, time: the clock is compared with the host's first.
 */
#include <linux/prctl.h>
#include <linux/syscalls.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include "adopt.h"
#include "component.h"
#include "deferred.h"
#include "direct.h"
#include "futex.h"
#include "signal.h"
#include "time.h"

/* Calls that only x86 itself implements. */
#define sys_arch_prctl sys_ni_syscall
#define sys_iopl sys_ni_syscall
#define sys_ioperm sys_ni_syscall
#define sys_map_shadow_stack sys_ni_syscall
#define sys_modify_ldt sys_ni_syscall
#define sys_rt_sigreturn sys_ni_syscall
#define sys_uretprobe sys_ni_syscall

/*
 * The kernel can neither copy, nor replace, nor end a host thread: its task ends when the thread
 * does. The program halts the machine; calls do not.
 *
 * Dodge clone, clone3, execve, execveat, fork, vfork, reboot: refused; they are not for the threads
 * of a library. process.c has what a process of its own can do instead.
 */
static long ob_sys_refused(void)
{
	pr_notice_once("%s: fork, clone, execve, exit and reboot are not for client threads "
		       "of a library\n",
		       current->comm);
	return -EOPNOTSUPP;
}

/* Dodge exit, exit_group: only for a process of its own: process.c. */
static long ob_sys_end(enum ob_ending ending, int code)
{
	if (!ob_is_of_process(current))
		return ob_sys_refused();
	ob_end_later(ending, code);
	return 0;
}

static long ob_sys_exit(int code)
{
	return ob_sys_end(OB_ENDING_THREAD, code);
}

static long ob_sys_exit_group(int code)
{
	return ob_sys_end(OB_ENDING_PROCESS, code);
}

SYSCALL_DEFINE6(mmap, unsigned long, address, unsigned long, length, unsigned long, protection,
		unsigned long, flags, unsigned long, fd, unsigned long, offset)
{
	if (offset & ~PAGE_MASK)
		return -EINVAL;
	return ksys_mmap_pgoff(address, length, protection, flags, fd, offset >> PAGE_SHIFT);
}

/*
 * Dodge prctl, rseq, seccomp: the host runs a client's code, and knows when it stops. Filters of
 * system calls and restartable sequences are for programs.
 */
static long ob_sys_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
			 unsigned long d)
{
	return option == PR_SET_SECCOMP ? -EINVAL : sys_prctl(option, a, b, c, d);
}

/* Dodge brk: the heap is the host's business. */
static long ob_sys_brk(unsigned long end)
{
	return 0;
}

#define __SYSCALL(number, function) [number] = (ob_syscall_function)(function),
#define __SYSCALL_NORETURN(number, function) __SYSCALL(number, function)
#define __SYSCALL_WITH_COMPAT(number, native, compat) __SYSCALL(number, native)

const ob_syscall_function sys_call_table[__NR_syscalls] = {
	[0 ... __NR_syscalls - 1] = (ob_syscall_function)sys_ni_syscall,
#include <asm/syscall_table_64.h>
	[__NR_brk] = (ob_syscall_function)ob_sys_brk,
	[__NR_clock_gettime] = (ob_syscall_function)ob_sys_clock_gettime,
	[__NR_clone] = (ob_syscall_function)ob_sys_refused,
	[__NR_clone3] = (ob_syscall_function)ob_sys_refused,
	[__NR_execve] = (ob_syscall_function)ob_sys_refused,
	[__NR_execveat] = (ob_syscall_function)ob_sys_refused,
	[__NR_exit] = (ob_syscall_function)ob_sys_exit,
	[__NR_exit_group] = (ob_syscall_function)ob_sys_exit_group,
	[__NR_fork] = (ob_syscall_function)ob_sys_refused,
	[__NR_futex] = (ob_syscall_function)ob_sys_futex,
	[__NR_gettimeofday] = (ob_syscall_function)ob_sys_gettimeofday,
	/*
	 * Dodge membarrier: clients run on processors that the kernel cannot reach; the host's own
	 * call is the right one.
	 */
	[__NR_membarrier] = (ob_syscall_function)sys_ni_syscall,
	[__NR_prctl] = (ob_syscall_function)ob_sys_prctl,
	[__NR_reboot] = (ob_syscall_function)ob_sys_refused,
	[__NR_rseq] = (ob_syscall_function)sys_ni_syscall,
	[__NR_rt_sigaction] = (ob_syscall_function)ob_sys_rt_sigaction,
	[__NR_sched_getaffinity] = (ob_syscall_function)ob_sys_sched_getaffinity,
	[__NR_sched_setaffinity] = (ob_syscall_function)ob_sys_sched_setaffinity,
	[__NR_seccomp] = (ob_syscall_function)sys_ni_syscall,
	[__NR_time] = (ob_syscall_function)ob_sys_time,
	[__NR_vfork] = (ob_syscall_function)ob_sys_refused,
#ifdef CONFIG_MODULES
	/* Dodge fsopen, mount: a file system that finds no memory is not an unknown one. */
	[__NR_fsopen] = (ob_syscall_function)ob_sys_fsopen,
	[__NR_mount] = (ob_syscall_function)ob_sys_mount,
#endif
#ifdef CONFIG_MMU
	[__NR_pread64] = (ob_syscall_function)ob_sys_pread64,
	[__NR_preadv] = (ob_syscall_function)ob_sys_preadv,
	[__NR_preadv2] = (ob_syscall_function)ob_sys_preadv2,
	[__NR_pwrite64] = (ob_syscall_function)ob_sys_pwrite64,
	[__NR_pwritev] = (ob_syscall_function)ob_sys_pwritev,
	[__NR_pwritev2] = (ob_syscall_function)ob_sys_pwritev2,
	[__NR_read] = (ob_syscall_function)ob_sys_read,
	[__NR_readv] = (ob_syscall_function)ob_sys_readv,
	[__NR_write] = (ob_syscall_function)ob_sys_write,
	[__NR_writev] = (ob_syscall_function)ob_sys_writev,
#endif
};
