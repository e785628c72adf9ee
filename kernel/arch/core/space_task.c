// SPDX-License-Identifier: GPL-2.0-only
/* Tasks of programs: how they begin, by execve() and by clone(), and what x86-64 has of its own. */
#include <linux/elf.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/switch_to.h>
#include "coroutine.h"
#include "space_run.h"
#include "space_task.h"
#include "space_vector.h"
#include "switch.h"

/* IF, and the bit that is always set. */
#define OB_FLAGS_INITIAL 0x202

/* Numbers of arch_prctl(2): the ABI of x86-64 Linux. */
#define OB_ARCH_SET_GS 0x1001
#define OB_ARCH_SET_FS 0x1002
#define OB_ARCH_GET_FS 0x1003
#define OB_ARCH_GET_GS 0x1004

/* The processor's features, as programs have always got them: CPUID, leaf 1, edx. */
unsigned long ob_elf_hwcap(void)
{
	u32 a = 1, b, c = 0, d;

	asm("cpuid" : "+a" (a), "=b" (b), "+c" (c), "=d" (d));
	return d;
}

/* By execve(), which has no way back. Init and a process of its own have no user side. */
void flush_thread(void)
{
	if (!current->thread.program)
		return;
	ob_vectors_reset();
	current->thread.trap = (struct ob_trap) {};
	current->thread.shown = current->thread.shown_end = 0;
	current->thread.new_pages = 1;
}

void start_thread(struct pt_regs *regs, unsigned long ip, unsigned long sp)
{
	*regs = (struct pt_regs) {
		.ip = ip,
		.sp = sp,
		.flags = OB_FLAGS_INITIAL,
		.orig_ax = regs->orig_ax,
		.user = 1,
	};
}

static void ob_program_copy_main(void)
{
	ob_switch_finished();
	ob_switch_tail();
	ob_program_run();
}

/*
 * By copy_thread(), for a copy of the calling program, which goes on where the program called.
 * `thread` has a stack. 0, -ENOMEM, or -EPERM: the address of the thread-local storage is none.
 */
int ob_program_copy(struct thread_struct *thread, const struct kernel_clone_args *args)
{
	int error = ob_vectors_copy(thread);

	if (error)
		return error;
	thread->program = true;
	thread->regs = *current_pt_regs();
	thread->regs.ax = 0;
	if (args->stack)
		thread->regs.sp = args->stack;
	if (args->flags & CLONE_SETTLS) {
		if (args->tls >= ob_layout.space_end)
			return -EPERM;
		thread->regs.fs_base = args->tls;
	}
	thread->coroutine = ob_coroutine_prepare(thread->stack, ob_program_copy_main);
	return 0;
}

/* arch_prctl(2), also by a debugger, for a stopped program. */
long ob_arch_prctl(struct pt_regs *regs, int option, unsigned long address)
{
	unsigned long __user *store = (unsigned long __user *)address;

	switch (option) {
	case OB_ARCH_SET_FS:
		if (address >= ob_layout.space_end)
			return -EPERM;
		regs->fs_base = address;
		return 0;
	case OB_ARCH_SET_GS:
		if (address >= ob_layout.space_end)
			return -EPERM;
		regs->gs_base = address;
		return 0;
	case OB_ARCH_GET_FS:
		return put_user(regs->fs_base, store);
	case OB_ARCH_GET_GS:
		return put_user(regs->gs_base, store);
	}
	return -EINVAL;
}

long ob_program_arch_prctl(int option, unsigned long address)
{
	return ob_arch_prctl(current_pt_regs(), option, address);
}
