/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How a kernel image and its host exchange their tables of functions.
 *
 * The kernel is one ELF file: position independent, no interpreter, no undefined symbols. Its
 * entry point is a function of type ob_image_entry. The host passes a table of hypercalls and its
 * handle of this kernel, and the kernel returns a table of upcalls. Nothing else connects the two.
 *
 * Each table and each group begins with its size in bytes. A member beyond that size is absent,
 * and so is an optional group whose pointer is NULL. A hypercall of an absent group returns the
 * error that the group's comment names. The kernel uses no optional group of which the host lacks a
 * member, and names that member in its log at boot. Members are never moved or removed, and new
 * ones are added at the end. A change that breaks this rule needs another OB_INTERFACE_VERSION.
 *
 * ELF notes of the image state what the host must know before it runs any code of the image. The
 * notes' name is OB_NOTE_NAME, and each contains one 32-bit number.
 *
 * Each host thread has a block of OB_THREAD_BLOCK_BYTES, zero-filled at its start, aligned to 64
 * bytes. A host may give fewer bytes, and then loads only images whose note OB_NOTE_THREAD_BLOCK
 * allows that. All blocks have the same distance from the thread pointer (%fs:0 on x86-64). The
 * kernel alone uses the block, for its data of that host thread. Kernels that run at the same time
 * have different blocks. A kernel may get the blocks of one that has halted, with their contents.
 * So the first 32 bits of a block are the number of the boot (struct ob_boot_parameters) that wrote
 * it.
 *
 * After a halt, when ob_kernel_free() has returned 0, the loader can restore the first contents of
 * the image's writable data, and boot the kernel again. The pages from `kept` to `kept_end` keep
 * their contents, and the code stays: a thread may come late from a call that the halt has
 * overtaken, and uses both.
 */
#ifndef OUTBOARD_TABLES_H
#define OUTBOARD_TABLES_H

#include <outboard/gate.h>
#include <outboard/hypercall.h>
#include <outboard/hypercall_snapshot.h>
#include <outboard/hypercall_sockets.h>
#include <outboard/hypercall_spaces.h>

#define OB_INTERFACE_VERSION 3

#define OB_THREAD_BLOCK_BYTES 128

#define OB_NOTE_NAME "Outboard"
#define OB_NOTE_INTERFACE 1		/* OB_INTERFACE_VERSION of the image */
/* Bytes of a thread's block that this kernel uses; without the note: OB_THREAD_BLOCK_BYTES. */
#define OB_NOTE_THREAD_BLOCK 2

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

/* Without it the only windows are STACKS and PAGES, and the kernel maps nothing on a fault. */
#define OB_HOST_MAPPING(member, group)	\
	member(group, map)		\
	member(group, unmap)		\
	member(group, unmap_many)

/* Without it each vCPU has a service thread. */
#define OB_HOST_TIMER(member, group)	\
	member(group, service_request)	\
	member(group, service_end)

/* Without it: -ENOSYS, there are no disks. */
#define OB_HOST_BLOCK(member, group)	\
	member(group, block_open)	\
	member(group, block_close)	\
	member(group, block_submit)	\
	member(group, block_completed)

/* Without it: -ENOENT, the kernel finds no component. */
#define OB_HOST_COMPONENTS(member, group)\
	member(group, component_find)	\
	member(group, component_node)

/* Without it: -ENOENT, the kernel neither finds nor saves a snapshot. */
#define OB_HOST_SNAPSHOT(member, group)	\
	member(group, snapshot_load)	\
	member(group, snapshot_finish)	\
	member(group, snapshot_begin)	\
	member(group, snapshot_add)	\
	member(group, snapshot_add_window)\
	member(group, snapshot_commit)	\
	member(group, snapshot_end)	\
	member(group, ram_renew)

/* Without it: -ENOSYS, there are no interrupts for messages and pins. */
#define OB_HOST_INTERRUPTS(member, group)\
	member(group, interrupt_open)	\
	member(group, interrupt_close)	\
	member(group, interrupt_mask)	\
	member(group, interrupt_unmask)	\
	member(group, interrupt_affinity)\
	member(group, interrupt_open_pin)\
	member(group, interrupt_end)

