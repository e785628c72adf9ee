// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate's functions and the upcalls, as jumps into the kernel image that is loaded.
 *
 * Any thread may call at any time, also while a kernel is attached: each entry of the table is
 * always a function, and is replaced as a whole.
 */
#include <errno.h>
#include <stddef.h>

#include "kernel.h"

/* Without a kernel. */
static long no_kernel(void)
{
	return -ENODEV;
}

static int no_halt(int *halted)
{
	*halted = 0;
	return -ENODEV;
}

/* A fault or a signal is not a kernel's. */
static int not_ours(void)
{
	return 0;
}

/* The functions' types differ: what takes no argument and returns a number can stand in for all. */
#define WITHOUT_KERNEL {					\
	.size = sizeof(struct ob_upcalls),			\
	.version = OB_INTERFACE_VERSION,			\
	.version_magic = "",					\
	.boot = (void *)no_kernel,				\
	.syscall = (void *)no_kernel,				\
	.interrupt_call = (void *)no_kernel,			\
	.halt = no_halt,					\
	.free = (void *)no_kernel,				\
	.disk_add = (void *)no_kernel,				\
	.disk_remove = (void *)no_kernel,			\
	.component_load = (void *)no_kernel,			\
	.component_insert = (void *)no_kernel,			\
	.component_state = (void *)no_kernel,			\
	.interrupt = (void *)no_kernel,				\
	.fault = (void *)not_ours,				\
	.preempt_begin = not_ours,				\
	.preempt = (void *)no_kernel,				\
	.thread_exit = (void *)no_kernel,			\
	.forked = (void *)no_kernel,				\
}

static const struct ob_upcalls without_kernel = WITHOUT_KERNEL;

/* Not static: assembly refers to it. */
extern struct ob_upcalls ob_upcalls __attribute__((visibility("hidden")));
struct ob_upcalls ob_upcalls = WITHOUT_KERNEL;

#define UPCALL(name)							\
	__asm__ volatile(".pushsection .text, \"ax\"\n"		\
			 ".globl ob_kernel_" #name "\n"		\
			 ".type ob_kernel_" #name ", @function\n"	\
			 "ob_kernel_" #name ":\n"			\
			 "	jmp *ob_upcalls+%c0(%%rip)\n"		\
			 ".size ob_kernel_" #name ", . - ob_kernel_" #name "\n" \
			 ".popsection"					\
			 : : "i"(offsetof(struct ob_upcalls, name)));

/* Never called. It makes each ob_kernel_NAME, which jumps to the kernel's function. */
static __attribute__((used)) void make_upcalls(void)
{
	OB_UPCALLS(UPCALL)
}
#undef UPCALL

#define ATTACH(name) __atomic_store_n(&ob_upcalls.name, upcalls->name, __ATOMIC_RELEASE);
void ob_kernel_attach(const struct ob_upcalls *upcalls)
{
	if (!upcalls)
		upcalls = &without_kernel;
	__atomic_store_n(&ob_upcalls.version_magic, upcalls->version_magic, __ATOMIC_RELEASE);
	OB_UPCALLS(ATTACH)
}

const struct ob_upcalls *ob_kernel_table(void)
{
	return &ob_upcalls;
}

const char *ob_kernel_magic(void)
{
	return __atomic_load_n(&ob_upcalls.version_magic, __ATOMIC_ACQUIRE);
}
