/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What lib/ asks of a platform to load a kernel image. lib/image.c knows the file format, the
 * platform knows files and memory. None of this is called by the kernel.
 *
 * One thread at a time calls what concerns one kernel or image; all calls may block. Errors are negative Linux errno values.
 */
#ifndef OUTBOARD_PLATFORM_H
#define OUTBOARD_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

#include <outboard/tables.h>

/* Kernels that a process can have at a time. */
#define OB_HOSTS_MOST 16

/*
 * Makes the handle of one kernel. Signals and other events reach the kernel by the table `upcalls`,
 * whose members may change at any time; it stays for ever. -EAGAIN: there are OB_HOSTS_MOST already.
 */
int ob_platform_host_new(const struct ob_upcalls *upcalls, struct ob_host **host);

/* The platform was stopped for it, and its kernel has given all regions back. */
void ob_platform_host_free(struct ob_host *host);

/* An image that has not been loaded yet: its bytes, and where they come from. */
struct ob_platform_file {
	const void *bytes;		/* page-aligned; valid until ob_platform_image_close */
	uint64_t size;
	uint64_t offset;		/* of the image in the file: a multiple of the page size */
	int handle;			/* of the file; -1: there is none, only the bytes */
	bool owned;			/* the bytes are given back by ob_platform_image_close */
	uint64_t identity[5];		/* which version of which file it is; zeroes for the library's own */
};

/*
 * Opens an image: the file `path` names, or the image that is part of the library (NULL). -ENOENT
 * and the like; -EINVAL: not a regular file, or empty; -ENOMEM.
 */
int ob_platform_image_open(const char *path, struct ob_platform_file *file);

/* The file is needed no more. The bytes go too, unless they are the library's own. */
void ob_platform_image_close(struct ob_platform_file *file);

/* As ob_platform_image_close, but the bytes stay for ever: debuggers read them. */
void ob_platform_image_keep(struct ob_platform_file *file);

/* Has ob_platform_image_open with that path given this file, and would do so again? */
bool ob_platform_image_is_same(const char *path, const struct ob_platform_file *file);

/*
 * Opens a file once more whose bytes were kept, so that segments are mapped from it. A file that is
 * gone or another one by now is no error: then segments are copies of the bytes.
 */
void ob_platform_image_reopen(const char *path, struct ob_platform_file *file);

/*
 * Reserves address space for an image of that kernel. *address is where the image is linked to, and
 * becomes where it is. The first kernel of a process gets the address that it asks for, each other
 * one has another place, the same in all processes. *placed: the address is one of those, not
 * one that the host chose because they were taken. All sizes and addresses are multiples of the
 * page size. -ENOMEM.
 */
int ob_platform_image_reserve(const struct ob_host *host, uint64_t size, uint64_t *address,
			      bool *placed);

/* A part of an image in memory. `protection`: enum ob_protection. */
struct ob_platform_segment {
	uint64_t address;
	uint64_t size;			/* in memory; zeroes after what comes from the file */
	uint64_t offset;		/* in the image */
	uint64_t file_size;
	uint32_t protection;
	uint32_t reserved;
};

/* Shows a segment in the reserved address space. Its memory is private; clean pages are shared. */
int ob_platform_image_map(const struct ob_platform_file *file,
			  const struct ob_platform_segment *segment);

int ob_platform_image_protect(uint64_t address, uint64_t size, uint32_t protection);

/* Gives the address space back, with all that is mapped there. */
void ob_platform_image_release(uint64_t address, uint64_t size);

/* The kernel's code is here from now on: OB_REGION_MODULES is placed near it. */
void ob_platform_text(struct ob_host *host, uint64_t address, uint64_t size);

/* The distance of that kernel's threads' blocks (outboard/tables.h) from the thread pointer. */
int64_t ob_platform_thread_block(const struct ob_host *host);

const struct ob_hypercalls *ob_platform_hypercalls(void);

#endif
