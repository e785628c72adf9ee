// SPDX-License-Identifier: GPL-2.0-only
/*
 * Coroutines: stacks with guard pages, and the switch from one to another.
 *
 * A saved coroutine is a stack pointer with the callee-saved registers of the
 * System V ABI above it. Floating-point control words are not switched: kernel
 * code does not change them.
 */
#include <linux/export.h>
#include <linux/irqflags.h>
#include <linux/types.h>
#include <asm/host.h>
#include <asm/page.h>

#include "coroutine.h"
#include "lock.h"

/* A slot is a guard area with a stack above. Kernel code needs 16 KB; host signals add frames. */
#define OB_STACK_SIZE (64UL << 10)
#define OB_STACK_SLOT (128UL << 10)

/* Free stacks that keep their memory. */
#define OB_STACKS_WARM 32

struct ob_stacks {
	struct ob_lock lock;
	unsigned long used;		/* bytes of the region that were ever in use */
	unsigned long free_count;
	void *free;			/* linked through the top word of each stack */
};
static struct ob_stacks ob_stacks;

static void **ob_stack_link(void *stack)
{
	return stack + OB_STACK_SIZE - sizeof(void *);
}

static void *ob_stack_extend(void)
{
	unsigned long slot = ob_layout.stacks + ob_stacks.used;
	unsigned long stack = slot + OB_STACK_SLOT - OB_STACK_SIZE;

	if (slot + OB_STACK_SLOT > ob_layout.stacks_end ||
	    ob_host_region_commit(ob_host, stack, OB_STACK_SIZE))
		return NULL;
	ob_stacks.used += OB_STACK_SLOT;
	return (void *)stack;
}

/* Returns the lowest address of a stack, NULL if there are no more. Any thread. */
void *ob_stack_alloc(void)
{
	unsigned long flags = ob_lock_raw(&ob_stacks.lock);
	void *stack = ob_stacks.free;

	if (stack) {
		ob_stacks.free = *ob_stack_link(stack);
		ob_stacks.free_count--;
	} else {
		stack = ob_stack_extend();
	}
	ob_unlock_raw(&ob_stacks.lock, flags);
	return stack;
}

/* The stack must not be in use any more. Any thread. */
void ob_stack_free(void *stack)
{
	unsigned long flags = ob_lock_raw(&ob_stacks.lock);

	if (ob_stacks.free_count >= OB_STACKS_WARM)
		ob_host_region_discard(ob_host, (unsigned long)stack, OB_STACK_SIZE - PAGE_SIZE);
	*ob_stack_link(stack) = ob_stacks.free;
	ob_stacks.free = stack;
	ob_stacks.free_count++;
	ob_unlock_raw(&ob_stacks.lock, flags);
}

/* Every stack that was ever handed out, used or free. */
int ob_stacks_visit(int (*visit)(void *stack, size_t size))
{
	unsigned long slot = ob_layout.stacks, end = slot + ob_stacks.used;
	int error = 0;

	for (; slot < end && !error; slot += OB_STACK_SLOT)
		error = visit((void *)(slot + OB_STACK_SLOT - OB_STACK_SIZE), OB_STACK_SIZE);
	return error;
}

/*
 * The new stack has, from below: the registers that ob_coroutine_switch pops, the entry, and the
 * entry's return address. The latter is 0, which ends back-traces. The ABI wants the stack pointer
 * 8 bytes off a multiple of 16 at an entry.
 */
void *ob_coroutine_prepare(void *stack, void (*entry)(void))
{
	unsigned long *top = stack + OB_STACK_SIZE;
	int i;

	*--top = 0;
	*--top = (unsigned long)entry;
	for (i = 0; i < 6; i++)
		*--top = 0;
	return top;
}

/*
 * void ob_coroutine_switch(void **save, void *load)
 *
 * The platform may make a stack accessible only at a fault, whose handler needs a stack. So the
 * code touches the new stack while it is still on the old one.
 */
asm(".text\n"
    ".globl ob_coroutine_switch\n"
    ".type ob_coroutine_switch, @function\n"
    "ob_coroutine_switch:\n"
    "	pushq %rbp\n"
    "	pushq %rbx\n"
    "	pushq %r12\n"
    "	pushq %r13\n"
    "	pushq %r14\n"
    "	pushq %r15\n"
    "	movq %rsp, (%rdi)\n"
    "	movq (%rsi), %rax\n"
    "	movq %rsi, %rsp\n"
    "	popq %r15\n"
    "	popq %r14\n"
    "	popq %r13\n"
    "	popq %r12\n"
    "	popq %rbx\n"
    "	popq %rbp\n"
    "	ret\n"
    ".size ob_coroutine_switch, . - ob_coroutine_switch\n");
