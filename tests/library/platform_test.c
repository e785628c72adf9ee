// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the POSIX platform without a kernel: memory, mapping, threads, waiting,
 * faults, signals, fork. Each test runs in a process of its own, because most of what is tested
 * belongs to a process. Arguments: names of tests; none: all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/platform.h>

#include "check.h"
#include "mock_kernel.h"
#include "virtio.h"

#define MB (1ull << 20)
#define RAM_SIZE (64 * MB)
#define WINDOW_SIZE (32 * MB)
#define ALL_ACCESS (OB_PROTECTION_READ | OB_PROTECTION_WRITE | OB_PROTECTION_EXECUTE)

static uint64_t regions[OB_REGIONS];

static void start(void)
{
	CHECK_EQUAL(ob_platform_start(mock_host, NULL, NULL), 0);
}

static void reserve_all(void)
{
	for (int i = 0; i < OB_REGION_SHADOW; i++) {
		uint64_t size = i == OB_REGION_RAM ? RAM_SIZE : WINDOW_SIZE;

		CHECK_EQUAL(ob_host_region_reserve(mock_host, i, size, &regions[i]), 0);
		CHECK_EQUAL(regions[i] % (16 * MB), 0);
	}
}

static void setup(void)
{
	start();
	reserve_all();
}

static uint64_t resident_bytes(void)
{
	unsigned long total, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file);
	CHECK(fscanf(file, "%lu %lu", &total, &resident) == 2);
	fclose(file);
	return resident * 4096;
}

/* ---- memory ---- */

static void test_regions(void)
{
	uint64_t address, before;

	setup();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, RAM_SIZE, &address), -EEXIST);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, 0, &address), -EINVAL);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGIONS, 4096, &address), -EINVAL);
	CHECK_EQUAL(mock_read_byte((void *)regions[OB_REGION_RAM]), 0);
	CHECK_EQUAL(mock_write_byte((void *)(regions[OB_REGION_RAM] + RAM_SIZE - 1)), 0);
	for (int i = OB_REGION_RAM + 1; i < OB_REGION_SHADOW; i++) {
		CHECK_EQUAL(mock_read_byte((void *)regions[i]), -EFAULT);
		CHECK_EQUAL(mock_write_byte((void *)(regions[i] + WINDOW_SIZE - 1)), -EFAULT);
	}
	before = resident_bytes();
	memset((void *)regions[OB_REGION_RAM], 1, 32 * MB);
	CHECK(resident_bytes() >= before + 30 * MB);
	ob_host_region_discard(mock_host, regions[OB_REGION_RAM], 32 * MB);
	CHECK(resident_bytes() < before + 4 * MB);
	CHECK_EQUAL(*(char *)regions[OB_REGION_RAM], 0);
	ob_host_regions_release(mock_host);
	CHECK_EQUAL(mock_read_byte((void *)regions[OB_REGION_RAM]), -EFAULT);
	reserve_all();
}

/* Where it is wanted, zero, huge, and there to the end. */
static void test_shadow(void)
{
	const uint64_t wanted = 0x200000000000, size = 1ull << 44;
	uint64_t address = (uint64_t)test_regions & ~0xfffull, before;

	start();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_SHADOW, size, &address), -ENOMEM);
	address = wanted;
	before = resident_bytes();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_SHADOW, size, &address), 0);
	CHECK_EQUAL(address, wanted);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_SHADOW, size, &address), -EEXIST);
	CHECK_EQUAL(*(char *)wanted, 0);
	*(char *)(wanted + size - 1) = 1;
	CHECK(resident_bytes() < before + 4 * MB);
	ob_host_regions_release(mock_host);
	CHECK_EQUAL(*(char *)(wanted + size - 1), 1);
}

