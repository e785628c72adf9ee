// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that attack the stub they run in (invariant V19), by forged signal frames, by registers
 * and instructions that the host does not expect, and by what they leave to the next program.
 * space_hostile_test.c has jumps and calls. Arguments: names of tests; none: all. Link with
 * space_tracer.c, space_bed.c and platform_bed.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "space_tracer.h"
#include "space/orders.h"
#include "space/space.h"

/* Where the tests forge a frame: its ucontext, and its vector registers. */
#define VECTORS_OFFSET PAGE
#define DATA_PAGES 4
/* Offsets in the area of vector registers. */
#define MXCSR 24
#define HOST_BYTES 464
#define HEADER 512

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct {
	uint32_t frames, events[OB_SPACE_GONE + 1];
} tried;

static char *slot_of(uint64_t space, uint32_t vcpu)
{
	return mock_host->spaces->spaces[space].threads[vcpu].slot;
}

/* A genuine frame of the host, as the first stop of a thread has left it. */
static struct {
	char context[sizeof(ucontext_t)], vectors[2 * PAGE];
} genuine;

static void learn(uint64_t space)
{
	const char *slot = slot_of(space, 0);
	uint64_t context = *(const uint64_t *)(slot + SLOT_CONTEXT) - THREAD_SLOT(0), vectors;

	memcpy(genuine.context, slot + context, offsetof(ucontext_t, uc_sigmask) + 8);
	vectors = (uint64_t)((ucontext_t *)genuine.context)->uc_mcontext.fpregs - THREAD_SLOT(0);
	CHECK(vectors < SLOT_BYTES);
	memcpy(genuine.vectors, slot + vectors,
	       SLOT_BYTES - vectors < 2 * PAGE ? SLOT_BYTES - vectors : 2 * PAGE);
}

static uint64_t new_forger(void)
{
	uint64_t space = new_attacker();

	learn(space);
	for (uint64_t i = 1; i < DATA_PAGES; i++)
		map(space, DATA + i * PAGE, DATA_PAGE + i * PAGE, WRITE);
	return space;
}

static ucontext_t *frame(void)
{
	return (ucontext_t *)ram(DATA_PAGE);
}

static char *vectors(void)
{
	return ram(DATA_PAGE + VECTORS_OFFSET);
}

/* A frame that the host takes: a system call at CODE follows. */
static void write_genuine(void)
{
	greg_t *registers_of = frame()->uc_mcontext.gregs;

	memcpy(ram(DATA_PAGE), genuine.context, sizeof(genuine.context));
	memcpy(vectors(), genuine.vectors, sizeof(genuine.vectors));
	registers_of[REG_RIP] = CODE;
	registers_of[REG_RAX] = 39;
	registers_of[REG_RSP] = DATA + 2 * PAGE;
	frame()->uc_mcontext.fpregs = (void *)(DATA + VECTORS_OFFSET);
}

/*
 * Has the host take the frame at DATA. A new attacker takes the place of one that dies of it.
 * Returns the kind of the event.
 */
static uint32_t submit(uint64_t *space)
{
	uint32_t kind;

	registers = (struct ob_space_registers){
		.ip = ob_stub_address(THREAD_CODE(0), ob_stub_return) - 2, .ax = SYS_rt_sigreturn,
		.sp = DATA, .flags = 0x202,
	};
	tried.frames++;
	kind = enter_to_event(*space);
	tried.events[kind]++;
	if (kind == OB_SPACE_GONE) {
		end_attacker(*space);
		*space = new_forger();
	}
	write_genuine();
	return kind;
}

static void begin(uint64_t *bystander, uint64_t *space)
{
	*bystander = new_space(BYTES(SYSCALL LOOP));
	*space = new_forger();
	write_genuine();
	repeat(interrupt_all);
}

/* The attackers have ended: nothing escaped, and the other program goes on. */
static void check_after(uint64_t bystander)
{
	printf("%u entries: %u system calls, %u traps, %u stubs died\n", tried.frames,
	       tried.events[OB_SPACE_SYSCALL], tried.events[OB_SPACE_TRAP],
	       tried.events[OB_SPACE_GONE]);
	fflush(stdout);
	CHECK_EQUAL(traced.escaped, 0);
	memcpy(ram(CODE_PAGE), SYSCALL LOOP, 4);
	check_others(bystander);
}

static void end(uint64_t bystander, uint64_t space)
{
	end_repeating();
	end_attacker(space);
	check_after(bystander);
}

