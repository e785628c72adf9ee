// SPDX-License-Identifier: GPL-2.0-only
/* See mock_kernel.h. */
#include <errno.h>
#include <stdlib.h>

#include "mock_kernel.h"

struct mock_counts mock;
struct ob_host *mock_host;
uint64_t mock_preempted_thread;

/* The instructions that may fault, and where to go on after a fault. */
extern const char mock_read_instruction[], mock_write_instruction[], mock_fault_resume[];

__asm__(".text\n"
	".globl mock_read_byte\n"
	"mock_read_byte:\n"
	"mock_read_instruction:\n"
	"	movzbl (%rdi), %eax\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	".globl mock_write_byte\n"
	"mock_write_byte:\n"
	"mock_write_instruction:\n"
	"	movb $1, (%rdi)\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"mock_fault_resume:\n"
	"	movq $-14, %rax\n"
	"	ret\n");

/* For tests that do not link the platform's part for the network. */
__attribute__((weak)) int ob_host_virtio_spare(struct ob_host *host)
{
	(void)host;
	return -ENODEV;
}

static int fault(struct ob_fault *place)
{
	if (place->instruction != (uint64_t)mock_read_instruction &&
	    place->instruction != (uint64_t)mock_write_instruction)
		return 0;
	mock.last_fault = *place;
	place->instruction = (uint64_t)mock_fault_resume;
	return 1;
}

static void interrupt(uint32_t number)
{
	if (number != OB_INTERRUPT_BLOCK)
		return;
	__atomic_add_fetch(&mock.block_interrupts, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(mock_host, &mock.block_interrupts, 1);
}

static int preempt_begin(void)
{
	return 1;
}

static void preempt(void)
{
	__atomic_store_n(&mock_preempted_thread, ob_host_thread_self(mock_host), __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&mock.preemptions, 1, __ATOMIC_SEQ_CST);
}

static void thread_exit(void)
{
	__atomic_add_fetch(&mock.thread_exits, 1, __ATOMIC_SEQ_CST);
}

static void forked(void)
{
	__atomic_add_fetch(&mock.forks, 1, __ATOMIC_SEQ_CST);
}

static const struct ob_upcalls upcalls = {
	.size = sizeof(upcalls),
	.version = OB_INTERFACE_VERSION,
	.interrupt = interrupt,
	.fault = fault,
	.preempt_begin = preempt_begin,
	.preempt = preempt,
	.thread_exit = thread_exit,
	.forked = forked,
};

static __attribute__((constructor)) void make_host(void)
{
	if (ob_platform_host_new(&upcalls, &mock_host))
		abort();
}
