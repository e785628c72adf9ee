// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary Linux program whose system calls the kernel may rewrite. program_cases_test.c runs it
 * inside of the kernel: sites_inside CASE. All cases but `rewritten` and `trapping` must pass on
 * any x86-64 Linux: a program cannot tell but by reading its own code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096ul
#define PROGRAM_END 0x7fffffc00000ul
#define SITE_BYTES 7
/* More traps than the kernel waits for. */
#define OFTEN 64
#define FLAG_STEP 0x100ul

static const uint8_t own_bytes[SITE_BYTES] = { 0xb8, SYS_getppid, 0, 0, 0, 0x0f, 0x05 };

/* ---- a call with known registers ------------------------------------------ */

struct registers {
	uint64_t bx, cx, dx, si, di, bp, r8, r9, r10, r11, r12, r13, r14, r15, flags, ax, red_zone;
	_Alignas(32) uint8_t ymm[2][32];
};

/*
 * void call_with(struct registers *): loads them, makes a call, and stores them. The stack below
 * the pointer has a mark meanwhile.
 */
__asm__(".text\n"
	".balign 64\n"
	".globl call_with, call_site, call_bare\n"
	"call_with:\n"
	"push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\npush %rdi\n"
	"mov %rdi, %rax\n"
	"vmovdqa 160(%rax), %ymm3\nvmovdqa 192(%rax), %ymm14\n"
	"push 112(%rax)\n"
	"mov 0(%rax), %rbx\nmov 16(%rax), %rdx\nmov 24(%rax), %rsi\nmov 32(%rax), %rdi\n"
	"mov 40(%rax), %rbp\nmov 48(%rax), %r8\nmov 56(%rax), %r9\nmov 64(%rax), %r10\n"
	"mov 80(%rax), %r12\nmov 88(%rax), %r13\nmov 96(%rax), %r14\nmov 104(%rax), %r15\n"
	"mov 128(%rax), %rax\n"
	"popf\n"
	"mov %rax, -128(%rsp)\nmov %rax, -8(%rsp)\n"
	"call_site:\n"
	"mov $110, %eax\n"
	"call_bare:\n"
	"syscall\n"
	"mov %rcx, -16(%rsp)\n"
	"mov -128(%rsp), %rcx\n"
	"mov %rcx, -24(%rsp)\n"
	"mov (%rsp), %rcx\n"
	"mov %rax, 120(%rcx)\n"
	"mov -24(%rsp), %rax\nmov %rax, 128(%rcx)\n"
	"mov -16(%rsp), %rax\nmov %rax, 8(%rcx)\n"
	"mov -8(%rsp), %rax\nmov %rax, 152(%rcx)\n"
	"pushf\npop %rax\nmov %rax, 112(%rcx)\n"
	"cld\n"
	"mov %rbx, 0(%rcx)\nmov %rdx, 16(%rcx)\nmov %rsi, 24(%rcx)\nmov %rdi, 32(%rcx)\n"
	"mov %rbp, 40(%rcx)\nmov %r8, 48(%rcx)\nmov %r9, 56(%rcx)\nmov %r10, 64(%rcx)\n"
	"mov %r11, 72(%rcx)\nmov %r12, 80(%rcx)\nmov %r13, 88(%rcx)\nmov %r14, 96(%rcx)\n"
	"mov %r15, 104(%rcx)\n"
	"vmovdqa %ymm3, 160(%rcx)\nvmovdqa %ymm14, 192(%rcx)\n"
	"pop %rdi\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\n"
	"vzeroupper\n"
	"ret\n");

void call_with(struct registers *registers);
extern const uint8_t call_site[], call_bare[];

_Static_assert(offsetof(struct registers, flags) == 112 && offsetof(struct registers, ax) == 120 &&
	       offsetof(struct registers, ymm) == 160, "as the code has it");

/* CF, PF, AF, ZF, SF, OF, DF. */
static const uint64_t flags[] = { 0, 1, 4, 0x10, 0x40, 0x80, 0x800, 0x400, 0xcd5, 0x8d5 };

#define FLAGS (sizeof(flags) / sizeof(flags[0]))

