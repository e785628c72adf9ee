/* SPDX-License-Identifier: GPL-2.0-only */
/* Kernel images: taken for a host, reset after a halt, released. */
#ifndef OUTBOARD_LIB_IMAGE_H
#define OUTBOARD_LIB_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/platform.h>

#define OB_BUILD_ID_MOST 32

/*
 * The least size of a kernel's table. Kernels of this interface version exist that lack the members
 * behind it: ob_instance_attach().
 */
#define OB_UPCALLS_LEAST offsetof(struct ob_upcalls, interrupt_carry)

/*
 * A loaded image, for one host. Its code stays mapped as long as the process lives, because threads
 * may leave it late. When its instance ends, the image waits until an instance with this host wants
 * the same file.
 */
struct ob_image {
	/* Next image; under the mutex of image.c, as the next two */
	struct ob_image *next;
	bool used;			/* by an instance */
	struct ob_debugger_entry *debugger;	/* NULL: debuggers do not see it */
	char *path;			/* NULL: the library's own image */
	const struct ob_upcalls *upcalls;
	struct ob_host *host;
	uint64_t address;
	uint64_t linked;		/* the address that it was linked for */
	uint64_t size;			/* in memory */
	uint64_t shown;			/* where debuggers see the file; 0: nowhere */
	uint64_t reserved;		/* address space, `shown` included */
	bool placed;			/* at its own place, as in other processes */
	struct ob_platform_file file;	/* the bytes stay, for debuggers */
	uint32_t id_size;		/* 0: it has no build id */
	unsigned char id[OB_BUILD_ID_MOST];
};

/*
 * Takes an image for the host: of the file `path`, or the library's own (NULL). On failure nothing
 * of the file stays, but its entry point may have run, and `reason` explains the failure. -ENOEXEC:
 * this library cannot load the file as a kernel image; errors of ob_platform_image_open and of the
 * host. Any thread.
 */
int ob_image_take(const char *path, struct ob_host *host, struct ob_image **image, char *reason,
		  size_t reason_size);

/* True: ob_image_take with that path would give the same image. */
bool ob_image_is_same(const struct ob_image *image, const char *path);

/*
 * Resets the data to what they were at first, except what tables.h keeps. The kernel has halted and
 * released its memory. On failure the image is of no more use: returns the host's error.
 */
int ob_image_renew(struct ob_image *image);

/* Releases an image whose kernel has halted and whose data were reset. */
void ob_image_release(struct ob_image *image);

/* Drops all images, in a fork()ed child. */
void ob_images_forget(void);

/*
 * debugger.c: bytes of the headers before the file that debuggers see. They are zero at first, and
 * stay with the image. A multiple of the page size.
 */
#define OB_DEBUGGER_BYTES 8192u

/* debugger.c: shows an image's symbols to debuggers, and removes them. With the mutex held. */
void ob_debugger_add(struct ob_image *image);
void ob_debugger_remove(struct ob_image *image);
/* In a fork()ed child: forgets all images. */
void ob_debugger_forget(void);

#endif
