// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of programs as debuggers and core dumps have them. The layouts are the ABI of x86-64
 * Linux: user_regs_struct, user_fpregs_struct, and XSAVE's standard format.
 *
 * A debugger may write what it likes: no value must do harm. Segments are fixed: x86-64 Linux lets
 * a debugger change some, which has no use for 64-bit code.
 */
#include <linux/elf.h>
#include <linux/regset.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include "space_regset.h"
#include "space_signal.h"
#include "space_site.h"
#include "space_vector.h"

#define OB_PLACE(name) (offsetof(struct pt_regs, name) / sizeof(long))

/* Members that pt_regs does not have. */
enum { OB_CS = sizeof(struct pt_regs) / sizeof(long), OB_SS, OB_NO_SEGMENT };

/* In the order of user_regs_struct. */
static const u8 ob_places[] = {
	OB_PLACE(r15), OB_PLACE(r14), OB_PLACE(r13), OB_PLACE(r12), OB_PLACE(bp), OB_PLACE(bx),
	OB_PLACE(r11), OB_PLACE(r10), OB_PLACE(r9), OB_PLACE(r8), OB_PLACE(ax), OB_PLACE(cx),
	OB_PLACE(dx), OB_PLACE(si), OB_PLACE(di), OB_PLACE(orig_ax), OB_PLACE(ip), OB_CS,
	OB_PLACE(flags), OB_PLACE(sp), OB_SS, OB_PLACE(fs_base), OB_PLACE(gs_base), OB_NO_SEGMENT,
	OB_NO_SEGMENT, OB_NO_SEGMENT, OB_NO_SEGMENT,
};
static_assert(ARRAY_SIZE(ob_places) == OB_USER_REGISTERS && ELF_NGREG == OB_USER_REGISTERS);

/* `place`: in user_regs_struct. */
unsigned long ob_user_register(struct task_struct *task, unsigned int place)
{
	const struct pt_regs *regs = task_pt_regs(task);

	switch (ob_places[place]) {
	case OB_CS:
		return OB_CODE_SEGMENT;
	case OB_SS:
		return OB_DATA_SEGMENT;
	case OB_NO_SEGMENT:
		return 0;
	case OB_PLACE(flags):
		return test_tsk_thread_flag(task, TIF_FORCED_TF) ? regs->flags & ~OB_FLAG_STEP :
								   regs->flags;
	}
	return ((const unsigned long *)regs)[ob_places[place]];
}

static void ob_flags_set(struct task_struct *task, unsigned long value)
{
	struct pt_regs *regs = task_pt_regs(task);

	/* The program has the flag for itself now, or goes on without it after the step. */
	if (value & OB_FLAG_STEP)
		clear_tsk_thread_flag(task, TIF_FORCED_TF);
	else if (test_tsk_thread_flag(task, TIF_FORCED_TF))
		value |= OB_FLAG_STEP;
	regs->flags = (regs->flags & ~OB_FLAGS_OWN) | (value & OB_FLAGS_OWN);
}

/* 0, or -EIO: the register cannot have that value. */
int ob_user_register_set(struct task_struct *task, unsigned int place, unsigned long value)
{
	struct pt_regs *regs = task_pt_regs(task);

	switch (ob_places[place]) {
	case OB_CS:
	case OB_SS:
	case OB_NO_SEGMENT:
		return value == ob_user_register(task, place) ? 0 : -EIO;
	case OB_PLACE(flags):
		ob_flags_set(task, value);
		return 0;
	case OB_PLACE(fs_base):
	case OB_PLACE(gs_base):
		if (value >= ob_layout.space_end)
			return -EIO;
		break;
	}
	((unsigned long *)regs)[ob_places[place]] = value;
	return 0;
}

static int ob_general_get(struct task_struct *task, const struct user_regset *regset,
			  struct membuf to)
{
	unsigned int place;

	/* A core dump has the registers before the memory. */
	if (current->flags & PF_DUMPCORE && current->mm)
		ob_sites_restore(current->mm);
	for (place = 0; place < OB_USER_REGISTERS; place++)
		membuf_store(&to, ob_user_register(task, place));
	return 0;
}

static int ob_general_set(struct task_struct *task, const struct user_regset *regset,
			  unsigned int offset, unsigned int size, const void *from,
			  const void __user *user)
{
	unsigned long value;
	int error = 0;

	while (size && !error) {
		unsigned int place = offset / sizeof(value);

		error = user_regset_copyin(&offset, &size, &from, &user, &value, offset,
					   offset + sizeof(value));
		if (!error)
			error = ob_user_register_set(task, place, value);
	}
	return error;
}

static int ob_vector_get(struct task_struct *task, const struct user_regset *regset,
			 struct membuf to)
{
	ob_vectors_show(task, &to, regset->core_note_type == NT_PRFPREG);
	return 0;
}

/* All of a set at once: half of a new state with half of an old one may be none. */
static int ob_vector_set(struct task_struct *task, const struct user_regset *regset,
			 unsigned int offset, unsigned int size, const void *from,
			 const void __user *user)
{
	void *area;
	int error;

	if (offset || size != regset->n * regset->size)
		return regset->core_note_type == NT_PRFPREG ? -EINVAL : -EFAULT;
	area = kmalloc(size, GFP_KERNEL);
	if (!area)
		return -ENOMEM;
	error = user_regset_copyin(&offset, &size, &from, &user, area, 0, -1);
	if (!error)
		error = ob_vectors_take(task, area, regset->core_note_type == NT_PRFPREG);
	kfree(area);
	return error;
}

static struct user_regset ob_regsets[] = {
	[OB_REGSET_GENERAL] = {
		.core_note_type = NT_PRSTATUS,
		.n = OB_USER_REGISTERS,
		.size = sizeof(long),
		.align = sizeof(long),
		.regset_get = ob_general_get,
		.set = ob_general_set,
	},
	[OB_REGSET_LEGACY] = {
		.core_note_type = NT_PRFPREG,
		.n = OB_LEGACY_SIZE / sizeof(long),
		.size = sizeof(long),
		.align = sizeof(long),
		.regset_get = ob_vector_get,
		.set = ob_vector_set,
	},
	[OB_REGSET_VECTOR] = {
		.core_note_type = NT_X86_XSTATE,
		.size = sizeof(long),
		.align = sizeof(long),
		.regset_get = ob_vector_get,
		.set = ob_vector_set,
	},
};

static const struct user_regset_view ob_view = {
	.name = "x86_64",
	.e_machine = EM_X86_64,
	.regsets = ob_regsets,
	.n = ARRAY_SIZE(ob_regsets),
};

const struct user_regset_view *ob_program_view(void)
{
	/* The processor decides, and there is a program: the size is known. */
	WRITE_ONCE(ob_regsets[OB_REGSET_VECTOR].n, ob_vectors_area_size() / sizeof(long));
	return &ob_view;
}