/* All that a call changes is rax, rcx and r11. */
static void check_call(uint64_t seed)
{
	struct registers before, after;
	uint64_t *value = &before.bx;

	for (size_t i = 0; i < sizeof(before) / 8; i++)
		value[i] = (seed + 3) * (i + 1) * 0x9e3779b97f4a7c15;
	before.flags = 0x202 | flags[seed % FLAGS];
	after = before;
	call_with(&after);
	CHECK_EQUAL(after.ax, (uint64_t)getppid());
	/* The code can read that a debugger runs it step by step. */
	CHECK_EQUAL(after.flags & ~FLAG_STEP, before.flags);
	CHECK_EQUAL(after.r11 & ~FLAG_STEP, before.flags);
	after.flags = before.flags;
	CHECK_EQUAL(after.cx, (uint64_t)(call_site + SITE_BYTES));
	CHECK_EQUAL(after.red_zone, before.red_zone);
	after.ax = before.ax;
	after.r11 = before.r11;
	after.cx = before.cx;
	CHECK(!memcmp(&after, &before, 144));
	CHECK(!memcmp(&after.ymm, &before.ymm, sizeof(before.ymm)));
}

static void call_often(void)
{
	for (uint64_t i = 0; i < OFTEN; i++)
		check_call(i);
}

/* ---- which bytes are seen ------------------------------------------------- */

/* The first address of the mapping, and its end. 0: there is none. */
static uint64_t find_calls(pid_t pid, uint64_t *end)
{
	char path[64], line[256];
	uint64_t start = 0, from, to;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "[calls]") && sscanf(line, "%lx-%lx", &from, &to) == 2 && !start) {
			CHECK(strstr(line, " r-xp "));
			start = from;
			*end = to;
		}
	fclose(maps);
	return start;
}

static void check_bytes_of(pid_t pid, const uint8_t *site)
{
	uint8_t seen[SITE_BYTES + 2];
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	for (int from = 0; from < SITE_BYTES; from++) {
		memset(seen, 0, sizeof(seen));
		CHECK_EQUAL(pread(fd, seen, (size_t)(SITE_BYTES - from), (off_t)(site + from)),
			    SITE_BYTES - from);
		CHECK(!memcmp(seen, own_bytes + from, (size_t)(SITE_BYTES - from)));
	}
	close(fd);
}

static void rewritten(void)
{
	uint64_t end;

	CHECK(!find_calls(getpid(), &end));
	call_often();
	CHECK(find_calls(getpid(), &end));
	CHECK_EQUAL(*(const volatile uint8_t *)call_site, 0xe9);
	CHECK(!memcmp(call_bare, own_bytes + 5, 2));
	check_bytes_of(getpid(), call_site);
	for (int i = 0; i < OFTEN; i++)
		syscall(SYS_getppid);
	check_bytes_of(getpid(), call_site);
}

static void trapping(void)
{
	uint64_t end;

	call_often();
	CHECK(!find_calls(getpid(), &end));
	CHECK(!memcmp(call_site, own_bytes, SITE_BYTES));
}

/* ---- signals --------------------------------------------------------------- */

static volatile uint64_t calls_start, calls_end, signals;

static void on_timer(int number, siginfo_t *info, void *pointer)
{
	const ucontext_t *context = pointer;
	const uint64_t ip = (uint64_t)context->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	CHECK(ip < PROGRAM_END && (ip < calls_start || ip >= calls_end));
	signals++;
}

static void on_signal(int number, void (*handler)(int, siginfo_t *, void *), int options)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | options };

	CHECK(!sigaction(number, &action, NULL));
}

static void handled(void)
{
	const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
	uint64_t end = 0;

	call_often();
	calls_start = find_calls(getpid(), &end);
	calls_end = end;
	on_signal(SIGALRM, on_timer, SA_RESTART);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (uint64_t i = 0; signals < 500 || i < 20000; i++)
		check_call(i);
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
}

/* long call_read(int, void *, size_t), with a site of its own. */
__asm__("call_read: mov $0, %eax\nsyscall\nret\n");
long call_read(int fd, void *buffer, size_t size);

static int pipe_ends[2];

static void on_alarm(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	CHECK_EQUAL(write(pipe_ends[1], "x", 1), 1);
}

