// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary Linux program. program_test.c runs it inside of the kernel: program_inside CASE. A
 * case ends with 0, or names the first check that failed. It knows nothing of Outboard, so it must
 * pass on any Linux; `hunger` on one with less than 1 GB.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096ul

static char *self;			/* the path of this program */

static void *map(size_t size, int flags)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static int wait_for(pid_t child)
{
	int status = -1;

	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static pid_t fork_or_die(void)
{
	pid_t child = fork();

	CHECK(child >= 0);
	return child;
}

static void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	CHECK(!sigaction(number, &action, NULL));
}

/* ---- memory --------------------------------------------------------------- */

#define COW_PAGES 1024

static void check_pages(const unsigned char *memory, int child, unsigned char own)
{
	for (unsigned int i = 0; i < COW_PAGES; i++) {
		unsigned char was = (unsigned char)(i * 7);
		unsigned char is = (i + (unsigned int)child) % 2 ? own : was;

		CHECK_EQUAL(memory[i * PAGE], is);
		CHECK_EQUAL(memory[i * PAGE + PAGE - 1], was);
	}
}

/* Each process writes to its half of the pages, in another order, while the others do. */
static void write_pages(unsigned char *memory, int child, unsigned char own)
{
	for (unsigned int n = 0; n < COW_PAGES; n++) {
		unsigned int i = n * 389 % COW_PAGES;

		if ((i + (unsigned int)child) % 2)
			memory[i * PAGE] = own;
	}
}

static void copy_on_write(void)
{
	unsigned char *memory = map(COW_PAGES * PAGE, MAP_PRIVATE);
	pid_t children[4];

	for (unsigned int i = 0; i < COW_PAGES; i++)
		memset(memory + i * PAGE, (int)(i * 7), PAGE);
	for (int child = 0; child < 4; child++) {
		children[child] = fork_or_die();
		if (children[child])
			continue;
		write_pages(memory, child, (unsigned char)(200 + child));
		check_pages(memory, child, (unsigned char)(200 + child));
		_exit(0);
	}
	write_pages(memory, 1, 100);
	for (int child = 0; child < 4; child++)
		CHECK_EQUAL(wait_for(children[child]), 0);
	check_pages(memory, 1, 100);
}

static volatile uint64_t *watched;
static atomic_bool enough;

#define OURS 0x1111111111111111ull
#define OTHERS 0x2222222222222222ull
#define TAKEN_PAGES 16

/* The page is ours, new, or not there: never what somebody else has in it. */
static void *watch(void *unused)
{
	(void)unused;
	while (!atomic_load(&enough)) {
		uint64_t seen = *watched;

		CHECK(seen == OURS || seen == 0);
	}
	return NULL;
}

/* Takes pages that have just become free, and writes to them. */
static void take_pages(void)
{
	uint64_t *memory = map(TAKEN_PAGES * PAGE, MAP_PRIVATE);

	for (unsigned int i = 0; i < TAKEN_PAGES * PAGE / sizeof(*memory); i++)
		memory[i] = OTHERS;
	CHECK(!munmap(memory, TAKEN_PAGES * PAGE));
}

static void unmapping(void)
{
	pthread_t watcher;

	watched = map(PAGE, MAP_PRIVATE);
	CHECK(!pthread_create(&watcher, NULL, watch, NULL));
	for (int i = 0; i < 100; i++) {
		*watched = OURS;
		CHECK(!madvise((void *)watched, PAGE, MADV_DONTNEED));
		take_pages();
	}
	atomic_store(&enough, true);
	CHECK(!pthread_join(watcher, NULL));
}

static sigjmp_buf back;
static volatile int fault_number, fault_code;
static void *volatile fault_address;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	fault_number = number;
	fault_code = info->si_code;
	fault_address = info->si_addr;
	siglongjmp(back, 1);
}

