/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hypercalls of one optional group: spaces, in which unmodified programs run as processes of the
 * kernel. The rules of hypercall.h hold.
 *
 * A space is an address space of user code, apart from the kernel's own. Its addresses are 0 to
 * ob_info.space_end - 1, and all its memory is RAM. The platform chooses that end. The kernel's
 * TASK_SIZE, random addresses and MAP_32BIT follow it. Addresses above belong to the platform:
 * user code can neither read nor write there anything that the kernel or the platform relies on.
 *
 * The kernel's page tables are the truth, and a space is a cache of them. The kernel shows a page
 * when user code has faulted, and hides it before the page serves another purpose. A platform may
 * drop what it shows at any time: user code then faults again.
 *
 *   create --> map, unmap, protect ... --> destroy
 *         `--> enter --> an event --> enter ...
 *
 * All registers of user code are in the kernel's memory while the user code does not run. So a
 * snapshot of a kernel with running programs needs nothing of the spaces: they fill again.
 *
 * Any thread that holds a vCPU may make these calls, with the caller's interrupts off and with
 * locks of the kernel held, except where noted. User code can ask the host for nothing: the kernel
 * alone decides what a system call does, and nothing that user code can write changes this.
 */
#ifndef OUTBOARD_HYPERCALL_SPACES_H
#define OUTBOARD_HYPERCALL_SPACES_H

#include <outboard/hypercall.h>

/*
 * Makes an empty space, and stores its number, which is not 0. The caller's interrupts are on, and
 * it holds no lock. The call waits for nothing but the host. The kernel kills the program after
 * -EAGAIN, -ENOMEM, or -ESRCH: the host makes no spaces any more.
 */
int ob_host_space_create(struct ob_host *host, uint64_t *space);

/* Ends a space in which no thread is. When it returns, nothing reaches RAM by that space. */
void ob_host_space_destroy(struct ob_host *host, uint64_t space);

/*
 * Shows `size` bytes of RAM from physical address `physical` at `address`, and replaces what was
 * shown there. All are multiples of 4096. `protection`: enum ob_protection. User code that enters
 * later sees the pages; user code that runs may fault once more. -ENOMEM: the host has no room. The
 * kernel then unmaps all of the space, and tries once more.
 */
int ob_host_space_map(struct ob_host *host, uint64_t space, uint64_t address, uint64_t physical,
		      uint64_t size, uint32_t protection);

/*
 * Hides a range. When it returns, no user code reaches the pages by that space, on any vCPU: the
 * kernel gives them away. The call may wait until the user code of another vCPU has stopped, but
 * for nothing that needs the kernel. It never fails: a platform that cannot hide the range ends the
 * space, and its user code gets OB_SPACE_GONE. The cost of hiding the whole space must not grow
 * with its size.
 */
void ob_host_space_unmap(struct ob_host *host, uint64_t space, uint64_t address, uint64_t size);

/*
 * The same, but takes only rights away: what was shown stays, with those of its rights that
 * `protection` has. -ENOSYS: the platform cannot, and the kernel unmaps the range.
 */
int ob_host_space_protect(struct ob_host *host, uint64_t space, uint64_t address, uint64_t size,
			  uint32_t protection);

/*
 * Optional: stores the address of a function that each space has, above its end. User code gets the
 * time by it without a system call:
 *
 *   int function(int clock, struct { int64_t seconds, nanoseconds; } *time);
 *
 * `clock` is CLOCK_MONOTONIC or CLOCK_REALTIME_COARSE, and the time is that of
 * ob_host_clock_monotonic() or ob_host_clock_realtime_coarse(). The function uses the stack and the
 * calling convention of C. In the place of an answer it may make the system call clock_gettime with
 * its own arguments: the kernel answers with the host's clock, if ip is above the end of the space.
 * -ENOSYS: there is none. The kernel asks once, before the first create, and as for that.
 */
int ob_host_space_clock(struct ob_host *host, uint64_t *address);

/*
 * Optional: stores the address of code that each space has, above its end. User code that jumps
 * there makes a system call, as the instruction `syscall` does, at less cost. rcx has the address
 * of an ob_space_call, in memory of the space. The event is OB_SPACE_CALL.
 *
 * The platform may refuse the call: then user code goes on at `refused`, with all registers but rcx
 * and r11 as they were before the jump, and 32 bits of the number in rax. If another event comes
 * before the call is made, it is as if user code had jumped to the ob_space_call itself: ip is the
 * value of rcx. The kernel asks once, before the first create, and as for that. -ENOSYS: there is
 * none.
 */
int ob_host_space_calls(struct ob_host *host, uint64_t *address);

/* Addresses of a call that is made by a jump. */
struct ob_space_call {
	uint64_t back;			/* user code goes on here when the call was made */
	uint64_t refused;
};

/* The registers of user code, as x86-64 names them. */
struct ob_space_registers {
	uint64_t ax, bx, cx, dx, si, di, bp, sp;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t ip, flags;
	uint64_t fs_base, gs_base;
};

enum ob_space_event_kind {
	/* A system call: its number is in ax, ip is behind the instruction. */
	OB_SPACE_SYSCALL,
	/* An exception of the processor; ip is that of the instruction, or behind a breakpoint. */
	OB_SPACE_TRAP,
	/* ob_host_space_interrupt(), or no reason at all. */
	OB_SPACE_INTERRUPTED,
	/* The host has ended the space. The kernel kills the program, and destroys the space. */
	OB_SPACE_GONE,
	/* A system call by ob_host_space_calls(): registers are as with OB_SPACE_SYSCALL. */
	OB_SPACE_CALL,
};

/* Why user code has stopped. All but `kind` is for OB_SPACE_TRAP, else 0. */
struct ob_space_event {
	uint32_t kind;			/* enum ob_space_event_kind */
	uint32_t vector;		/* of the exception: 14 is a page fault */
	uint64_t error_code;		/* as the processor gives it */
	uint64_t address;		/* of the access that faulted */
};

#define OB_SPACE_LAYOUT(type, member, offset)				\
	_Static_assert(__builtin_offsetof(struct type, member) == (offset),	\
		       "the layout is part of the interface")
OB_SPACE_LAYOUT(ob_space_registers, ax, 0);
OB_SPACE_LAYOUT(ob_space_registers, sp, 7 * 8);
OB_SPACE_LAYOUT(ob_space_registers, r8, 8 * 8);
OB_SPACE_LAYOUT(ob_space_registers, ip, 16 * 8);
OB_SPACE_LAYOUT(ob_space_registers, fs_base, 18 * 8);
OB_SPACE_LAYOUT(ob_space_registers, gs_base, 19 * 8);
OB_SPACE_LAYOUT(ob_space_event, vector, 4);
OB_SPACE_LAYOUT(ob_space_event, error_code, 8);
OB_SPACE_LAYOUT(ob_space_event, address, 16);
#undef OB_SPACE_LAYOUT

/*
 * Runs user code on the vCPU with these registers, until an event. Then the new registers and the
 * event are in memory. The caller's interrupts are off, and it holds no lock. Blocks: this is the
 * one hypercall that waits with a vCPU held, since ob_host_space_interrupt() ends it. The registers
 * may hold anything: the platform must not let user code gain a right by them. Flags that user code
 * may not change stay as they are. A non-canonical ip is a trap at the first instruction. For a
 * non-canonical base of fs or gs the event is that trap, too.
 *
 * Vector registers stay where the platform has them until ob_host_space_vector() or the next entry
 * on that vCPU.
 */
void ob_host_space_enter(struct ob_host *host, uint64_t space, uint32_t vcpu,
			 struct ob_space_registers *registers, struct ob_space_event *event);

/*
 * Moves the vector registers of user code, in the standard format of XSAVE: with `store` 1 those of
 * the last entry on that vCPU to `area`, with 0 those of `area` to the next entry. `size`: bytes of
 * `area`, which is aligned to 64. -EINVAL: `area` is too small, or has what XRSTOR refuses, or the
 * space is gone; the registers stay as they are. Blocks while the last entry's thread of the host
 * comes to rest.
 */
int ob_host_space_vector(struct ob_host *host, uint32_t vcpu, void *area, uint64_t size,
			 uint32_t store);

/*
 * Ends the entry of that vCPU soon: the one in progress, or else the next one. Calls may merge. It
 * must work whatever the user code does. Any thread or handler, with or without a vCPU.
 */
void ob_host_space_interrupt(struct ob_host *host, uint32_t vcpu);

#endif