/* A call that a signal interrupts is made again, or ends. */
static void restarted(void)
{
	const struct itimerval soon = { .it_value = { .tv_usec = 20000 } };
	char byte;
	long result;

	CHECK(!pipe2(pipe_ends, O_CLOEXEC));
	for (int i = 0; i < OFTEN; i++)
		CHECK_EQUAL(call_read(-1, &byte, 1), -EBADF);
	for (int i = 0; i < 6; i++) {
		on_signal(SIGALRM, on_alarm, i & 1 ? SA_RESTART : 0);
		do {
			CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
			result = call_read(pipe_ends[0], &byte, 1);
		} while (!(i & 1) && result == 1);	/* the signal came before the call */
		CHECK_EQUAL(result, i & 1 ? 1 : -EINTR);
		if (!(i & 1))
			CHECK_EQUAL(call_read(pipe_ends[0], &byte, 1), 1);
	}
}

static volatile uint64_t steps_at[2];

static void on_step(int number, siginfo_t *info, void *pointer)
{
	ucontext_t *context = pointer;
	const uint64_t ip = (uint64_t)context->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	CHECK(ip < PROGRAM_END && (ip < calls_start || ip >= calls_end));
	steps_at[0] += ip == (uint64_t)call_site;
	steps_at[1] += ip == (uint64_t)call_bare;
}

/* A program that runs its own code step by step. */
static void stepped(void)
{
	uint64_t end = 0;

	call_often();
	calls_start = find_calls(getpid(), &end);
	calls_end = end;
	on_signal(SIGTRAP, on_step, 0);
	__asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop" : : : "memory", "cc");
	struct registers registers = { .flags = 0x302 };
	call_with(&registers);
	__asm__ volatile("pushf; andl $~0x100, (%%rsp); popf; nop" : : : "memory", "cc");
	CHECK_EQUAL(steps_at[0], 1);
	CHECK_EQUAL(steps_at[1], 1);
	call_often();
}

/* ---- odd programs ---------------------------------------------------------- */

static void set_gs(uint64_t base)
{
	CHECK(!syscall(SYS_arch_prctl, 0x1001, base));
}

static uint64_t get_gs(void)
{
	uint64_t base = 1;

	CHECK(!syscall(SYS_arch_prctl, 0x1004, &base));
	return base;
}

static void segments(void)
{
	static uint64_t word = 0x1234567;
	uint64_t seen;

	call_often();
	CHECK_EQUAL(get_gs(), 0);
	set_gs((uint64_t)&word);
	call_often();
	CHECK_EQUAL(get_gs(), (uint64_t)&word);
	__asm__ volatile("mov %%gs:0, %0" : "=r"(seen));
	CHECK_EQUAL(seen, word);
	__asm__ volatile("wrgsbase %0" : : "r"(&word + 1));
	call_often();
	CHECK_EQUAL(get_gs(), (uint64_t)(&word + 1));
	set_gs(0);
	call_often();
	CHECK_EQUAL(get_gs(), 0);
}

/* A jump to the instruction `syscall` itself. */
static void bare(void)
{
	call_often();
	for (int i = 0; i < OFTEN; i++) {
		long result = SYS_getpid;

		/* The code behind the call finds an area by the stack, and returns. */
		struct registers area = { .flags = 0x202 };

		__asm__ volatile("lea -256(%%rsp), %%rsp\n"
				 "lea 1f(%%rip), %%rcx; push %%rcx\n"
				 "push %%rbx; push %%rbp; push %%r12; push %%r13; push %%r14;"
				 "push %%r15; push %1\n"
				 "jmp call_bare\n"
				 "1: lea 256(%%rsp), %%rsp\n"
				 : "+a"(result) : "D"(&area) : "rcx", "r11", "memory", "cc");
		CHECK_EQUAL(area.ax, (uint64_t)getpid());
	}
}

/* A copy of the page with the site, from the program's own file. */
static uint8_t *map_code(void)
{
	static char path[256];
	uint64_t page = (uint64_t)call_site & -PAGE, from, to, offset;
	uint8_t *copy = MAP_FAILED;
	char line[256];
	FILE *maps = fopen("/proc/self/maps", "r");
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	CHECK(maps && fd >= 0);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &from, &to, &offset, path) >= 3 &&
		    from <= page && page < to)
			copy = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
				    (off_t)(offset + page - from));
	fclose(maps);
	close(fd);
	CHECK(copy != MAP_FAILED);
	return copy;
}