/* Without it: -ENOSYS, drivers cannot map device memory. */
#define OB_HOST_IOMEM(member, group)	\
	member(group, iomem_map)	\
	member(group, iomem_unmap)	\
	member(group, iomem_read)	\
	member(group, iomem_write)

/* Without it, or without a member of it: a read of a port returns all ones, a write is lost. */
#define OB_HOST_PORTS(member, group)	\
	member(group, port_read)	\
	member(group, port_write)

/* Without it: -ENOENT, no device reaches RAM. */
#define OB_HOST_DMA(member, group)	\
	member(group, dma_extent)

/* Without a member of it, or of interrupts, iomem or dma: the kernel uses no PCI bus. */
#define OB_HOST_PCI(member, group)	\
	member(group, pci_window)	\
	member(group, pci_read)		\
	member(group, pci_write)	\
	member(group, pci_pin)

/* Without it: -ENODEV, there are no virtio devices. */
#define OB_HOST_VIRTIO(member, group)	\
	member(group, virtio_info)	\
	member(group, virtio_read)	\
	member(group, virtio_write)	\
	member(group, virtio_features)	\
	member(group, virtio_queue)	\
	member(group, virtio_start)	\
	member(group, virtio_notify)	\
	member(group, virtio_reset)	\
	member(group, virtio_close)	\
	member(group, virtio_poll)	\
	member(group, virtio_spare)

/* Without it: -ENOSYS, the kernel has no sockets but its own. */
#define OB_HOST_SOCKETS(member, group)	\
	member(group, sockets_begin)	\
	member(group, sockets_end)	\
	member(group, socket_open)	\
	member(group, socket_close)	\
	member(group, socket_bind)	\
	member(group, socket_connect)	\
	member(group, socket_listen)	\
	member(group, socket_accept)	\
	member(group, socket_shutdown)	\
	member(group, socket_name)	\
	member(group, socket_option_get)\
	member(group, socket_option_set)\
	member(group, socket_send)	\
	member(group, socket_receive)	\
	member(group, socket_queued)	\
	member(group, socket_ready)	\
	member(group, socket_watch)	\
	member(group, socket_take)

/* Without it: -ENOSYS, the kernel runs no programs. */
#define OB_HOST_SPACES(member, group)	\
	member(group, space_create)	\
	member(group, space_destroy)	\
	member(group, space_map)	\
	member(group, space_unmap)	\
	member(group, space_protect)	\
	member(group, space_enter)	\
	member(group, space_vector)	\
	member(group, space_interrupt)	\
	member(group, space_clock)	\
	member(group, space_calls)

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
	group(ports, OB_HOST_PORTS, false, ENOSYS)		\
	group(dma, OB_HOST_DMA, false, ENOENT)			\
	group(pci, OB_HOST_PCI, false, ENOSYS)			\
	group(virtio, OB_HOST_VIRTIO, false, ENODEV)		\
	group(sockets, OB_HOST_SOCKETS, false, ENOSYS)		\
	group(spaces, OB_HOST_SPACES, false, ENOSYS)

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
	member(forked)			\
	member(virtio_add)		\
	member(virtio_remove)		\
	member(sockets)			\
	member(boot_number)		\
	member(abort_call)		\
	member(process_new)		\
	member(process_clone)		\
	member(process_claim)		\
	member(process_exec)		\
	member(process_leave)		\
	member(program_start)

#define OB_UPCALL_MEMBER(name) __typeof__(ob_kernel_##name) *name;
struct ob_upcalls {
	uint32_t size;
	uint32_t version;		/* OB_INTERFACE_VERSION of the kernel */
	const char *version_magic;	/* that a module must have; "": the kernel loads none */
	const char *kept, *kept_end;	/* whole pages */
	OB_UPCALLS(OB_UPCALL_MEMBER)
};
#undef OB_UPCALL_MEMBER

/*
 * The entry point. Called once for each image that was loaded, before any upcall. The tables stay
 * valid for as long as the image is loaded. `host`: the first argument of every hypercall.
 * `thread_block`: the distance of the threads' blocks from the thread pointer. Returns NULL if the
 * host's table has another version, or lacks a required group or a member of one. Then it stores a
 * reason, a line of text that stays valid as the image does, and has changed nothing else.
 */
typedef const struct ob_upcalls *ob_image_entry(const struct ob_hypercalls *table,
						struct ob_host *host, int64_t thread_block,
						const char **reason);

#endif
