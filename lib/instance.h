/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An instance: one kernel, from its first boot to ob_instance_free.
 *
 *            ob_boot_on             ob_halt_on
 *   EMPTY ----------------> RUNNING -----------> EMPTY
 *                              |  \-- threads that do not leave it --> STUCK
 *                              '---- contained panic ----------------> PANICKED
 *
 * A fork()ed child begins with all instances of its parent, EMPTY. The default instance always
 * exists: functions of the C API without a handle use it.
 */
#ifndef OUTBOARD_LIB_INSTANCE_H
#define OUTBOARD_LIB_INSTANCE_H

#include <pthread.h>
#include <stdbool.h>

#include <outboard/outboard.h>
#include <outboard/platform_host.h>

#include "image.h"
#include "log.h"
#include "net.h"

enum ob_instance_state {
	OB_INSTANCE_EMPTY,
	OB_INSTANCE_RUNNING,
	OB_INSTANCE_STUCK,		/* halted, but its memory is still in use */
	OB_INSTANCE_PANICKED,
};

struct ob_instance {
	/*
	 * Targets of calls and signals: the kernel's functions, or those of kernel.c. Members are
	 * atomic.
	 */
	struct ob_upcalls upcalls;
	bool taken;			/* under the mutex of instance.c */
	pthread_mutex_t mutex;		/* protects all below; calls of the kernel do not take it */
	enum ob_instance_state state;	/* atomic: a panic changes it */
	struct ob_host *host;		/* NULL: it has never booted */
	struct ob_image *image;		/* NULL: none is loaded */
	char error[512];		/* why the last boot failed */
	struct ob_log log;
	struct ob_net net;		/* has a mutex of its own */
	void (*panic)(void *context, const char *text, size_t length);
	void *panic_context;
	bool contains_panic;
	bool is_limited;		/* cgroups determine the kernel's memory */
};

extern struct ob_instance ob_default;

static inline void ob_instance_set_state(struct ob_instance *instance,
					 enum ob_instance_state state)
{
	__atomic_store_n(&instance->state, state, __ATOMIC_SEQ_CST);
}

/* kernel.c: directs calls to that kernel. NULL: calls fail with -ENODEV. */
void ob_instance_attach(struct ob_instance *instance, const struct ob_upcalls *upcalls);
/* The same as with NULL, but threads may still run the kernel's code: faults of it are its own. */
void ob_instance_close(struct ob_instance *instance);

/* The kernel's function, as in ob_upcall(instance, disk_remove)(disk). */
#define ob_upcall(instance, name) __atomic_load_n(&(instance)->upcalls.name, __ATOMIC_ACQUIRE)

/* halt_hook.c: calls all functions of ob_halt_hook_add(). */
void ob_halt_hooks_run(struct ob_instance *instance);

/*
 * instance.c: in a child that did not run the hook for fork(), does what the hook does. Before the
 * first lock of a call that gives the process another kernel.
 */
void ob_fork_hook_catch_up(void);

/* instance.c: installs the hook once, before the first kernel. 0 or the host's error. */
int ob_fork_hook_install(void);

#endif
