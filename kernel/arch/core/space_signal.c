// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signals of programs. A handler runs in user code, on a frame as x86-64 Linux makes it:
 *
 *   the vector registers    aligned to 64 bytes
 *   siginfo
 *   ucontext                the registers, the mask, the alternate stack
 *   the return address      the restorer, which calls rt_sigreturn
 *
 * All that rt_sigreturn reads is the program's to write: see ob_registers_restore().
 */
#include <linux/ptrace.h>
#include <linux/restart_block.h>
#include <linux/rseq.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <asm/syscall.h>
#include <asm/ucontext.h>
#include <asm/unistd.h>
#include "space_signal.h"
#include "space_vector.h"

struct ob_frame {
	u64 return_address;
	struct ucontext context;
	struct siginfo info;
};

/* Below the stack pointer, where code keeps data without reserving it. */
#define OB_RED_ZONE 128

/* Flags that a handler begins without: single step, direction, resume. */
#define OB_FLAGS_CLEARED 0x10500
#define OB_SYSCALL_BYTES 2		/* length of the instruction */

#define OB_FOR_REGISTERS(one)						\
	one(r8) one(r9) one(r10) one(r11) one(r12) one(r13) one(r14) one(r15)	\
	one(di) one(si) one(bp) one(bx) one(dx) one(ax) one(cx) one(sp) one(ip)

/* The most that a frame takes of a stack: AT_MINSIGSTKSZ. */
unsigned long ob_signal_frame_size(void)
{
	ob_vectors_setup();
	return OB_RED_ZONE + sizeof(struct ob_frame) + 16 + ob_vectors_frame_size() + 64;
}

static void ob_registers_save(struct sigcontext *saved, const struct pt_regs *regs)
{
	const struct ob_trap *trap = &current->thread.trap;

#define OB_SAVE(name) saved->name = regs->name;
	OB_FOR_REGISTERS(OB_SAVE)
#undef OB_SAVE
	saved->flags = regs->flags;
	saved->cs = OB_CODE_SEGMENT;
	saved->ss = OB_DATA_SEGMENT;
	saved->err = trap->error_code;
	saved->trapno = trap->vector;
	saved->cr2 = trap->address;
	saved->oldmask = current->blocked.sig[0];
}

/* A register may have any value: the platform checks what it enters with. */
static void ob_registers_restore(struct pt_regs *regs, const struct sigcontext *saved)
{
#define OB_RESTORE(name) regs->name = saved->name;
	OB_FOR_REGISTERS(OB_RESTORE)
#undef OB_RESTORE
	regs->flags = (regs->flags & ~OB_FLAGS_OWN) | (saved->flags & OB_FLAGS_OWN);
	regs->orig_ax = -1;
}

/* Finds the frame's address, and that of its vector registers. 0: the stack is too small. */
static unsigned long ob_frame_place(struct ksignal *signal, const struct pt_regs *regs,
				    unsigned long *vectors)
{
	bool was_on = on_sig_stack(regs->sp);
	unsigned long sp = sigsp(regs->sp - OB_RED_ZONE, signal);
	bool enters = sp == current->sas_ss_sp + current->sas_ss_size && !was_on;

	*vectors = round_down(sp - ob_vectors_frame_size(), 64);
	/* A function finds the stack pointer 8 bytes off a multiple of 16. */
	sp = round_down(*vectors - sizeof(struct ob_frame), 16) - 8;
	if ((was_on || enters) && !__on_sig_stack(sp))
		return 0;
	return sp;
}

static int ob_frame_write(struct ksignal *signal, struct pt_regs *regs,
			  struct ob_frame __user *frame, unsigned long vectors)
{
	struct ucontext context = {
		.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
	};

