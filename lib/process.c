// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes of their own, for threads that act for others; and programs. outboard/gate.h has the
 * rules.
 */
#include <errno.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>

#include "instance.h"

int ob_process_new_on(struct ob_instance *instance)
{
	return instance ? ob_upcall(instance, process_new)() : -EINVAL;
}

int ob_process_clone_on(struct ob_instance *instance, unsigned long flags, int *number)
{
	uint32_t claim = 0;
	int pid;

	if (!instance)
		return -EINVAL;
	pid = ob_upcall(instance, process_clone)(flags, &claim);
	if (number)
		*number = (int)claim;
	return pid;
}

int ob_process_claim_on(struct ob_instance *instance, int number)
{
	if (!instance)
		return -EINVAL;
	return number > 0 ? ob_upcall(instance, process_claim)((uint32_t)number) : -ESRCH;
}

int ob_process_exec_on(struct ob_instance *instance, const char *name)
{
	return instance && name ? ob_upcall(instance, process_exec)(name) : -EINVAL;
}

int ob_process_leave_on(struct ob_instance *instance)
{
	return instance ? ob_upcall(instance, process_leave)() : -EINVAL;
}

int ob_spawn_on(struct ob_instance *instance, const char *path, const char *const arguments[],
		const char *const environment[])
{
	if (!instance || !path)
		return -EINVAL;
	return ob_upcall(instance, program_start)(path, arguments, environment);
}