static void call_copy(const uint8_t *copy)
{
	uint64_t at = (uint64_t)call_with % PAGE + (uint64_t)copy;
	struct registers area = { .flags = 0x202 };
	void (*call)(struct registers *);

	memcpy(&call, &at, sizeof(call));
	for (int i = 0; i < OFTEN; i++) {
		call(&area);
		CHECK_EQUAL(area.ax, (uint64_t)getppid());
	}
}

/* Code that is moved and replaced. */
static void moved(void)
{
	const uint64_t inside = (uint64_t)call_site % PAGE;
	uint8_t *copy = map_code(), *far = (uint8_t *)0x200000000000;

	CHECK(inside + 128 < PAGE);
	call_often();
	call_copy(copy);
	CHECK(mremap(copy, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, far) == far);
	CHECK(!memcmp(far + inside, own_bytes, SITE_BYTES));
	call_copy(far);
	CHECK(!madvise(far, 2 * PAGE, MADV_DONTNEED));
	CHECK(!memcmp(far + inside, own_bytes, SITE_BYTES));
	call_copy(far);
	call_often();
	CHECK(!memcmp(call_site, own_bytes, SITE_BYTES));
	CHECK(!munmap(far, 2 * PAGE));
}

/* Calls from a page of the program's own. A signal finds the thread there, and only there. */
static void call_own(uint8_t *page)
{
	const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
	const uint64_t before = signals;
	long (*call)(void);

	for (size_t at = 0; at + SITE_BYTES < PAGE; at += 64) {
		memcpy(page + at, own_bytes, SITE_BYTES);
		page[at + SITE_BYTES] = 0xc3;
	}
	CHECK(!mprotect(page, PAGE, PROT_READ | PROT_EXEC));
	calls_start = calls_end = 0;
	on_signal(SIGALRM, on_timer, SA_RESTART);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (uint64_t i = 0; signals < before + 200 || i < 4000; i++) {
		uint64_t at = (uint64_t)page + i * 64 % PAGE;

		memcpy(&call, &at, sizeof(call));
		CHECK_EQUAL(call(), getppid());
	}
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
}

/* The program unmaps the trampolines, and has code of its own there. */
static void unmapped(void)
{
	uint8_t *copy = map_code(), *own;
	uint64_t end = 0, start = 0, next;

	call_copy(copy);
	call_often();
	while ((next = find_calls(getpid(), &end))) {
		CHECK(next != start);
		CHECK(!munmap((void *)next, end - next));
		start = next;
	}
	CHECK(!memcmp(call_site, own_bytes, SITE_BYTES));
	call_often();
	call_copy(copy);
	CHECK(!memcmp(call_site, own_bytes, SITE_BYTES));
	own = mmap((void *)start, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | (start ? MAP_FIXED : 0), -1, 0);
	CHECK(own != MAP_FAILED);
	call_own(own);
}

/* The same by a mapping that replaces them, while they are in use. */
static void replaced(void)
{
	uint64_t end = 0, start;
	uint8_t *own;

	call_often();
	start = find_calls(getpid(), &end);
	own = mmap((void *)start, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | (start ? MAP_FIXED : 0), -1, 0);
	CHECK(own != MAP_FAILED);
	call_own(own);
	call_often();
}

/* ---- threads and processes ------------------------------------------------- */

#define SITES 200

/* Many functions, 16 bytes each. */
__asm__(".balign 16\n"
	"many_sites:\n"
	".rept 200\n"
	"mov $186, %eax\nsyscall\nret\n.balign 16\n"
	".endr\n");
extern const uint8_t many_sites[];

static void *run_many(void *unused)
{
	const long own = syscall(SYS_gettid);

	for (int i = 0; i < SITES; i++) {
		const uint64_t at = (uint64_t)many_sites + (uint64_t)i * 16;
		long (*site)(void);

		memcpy(&site, &at, sizeof(site));
		for (int turn = 0; turn < 40; turn++)
			CHECK_EQUAL(site(), own);
	}
	return unused;
}

