// SPDX-License-Identifier: GPL-2.0-only
/*
 * The wall clock of the host is set while the kernel is idle, as by a suspend. The next client that
 * asks for the time gets the right one: unless a client has set or steered the kernel's clock.
 * While the kernel works, its clock is also right if nobody asks. Argument: how the client sets it:
 * "time" by settimeofday(), "shift", "tick" or "frequency" by adjtimex().
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define HOUR 3600
/* Seconds that pass between two looks of the test. The kernel looks every 20 seconds. */
#define WHILE 10

static long step, passed;	/* in seconds; atomic */

/* The library's calls come here. `passed`: so much later is it, for the kernel's timers, too. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += __atomic_load_n(&passed, __ATOMIC_SEQ_CST);
	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		time->tv_sec += __atomic_load_n(&step, __ATOMIC_SEQ_CST);
	return result;
}

/* How far the kernel's clock is ahead of the host's. */
static long ahead(void)
{
	struct timespec host, now;

	clock_gettime(CLOCK_REALTIME, &host);
	OK(ob_sys_clock_gettime(CLOCK_REALTIME, &now));
	return now.tv_sec - host.tv_sec;
}

static void check_new_file(void)
{
	struct timespec now;
	struct stat status;
	int fd = (int)OK(ob_sys_open("/tmp/file", O_CREAT | O_WRONLY | O_TRUNC, 0600));

	OK(ob_sys_write(fd, "x", 1));
	OK(ob_sys_fstat(fd, &status));
	OK(ob_sys_close(fd));
	OK(ob_sys_clock_gettime(CLOCK_REALTIME, &now));
	CHECK(now.tv_sec - status.st_mtim.tv_sec < 5 && status.st_mtim.tv_sec - now.tv_sec < 5);
}

static void let_time_pass(void)
{
	struct timespec pause = { .tv_nsec = 20000000 };

	__atomic_fetch_add(&passed, WHILE, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 10; i++)
		OK(ob_sys_nanosleep(&pause, NULL));
}

/* The kernel compares every 10 ms at most. */
static void set(long seconds)
{
	usleep(20000);
	__atomic_fetch_add(&step, seconds, __ATOMIC_SEQ_CST);
}

static void set_and_check(long seconds)
{
	set(seconds);
	CHECK(ahead() >= -5 && ahead() <= 5);
	set(seconds);
	check_new_file();
}

/* Of another clock of the kernel's, which no client's question makes right. */
static long boot_time(void)
{
	char text[4096];
	const char *found;
	int fd = (int)OK(ob_sys_open("/proc/stat", O_RDONLY, 0));
	long size = OK(ob_sys_read(fd, text, sizeof(text) - 1));

	OK(ob_sys_close(fd));
	text[size] = '\0';
	found = strstr(text, "btime ");
	CHECK(found);
	return atol(found + 6);
}

static void set_and_work(long seconds)
{
	long before = boot_time();

	set(seconds);
	CHECK_EQUAL(boot_time(), before);
	for (int i = 0; i < 30 && boot_time() < before + seconds / 2; i++)
		let_time_pass();
	CHECK(boot_time() > before + seconds / 2);
}

/* A client that asks, or changes what does not move the clock. */
static void ask_for_the_clock(void)
{
	static const unsigned int modes[] = {
		0, ADJ_OFFSET_SS_READ, ADJ_MAXERROR, ADJ_ESTERROR, ADJ_STATUS,
	};
	struct timex change = { 0 };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		change.modes = modes[i];
		OK(ob_sys_adjtimex(&change));
	}
}

static void take_the_clock(const char *how)
{
	struct timeval other = { .tv_sec = 1000000000 };
	struct timex change = { .tick = 10000 };

	if (!strcmp(how, "time")) {
		OK(ob_sys_settimeofday(&other, NULL));
		return;
	}
	if (!strcmp(how, "shift")) {
		change.modes = ADJ_SETOFFSET;
		change.time.tv_sec = -3 * HOUR;
	} else {
		change.modes = !strcmp(how, "tick") ? ADJ_TICK : ADJ_FREQUENCY;
		change.freq = 1 << 16;
	}
	OK(ob_sys_adjtimex(&change));
}

int main(int count, char **arguments)
{
	CHECK_EQUAL(count, 2);
	client_boot(0);
	check_new_file();
	ask_for_the_clock();
	set_and_check(HOUR);
	set_and_check(-2 * HOUR);
	set_and_work(3 * HOUR);
	take_the_clock(arguments[1]);
	/* Nothing brings the kernel's clock back to that of the host any more. */
	__atomic_fetch_add(&step, 2 * HOUR, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 5; i++)
		let_time_pass();
	CHECK(ahead() < -HOUR);
	check_new_file();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
