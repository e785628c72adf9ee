// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the group spaces of the POSIX platform without a kernel: each kind of event, registers,
 * mappings, interrupts, threads, and stubs that die. Arguments: names of tests; none: all. Link
 * with space_bed.c and platform_bed.c. space_hostile_test.c has the programs that attack the stub.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "space_bed.h"
#include "space/space.h"

#define LOOP "\xeb\xfe"
#define SYSCALL "\x0f\x05"

/* ---- events -------------------------------------------------------------- */

static void test_syscall(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP)), *value = &registers.ax;
	struct ob_space_registers given;

	for (size_t i = 0; i < sizeof(registers) / 8; i++)
		value[i] = 0x1234567800000000 + i;
	registers.ip = CODE;
	registers.flags = 0x246;
	registers.fs_base = 0x7123456789ab;
	registers.gs_base = 0xffff812345678000;
	given = registers;
	CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ip, CODE + 2);
	CHECK_EQUAL(registers.cx, CODE + 2);
	CHECK_EQUAL(registers.r11, 0x246);
	given.ip = given.cx = CODE + 2;
	given.r11 = 0x246;
	CHECK(!memcmp(&given, &registers, sizeof(given)));
	CHECK_EQUAL(event.vector | event.error_code | event.address, 0);
}

/* Numbers of x32 are the kernel's affair; rt_sigreturn and futex of the program's own are, too. */
static void test_numbers(void)
{
	static const uint64_t numbers[] = { 39, 15, 202, 231, 0x40000027, ~0ull };
	uint64_t space = new_space(BYTES(SYSCALL LOOP));

	for (size_t i = 0; i < sizeof(numbers) / 8; i++) {
		registers = (struct ob_space_registers){ .ip = CODE, .ax = numbers[i] };
		CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
		CHECK_EQUAL(registers.ax, numbers[i]);
		CHECK_EQUAL(registers.ip, CODE + 2);
	}
}

static void check_trap(const char *code, size_t size, uint32_t vector, uint64_t ip)
{
	uint64_t space = new_space(code, size);

	CHECK_EQUAL(enter_at_code(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.vector, vector);
	CHECK_EQUAL(registers.ip, CODE + ip);
	ob_host_space_destroy(mock_host, space);
}

static void test_traps(void)
{
	check_trap(BYTES("\xf7\xf0"), 0, 0);			/* div %eax */
	check_trap(BYTES("\xcc"), 3, 1);			/* int3 */
	check_trap(BYTES("\x0f\x0b"), 6, 0);			/* ud2 */
	check_trap(BYTES("\xf4"), 13, 0);			/* hlt */
	check_trap(BYTES("\xcd\x80"), 13, 0);			/* int $0x80 */
	CHECK_EQUAL(event.error_code, 0x402);
	check_trap(BYTES("\x68\x02\x01\x00\x00\x9d\x90\x90"), 1, 7); /* popf: TF; nop; nop */
	check_trap(BYTES("\x0f\x0b"), 6, 0);
}

static void check_fault(const char *code, size_t size, uint64_t error)
{
	check_trap(code, size, 14, 0);
	CHECK_EQUAL(event.address, 0x12345678);
	CHECK_EQUAL(event.error_code, error);
}

static void test_faults(void)
{
	uint64_t space;

	check_fault(BYTES("\x8a\x04\x25\x78\x56\x34\x12"), 4);	/* mov 0x12345678, %al */
	check_fault(BYTES("\x88\x04\x25\x78\x56\x34\x12"), 6);	/* mov %al, 0x12345678 */
	/* movb $0, CODE: write of a page that is shown */
	space = new_space(BYTES("\xc6\x05\xf9\xff\xff\xff\x00"));
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.vector, 14);
	CHECK_EQUAL(event.error_code, 4 | 2 | 1);
	CHECK_EQUAL(event.address, CODE);
	registers.ip = DATA + 8;	/* not executable */
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.address, DATA + 8);
	CHECK_EQUAL(event.error_code, 4 | 1 | 16);
}

