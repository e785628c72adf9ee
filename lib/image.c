// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel images of this process: takes one for a host, or loads another, makes its data new,
 * and forgets them all in a fork()ed child.
 *
 * The code of an image stays when its instance ends. The image waits until an instance with the
 * same host wants the same file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <outboard/platform_host.h>

#include "image.h"
#include "image_load.h"

/* All loaded images. A fork()ed child does not know one that is changing at that moment. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ob_image *images;

/* An older kernel's child that runs no hook of fork() must make no calls. */
static void empty_boot_number_on_fork(const struct ob_upcalls *upcalls)
{
	if (upcalls->size > offsetof(struct ob_upcalls, boot_number))
		ob_platform_empty_on_fork(upcalls->boot_number());
}

static int load_new(const char *path, struct ob_image *image, char *reason, size_t reason_size)
{
	int error = ob_platform_image_open(path, &image->file);

	if (error) {
		snprintf(reason, reason_size, "%s",
			 error == -EINVAL ? "it is not a regular file, or empty"
					  : strerror(-error));
		return error;
	}
	error = ob_image_load(image, reason, reason_size);
	if (error) {
		ob_platform_image_close(&image->file);
		return error;
	}
	ob_platform_image_keep(&image->file);
	empty_boot_number_on_fork(image->upcalls);
	return 0;
}

bool ob_image_is_same(const struct ob_image *image, const char *path)
{
	if (!path || !image->path)
		return !path && !image->path;
	return !strcmp(path, image->path) && ob_platform_image_is_same(path, &image->file);
}

/* Takes a waiting image. Those of other hosts are at places where no snapshot of this host fits. */
static struct ob_image *take_waiting(const char *path, struct ob_host *host)
{
	struct ob_image *found = NULL;

	for (struct ob_image *image = images; image; image = image->next)
		if (!image->used && image->host == host && ob_image_is_same(image, path))
			found = image;
	if (found && ob_image_enter(found))
		return NULL;
	return found;
}

static struct ob_image *load_another(const char *path, struct ob_host *host, int *error,
				     char *reason, size_t reason_size)
{
	struct ob_image *image = calloc(1, sizeof(*image));

	*error = -ENOMEM;
	if (image && path)
		image->path = strdup(path);
	if (!image || (path && !image->path)) {
		snprintf(reason, reason_size, "%s", strerror(ENOMEM));
		free(image);
		return NULL;
	}
	image->host = host;
	*error = load_new(path, image, reason, reason_size);
	if (!*error)
		return image;
	free(image->path);
	free(image);
	return NULL;
}

int ob_image_take(const char *path, struct ob_host *host, struct ob_image **image, char *reason,
		  size_t reason_size)
{
	struct ob_image *taken;
	int error = 0;

	*reason = '\0';
	pthread_mutex_lock(&mutex);
	taken = take_waiting(path, host);
	if (!taken) {
		taken = load_another(path, host, &error, reason, reason_size);
		if (taken) {
			taken->next = images;
			images = taken;
		}
	}
	if (taken) {
		taken->used = true;
		ob_debugger_add(taken);
	}
	pthread_mutex_unlock(&mutex);
	*image = taken;
	return error;
}

void ob_image_release(struct ob_image *image)
{
	pthread_mutex_lock(&mutex);
	ob_debugger_remove(image);
	ob_platform_text(image->host, 0, 0);
	image->used = false;
	pthread_mutex_unlock(&mutex);
}

int ob_image_renew(struct ob_image *image)
{
	struct ob_platform_file file = image->file;
	int error;

	ob_platform_image_reopen(image->path, &file);
	error = ob_image_load_data(image, &file);
	ob_platform_image_keep(&file);
	return error;
}

void ob_images_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	ob_debugger_forget();
	for (struct ob_image *image = images; image; image = image->next) {
		ob_platform_image_release(image->address, image->reserved);
		ob_platform_image_close(&image->file);
	}
	/* Does not free them: another thread of the parent may have been in the heap. */
	images = NULL;
}