static void test_commit(void)
{
	uint64_t stacks;

	setup();
	stacks = regions[OB_REGION_STACKS];
	CHECK_EQUAL(ob_host_region_commit(mock_host, stacks + 4096, 64 << 10), 0);
	CHECK_EQUAL(mock_read_byte((void *)stacks), -EFAULT);
	CHECK_EQUAL(mock_write_byte((void *)(stacks + 4096)), 0);
	CHECK_EQUAL(*(char *)(stacks + 4096), 1);
	ob_host_region_discard(mock_host, stacks + 4096, 64 << 10);
	CHECK_EQUAL(*(char *)(stacks + 4096), 0);
	CHECK_EQUAL(ob_host_region_commit(mock_host, regions[OB_REGION_VMALLOC], 4096), -EINVAL);
	CHECK_EQUAL(ob_host_region_commit(mock_host, stacks + WINDOW_SIZE - 4096, 8192), -EINVAL);
	CHECK_EQUAL(ob_host_region_commit(mock_host, stacks, 100), -EINVAL);
}

static void test_map(void)
{
	char *ram, *window;

	setup();
	ram = (char *)regions[OB_REGION_RAM];
	window = (char *)regions[OB_REGION_VMALLOC];
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, 8192, 4096,
				OB_PROTECTION_READ | OB_PROTECTION_WRITE),
		    0);
	ram[8192] = 'a';
	CHECK_EQUAL(window[0], 'a');
	window[1] = 'b';
	CHECK_EQUAL(ram[8193], 'b');
	CHECK_EQUAL(mock_read_byte(window + 4096), -EFAULT);
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, 12288, 8192, OB_PROTECTION_READ), 0);
	CHECK_EQUAL(window[0], 0);
	CHECK_EQUAL(mock_write_byte(window), -EFAULT);
	CHECK_EQUAL(mock.last_fault.flags, OB_FAULT_WRITE);
	CHECK_EQUAL(mock.last_fault.address, window);
	CHECK_EQUAL(ob_host_unmap(mock_host, (uint64_t)window, 4096), 0);
	CHECK_EQUAL(mock_read_byte(window), -EFAULT);
	CHECK_EQUAL(mock.last_fault.flags, 0);
	CHECK_EQUAL(mock_read_byte(window + 4096), 0);
}

/* More RAM may lie in another file, which the kernel cannot notice. */
static void test_extend(void)
{
	const uint64_t border = 32 * MB;
	char *ram, *window;

	ob_platform_prepare(mock_host);
	setup();
	ram = (char *)regions[OB_REGION_RAM];
	window = (char *)regions[OB_REGION_CLIENT];
	memset(ram + border - 4096, 'a', 4096);
	CHECK_EQUAL(ob_host_ram_extend(mock_host, (uint64_t)ram, border), 0);
	CHECK_EQUAL(ob_host_ram_extend(mock_host, (uint64_t)ram + border, 4 * MB), 0);
	CHECK_EQUAL(ob_host_ram_extend(mock_host, (uint64_t)ram + border + 4 * MB, 4 * MB), 0);
	CHECK_EQUAL(ram[border - 1], 'a');
	CHECK_EQUAL(ram[border], 0);
	memset(ram + border, 'b', 16 * MB);
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, border - 4096, 8192,
				OB_PROTECTION_READ | OB_PROTECTION_WRITE),
		    0);
	CHECK_EQUAL(window[0], 'a');
	CHECK_EQUAL(window[4096], 'b');
	window[0] = window[4096] = 'c';
	CHECK_EQUAL(ram[border - 4096], 'c');
	CHECK_EQUAL(ram[border], 'c');
	ob_host_region_discard(mock_host, (uint64_t)ram + border, MB);
	CHECK_EQUAL(ram[border], 0);
	CHECK_EQUAL(window[4096], 0);
	CHECK_EQUAL(ram[border - 4096], 'c');
	CHECK_EQUAL(ram[border + MB], 'b');
	ob_host_regions_release(mock_host);
	reserve_all();
	CHECK_EQUAL(*((char *)regions[OB_REGION_RAM] + border + MB), 0);
}

static void test_map_errors(void)
{
	uint64_t window, end;

	setup();
	window = regions[OB_REGION_CLIENT];
	end = window + WINDOW_SIZE;
	CHECK_EQUAL(ob_host_map(mock_host, window, RAM_SIZE, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, RAM_SIZE - 4096, 8192, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, 1, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window + 1, 0, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, 0, 0, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, UINT64_MAX - 4095, 8192, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, end - 4096, 0, 8192, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, regions[OB_REGION_RAM], 0, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, regions[OB_REGION_STACKS], 0, 4096, ALL_ACCESS),
		    -EINVAL);
	CHECK_EQUAL(ob_host_unmap(mock_host, end, 4096), -EINVAL);
	CHECK_EQUAL(ob_host_unmap(mock_host, regions[OB_REGION_RAM], 4096), -EINVAL);
}

