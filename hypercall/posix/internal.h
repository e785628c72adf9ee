/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the POSIX platform offer to one another. */
#ifndef OUTBOARD_POSIX_INTERNAL_H
#define OUTBOARD_POSIX_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/platform.h>

#include "host.h"

/*
 * Interrupts a thread (invariant V6). Not a real-time signal: those queue up,
 * and with SA_NODEFER a queue becomes a pile of frames on a 64 KB stack; and
 * one that arrives after the handler is gone would end the program, while
 * SIGURG is ignored by default.
 */
#define OB_PREEMPT_SIGNAL SIGURG

/* console.c */
void ob_posix_set_log(struct ob_host *host, ob_platform_log *log, void *context);

/* host.c */
void ob_posix_hosts_forked(void);

/* tables.c */
void ob_posix_thread_blocks_forked(void);

/*
 * regions.c, ram.c: takes the kernel's memory out of a fork()ed child; out of a core dump, what was
 * never used of it.
 */
void ob_posix_regions_forked(struct ob_host *host);
void ob_posix_ram_skip_unused(struct ob_host *host);

/*
 * huge.c: the descriptor of an empty file with huge pages, which is the caller's then; -1: there is
 * none, or not yet, and it is being made. Only called by whoever extends RAM.
 */
int ob_posix_huge_take(struct ob_host *host);
/* Makes it now, in the calling thread, unless it is being made. */
void ob_posix_huge_prepare(struct ob_host *host);
/*
 * The one that nobody has taken is closed, and a thread that makes it waited for. In a fork()ed
 * child there is no such thread.
 */
void ob_posix_huge_release(struct ob_host *host);
void ob_posix_huge_forked(struct ob_host *host);

/* checksum.c. The second one only where the processor has AVX2. */
uint64_t ob_posix_checksum(const void *bytes, uint64_t size);
uint64_t ob_posix_checksum_avx2(const void *bytes, uint64_t size);

/*
 * address_space.c: from here on regions but MODULES are reserved at fixed, random addresses, which
 * other processes are likely to have free.
 */
void ob_posix_choose_place(struct ob_host *host);
/*
 * snapshot/fill.c: reserves all regions at these addresses, with empty RAM. -EBUSY: one is not
 * free, and none is reserved.
 */
int ob_posix_regions_reserve(struct ob_host *host, const struct ob_posix_region regions[]);
/*
 * Fills a piece of a reserved region, or of the image, from the file. -EINVAL, or what the host
 * says.
 */
int ob_posix_snapshot_fill(struct ob_host *host, uint64_t address, uint64_t size, int fd,
			   uint64_t offset, enum ob_snapshot_kind kind);
/*
 * snapshot/pieces.c: stacks, and pages of the MODULES window that are the file's: map them as a
 * whole, without access, then say what is in them: stacks; and which pages of RAM stand behind each
 * piece of the window.
 */
int ob_posix_pieces_map(struct ob_host *host, uint64_t address, uint64_t size, int fd,
			uint64_t offset);
int ob_posix_pieces_note_stack(struct ob_host *host, uint64_t address, uint64_t size, bool urgent);
int ob_posix_pieces_note_window(struct ob_host *host, uint64_t address, uint64_t size,
				uint64_t physical, uint32_t protection);
/* snapshot/fill.c: makes all of it this process's own: a fork()ed child gets none. */
void ob_posix_snapshot_filled(struct ob_host *host);
/*
 * snapshot/pages.c: a fault that is over when it is looked at: a page of RAM was on its way from a
 * snapshot to the memfd.
 */
bool ob_posix_pages_fault_is_passing(struct ob_host *host, uint64_t address);

/* spare.c: gives the mappings up that are kept in reserve. */
void ob_posix_spare_give_up(struct ob_host *host);

/*
 * snapshot/closed.c: adds a piece that is mapped without access, or will be opened at once;
 * `protection` is the host's. -EACCES, or what the host says.
 */
int ob_posix_closed_add(struct ob_host *host, uint64_t address, uint64_t size, int protection,
			bool urgent);
/*
 * A fault: if a piece that was closed was touched, in a way that its protection allows, the access
 * can be tried again.
 */
bool ob_posix_closed_touched(struct ob_host *host, uint64_t address, int protection);
void ob_posix_closed_open_all(struct ob_host *host);
/*
 * Whoever changes mappings there: all pieces that overlap are open, and opened by nobody after
 * that. -ENOMEM as ob_host_map().
 */
int ob_posix_closed_settle(struct ob_host *host, uint64_t address, uint64_t size);
/* There are none any more. */
void ob_posix_closed_forget(struct ob_host *host);

/* block.c: closes a fork()ed child's copies of the disks, so that it does not keep their locks. */
void ob_posix_block_forked(struct ob_host *host);

/* image.c: the address of the kernel's text. */
uint64_t ob_posix_text(struct ob_host *host);

/* component.c: looks for the archive. The first call counts. */
void ob_posix_components_find(void);
/* One line, which differs for another archive. */
const char *ob_posix_components_identity(void);

/* signal.c */
bool ob_posix_faults_are_blocked(void);
void ob_posix_signals_install(void);
void ob_posix_signals_remove(void);
/* Sends the preempt signal to a thread of this process, marked as ours. */
void ob_posix_preempt_send(uint64_t tid);

/*
 * snapshot/request.c: the snapshot is, or is to be, the file `name` in the directory, which the
 * host then owns. `key`: what it must have been made with, down to the byte. -ENAMETOOLONG.
 */
int ob_posix_snapshot_request(struct ob_host *host, int directory, const char *name,
			      const char *key);
/* snapshot/request.c, thread.c: what a fork()ed child forgets. */
void ob_posix_snapshot_forked(struct ob_host *host);
/* No snapshot is wanted yet. */
void ob_posix_snapshot_reset(struct ob_host *host);
void ob_posix_threads_forked(struct ob_host *host);

/* thread.c: the hook for the end of adopted threads. */
int ob_posix_thread_hook_create(void);
void ob_posix_thread_hook_delete(void);

#endif
