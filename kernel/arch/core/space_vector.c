// SPDX-License-Identifier: GPL-2.0-only
/*
 * Vector registers of programs. Each program's task has an area in the standard format of XSAVE.
 * The host keeps the registers of the last entry on each vCPU, so most events move nothing.
 *
 *   where the newest registers are          vectors_newer   vectors_on
 *   in the area                             false           NULL
 *   in the area, and on that vCPU           false           the vCPU
 *   on that vCPU only                       true            the vCPU
 *
 *   when                                    what is done
 *   the task enters its space               loads them, unless the vCPU has them
 *   user code has run                       the vCPU has newer ones
 *   the task is switched from, copied, or   fetches them
 *   gets a signal frame
 *   execve(), a signal handler, sigreturn   the area is the newest
 *
 * A vCPU has the registers of one task: `vectors_of`. Formats, leaves and bits: Intel's manual,
 * volume 1, chapter 13; the layout of a frame is the ABI of x86-64 Linux.
 */
#include <linux/bits.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/regset.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/host.h>
#include <outboard/hypercall_spaces.h>
#include "space_vector.h"
#include "vcpu.h"

/* The part of an area that FXSAVE has, and the header behind it. */
struct ob_xsave {
	u16 control, status;
	u8 tag, reserved;
	u16 opcode;
	u64 instruction, operand;
	u32 mxcsr, mxcsr_mask;
	u8 registers[8 * 16 + 16 * 16];
	u8 padding[48];
	/* A signal frame says this of itself. */
	struct ob_frame_note {
		u32 magic, whole_size;
		u64 components;
		u32 size, padding[7];
	} note;
	u64 components, compaction, header[6];
};

#define OB_FRAME_MAGIC 0x46505853
#define OB_FRAME_MAGIC_END 0x46505845

#define OB_X87_INITIAL 0x37f
#define OB_MXCSR_INITIAL 0x1f80
#define OB_MXCSR_BITS 0xffff

/* Components that programs have: x87, SSE, AVX, AVX-512 (three), protection keys. */
#define OB_LEGACY_COMPONENTS (BIT(0) | BIT(1))
#define OB_COMPONENTS (OB_LEGACY_COMPONENTS | BIT(2) | BIT(5) | BIT(6) | BIT(7) | BIT(9))
#define OB_COMPONENT_LAST 9

static u64 ob_components;
static unsigned int ob_vectors_size;

static void ob_leaf(u32 number, u32 part, u32 *a, u32 *b, u32 *c)
{
	u32 d;

	*a = number;
	*c = part;
	asm volatile("cpuid" : "+a" (*a), "=b" (*b), "+c" (*c), "=d" (d));
}