static void test_modules_near_and_executable(void)
{
	/* mov $42, %eax; ret */
	static const unsigned char return_42[] = { 0xb8, 42, 0, 0, 0, 0xc3 };
	int64_t distance;
	uint64_t window;

	setup();
	window = regions[OB_REGION_MODULES];
	distance = (int64_t)(window - (uint64_t)&ob_host_region_reserve);
	CHECK(distance > -(1l << 30) && distance + (int64_t)WINDOW_SIZE < 1l << 30);
	memcpy((char *)regions[OB_REGION_RAM] + 4096, return_42, sizeof(return_42));
	CHECK_EQUAL(ob_host_map(mock_host, window, 4096, 4096,
				OB_PROTECTION_READ | OB_PROTECTION_EXECUTE),
		    0);
	CHECK_EQUAL(((int (*)(void))window)(), 42);
}

/* A host that has no room for more mappings says -ENOMEM, and unmapping gives room again. */
static void test_mappings_run_out(void)
{
	uint64_t size = 1024 * MB, window, pages = size / 4096, mapped = 0;
	int error = 0;

	start();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, RAM_SIZE,
					   &regions[OB_REGION_RAM]),
		    0);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_CLIENT, size, &window), 0);
	while (!error && mapped < pages / 2) {
		/* With gaps, so that no two become one. */
		error = ob_host_map(mock_host, window + mapped * 8192, 0, 4096, OB_PROTECTION_READ);
		mapped += !error;
	}
	CHECK(mapped > 10000);
	CHECK(error == -ENOMEM || mapped == pages / 2);
	for (uint64_t i = 0; i < 100; i++)
		CHECK_EQUAL(ob_host_unmap(mock_host, window + i * 8192, 4096), 0);
	CHECK_EQUAL(mock_read_byte((void *)window), -EFAULT);
	CHECK_EQUAL(ob_host_unmap(mock_host, window, size), 0);
	CHECK_EQUAL(ob_host_map(mock_host, window + size - 4096, 0, 4096, OB_PROTECTION_READ), 0);
}

static void test_address_space_runs_out(void)
{
	struct rlimit limit = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
	uint64_t address;

	start();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_CLIENT, 1ull << 48, &address),
		    -ENOMEM);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_MODULES, 1ull << 30, &address),
		    -ENOMEM);
	CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, RAM_SIZE, &address), -ENOMEM);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_MODULES, WINDOW_SIZE, &address),
		    -ENOMEM);
}

static void test_sizes(void)
{
	struct ob_info info;

	ob_host_info(mock_host, &info);
	CHECK(info.memory >= 64 * MB);
	CHECK(info.processors >= 1 && info.processors <= 4096);
	CHECK_EQUAL(info.features, 0);
}

/* ---- faults ---- */

static void test_fault_is_resumed(void)
{
	setup();
	errno = 77;
	CHECK_EQUAL(mock_read_byte(NULL), -EFAULT);
	CHECK_EQUAL(mock_write_byte((void *)8), -EFAULT);
	CHECK_EQUAL(mock.last_fault.address, 8);
	CHECK_EQUAL(mock.last_fault.flags, OB_FAULT_WRITE);
	/* No address at all: the processor reports no address for it. */
	CHECK_EQUAL(mock_read_byte((void *)0x8000000000000000ul), -EFAULT);
	CHECK_EQUAL(mock_write_byte((void *)"constant"), -EFAULT);
	CHECK_EQUAL(errno, 77);
}

static void test_fault_beyond_file(void)
{
	FILE *file = tmpfile();
	char *map;

	setup();
	CHECK(file);
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
	CHECK(map != MAP_FAILED);
	CHECK_EQUAL(mock_read_byte(map), -EFAULT);	/* SIGBUS */
}

