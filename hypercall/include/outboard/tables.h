/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a kernel image and its host get to know each other.
 *
 * The kernel is one ELF file: position independent, no interpreter, no undefined symbols. Its
 * entry point is a function of type ob_image_entry. The host passes a table of hypercalls and its
 * handle of this kernel, the kernel returns a table of upcalls. Nothing else connects the two.
 *
 * Each table and each group begins with its size in bytes. A member beyond that size is absent,
 * and so is an optional group whose pointer is NULL: the kernel then gets the error that the
 * group's comment names. Members are never moved or removed, new ones are added at the end.
 * What this rule does not allow needs another OB_INTERFACE_VERSION.
 *
 * The image states in ELF notes what the host must know before it runs any of its code:
 * the notes' name is OB_NOTE_NAME, their contents are one 32-bit number.
 *
 * Each host thread has a block of OB_THREAD_BLOCK_BYTES, zero-filled at its start, at the same
 * distance from its thread pointer (%fs:0 on x86-64), aligned to its size. The kernel alone uses it,
 * for what it must know of a host thread. Kernels that run at the same time have different blocks.
 * One after the other they may have the same, and find there what the one before has left: the first
 * 32 bits are the number of the boot (struct ob_boot_parameters) that all the rest is of.
 *
 * After a halt, when ob_kernel_free() has returned 0, the loader can make the image's writable data
 * as they were at first, and the kernel boots again. From `kept` to `kept_end` they stay: threads
 * that come late, from a call that the halt has overtaken, look there. For the same reason the code stays.
 */
#ifndef OUTBOARD_TABLES_H
#define OUTBOARD_TABLES_H

#include <outboard/gate.h>
#include <outboard/hypercall.h>
#include <outboard/hypercall_snapshot.h>

#define OB_INTERFACE_VERSION 2

#define OB_THREAD_BLOCK_BYTES 64

#define OB_NOTE_NAME "Outboard"
#define OB_NOTE_INTERFACE 1		/* OB_INTERFACE_VERSION of the image */

/* Required groups: a host without one of these cannot load the kernel. */

#define OB_HOST_INFO(member, group)	\
	member(group, info)

#define OB_HOST_MEMORY(member, group)	\
	member(group, region_reserve)	\
	member(group, region_commit)	\
	member(group, region_discard)	\
	member(group, regions_release)	\
	member(group, ram_extend)

#define OB_HOST_THREADS(member, group)	\
	member(group, thread_create)	\
	member(group, thread_join)	\
	member(group, thread_self)	\
	member(group, thread_interrupt)	\
	member(group, thread_yield)	\
	member(group, thread_adopted)	\
	member(group, wait)		\
	member(group, wake)

#define OB_HOST_CLOCKS(member, group)	\
	member(group, clock_monotonic)	\
	member(group, clock_realtime)	\
	member(group, clock_realtime_coarse)

#define OB_HOST_CONSOLE(member, group)	\
	member(group, console_write)	\
	member(group, panic)		\
	member(group, random)

/* Optional groups. */

/* Without it there are no windows but STACKS and PAGES, and no fault is the kernel's to fill. */
#define OB_HOST_MAPPING(member, group)	\
	member(group, map)		\
	member(group, unmap)

/* Without it each vCPU has a thread that keeps its time. */
#define OB_HOST_TIMER(member, group)	\
	member(group, service_request)	\
	member(group, service_end)

/* Without it: -ENOSYS, there are no disks. */
#define OB_HOST_BLOCK(member, group)	\
	member(group, block_open)	\
	member(group, block_close)	\
	member(group, block_submit)	\
	member(group, block_completed)

/* Without it: -ENOENT, no component is found. */
#define OB_HOST_COMPONENTS(member, group)\
	member(group, component_find)	\
	member(group, component_node)

/* Without it: -ENOENT, no snapshot is found, and none is wanted. */
#define OB_HOST_SNAPSHOT(member, group)	\
	member(group, snapshot_load)	\
	member(group, snapshot_finish)	\
	member(group, snapshot_begin)	\
	member(group, snapshot_add)	\
	member(group, snapshot_add_window)\
	member(group, snapshot_commit)	\
	member(group, snapshot_end)	\
	member(group, ram_renew)

