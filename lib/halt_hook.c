// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions that libraries on top of this one want to be called before a kernel halts. They are
 * never removed, so that a halt needs no lock, also in a child of fork().
 */
#include <errno.h>
#include <stddef.h>

#include "instance.h"

#define HOOKS_MOST 8

struct hook {
	void (*function)(void *context, struct ob_instance *instance);	/* atomic; NULL: none yet */
	void *context;
};

static struct hook hooks[HOOKS_MOST];
static unsigned int taken;		/* atomic; may exceed HOOKS_MOST */

int ob_halt_hook_add(void (*function)(void *context, struct ob_instance *instance), void *context)
{
	unsigned int place;

	if (!function)
		return -EINVAL;
	if (__atomic_load_n(&taken, __ATOMIC_RELAXED) >= HOOKS_MOST)
		return -EAGAIN;
	place = __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
	if (place >= HOOKS_MOST)
		return -EAGAIN;
	hooks[place].context = context;
	__atomic_store_n(&hooks[place].function, function, __ATOMIC_RELEASE);
	return 0;
}

void ob_halt_hooks_run(struct ob_instance *instance)
{
	void (*function)(void *context, struct ob_instance *instance);

	for (int i = 0; i < HOOKS_MOST; i++) {
		function = __atomic_load_n(&hooks[i].function, __ATOMIC_ACQUIRE);
		if (function)
			function(hooks[i].context, instance);
	}
}