/* Runs fn in a child; returns how it ended. */
static int status_of_child(void (*fn)(void))
{
	struct rlimit no_core = { 0, 0 };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		fn();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static volatile sig_atomic_t chained;
static sigjmp_buf after_fault;

static void chained_with_info(int number, siginfo_t *info, void *context)
{
	sigset_t now;

	chained++;
	sigprocmask(SIG_BLOCK, NULL, &now);
	/* As the program had asked for: its mask, and the signal itself. */
	if (!context || info->si_signo != number || !sigismember(&now, number) ||
	    !sigismember(&now, SIGUSR2))
		_exit(9);
	siglongjmp(after_fault, 1);
}

static void chained_plain(int number)
{
	(void)number;
	chained++;
	siglongjmp(after_fault, 1);
}

static void fault_of_the_program(void)
{
	*(volatile char *)16 = 1;
}

static void install(int number, void (*plain)(int), void (*with_info)(int, siginfo_t *, void *),
		    int flags)
{
	struct sigaction action = { .sa_flags = flags };

	sigemptyset(&action.sa_mask);
	if (with_info) {
		action.sa_flags |= SA_SIGINFO;
		action.sa_sigaction = with_info;
		sigaddset(&action.sa_mask, SIGUSR2);
	} else {
		action.sa_handler = plain;
	}
	CHECK_EQUAL(sigaction(number, &action, NULL), 0);
}

static void test_fault_chains_to_handler(void)
{
	install(SIGSEGV, NULL, chained_with_info, 0);
	setup();
	for (int i = 1; i <= 2; i++) {
		if (!sigsetjmp(after_fault, 1))
			fault_of_the_program();
		CHECK_EQUAL(chained, i);
	}
	CHECK_EQUAL(mock_read_byte(NULL), -EFAULT);
	CHECK_EQUAL(chained, 2);
}

static void fault_after_one_shot_handler(void)
{
	install(SIGSEGV, chained_plain, NULL, SA_RESETHAND);
	setup();
	if (!sigsetjmp(after_fault, 1))
		fault_of_the_program();
	if (chained != 1)
		_exit(9);
	fault_of_the_program();
}

static void fault_by_default(void)
{
	install(SIGSEGV, SIG_DFL, NULL, 0);
	setup();
	fault_of_the_program();
}

static void fault_ignored(void)
{
	install(SIGSEGV, SIG_IGN, NULL, 0);
	setup();
	fault_of_the_program();
}

static void sent_by_default(void)
{
	install(SIGBUS, SIG_DFL, NULL, 0);
	setup();
	kill(getpid(), SIGBUS);
}

static void sent_and_ignored(void)
{
	install(SIGSEGV, SIG_IGN, NULL, 0);
	setup();
	kill(getpid(), SIGSEGV);
}

static void test_fault_default_actions(void)
{
	CHECK_EQUAL(WTERMSIG(status_of_child(fault_by_default)), SIGSEGV);
	CHECK_EQUAL(WTERMSIG(status_of_child(fault_ignored)), SIGSEGV);
	CHECK_EQUAL(WTERMSIG(status_of_child(fault_after_one_shot_handler)), SIGSEGV);
	CHECK_EQUAL(WTERMSIG(status_of_child(sent_by_default)), SIGBUS);
	CHECK_EQUAL(status_of_child(sent_and_ignored), 0);
}

static void test_stop_restores_handlers(void)
{
	struct sigaction now;

	install(SIGSEGV, chained_plain, NULL, 0);
	start();
	install(SIGBUS, chained_plain, NULL, SA_NODEFER);	/* on top of ours: stays */
	ob_platform_stop(mock_host);
	sigaction(SIGSEGV, NULL, &now);
	CHECK(now.sa_handler == chained_plain);
	sigaction(SIGBUS, NULL, &now);
	CHECK(now.sa_handler == chained_plain && (now.sa_flags & SA_NODEFER));
	sigaction(SIGURG, NULL, &now);
	CHECK(now.sa_handler == SIG_DFL);
}

/* ---- threads ---- */

static uint32_t flag;

static void set_flag(uint32_t value)
{
	__atomic_store_n(&flag, value, __ATOMIC_SEQ_CST);
	ob_host_wake(mock_host, &flag, 1);
}

static void wait_for_flag(uint32_t value)
{
	uint32_t now;

	while ((now = __atomic_load_n(&flag, __ATOMIC_SEQ_CST)) != value)
		ob_host_wait(mock_host, &flag, now, OB_FOREVER);
}

static void thread_body(void *argument)
{
	char name[16];
	sigset_t mask;

	pthread_getname_np(pthread_self(), name, sizeof(name));
	CHECK(!strcmp(name, "a-name-that-is-"));
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	CHECK(sigismember(&mask, SIGALRM) && sigismember(&mask, SIGTERM));
	CHECK(!sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGBUS) &&
	      !sigismember(&mask, SIGURG));
	*(uint64_t *)argument = ob_host_thread_self(mock_host);
}