/* A frame without a mistake is taken: else the following tests would test nothing. */
static void check_genuine(uint64_t *space)
{
	CHECK_EQUAL(submit(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ip, CODE + 2);
}

static void test_segments(void)
{
	static const uint16_t selectors[] = {
		0, 3, 0x10, 0x13, 0x18, 0x23, 0x2b, 0x30, 0x33, 0x37, 0x4b, 0x53, 0x63, 0xfff7,
	};
	uint64_t bystander, space;

	begin(&bystander, &space);
	check_genuine(&space);
	for (size_t i = 0; i < COUNT(selectors) * COUNT(selectors); i++) {
		uint64_t code = selectors[i / COUNT(selectors)];
		uint64_t stack = selectors[i % COUNT(selectors)];

		frame()->uc_flags = i % 8;
		frame()->uc_mcontext.gregs[REG_CSGSFS] =
			(greg_t)(code | (i % 3 ? 0x0033002b0000 : 0) | stack << 48);
		submit(&space);
	}
	end(bystander, space);
}

static void test_flags(void)
{
	uint64_t bystander, space;

	begin(&bystander, &space);
	check_genuine(&space);
	for (int bit = 0; bit <= 64; bit++) {
		frame()->uc_mcontext.gregs[REG_EFL] = bit < 64 ? (greg_t)(1ull << bit) : -1;
		CHECK(submit(&space) != OB_SPACE_GONE);
		/* IOPL, VM and interrupts are not the program's to change. */
		CHECK_EQUAL(registers.flags & 0x23200, 0x200);
	}
	end(bystander, space);
}

static void test_pointers(void)
{
	static const uint64_t odd[] = {
		0, 1, 8, DATA + 8, DATA + VECTORS_OFFSET + 1, DATA + DATA_PAGES * PAGE - 64,
		CODE, 0x12345000, 1ull << 47, 1ull << 63, 0xffffffff81000000, 0xffffffffff600000,
		~0ull, SPACE_END, THREAD_CODE(0), THREAD_DOOR(0), THREAD_SLOT(0), THREAD_SLOT(1),
		MAPPER_DOOR, ADDRESS_END - 64, ADDRESS_END,
	};
	uint64_t bystander, space;

	begin(&bystander, &space);
	check_genuine(&space);
	for (size_t i = 0; i < COUNT(odd); i++) {
		frame()->uc_mcontext.fpregs = (void *)odd[i];
		submit(&space);
		frame()->uc_mcontext.gregs[REG_RIP] = (greg_t)odd[i];
		submit(&space);
		frame()->uc_mcontext.gregs[REG_RSP] = (greg_t)odd[i];
		submit(&space);
	}
	end(bystander, space);
}

/* Vector registers that the host's XRSTOR refuses, or takes in another way. */
static void test_vectors(void)
{
	static const uint32_t sizes[] = { 0, 1, 511, 512, 576, 832, 4096, 1u << 20, ~0u };
	uint64_t bystander, space;

	begin(&bystander, &space);
	check_genuine(&space);
	for (int bit = 0; bit < 128; bit++) {
		vectors()[HEADER + bit / 8] ^= (char)(1 << bit % 8);
		submit(&space);
	}
	for (int byte = HEADER + 16; byte < HEADER + 64; byte += 8) {
		vectors()[byte] = 1;
		submit(&space);
	}
	for (int bit = 0; bit < 32; bit++) {
		*(uint32_t *)(vectors() + MXCSR) = 1u << bit;
		submit(&space);
	}
	for (size_t i = 0; i < COUNT(sizes); i++) {
		*(uint32_t *)(vectors() + HOST_BYTES + 4) = sizes[i];
		submit(&space);
		*(uint32_t *)(vectors() + HOST_BYTES + 16) = sizes[i];
		submit(&space);
		*(uint32_t *)(vectors() + HOST_BYTES) = sizes[i];
		submit(&space);
	}
	end(bystander, space);
}

/* Signals that are blocked, and other stacks for the host's frames. */
static void test_masks_and_stacks(void)
{
	static const struct {
		uint64_t address, size;
		int flags;
	} stacks[] = {
		{ 0, 0, SS_DISABLE }, { DATA, 2 * PAGE, 0 }, { DATA, 16, 0 }, { CODE, PAGE, 0 },
		{ THREAD_SLOT(0), SLOT_BYTES, 0 }, { THREAD_SLOT(0) + 0x4000, 0x1000, 0 },
		{ THREAD_SLOT(1), SLOT_BYTES, 0 }, { MAPPER_DOOR, DOOR_BYTES, 0 },
		{ THREAD_SLOT(0), SLOT_BYTES, SS_ONSTACK }, { THREAD_SLOT(0), SLOT_BYTES, 1 << 31 },
		{ 1ull << 63, ~0ull, 0 }, { 0, ~0ull, ~0 },
	};
	uint64_t bystander, space;

	begin(&bystander, &space);
	check_genuine(&space);
	for (int number = 0; number <= 64; number++) {
		memset(&frame()->uc_sigmask, 0, 8);
		if (number)
			sigaddset(&frame()->uc_sigmask, number);
		else
			memset(&frame()->uc_sigmask, 0xff, 8);
		CHECK_EQUAL(submit(&space) == OB_SPACE_GONE, !number || number == SIGSYS);
	}
	for (size_t i = 0; i < COUNT(stacks); i++) {
		frame()->uc_stack = (stack_t){
			.ss_sp = (void *)stacks[i].address, .ss_size = stacks[i].size,
			.ss_flags = stacks[i].flags,
		};
		submit(&space);
	}
	end(bystander, space);
}

/* The host's frame does not go where the platform looks for it. */
static void test_stack_in_slot(void)
{
	static const uint64_t others[] = {
		0, 1, 7, THREAD_DOOR(0) + 64, THREAD_CODE(0) + 64, THREAD_SLOT(1) + 0x3000,
		MAPPER_DOOR, ADDRESS_END - 8, 1ull << 47, 1ull << 63, ~0ull,
	};
	const uint64_t in_slot = SLOT_BYTES / 384;
	uint64_t bystander, space;

	begin(&bystander, &space);
	for (uint64_t i = 0; i < in_slot + COUNT(others); i++) {
		registers = (struct ob_space_registers){
			.ip = CODE, .flags = 0x202,
			.sp = i < in_slot ? THREAD_SLOT(0) + i * 384 : others[i - in_slot],
		};
		if (enter_to_event(space) != OB_SPACE_GONE)
			continue;
		end_attacker(space);
		space = new_forger();
	}
	end(bystander, space);
}

/* ---- late signals -------------------------------------------------------- */

/* A page of code with the stack for signals behind it; aligned as the slots of threads are. */
#define SLED 0x600000ull
#define SLED_PAGE (16 * PAGE)
#define SLED_STACK_PAGES 7
#define COUNT_AT (3 * PAGE)

/* A sender that has seen the thread run, and gets its next turn after the thread has reported. */
static void *signal_late(void *space)
{
	struct ob_spaces *all = mock_host->spaces;

	usleep(50000);
	ob_zygote_signal(all, 0, &all->spaces[*(uint64_t *)space].threads[0]);
	__atomic_fetch_sub(&all->vcpus[0].senders, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* The handler jumps to somewhere in the sled, at whose end is a loop that counts. */
static void show_sled(uint64_t space)
{
	/* incl DATA + COUNT_AT; jmp */
	static const char loop[] = "\xff\x04\x25\x00\x30\x50\x00\xeb\xf7";

	memset(ram(SLED_PAGE), 0x90, PAGE);
	memcpy(ram(SLED_PAGE) + PAGE - sizeof(loop), loop, sizeof(loop) - 1);
	map(space, SLED, SLED_PAGE, EXECUTE);
	for (uint64_t i = 1; i <= SLED_STACK_PAGES; i++)
		map(space, SLED + i * PAGE, SLED_PAGE + i * PAGE, WRITE);
}

/* Reports the end of the entry, and sleeps as a thread that stands still does; without a mask. */
static void write_sleeper(uint64_t space)
{
	/* mov %eax, (%rdx); jmp *%rcx */
	static const char code[] = "\x89\x02\xff\xe1";
	greg_t *registers_of = frame()->uc_mcontext.gregs;

	memcpy(ram(CODE_PAGE), code, sizeof(code));
	write_genuine();
	registers_of[REG_RAX] = mock_host->spaces->spaces[space].threads[0].entry + 1;
	registers_of[REG_RDX] = THREAD_SLOT(0) + SLOT_DONE;
	registers_of[REG_RCX] = (greg_t)ob_stub_address(THREAD_CODE(0), ob_stub_asleep);
	memset(&frame()->uc_sigmask, 0, 8);
	frame()->uc_stack = (stack_t){
		.ss_sp = (void *)(SLED + PAGE), .ss_size = SLED_STACK_PAGES * PAGE,
	};
}

/* User code that sleeps is no proof either, as long as a signal may wake it. */
static void test_late_signal(void)
{
	uint64_t bystander = new_space(BYTES(SYSCALL LOOP)), space = new_forger();
	volatile uint32_t *count = (volatile uint32_t *)(ram(DATA_PAGE) + COUNT_AT);
	uint32_t before;
	pthread_t thread;

	show_sled(space);
	write_sleeper(space);
	__atomic_fetch_add(&mock_host->spaces->vcpus[0].senders, 1, __ATOMIC_SEQ_CST);
	CHECK(!pthread_create(&thread, NULL, signal_late, &space));
	registers = (struct ob_space_registers){
		.ip = ob_stub_address(THREAD_CODE(0), ob_stub_return) - 2, .ax = SYS_rt_sigreturn,
		.sp = DATA, .flags = 0x202,
	};
	enter(space);
	before = *count;
	CHECK(!pthread_join(thread, NULL));
	usleep(100000);
	/* It has run before that: else the test would test nothing. */
	CHECK(*count);
	CHECK_EQUAL(*count, before);
	ob_host_space_destroy(mock_host, space);
	memcpy(ram(CODE_PAGE), SYSCALL LOOP, 4);
	check_others(bystander);
}

/* ---- instructions -------------------------------------------------------- */

/* Vectors that may follow, as bits; 0: none, the next instruction is a system call. */
#define NONE (1ull << 63)
#define INVALID (1ull << 6)
#define PROTECTED (1ull << 13)

static const struct {
	const char *code;
	size_t size;
	uint64_t vectors;
} instructions[] = {
	{ BYTES("\x0f\xa2"), NONE },				/* cpuid */
	{ BYTES("\x0f\x31"), NONE },				/* rdtsc */
	{ BYTES("\x0f\x01\xf9"), NONE | INVALID },		/* rdtscp */
	{ BYTES("\x0f\x33"), NONE | PROTECTED },		/* rdpmc */
	{ BYTES("\x0f\x01\xc8"), INVALID | PROTECTED },		/* monitor */
	{ BYTES("\x0f\x01\xc9"), INVALID | PROTECTED },		/* mwait */
	{ BYTES("\x0f\x0b"), INVALID },				/* ud2 */
	{ BYTES("\x0f\xb9\xc0"), INVALID },			/* ud1 */
	{ BYTES("\xf4"), PROTECTED },				/* hlt */
	{ BYTES("\xe4\x60"), PROTECTED },			/* in */
	{ BYTES("\xec"), PROTECTED },				/* in (%dx) */
	{ BYTES("\xe6\x80"), PROTECTED },			/* out */
	{ BYTES("\xfa"), PROTECTED },				/* cli */
	{ BYTES("\xfb"), PROTECTED },				/* sti */
	{ BYTES("\x0f\x01\x13"), PROTECTED },			/* lgdt */
	{ BYTES("\x0f\x01\x1b"), PROTECTED },			/* lidt */
	{ BYTES("\x0f\x00\xd0"), PROTECTED },			/* lldt */
	{ BYTES("\x0f\x00\xd8"), PROTECTED },			/* ltr */
	{ BYTES("\x0f\x20\xc0"), PROTECTED },			/* mov %cr0 */
	{ BYTES("\x0f\x22\xd8"), PROTECTED },			/* mov to %cr3 */
	{ BYTES("\x0f\x23\xf8"), PROTECTED },			/* mov to %dr7 */
	{ BYTES("\x0f\x06"), PROTECTED },			/* clts */
	{ BYTES("\x0f\x30"), PROTECTED },			/* wrmsr */
	{ BYTES("\x0f\x32"), PROTECTED },			/* rdmsr */
	{ BYTES("\x0f\x08"), PROTECTED },			/* invd */
	{ BYTES("\x0f\x09"), PROTECTED },			/* wbinvd */
	{ BYTES("\x0f\x01\x3b"), PROTECTED },			/* invlpg */
	{ BYTES("\x0f\x01\xf8"), PROTECTED },			/* swapgs */
	{ BYTES("\x48\x0f\x07"), PROTECTED },			/* sysret */
	{ BYTES("\x48\x0f\x35"), PROTECTED },			/* sysexit */
	{ BYTES("\x0f\x34"), INVALID | PROTECTED },		/* sysenter */
	{ BYTES("\x0f\x01\xd1"), PROTECTED },			/* xsetbv */
	{ BYTES("\x0f\xaa"), INVALID },				/* rsm */
	{ BYTES("\xf1"), 1ull << 1 },				/* int1 */
	{ BYTES("\xce"), INVALID },				/* into */
	{ BYTES("\x8e\xd8"), NONE | PROTECTED },		/* mov %eax, %ds */
	{ BYTES("\x8e\xe8"), NONE | PROTECTED },		/* mov %eax, %gs */
	{ BYTES("\x66\x0f\x05"), NONE },			/* syscall, with a prefix */
	{ BYTES("\x48\x0f\x05"), NONE },			/* the same */
	{ BYTES("\x0f\x01\x03"), NONE | PROTECTED },		/* sgdt */
	{ BYTES("\x48\xcf"), PROTECTED },			/* iretq, of zeros */
	{ BYTES("\x9d"), NONE },				/* popf, of zeros */
};

static void test_instructions(void)
{
	uint64_t bystander, space, seen;

	begin(&bystander, &space);
	memset(ram(DATA_PAGE), 0, PAGE);
	for (size_t i = 0; i < COUNT(instructions); i++) {
		char *code = ram(CODE_PAGE);

		memcpy(code, instructions[i].code, instructions[i].size);
		memcpy(code + instructions[i].size, SYSCALL LOOP, 4);
		registers = (struct ob_space_registers){
			.ip = CODE, .sp = DATA + 512, .bx = DATA + 64, .ax = 39, .flags = 0x202,
		};
		seen = enter_to_event(space) == OB_SPACE_SYSCALL ? NONE : 1ull << event.vector;
		CHECK(event.kind != OB_SPACE_GONE);
		if (!(seen & instructions[i].vectors)) {
			fprintf(stderr, "instruction %zu: vectors %#lx\n", i, (unsigned long)seen);
			CHECK(!"another trap");
		}
	}
	end(bystander, space);
}

/* Gates of the processor's interrupt table: int $n. The host may offer those of int3 and into. */
static void test_gates(void)
{
	uint64_t bystander, space;

	begin(&bystander, &space);
	for (unsigned int number = 0; number < 256; number++) {
		const char code[] = { (char)0xcd, (char)number, '\xeb', '\xfe' };

		memcpy(ram(CODE_PAGE), code, sizeof(code));
		registers = (struct ob_space_registers){ .ip = CODE, .sp = DATA + 512 };
		CHECK_EQUAL(enter_to_event(space), OB_SPACE_TRAP);
		if (number == 3 || number == 4) {
			CHECK_EQUAL(event.vector, number);
			continue;
		}
		CHECK_EQUAL(event.vector, 13);
		CHECK_EQUAL(event.error_code, number << 3 | 2);
		CHECK_EQUAL(registers.ip, CODE);
	}
	end(bystander, space);
}

/* Rights of memory keys: the handler must run without any. */
static void test_keys(void)
{
	/* wrpkru; syscall; mov (%rbx), %rax; syscall */
	static const char code[] = "\x0f\x01\xef" SYSCALL "\x48\x8b\x03" SYSCALL;
	uint64_t bystander, space;

	begin(&bystander, &space);
	memcpy(ram(CODE_PAGE), code, sizeof(code));
	registers = (struct ob_space_registers){ .ip = CODE, .ax = 0xffffffff, .bx = DATA };
	enter_to_event(space);
	/* Without keys the instruction is invalid; hosts before Linux 6.12 kill the stub. */
	if (event.kind == OB_SPACE_SYSCALL) {
		CHECK_EQUAL(enter_to_event(space), OB_SPACE_TRAP);
		CHECK_EQUAL(event.vector, 14);
		CHECK_EQUAL(event.error_code & 0x20, 0x20);
	} else {
		CHECK(event.kind == OB_SPACE_GONE || event.vector == 6);
	}
	end(bystander, space);
}

static void test_bases(void)
{
	static const uint64_t values[] = {
		0, 1, CODE, SPACE_END, ADDRESS_END, (1ull << 47) - 1, 0xffff800000000000,
		0xffffffff81000000, ~0ull, 1ull << 47, 1ull << 48, 1ull << 63,
	};
	uint64_t bystander, space;

	begin(&bystander, &space);
	/* wrfsbase %rax; wrgsbase %rbx; syscall; jmp back to it */
	memcpy(ram(CODE_PAGE),
	       BYTES("\xf3\x48\x0f\xae\xd0\xf3\x48\x0f\xae\xdb" SYSCALL "\xeb\xfc"));
	for (size_t i = 0; i < COUNT(values); i++) {
		bool is_canonical = values[i] + (1ull << 47) < 1ull << 48;

		registers = (struct ob_space_registers){ .ip = CODE, .ax = values[i],
							 .bx = values[i] };
		if (!is_canonical) {
			CHECK_EQUAL(enter_to_event(space), OB_SPACE_TRAP);
			CHECK_EQUAL(event.vector, 13);
			continue;
		}
		for (int again = 0; again < 2; again++) {
			CHECK_EQUAL(enter_to_event(space), OB_SPACE_SYSCALL);
			CHECK_EQUAL(registers.fs_base, values[i]);
			CHECK_EQUAL(registers.gs_base, values[i]);
		}
	}
	end(bystander, space);
}

/* ---- a second thread of the program -------------------------------------- */

static bool is_writing;
static uint64_t written_to, written;

/* mov %rax, (%rdx); jmp back: user code of vCPU 1 */
#define WRITER 64
#define WRITER_CODE "\x48\x89\x02\xeb\xfb"

static void *write_on(void *space)
{
	struct ob_space_registers mine = {
		.ip = CODE + WRITER, .dx = written_to, .ax = written,
	};
	struct ob_space_event last = { 0 };

	do {
		ob_host_space_enter(mock_host, *(uint64_t *)space, 1, &mine, &last);
	} while (last.kind == OB_SPACE_INTERRUPTED &&
		 __atomic_load_n(&is_writing, __ATOMIC_ACQUIRE));
	return NULL;
}

/* A forger with threads on two vCPUs, both of which are watched. */
static uint64_t new_pair(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP));
	struct ob_space_registers mine = { .ip = CODE };

	memcpy(ram(CODE_PAGE) + WRITER, BYTES(WRITER_CODE));
	ob_host_space_enter(mock_host, space, 1, &mine, &event);
	check_call(space);
	watch(space, 2);
	return space;
}

/* One thread writes one value to the frame of another, which makes calls. */
static void attack_frame(uint64_t offset, uint64_t value)
{
	uint64_t space = new_pair();
	pthread_t thread;

	written_to = THREAD_SLOT(0) + offset;
	written = value;
	is_writing = true;
	CHECK(!pthread_create(&thread, NULL, write_on, &space));
	repeat(interrupt_all);
	enter_at_code(space);
	for (int round = 0; round < 30 && event.kind != OB_SPACE_GONE; round++) {
		tried.frames++;
		registers = (struct ob_space_registers){ .ip = CODE, .ax = SYS_mmap, .flags = 2 };
		tried.events[enter(space)]++;
	}
	__atomic_store_n(&is_writing, false, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	end_repeating();
	end_attacker(space);
}

static void test_frame_under_attack(void)
{
	uint64_t bystander = new_space(BYTES(SYSCALL LOOP)), space = new_forger();
	uint64_t context = *(uint64_t *)(slot_of(space, 0) + SLOT_CONTEXT) - THREAD_SLOT(0);
	const uint64_t registers_at = context + offsetof(ucontext_t, uc_mcontext.gregs);
	const struct {
		uint64_t offset, value;
	} attacks[] = {
		{ context + offsetof(ucontext_t, uc_sigmask), ~0ull },
		{ context + offsetof(ucontext_t, uc_stack.ss_sp), DATA },
		{ context + offsetof(ucontext_t, uc_mcontext.fpregs), DATA + 8 },
		{ registers_at + 8 * REG_CSGSFS, 0x23 },
		{ registers_at + 8 * REG_RIP, ob_stub_address(THREAD_CODE(0), ob_stub_asleep) - 2 },
		{ registers_at + 8 * REG_RSP, THREAD_SLOT(0) + 0x1000 },
		{ SLOT_FS_BASE, 1ull << 48 }, { SLOT_DONE, 1 }, { SLOT_CONTEXT, 0 },
	};

	end_attacker(space);
	for (size_t i = 0; i < COUNT(attacks); i++)
		attack_frame(attacks[i].offset, attacks[i].value);
	check_after(bystander);
}

/* ---- the next program ---------------------------------------------------- */

#define MARK 0x5ec4e75ec4e75ec4ull

/* The next space must be as good as new, whether its stub is another one or not. */
static void check_next(uint64_t space)
{
	char found[SLOT_BYTES];
	uint64_t next;

	ob_host_space_destroy(mock_host, space);
	memset(ram(DATA_PAGE), 0, DATA_PAGES * PAGE);
	next = new_space(BYTES(SYSCALL LOOP));
	memcpy(found, slot_of(next, 0), SLOT_BYTES);
	for (size_t i = 0; i + 8 <= SLOT_BYTES; i += 4)
		CHECK(memcmp(found + i, &(uint64_t){ MARK }, 8));
	registers = (struct ob_space_registers){ .ip = CODE, .ax = 39, .flags = 0x202 };
	CHECK_EQUAL(enter_to_event(next), OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ip, CODE + 2);
	CHECK_EQUAL(registers.ax, 39);
	/* A fault comes as such, and so does an interrupt. */
	ob_host_space_unmap(mock_host, next, DATA, PAGE);
	registers = (struct ob_space_registers){ .ip = DATA };
	CHECK_EQUAL(enter_to_event(next), OB_SPACE_TRAP);
	CHECK_EQUAL(event.vector, 14);
	CHECK_EQUAL(event.address, DATA);
	ob_host_space_destroy(mock_host, next);
}

/* Registers of a program that has ended are nowhere. */
static void test_registers_that_are_left(void)
{
	/* movq %rax, %xmm3; syscall */
	uint64_t space = new_space(BYTES("\x66\x48\x0f\x6e\xd8" SYSCALL)), *value = &registers.ax;

	for (size_t i = 0; i < 16; i++)
		value[i] = MARK;
	registers.ip = CODE;
	registers.sp = DATA + PAGE;
	CHECK_EQUAL(enter_to_event(space), OB_SPACE_SYSCALL);
	check_next(space);
}

/* mov %eax, (%rdx); mov %rsi, %rax; jmp *%rcx */
#define LIAR 128
#define LIAR_CODE "\x89\x02\x48\x89\xf0\xff\xe1"

/*
 * User code reports the end of its entry, and jumps to `ip` with `mine`, but for ax, cx, dx and si.
 */
static void enter_liar(uint64_t space, uint32_t vcpu, uint64_t ip, uint64_t ax,
		       struct ob_space_registers mine)
{
	memcpy(ram(CODE_PAGE) + LIAR, BYTES(LIAR_CODE));
	mine.ip = CODE + LIAR;
	mine.ax = mock_host->spaces->spaces[space].threads[vcpu].entry + 1;
	mine.dx = THREAD_SLOT(vcpu) + SLOT_DONE;
	mine.si = ax;
	mine.cx = ip;
	ob_host_space_enter(mock_host, space, vcpu, &mine, &event);
	/* It comes there. */
	usleep(2000);
}

/* The thread waits for its next entry, with a frame of the program's, or with none. */
static void test_stacks_that_are_left(void)
{
	static const uint64_t stacks[] = { THREAD_SLOT(0) + 0x3000, DATA + 2048, 0 };

	for (size_t i = 0; i < COUNT(stacks); i++) {
		uint64_t space = new_space(BYTES(SYSCALL LOOP));

		registers = (struct ob_space_registers){ .ip = CODE, .sp = stacks[i] };
		enter_to_event(space);
		enter_liar(space, 0, ob_stub_address(THREAD_CODE(0), ob_stub_asleep), 0,
			   (struct ob_space_registers){ .sp = stacks[i] });
		check_next(space);
	}
}

/* The thread sleeps where the stub does, but with the program's mask of signals and stack. */
static void test_sleep_that_is_left(void)
{
	const uint64_t asleep = ob_stub_address(THREAD_CODE(0), ob_stub_asleep);

	for (int which = 0; which < 3; which++) {
		uint64_t space = new_space(BYTES(SYSCALL LOOP));

		check_call(space);
		learn(space);
		for (uint64_t i = 1; i < DATA_PAGES; i++)
			map(space, DATA + i * PAGE, DATA_PAGE + i * PAGE, WRITE);
		write_genuine();
		frame()->uc_mcontext.gregs[REG_RIP] = (greg_t)asleep;
		/* The number of a later entry: no new one, as it seems. */
		frame()->uc_mcontext.gregs[REG_R12] =
			(mock_host->spaces->spaces[space].threads[0].entry + 2) << 1 | 1;
		if (which)
			memset(&frame()->uc_sigmask, 0xff, 8);
		if (which > 1)
			frame()->uc_stack.ss_sp = (void *)DATA;
		enter_liar(space, 0, ob_stub_address(THREAD_CODE(0), ob_stub_return) - 2,
			   SYS_rt_sigreturn, (struct ob_space_registers){ .sp = DATA });
		check_next(space);
	}
}

/* The loop that carries out orders: a list in the thread's slot, of one that names itself. */
static void loop_in_stub(uint64_t space, uint32_t vcpu)
{
	struct ob_order *order = (struct ob_order *)(slot_of(space, vcpu) + SLOT_BYTES / 2);

	*order = (struct ob_order){ .number = ORDER_GO, .arguments = { SLOT_BYTES / 2 } };
	/* `go_to` is behind `stop`. */
	enter_liar(space, vcpu, ob_stub_address(THREAD_CODE(vcpu), ob_stub_stop) + 2, 0,
		   (struct ob_space_registers){
			   .bx = THREAD_SLOT(vcpu), .r12 = THREAD_SLOT(vcpu) + SLOT_BYTES / 2,
		   });
}

/*
 * A thread of the last program that runs on in the stub's own code, out of reach of any unmapping,
 * stands still before the next program begins.
 */
static void test_thread_that_is_left(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP));
	struct ob_space_registers mine = { .ip = CODE };
	struct ob_space_thread *thread = &mock_host->spaces->spaces[space].threads[1];
	pid_t stub = stub_of(space);

	check_call(space);
	ob_host_space_enter(mock_host, space, 1, &mine, &event);
	loop_in_stub(space, 1);
	CHECK(!ob_space_stands_still(mock_host->spaces, thread));
	check_next(space);
	/* It may look for its next entry for a moment, before it sleeps. */
	while (stub_of(space) == stub && !ob_space_stands_still(mock_host->spaces, thread))
		usleep(100);
	if (stub_of(space) != stub)
		CHECK(process_ends(stub));
}

