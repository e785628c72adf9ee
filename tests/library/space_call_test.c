// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls by a jump (ob_host_space_calls()) of the POSIX platform, without a kernel: no register may
 * change, wherever user code is interrupted. Arguments: names of tests; none: all. Link with
 * space_bed.c and platform_bed.c. space_hostile_test.c jumps to each byte of the platform's code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "space_bed.h"
#include "space/space.h"

/*
 * `call` makes a call by a jump, `refused` is where the platform may lead to; `check` makes an
 * ordinary call, `again` jumps to `call`. The entry is written when it is known.
 */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	"jump_code:\n"
	"jump_again: jmp jump_call\n"
	".balign 16\n"
	"jump_call: lea jump_gate(%rip), %rcx\n"
	"jmp *jump_entry(%rip)\n"
	"jump_refused: syscall\n"
	"jump_back: syscall\n"
	"jump_end: jmp jump_end\n"
	".balign 8\n"
	"jump_gate: .quad 0x400000 + jump_back - jump_code, 0x400000 + jump_refused - jump_code\n"
	"jump_entry: .quad 0\n"
	"jump_code_end:\n"
	".popsection\n");

extern const char jump_code[], jump_code_end[], jump_call[], jump_refused[], jump_back[],
	jump_end[], jump_gate[], jump_entry[];

#define AT(label) (CODE + (uint64_t)(label - jump_code))
#define LOOP_BYTES "\xeb"

#define AREA 4096
#define XMM 160
#define YMM_HIGH 576
#define FEATURES 512

static _Alignas(64) unsigned char area[AREA], got[AREA];
static uint64_t entry;

static void fill_vector(int seed)
{
	static const uint32_t mxcsr = 0x1f80;

	memset(area, 0, sizeof(area));
	memcpy(area + 24, &mxcsr, sizeof(mxcsr));
	for (int i = 0; i < 256; i++) {
		area[XMM + i] = (unsigned char)(i * 3 + seed);
		area[YMM_HIGH + i] = (unsigned char)(i * 5 + seed);
	}
	area[FEATURES] = 2 | 4;
	CHECK_EQUAL(ob_host_space_vector(mock_host, 0, area, AREA, 0), 0);
}

static void check_vector(void)
{
	CHECK_EQUAL(ob_host_space_vector(mock_host, 0, got, AREA, 1), 0);
	CHECK_EQUAL(got[FEATURES] & 6, 6);
	CHECK(!memcmp(area + XMM, got + XMM, 256));
	CHECK(!memcmp(area + YMM_HIGH, got + YMM_HIGH, 256));
}

/* 0: the processor has no instructions for calls by a jump. */
static uint64_t new_caller(void)
{
	uint64_t space = new_space(jump_code, (size_t)(jump_code_end - jump_code));

	if (ob_host_space_calls(mock_host, &entry)) {
		fprintf(stderr, "the processor lacks instructions for calls by a jump\n");
		return 0;
	}
	memcpy(ram(CODE_PAGE) + (jump_entry - jump_code), &entry, sizeof(entry));
	return space;
}

static struct ob_space_registers pattern(uint64_t seed, uint64_t flags)
{
	struct ob_space_registers new;
	uint64_t *value = &new.ax;

	for (size_t i = 0; i < sizeof(new) / 8; i++)
		value[i] = seed * (i + 1) ^ 0x9e3779b97f4a7c15;
	new.ax = seed % 500;
	new.ip = AT(jump_call);
	new.flags = flags | 0x202;
	new.fs_base = 0x7123456789ab;
	new.gs_base = 0;
	return new;
}

/* All but the three that a call may change, and ip. */
static bool are_same(struct ob_space_registers a, const struct ob_space_registers *b)
{
	a.ax = b->ax;
	a.cx = b->cx;
	a.r11 = b->r11;
	a.ip = b->ip;
	return !memcmp(&a, b, sizeof(a));
}

static void check_same(const struct ob_space_registers *before, uint64_t ip)
{
	CHECK_EQUAL(registers.ip, ip);
	CHECK_EQUAL(registers.cx, ip);
	CHECK_EQUAL(registers.flags, before->flags);
	CHECK_EQUAL(registers.r11, before->flags);
	CHECK(are_same(registers, before));
}