static void test_thread(void)
{
	uint64_t thread, self = 0;
	sigset_t mask;

	start();
	CHECK_EQUAL(ob_host_thread_create(mock_host, thread_body, &self, "a-name-that-is-too-long",
					  &thread),
		    0);
	ob_host_thread_join(mock_host, thread);
	CHECK(self && self != ob_host_thread_self(mock_host));
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	CHECK(!sigismember(&mask, SIGALRM));
	ob_host_thread_yield(mock_host);
}

static void nothing(void *argument)
{
	(void)argument;
}

#ifndef __SANITIZE_ADDRESS__
static void test_thread_limit(void)
{
	struct rlimit limit = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
	uint64_t thread;
	int error;

	start();
	CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	error = ob_host_thread_create(mock_host, nothing, NULL, "none", &thread);
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_AS, &limit);
	CHECK_EQUAL(error, -EAGAIN);
}
#endif

static void test_many_threads(void)
{
	uint64_t thread;

	start();
	for (int i = 0; i < 1000; i++) {
		CHECK_EQUAL(ob_host_thread_create(mock_host, nothing, NULL, "one", &thread), 0);
		ob_host_thread_join(mock_host, thread);
	}
}

static pthread_key_t other_key;

static void call_in_again(void *value)
{
	(void)value;
	CHECK_EQUAL(ob_host_thread_adopted(mock_host), 0);
}

static void *adopted_body(void *twice)
{
	CHECK_EQUAL(ob_host_thread_adopted(mock_host), 0);
	CHECK_EQUAL(ob_host_thread_adopted(mock_host), 0);
	if (twice)
		pthread_setspecific(other_key, twice);
	return NULL;
}

static void test_adopted_thread_ends(void)
{
	pthread_t thread;

	start();
	/* Made after ours, so its destructor runs after ours. */
	CHECK_EQUAL(pthread_key_create(&other_key, call_in_again), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, adopted_body, NULL), 0);
	pthread_join(thread, NULL);
	CHECK_EQUAL(mock.thread_exits, 1);
	CHECK_EQUAL(pthread_create(&thread, NULL, adopted_body, &other_key), 0);
	pthread_join(thread, NULL);
	CHECK_EQUAL(mock.thread_exits, 3);
	ob_platform_stop(mock_host);
}

/* ---- waiting and clocks ---- */

static void answer(void *argument)
{
	(void)argument;
	wait_for_flag(1);
	set_flag(2);
}

static void test_wait(void)
{
	uint64_t thread, before = ob_host_clock_monotonic(mock_host);
	uint32_t word = 5;

	ob_host_wait(mock_host, &word, 4, OB_FOREVER);
	ob_host_wait(mock_host, &word, 5, 20 * 1000000);
	CHECK(ob_host_clock_monotonic(mock_host) - before >= 20 * 1000000);
	CHECK_EQUAL(ob_host_thread_create(mock_host, answer, NULL, "answer", &thread), 0);
	set_flag(1);
	wait_for_flag(2);
	ob_host_thread_join(mock_host, thread);
	CHECK(ob_host_clock_realtime(mock_host) > 1700000000ull * 1000000000ull);
	before = ob_host_clock_realtime_coarse(mock_host);
	CHECK(before > 1700000000ull * 1000000000ull &&
	      before <= ob_host_clock_realtime(mock_host));
}

static void test_random(void)
{
	unsigned char a[1000] = { 0 }, b[1000] = { 0 };

	CHECK_EQUAL(ob_host_random(mock_host, a, sizeof(a)), 0);
	CHECK_EQUAL(ob_host_random(mock_host, b, sizeof(b)), 0);
	CHECK(memcmp(a, b, sizeof(a)));
	CHECK(memcmp(a + 900, b + 900, 100));
}

