// SPDX-License-Identifier: GPL-2.0-only
/* ob_syscall and ob_interrupt; the functions for single system calls are generated. */
#include <stdarg.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>

long ob_syscall(long number, ...)
{
	va_list list;
	long arguments[6];

	/* All six are always taken: the kernel looks at as many as the call has. */
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	return ob_kernel_syscall(number, arguments[0], arguments[1], arguments[2],
				 arguments[3], arguments[4], arguments[5]);
}

int ob_interrupt(int thread)
{
	return ob_kernel_interrupt_call(thread);
}
