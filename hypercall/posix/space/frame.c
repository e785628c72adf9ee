// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers in a slot: how they and events get in and out.
 *
 * The platform writes a ucontext of its own (SLOT_PREPARED), with which user code goes on. The
 * host's signal frame is elsewhere, always at the same place, since the stack for it is. The first
 * frame of a stub, which no user code has seen yet, shows where. Vector registers that the platform
 * does not replace stay in that frame.
 *
 * User code can write all that is read: each value is read once and is a register of the same user
 * code, or says what it did.
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

_Static_assert(SLOT_PREPARED + HOST_CONTEXT_BYTES <= SLOT_VECTOR && SLOT_VECTOR % 64 == 0 &&
	       SLOT_VECTOR + VECTOR_MOST + sizeof(uint32_t) <= SLOT_STACK, "registers fit");
_Static_assert(CONTEXT_IP == offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]), "as in stub.S");

/* Flags that `lahf` stores, and the one that `seto` does. */
#define FLAGS_LOW 0xd5ull
#define FLAG_OVERFLOW 0x800ull

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
	uint32_t magic_end, unused;	/* no padding: layouts are compared as bytes */
	char note[VECTOR_LEGACY - VECTOR_HOST];
} layout;

/* A slot after the first stop of its thread. */
static char new_slot[SLOT_BYTES];

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
	memcpy(new.note, slot + vector + VECTOR_HOST, sizeof(new.note));
	new.vector = (uint32_t)vector;
	new.vector_bytes = host.size;
	new.features = host.features;
	memcpy(&new.mxcsr_mask, slot + vector + VECTOR_MXCSR_MASK, sizeof(new.mxcsr_mask));
	if (!new.mxcsr_mask)
		new.mxcsr_mask = MXCSR_DEFAULT_MASK;
	if (host.magic != VECTOR_MAGIC || host.size < VECTOR_LEAST || host.size > VECTOR_MOST ||
	    !is_in_slot(vector, host.size + sizeof(new.magic_end)))
		return false;
	memcpy(&new.magic_end, slot + vector + host.size, sizeof(new.magic_end));
	if (!layout.context) {
		layout = new;
		memcpy(new_slot, slot, SLOT_BYTES);
		memset(new_slot + SLOT_THREAD, 0, sizeof(uint32_t));
	}
	return !memcmp(&layout, &new, sizeof(new));
}