/* OF, DF, SF, ZF, AF, PF, CF; AC. */
static const uint64_t flags[] = {
	0, 0x800, 0x400, 0x80, 0x40, 0x10, 4, 1, 0xcd5, 0x8d5, 0x4d5, 0x40000, 0x40cd5,
};

#define FLAGS (sizeof(flags) / sizeof(flags[0]))

/* The call, the return from it by a jump, and one with other registers. */
static void test_registers(void)
{
	uint64_t space = new_caller();
	struct ob_space_registers before;

	for (uint64_t i = 0; space && i < 500; i++) {
		before = pattern(i, flags[i % FLAGS]);
		fill_vector((int)i);
		registers = before;
		CHECK_EQUAL(enter(space), OB_SPACE_CALL);
		CHECK_EQUAL(registers.ax, before.ax);
		check_same(&before, AT(jump_back));
		if (i & 1)
			check_vector();
		registers.ax = ~i;
		if (i % 4 == 2)
			registers.r12 = before.r12 = i;
		CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
		CHECK_EQUAL(registers.ax, ~i);
		check_same(&before, AT(jump_end));
		check_vector();
	}
}

/* A number has 32 bits. A program with a base of gs makes the call by the instruction. */
static void test_refused(void)
{
	static const uint64_t bases[] = { 8, 0x7fffffc22001, 0x7fffffc1a000, 0x7fffffe22000 };
	uint64_t space = new_caller();

	for (uint64_t i = 0; space && i < 4 * FLAGS; i++) {
		struct ob_space_registers before = pattern(i, flags[i / 4]);

		before.ax = 0xffffffff;
		before.gs_base = bases[i % 4];
		registers = before;
		CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
		CHECK_EQUAL(registers.ax, before.ax);
		check_same(&before, AT(jump_back));
	}
}

/* Two spaces and two sets of registers in turns, on the same threads. */
static void test_turns(void)
{
	uint64_t spaces[2] = { new_caller(), new_caller() };
	struct ob_space_registers before[4];

	for (uint64_t i = 0; i < 4; i++)
		before[i] = pattern(i + 7, flags[i]);
	for (uint64_t i = 0; entry && i < 400; i++) {
		const uint64_t which = i * 7 / 3 % 4;

		fill_vector((int)which);
		registers = before[which];
		CHECK_EQUAL(enter(spaces[which & 1]), OB_SPACE_CALL);
		CHECK_EQUAL(registers.ax, before[which].ax);
		check_same(&before[which], AT(jump_back));
		check_vector();
	}
}

/* ---- interrupted on the way to the call ----------------------------------- */

#define FLAG_STEP 0x100ull
#define OVERFLOW 0x800ull

/* As the platform's code packs them, which is in reverse order. */
static uint64_t packed(const struct ob_space_registers *before)
{
	return (__builtin_bswap64(before->ax) & ~0xffffull) | (before->flags & 0xd5) << 8 |
	       !!(before->flags & OVERFLOW);
}

/* User code makes one instruction of the platform's code, and is where it was before. */
static void check_step(uint64_t space, const struct ob_space_registers *before, uint64_t ip,
		       uint64_t ax, uint64_t sp, uint64_t lost_flags)
{
	registers = *before;
	registers.ip = ip;
	registers.ax = ax;
	registers.sp = sp;
	registers.cx = AT(jump_gate);
	registers.flags = (before->flags & ~lost_flags) | FLAG_STEP;
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.vector, 1);
	CHECK_EQUAL(registers.ip, AT(jump_gate));
	CHECK_EQUAL(registers.ax, before->ax);
	CHECK_EQUAL(registers.sp, before->sp);
	CHECK_EQUAL(registers.flags & ~FLAG_STEP, before->flags);
	registers.flags = before->flags;
	CHECK(are_same(registers, before));
}