/* 0: the access succeeds; else the number of the signal. */
static int touch(volatile char *address, bool write)
{
	fault_number = 0;
	if (!sigsetjmp(back, 1)) {
		if (write)
			*address = 1;
		else
			(void)*address;
	}
	return fault_number;
}

static void check_bad_pointer(void *pointer, const char *what)
{
	int fd = open("/dev/zero", O_RDWR);
	struct iovec part = { pointer, 8 };

	CHECK(fd >= 0);
	if (read(fd, pointer, 8) != -1 || errno != EFAULT || readv(fd, &part, 1) != -1 ||
	    open(pointer, O_RDONLY) != -1 || errno != EFAULT ||
	    uname(pointer) != -1 || errno != EFAULT) {
		fprintf(stderr, "the kernel accepts a pointer to %s\n", what);
		_exit(1);
	}
	CHECK(!close(fd));
}

/* Memory keys: the program takes its right to all memory away. A handler has it again. */
static void check_keys(char *memory)
{
	unsigned int a = 7, b, c = 0, d;

	__asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (!(c & 1 << 4))
		return;
	fault_number = 0;
	if (!sigsetjmp(back, 1))
		__asm__ volatile("wrpkru; movb (%%rbx), %%al"
				 : : "a"(~0u), "c"(0), "d"(0), "b"(memory) : "memory");
	CHECK(fault_number == SIGSEGV && fault_code == SEGV_PKUERR && fault_address == memory);
}

static void faults(void)
{
	char *memory = map(3 * PAGE, MAP_PRIVATE), *file;
	char name[] = "/tmp/faults-XXXXXX";
	int fd = mkstemp(name);
	char *good = map(PAGE, MAP_PRIVATE);

	strcpy(good, "/");
	set_handler(SIGSEGV, on_fault, 0);
	set_handler(SIGBUS, on_fault, 0);
	CHECK(!mprotect(memory, PAGE, PROT_READ));
	CHECK_EQUAL(touch(memory, false), 0);
	CHECK_EQUAL(touch(memory + 8, true), SIGSEGV);
	CHECK(fault_code == SEGV_ACCERR && fault_address == memory + 8);
	CHECK(!munmap(memory + PAGE, PAGE));
	CHECK_EQUAL(touch(memory + PAGE + 5, false), SIGSEGV);
	CHECK(fault_code == SEGV_MAPERR && fault_address == memory + PAGE + 5);
	CHECK(fd >= 0 && !unlink(name) && !ftruncate(fd, (off_t)(2 * PAGE)));
	file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(file != MAP_FAILED);
	strcpy(file + PAGE, "mapped");
	CHECK(pread(fd, memory + 2 * PAGE, 7, (off_t)PAGE) == 7);
	CHECK(!strcmp(memory + 2 * PAGE, "mapped"));
	CHECK(!ftruncate(fd, (off_t)PAGE));
	CHECK_EQUAL(touch(file + PAGE, false), SIGBUS);
	/* Of the kernel: where its code is, its RAM may be, and what no program has. */
	check_bad_pointer((void *)8, "page 0");
	check_bad_pointer(memory + PAGE, "nothing");
	check_bad_pointer((void *)0x1e0000000000, "the kernel's code");
	check_bad_pointer((void *)0xffff800000000000, "the upper half");
	check_bad_pointer((void *)0x7ffffffff000, "the last page");
	/* They differ from a good one only in bits that page tables do not look at. */
	check_bad_pointer(good + (1ul << 48), "memory, with bit 48 set");
	check_bad_pointer(good + (1ul << 63), "memory, with bit 63 set");
	check_keys(good);
	/* A pointer into the page that may only be read. */
	CHECK(read(open("/dev/zero", O_RDONLY), memory, 1) == -1 && errno == EFAULT);
}