/* Calls a function; int3 */
static const char call_code[] = "\xff\xd0\xcc";

/* The host's code reads the clock, or makes the call of which the interface speaks. */
static void test_clock(void)
{
	uint64_t space = new_space(call_code, sizeof(call_code) - 1), before, after, got, function;
	const int64_t *time = (const int64_t *)ram(DATA_PAGE);
	int error = ob_host_space_clock(mock_host, &function);

	/* A host without CONFIG_CHECKPOINT_RESTORE. */
	if (error) {
		CHECK_EQUAL(error, -ENOSYS);
		return;
	}
	CHECK(function >= SPACE_END);
	before = ob_host_clock_monotonic(mock_host);
	registers = (struct ob_space_registers){
		.ip = CODE, .ax = function, .di = CLOCK_MONOTONIC, .si = DATA,
		.sp = DATA + PAGE - 64,
	};
	if (enter(space) == OB_SPACE_SYSCALL) {
		CHECK(registers.ip > SPACE_END);
		CHECK_EQUAL(registers.ax, SYS_clock_gettime);
		return;
	}
	CHECK_EQUAL(event.vector, 3);
	CHECK_EQUAL(registers.ax, 0);
	after = ob_host_clock_monotonic(mock_host);
	got = (uint64_t)time[0] * 1000000000 + (uint64_t)time[1];
	CHECK(before <= got && got <= after);
}

static void test_bad_registers(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP));

	registers = (struct ob_space_registers){ .ip = 0x8000000000000000, .flags = ~0x100ull };
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.vector, 13);
	registers = (struct ob_space_registers){ .ip = CODE, .fs_base = 1ull << 48 };
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.vector, 13);
	CHECK_EQUAL(registers.ip, CODE);
	/* Flags of the processor's own stay as they are. */
	registers = (struct ob_space_registers){ .ip = CODE, .flags = 0x3000 };
	CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.flags & 0x3200, 0x200);
	ob_host_space_enter(mock_host, space + 1, 0, &registers, &event);
	CHECK_EQUAL(event.kind, OB_SPACE_GONE);
	ob_host_space_enter(mock_host, 0, 0, &registers, &event);
	CHECK_EQUAL(event.kind, OB_SPACE_GONE);
}

/* The page of old system calls, if the host has one, answers nothing by itself. */
static void test_vsyscall(void)
{
	uint64_t space = new_space(BYTES("\xff\xd0" LOOP));	/* call *%rax */

	registers = (struct ob_space_registers){ .ip = CODE, .sp = DATA + PAGE,
						 .ax = 0xffffffffff600400 };
	if (enter(space) == OB_SPACE_SYSCALL) {
		CHECK_EQUAL(registers.ax, 201);
		CHECK_EQUAL(registers.ip, CODE + 2);
	} else {
		CHECK_EQUAL(event.kind, OB_SPACE_TRAP);
		CHECK_EQUAL(event.vector, 14);
	}
}

/* ---- vector registers ---------------------------------------------------- */

#define AREA 4096
#define XMM 160
#define YMM_HIGH 576
#define FEATURES 512

static _Alignas(64) unsigned char area[AREA], other[AREA];

static void fill_area(int seed)
{
	static const uint32_t mxcsr = 0x1f80;

	memset(area, 0, sizeof(area));
	memcpy(area + 24, &mxcsr, sizeof(mxcsr));
	for (int i = 0; i < 256; i++) {
		area[XMM + i] = (unsigned char)(i * 3 + seed);
		area[YMM_HIGH + i] = (unsigned char)(i * 5 + seed);
	}
	area[FEATURES] = 2 | 4;
}

static int vector(uint32_t vcpu, void *bytes, uint32_t store)
{
	return ob_host_space_vector(mock_host, vcpu, bytes, AREA, store);
}