static u64 ob_components_enabled(void)
{
	u32 a, b, c, low, high;

	ob_leaf(1, 0, &a, &b, &c);
	/* Whether the host uses XSAVE. */
	if (!(c & BIT(27)))
		return OB_LEGACY_COMPONENTS;
	asm volatile("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
	return low & OB_COMPONENTS;
}

/* Finds what the processor has. Any number of times. */
void ob_vectors_setup(void)
{
	unsigned int component, size = offsetofend(struct ob_xsave, header);
	u64 components = ob_components_enabled();
	u32 length, offset, flags;

	BUILD_BUG_ON(offsetof(struct ob_xsave, note) != 464);
	BUILD_BUG_ON(offsetof(struct ob_xsave, components) != OB_LEGACY_SIZE);
	for (component = 2; component <= OB_COMPONENT_LAST; component++) {
		if (!(components & BIT(component)))
			continue;
		ob_leaf(0xd, component, &length, &offset, &flags);
		size = max(size, offset + length);
	}
	ob_components = components;
	WRITE_ONCE(ob_vectors_size, size);
}

static void ob_vectors_init(struct ob_xsave *area)
{
	memset(area, 0, ob_vectors_size);
	area->control = OB_X87_INITIAL;
	area->mxcsr = OB_MXCSR_INITIAL;
}

/* Areas of kmalloc() have the alignment of their size, if that is a power of two. */
static void *ob_vectors_alloc(void)
{
	return kmalloc(roundup_pow_of_two(ob_vectors_size), GFP_KERNEL_ACCOUNT);
}

/* For a task that is about to run a program. 0, or -ENOMEM. */
int ob_vectors_make(struct thread_struct *thread)
{
	thread->vectors = ob_vectors_alloc();
	if (!thread->vectors)
		return -ENOMEM;
	ob_vectors_init(thread->vectors);
	return 0;
}

/* For a copy of the calling task. 0, or -ENOMEM. */
int ob_vectors_copy(struct thread_struct *thread)
{
	thread->vectors = ob_vectors_alloc();
	if (!thread->vectors)
		return -ENOMEM;
	ob_vectors_fetch(current);
	memcpy(thread->vectors, current->thread.vectors, ob_vectors_size);
	return 0;
}

void ob_vectors_free(struct thread_struct *thread)
{
	thread->vectors_newer = false;
	kfree(thread->vectors);
	thread->vectors = NULL;
}

/* The area has the newest registers. */
static void ob_vectors_changed(struct thread_struct *thread)
{
	thread->vectors_newer = false;
	thread->vectors_on = NULL;
}

/* The calling task's registers are as at the start of a program. */
void ob_vectors_reset(void)
{
	ob_vectors_changed(&current->thread);
	ob_vectors_init(current->thread.vectors);
}

/*
 * Gets the registers of a task that this vCPU has run. If the host cannot, it has ended the space,
 * and the task finds that at its next entry.
 */
void ob_vectors_fetch(struct task_struct *task)
{
	struct thread_struct *thread = &task->thread;

	if (!thread->vectors_newer)
		return;
	thread->vectors_newer = false;
	if (ob_host_space_vector(ob_host, thread->vectors_on->id, thread->vectors, ob_vectors_size,
				 1))
		thread->vectors_on = NULL;
}

/*
 * Before the calling task enters its space on this vCPU: the registers are the task's. Interrupts
 * are off. Returns false if the host refuses them. Then the task has registers as at a start.
 */
bool ob_vectors_load(struct ob_vcpu *vcpu)
{
	struct thread_struct *thread = &current->thread;

	if (unlikely(vcpu->vectors_of != current || thread->vectors_on != vcpu)) {
		if (ob_host_space_vector(ob_host, vcpu->id, thread->vectors, ob_vectors_size, 0)) {
			ob_vectors_reset();
			return false;
		}
		vcpu->vectors_of = current;
		thread->vectors_on = vcpu;
	}
	thread->vectors_newer = true;
	return true;
}

/* The si_code of SIGFPE: exceptions that are raised and not masked. */
int ob_vectors_fault_code(bool is_x87)
{
	const struct ob_xsave *area = current->thread.vectors;
	u32 raised;

	ob_vectors_fetch(current);
	if (is_x87)
		raised = area->status & ~area->control;
	else
		raised = area->mxcsr & ~(area->mxcsr >> 7);
	if (raised & BIT(0))
		return FPE_FLTINV;
	if (raised & BIT(2))
		return FPE_FLTDIV;
	if (raised & BIT(3))
		return FPE_FLTOVF;
	if (raised & (BIT(1) | BIT(4)))
		return FPE_FLTUND;
	return raised & BIT(5) ? FPE_FLTRES : FPE_FLTUNK;
}

/* Bytes of a signal frame's vector registers. */
unsigned long ob_vectors_frame_size(void)
{
	return ob_vectors_size + sizeof(u32);
}

/*
 * A component that is as at a start need not be in the area. Programs look at the oldest ones
 * without asking.
 */
static void ob_vectors_complete(struct ob_xsave *area)
{
	if (!(area->components & BIT(0))) {
		area->control = OB_X87_INITIAL;
		area->status = area->tag = area->opcode = 0;
		area->instruction = area->operand = 0;
		memset(area->registers, 0, 8 * 16);
	}
	if (!(area->components & BIT(1)))
		memset(area->registers + 8 * 16, 0, 16 * 16);
	area->components |= OB_LEGACY_COMPONENTS;
}

/* Writes the calling task's registers to its signal frame. 0, or -EFAULT. */
int ob_vectors_to_frame(void __user *frame)
{
	struct ob_xsave *area = current->thread.vectors;
	u32 end = OB_FRAME_MAGIC_END;

	ob_vectors_fetch(current);
	ob_vectors_complete(area);
	area->note = (struct ob_frame_note) {
		.magic = OB_FRAME_MAGIC,
		.whole_size = ob_vectors_frame_size(),
		.components = ob_components,
		.size = ob_vectors_size,
	};
	if (copy_to_user(frame, area, ob_vectors_size) ||
	    copy_to_user(frame + ob_vectors_size, &end, sizeof(end)))
		return -EFAULT;
	return 0;
}

/* Bytes of the frame that are in XSAVE's format; OB_LEGACY_SIZE: only FXSAVE's. */
static unsigned int ob_frame_data(const struct ob_xsave *area, const void __user *frame)
{
	const struct ob_frame_note *note = &area->note;
	u32 end;

	if (note->magic != OB_FRAME_MAGIC || note->size > ob_vectors_size ||
	    note->size < offsetofend(struct ob_xsave, header) ||
	    note->whole_size < note->size + sizeof(end))
		return OB_LEGACY_SIZE;
	if (copy_from_user(&end, frame + note->size, sizeof(end)) || end != OB_FRAME_MAGIC_END)
		return OB_LEGACY_SIZE;
	return note->size;
}

/* XRSTOR would refuse this. The processor has the last word: ob_vectors_load(). */
static bool ob_vectors_are_valid(const struct ob_xsave *area)
{
	return !(area->mxcsr & ~OB_MXCSR_BITS) && !area->compaction &&
	       !memchr_inv(area->header, 0, sizeof(area->header));
}

/*
 * Takes the registers from the calling task's signal frame; NULL: as at a start. 0, or -EFAULT:
 * then the task is about to get SIGSEGV.
 */
int ob_vectors_from_frame(const void __user *frame)
{
	struct ob_xsave *area = current->thread.vectors;
	unsigned int size;
	u64 components;

	ob_vectors_reset();
	if (!frame)
		return 0;
	if (copy_from_user(area, frame, OB_LEGACY_SIZE))
		goto refused;
	size = ob_frame_data(area, frame);
	if (copy_from_user((void *)area + OB_LEGACY_SIZE, frame + OB_LEGACY_SIZE,
			   size - OB_LEGACY_SIZE))
		goto refused;
	components = size == OB_LEGACY_SIZE ? OB_LEGACY_COMPONENTS : area->components;
	if (components & ~ob_components || !ob_vectors_are_valid(area))
		goto refused;
	area->components = components;
	return 0;
refused:
	ob_vectors_reset();
	return -EFAULT;
}

/* Of XSAVE's standard format on this processor, a multiple of 8. */
unsigned int ob_vectors_area_size(void)
{
	return round_up(ob_vectors_size, sizeof(u64));
}

/* The bytes of components that are as at a start are not defined. */
static void ob_vectors_clear_unused(struct ob_xsave *area)
{
	unsigned int component;
	u32 length, offset, flags;

	for (component = 2; component <= OB_COMPONENT_LAST; component++) {
		if (!(ob_components & BIT(component)) || area->components & BIT(component))
			continue;
		ob_leaf(0xd, component, &length, &offset, &flags);
		memset((void *)area + offset, 0, length);
	}
}

/*
 * For a debugger or a core dump: the registers of a stopped task, or the calling one. `legacy`: the
 * part that FXSAVE has. Debuggers look for the components that there are where a frame's note is.
 */
void ob_vectors_show(struct task_struct *task, struct membuf *to, bool legacy)
{
	struct ob_xsave *area = task->thread.vectors;
	u64 note[6] = { ob_components };

	ob_vectors_fetch(task);
	ob_vectors_complete(area);
	ob_vectors_clear_unused(area);
	membuf_write(to, area, offsetof(struct ob_xsave, note));
	if (!legacy) {
		membuf_write(to, note, sizeof(note));
		membuf_write(to, &area->components, ob_vectors_size - OB_LEGACY_SIZE);
	}
	membuf_zero(to, to->left);
}

/* By a debugger, for a stopped task. 0, or -EINVAL: no processor would take them. */
int ob_vectors_take(struct task_struct *task, struct ob_xsave *from, bool legacy)
{
	struct ob_xsave *area = task->thread.vectors;

	if (legacy) {
		if (from->mxcsr & ~OB_MXCSR_BITS)
			return -EINVAL;
		memcpy(area, from, offsetof(struct ob_xsave, note));
		area->components |= OB_LEGACY_COMPONENTS;
	} else {
		if (from->components & ~ob_components || !ob_vectors_are_valid(from))
			return -EINVAL;
		memcpy(area, from, ob_vectors_size);
	}
	ob_vectors_changed(&task->thread);
	return 0;
}
