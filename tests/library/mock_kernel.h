/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stands in for the kernel in tests of the platform: implements the upcalls of
 * hypercall.h and notes how often they came.
 */
#ifndef OUTBOARD_TESTS_MOCK_KERNEL_H
#define OUTBOARD_TESTS_MOCK_KERNEL_H

#include <stdint.h>

#include <outboard/hypercall.h>
#include <outboard/platform_host.h>

struct mock_counts {
	uint32_t block_interrupts;
	uint32_t preemptions;
	uint32_t thread_exits;
	uint32_t forks;
	struct ob_fault last_fault;
};

extern struct mock_counts mock;

/* The handle of this kernel; made before main(). */
extern struct ob_host *mock_host;

/* The thread that was preempted last, as ob_host_thread_self names it. */
extern uint64_t mock_preempted_thread;

/*
 * Reads or writes one byte at any address, as the kernel's copy routines do:
 * 0, or -14 (EFAULT) by way of ob_kernel_fault.
 */
long mock_read_byte(const void *address);
long mock_write_byte(void *address);

#endif