static void test_steps(void)
{
	const uint64_t all = 0xd5 | OVERFLOW, own = THREAD_CODE(0);
	uint64_t space = new_caller();

	for (uint64_t i = 0; space && i < 2 * FLAGS; i++) {
		const struct ob_space_registers before = pattern(i * 5, flags[i / 2]);
		const uint64_t ax = packed(&before), lost = i & 1 ? all : 0;
		const uint64_t swapped = __builtin_bswap64(before.ax);

		registers = before;
		CHECK_EQUAL(enter(space), OB_SPACE_CALL);
		check_step(space, &before, entry, before.ax, before.sp, 0);
		check_step(space, &before, ob_stub_address(MAPPER_CODE, ob_stub_call_swapped),
			   swapped, before.sp, 0);
		check_step(space, &before, ob_stub_address(MAPPER_CODE, ob_stub_call_flags), ax,
			   before.sp, lost);
		check_step(space, &before, ob_stub_address(MAPPER_CODE, ob_stub_call_refused), ax,
			   before.sp, 0);
		check_step(space, &before, ob_stub_address(MAPPER_CODE, ob_stub_call_restored),
			   before.ax, before.sp, 0);
		check_step(space, &before, ob_stub_address(own, ob_stub_save), ax, before.sp, lost);
		check_step(space, &before, ob_stub_address(own, ob_stub_save_sp), ax,
			   THREAD_SLOT(0) + CALL_FLAGS + 8, lost);
	}
}

/* A loop of calls that are refused. The platform may interrupt it anywhere. */
static void test_refusals(void)
{
	uint64_t space = new_caller(), at_gate = 0, elsewhere = 0;
	struct ob_space_registers before = pattern(3, 0x8d5);

	if (!space)
		return;
	before.gs_base = 8;
	memcpy(ram(CODE_PAGE) + (jump_gate - jump_code) + 8, &(uint64_t){ CODE }, 8);
	registers = before;
	repeat(interrupt_all);
	for (int i = 0; i < 400; i++) {
		CHECK_EQUAL(enter(space), OB_SPACE_INTERRUPTED);
		CHECK_EQUAL(registers.flags, before.flags);
		CHECK_EQUAL(registers.ax, before.ax);
		CHECK(are_same(registers, &before));
		if (registers.ip == AT(jump_gate)) {
			registers.ip = CODE;
			at_gate++;
		} else {
			CHECK(registers.ip >= CODE && registers.ip < AT(jump_refused));
			elsewhere++;
		}
	}
	end_repeating();
	printf("interrupted %lu times at a gate, %lu elsewhere\n", at_gate, elsewhere);
	fflush(stdout);
	CHECK(at_gate > 10);
}

/* ---- interrupted at any time ---------------------------------------------- */

static bool is_over;

/* More than the platform would ever send, at any time: also while the thread waits. */
static void *interrupt_often(void *space)
{
	const int pid = stub_of(*(uint64_t *)space);
	const int tid = (int)mock_host->spaces->spaces[*(uint64_t *)space].threads[0].tid;
	unsigned int random = 1;

	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		random = random * 1103515245 + 12345;
		for (unsigned int i = random >> 16 & 0xfff; i; i--)
			__asm__ volatile("");
		CHECK(!syscall(SYS_tgkill, pid, tid, STUB_SIGNAL));
		/* Else no call might be made at all. */
		if (!(random >> 24))
			usleep(1000);
	}
	return NULL;
}

/* What the event says, and the registers with which the program goes on. */
static uint64_t places[4];

static void go_on(const struct ob_space_registers *before)
{
	const uint64_t gate = AT(jump_gate);

	CHECK_EQUAL(registers.flags, before->flags);
	CHECK(are_same(registers, before));
	if (event.kind == OB_SPACE_CALL || event.kind == OB_SPACE_SYSCALL) {
		CHECK_EQUAL(registers.ax, before->ax);
		CHECK_EQUAL(registers.ip, AT(jump_back));
		places[event.kind == OB_SPACE_CALL]++;
		registers.ip = CODE;
		return;
	}
	CHECK_EQUAL(event.kind, OB_SPACE_INTERRUPTED);
	CHECK_EQUAL(registers.ax, before->ax);
	if (registers.ip == gate)
		registers.ip = AT(jump_refused);
	else
		CHECK(registers.ip >= CODE && registers.ip < AT(jump_back));
	places[2 + (registers.ip == AT(jump_refused))]++;
}