static void test_vector(void)
{
	/* vmovdqa %ymm1, %ymm0 */
	uint64_t space = new_space(BYTES("\xc5\xfd\x6f\xc1" SYSCALL)), next;

	CHECK_EQUAL(vector(0, other, 1), -EINVAL);
	fill_area(7);
	CHECK_EQUAL(vector(0, area, 0), 0);
	CHECK_EQUAL(vector(0, other, 1), 0);
	CHECK(!memcmp(area, other, YMM_HIGH + 256));
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(vector(0, other, 1), 0);
	CHECK_EQUAL(other[FEATURES] & 6, 6);
	memcpy(area + XMM, area + XMM + 16, 16);
	memcpy(area + YMM_HIGH, area + YMM_HIGH + 16, 16);
	CHECK(!memcmp(area + XMM, other + XMM, 256));
	CHECK(!memcmp(area + YMM_HIGH, other + YMM_HIGH, 256));
	/* They stay until the next entry, and are there in it. */
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(vector(0, other, 1), 0);
	CHECK(!memcmp(area + XMM + 32, other + XMM + 32, 224));
	/* A space that uses the stub again finds nothing of them. */
	ob_host_space_destroy(mock_host, space);
	next = new_space(BYTES(SYSCALL));
	CHECK_EQUAL(stub_of(next), stub_of(space));
	CHECK_EQUAL(enter_at_code(next), OB_SPACE_SYSCALL);
	CHECK_EQUAL(vector(0, other, 1), 0);
	for (int i = 0; i < 256; i++)
		CHECK(!other[XMM + i] || !(other[FEATURES] & 2));
}

/* XRSTOR refuses these; the host would end the stub. */
static void test_bad_vector(void)
{
	uint64_t space = new_space(BYTES(SYSCALL));

	for (int i = 0; i < 64; i++) {
		fill_area(1);
		area[FEATURES + i] |= 0x80;
		if (i == 1)	/* PKRU and what is beside it */
			continue;
		if (vector(0, area, 0)) {
			CHECK_EQUAL(vector(0, area, 0), -EINVAL);
			continue;
		}
		CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
	}
	fill_area(1);
	area[27] = 0xff;	/* MXCSR */
	CHECK_EQUAL(vector(0, area, 0), -EINVAL);
	CHECK_EQUAL(ob_host_space_vector(mock_host, 0, area, 512, 0), -EINVAL);
	CHECK_EQUAL(ob_host_space_vector(mock_host, VCPUS_MOST, area, AREA, 1), -EINVAL);
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
}

/* ---- mappings ------------------------------------------------------------ */

/* mov DATA, %rax; syscall; from the head */
#define READ_DATA "\x48\x8b\x04\x25\x00\x00\x50\x00" SYSCALL "\xeb\xf4"

static void test_mappings(void)
{
	uint64_t space = new_space(BYTES(READ_DATA));

	for (uint64_t i = 0; i < 3; i++)
		*(uint64_t *)ram((2 + i) * PAGE) = 100 + i;
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ax, 100);
	map(space, DATA, 3 * PAGE, READ);
	CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ax, 101);
	ob_host_space_unmap(mock_host, space, DATA, PAGE);
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.address, DATA);
	CHECK_EQUAL(event.error_code, 4);
	/* Noted and taken back: nothing is shown. */
	map(space, DATA, 4 * PAGE, READ);
	ob_host_space_unmap(mock_host, space, 0, SPACE_END);
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK(event.address >= CODE && event.address < CODE + PAGE);
	map(space, CODE, CODE_PAGE, EXECUTE);
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.address, DATA);
	/* Orders that wait replace others, but lose none: DATA was shown. */
	map(space, DATA, DATA_PAGE, READ);
	CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
	usleep(20000);	/* the stub sleeps, so orders wait */
	ob_host_space_unmap(mock_host, space, 0, SPACE_END);
	map(space, CODE, CODE_PAGE, EXECUTE);
	ob_host_space_unmap(mock_host, space, CODE, PAGE);
	map(space, CODE, CODE_PAGE, EXECUTE);
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
	CHECK_EQUAL(event.address, DATA);
	/* A run of pages. */
	CHECK_EQUAL(ob_host_space_map(mock_host, space, DATA, DATA_PAGE, 3 * PAGE, WRITE), 0);
	CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ax, 100);
}

