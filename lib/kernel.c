// SPDX-License-Identifier: GPL-2.0-only
/*
 * The targets of an instance's calls. Without a kernel, calls go to the functions here, which
 * refuse. The functions of outboard/gate.h are jumps into the default instance's kernel.
 *
 * Any thread may call at any time, also while a kernel is attached or detached. Each member of the
 * table is always a function, and is replaced atomically. A thread that has read a member may jump
 * there after the kernel's halt: the kernel's code stays, and refuses as well.
 */
#include <errno.h>
#include <stddef.h>

#include <outboard/gate.h>

#include "instance.h"

static long no_kernel(void)
{
	return -ENODEV;
}

static int no_halt(int *halted)
{
	*halted = 0;
	return -ENODEV;
}

/* The fault or signal belongs to no kernel. */
static int not_ours(void)
{
	return 0;
}

/* The types differ. A function without arguments that returns a number can replace all. */
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
	.service = (void *)no_kernel,				\
	.fault = (void *)not_ours,				\
	.preempt_begin = not_ours,				\
	.preempt = (void *)no_kernel,				\
	.thread_exit = (void *)no_kernel,			\
	.forked = (void *)no_kernel,				\
	.virtio_add = (void *)no_kernel,			\
	.virtio_remove = (void *)no_kernel,			\
	.sockets = (void *)no_kernel,				\
	.boot_number = (void *)no_kernel,			\
	.abort_call = (void *)no_kernel,			\
	.process_new = (void *)no_kernel,			\
	.process_clone = (void *)no_kernel,			\
	.process_claim = (void *)no_kernel,			\
	.process_exec = (void *)no_kernel,			\
	.process_leave = (void *)no_kernel,			\
	.program_start = (void *)no_kernel,			\
}

static const struct ob_upcalls without_kernel = WITHOUT_KERNEL;

/* Assembly refers to it. */
extern struct ob_instance ob_default __attribute__((visibility("hidden")));
struct ob_instance ob_default = {
	.upcalls = WITHOUT_KERNEL,
	.taken = true,
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.log = OB_NO_LOG,
	.net = OB_NO_NET,
};

_Static_assert(offsetof(struct ob_instance, upcalls) == 0, "the jumps below count from there");

#define GATE(name)							\
	__asm__ volatile(".pushsection .text, \"ax\"\n"		\
			 ".globl ob_kernel_" #name "\n"		\
			 ".type ob_kernel_" #name ", @function\n"	\
			 "ob_kernel_" #name ":\n"			\
			 "	jmp *ob_default+%c0(%%rip)\n"		\
			 ".size ob_kernel_" #name ", . - ob_kernel_" #name "\n" \
			 ".popsection"					\
			 : : "i"(offsetof(struct ob_upcalls, name)));

/* Never called. It defines ob_kernel_NAME, which jumps to the kernel's function. */
static __attribute__((used)) void make_gate(void)
{
	GATE(syscall)
	GATE(interrupt_call)
}
#undef GATE

/*
 * An older kernel's table is shorter: such a kernel lacks the functions at the end. One without a
 * driver has NULL.
 */
#define HAS(table, name)							\
	((table)->size >= offsetof(struct ob_upcalls, name) + sizeof((table)->name) &&	\
	 (table)->name)
#define ATTACH(name)								\
	__atomic_store_n(&instance->upcalls.name,				\
			 HAS(upcalls, name) ? upcalls->name : without_kernel.name, \
			 __ATOMIC_RELEASE);
#define IS_FAULT(name) (offsetof(struct ob_upcalls, name) == offsetof(struct ob_upcalls, fault))
#define CLOSE(name)								\
	if (!IS_FAULT(name))							\
		__atomic_store_n(&instance->upcalls.name, without_kernel.name,	\
				 __ATOMIC_RELEASE);
void ob_instance_attach(struct ob_instance *instance, const struct ob_upcalls *upcalls)
{
	if (!upcalls)
		upcalls = &without_kernel;
	__atomic_store_n(&instance->upcalls.version_magic, upcalls->version_magic,
			 __ATOMIC_RELEASE);
	OB_UPCALLS(ATTACH)
}

void ob_instance_close(struct ob_instance *instance)
{
	OB_UPCALLS(CLOSE)
}
