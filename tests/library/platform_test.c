// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the POSIX platform without a kernel: memory, mapping, faults, signals, threads, waiting,
 * fork. Arguments: names of tests; none: all. Link with platform_bed.c, platform_memory.c and
 * platform_signals.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_owner.h"
#include "platform_bed.h"
#include "raw.h"
#include "virtio.h"

static void test_sizes(void)
{
	struct ob_info info;

	ob_host_info(mock_host, &info);
	CHECK(info.memory >= 64 * MB);
	CHECK(info.processors >= 1 && info.processors <= 4096);
	CHECK_EQUAL(info.features, 0);
}

/* ---- threads ---- */

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

static int closed_fd;

static void *close_it(void *argument)
{
	(void)argument;
	ob_fork_owner_drop(&closed_fd);
	return NULL;
}

/* Runs after the platform's own hook, in the middle of a fork. */
static void close_during_fork(void)
{
	pthread_t thread;
	int fd = closed_fd;

	CHECK(!pthread_create(&thread, NULL, close_it, NULL));
	usleep(100 * 1000);
	CHECK_EQUAL(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK(!pthread_detach(thread));
}

static void nothing_in_child(void)
{
}

/* The child would have the descriptor, and its memory would not tell. */
static void test_fork_while_closing(void)
{
	CHECK(!pthread_atfork(close_during_fork, NULL, NULL));
	start();
	closed_fd = raw_eventfd();
	CHECK_EQUAL(status_of_child(nothing_in_child), 0);
	while (__atomic_load_n(&closed_fd, __ATOMIC_SEQ_CST) >= 0)
		usleep(1000);
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

static int pipe_ends[2];

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
	/* The host fills in a part of them. */
	sigset_t before = { 0 }, after = { 0 };
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

static const struct platform_test other_tests[] = {
	TEST(sizes),
	TEST(thread),
	TEST(many_threads),
	TEST(adopted_thread_ends),
	TEST(wait),
	TEST(random),
	TEST(fork),
	TEST(fork_while_closing),
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
	{ NULL, NULL },
};

static bool is_test(const struct platform_test *test, const char *name)
{
	for (; test->name; test++) {
		if (!strcmp(test->name, name))
			return true;
	}
	return false;
}

int main(int count, char **arguments)
{
	const struct platform_test *tables[] = { memory_tests, signal_tests, other_tests };
	int failures = 0;

	for (int i = 1; i < count; i++) {
		if (!is_test(tables[0], arguments[i]) && !is_test(tables[1], arguments[i]) &&
		    !is_test(tables[2], arguments[i])) {
			fprintf(stderr, "there is no test %s\n", arguments[i]);
			return 2;
		}
	}
	for (int i = 0; i < 3; i++)
		failures += run_platform_tests(tables[i], count - 1, arguments + 1);
	return failures != 0;
}