/* As at a fork: what was shown stays, but nothing can be written. */
static void test_protect(void)
{
	/* incl (%rbx); syscall; from the head */
	uint64_t space = new_space(BYTES("\xff\x03" SYSCALL "\xeb\xfa"));
	uint32_t *count = (uint32_t *)ram(DATA_PAGE);

	*count = 0;
	CHECK_EQUAL(ob_host_space_map(mock_host, space, DATA, DATA_PAGE, 3 * PAGE, WRITE), 0);
	registers = (struct ob_space_registers){ .ip = CODE, .bx = DATA };
	CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
	/* A hole, and a page that is noted but not yet shown. */
	ob_host_space_unmap(mock_host, space, DATA + PAGE, PAGE);
	map(space, DATA + 4 * PAGE, DATA_PAGE, WRITE);
	CHECK_EQUAL(ob_host_space_protect(mock_host, space, 0, SPACE_END, EXECUTE), 0);
	for (uint64_t i = 0; i < 5; i++) {
		registers = (struct ob_space_registers){ .ip = CODE, .bx = DATA + i * PAGE };
		CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
		CHECK_EQUAL(event.address, DATA + i * PAGE);
		/* Present, or not */
		CHECK_EQUAL(event.error_code, i % 2 ? 6 : 7);
	}
	CHECK_EQUAL(*count, 1);
	map(space, DATA, DATA_PAGE, WRITE);
	registers.bx = DATA;
	CHECK_EQUAL(enter(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(*count, 2);
	/* Neighbours, mapped one by one from the last to the first, are one run. */
	for (uint64_t i = 2000; i--;)
		map(space, (1ull << 33) + i * PAGE, DATA_PAGE, WRITE);
	CHECK_EQUAL(ob_host_space_protect(mock_host, space, 0, SPACE_END, EXECUTE), 0);
	/* More runs than the platform knows. */
	for (uint64_t i = 0; i < 2000; i++)
		map(space, (1ull << 32) + i * 2 * PAGE, DATA_PAGE, WRITE);
	CHECK_EQUAL(ob_host_space_protect(mock_host, space, 0, SPACE_END, EXECUTE), -ENOSYS);
	ob_host_space_unmap(mock_host, space, 0, SPACE_END);
	CHECK_EQUAL(ob_host_space_protect(mock_host, space, 0, SPACE_END, EXECUTE), 0);
}

#define RANDOM_PAGES 48

static uint64_t random_number(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 33;
}

/*
 * Maps or unmaps some pages, or protects all, which returns true. `rights` of a page: 0: it is not
 * shown; 1: read; 2: write.
 */
static bool change_rights(uint64_t space, char *rights)
{
	const uint64_t kind = random_number() % 16, page = random_number() % RANDOM_PAGES;
	const uint64_t behind = RANDOM_PAGES - page;
	const uint64_t count = 1 + random_number() % (behind < 4 ? behind : 4);
	const uint64_t address = DATA + page * PAGE;

	if (kind == 0) {
		CHECK_EQUAL(ob_host_space_protect(mock_host, space, 0, SPACE_END, EXECUTE), 0);
		for (int i = 0; i < RANDOM_PAGES; i++)
			rights[i] = rights[i] ? 1 : 0;
		return true;
	}
	if (kind < 6)
		ob_host_space_unmap(mock_host, space, address, count * PAGE);
	else
		CHECK_EQUAL(ob_host_space_map(mock_host, space, address, DATA_PAGE, count * PAGE,
					      kind < 8 ? READ : WRITE), 0);
	memset(rights + page, kind < 6 ? 0 : kind < 8 ? 1 : 2, count);
	return false;
}

/* Pages that are mapped, unmapped and protected by chance. */
static void test_random_rights(void)
{
	/* incl (%rbx); syscall */
	uint64_t space = new_space(BYTES("\xff\x03" SYSCALL));
	char rights[RANDOM_PAGES] = "";

	for (int step = 0; step < 1500; step++) {
		if (!change_rights(space, rights) && step < 1499)
			continue;
		for (uint64_t i = 0; i < RANDOM_PAGES; i++) {
			registers = (struct ob_space_registers){ .ip = CODE,
								 .bx = DATA + i * PAGE };
			CHECK_EQUAL(enter(space),
				    rights[i] == 2 ? OB_SPACE_SYSCALL : OB_SPACE_TRAP);
			if (rights[i] < 2)
				CHECK_EQUAL(event.error_code, rights[i] ? 7 : 6);
		}
	}
}

static void test_bad_mappings(void)
{
	uint64_t space = new_space(BYTES(SYSCALL));

	CHECK_EQUAL(ob_host_space_map(mock_host, space, SPACE_END, 0, PAGE, READ), -EINVAL);
	CHECK_EQUAL(ob_host_space_map(mock_host, space, 0, RAM_SIZE, PAGE, READ), -EINVAL);
	CHECK_EQUAL(ob_host_space_map(mock_host, space, 0, 0, 1, READ), -EINVAL);
	CHECK_EQUAL(ob_host_space_map(mock_host, space, ~PAGE + 1, 0, PAGE, READ), -EINVAL);
	CHECK_EQUAL(ob_host_space_map(mock_host, space, PAGE, 0, ~0ull & ~(PAGE - 1), READ),
		    -EINVAL);
	CHECK_EQUAL(ob_host_space_map(mock_host, 999, DATA, 0, PAGE, READ), -EINVAL);
	ob_host_space_unmap(mock_host, space, SPACE_END, PAGE);
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
}

/* The host has no room for so many: all are dropped, and those in use come back. */
static void test_too_many_mappings(void)
{
	uint64_t space = new_space(BYTES(READ_DATA));
	int faults = 0;

	for (uint64_t i = 0; i < 70000; i++)
		map(space, (1ull << 32) + i * 2 * PAGE, i % 1000 * PAGE, READ);
	registers = (struct ob_space_registers){ .ip = CODE };
	while (enter(space) == OB_SPACE_TRAP && faults++ < 4) {
		CHECK_EQUAL(event.vector, 14);
		map(space, CODE, CODE_PAGE, EXECUTE);
		map(space, DATA, DATA_PAGE, WRITE);
	}
	CHECK_EQUAL(event.kind, OB_SPACE_SYSCALL);
	CHECK(faults);
	ob_host_space_unmap(mock_host, space, 0, SPACE_END);
	CHECK_EQUAL(enter(space), OB_SPACE_TRAP);
}

/* ---- two vCPUs ----------------------------------------------------------- */

static uint64_t reading;
static bool is_over;

/* Looks for the mark of a page that serves another purpose. 6: an invalid instruction, found. */
static void *read_on(void *unused)
{
	struct ob_space_registers mine = { .ip = CODE };
	struct ob_space_event last = { 0 };

	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		ob_host_space_enter(mock_host, reading, 1, &mine, &last);
		CHECK(last.kind != OB_SPACE_GONE && last.kind != OB_SPACE_SYSCALL);
		CHECK(last.kind == OB_SPACE_INTERRUPTED || last.vector == 14);
	}
	return unused;
}

#define FAR 0x700000ull
#define FAR_PAGES 200u

static void *enter_on_another(void *space)
{
	struct ob_space_registers mine = { .ip = CODE };
	struct ob_space_event last = { 0 };

	ob_host_space_enter(mock_host, *(uint64_t *)space, 1, &mine, &last);
	CHECK_EQUAL(last.kind, OB_SPACE_SYSCALL);
	return NULL;
}

/* Many changes of mappings, the last of which shows this page at DATA. */
static void show_last(uint64_t space, uint64_t page)
{
	for (uint64_t i = 0; i < FAR_PAGES; i++)
		map(space, FAR + 2 * i * PAGE, DATA_PAGE + (i & 1) * PAGE, READ);
	map(space, DATA, page, READ);
}

/* Another vCPU has had the changes begun: this one waits for their end, too. */
static void test_changes_begun_elsewhere(void)
{
	/* mov DATA, %eax; syscall */
	uint64_t space = new_space(BYTES("\x8b\x04\x25\x00\x00\x50\x00" SYSCALL));
	uint32_t *request = &mock_host->spaces->spaces[space].request, before;
	pthread_t thread;

	for (uint32_t i = 0; i < 20; i++) {
		*(uint32_t *)ram(DATA_PAGE + (i & 1) * PAGE) = i;
		show_last(space, DATA_PAGE + (i & 1) * PAGE);
		before = __atomic_load_n(request, __ATOMIC_ACQUIRE);
		CHECK(!pthread_create(&thread, NULL, enter_on_another, &space));
		while (i && __atomic_load_n(request, __ATOMIC_ACQUIRE) == before)
			;
		CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
		CHECK_EQUAL(registers.ax, i);
		CHECK(!pthread_join(thread, NULL));
	}
}

/* When unmap has returned, user code on another vCPU does not reach the page. */
static void test_unmap_is_final(void)
{
	/* mov DATA, %eax; cmp $0x5ec4e7, %eax; je 1f; incl DATA + PAGE; jmp; 1: ud2 */
	static const char code[] =
		"\x8b\x04\x25\x00\x00\x50\x00\x3d\xe7\xc4\x5e\x00\x74\x09"
		"\xff\x04\x25\x00\x10\x50\x00\xeb\xe9\x0f\x0b";
	volatile uint32_t *page, *count;
	pthread_t thread;
	uint32_t before;

	reading = new_space(code, sizeof(code));
	map(reading, DATA + PAGE, DATA_PAGE + PAGE, WRITE);
	page = (volatile uint32_t *)ram(DATA_PAGE);
	count = (volatile uint32_t *)ram(DATA_PAGE + PAGE);
	CHECK(!pthread_create(&thread, NULL, read_on, NULL));
	for (int i = 0; i < 100; i++) {
		/* The other thread runs user code again. */
		for (before = *count; *count == before;)
			sched_yield();
		ob_host_space_unmap(mock_host, reading, DATA, PAGE);
		*page = 0x5ec4e7;
		usleep(1000);
		*page = 0;
		map(reading, DATA, DATA_PAGE, READ);
	}
	__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
	ob_host_space_interrupt(mock_host, 1);
	CHECK(!pthread_join(thread, NULL));
}

/* ---- interrupts ---------------------------------------------------------- */

static void test_interrupt(void)
{
	uint64_t space = new_space(BYTES(LOOP));

	ob_host_space_interrupt(mock_host, 0);
	ob_host_space_interrupt(mock_host, 0);
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_INTERRUPTED);
	CHECK_EQUAL(registers.ip, CODE);
	repeat(interrupt_all);
	for (int i = 0; i < 100; i++) {
		registers.bx = (uint64_t)i;
		CHECK_EQUAL(enter(space), OB_SPACE_INTERRUPTED);
		CHECK_EQUAL(registers.ip, CODE);
		CHECK_EQUAL(registers.bx, i);
	}
	end_repeating();
}