/* ---- the preempt signal ---- */

static int pipe_ends[2];
static uint64_t reader_self;

static void *blocked_reader(void *unused)
{
	char byte;

	(void)unused;
	errno = 55;
	__atomic_store_n(&reader_self, ob_host_thread_self(mock_host), __ATOMIC_SEQ_CST);
	set_flag(1);
	/* Not -1 and EINTR: the call is restarted. */
	CHECK_EQUAL(read(pipe_ends[0], &byte, 1), 1);
	CHECK_EQUAL(errno, 55);
	return NULL;
}

static void wait_for_preemptions(uint32_t count)
{
	for (int i = 0; i < 60000 && __atomic_load_n(&mock.preemptions, __ATOMIC_SEQ_CST) < count;
	     i++)
		usleep(1000);
	CHECK_EQUAL(mock.preemptions, count);
}

static void test_preempt(void)
{
	pthread_t thread;

	install(SIGURG, chained_plain, NULL, 0);
	start();
	CHECK_EQUAL(pipe(pipe_ends), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, blocked_reader, NULL), 0);
	wait_for_flag(1);
	usleep(20000);
	ob_host_thread_interrupt(mock_host, reader_self);
	wait_for_preemptions(1);
	CHECK_EQUAL(mock_preempted_thread, reader_self);
	CHECK_EQUAL(chained, 0);
	CHECK_EQUAL(write(pipe_ends[1], "x", 1), 1);
	pthread_join(thread, NULL);
	ob_host_thread_interrupt(mock_host, reader_self);	/* has ended */
}

static void test_preempt_chains(void)
{
	install(SIGURG, chained_plain, NULL, 0);
	start();
	if (!sigsetjmp(after_fault, 1))
		raise(SIGURG);
	CHECK_EQUAL(chained, 1);
	ob_platform_stop(mock_host);
	if (!sigsetjmp(after_fault, 1))
		raise(SIGURG);
	CHECK_EQUAL(chained, 2);
}

static void test_preempt_ignored_by_default(void)
{
	start();
	raise(SIGURG);
	CHECK_EQUAL(mock.preemptions, 1);
}

/* ---- fork ---- */

static void child_of_fork(void)
{
	if (mock.forks != 1 || ob_platform_start(mock_host, NULL, NULL))
		_exit(1);
	for (int i = 0; i < OB_REGIONS; i++) {
		if (mock_read_byte((void *)regions[i]) != -EFAULT)
			_exit(2);
	}
	if (ob_host_map(mock_host, regions[OB_REGION_CLIENT], 0, 4096, ALL_ACCESS) != -EINVAL)
		_exit(3);
}

static void test_fork(void)
{
	char *ram, *window;

	setup();
	ram = (char *)regions[OB_REGION_RAM];
	window = (char *)regions[OB_REGION_CLIENT];
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, 0, 4096, ALL_ACCESS), 0);
	CHECK_EQUAL(ob_host_region_commit(mock_host, regions[OB_REGION_STACKS], 4096), 0);
	CHECK_EQUAL(ob_host_region_commit(mock_host, regions[OB_REGION_PAGES], 4096), 0);
	ram[0] = 'p';
	CHECK_EQUAL(status_of_child(child_of_fork), 0);
	CHECK_EQUAL(window[0], 'p');
	CHECK_EQUAL(mock.forks, 0);
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window + 4096, 0, 4096, ALL_ACCESS), 0);
	CHECK_EQUAL(window[4096], 'p');
}

/* ---- console and panic ---- */

static char logged[64];

static void log_line(void *context, int level, const char *line, uint64_t length)
{
	(void)context;
	snprintf(logged, sizeof(logged), "%d %.*s", level, (int)length, line);
}

static void test_console(void)
{
	ob_host_console_write(mock_host, 3, "lost", 4);
	CHECK_EQUAL(ob_platform_start(mock_host, log_line, NULL), 0);
	ob_host_console_write(mock_host, 3, "a line and more", 6);
	CHECK(!strcmp(logged, "3 a line"));
}