/* The child wants more than there is, and is killed for it. The parent goes on. */
static void hunger(void)
{
	pid_t child = fork_or_die();
	int status;

	if (!child) {
		size_t size = 1ul << 30;
		char *memory = map(size, MAP_PRIVATE | MAP_NORESERVE);

		for (size_t i = 0; i < size; i += PAGE)
			memory[i] = 1;
		_exit(0);
	}
	status = wait_for(child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- time: a task that does not run --------------------------------------- */

static void stopping(void)
{
	volatile atomic_ulong *count = map(PAGE, MAP_SHARED);
	unsigned long before;
	pid_t child = fork_or_die();
	int status;

	if (!child)
		for (;;)
			atomic_fetch_add(count, 1);
	while (atomic_load(count) < 1000)
		usleep(1000);
	CHECK(!kill(child, SIGSTOP));
	CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	before = atomic_load(count);
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		CHECK_EQUAL(atomic_load(count), before);
	}
	CHECK(!kill(child, SIGCONT));
	while (atomic_load(count) == before)
		usleep(1000);
	CHECK(!kill(child, SIGKILL));
	status = wait_for(child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- signals -------------------------------------------------------------- */

static volatile int alarms;
static char alternate[256 << 10] __attribute__((aligned(16)));

static void on_alarm(int number, siginfo_t *info, void *context)
{
	char *here = (char *)&here;

	(void)number;
	(void)info;
	(void)context;
	CHECK(here >= alternate && here < alternate + sizeof(alternate));
	/* Vector registers are as at a start, and lost afterwards. */
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n movdqa %%xmm0, %%xmm7\n movdqa %%xmm0, %%xmm15\n"
			 "std\n cld" : : : "xmm0", "xmm7", "xmm15");
	alarms++;
}

/* All of these registers keep their values while signals come. */
static bool registers_stay(uint64_t seed)
{
	uint64_t wrong;

	__asm__ volatile(
		"movq %[seed], %%xmm0\n movq %[seed], %%xmm7\n movq %[seed], %%xmm15\n"
		"mov %[seed], %%rbx\n mov %[seed], %%r8\n mov %[seed], %%r11\n"
		"mov %[seed], %%r12\n mov %[seed], %%r15\n mov %[seed], %%rcx\n"
		"mov %[seed], -16(%%rsp)\n"
		"mov $20000, %%edx\n"
		"1: dec %%edx\n jnz 1b\n"
		"xor %[seed], %%rbx\n xor %[seed], %%r8\n xor %[seed], %%r11\n"
		"xor %[seed], %%r12\n xor %[seed], %%r15\n xor %[seed], %%rcx\n"
		"mov -16(%%rsp), %[wrong]\n xor %[seed], %[wrong]\n"
		"or %%rbx, %[wrong]\n or %%r8, %[wrong]\n or %%r11, %[wrong]\n"
		"or %%r12, %[wrong]\n or %%r15, %[wrong]\n or %%rcx, %[wrong]\n"
		"movq %%xmm0, %%rbx\n xor %[seed], %%rbx\n or %%rbx, %[wrong]\n"
		"movq %%xmm7, %%rbx\n xor %[seed], %%rbx\n or %%rbx, %[wrong]\n"
		"movq %%xmm15, %%rbx\n xor %[seed], %%rbx\n or %%rbx, %[wrong]\n"
		: [wrong] "=&r"(wrong)
		: [seed] "r"(seed)
		: "rbx", "rcx", "rdx", "r8", "r11", "r12", "r15", "xmm0", "xmm7", "xmm15", "cc",
		  "memory");
	return !wrong;
}

static volatile int got, got_value;

static void on_value(int number, siginfo_t *info, void *context)
{
	(void)context;
	got = number;
	got_value = info->si_value.sival_int;
}

static void signals(void)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { 0 };
	union sigval value = { .sival_int = 77 };
	char byte;
	int ends[2];

	CHECK(getauxval(AT_MINSIGSTKSZ) >= 1024);
	CHECK(!sigaltstack(&stack, NULL));
	set_handler(SIGALRM, on_alarm, SA_ONSTACK | SA_RESTART);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (uint64_t seed = 1; alarms < 300; seed++)
		CHECK(registers_stay(seed * 0x9e3779b97f4a7c15));
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	set_handler(SIGUSR1, on_value, 0);
	CHECK(!sigqueue(getpid(), SIGUSR1, value));
	CHECK(got == SIGUSR1 && got_value == 77);
	/* A read is made again, or ends with EINTR. */
	CHECK(!pipe(ends));
	set_handler(SIGALRM, on_value, 0);
	/* Again and again: the first one may come before the read. */
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	set_handler(SIGALRM, on_value, SA_RESTART);
	got = 0;
	if (!fork_or_die()) {
		while (!kill(getppid(), SIGALRM) && usleep(5000))
			;
		CHECK(write(ends[1], "x", 1) == 1);
		_exit(0);
	}
	CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x' && got == SIGALRM);
}

/* ---- threads -------------------------------------------------------------- */

struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	long value, turn;
};

