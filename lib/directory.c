// SPDX-License-Identifier: GPL-2.0-only
/* Directories of the host: checks the program's configuration, has the platform open them. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include <outboard/gate.h>
#include <outboard/outboard.h>
#include <outboard/platform_host.h>

#include "error.h"
#include "instance.h"

_Static_assert((int)OB_DIR_CACHE_AUTO == (int)OB_DIRECTORY_CACHE_AUTO &&
	       (int)OB_DIR_CACHE_NONE == (int)OB_DIRECTORY_CACHE_NONE &&
	       (int)OB_DIR_CACHE_ALWAYS == (int)OB_DIRECTORY_CACHE_ALWAYS,
	       "passed on as they are");

#define fail(error, ...) ob_error_set(OB_ERROR_DIR, error, __VA_ARGS__)

/* Bytes that the device has for the tag. */
#define TAG_MOST 36

static int refuse(const char *reason)
{
	return fail(-EINVAL, "struct ob_dir_config: %s", reason);
}

static int check(const struct ob_dir_config *config)
{
	if (!config)
		return refuse("it is NULL");
	if (config->size != sizeof(*config))
		return refuse("it has another size: recompile the program");
	if (config->flags & ~(OB_DIR_READ_ONLY | OB_DIR_KEEP_OWNERS))
		return refuse("flags: use OB_DIR_READ_ONLY, OB_DIR_KEEP_OWNERS or 0");
	if (config->cache > OB_DIR_CACHE_ALWAYS)
		return refuse("cache: use one of OB_DIR_CACHE_*");
	if (!config->path)
		return refuse("it has no path");
	/* The kernel's driver refuses line feeds, too. */
	if (!config->tag || !*config->tag || strlen(config->tag) > TAG_MOST ||
	    strchr(config->tag, '\n'))
		return refuse("tag: use 1 to 36 bytes without a line feed");
	return 0;
}

static int add(struct ob_instance *instance, const struct ob_platform_directory *directory)
{
	char reason[OB_ERROR_BYTES] = "", unused[32];
	int device = ob_platform_directory_open(instance->host, directory, reason, sizeof(reason));
	int error;

	if (device < 0)
		return fail(device, "%s", reason);
	error = ob_upcall(instance, virtio_add)((uint32_t)device, unused);
	if (!error)
		return device;
	/* The kernel may not have taken it. */
	ob_platform_directory_done(instance->host, (uint32_t)device);
	return fail(error, "%s: %s", directory->path,
		    error == -ENODEV ? "the kernel has no virtiofs, or does not run" :
		    strerror(-error));
}

int ob_dir_add_on(struct ob_instance *instance, const struct ob_dir_config *config)
{
	struct ob_platform_directory directory;
	int error;

	ob_error_clear(OB_ERROR_DIR);
	if (!instance)
		return fail(-EINVAL, "no instance");
	error = check(config);
	if (error)
		return error;
	/* Without a kernel there is no host to serve the directory. */
	if (ob_syscall_on(instance, SYS_getpid) == -ENODEV)
		return fail(-ENODEV, "%s: no kernel runs", config->path);
	directory = (struct ob_platform_directory){
		.path = config->path,
		.tag = config->tag,
		.is_read_only = config->flags & OB_DIR_READ_ONLY,
		.keeps_owners = config->flags & OB_DIR_KEEP_OWNERS,
		.cache = (enum ob_platform_directory_cache)config->cache,
	};
	return add(instance, &directory);
}

/* The kernel's driver would wait for the replies to requests of a mount for ever. */
int ob_dir_remove_on(struct ob_instance *instance, int dir)
{
	int error;

	ob_error_clear(OB_ERROR_DIR);
	if (!instance)
		return fail(-EINVAL, "no instance");
	if (ob_syscall_on(instance, SYS_getpid) == -ENODEV)
		return fail(-ENODEV, "no kernel runs");
	if (dir >= 0 && ob_platform_directory_is_mounted(instance->host, (uint32_t)dir))
		return fail(-EBUSY, "directory %d: it is mounted", dir);
	error = dir < 0 ? -ENOENT : ob_upcall(instance, virtio_remove)((uint32_t)dir);
	if (!error)
		return 0;
	return fail(error, "directory %d: %s", dir,
		    error == -ENOENT ? "there is no such directory" : strerror(-error));
}

const char *ob_dir_error(void)
{
	return ob_error_text(OB_ERROR_DIR);
}