/* A jump to the beginning in the place of the second call. */
static void make_loop(void)
{
	memcpy(ram(CODE_PAGE) + (jump_back - jump_code), LOOP_BYTES, 1);
	ram(CODE_PAGE)[jump_back - jump_code + 1] = (char)(jump_code - jump_back - 2);
}

/* The program goes on behind its call: the thread returns by a jump. The result is a new number. */
static void test_interrupts(void)
{
	uint64_t space = new_caller();
	struct ob_space_registers before = pattern(3, 0x8d5);
	pthread_t thread;

	if (!space)
		return;
	make_loop();
	is_over = false;
	registers = before;
	enter(space);
	CHECK(!pthread_create(&thread, NULL, interrupt_often, &space));
	/* Few interrupts come where calls take little time. */
	for (uint64_t round = 0; round < (places[2] + places[3] > 20 ? 10 : 1000); round++) {
		fill_vector((int)round);
		registers = before;
		for (uint64_t i = 0; i < 2000; i++) {
			enter(space);
			CHECK_EQUAL(registers.flags, before.flags);
			CHECK(are_same(registers, &before));
			if (event.kind == OB_SPACE_INTERRUPTED && registers.ip == AT(jump_back)) {
				CHECK_EQUAL(registers.ax, before.ax);
				places[2]++;
				continue;
			}
			go_on(&before);
			if (event.kind != OB_SPACE_INTERRUPTED) {
				registers.ip = registers.cx = AT(jump_back);
				registers.ax = before.ax = (before.ax + 1) % 500;
			}
			if (i % 64 == 0)
				check_vector();
		}
	}
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	printf("%lu calls by a jump, %lu by the instruction, interrupted %lu times\n", places[1],
	       places[0], places[2] + places[3]);
	fflush(stdout);
	CHECK(places[1] > 1000 && places[2] + places[3] > 20);
}

/* ---- interrupted before it begins ----------------------------------------- */

#define ROUNDS 2000
/* Interrupts at a time, and looks at registers: longer than a signal needs. */
#define BURST 2000
#define LOOKS 400

static uint32_t bursts;

static void *interrupt_entries(void *unused)
{
	for (uint32_t burst = 1; burst <= ROUNDS; burst++) {
		while (__atomic_load_n(&bursts, __ATOMIC_ACQUIRE) < burst)
			__asm__ volatile("pause");
		for (int i = 0; i < BURST; i++)
			ob_host_space_interrupt(mock_host, 0);
	}
	return unused;
}

/*
 * An entry is given up since an interrupt is wanted, and another signal is on its way: it comes
 * when the registers of the call before are read. The host clears a part of its frame first.
 */
static void test_given_up(void)
{
	uint64_t space = new_caller(), given_up = 0;
	struct ob_space_registers before = pattern(3, 0x8d5);
	pthread_t thread;

	if (!space)
		return;
	make_loop();
	CHECK(!pthread_create(&thread, NULL, interrupt_entries, NULL));
	for (int round = 1; round <= ROUNDS; round++) {
		fill_vector(round);
		registers = before;
		while (enter(space) != OB_SPACE_CALL)
			go_on(&before);
		go_on(&before);
		ob_host_space_interrupt(mock_host, 0);
		__atomic_store_n(&bursts, round, __ATOMIC_RELEASE);
		given_up += enter(space) == OB_SPACE_INTERRUPTED && registers.ip == CODE;
		for (int looks = 0; looks < LOOKS; looks++)
			check_vector();
	}
	CHECK(!pthread_join(thread, NULL));
	printf("%lu entries given up\n", given_up);
	fflush(stdout);
	CHECK(given_up > ROUNDS / 10);
}

static const struct platform_test tests[] = {
	TEST(registers), TEST(refused), TEST(turns), TEST(steps), TEST(refusals), TEST(interrupts),
	TEST(given_up),
	{ NULL, NULL },
};

int main(int count, char **arguments)
{
	return run_platform_tests(tests, count - 1, arguments + 1) != 0;
}