static __thread long own;

static void share(struct shared *shared)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t condition;

	CHECK(!pthread_mutexattr_init(&mutex) && !pthread_condattr_init(&condition));
	CHECK(!pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
	CHECK(!pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
	CHECK(!pthread_mutex_init(&shared->mutex, &mutex));
	CHECK(!pthread_cond_init(&shared->changed, &condition));
}

static void *add(void *argument)
{
	struct shared *shared = argument;

	for (int i = 0; i < 2000; i++) {
		CHECK(!pthread_mutex_lock(&shared->mutex));
		shared->value++;
		own++;
		CHECK(!pthread_mutex_unlock(&shared->mutex));
	}
	CHECK_EQUAL(own, 2000);
	return NULL;
}

/* Two processes in turn: each wake-up is that of the other one's futex. */
static void take_turns(struct shared *shared, long which)
{
	CHECK(!pthread_mutex_lock(&shared->mutex));
	for (int i = 0; i < 100; i++) {
		while (shared->turn % 2 != which)
			CHECK(!pthread_cond_wait(&shared->changed, &shared->mutex));
		shared->turn++;
		CHECK(!pthread_cond_broadcast(&shared->changed));
	}
	CHECK(!pthread_mutex_unlock(&shared->mutex));
}

static void threads(void)
{
	struct shared *shared = map(PAGE, MAP_SHARED);
	pthread_t adders[8];
	pid_t child;

	share(shared);
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&adders[i], NULL, add, shared));
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_join(adders[i], NULL));
	CHECK_EQUAL(shared->value, 16000);
	child = fork_or_die();
	take_turns(shared, !child);
	if (!child)
		_exit(0);
	CHECK_EQUAL(wait_for(child), 0);
	CHECK_EQUAL(shared->turn, 200);
}

/* ---- other programs ------------------------------------------------------- */

static void *spin(void *unused)
{
	(void)unused;
	for (volatile long i = 0;; i = i + 1)
		;
	return NULL;
}

static void *become(void *path)
{
	char *arguments[] = { path, "executed", NULL }, *environment[] = { "WHO=threads", NULL };

	execve(path, arguments, environment);
	CHECK(!"execve");
	return NULL;
}

static void execute(void)
{
	int kept = dup(2), closed = fcntl(2, F_DUPFD_CLOEXEC, 20);
	pthread_t thread;
	pid_t child = fork_or_die();

	CHECK(kept == 3 && closed >= 20);
	if (!child) {
		for (int i = 0; i < 3; i++)
			CHECK(!pthread_create(&thread, NULL, spin, NULL));
		CHECK(!pthread_create(&thread, NULL, become, self));
		spin(NULL);
	}
	CHECK_EQUAL(wait_for(child), 0);
}