uint64_t ob_frame_vector(uint32_t vcpu, uint64_t *features)
{
	*features = layout.features;
	return THREAD_SLOT(vcpu) + layout.vector;
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

const char *ob_frame_new_vector(void)
{
	return new_slot + layout.vector;
}

/* All of it: user code may have changed what was there. */
static void write_vector(char *to, const char *from)
{
	memcpy(to, from, VECTOR_HOST);
	memcpy(to + VECTOR_HOST, layout.note, sizeof(layout.note));
	memcpy(to + VECTOR_LEGACY, from + VECTOR_LEGACY, layout.vector_bytes - VECTOR_LEGACY);
	memcpy(to + layout.vector_bytes, &layout.magic_end, sizeof(layout.magic_end));
}

void ob_frame_write(char *slot, uint32_t vcpu, const struct ob_space_registers *registers,
		    const char *vector, bool has_calls)
{
	const uint64_t *values = &registers->ax;
	ucontext_t *context = (ucontext_t *)(slot + SLOT_PREPARED);
	greg_t *frame = context->uc_mcontext.gregs;
	const bool is_free = has_calls && !registers->gs_base;

	memcpy(context, new_slot + layout.context, HOST_CONTEXT_BYTES);
	for (size_t i = 0; i < PLACES; i++)
		frame[places[i]] = (greg_t)values[i];
	frame[REG_CSGSFS] = CODE_SEGMENT | (greg_t)DATA_SEGMENT << 48;
	context->uc_mcontext.fpregs =
		(void *)(THREAD_SLOT(vcpu) + (vector ? SLOT_VECTOR : layout.vector));
	if (vector)
		write_vector(slot + SLOT_VECTOR, vector);
	context->uc_stack.ss_sp = (void *)(THREAD_SLOT(vcpu) + SLOT_STACK);
	context->uc_stack.ss_size = SLOT_BYTES - SLOT_STACK;
	context->uc_stack.ss_flags = 0;
	memset(&context->uc_sigmask, 0, 8);
	*(uint64_t *)(slot + SLOT_FS_BASE) = registers->fs_base;
	*(uint64_t *)(slot + SLOT_GS_BASE) = is_free ? THREAD_SLOT(vcpu) : registers->gs_base;
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

/* ---- calls by a jump (stub.S) -------------------------------------------- */

/* The flags that user code had, of which `ax` has those of lahf and seto. */
static uint64_t unpack_flags(uint64_t ax, uint64_t flags)
{
	const uint8_t overflow = (uint8_t)ax;

	flags &= ~(FLAGS_LOW | FLAG_OVERFLOW);
	flags |= ax >> 8 & FLAGS_LOW;
	/* Or what the instruction that restores the flag leaves. */
	return overflow == 1 || overflow == 0x80 ? flags | FLAG_OVERFLOW : flags;
}

/* Its lower half, which the processor takes for the number of a call. */
static uint64_t unpack_ax(uint64_t ax)
{
	return (uint32_t)__builtin_bswap64(ax);
}

static bool is_between(uint64_t ip, uint64_t code, const char *label, const char *end)
{
	return ip - ob_stub_address(code, label) < (uint64_t)(end - label);
}

/* User code was interrupted on its way to a call: the call has not begun. */
static void undo_call(const char *slot, uint32_t vcpu, struct ob_space_registers *registers)
{
	const uint64_t ip = registers->ip, own = THREAD_CODE(vcpu);
	const bool saves = is_between(ip, own, ob_stub_save, ob_stub_complete);

	if (!saves && !is_between(ip, MAPPER_CODE, ob_stub_call, ob_stub_save))
		return;
	if (is_between(ip, own, ob_stub_save_sp, ob_stub_save_end))
		registers->sp = load(slot + CALL_SP);
	if (saves || is_between(ip, MAPPER_CODE, ob_stub_call_flags, ob_stub_call_refused))
		registers->flags = unpack_flags(registers->ax, registers->flags);
	if (saves || is_between(ip, MAPPER_CODE, ob_stub_call_swapped, ob_stub_call_restored))
		registers->ax = unpack_ax(registers->ax);
	else if (is_between(ip, MAPPER_CODE, ob_stub_call_restored, ob_stub_save))
		registers->ax = (uint32_t)registers->ax;
	registers->ip = registers->cx;
}

static void read_call(const char *slot, struct ob_space_registers *registers)
{
	uint64_t *values = &registers->ax;

	for (size_t i = 0; i < PLACES; i++)
		values[i] = load(slot + SLOT_CALL + i * 8);
	registers->flags = unpack_flags(registers->ax, registers->flags);
	registers->ax = unpack_ax(registers->ax);
	/* As the instruction leaves them. */
	registers->cx = registers->ip;
	registers->r11 = registers->flags;
}

static void read_frame(const char *slot, uint32_t vcpu, struct ob_space_registers *registers,
		       struct ob_space_event *event)
{
	const ucontext_t *context = (const ucontext_t *)(slot + layout.context);
	const siginfo_t *info = (const siginfo_t *)((const char *)context + HOST_CONTEXT_BYTES);
	uint64_t *values = &registers->ax;

	for (size_t i = 0; i < PLACES; i++)
		values[i] = load(&context->uc_mcontext.gregs[places[i]]);
	read_event(context, info, registers, event);
	if (event->kind != OB_SPACE_SYSCALL)
		undo_call(slot, vcpu, registers);
}

/* User code may have read its base of gs on one vCPU, and written it on another one. */
static bool is_slot(uint64_t address)
{
	const uint64_t distance = address - THREAD_SLOT(0);

	return distance % THREAD_BYTES == 0 && distance / THREAD_BYTES < VCPUS_MOST;
}

bool ob_frame_read(const char *slot, uint32_t vcpu, struct ob_space_registers *registers,
		   struct ob_space_event *event, bool has_calls)
{
	const uint32_t kind = *(const volatile uint32_t *)(slot + SLOT_EVENT);

	*event = (struct ob_space_event){ .kind = OB_SPACE_INTERRUPTED };
	if (kind == EVENT_NONE)
		return false;
	if (kind == EVENT_CALL && has_calls) {
		read_call(slot, registers);
		event->kind = OB_SPACE_CALL;
	} else {
		read_frame(slot, vcpu, registers, event);
	}
	registers->fs_base = load(slot + SLOT_FS_BASE);
	registers->gs_base = load(slot + SLOT_GS_BASE);
	if (has_calls && is_slot(registers->gs_base))
		registers->gs_base = 0;
	return true;
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

void ob_frame_store_vector(const char *slot, void *area, uint64_t size)
{
	uint64_t bytes = size < layout.vector_bytes ? size : layout.vector_bytes;
	char *to = area;

	memcpy(to, slot + layout.vector, bytes);
	memset(to + bytes, 0, size - bytes);
	memset(to + VECTOR_HOST, 0, VECTOR_LEGACY - VECTOR_HOST);
}
