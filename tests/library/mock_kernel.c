// SPDX-License-Identifier: GPL-2.0-only
/* See mock_kernel.h. */
#include "mock_kernel.h"

struct mock_counts mock;
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

int ob_kernel_fault(struct ob_fault *fault)
{
	if (fault->instruction != (uint64_t)mock_read_instruction &&
	    fault->instruction != (uint64_t)mock_write_instruction)
		return 0;
	mock.last_fault = *fault;
	fault->instruction = (uint64_t)mock_fault_resume;
	return 1;
}

void ob_kernel_interrupt(uint32_t interrupt)
{
	if (interrupt != OB_INTERRUPT_BLOCK)
		return;
	__atomic_add_fetch(&mock.block_interrupts, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(&mock.block_interrupts, 1);
}

int ob_kernel_preempt_begin(void)
{
	return 1;
}

void ob_kernel_preempt(void)
{
	__atomic_store_n(&mock_preempted_thread, ob_host_thread_self(), __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&mock.preemptions, 1, __ATOMIC_SEQ_CST);
}

void ob_kernel_thread_exit(void)
{
	__atomic_add_fetch(&mock.thread_exits, 1, __ATOMIC_SEQ_CST);
}

void ob_kernel_forked(void)
{
	__atomic_add_fetch(&mock.forks, 1, __ATOMIC_SEQ_CST);
}
