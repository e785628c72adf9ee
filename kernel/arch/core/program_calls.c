// SPDX-License-Identifier: GPL-2.0-only
/*
 * The system calls of programs: Linux's own, with x86-64's numbers. syscall_table.c has those of
 * clients.
 *
 * A program that has all rights in the kernel must not get rights in the host process (V19). So
 * there is no call that loads code into the kernel.
 */
#include <linux/capability.h>
#include <linux/minmax.h>
#include <linux/mman.h>
#include <linux/pid_namespace.h>
#include <linux/printk.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <uapi/linux/shm.h>
#include <linux/signal.h>
#include <linux/syscalls.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include "component.h"
#include "deferred.h"
#include "program.h"
#include "space_signal.h"
#include "space_site.h"
#include "space_task.h"
#include "time.h"

/* Calls that only x86 itself implements. */
#define sys_arch_prctl ob_program_arch_prctl
#define sys_iopl sys_ni_syscall
#define sys_ioperm sys_ni_syscall
#define sys_map_shadow_stack sys_ni_syscall
#define sys_modify_ldt sys_ni_syscall
#define sys_rt_sigreturn ob_program_sigreturn
#define sys_uretprobe sys_ni_syscall

static long ob_program_refused(void)
{
	return -EPERM;
}

static bool ob_reboot_is_meant(int magic, int magic2)
{
	return magic == LINUX_REBOOT_MAGIC1 &&
	       (magic2 == LINUX_REBOOT_MAGIC2 || magic2 == LINUX_REBOOT_MAGIC2A ||
		magic2 == LINUX_REBOOT_MAGIC2B || magic2 == LINUX_REBOOT_MAGIC2C);
}

/*
 * The kernel goes on, since the host's program decides when it halts: only programs end. In a
 * namespace of processes Linux's own call does just that. Their parent sees the same signals as
 * that of such a namespace.
 */
static long ob_programs_stop(const char *wish, int shown)
{
	pr_warn("%s (process %d) wants %s: all programs end\n", current->comm,
		task_pid_nr(current), wish);
	ob_programs_kill(shown);
	return 0;
}

static long ob_program_reboot(int magic, int magic2, unsigned int command, void __user *argument)
{
	if (task_active_pid_ns(current) != &init_pid_ns)
		return sys_reboot(magic, magic2, command, argument);
	if (!capable(CAP_SYS_BOOT))
		return -EPERM;
	if (!ob_reboot_is_meant(magic, magic2))
		return -EINVAL;
	switch (command) {
	case LINUX_REBOOT_CMD_CAD_ON:
	case LINUX_REBOOT_CMD_CAD_OFF:
		return 0;
	case LINUX_REBOOT_CMD_HALT:
	case LINUX_REBOOT_CMD_POWER_OFF:
		return ob_programs_stop("a power-off", SIGINT);
	case LINUX_REBOOT_CMD_RESTART:
	case LINUX_REBOOT_CMD_RESTART2:
		return ob_programs_stop("a restart", SIGHUP);
	}
	return -EINVAL;
}

/* Calls that may move or unmap rewritten call sites, or their trampolines: space_site.c. */
static long ob_program_mmap(unsigned long address, unsigned long size, unsigned long protection,
			    unsigned long flags, unsigned long fd, unsigned long offset)
{
	if (flags & MAP_FIXED)
		ob_sites_change(address, size, false);
	return sys_mmap(address, size, protection, flags, fd, offset);
}

static long ob_program_munmap(unsigned long address, size_t size)
{
	ob_sites_change(address, size, false);
	return sys_munmap(address, size);
}

static long ob_program_mremap(unsigned long address, unsigned long old_size, unsigned long size,
			      unsigned long flags, unsigned long new_address)
{
	ob_sites_change(address, max(old_size, size), true);
	if (flags & MREMAP_FIXED)
		ob_sites_change(new_address, size, false);
	return sys_mremap(address, old_size, size, flags, new_address);
}

static long ob_program_shmat(int id, char __user *address, int flags)
{
	/* The segment's size is not known yet. */
	if (flags & SHM_REMAP)
		ob_sites_change((unsigned long)address, ob_layout.space_end, false);
	return sys_shmat(id, address, flags);
}

/* Another process reads or writes memory: it finds the program's own code. */
static void ob_code_restore_of(pid_t pid)
{
	struct task_struct *task = find_get_task_by_vpid(pid);
	struct mm_struct *mm = task ? get_task_mm(task) : NULL;

	if (mm && mm != current->mm)
		ob_sites_restore(mm);
	if (mm)
		mmput(mm);
	if (task)
		put_task_struct(task);
}

static long ob_program_process_vm_readv(pid_t pid, const struct iovec __user *local,
					unsigned long local_count,
					const struct iovec __user *remote,
					unsigned long remote_count, unsigned long flags)
{
	ob_code_restore_of(pid);
	return sys_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

static long ob_program_process_vm_writev(pid_t pid, const struct iovec __user *local,
					 unsigned long local_count,
					 const struct iovec __user *remote,
					 unsigned long remote_count, unsigned long flags)
{
	ob_code_restore_of(pid);
	return sys_process_vm_writev(pid, local, local_count, remote, remote_count, flags);
}

#define __SYSCALL(number, function) [number] = (ob_syscall_function)(function),
#define __SYSCALL_NORETURN(number, function) __SYSCALL(number, function)
#define __SYSCALL_WITH_COMPAT(number, native, compat) __SYSCALL(number, native)

const ob_syscall_function ob_program_call_table[__NR_syscalls] = {
	[0 ... __NR_syscalls - 1] = (ob_syscall_function)sys_ni_syscall,
#include <asm/syscall_table_64.h>
	[__NR_clock_gettime] = (ob_syscall_function)ob_sys_clock_gettime,
	[__NR_gettimeofday] = (ob_syscall_function)ob_sys_gettimeofday,
	[__NR_mmap] = (ob_syscall_function)ob_program_mmap,
	[__NR_mremap] = (ob_syscall_function)ob_program_mremap,
	[__NR_munmap] = (ob_syscall_function)ob_program_munmap,
	[__NR_process_vm_readv] = (ob_syscall_function)ob_program_process_vm_readv,
	[__NR_process_vm_writev] = (ob_syscall_function)ob_program_process_vm_writev,
	[__NR_reboot] = (ob_syscall_function)ob_program_reboot,
	[__NR_sched_getaffinity] = (ob_syscall_function)ob_sys_sched_getaffinity,
	[__NR_sched_setaffinity] = (ob_syscall_function)ob_sys_sched_setaffinity,
	[__NR_shmat] = (ob_syscall_function)ob_program_shmat,
	[__NR_time] = (ob_syscall_function)ob_sys_time,
#ifdef CONFIG_MODULES
	[__NR_delete_module] = (ob_syscall_function)ob_program_refused,
	[__NR_finit_module] = (ob_syscall_function)ob_program_refused,
	[__NR_init_module] = (ob_syscall_function)ob_program_refused,
	[__NR_fsopen] = (ob_syscall_function)ob_sys_fsopen,
	[__NR_mount] = (ob_syscall_function)ob_sys_mount,
#endif
};
