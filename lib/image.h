/* SPDX-License-Identifier: GPL-2.0-only */
/* Kernel images: checks a file, loads it, and calls its entry point. */
#ifndef OUTBOARD_LIB_IMAGE_H
#define OUTBOARD_LIB_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/platform.h>

#define OB_BUILD_ID_MOST 32

/* An image that is loaded. */
struct ob_image {
	const struct ob_upcalls *upcalls;
	struct ob_host *host;
	uint64_t address;
	uint64_t size;			/* in memory */
	bool moved;			/* its preferred address was taken */
	struct ob_platform_file file;	/* its bytes stay, for debuggers */
	uint32_t id_size;		/* 0: it has no build id */
	unsigned char id[OB_BUILD_ID_MOST];
};

#define OB_NO_IMAGE { .file = { .handle = -1 } }

/*
 * Loads the image that the file `path` is, or the library's own (NULL), for that host. `image` is OB_NO_IMAGE
 * before, and on failure: then nothing of the file stays, at most its entry point has run, and
 * `reason` says in words what is wrong. Errors: those of ob_platform_image_open; -ENOEXEC: not a
 * kernel image that this library can load; what the host says.
 */
int ob_image_load(const char *path, struct ob_host *host, struct ob_image *image, char *reason,
		  size_t reason_size);

/* None of its code may run any more. */
void ob_image_unload(struct ob_image *image);

/* debugger.c: shows the symbols of an image to debuggers, and takes them away again. */
void ob_debugger_add(const struct ob_image *image);
void ob_debugger_remove(void);

#endif