	ob_registers_save(&context.uc_mcontext, regs);
	context.uc_mcontext.fpstate = vectors;
	context.uc_sigmask = *sigmask_to_save();
	if (ob_vectors_to_frame((void __user *)vectors) ||
	    copy_to_user(&frame->context, &context, sizeof(context)) ||
	    __save_altstack(&frame->context.uc_stack, regs->sp) ||
	    put_user((u64)signal->ka.sa.sa_restorer, &frame->return_address))
		return -EFAULT;
	if (signal->ka.sa.sa_flags & SA_SIGINFO &&
	    copy_siginfo_to_user(&frame->info, &signal->info))
		return -EFAULT;
	return 0;
}

/* The program goes on in the handler. 0; or -EFAULT: it cannot. */
static int ob_handler_begin(struct ksignal *signal, struct pt_regs *regs)
{
	struct ob_frame __user *frame;
	unsigned long vectors, sp;

	rseq_signal_deliver(signal, regs);
	sp = ob_frame_place(signal, regs, &vectors);
	frame = (void __user *)sp;
	if (!sp || !(signal->ka.sa.sa_flags & SA_RESTORER) ||
	    ob_frame_write(signal, regs, frame, vectors))
		return -EFAULT;
	regs->di = signal->sig;
	regs->si = (unsigned long)&frame->info;
	regs->dx = (unsigned long)&frame->context;
	regs->ax = 0;
	regs->ip = (unsigned long)signal->ka.sa.sa_handler;
	regs->sp = sp;
	regs->flags &= ~OB_FLAGS_CLEARED;
	ob_vectors_reset();
	return 0;
}

/* The program's system call rt_sigreturn. Returns what ax has to be. */
long ob_program_sigreturn(void)
{
	struct pt_regs *regs = current_pt_regs();
	/* The handler's return has taken the return address. */
	struct ob_frame __user *frame = (void __user *)(regs->sp - sizeof(frame->return_address));
	struct ucontext context;

	current->restart_block.fn = do_no_restart_syscall;
	if (copy_from_user(&context, &frame->context, sizeof(context)))
		goto bad;
	set_current_blocked(&context.uc_sigmask);
	ob_registers_restore(regs, &context.uc_mcontext);
	if (ob_vectors_from_frame((void __user *)context.uc_mcontext.fpstate) ||
	    restore_altstack(&frame->context.uc_stack))
		goto bad;
	return regs->ax;
bad:
	force_sig(SIGSEGV);
	return 0;
}

static void ob_call_again(struct pt_regs *regs, unsigned long number)
{
	regs->ax = number;
	regs->ip -= OB_SYSCALL_BYTES;
}

/* A signal may have interrupted a system call. Decides whether the program makes it again. */
static void ob_call_restart(struct pt_regs *regs, const struct ksignal *handled)
{
	if (syscall_get_nr(current, regs) < 0)
		return;
	switch ((long)regs->ax) {
	case -ERESTARTNOINTR:
		ob_call_again(regs, regs->orig_ax);
		break;
	case -ERESTARTSYS:
		if (!handled || handled->ka.sa.sa_flags & SA_RESTART)
			ob_call_again(regs, regs->orig_ax);
		else
			regs->ax = -EINTR;
		break;
	case -ERESTARTNOHAND:
		if (handled)
			regs->ax = -EINTR;
		else
			ob_call_again(regs, regs->orig_ax);
		break;
	case -ERESTART_RESTARTBLOCK:
		if (handled)
			regs->ax = -EINTR;
		else
			ob_call_again(regs, __NR_restart_syscall);
		break;
	}
	regs->orig_ax = -1;
}

/* The calling program takes a signal, which may end its task. */
void ob_program_signals(struct pt_regs *regs)
{
	struct ksignal signal;
	bool step;

	if (!get_signal(&signal)) {
		ob_call_restart(regs, NULL);
		restore_saved_sigmask();
		return;
	}
	ob_call_restart(regs, &signal);
	/* A step ends at the handler's first instruction. The frame is as without a debugger. */
	step = test_thread_flag(TIF_SINGLESTEP);
	if (step)
		user_disable_single_step(current);
	signal_setup_done(ob_handler_begin(&signal, regs), &signal, step);
}
