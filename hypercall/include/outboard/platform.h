/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Any host has these things for a program that loads kernels: a handle for each kernel, start and
 * stop, the bytes of an image and memory for it, receivers of panics and of the log. The kernel
 * calls none of this. A platform for the kernel alone needs neither this header nor
 * platform_host.h, which is for hosts with files, processes and sockets: the program of such a
 * platform makes the upcalls itself (docs/porting.md).
 *
 * Rules for all functions, unless one says otherwise: any thread may call; a call may block; calls
 * that concern one kernel or image come from one thread at a time. Errors are negative Linux errno
 * values.
 */
#ifndef OUTBOARD_PLATFORM_H
#define OUTBOARD_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/tables.h>

/* ---- kernels ------------------------------------------------------------ */

/* Kernels that a process can have at a time. */
#define OB_HOSTS_MOST 16

/*
 * Makes the handle of one kernel. Signals and other events reach the kernel by the table `upcalls`.
 * The table's members may change at any time; the table itself stays for ever. -EAGAIN: there are
 * OB_HOSTS_MOST kernels already.
 */
int ob_platform_host_new(const struct ob_upcalls *upcalls, struct ob_host **host);

/* Frees the handle. The platform was stopped for it, and its kernel has released all regions. */
void ob_platform_host_free(struct ob_host *host);

/* The table of hypercalls, for the entry point of an image. */
const struct ob_hypercalls *ob_platform_hypercalls(void);

/* The distance of that kernel's thread blocks (outboard/tables.h) from the thread pointer. */
int64_t ob_platform_thread_block(const struct ob_host *host);

/* Bytes of each such block. An image that uses more is refused. */
uint32_t ob_platform_thread_block_bytes(void);

/* ---- start and stop ----------------------------------------------------- */

/* Receives one line of the kernel's log, on any thread, also in a signal handler. */
typedef void ob_platform_log(void *context, int level, const char *line, uint64_t length);

/* What is left to do for a panic. */
enum ob_platform_panic_rest {
	OB_PLATFORM_PANIC_PRINT = 1,	/* write the text to standard error */
	OB_PLATFORM_PANIC_STAY = 2,	/* block the thread for ever; else abort() */
};

/*
 * Receives the text of a kernel panic on the thread that panics, maybe in a signal handler. The
 * function may end the process. It returns bits of enum ob_platform_panic_rest.
 */
typedef unsigned int ob_platform_panic(void *context, const char *text, size_t length);

/* Before ob_kernel_boot. NULL: the text goes to standard error, and the process ends. */
void ob_platform_set_panic(struct ob_host *host, ob_platform_panic *handler, void *context);

/*
 * Before ob_kernel_boot: sets the receiver of the log, and, for the first kernel, installs what the
 * platform needs to make upcalls. On POSIX these are hooks for fork() and for the end of threads,
 * and the handlers of SIGSEGV, SIGBUS and SIGURG. Each handler calls the one that the program had
 * installed before. A program that installs another handler later must do the same. -EAGAIN.
 */
int ob_platform_start(struct ob_host *host, ob_platform_log *log, void *context);

/*
 * The kernel has halted, or booting failed. The last kernel's stop removes what the first one's
 * start has installed; on POSIX the fork() hook stays, and signal handlers that are not the
 * platform's any more. A second call does nothing.
 */
void ob_platform_stop(struct ob_host *host);

/* ---- kernel images ------------------------------------------------------ */

/* An open image: its bytes, and where they come from. */
struct ob_platform_file {
	const void *bytes;		/* page-aligned; valid until ob_platform_image_close */
	uint64_t size;
	uint64_t offset;		/* of the image in the file: a multiple of the page size */
	int handle;			/* of the file; -1: there is none, only the bytes */
	bool owned;			/* ob_platform_image_close frees the bytes */
	uint64_t identity[5];		/* file and version; zeroes for the library's own image */
};

/*
 * Opens an image: the file `path`, or the image that is part of the program (NULL), the only one of
 * a host without files. -ENOENT and the like; -EINVAL: the file is not a regular one, or empty;
 * -ENOMEM.
 */
int ob_platform_image_open(const char *path, struct ob_platform_file *file);

/* Closes the file. The bytes go too, unless they are the library's own. */
void ob_platform_image_close(struct ob_platform_file *file);

/*
 * Reserves address space for an image of that kernel. *address is the address that the image is
 * linked for; the call changes it to the address that the image gets. The first kernel of a process
 * gets the address that it asks for. Each other kernel has a place of its own, the same in all
 * processes. *placed is false if these places were taken, so that the host chose an address. Sizes
 * and addresses are multiples of the page size. -ENOMEM.
 */
int ob_platform_image_reserve(const struct ob_host *host, uint64_t size, uint64_t *address,
			      bool *placed);

struct ob_loader_segment;		/* outboard/loader.h */

/* Maps a segment into the reserved address space, privately; processes share clean pages. */
int ob_platform_image_map(const struct ob_platform_file *file,
			  const struct ob_loader_segment *segment);

int ob_platform_image_protect(uint64_t address, uint64_t size, uint32_t protection);

/* Releases the address space, with all that is mapped there. */
void ob_platform_image_release(uint64_t address, uint64_t size);

/* Tells where the kernel's code is: the platform places OB_REGION_MODULES near it. */
void ob_platform_text(struct ob_host *host, uint64_t address, uint64_t size);

#endif
