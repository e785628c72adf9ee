// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's signal frame in a slot: how registers and events get in and out.
 *
 * A frame is always at the same place, since the stack for it is. The first frame of a stub, which
 * no user code has seen yet, shows where. Later frames are input of user code: each value is read
 * once and is a register of the same user code, or says what it did.
 *
 *   signal                        event
 *   SIGSYS of a filter            a system call; of another architecture: a general protection
 *                                 fault, as of a Linux without IA32 emulation
 *   sent, STUB_SIGNAL             interrupted
 *   SIGBUS of a page fault        gone: the host has no memory for a page of RAM. Above SPACE_END
 *                                 it is the trap: the host's clocks have pages that are not there
 *   SIGILL                        an invalid instruction. The host raises it by itself, too
 *   raised by the host itself     a general protection fault. The numbers in the frame are those of
 *                                 an older trap
 *   any other                     the trap
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "space.h"

#define VECTOR_LEGACY 512u	/* bytes of FXSAVE */
#define VECTOR_MXCSR 24u
#define VECTOR_MXCSR_MASK 28u
#define MXCSR_DEFAULT_MASK 0xffbfu
/* The host adds this to the format of XSAVE, in bytes that the processor leaves alone. */
#define VECTOR_HOST 464u
#define VECTOR_MAGIC 0x46505853u	/* FP_XSTATE_MAGIC1 */

#define VECTOR_INVALID 6
#define VECTOR_PAGE_FAULT 14
#define VECTOR_PROTECTION 13
/* Of `int 0x80` where no program may use it: the number of the gate. */
#define GATE_ERROR (0x80u << 3 | 2)
#define GATE_BYTES 2

/* The host's ucontext ends after a mask of 64 signals; the siginfo follows. */
#define HOST_CONTEXT_BYTES (offsetof(ucontext_t, uc_sigmask) + 8)

#define CODE_SEGMENT 0x33
#define DATA_SEGMENT 0x2b

struct host_vector {
	uint32_t magic, extended_size;
	uint64_t features;
	uint32_t size;
};

/* Offsets in a slot, and what XRSTOR takes. The same for all slots. */
static struct layout {
	uint32_t context, vector, vector_bytes;
	uint32_t mxcsr_mask;
	uint64_t features;
} layout;

/* A slot after the first stop of its thread. */
static char new_slot[SLOT_BYTES];

/* User code gets its registers from here. No pointer of a slot is followed. */
static ucontext_t *context_of(char *slot)
{
	return (ucontext_t *)(slot + layout.context);
}

static uint64_t load(const void *value)
{
	return __atomic_load_n((const uint64_t *)value, __ATOMIC_RELAXED);
}

static bool is_in_slot(uint64_t offset, uint64_t size)
{
	return offset >= SLOT_STACK && offset <= SLOT_BYTES && size <= SLOT_BYTES - offset;
}

bool ob_frame_learn(const char *slot)
{
	const uint64_t address = THREAD_SLOT(0);
	uint64_t context = *(const uint64_t *)(slot + SLOT_CONTEXT) - address, vector;
	struct layout new = { .context = (uint32_t)context };
	struct host_vector host;

	if (!is_in_slot(context, HOST_CONTEXT_BYTES + sizeof(siginfo_t)))
		return false;
	vector = (uint64_t)((const ucontext_t *)(slot + context))->uc_mcontext.fpregs - address;
	if (!is_in_slot(vector, VECTOR_LEAST))
		return false;
	memcpy(&host, slot + vector + VECTOR_HOST, sizeof(host));
	new.vector = (uint32_t)vector;
	new.vector_bytes = host.size;
	new.features = host.features;
	memcpy(&new.mxcsr_mask, slot + vector + VECTOR_MXCSR_MASK, sizeof(new.mxcsr_mask));
	if (!new.mxcsr_mask)
		new.mxcsr_mask = MXCSR_DEFAULT_MASK;
	if (host.magic != VECTOR_MAGIC || host.size < VECTOR_LEAST || host.size > VECTOR_MOST ||
	    !is_in_slot(vector, host.size))
		return false;
	if (!layout.context) {
		layout = new;
		memcpy(new_slot, slot, SLOT_BYTES);
		memset(new_slot + SLOT_THREAD, 0, sizeof(uint32_t));
	}
	return !memcmp(&layout, &new, sizeof(new));
}

uint64_t ob_frame_address(uint32_t vcpu)
{
	return THREAD_SLOT(vcpu) + layout.context;
}

/* It also has registers of the program before, which the next one must not find. */
void ob_frame_reset(char *slot, uint32_t done)
{
	memcpy(slot, new_slot, SLOT_BYTES);
	*(uint32_t *)(slot + SLOT_DONE) = done;
	*(uint32_t *)(slot + SLOT_SLEEPS) = 1;
}

/* In the order of struct ob_space_registers. */
static const uint8_t places[] = {
	REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9,
	REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP, REG_EFL,
};

#define PLACES (sizeof(places) / sizeof(places[0]))
_Static_assert(offsetof(struct ob_space_registers, flags) == (PLACES - 1) * 8, "as in the frame");