static void panic(void)
{
	dup2(pipe_ends[1], STDERR_FILENO);
	ob_host_panic(mock_host, "this is a test");
}

static void test_panic(void)
{
	char text[100] = { 0 };

	CHECK_EQUAL(pipe(pipe_ends), 0);
	CHECK_EQUAL(WTERMSIG(status_of_child(panic)), SIGABRT);
	CHECK(read(pipe_ends[0], text, sizeof(text) - 1) > 0);
	CHECK(!strcmp(text, "outboard: kernel panic: this is a test\n"));
}

static unsigned int end_with_seven(void *context, const char *text, size_t length)
{
	_exit(length == strlen(text) && !strcmp(text, context) ? 7 : 1);
}

static void handled_panic(void)
{
	ob_platform_set_panic(mock_host, end_with_seven, "this is a test");
	panic();
}

static unsigned int do_nothing(void *context, const char *text, size_t length)
{
	(void)context;
	(void)text;
	(void)length;
	return 0;
}

static void panic_of_quiet_handler(void)
{
	ob_platform_set_panic(mock_host, do_nothing, NULL);
	panic();
}

/* The program's handler may end the process; if it does not, abort() does. */
static void test_panic_handler(void)
{
	CHECK_EQUAL(pipe(pipe_ends), 0);
	CHECK_EQUAL(WEXITSTATUS(status_of_child(handled_panic)), 7);
	CHECK_EQUAL(WTERMSIG(status_of_child(panic_of_quiet_handler)), SIGABRT);
}

/* Upcalls go to the kernel that they concern, and nothing that a host has is another's. */
static uint32_t other_faults;

static int other_fault(struct ob_fault *fault)
{
	(void)fault;
	other_faults++;
	return 0;
}

static int never(void)
{
	return 0;
}

static void test_two_hosts(void)
{
	static const struct ob_upcalls upcalls = {
		.fault = other_fault, .preempt_begin = never, .thread_exit = (void *)never,
	};
	uint64_t address[2], size = 16 * MB;
	struct ob_host *other;

	start();
	CHECK_EQUAL(ob_platform_host_new(&upcalls, &other), 0);
	CHECK(other != mock_host);
	CHECK(ob_platform_thread_block(other) != ob_platform_thread_block(mock_host));
	CHECK_EQUAL(ob_platform_start(other, log_line, NULL), 0);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_STACKS, size, &address[0]), 0);
	CHECK_EQUAL(ob_host_region_reserve(other, OB_REGION_STACKS, size, &address[1]), 0);
	CHECK_EQUAL(ob_host_region_commit(other, address[0], 4096), -EINVAL);
	CHECK_EQUAL(ob_host_region_commit(other, address[1], 4096), 0);
	/* One stops: the signal handlers stay, and its memory is its own affair. */
	ob_host_regions_release(mock_host);
	CHECK_EQUAL(*(char *)address[1], 0);
	CHECK_EQUAL(mock_read_byte((void *)address[0]), -14);
	other_faults = 0;
	ob_platform_stop(other);
	ob_platform_stop(other);
	CHECK_EQUAL(mock_read_byte((void *)address[0]), -14);
	CHECK_EQUAL(other_faults, 0);
	ob_host_regions_release(other);
	ob_platform_host_free(other);
}

static void test_too_many_hosts(void)
{
	struct ob_host *hosts[OB_HOSTS_MOST];
	static const struct ob_upcalls upcalls = { .forked = (void *)never };

	for (int i = 1; i < OB_HOSTS_MOST; i++)
		CHECK_EQUAL(ob_platform_host_new(&upcalls, &hosts[i]), 0);
	CHECK_EQUAL(ob_platform_host_new(&upcalls, &hosts[0]), -EAGAIN);
	for (int i = 1; i < OB_HOSTS_MOST; i++)
		ob_platform_host_free(hosts[i]);
}

/* ---- a thread that is stopped while it polls a device ---- */

static bool poll_goes_on, device_is_closed;

