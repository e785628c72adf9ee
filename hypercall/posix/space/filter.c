// SPDX-License-Identifier: GPL-2.0-only
/*
 * The seccomp filters of stubs.
 *
 * A user thread may make three system calls, each at one instruction of stub.S, in its own page:
 *
 *   call                      at                arguments
 *   futex, FUTEX_WAKE         ob_stub_wake      any: user code that wakes its own threads does no
 *                                               harm
 *   futex, FUTEX_WAIT         ob_stub_asleep    the word `state` of its own door
 *   rt_sigreturn              ob_stub_return    -
 *
 * Every other call raises SIGSYS, which is an event of the space: calls at other instructions, with
 * numbers of x32, and of another architecture (int 0x80).
 *
 * A mapper makes the calls that its orders need, the zygote those of its own and of the stubs that
 * it makes. Their orders come from the kernel's process, whose sandbox would be in vain without
 * this: an image that has taken the kernel over could order any call. User threads inherit these
 * filters: a call that one refuses must be a SIGSYS, too, and not the end of the process.
 *
 *   call of the zygote        with
 *   clone                     the flags of a stub, or of a thread in one
 *   prctl                     PR_SET_PDEATHSIG, PR_SET_NAME
 *   kill                      SIGKILL, one process (zygote.c: it must be a stub)
 *   tgkill                    STUB_SIGNAL
 *   sched_setaffinity         the caller
 *   calls on its own memory   any
 *   and descriptors
 */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "orders.h"
#include "space.h"

#define INSTRUCTIONS_MOST 72

struct page_filter {
	struct sock_fprog program;
	struct sock_filter instructions[INSTRUCTIONS_MOST];
};
_Static_assert(DOOR_DATA + 0x40 + sizeof(struct page_filter) <= LIST_CHILD - PROCESSORS_MOST / 8,
	       "data fit");

#define NUMBER offsetof(struct seccomp_data, nr)
#define ARCHITECTURE offsetof(struct seccomp_data, arch)
#define POINTER offsetof(struct seccomp_data, instruction_pointer)
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + 8 * (n))

struct builder {
	struct sock_filter *next;
};

static void add(struct builder *b, uint32_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	*b->next++ = (struct sock_filter){ (uint16_t)code, jt, jf, k };
}

static void load(struct builder *b, size_t offset)
{
	add(b, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Skips instructions if the loaded value is, or is not, `value`. */
static void compare(struct builder *b, uint32_t value, uint8_t if_equal, uint8_t if_not)
{
	add(b, BPF_JMP | BPF_JEQ | BPF_K, value, if_equal, if_not);
}

static void trap(struct builder *b)
{
	add(b, BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);
}

static void allow(struct builder *b)
{
	add(b, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

/* Raises SIGSYS unless the 64 bits at `offset` are `value`. */
static void require(struct builder *b, size_t offset, uint64_t value)
{
	load(b, offset);
	compare(b, (uint32_t)value, 1, 0);
	trap(b);
	load(b, offset + 4);
	compare(b, (uint32_t)(value >> 32), 1, 0);
	trap(b);
}

static void begin(struct builder *b, struct page_filter *filter)
{
	b->next = filter->instructions;
	load(b, ARCHITECTURE);
	compare(b, AUDIT_ARCH_X86_64, 1, 0);
	trap(b);
	load(b, NUMBER);
}

static void end(struct builder *b, struct page_filter *filter, uint64_t address)
{
	filter->program.len = (uint16_t)(b->next - filter->instructions);
	filter->program.filter = (void *)(address + offsetof(struct page_filter, instructions));
}

static void allow_calls(struct builder *b, const uint32_t *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		compare(b, calls[i], 0, 1);
		allow(b);
	}
}

/* The loaded number: allows the call if the argument is one of two values, else raises SIGSYS. */
static void allow_with(struct builder *b, uint32_t call, unsigned int argument, uint32_t one,
		       uint32_t other)
{
	compare(b, call, 0, 5);
	load(b, ARGUMENT(argument));
	compare(b, one, 1, 0);
	compare(b, other, 0, 1);
	allow(b);
	trap(b);
}

/* Calls of a mapper that no argument makes dangerous. */
static const uint32_t plain_calls[] = {
	SYS_rt_sigreturn, SYS_futex, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_pwrite64,
	SYS_close_range, SYS_sigaltstack, SYS_rt_sigprocmask, SYS_seccomp, SYS_exit_group,
};

/* Further ones of the zygote, and of a stub before it has a filter. */
static const uint32_t zygote_calls[] = { SYS_read, SYS_wait4, SYS_getppid, SYS_rt_sigaction };

void ob_filter_zygote(char *page, uint64_t address)
{
	struct page_filter *filter = (struct page_filter *)page;
	struct builder b;

	begin(&b, filter);
	allow_calls(&b, plain_calls, sizeof(plain_calls) / sizeof(plain_calls[0]));
	allow_calls(&b, zygote_calls, sizeof(zygote_calls) / sizeof(zygote_calls[0]));
	allow_with(&b, SYS_clone, 0, STUB_CLONE, THREAD_CLONE);
	allow_with(&b, SYS_prctl, 0, PR_SET_PDEATHSIG, PR_SET_NAME);
	allow_with(&b, SYS_tgkill, 2, STUB_SIGNAL, STUB_SIGNAL);
	allow_with(&b, SYS_sched_setaffinity, 0, 0, 0);
	compare(&b, SYS_kill, 1, 0);
	trap(&b);
	load(&b, ARGUMENT(0));
	/* Not a group of processes, or all. */
	add(&b, BPF_JMP | BPF_JGE | BPF_K, 0x80000000, 0, 1);
	trap(&b);
	load(&b, ARGUMENT(1));
	compare(&b, SIGKILL, 1, 0);
	trap(&b);
	allow(&b);
	end(&b, filter, address);
}

void ob_filter_mapper(char *page, uint64_t address)
{
	struct page_filter *filter = (struct page_filter *)page;
	struct builder b;

	begin(&b, filter);
	allow_calls(&b, plain_calls, sizeof(plain_calls) / sizeof(plain_calls[0]));
	allow_with(&b, SYS_clone, 0, THREAD_CLONE, THREAD_CLONE);
	allow_with(&b, SYS_sched_setaffinity, 0, 0, 0);
	trap(&b);
	end(&b, filter, address);
}

void ob_filter_thread(char *page, uint64_t address, uint32_t vcpu)
{
	const uint64_t code = THREAD_CODE(vcpu);
	struct page_filter *filter = (struct page_filter *)page;
	struct sock_filter *other, *wait;
	struct builder b;

	begin(&b, filter);
	other = b.next;
	compare(&b, SYS_rt_sigreturn, 0, 0);
	require(&b, POINTER, ob_stub_address(code, ob_stub_return));
	allow(&b);
	other->jf = (uint8_t)(b.next - other - 1);
	compare(&b, SYS_futex, 1, 0);
	trap(&b);
	load(&b, ARGUMENT(1));
	wait = b.next;
	compare(&b, FUTEX_WAKE, 0, 0);
	require(&b, POINTER, ob_stub_address(code, ob_stub_wake));
	allow(&b);
	wait->jf = (uint8_t)(b.next - wait - 1);
	compare(&b, FUTEX_WAIT, 1, 0);
	trap(&b);
	require(&b, POINTER, ob_stub_address(code, ob_stub_asleep));
	require(&b, ARGUMENT(0), THREAD_DOOR(vcpu) + DOOR_STATE);
	allow(&b);
	end(&b, filter, address);
}
