/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hypercalls of one optional group: saving a booted kernel, and starting from that. The rules of
 * hypercall.h hold. A host without files that can be mapped lacks the group.
 */
#ifndef OUTBOARD_HYPERCALL_SNAPSHOT_H
#define OUTBOARD_HYPERCALL_SNAPSHOT_H

#include <outboard/hypercall.h>

/*
 * A snapshot is a file with the memory of a kernel that has booted and waits: all regions, at their
 * addresses, and the data of the kernel's image. The platform knows where the file is and whether
 * it fits this kernel. If the image is not at the same address in every process, there are no
 * snapshots. Only the booting thread makes these calls, so they may use the program's heap; except
 * ob_host_snapshot_finish() and ob_host_ram_renew().
 */
enum ob_snapshot_kind {
	/* a start may use the file's pages, and copies of those that it writes to */
	OB_SNAPSHOT_PRIVATE,
	OB_SNAPSHOT_SHARED,	/* RAM that a window shows: ob_host_map must show this page */
	/* private, of STACKS: used at once, while other stacks may never be */
	OB_SNAPSHOT_URGENT,
};

/*
 * Reserves the regions, and restores all memory of the snapshot. -ENOENT: no snapshot fits, and
 * nothing has changed. Blocks.
 */
int ob_host_snapshot_load(struct ob_host *host);

/*
 * Finishes work that loading a snapshot has postponed. The service thread of each vCPU calls this
 * once, without a vCPU: it is cheap when nothing is left. Blocks.
 */
void ob_host_snapshot_finish(struct ob_host *host);

/*
 * Saving: begin, add each range, commit, and end with 0 or with the error that stopped it. After a
 * start, memory that was not added is zero; in RAM it is undefined. Ranges are whole pages, except
 * those of the image. -ENOENT: no snapshot is wanted; or the host's error. All of them block.
 */
int ob_host_snapshot_begin(struct ob_host *host);
int ob_host_snapshot_add(struct ob_host *host, uint64_t address, uint64_t size,
			 enum ob_snapshot_kind kind);
/*
 * Adds a page of a window that the kernel uses at no other address. The platform may keep it apart
 * from RAM until ob_host_map or ob_host_unmap changes the window there. Then RAM at `physical` must
 * have its contents.
 */
int ob_host_snapshot_add_window(struct ob_host *host, uint64_t address, uint64_t physical,
				uint32_t protection);
int ob_host_snapshot_commit(struct ob_host *host);
void ob_host_snapshot_end(struct ob_host *host, int error);

/*
 * The kernel allocates pages of RAM for something new. Pages of a snapshot become ordinary ones,
 * with undefined contents. No window shows them.
 */
void ob_host_ram_renew(struct ob_host *host, uint64_t address, uint64_t size);

#endif
