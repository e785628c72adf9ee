// SPDX-License-Identifier: GPL-2.0-only
/* The instances of this process: the handles that programs get, and fork(). */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "instance.h"

/*
 * The memory of a handle is never freed. A call with a freed handle fails with -ENODEV, until the
 * place is another instance's.
 */
static struct ob_instance instances[OB_HOSTS_MOST];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;	/* of `taken` */
static struct ob_instance *last_taken = instances + OB_HOSTS_MOST - 1;

struct ob_instance *ob_instance_default(void)
{
	return &ob_default;
}

/* Starts after the last place taken, so that an old handle stays invalid for long. */
static struct ob_instance *take(void)
{
	struct ob_instance *instance = last_taken;

	for (int i = 0; i < OB_HOSTS_MOST; i++) {
		if (++instance == instances + OB_HOSTS_MOST)
			instance = instances;
		if (instance->taken)
			continue;
		instance->taken = true;
		last_taken = instance;
		return instance;
	}
	return NULL;
}

int ob_instance_new(struct ob_instance **instance)
{
	struct ob_instance *new;

	if (!instance)
		return -EINVAL;
	ob_fork_hook_catch_up();
	pthread_mutex_lock(&mutex);
	new = take();
	pthread_mutex_unlock(&mutex);
	*instance = new;
	if (!new)
		return -EAGAIN;
	pthread_mutex_init(&new->mutex, NULL);
	new->log = (struct ob_log)OB_NO_LOG;
	new->net = (struct ob_net)OB_NO_NET;
	new->error[0] = '\0';
	ob_instance_attach(new, NULL);
	return 0;
}

/* Frees an instance without a kernel: others may use its image and its host. */
static void give_back(struct ob_instance *instance)
{
	if (instance->image)
		ob_image_release(instance->image);
	if (instance->host) {
		ob_platform_prepared_drop(instance->host);
		ob_platform_host_free(instance->host);
	}
	ob_log_close(&instance->log);
	instance->image = NULL;
	instance->host = NULL;
}

int ob_instance_free(struct ob_instance *instance)
{
	bool empty;

	if (!instance || instance == &ob_default)
		return -EINVAL;
	if (!instance->taken)
		return -ENODEV;
	pthread_mutex_lock(&instance->mutex);
	empty = instance->state == OB_INSTANCE_EMPTY;
	if (empty)
		give_back(instance);
	pthread_mutex_unlock(&instance->mutex);
	if (!empty)
		return -EBUSY;
	pthread_mutex_lock(&mutex);
	instance->taken = false;
	pthread_mutex_unlock(&mutex);
	return 0;
}

/* Resets the instance in a fork()ed child. Other hooks drop images, memory and threads. */
static void forget(struct ob_instance *instance)
{
	pthread_mutex_init(&instance->mutex, NULL);
	ob_instance_attach(instance, NULL);
	ob_log_close(&instance->log);
	/* The interfaces and the threads of DHCP are the parent's. */
	instance->net = (struct ob_net)OB_NO_NET;
	instance->image = NULL;
	ob_instance_set_state(instance, OB_INSTANCE_EMPTY);
}

/* The child has one thread, and none of its parent's kernels. */
static void forget_parent(void)
{
	pthread_mutex_init(&mutex, NULL);
	forget(&ob_default);
	for (int i = 0; i < OB_HOSTS_MOST; i++)
		if (instances[i].taken)
			forget(&instances[i]);
	ob_images_forget();
}

void ob_fork_hook_catch_up(void)
{
	if (!ob_platform_is_copy())
		return;
	forget_parent();
	ob_platform_forget_parent();
}

static pthread_once_t fork_hook_once = PTHREAD_ONCE_INIT;
static int fork_hook_error;

static void install(void)
{
	fork_hook_error = pthread_atfork(NULL, NULL, forget_parent);
}

int ob_fork_hook_install(void)
{
	pthread_once(&fork_hook_once, install);
	return -fork_hook_error;
}