/* ---- secrets ------------------------------------------------------------- */

/* Mappings of this process. */
static struct {
	uint64_t start, end;
} mappings[4096];

static size_t mapping_count;

static void read_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned long start, end;

	CHECK(file);
	while (mapping_count < COUNT(mappings) &&
	       fscanf(file, "%lx-%lx%*[^\n]", &start, &end) == 2) {
		mappings[mapping_count].start = start;
		mappings[mapping_count++].end = end;
	}
	fclose(file);
}

/* Whether it is an address of this process, which user code must not find. */
static bool is_secret(uint64_t value)
{
	if (value >> 47 == 0x1ffff && value < ~0ull - 4096)
		return true;
	/* Below are numbers, but no mappings. */
	if (value < 1ull << 44 || value >= SPACE_END)
		return false;
	for (size_t i = 0; i < mapping_count; i++)
		if (value >= mappings[i].start && value < mappings[i].end)
			return true;
	return false;
}

/* No page of the platform's has an address of this process, or of its host's kernel. */
static void test_secrets(void)
{
	/* rep movsb; syscall */
	uint64_t space = new_space(BYTES("\xf3\xa4" SYSCALL LOOP));
	struct ob_space_registers mine = { .ip = CODE + 2 };
	int pages = 0;

	ob_host_space_enter(mock_host, space, 1, &mine, &event);
	read_mappings();
	repeat(interrupt_all);
	for (uint64_t at = SPACE_END; at < ADDRESS_END; at += PAGE) {
		/* The host's code for clocks, and its data, which every process has. */
		if (at >= CLOCK_AREA && at < CLOCK_AREA + CLOCK_PAGES * PAGE)
			continue;
		registers = (struct ob_space_registers){
			.ip = CODE, .si = at, .di = DATA, .cx = PAGE,
		};
		if (enter_to_event(space) != OB_SPACE_SYSCALL)
			continue;
		pages++;
		if (!memcmp(ram(DATA_PAGE), ob_stub_code, 256))
			continue;
		for (uint64_t i = 0; i < PAGE; i += 8) {
			uint64_t value = *(uint64_t *)(ram(DATA_PAGE) + i);

			if (is_secret(value))
				fprintf(stderr, "%#lx at %#lx\n", value, at + i);
			CHECK(!is_secret(value));
		}
	}
	end_repeating();
	CHECK_EQUAL(pages, 2 * THREAD_BYTES / PAGE + 1 + DOOR_BYTES / PAGE);
	/* The scan sees what is there. */
	CHECK(is_secret((uint64_t)ram(0)) && is_secret((uint64_t)&space));
}

static const struct platform_test tests[] = {
	TEST(segments), TEST(flags), TEST(pointers), TEST(vectors), TEST(masks_and_stacks),
	TEST(stack_in_slot), TEST(late_signal), TEST(instructions), TEST(gates), TEST(keys),
	TEST(bases), TEST(frame_under_attack), TEST(registers_that_are_left),
	TEST(stacks_that_are_left), TEST(sleep_that_is_left), TEST(thread_that_is_left),
	TEST(secrets),
	{ NULL, NULL },
};

int main(int count, char **arguments)
{
	return run_platform_tests(tests, count - 1, arguments + 1) != 0;
}