/* Threads run through sites while these are rewritten. */
static void crowded(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, run_many, NULL));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static void reap(pid_t child)
{
	int status = -1;

	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
}

static void copied(void)
{
	char *const words[] = { "sites_inside", "handled", NULL };
	pid_t child;

	call_often();
	for (int i = 0; i < 10; i++) {
		child = fork();
		if (!child) {
			call_often();
			if (i == 5)
				run_many(NULL);
			_exit(0);
		}
		CHECK(child > 0);
		check_call(2);
		reap(child);
	}
	run_many(NULL);
	child = vfork();
	if (!child) {
		execv("/proc/self/exe", words);
		_exit(1);
	}
	reap(child);
	call_often();
}

/* ---- debuggers --------------------------------------------------------------- */

static volatile atomic_ulong *rounds;

static void wait_for_rounds(unsigned long count)
{
	unsigned long before = atomic_load(rounds);

	while (atomic_load(rounds) < before + count)
		usleep(1000);
}

static void expect_stop(pid_t child, int number)
{
	int status = -1;

	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFSTOPPED(status));
	CHECK_EQUAL(WSTOPSIG(status), number);
}

static void check_ip(pid_t child, uint64_t start, uint64_t end)
{
	struct user_regs_struct registers;

	CHECK(!ptrace(PTRACE_GETREGS, child, 0, &registers));
	CHECK(registers.rip < PROGRAM_END && (registers.rip < start || registers.rip >= end));
}

static void debug(pid_t child)
{
	uint64_t end = 0, start = find_calls(child, &end);

	CHECK(!ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACESYSGOOD));
	CHECK(!ptrace(PTRACE_INTERRUPT, child, 0, 0));
	expect_stop(child, SIGTRAP);
	check_ip(child, start, end);
	errno = 0;
	CHECK_EQUAL(ptrace(PTRACE_PEEKTEXT, child, call_site, 0) & 0xffffffffffffff,
		    0x050f00000000b8 | SYS_getppid << 8);
	CHECK_EQUAL(errno, 0);
	for (int i = 0; i < 100; i++) {
		CHECK(!ptrace(PTRACE_SYSCALL, child, 0, 0));
		expect_stop(child, SIGTRAP | 0x80);
		check_ip(child, start, end);
	}
	for (int i = 0; i < 100; i++) {
		CHECK(!ptrace(PTRACE_SINGLESTEP, child, 0, 0));
		expect_stop(child, SIGTRAP);
		check_ip(child, start, end);
	}
	CHECK(!ptrace(PTRACE_DETACH, child, 0, 0));
}

static void debugged(void)
{
	uint8_t seen[SITE_BYTES];
	struct iovec to = { seen, sizeof(seen) }, from = { (void *)call_site, sizeof(seen) };
	pid_t child;

	rounds = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(rounds != MAP_FAILED);
	child = fork();
	CHECK(child >= 0);
	for (uint64_t i = 0; !child; i++) {
		check_call(i);
		atomic_fetch_add(rounds, 1);
	}
	for (int i = 0; i < 5; i++) {
		wait_for_rounds(2 * OFTEN);
		check_bytes_of(child, call_site);
		CHECK_EQUAL(process_vm_readv(child, &to, 1, &from, 1, 0), SITE_BYTES);
		CHECK(!memcmp(seen, own_bytes, SITE_BYTES));
		wait_for_rounds(2 * OFTEN);
		debug(child);
	}
	CHECK(!kill(child, SIGKILL));
	CHECK(waitpid(child, NULL, 0) == child);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "registers", call_often }, { "rewritten", rewritten }, { "trapping", trapping },
	{ "handled", handled }, { "restarted", restarted }, { "stepped", stepped },
	{ "segments", segments }, { "bare", bare }, { "moved", moved },
	{ "unmapped", unmapped }, { "replaced", replaced }, { "crowded", crowded },
	{ "copied", copied }, { "debugged", debugged },
};

int main(int argc, char **argv)
{
	for (unsigned int i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run();
		return 0;
	}
	return 2;
}