/* All that decides what rt_sigreturn does is written anew: user code may have changed it. */
void ob_frame_write(char *slot, uint32_t vcpu, const struct ob_space_registers *registers)
{
	const uint64_t *values = &registers->ax;
	ucontext_t *context = context_of(slot);
	greg_t *frame = context->uc_mcontext.gregs;

	for (size_t i = 0; i < PLACES; i++)
		frame[places[i]] = (greg_t)values[i];
	frame[REG_CSGSFS] = CODE_SEGMENT | (greg_t)DATA_SEGMENT << 48;
	context->uc_mcontext.fpregs = (void *)(THREAD_SLOT(vcpu) + layout.vector);
	context->uc_stack.ss_sp = (void *)(THREAD_SLOT(vcpu) + SLOT_STACK);
	context->uc_stack.ss_size = SLOT_BYTES - SLOT_STACK;
	context->uc_stack.ss_flags = 0;
	memset(&context->uc_sigmask, 0, 8);
	*(uint64_t *)(slot + SLOT_FS_BASE) = registers->fs_base;
	*(uint64_t *)(slot + SLOT_GS_BASE) = registers->gs_base;
}

static void read_event(const ucontext_t *context, const siginfo_t *info,
		       struct ob_space_registers *registers, struct ob_space_event *event)
{
	const greg_t *frame = context->uc_mcontext.gregs;
	uint64_t vector = load(&frame[REG_TRAPNO]);
	const int number = *(const volatile int *)&info->si_signo;
	const int code = *(const volatile int *)&info->si_code;
	const uint32_t arch = *(const volatile uint32_t *)&info->si_arch;

	*event = (struct ob_space_event){ .kind = OB_SPACE_TRAP };
	if (number == SIGILL)
		vector = VECTOR_INVALID;
	else if (code == SI_KERNEL && vector == VECTOR_PAGE_FAULT)
		vector = VECTOR_PROTECTION;
	if (number == SIGSYS && code > 0) {
		if (arch == AUDIT_ARCH_X86_64) {
			event->kind = OB_SPACE_SYSCALL;
			return;
		}
		registers->ip -= GATE_BYTES;
		event->vector = VECTOR_PROTECTION;
		event->error_code = GATE_ERROR;
	} else if (code <= 0 || number == STUB_SIGNAL || vector > 31) {
		event->kind = OB_SPACE_INTERRUPTED;
	} else if (number == SIGBUS && vector == VECTOR_PAGE_FAULT &&
		   load(&frame[REG_CR2]) < SPACE_END) {
		event->kind = OB_SPACE_GONE;
	} else {
		event->vector = (uint32_t)vector;
		event->error_code = load(&frame[REG_ERR]);
		if (vector == VECTOR_PAGE_FAULT)
			event->address = load(&frame[REG_CR2]);
	}
}

void ob_frame_read(const char *slot, struct ob_space_registers *registers,
		   struct ob_space_event *event)
{
	const ucontext_t *context = (const ucontext_t *)(slot + layout.context);
	const siginfo_t *info = (const siginfo_t *)((const char *)context + HOST_CONTEXT_BYTES);
	uint64_t *values = &registers->ax;

	for (size_t i = 0; i < PLACES; i++)
		values[i] = load(&context->uc_mcontext.gregs[places[i]]);
	registers->fs_base = load(slot + SLOT_FS_BASE);
	registers->gs_base = load(slot + SLOT_GS_BASE);
	read_event(context, info, registers, event);
}

/* ---- vector registers ---------------------------------------------------- */

/* The host would refuse this at rt_sigreturn, and end the stub. */
int ob_frame_check_vector(const void *area, uint64_t size)
{
	uint64_t header[8];
	uint32_t mxcsr;

	if (!layout.vector_bytes || size < VECTOR_LEAST)
		return -EINVAL;
	memcpy(&mxcsr, (const char *)area + VECTOR_MXCSR, sizeof(mxcsr));
	memcpy(header, (const char *)area + VECTOR_LEGACY, sizeof(header));
	if (mxcsr & ~layout.mxcsr_mask || header[0] & ~layout.features)
		return -EINVAL;
	for (int i = 1; i < 8; i++)
		if (header[i])
			return -EINVAL;
	return 0;
}

/* Leaves the bytes of the host alone. */
void ob_frame_load_vector(char *slot, const void *area)
{
	const char *from = area;
	char *to = slot + layout.vector;

	memcpy(to, from, VECTOR_HOST);
	memcpy(to + VECTOR_LEGACY, from + VECTOR_LEGACY, layout.vector_bytes - VECTOR_LEGACY);
}

void ob_frame_store_vector(const char *slot, void *area, uint64_t size)
{
	uint64_t bytes = size < layout.vector_bytes ? size : layout.vector_bytes;
	char *to = area;

	memcpy(to, slot + layout.vector, bytes);
	memset(to + bytes, 0, size - bytes);
	memset(to + VECTOR_HOST, 0, VECTOR_LEGACY - VECTOR_HOST);
}
