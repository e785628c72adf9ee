/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the POSIX platform share. */
#ifndef OUTBOARD_POSIX_INTERNAL_H
#define OUTBOARD_POSIX_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/gate.h>
#include <outboard/patience.h>
#include <outboard/platform_host.h>

#include "host.h"

/*
 * The signal that interrupts a thread (invariant V6). Not a real-time signal: those queue, and with
 * SA_NODEFER a queue becomes a pile of frames on a 64 KB stack. A real-time signal that arrives
 * after the handler is gone would also end the program, while the default action of SIGURG is to do
 * nothing.
 */
#define OB_PREEMPT_SIGNAL SIGURG

/*
 * descriptor.c: occupies those of the numbers 0 to 2 that are free, for ever, by descriptors that
 * can be neither read nor written. For libraries that make descriptors of their own.
 */
void ob_posix_occupy_standard(void);

/*
 * log.c: writes a last message to standard error. Works in a signal handler. Waits for a reader for
 * some seconds, not for ever.
 */
void ob_posix_print(const char *text);

/* limits.c: most bytes of a file that this process may write. */
uint64_t ob_posix_file_most(void);

/* thread.c: the signals that threads of the platform, and threads that poll, do not get. */
void ob_posix_blocked_signals(sigset_t *set);
/*
 * thread.c: waits for things that may never come. A wait that ends without them tells
 * ob_posix_leave_behind(), and frees nothing that they use.
 */
struct ob_patience ob_posix_patience_begin(struct ob_host *host);
bool ob_posix_patience_is_over(struct ob_host *host, struct ob_patience *patience);
/* As ob_host_thread_join(). False: the patience is over, and the thread goes on. */
bool ob_posix_thread_join_until(struct ob_host *host, uint64_t thread,
				struct ob_patience *patience);
void ob_posix_leave_behind(struct ob_host *host);

/* console.c */
void ob_posix_set_log(struct ob_host *host, ob_platform_log *log, void *context);

/* host.c */
void ob_posix_hosts_forked(void);

/* tables.c */
void ob_posix_thread_blocks_forked(void);

/*
 * regions.c: removes the kernel's memory from a fork()ed child. ram.c: leaves what was never used
 * of RAM out of a core dump.
 */
void ob_posix_regions_forked(struct ob_host *host);
void ob_posix_ram_skip_unused(struct ob_host *host);

/*
 * huge.c: returns the descriptor of an empty file with huge pages, which the caller then owns. -1:
 * there is none, or it is not ready yet. Only the thread that extends RAM calls this.
 */
int ob_posix_huge_take(struct ob_host *host);
/* Makes the file now, in the calling thread, unless another thread is making it. */
void ob_posix_huge_prepare(struct ob_host *host);
/* The file that RAM may take. The caller does not own it. -1: none so far. */
int ob_posix_huge_fd(struct ob_host *host);
/*
 * Closes a file that nobody has taken, and joins the thread that makes one. In a fork()ed child
 * there is no such thread.
 */
void ob_posix_huge_release(struct ob_host *host);
void ob_posix_huge_forked(struct ob_host *host);

/* checksum.c. The second function needs a processor with AVX2. */
uint64_t ob_posix_checksum(const void *bytes, uint64_t size);
uint64_t ob_posix_checksum_avx2(const void *bytes, uint64_t size);

/*
 * address_space.c: chooses a random range. Regions but MODULES get fixed addresses there from now
 * on, which other processes are likely to have free.
 */
void ob_posix_choose_place(struct ob_host *host);
/*
 * snapshot/fill.c: reserves all regions at these addresses, with empty RAM. -EBUSY: one address is
 * not free, and no region is reserved.
 */
int ob_posix_regions_reserve(struct ob_host *host, const struct ob_posix_region regions[]);
/*
 * Fills a part of a reserved region, or of the image, from the file. -EINVAL, or the host's error.
 */
int ob_posix_snapshot_fill(struct ob_host *host, uint64_t address, uint64_t size, int fd,
			   uint64_t offset, enum ob_snapshot_kind kind);
/*
 * snapshot/pieces.c: stacks, and pages of the MODULES window. The first function maps a range of
 * the file as a whole, without access. The others describe the pieces in it: stacks, and for pieces
 * of the window the pages of RAM behind them.
 */
int ob_posix_pieces_map(struct ob_host *host, uint64_t address, uint64_t size, int fd,
			uint64_t offset);
