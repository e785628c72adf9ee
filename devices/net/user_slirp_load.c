// SPDX-License-Identifier: GPL-2.0-only
/* Rootless NAT by libslirp: loads the library. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "raw.h"
#include "slirp_api.h"

/* A static program has no dlopen(), and so no libslirp. */
#pragma weak dlopen
#pragma weak dlsym

static struct ob_slirp_library library;
static bool is_loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ISO C has no conversion from an object pointer to a function pointer. */
static bool find(void *handle, const char *name, void *function)
{
	void *address = dlsym(handle, name);

	memcpy(function, &address, sizeof(address));
	return address;
}

static void load(void)
{
	void *handle = dlopen ? dlopen(OB_SLIRP_LIBRARY, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!handle)
		return;
	/* The library stays: its threads' data and GLib cannot be unloaded. */
	is_loaded = find(handle, "slirp_new", &library.new) &&
		    find(handle, "slirp_cleanup", &library.cleanup) &&
		    find(handle, "slirp_pollfds_fill", &library.pollfds_fill) &&
		    find(handle, "slirp_pollfds_poll", &library.pollfds_poll) &&
		    find(handle, "slirp_input", &library.input) &&
		    find(handle, "slirp_add_hostfwd", &library.add_hostfwd);
	find(handle, "slirp_add_hostxfwd", &library.add_hostxfwd);
}

/* The C library does not tell why it could not open the file. */
static int check_descriptors(void)
{
	int fd = raw_eventfd();

	if (fd < 0)
		return -errno;
	raw_close(fd);
	return 0;
}

int ob_slirp_load(const struct ob_slirp_library **loaded)
{
	int error = check_descriptors();

	if (error)
		return error;
	pthread_once(&once, load);
	if (!is_loaded)
		return -ENOENT;
	*loaded = &library;
	return 0;
}