static uint64_t late;
static bool is_ready;

/* The stub gets no processor before the interrupt has been sent. */
static void run_late(void)
{
	if (!__atomic_exchange_n(&is_ready, false, __ATOMIC_ACQ_REL))
		return;
	ob_host_space_interrupt(mock_host, 0);
	usleep(20000);
	kill(stub_of(late), SIGCONT);
}

/* The thread that runs user code may need a moment to stop. */
static void stop_stub(pid_t pid, uint32_t thread)
{
	char name[64], line[256], state = 0;
	FILE *file;

	CHECK(!kill(pid, SIGSTOP));
	snprintf(name, sizeof(name), "/proc/%d/task/%u/stat", pid, thread);
	while (state != 'T') {
		file = fopen(name, "r");
		CHECK(file && fgets(line, sizeof(line), file));
		fclose(file);
		state = strrchr(line, ')')[2];
	}
}

/* A program goes on although an interrupt comes before each of its entries, or early in each. */
static void test_progress(void)
{
	int entries;

	late = new_space(BYTES(SYSCALL LOOP));
	registers = (struct ob_space_registers){ .ip = CODE };
	for (entries = 0; entries < 50; entries++) {
		ob_host_space_interrupt(mock_host, 0);
		if (enter(late) != OB_SPACE_INTERRUPTED)
			break;
		CHECK_EQUAL(registers.ip, CODE);
	}
	CHECK_EQUAL(event.kind, OB_SPACE_SYSCALL);
	CHECK(entries);
	registers = (struct ob_space_registers){ .ip = CODE };
	repeat(run_late);
	for (entries = 0; entries < 50; entries++) {
		stop_stub(stub_of(late), mock_host->spaces->spaces[late].threads[0].tid);
		__atomic_store_n(&is_ready, true, __ATOMIC_RELEASE);
		if (enter(late) != OB_SPACE_INTERRUPTED)
			break;
	}
	end_repeating();
	CHECK_EQUAL(event.kind, OB_SPACE_SYSCALL);
	CHECK_EQUAL(registers.ip, CODE + 2);
}

