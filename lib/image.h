/* SPDX-License-Identifier: GPL-2.0-only */
/* Kernel images: checks a file, loads it, and calls its entry point. */
#ifndef OUTBOARD_LIB_IMAGE_H
#define OUTBOARD_LIB_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/platform.h>

#define OB_BUILD_ID_MOST 32

/*
 * An image that is loaded, for one host. Its code stays for as long as the process lives, since
 * threads may be late to leave it: when its instance ends, the image waits until an instance with
 * this host wants the same file.
 */
struct ob_image {
	struct ob_image *next;		/* of all; under the mutex of image.c, as the next two */
	bool used;			/* by an instance */
	struct ob_debugger_entry *debugger;	/* NULL: it is not shown */
	char *path;			/* NULL: it is the library's own */
	const struct ob_upcalls *upcalls;
	struct ob_host *host;
	uint64_t address;
	uint64_t linked;		/* the address that it was linked for */
	uint64_t size;			/* in memory */
	uint64_t shown;			/* for debuggers, the file once more; 0: it is not */
	uint64_t reserved;		/* bytes of address space, for both */
	bool placed;			/* at an address that other processes have for it, too */
	struct ob_platform_file file;	/* its bytes stay, for debuggers */
	uint32_t id_size;		/* 0: it has no build id */
	unsigned char id[OB_BUILD_ID_MOST];
};

/*
 * Gives the host an image of the file `path`, or the library's own (NULL). On failure nothing of
 * the file stays, at most its entry point has run, and `reason` says in words what is wrong.
 * Errors: those of ob_platform_image_open; -ENOEXEC: not a kernel image that this library can load;
 * what the host says. Any thread.
 */
int ob_image_take(const char *path, struct ob_host *host, struct ob_image **image, char *reason,
		  size_t reason_size);

/* Would ob_image_take with that path give the same? */
bool ob_image_is_same(const struct ob_image *image, const char *path);

/*
 * Makes the data as they were at first, but for what tables.h says is kept. The kernel has halted
 * and has freed its memory. If that fails, the image is of no use any more: the host's error.
 */
int ob_image_renew(struct ob_image *image);

/* No kernel runs in it, and its data are new. */
void ob_image_release(struct ob_image *image);

/* In a fork()ed child, which has one thread and no kernel: all images go. */
void ob_images_forget(void);

/*
 * debugger.c: bytes before the file as debuggers see it, whose mapping follows. They are zero at
 * first, and stay with the image. A multiple of the page size.
 */
#define OB_DEBUGGER_BYTES 8192u

/*
 * debugger.c: shows the symbols of an image to debuggers, and takes them away again. With the mutex
 * held.
 */
void ob_debugger_add(struct ob_image *image);
void ob_debugger_remove(struct ob_image *image);
/* In a fork()ed child: there are none. */
void ob_debugger_forget(void);

#endif