/* A thread has executed this: it is alone, with the process's number and the right descriptors. */
static void executed(void)
{
	CHECK(!strcmp(getenv("WHO"), "threads"));
	CHECK_EQUAL(getpid(), gettid());
	CHECK(fcntl(3, F_GETFD) >= 0);
	CHECK(fcntl(20, F_GETFD) == -1 && errno == EBADF);
}

static void script(void)
{
	char *arguments[] = { "/tmp/script", NULL }, *environment[] = { NULL };
	int fd = open("/tmp/script", O_CREAT | O_WRONLY | O_TRUNC, 0755);
	pid_t child;

	CHECK(fd >= 0 && dprintf(fd, "#!%s arguments\n", self) > 0 && !close(fd));
	child = vfork();
	CHECK(child >= 0);
	if (!child) {
		execve("/tmp/script", arguments, environment);
		_exit(99);
	}
	CHECK_EQUAL(wait_for(child), 0);
}

static void nothing(void)
{
}

static void endless(void)
{
	for (;;)
		;
}

/* Files and a shared mapping of one, for ever, in the working directory. */
static void write_files(void)
{
	static char data[1 << 16];
	char name[32];
	char *memory;
	int fd;

	for (unsigned int i = 0;; i++) {
		snprintf(name, sizeof(name), "%d-%u", getpid(), i % 8);
		fd = open(name, O_CREAT | O_RDWR, 0644);
		CHECK(fd >= 0 && write(fd, data, sizeof(data)) == sizeof(data));
		memory = mmap(NULL, sizeof(data), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(memory != MAP_FAILED);
		memory[i % sizeof(data)] = 1;
		CHECK(!munmap(memory, sizeof(data)) && !close(fd));
		if (i == 8)
			CHECK(!rename(name, "written"));
	}
}

static void pause_for_ever(void)
{
	for (;;)
		pause();
}

#define CROWD 500

/* Processes that sleep, and some that compute or write, until somebody ends them. */
static void crowd(void)
{
	for (int i = 0; i < CROWD; i++) {
		if (fork_or_die())
			continue;
		if (i % 50 == 0)
			endless();
		if (i % 25 == 1)
			write_files();
		pause_for_ever();
	}
	pause_for_ever();
}

/* A sign of life on the output, again and again. */
static void beat(void)
{
	for (;;) {
		CHECK(write(1, ".", 1) == 1);
		usleep(1000);
	}
}

/*
 * Pages that nothing keeps together: touched in an order that has no neighbours, more than the host
 * has mappings for a process. All keep what they have.
 */
#define SCATTERED 80000ul

static void scattered(void)
{
	uint64_t *memory = map(SCATTERED * PAGE, MAP_PRIVATE | MAP_NORESERVE);
	unsigned long at;

	for (unsigned long i = 0; i < SCATTERED; i++) {
		at = i * 30011 % SCATTERED;
		memory[at * PAGE / sizeof(*memory)] = at;
	}
	for (unsigned long i = 0; i < SCATTERED; i++)
		CHECK_EQUAL(memory[i * PAGE / sizeof(*memory)], i);
}

static void fail(void)
{
	_exit(7);
}

static void hello(void)
{
	struct stat status;

	CHECK(write(1, "hello\n", 6) == 6);
	for (int fd = 3; fd < 100; fd++)
		CHECK(fstat(fd, &status) == -1 && errno == EBADF);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "copy_on_write", copy_on_write }, { "unmapping", unmapping }, { "faults", faults },
	{ "stopping", stopping }, { "signals", signals }, { "threads", threads },
	{ "hunger", hunger }, { "execute", execute }, { "executed", executed },
	{ "script", script }, { "arguments", nothing }, { "nothing", nothing },
	{ "beat", beat }, { "crowd", crowd }, { "scattered", scattered },
	{ "endless", endless }, { "write", write_files }, { "fail", fail }, { "hello", hello },
};

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	self = argv[0];
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "no case %s\n", argv[1]);
	return 2;
}