/* ---- stubs that die ------------------------------------------------------ */

#define NOBODY 65533

static pid_t victim;
static rlim_t limit_of_processes;

static void kill_victim(void)
{
	kill(victim, SIGKILL);
}

static void test_stub_dies(void)
{
	uint64_t space = new_space(BYTES(LOOP)), next;

	victim = stub_of(space);
	repeat(kill_victim);
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_GONE);
	end_repeating();
	CHECK_EQUAL(enter(space), OB_SPACE_GONE);
	map(space, DATA, DATA_PAGE, READ);
	ob_host_space_unmap(mock_host, space, DATA, PAGE);
	next = new_space(BYTES(SYSCALL));
	CHECK_EQUAL(enter_at_code(next), OB_SPACE_SYSCALL);
	ob_host_space_destroy(mock_host, space);
	victim = stub_of(next);
	/* While no code is in there. */
	kill_victim();
	CHECK_EQUAL(enter_at_code(next), OB_SPACE_GONE);
	ob_host_space_unmap(mock_host, next, DATA, PAGE);
	ob_host_space_destroy(mock_host, next);
	CHECK_EQUAL(enter_at_code(new_space(BYTES(SYSCALL))), OB_SPACE_SYSCALL);
}

/* A stub that waits for the next space dies: the next space gets another one. */
static void test_waiting_stub_dies(void)
{
	uint64_t space = new_space(BYTES(SYSCALL));
	pid_t stub = stub_of(space);
	pid_t user_thread = (pid_t)mock_host->spaces->spaces[space].threads[0].tid;

	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
	ob_host_space_destroy(mock_host, space);
	kill(stub, SIGKILL);
	CHECK(process_ends(stub) && process_ends(user_thread));
	space = new_space(BYTES(SYSCALL));
	CHECK(stub_of(space) != stub);
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
}

