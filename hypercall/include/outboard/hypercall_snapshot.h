/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hypercalls of one optional group: saving a kernel that has booted, and starting from that. The
 * rules of hypercall.h hold. A host without files that can be mapped lacks the group.
 */
#ifndef OUTBOARD_HYPERCALL_SNAPSHOT_H
#define OUTBOARD_HYPERCALL_SNAPSHOT_H

#include <outboard/hypercall.h>

/*
 * A snapshot is the memory of a kernel that has booted and waits, in a file: all regions, at their
 * addresses, and the data of the kernel's image. The platform knows where the file is and whether
 * it fits this kernel; where the image is not at the same address in every process, there are no
 * snapshots. These calls may use the program's heap: only the booting thread makes them.
 */
enum ob_snapshot_kind {
	/* what starts from it may see the file's pages, and copies of those it writes to */
	OB_SNAPSHOT_PRIVATE,
	OB_SNAPSHOT_SHARED,	/* RAM that a window shows: ob_host_map must show the same page */
	/* private, of STACKS: it will be touched at once, while others may never be */
	OB_SNAPSHOT_URGENT,
};

/*
 * Reserves the regions, and brings all memory of the snapshot back. -ENOENT: there is none that
 * fits, and nothing has changed. Blocks.
 */
int ob_host_snapshot_load(struct ob_host *host);

/*
 * Does what loading a snapshot has left for later. Called again and again, by threads that hold no
 * vCPU: cheap when there is nothing left. Blocks.
 */
void ob_host_snapshot_finish(struct ob_host *host);

/*
 * Saving: begin, add each range, end with 0 or with the error that stops it. What is not added is
 * zero in what starts from it; in RAM, anything. Ranges are of pages, but for those of the image.
 * -ENOENT: no snapshot is wanted; or what the host says. Block.
 */
int ob_host_snapshot_begin(struct ob_host *host);
int ob_host_snapshot_add(struct ob_host *host, uint64_t address, uint64_t size,
			 enum ob_snapshot_kind kind);
/*
 * A page of a window that the kernel looks at nowhere else. The platform may keep it apart from RAM
 * for as long as neither ob_host_map nor ob_host_unmap touches the window there; then RAM at
 * `physical` must have its contents.
 */
int ob_host_snapshot_add_window(struct ob_host *host, uint64_t address, uint64_t physical,
				uint32_t protection);
int ob_host_snapshot_commit(struct ob_host *host);
void ob_host_snapshot_end(struct ob_host *host, int error);

/*
 * Pages of RAM are used for something new: those that are a snapshot's become ordinary ones, with
 * undefined contents. Their address is their only one.
 */
void ob_host_ram_renew(struct ob_host *host, uint64_t address, uint64_t size);

#endif
