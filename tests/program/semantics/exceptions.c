// SPDX-License-Identifier: GPL-2.0-only
/* Exceptions of the processor, as the signals that Linux makes of them. */
#define _GNU_SOURCE
#include <fenv.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "semantics.h"

/* Each with a label at the instruction that faults. */
#define EXCEPTION(name, before, code)						\
	extern const char at_##name[];						\
	static __attribute__((noinline)) void do_##name(void)			\
	{									\
		__asm__ volatile(before "\n"					\
				 ".globl at_" #name "\n at_" #name ":\n"	\
				 code "\n"					\
				 : : "D"(scratch)				\
				 : "rax", "rcx", "rdx", "xmm0", "xmm1", "memory", "cc");	\
	}

static uint64_t scratch[8] __attribute__((aligned(64)));

EXCEPTION(divide, "xor %%edx, %%edx\n xor %%ecx, %%ecx\n mov $1, %%eax", "div %%ecx")
EXCEPTION(divide_overflow, "mov $-1, %%edx\n mov $1, %%ecx", "div %%ecx")
EXCEPTION(undefined, "", "ud2")
EXCEPTION(locked, "", ".byte 0xf0, 0x90")
EXCEPTION(breakpoint, "", "int3")
EXCEPTION(long_breakpoint, "", ".byte 0xcd, 3")
EXCEPTION(trap_instruction, "", ".byte 0xf1")
EXCEPTION(overflow_gate, "", ".byte 0xcd, 4")
EXCEPTION(other_gate, "", ".byte 0xcd, 0x42")
EXCEPTION(halt, "", "hlt")
EXCEPTION(no_interrupts, "", "cli")
EXCEPTION(control_register, "", "mov %%cr0, %%rax")
EXCEPTION(port, "mov $0x80, %%dx", "in %%dx, %%al")
EXCEPTION(model_register, "mov $0x10, %%ecx", "rdmsr")
EXCEPTION(too_long, "", ".fill 16, 1, 0x66\n nop")
EXCEPTION(beyond, "mov $0x1234567890abcdef, %%rax", "mov (%%rax), %%rax")
EXCEPTION(misaligned, "", "movaps 4(%%rdi), %%xmm0")
EXCEPTION(bad_segment, "mov $0x123, %%eax", "mov %%eax, %%ds")
EXCEPTION(write_page_0, "mov $24, %%eax", "movl $1, (%%rax)")
EXCEPTION(read_page_0, "mov $24, %%eax", "mov (%%rax), %%eax")
EXCEPTION(run_page_0, "mov $24, %%eax", "jmp *%%rax")
EXCEPTION(single_step, "pushf\n orl $0x100, (%%rsp)\n popf\n nop", "nop")

/* FE_INVALID and others: bits of both control words. */
static void unmask(int exceptions)
{
	uint32_t vectors = 0x1f80u & ~((uint32_t)exceptions << 7);
	uint16_t x87 = 0x37f & (uint16_t)~exceptions;

	__asm__ volatile("fnclex\n fldcw %0\n ldmxcsr %1" : : "m"(x87), "m"(vectors));
}

static volatile double zero, one = 1, tiny = 1e-300, huge = 1e300, result;
static volatile long double long_zero, long_one = 1, long_result;

static void do_vector_divide(void)
{
	unmask(FE_DIVBYZERO);
	result = one / zero;
}

static void do_vector_invalid(void)
{
	unmask(FE_INVALID);
	result = zero / zero;
}

static void do_vector_overflow(void)
{
	unmask(FE_OVERFLOW);
	result = huge * huge;
}

static void do_vector_underflow(void)
{
	unmask(FE_UNDERFLOW);
	result = tiny * tiny;
}

static void do_vector_inexact(void)
{
	unmask(FE_INEXACT);
	result = one / 3;
}

static void do_x87_divide(void)
{
	unmask(FE_DIVBYZERO);
	long_result = long_one / long_zero;
	__asm__ volatile("fwait");
}

static void do_x87_invalid(void)
{
	unmask(FE_INVALID);
	long_result = long_zero / long_zero;
	__asm__ volatile("fwait");
}

static void show(const char *name, void (*function)(void), const char *at)
{
	struct fault fault = call(function);

	/* A handler begins with registers of its own; the jump out of it keeps those. */
	__asm__ volatile("fninit\n ldmxcsr %0" : : "m"((uint32_t) { 0x1f80 }));
	printf("%s: signal %d code %d trap %ld", name, fault.number, fault.code, fault.trap);
	if (at) {
		printf(" at %+ld", fault.ip - (long)at);
		if (fault.address == at)
			printf(" address of the code");
		else
			printf(" address %lx", (unsigned long)fault.address);
	}
	printf("\n");
}

/* An instruction that goes over the end of a page that may be run. */
static void check_end_of_code(void)
{
	unsigned char *code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fault fault;

	CHECK(code != MAP_FAILED && !munmap(code + PAGE, PAGE));
	code[PAGE - 2] = 0xb8;
	fault = call((void (*)(void))(uintptr_t)(code + PAGE - 2));
	CHECK(fault.number == SIGSEGV && fault.address == code + PAGE);
	CHECK_EQUAL(fault.ip, (long)(code + PAGE - 2));
}

void exceptions(void)
{
#define SHOW(name) show(#name, do_##name, at_##name)
	SHOW(divide);
	SHOW(divide_overflow);
	SHOW(undefined);
	SHOW(locked);
	SHOW(breakpoint);
	SHOW(long_breakpoint);
	SHOW(trap_instruction);
	SHOW(overflow_gate);
	SHOW(other_gate);
	SHOW(halt);
	SHOW(no_interrupts);
	SHOW(control_register);
	SHOW(port);
	SHOW(model_register);
	SHOW(too_long);
	SHOW(beyond);
	SHOW(misaligned);
	SHOW(bad_segment);
	SHOW(write_page_0);
	SHOW(read_page_0);
	show("run_page_0", do_run_page_0, (const char *)24);
	SHOW(single_step);
	show("vector_divide", do_vector_divide, NULL);
	show("vector_invalid", do_vector_invalid, NULL);
	show("vector_overflow", do_vector_overflow, NULL);
	show("vector_underflow", do_vector_underflow, NULL);
	show("vector_inexact", do_vector_inexact, NULL);
	show("x87_divide", do_x87_divide, NULL);
	show("x87_invalid", do_x87_invalid, NULL);
	check_end_of_code();
}