static void create_as_nobody(void)
{
	struct rlimit limit = { limit_of_processes, limit_of_processes };
	uint64_t space[2] = { 0 };
	int error[2];

	setup();
	CHECK(!setresuid(NOBODY, NOBODY, NOBODY));
	CHECK(!setrlimit(RLIMIT_NPROC, &limit));
	for (int i = 0; i < 2; i++) {
		error[i] = ob_host_space_create(mock_host, &space[i]);
		CHECK(!error[i] || error[i] == -EAGAIN);
	}
	memcpy(ram(CODE_PAGE), SYSCALL, 2);
	for (int i = 0; i < 2 && !error[i]; i++) {
		map(space[i], CODE, CODE_PAGE, EXECUTE);
		CHECK_EQUAL(enter_at_code(space[i]), OB_SPACE_SYSCALL);
	}
	ob_host_regions_release(mock_host);
	if (error[0] || error[1])
		_exit(!error[0] + 1);
}

/* The host has no more processes: an error, and what there is works. */
static void test_limit_of_processes(void)
{
	int status, seen[3] = { 0 };

	if (geteuid())
		return;
	/* The host counts processes that have ended, too, until somebody has waited for them. */
	for (limit_of_processes = 1; limit_of_processes < 300; limit_of_processes += 5) {
		if (seen[0])
			break;
		status = status_of_child(create_as_nobody);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) < 3);
		seen[WEXITSTATUS(status)]++;
	}
	CHECK(seen[0] && seen[1]);
}

