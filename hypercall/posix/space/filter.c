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
 * A mapper makes the calls that its orders need. User threads inherit its filter: a call that this
 * refuses must be a SIGSYS, too, and not the end of the process.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "orders.h"
#include "space.h"

#define INSTRUCTIONS_MOST 48

struct page_filter {
	struct sock_fprog program;
	struct sock_filter instructions[INSTRUCTIONS_MOST];
};
_Static_assert(DOOR_DATA + 0x40 + sizeof(struct page_filter) <= LIST_DONE, "data fit");

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

void ob_filter_mapper(char *page, uint64_t address)
{
	static const uint32_t calls[] = {
		SYS_mmap, SYS_munmap, SYS_mprotect, SYS_pwrite64, SYS_futex, SYS_clone,
		SYS_close_range, SYS_sigaltstack, SYS_rt_sigprocmask, SYS_rt_sigreturn,
		SYS_seccomp, SYS_exit_group,
	};
	struct page_filter *filter = (struct page_filter *)page;
	struct builder b;

	begin(&b, filter);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		compare(&b, calls[i], 0, 1);
		allow(&b);
	}
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