int ob_posix_pieces_note_stack(struct ob_host *host, uint64_t address, uint64_t size, bool urgent);
int ob_posix_pieces_note_window(struct ob_host *host, uint64_t address, uint64_t size,
				uint64_t physical, uint32_t protection);
/* snapshot/fill.c: the regions are complete. From now on a fork()ed child does not get them. */
void ob_posix_snapshot_filled(struct ob_host *host);
/*
 * snapshot/pages.c: true if the fault is already over: another thread was moving the page from a
 * snapshot to the memfd.
 */
bool ob_posix_pages_fault_is_passing(struct ob_host *host, uint64_t address);

/* headroom.c: gives up the mappings that are kept for a host that refuses more. */
void ob_posix_headroom_give_up(struct ob_host *host);

/*
 * snapshot/closed.c: adds a piece that is mapped without access. An urgent piece is opened at once.
 * `protection` is the host's (PROT_READ ...). -EACCES, or the host's error.
 */
int ob_posix_closed_add(struct ob_host *host, uint64_t address, uint64_t size, int protection,
			bool urgent);
/*
 * Handles a fault. True: it was in a closed piece whose protection allows the access, and the
 * access can be tried again.
 */
bool ob_posix_closed_touched(struct ob_host *host, uint64_t address, int protection);
void ob_posix_closed_open_all(struct ob_host *host);
/*
 * Opens all pieces that overlap the range, for a caller that changes mappings there. Nobody opens
 * them after that. -ENOMEM as ob_host_map().
 */
int ob_posix_closed_settle(struct ob_host *host, uint64_t address, uint64_t size);
/* Forgets all pieces. */
void ob_posix_closed_forget(struct ob_host *host);

/* block.c: closes a fork()ed child's copies of the disks, which would keep their locks. */
void ob_posix_block_forked(struct ob_host *host);

/* virtio.c: closes a fork()ed child's copies of the descriptors of devices. */
void ob_posix_virtio_forked(struct ob_host *host);

/* socket.c: closes all sockets; also the copies of a fork()ed child. */
void ob_posix_sockets_close(struct ob_host *host);
/* socket_events.c */
void ob_posix_sockets_forked(struct ob_host *host);

/* image.c: the address of the kernel's text. */
uint64_t ob_posix_text(struct ob_host *host);

/* component.c: looks for the archive, the first time. */
void ob_posix_components_find(void);
/* One line that identifies the archive. */
const char *ob_posix_components_identity(void);

/* signal.c */
void ob_posix_signals_install(void);
void ob_posix_signals_remove(void);

/* thread.c: whether the calling thread blocks them: the host would end it at the first fault. */
bool ob_posix_faults_are_blocked(void);
/* thread.c: its address marks the preempt signals that this process sends itself. */
extern const char ob_posix_preempt_mark;

/* origin.c: in the process that has the kernels, and in a child that has run a hook. */
void ob_posix_origin_make(void);
void ob_posix_origin_renew(void);

/*
 * snapshot/request.c: the snapshot to use, or to save, is the file `name` in the directory. The
 * name ends in ".snapshot". Nobody else can write to the directory. `key`: what the snapshot must
 * have been made with, down to the byte. The function copies the strings. If it succeeds,
 * ob_platform_snapshot_done closes the descriptor. -ENAMETOOLONG.
 */
int ob_posix_snapshot_request(struct ob_host *host, int directory, const char *name,
			      const char *key);
/* Forgets, in a fork()ed child, what the parent was doing. */
void ob_posix_snapshot_forked(struct ob_host *host);
/* No snapshot is wanted, until ob_posix_snapshot_request. */
void ob_posix_snapshot_reset(struct ob_host *host);

/* info.c: where addresses of programs end; 0: the host cannot run programs. */
uint64_t ob_posix_space_end(void);

/* space/enter.c: the calling thread is about to sleep. */
void ob_posix_spaces_sleep(struct ob_host *host);
/*
 * space/space.c: starts the zygote now, in a process that the host may let make no processes later.
 * If the host refuses, the first space tries again. `huge`: the file that RAM may take; -1: none.
 */
void ob_posix_spaces_prepare(struct ob_host *host, int huge);
/* Ends all stub processes; forgets, in a fork()ed child, the parent's. */
void ob_posix_spaces_stop(struct ob_host *host);
void ob_posix_spaces_forked(struct ob_host *host);

/* thread.c: forgets, in a fork()ed child, the parent's threads. */
void ob_posix_threads_forked(struct ob_host *host);

/* thread.c: the hook for the end of adopted threads. */
int ob_posix_thread_hook_create(void);
void ob_posix_thread_hook_delete(void);

#endif
