// SPDX-License-Identifier: GPL-2.0-only
/* ob_syscall, ob_interrupt, ob_abort_call. The functions for single calls are generated. */
#include <errno.h>
#include <stdarg.h>

#include <outboard/gate.h>
#include <outboard/syscalls.h>

#include "instance.h"

/*
 * Reads six arguments always: the kernel uses as many as the call has. A macro, because the
 * compiler turns it into moves of registers only if the list is not passed on.
 */
#define TAKE_ARGUMENTS(arguments, last)				\
	do {							\
		va_list list_;					\
		va_start(list_, last);				\
		for (int i_ = 0; i_ < 6; i_++)			\
			(arguments)[i_] = va_arg(list_, long);	\
		va_end(list_);					\
	} while (0)

long ob_syscall(long number, ...)
{
	long arguments[6];

	TAKE_ARGUMENTS(arguments, number);
	return ob_kernel_syscall(number, arguments[0], arguments[1], arguments[2],
				 arguments[3], arguments[4], arguments[5]);
}

long ob_syscall_on(struct ob_instance *instance, long number, ...)
{
	long arguments[6];

	if (!instance)
		return -EINVAL;
	TAKE_ARGUMENTS(arguments, number);
	return ob_upcall(instance, syscall)(number, arguments[0], arguments[1], arguments[2],
					    arguments[3], arguments[4], arguments[5]);
}

long ob_sys_on(struct ob_instance *instance, long number, long a, long b, long c, long d, long e,
	       long f)
{
	long result = instance ? ob_upcall(instance, syscall)(number, a, b, c, d, e, f) : -EINVAL;

	if ((unsigned long)result < -4095ul)
		return result;
	errno = (int)-result;
	return -1;
}

int ob_interrupt(int thread)
{
	return ob_kernel_interrupt_call(thread);
}

int ob_interrupt_on(struct ob_instance *instance, int thread)
{
	return instance ? ob_upcall(instance, interrupt_call)(thread) : -EINVAL;
}

/* An older kernel lacks the upcall. */
int ob_abort_call_on(struct ob_instance *instance, int thread)
{
	int result = instance ? ob_upcall(instance, abort_call)(thread) : -EINVAL;

	return result == -ENODEV ? ob_interrupt_on(instance, thread) : result;
}

int ob_abort_call(int thread)
{
	return ob_abort_call_on(ob_instance_default(), thread);
}
