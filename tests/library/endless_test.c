// SPDX-License-Identifier: GPL-2.0-only
/*
 * A component that never comes to the end of its start does not hold up the boot for ever. Waits
 * with a time-out last a thousandth of it, and the clock of the host, which is the test's, goes on
 * by the whole.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define NSEC_PER_SEC 1000000000l
#define TIMES 1000
/* Shorter waits are the kernel's own business. In nanoseconds. */
#define LEAST 1000000l

static long passed;		/* in nanoseconds, faster than the host's time; atomic */
static bool is_normal;		/* atomic */

static long raw_call(long number, const long words[6])
{
	register long r10 __asm__("r10") = words[3];
	register long r8 __asm__("r8") = words[4];
	register long r9 __asm__("r9") = words[5];
	long result;

	__asm__ volatile("syscall" : "=a"(result)
			 : "a"(number), "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static long wait_shortly(const long words[6])
{
	const struct timespec *timeout = (const struct timespec *)words[3];
	long whole = timeout->tv_sec * NSEC_PER_SEC + timeout->tv_nsec;
	struct timespec part = { whole / TIMES / NSEC_PER_SEC, whole / TIMES % NSEC_PER_SEC };
	long shorter[6], result;

	if (whole < LEAST || __atomic_load_n(&is_normal, __ATOMIC_SEQ_CST))
		return raw_call(SYS_futex, words);
	memcpy(shorter, words, sizeof(shorter));
	shorter[3] = (long)&part;
	result = raw_call(SYS_futex, shorter);
	if (result == -ETIMEDOUT)
		__atomic_add_fetch(&passed, whole, __ATOMIC_SEQ_CST);
	return result;
}

/* The library's calls come here. */
long syscall(long number, ...)
{
	long words[6], result;
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(arguments, long);
	va_end(arguments);
	if (number == SYS_futex && (int)words[1] == FUTEX_WAIT_PRIVATE && words[3])
		result = wait_shortly(words);
	else
		result = raw_call(number, words);
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	long result = syscall(SYS_clock_gettime, (long)clock, time);
	long now = time->tv_sec * NSEC_PER_SEC + time->tv_nsec +
		   __atomic_load_n(&passed, __ATOMIC_SEQ_CST);

	*time = (struct timespec){ now / NSEC_PER_SEC, now % NSEC_PER_SEC };
	return (int)result;
}

int main(void)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 64 << 20, .log_level = OB_LOG_DEFAULT,
		.components = "endless",
	};
	struct ob_instance *other;

	alarm(120);
	CHECK_EQUAL(ob_boot(&config), -ETIMEDOUT);
	__atomic_store_n(&is_normal, true, __ATOMIC_SEQ_CST);
	puts(ob_boot_error());
	CHECK_EQUAL(ob_syscall(OB_SYS_getpid), -ENODEV);
	CHECK_EQUAL(ob_halt(), -ENODEV);
	CHECK_EQUAL(ob_boot(NULL), -EBUSY);
	config.components = NULL;
	CHECK_EQUAL(ob_instance_new(&other), 0);
	CHECK_EQUAL(ob_boot_on(other, &config), 0);
	CHECK(ob_sys_getpid_on(other) > 0);
	CHECK_EQUAL(ob_halt_on(other), 0);
	return 0;
}