static void poll_for_long(struct ob_virtio_device *device, bool is_last)
{
	(void)device;
	(void)is_last;
	set_flag(1);
	while (!__atomic_load_n(&poll_goes_on, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static int reset_device(struct ob_virtio_device *device)
{
	(void)device;
	return -EAGAIN;
}

static void close_device(struct ob_virtio_device *device)
{
	(void)device;
	device_is_closed = true;
}

static void *poll_once(void *unused)
{
	uint32_t word = 0;

	ob_host_virtio_poll(mock_host, &word, 1, 0);
	return unused;
}

/* The device and all memory stay, and the thread that closes it goes on. */
static void test_stopped_poller(void)
{
	static const struct ob_virtio_operations operations = {
		.poll = poll_for_long, .reset = reset_device, .close = close_device,
	};
	struct ob_virtio_device device = { .operations = &operations, .is_polled = true };
	uint64_t address, size = 16 * MB;
	pthread_t thread;
	int number;

	start();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_STACKS, size, &address), 0);
	CHECK_EQUAL(ob_host_region_commit(mock_host, address, 4096), 0);
	number = ob_virtio_insert(mock_host, &device);
	CHECK(number >= 0);
	set_flag(0);
	CHECK(!pthread_create(&thread, NULL, poll_once, NULL));
	wait_for_flag(1);
	CHECK(!ob_platform_has_left_behind(mock_host));
	ob_host_virtio_close(mock_host, (uint32_t)number);
	CHECK(!device_is_closed && ob_platform_has_left_behind(mock_host));
	ob_host_regions_release(mock_host);
	*(char *)address = 1;
	__atomic_store_n(&poll_goes_on, true, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
}

static sigset_t of_look;

static void note_signals(struct ob_virtio_device *device, bool is_last)
{
	(void)device;
	(void)is_last;
	pthread_sigmask(SIG_BLOCK, NULL, &of_look);
}

/* The program's handlers do not interrupt a look. Faults and the preempt signal do. */
static void test_poller_signals(void)
{
	static const struct ob_virtio_operations operations = { .poll = note_signals };
	struct ob_virtio_device device = { .operations = &operations, .is_polled = true };
	sigset_t before, after;
	uint32_t word = 0;

	start();
	CHECK(ob_virtio_insert(mock_host, &device) >= 0);
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	CHECK_EQUAL(ob_host_virtio_poll(mock_host, &word, 1, 0), 0);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	CHECK(!memcmp(&before, &after, sizeof(before)));
	CHECK(sigismember(&of_look, SIGALRM) && sigismember(&of_look, SIGINT));
	CHECK(!sigismember(&of_look, SIGSEGV) && !sigismember(&of_look, OB_PREEMPT_SIGNAL));
}

#define TEST(name) { #name, test_##name }

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	TEST(regions),
	TEST(shadow),
	TEST(commit),
	TEST(map),
	TEST(extend),
	TEST(map_errors),
	TEST(modules_near_and_executable),
	TEST(mappings_run_out),
	TEST(address_space_runs_out),
	TEST(sizes),
	TEST(fault_is_resumed),
	TEST(fault_beyond_file),
	TEST(fault_chains_to_handler),
	TEST(fault_default_actions),
	TEST(stop_restores_handlers),
	TEST(thread),
	TEST(many_threads),
	TEST(adopted_thread_ends),
	TEST(wait),
	TEST(random),
	TEST(preempt),
	TEST(preempt_chains),
	TEST(preempt_ignored_by_default),
	TEST(fork),
	TEST(console),
	TEST(panic),
	TEST(panic_handler),
	TEST(two_hosts),
	TEST(too_many_hosts),
	TEST(stopped_poller),
	TEST(poller_signals),
#ifndef __SANITIZE_ADDRESS__
	/* the sanitizer itself ends a program that is out of address space */
	TEST(thread_limit),
#endif
};

static int is_wanted(const char *name, int count, char **names)
{
	for (int i = 0; i < count; i++) {
		if (!strcmp(names[i], name))
			return 1;
	}
	return count == 0;
}

int main(int count, char **arguments)
{
	int failures = 0;

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int status;

		if (!is_wanted(tests[i].name, count - 1, arguments + 1))
			continue;
		status = status_of_child(tests[i].run);
		failures += status != 0;
		printf("%s %s\n", status ? "FAILED" : "ok", tests[i].name);
		fflush(stdout);
	}
	return failures != 0;
}