static void test_zygote_dies(void)
{
	uint64_t space = new_space(BYTES(LOOP));
	pid_t stub = stub_of(space);

	victim = mock_host->spaces->zygote;
	repeat(kill_victim);
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_GONE);
	end_repeating();
	CHECK(process_ends(stub));
	ob_host_space_destroy(mock_host, space);
	CHECK_EQUAL(ob_host_space_create(mock_host, &space), -ESRCH);
	ob_host_regions_release(mock_host);
}

static int ends[2];

/* Ends by itself in a loop of user code, or is killed there. */
static void boot_and_report(void)
{
	uint64_t space = new_space(BYTES(LOOP));
	pid_t pids[] = { getpid(), stub_of(space), mock_host->spaces->zygote };

	CHECK(write(ends[1], pids, sizeof(pids)) == sizeof(pids));
	enter_at_code(space);
}

/* Nothing outlives the kernel's process. */
static void test_process_dies(void)
{
	pid_t pids[3], child;

	CHECK(!pipe(ends));
	child = fork();
	if (!child) {
		boot_and_report();
		_exit(0);
	}
	close(ends[1]);
	CHECK(read(ends[0], pids, sizeof(pids)) == sizeof(pids));
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
	CHECK(process_ends(pids[1]));
	CHECK(process_ends(pids[2]));
}

static void child_of_fork(void)
{
	uint64_t space;

	if (enter_at_code(1) != OB_SPACE_GONE)
		_exit(1);
	if (ob_platform_start(mock_host, NULL, NULL))
		_exit(2);
	reserve_all();
	space = new_space(BYTES(SYSCALL));
	if (enter_at_code(space) != OB_SPACE_SYSCALL)
		_exit(3);
	ob_host_regions_release(mock_host);
}

/* A child has no spaces of its parent, and can make its own. */
static void test_fork(void)
{
	uint64_t space = new_space(BYTES(SYSCALL LOOP));
	pid_t stub = stub_of(space), zygote = mock_host->spaces->zygote;

	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
	CHECK_EQUAL(status_of_child(child_of_fork), 0);
	CHECK_EQUAL(enter_at_code(space), OB_SPACE_SYSCALL);
	/* The program that waits for its children finds none of ours. */
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	ob_host_regions_release(mock_host);
	CHECK(process_ends(stub) && process_ends(zygote));
}

static void test_many_spaces(void)
{
	uint64_t spaces[50];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 50; i++)
			spaces[i] = new_space(BYTES(SYSCALL));
		for (int i = 0; i < 50; i++)
			CHECK_EQUAL(enter_at_code(spaces[i]), OB_SPACE_SYSCALL);
		for (int i = 0; i < 50; i++)
			ob_host_space_destroy(mock_host, spaces[i]);
	}
	CHECK_EQUAL(spaces[49], 50);
}

static const struct platform_test tests[] = {
	TEST(syscall), TEST(numbers), TEST(traps), TEST(faults), TEST(bad_registers),
	TEST(vsyscall), TEST(vector), TEST(bad_vector), TEST(mappings), TEST(protect),
	TEST(random_rights), TEST(bad_mappings), TEST(too_many_mappings),
	TEST(changes_begun_elsewhere),
	TEST(unmap_is_final), TEST(interrupt),
	TEST(progress), TEST(stub_dies), TEST(waiting_stub_dies), TEST(limit_of_processes),
	TEST(zygote_dies), TEST(process_dies), TEST(fork), TEST(many_spaces), TEST(clock),
	{ NULL, NULL },
};

int main(int count, char **arguments)
{
	return run_platform_tests(tests, count - 1, arguments + 1) != 0;
}
