/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the POSIX platform that is no hypercall: what lib/ calls before
 * the kernel boots and after it has halted.
 *
 * The platform owns the handlers of three signals while a kernel runs:
 * SIGSEGV, SIGBUS and SIGURG (the preempt signal, see signal.c). Each calls on
 * to the handler that the program had installed before. A program that
 * installs a handler of its own for one of them later must do the same.
 */
#ifndef OUTBOARD_POSIX_H
#define OUTBOARD_POSIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ob_host;
struct ob_component;
struct ob_block_request;

/* Receives one line of the kernel's log, on any thread, also in a signal handler. */
typedef void ob_posix_log(void *context, int level, const char *line, uint64_t length);

/* What is left to do for a panic. */
enum ob_posix_panic_rest {
	OB_POSIX_PANIC_PRINT = 1,	/* the text is written to standard error */
	OB_POSIX_PANIC_STAY = 2,	/* the thread stays where it is for ever; else abort() ends the process */
};

/*
 * Receives the text of a kernel panic on the thread that panics, maybe in a signal handler. It may end
 * the process. Returns bits of enum ob_posix_panic_rest.
 */
typedef unsigned int ob_posix_panic(void *context, const char *text, size_t length);

/* Before ob_kernel_boot. NULL: the text is written to standard error. */
void ob_posix_set_panic(struct ob_host *host, ob_posix_panic *handler, void *context);

/* Most bytes of memory that a kernel may have here: it is a file, whose size the process may have a limit of. */
uint64_t ob_posix_memory_most(void);

/* Names the limits of the process that leave too little for a kernel, which wants so much address space. False: there is none. */
bool ob_posix_limits_describe(uint64_t address_space, char *text, size_t size);

/*
 * Asks the host now for what a process that is shut in may not ask for: before ob_posix_start, or not at all. Blocks for
 * some tenths of a millisecond. What the host refuses is done without.
 */
void ob_posix_prepare(struct ob_host *host);

/*
 * Prepares the process for a kernel: the log's sink, and, if it is the only one, signal handlers, fork
 * and thread-exit hooks. Before ob_kernel_boot. Returns 0 or -EAGAIN. Any thread.
 */
int ob_posix_start(struct ob_host *host, ob_posix_log *log, void *context);

/*
 * Where the snapshot is to be found, and to be left if there is none that fits: a file `name`, which ends in ".snapshot", in a directory
 * that nobody else can write to. `key`: what a snapshot must have been made with, down to the byte. Called
 * between ob_posix_start and ob_kernel_boot; the strings are copied, the descriptor is closed by ob_posix_snapshot_done.
 */
int ob_posix_snapshot_use(struct ob_host *host, int directory, const char *name, const char *key);
/* After booting. */
void ob_posix_snapshot_done(struct ob_host *host);
/* What became of it, in one line. */
const char *ob_posix_snapshot_status(struct ob_host *host);

/* The archive's components, sorted by name: `index` 0, 1, ... until -ENOENT. */
int ob_posix_component(uint32_t index, struct ob_component *component);

/* What differs if the archive is another one the next time: one line. After ob_posix_start. */
const char *ob_posix_components_identity(void);

/* Why there is no archive, in one line; NULL if there is one. */
const char *ob_posix_components_problem(void);

/* A disk that the program serves: its requests are carried out by a function. */
struct ob_posix_served {
	/*
	 * Carries out a request that is inside the disk and allowed on it. May block. Called by several threads at once.
	 * Returns 0 or -errno.
	 */
	int (*perform)(void *context, const struct ob_block_request *request);
	/* The disk is closed: the last call with this context. */
	void (*closed)(void *context);
	void *context;
	uint64_t size;			/* bytes, a multiple of the sector size */
	uint32_t sector_size;
	bool read_only;
	bool can_discard;		/* OB_BLOCK_DISCARD and OB_BLOCK_WRITE_ZEROES */
};

/*
 * Makes a served disk known for one ob_host_block_open with OB_BLOCK_SERVED, whose path is the number that this
 * returns, in decimal. -ENOMEM. Any thread; does not block for long.
 */
int ob_posix_serve(struct ob_host *host, const struct ob_posix_served *served);
/* Forgets it. Returns whether it was opened: only then `closed` is called. */
bool ob_posix_serve_done(struct ob_host *host, int number);

/*
 * Locks a file that is a disk against other users of this library and against QEMU, as long as its open file
 * description lives. 0 or -EBUSY: somebody else has it. A file system without such locks is no error. Any thread; does not block.
 */
int ob_posix_lock(int fd, bool exclusive);
/* Also where copies of the descriptor are left, as a fork()ed child has them. */
void ob_posix_unlock(int fd);

/*
 * The kernel has halted, or booting failed. With the last one the signal handlers (where they are
 * still ours) and the thread-exit hook go. Any thread; nothing happens the second time.
 */
void ob_posix_stop(struct ob_host *host);

#endif