/* Without it: -ENOSYS, no interrupt can be opened. */
#define OB_HOST_INTERRUPTS(member, group)\
	member(group, interrupt_open)	\
	member(group, interrupt_close)	\
	member(group, interrupt_mask)	\
	member(group, interrupt_unmask)	\
	member(group, interrupt_affinity)

/* Without it: -ENOSYS, no device memory can be mapped. */
#define OB_HOST_IOMEM(member, group)	\
	member(group, iomem_map)	\
	member(group, iomem_unmap)	\
	member(group, iomem_read)	\
	member(group, iomem_write)

/* Without it: -ENOENT, no device reaches RAM. */
#define OB_HOST_DMA(member, group)	\
	member(group, dma_extent)

/* Without it, or one of the three above, there is no PCI bus. */
#define OB_HOST_PCI(member, group)	\
	member(group, pci_window)	\
	member(group, pci_read)		\
	member(group, pci_write)

/* All groups: name, list of members, whether it is required, the error without it. */
#define OB_HOST_GROUPS(group)					\
	group(info, OB_HOST_INFO, true, ENOSYS)			\
	group(memory, OB_HOST_MEMORY, true, ENOSYS)		\
	group(threads, OB_HOST_THREADS, true, ENOSYS)		\
	group(clocks, OB_HOST_CLOCKS, true, ENOSYS)		\
	group(console, OB_HOST_CONSOLE, true, ENOSYS)		\
	group(mapping, OB_HOST_MAPPING, false, ENOSYS)		\
	group(timer, OB_HOST_TIMER, false, ENOSYS)		\
	group(block, OB_HOST_BLOCK, false, ENOSYS)		\
	group(components, OB_HOST_COMPONENTS, false, ENOENT)	\
	group(snapshot, OB_HOST_SNAPSHOT, false, ENOENT)	\
	group(interrupts, OB_HOST_INTERRUPTS, false, ENOSYS)	\
	group(iomem, OB_HOST_IOMEM, false, ENOSYS)		\
	group(dma, OB_HOST_DMA, false, ENOENT)			\
	group(pci, OB_HOST_PCI, false, ENOSYS)

#define OB_HOST_MEMBER(group, name) __typeof__(ob_host_##name) *name;
#define OB_HOST_GROUP(name, members, required, error)	\
	struct ob_host_##name {				\
		uint64_t size;				\
		members(OB_HOST_MEMBER, name)		\
	};
OB_HOST_GROUPS(OB_HOST_GROUP)
#undef OB_HOST_GROUP
#undef OB_HOST_MEMBER

#define OB_HOST_GROUP(name, members, required, error) const struct ob_host_##name *name;
struct ob_hypercalls {
	uint32_t size;
	uint32_t version;		/* OB_INTERFACE_VERSION of the host */
	OB_HOST_GROUPS(OB_HOST_GROUP)
};
#undef OB_HOST_GROUP

#define OB_UPCALLS(member)		\
	member(boot)			\
	member(syscall)			\
	member(interrupt_call)		\
	member(halt)			\
	member(free)			\
	member(disk_add)		\
	member(disk_remove)		\
	member(component_load)		\
	member(component_insert)	\
	member(component_state)		\
	member(interrupt)		\
	member(service)			\
	member(fault)			\
	member(preempt_begin)		\
	member(preempt)			\
	member(thread_exit)		\
	member(forked)

#define OB_UPCALL_MEMBER(name) __typeof__(ob_kernel_##name) *name;
struct ob_upcalls {
	uint32_t size;
	uint32_t version;		/* OB_INTERFACE_VERSION of the kernel */
	const char *version_magic;	/* Linux's: a module must have the same. "": loads none */
	const char *kept, *kept_end;	/* whole pages */
	OB_UPCALLS(OB_UPCALL_MEMBER)
};
#undef OB_UPCALL_MEMBER

/*
 * The entry point. Called once for each image that was loaded, before any upcall; the tables stay
 * valid for as long as the image is loaded. `host`: the first argument of every hypercall.
 * `thread_block`: the distance of the threads' blocks from the thread pointer. NULL: the host's table is of another version, or lacks
 * a required group or a member of one.
 */
typedef const struct ob_upcalls *ob_image_entry(const struct ob_hypercalls *table,
						struct ob_host *host, int64_t thread_block);

#endif
