/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The whole interface between the kernel and its host: the porting surface.
 *
 * A platform implements hypercalls (ob_host_*), and the kernel calls them. The kernel implements
 * upcalls (ob_kernel_*), and the platform calls them. Nothing else crosses this border, and no type
 * here belongs to any libc.
 *
 * A host can have several kernels. Each has its own handle, a struct ob_host that only the
 * platform knows. A kernel gets its handle at its start (tables.h) and passes it to every
 * hypercall. Regions, threads, disks and all else that a call names belong to that handle.
 *
 * These rules hold for every hypercall unless its comment says otherwise:
 *  - A hypercall does not block, because its caller holds a vCPU (invariant V7). The calls that may
 *    block are marked "Blocks". The kernel makes those only where it has to wait: in idle, when a
 *    vCPU changes hands, and without a vCPU.
 *  - Any thread may call at any time, also in a handler of the platform's own signals. So a
 *    hypercall neither allocates from the program's heap nor takes a lock that an interrupted
 *    caller may hold.
 *  - A hypercall is no cancellation point and throws nothing: a client's thread must not end inside
 *    it.
 *  - An error is a negative Linux errno value, success is 0 or positive.
 *  - A count of bytes has 64 bits, a time is in nanoseconds.
 *  - "The caller's interrupts" are those of the kernel: a flag of its own. The host's interrupts
 *    must be on whenever kernel code runs, but for the upcalls that may come with them off. Kernel
 *    code whose own interrupts are off waits for other processors, and they for it: see
 *    ob_host_unmap().
 */
#ifndef OUTBOARD_HYPERCALL_H
#define OUTBOARD_HYPERCALL_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

/* What the platform knows of one kernel. */
struct ob_host;

/* ---- regions ----------------------------------------------------------- */

/*
 * A region is a range of the address space, reserved once at boot. RAM is the memory that
 * physical addresses name: physical address 0 is its first byte. All other regions are windows.
 * They are empty until the kernel maps memory there (VMALLOC, MODULES, CLIENT) or commits it
 * (STACKS, PAGES).
 *
 * Regions, the kernel's image, and all memory that clients pass to system calls are below 2^47. The
 * kernel keeps the number of the boot in bits 48 to 63 beside a task's address, and its clients'
 * addresses end there. If a region is elsewhere, is not aligned to 16 MB, or overlaps another
 * region, the kernel prints an error, and the boot fails with -EFAULT.
 */
enum ob_region {
	OB_REGION_RAM,		/* readable, writable; the host may give pages on first access */
	OB_REGION_VMALLOC,	/* window for the kernel's own mappings */
	OB_REGION_MODULES,	/* the same, within 1 GB of the kernel's text; executable */
	OB_REGION_CLIENT,	/* window for mmap() by local clients */
	OB_REGION_STACKS,	/* stacks of coroutines, with guard pages between them */
	OB_REGION_PAGES,	/* the array of struct page */
	OB_REGION_SHADOW,	/* KASAN's shadow memory; only a kernel with KASAN asks for it */
	OB_REGIONS
};

/* ---- info -------------------------------------------------------------- */

enum ob_host_feature {
	/*
	 * Devices, or other processes, use RAM by its physical address. So each page of RAM stays
	 * the same memory of the host from ob_host_ram_extend() to the end. The kernel never
	 * discards RAM, neither starts from a snapshot nor leaves one, and touches no RAM before
	 * ob_host_ram_extend().
	 */
	OB_HOST_RAM_IS_PINNED = 1,
	/*
	 * RAM can be executed. A kernel on a host without the mapping group then loads modules into
	 * RAM. Each page of a module must be within 2 GB of the kernel's text, and of all other
	 * pages of RAM with modules. Else the module is refused with -ERANGE.
	 */
	OB_HOST_RAM_IS_EXECUTABLE = 2,
};

struct ob_info {
	uint64_t features;		/* enum ob_host_feature */
	uint64_t memory;		/* bytes of the whole host: basis of the default ceiling */
	uint32_t processors;		/* that the host lets this program use; at least 1 */
	uint32_t reserved;
	/*
	 * Bytes of address space for VMALLOC, MODULES, CLIENT and STACKS, multiples of 16 MB. The
	 * kernel itself computes the size of the other regions. A host without the mapping group
	 * has no use for the first three. STACKS: 128 KB for each kernel thread, 16 MB at least.
	 */
	uint64_t windows[OB_REGIONS];
	/*
	 * Addresses of a program's space are 0 to space_end - 1 (hypercall_spaces.h): the
	 * platform's choice, at least 2 GB, a multiple of 2 MB. 0: the host lacks the group spaces.
	 */
	uint64_t space_end;
};

/* Describes the host. The answer is the same each time. */
void ob_host_info(struct ob_host *host, struct ob_info *info);

/* ---- memory ------------------------------------------------------------ */

/*
 * Reserves address space for a region, and takes no memory. Called once for each region during
 * boot; for OB_REGION_MODULES first, while there is room near the text. `size`: bytes, a multiple
 * of 4096. Stores the address, aligned to 16 MB. Errors: -ENOMEM. The kernel asks for VMALLOC,
 * MODULES and CLIENT only if the host has the mapping group.
 *
 * For OB_REGION_SHADOW the caller has stored the address that the region must have. Its bytes are
 * readable, writable and zero, and take memory when they are written. The region outlives
 * ob_host_regions_release(), and is there after a fork.
 */
int ob_host_region_reserve(struct ob_host *host, enum ob_region region, uint64_t size,
			   uint64_t *address);

/* Makes [address, address+size) of a STACKS or PAGES region usable, zero-filled. -ENOMEM. */
int ob_host_region_commit(struct ob_host *host, uint64_t address, uint64_t size);

/*
 * Makes RAM grow by `size` bytes from `address`, where RAM ends so far. The first call is for the
 * memory that the kernel boots with: a multiple of 4 MB. Each later call is for 4 MB. The platform
 * may put better memory there, now and from then on. -ENOMEM: the host has no more; RAM stays as
 * it is. The caller's interrupts are off during a call, and on between two calls.
 */
int ob_host_ram_extend(struct ob_host *host, uint64_t address, uint64_t size);

/*
 * Returns the memory of a committed range, or of a range of RAM, to the host. The contents at the
 * next access are undefined, but contain no secret of others.
 */
void ob_host_region_discard(struct ob_host *host, uint64_t address, uint64_t size);

/* Returns the address space of all regions to the host. Only after every vCPU has stopped. */
void ob_host_regions_release(struct ob_host *host);

/* ---- mapping ----------------------------------------------------------- */

/*
 * A host may lack this group. Then a client's mmap() fails with -ENODEV, vmalloc() returns runs of
 * neighbouring pages, and the kernel loads no module unless OB_HOST_RAM_IS_EXECUTABLE is set.
 */

enum ob_protection {
	OB_PROTECTION_READ = 1,
	OB_PROTECTION_WRITE = 2,
	OB_PROTECTION_EXECUTE = 4,
};

/*
 * Maps `size` bytes of RAM from physical address `physical` at `address` of a window, and replaces
 * what was mapped there. -EINVAL: outside of RAM or of the window. -ENOMEM: the host has no room
 * for another mapping. The kernel then drops other mappings, which come back by faults: mappings
 * are a cache (invariant V12).
 */
int ob_host_map(struct ob_host *host, uint64_t address, uint64_t physical, uint64_t size,
		uint32_t protection);

/*
 * Makes a range of a window inaccessible again. When it returns, no processor reaches the pages by
 * these addresses: the kernel gives them away. -ENOMEM as above.
 *
 * The kernel calls map and unmap under a lock, with its own interrupts off. On a host with several
 * processors unmap is a TLB shootdown: it waits until the others have dropped their entries, and
 * they may be spinning on that same lock. So the host's interrupts must be on in kernel code, also
 * where the kernel's own are off. Else the two wait for each other for ever.
 */
int ob_host_unmap(struct ob_host *host, uint64_t address, uint64_t size);

struct ob_range {
	uint64_t address;
	uint64_t size;			/* bytes */
};

/*
 * The same for `count` ranges, at least one: one shootdown for all. They do not overlap, and may be
 * in different windows. -ENOMEM, -EINVAL: the host has tried all ranges, and at least one failed.
 */
int ob_host_unmap_many(struct ob_host *host, const struct ob_range *ranges, uint32_t count);

/* ---- threads ----------------------------------------------------------- */

/*
 * Starts a host thread that runs fn(arg) with all of the program's signals blocked, and that ends
 * when fn returns. Stores a handle for ob_host_thread_join(), which is not 0. A stack of 64 KB is
 * enough, beside what the platform's own handlers take. `name` is for debuggers. -EAGAIN: the host
 * has no more threads. The caller's interrupts are off, or the caller holds no vCPU.
 */
int ob_host_thread_create(struct ob_host *host, void (*fn)(void *arg), void *arg,
			  const char *name, uint64_t *thread);

/* Waits until the thread has ended. Blocks. Never called with a vCPU held. */
void ob_host_thread_join(struct ob_host *host, uint64_t thread);

/*
 * Returns the number of the calling host thread, for ob_host_thread_interrupt(). This number is no
 * handle as above. The call should be cheap: the kernel makes it at every adoption.
 */
uint64_t ob_host_thread_self(struct ob_host *host);

/*
 * Makes the thread call ob_kernel_preempt_begin() soon, whatever code the thread runs (invariant
 * V6). A thread that has ended is no error. A platform that cannot interrupt threads does nothing.
 * A loop in the kernel that never polls then keeps its vCPU.
 */
void ob_host_thread_interrupt(struct ob_host *host, uint64_t self);

/* Lets other host threads run. A hint. */
void ob_host_thread_yield(struct ob_host *host);

/*
 * The calling thread becomes a client: the platform calls ob_kernel_thread_exit() on that thread
 * when the thread ends. May be called again for a thread. -EAGAIN: the platform cannot do that,
 * and the thread does not become a client.
 */
int ob_host_thread_adopted(struct ob_host *host);

/* ---- wait and wake ----------------------------------------------------- */

#define OB_FOREVER (~0ULL)

/*
 * Sleeps if *word == value, until ob_host_wake() or for `timeout` nanoseconds. May return early for
 * no reason. Blocks.
 */
void ob_host_wait(struct ob_host *host, const uint32_t *word, uint32_t value,
		  uint64_t timeout);

/*
 * Wakes up to `count` sleepers on the word, and returns how many. A thread that a signal or a
 * debugger has taken from its sleep does not count: the kernel then looks for another thread.
 *
 * A host with a scheduler of its own runs a woken thread before threads that compute. The caller
 * may go on computing in a vCPU for long, and the woken thread may be the one that makes it stop.
 */
uint32_t ob_host_wake(struct ob_host *host, const uint32_t *word, uint32_t count);

/* ---- timer ------------------------------------------------------------- */

/*
 * A host may lack this group. Then each vCPU has a thread of its own, its service thread, that
 * sleeps until the vCPU's next timer is due, and then does what ob_kernel_service() does. A host
 * with timers needs no such threads. The host itself calls ob_kernel_service(), on request and when
 * a timer is due.
 */

/*
 * Requests a call of ob_kernel_service(vcpu) soon, and one more if such a call runs already. It
 * does not make that call itself. The first request for a vCPU starts its service. Any thread,
 * interrupt or signal handler.
 */
void ob_host_service_request(struct ob_host *host, uint32_t vcpu);

/*
 * Ends the service of a vCPU. When this returns, no call of ob_kernel_service(vcpu) runs, and the
 * host makes no other. Never called with a vCPU held. Blocks.
 */
void ob_host_service_end(struct ob_host *host, uint32_t vcpu);

/* ---- clocks ------------------------------------------------------------ */

/* Nanoseconds since some fixed point; never goes back. */
uint64_t ob_host_clock_monotonic(struct ob_host *host);

/* Nanoseconds since 1970-01-01 00:00 UTC. */
uint64_t ob_host_clock_realtime(struct ob_host *host);

/*
 * The same time at the last tick of the host: the clock from which the host's file systems take
 * their times. Called for each time of a file; should cost no system call. A host without such a
 * clock returns ob_host_clock_realtime().
 */
uint64_t ob_host_clock_realtime_coarse(struct ob_host *host);

/* ---- console, exit and panic ------------------------------------------- */

/*
 * Passes one line of the kernel's log to the program, without a newline. `level`: 0 (emergency) to
 * 7 (debug).
 */
void ob_host_console_write(struct ob_host *host, int level, const char *line,
			   uint64_t length);

/*
 * Reports a kernel panic to the user, and ends the program so that the host can take a core dump.
 * If the program has asked for that, only this kernel ends: the calling thread stays here for ever.
 * Does not return.
 *
 * The kernel has not stopped its devices. A platform with the PCI group clears the bus master bit
 * of each device before RAM serves another purpose.
 */
void ob_host_panic(struct ob_host *host, const char *message) __attribute__((noreturn));

/* ---- random ------------------------------------------------------------ */

/* Fills the buffer with bytes fit for keys. -EIO if there are none. */
int ob_host_random(struct ob_host *host, void *buffer, uint64_t size);

/* ---- block ------------------------------------------------------------- */

enum ob_block_flags {
	OB_BLOCK_READ_ONLY = 1,		/* open for reading only; nothing is ever written */
	OB_BLOCK_NO_LOCK = 2,		/* do not take the lock against a second writer */
	OB_BLOCK_SERVED = 4,		/* the program serves the disk; `path` is its number */
};

struct ob_block_info {
	uint64_t size;			/* bytes */
	uint32_t sector_size;		/* logical sector of the host's device; 512 for a file */
	uint32_t read_only;
	uint32_t can_discard;		/* discard and write-zeroes are supported */
	uint32_t can_flush_write;	/* OB_BLOCK_FLUSH_WRITE is supported */
};

/*
 * Opens a disk. `path`: as the platform names disks. On POSIX this is a regular file, a block
 * device, or /dev/fd/N for the open descriptor N. Takes a lock against a second writer: -EBUSY if
 * somebody holds that lock. -EROFS: the caller wants to write, and only reading is possible;
 * -EACCES: reading is not possible either. -EISDIR, -ENOENT and others as the host returns them.
 * Returns the disk's number (>= 0). Never called with a vCPU held. Blocks.
 */
int ob_host_block_open(struct ob_host *host, const char *path, uint32_t flags,
		       struct ob_block_info *info);

/* Closes a disk that has no request in flight, and drops its lock. Blocks. */
void ob_host_block_close(struct ob_host *host, uint32_t disk);

enum ob_block_operation {
	OB_BLOCK_READ,
	OB_BLOCK_WRITE,
	OB_BLOCK_FLUSH,			/* puts all completed writes on stable storage (V11) */
	OB_BLOCK_DISCARD,		/* contents become undefined, space goes to the host */
	OB_BLOCK_WRITE_ZEROES,
	OB_BLOCK_FLUSH_WRITE,		/* a FLUSH, and a WRITE when that has succeeded */
	OB_BLOCK_ALLOCATE_ZEROES,	/* as WRITE_ZEROES; the host keeps room for the range */
};

struct ob_block_segment {
	void *address;			/* in RAM or in the kernel's image */
	uint64_t length;
};

/*
 * When a FLUSH, or a request with `force_unit_access`, has failed because data may be lost, all
 * later ones of that disk fail. A host may report such a loss only once.
 *
 * A FLUSH_WRITE covers what a FLUSH would: the writes that were completed before it was submitted.
 * If the flush fails, the platform writes nothing, and the result is the error of the flush.
 * `force_unit_access`, `offset`, `length` and `segments` belong to the write. So without
 * `force_unit_access` a later flush has to make that write durable.
 */
struct ob_block_request {
	uint32_t disk;
	uint32_t operation;
	uint32_t force_unit_access;	/* the write completes when it is on stable storage */
	uint32_t segment_count;
	uint64_t offset;		/* bytes from the start of the disk; 0 for FLUSH */
	uint64_t length;		/* bytes of all segments, or to discard; 0 for FLUSH */
	const struct ob_block_segment *segments;
	int32_t result;			/* set by the platform: 0 or -errno */
	uint32_t ahead;			/* readahead: nobody waits for the data yet */
	struct ob_block_request *next;	/* for the platform while in flight, then the kernel's */
};

/*
 * Starts a request. Returns 1 if the request is already complete and `result` is set. Returns 0 if
 * it will complete later: then the platform puts it on the completed list and calls
 * ob_kernel_interrupt(OB_INTERRUPT_BLOCK). A short transfer is an error (-EIO). If the file has
 * shrunk, a read beyond its end fails with -EIO and raises no signal.
 */
int ob_host_block_submit(struct ob_host *host, struct ob_block_request *request);

/* Takes the list of all completed requests, linked by `next`. NULL: there are none. */
struct ob_block_request *ob_host_block_completed(struct ob_host *host);

/* ---- components -------------------------------------------------------- */

/* A module of the kernel's own build that the host carries. */
struct ob_component {
	const char *name;	/* as in /proc/modules: with _ for - */
	const void *image;	/* its .ko file, or that in one zstd frame, which has its size */
	uint64_t size;
	uint32_t wanted;	/* 1: `name` asked for it; 0: another component needs it */
	uint32_t reserved;
};

/*
 * Finds the components to load for a name: that of a module, or an alias such as "fs-xfs". `index`
 * 0, 1, ... returns them in the order of loading: a component comes after those that it needs. All
 * that is returned stays valid for ever. -ENOENT: no more, or none at all.
 */
int ob_host_component_find(struct ob_host *host, const char *name, uint32_t index,
			   struct ob_component *component);

/* A device node that must be there before its component is loaded: opening it loads that. */
struct ob_component_node {
	const char *name;	/* below /dev, as in "mapper/control" */
	uint32_t is_block;
	uint32_t major;
	uint32_t minor;
};

/* Finds device nodes: `index` 0, 1, ... until -ENOENT. */
int ob_host_component_node(struct ob_host *host, uint32_t index,
			   struct ob_component_node *node);

/* ---- interrupts -------------------------------------------------------- */

/*
 * Interrupts have numbers from 1 to OB_INTERRUPTS - 1. Those below OB_INTERRUPT_FIRST belong to
 * groups of this header: they are always open. The kernel chooses the others, and opens each of
 * them for one source, or passes the number to a virtio device. A host may lack this group: then
 * there are no interrupts for messages and pins.
 *
 * The host raises an interrupt by ob_kernel_interrupt(). All interrupts are edges, except those of
 * level pins: the host raises an edge each time its source asks for that. The kernel may merge an
 * interrupt with an earlier one that it has not handled yet.
 *
 * A level pin has a line, which devices assert until their drivers have served them. The host
 * raises the interrupt when all of this is true, whichever becomes true last:
 *  - the line is asserted,
 *  - the interrupt is not masked,
 *  - the kernel has ended the interrupt that the host raised before: ob_host_interrupt_end().
 */
enum ob_interrupt {
	OB_INTERRUPT_BLOCK = 1,		/* disks have completed requests */
	OB_INTERRUPT_SOCKETS = 2,	/* ob_host_socket_take() has events */
	OB_INTERRUPT_FIRST = 16,
	OB_INTERRUPTS = 1024
};

/* A device raises its interrupt by writing `data`, 32 bits, to `address` of the bus. */
struct ob_interrupt_message {
	uint64_t address;
	uint32_t data;			/* below 2^16 for devices with MSI; MSI-X has 32 bits */
	uint32_t reserved;
};

/*
 * Opens `count` interrupts, `interrupt` and those after it, for messages of one device, and stores
 * the message that raises the first. `count` is a power of two, at most 32. `interrupt` and the
 * stored data are multiples of `count`. The message of `interrupt` + i has the same address, and
 * the data plus i. Interrupts are masked at first. -EBUSY: one is open. -ENOSPC: the host has no
 * more, or not as many with such data. If a count above 1 fails, the kernel asks again for 1. A
 * call that fails opens none. Any thread may make the calls of this group.
 */
#define OB_INTERRUPT_COUNT_MOST 32
int ob_host_interrupt_open(struct ob_host *host, uint32_t interrupt, uint32_t count,
			   struct ob_interrupt_message *message);

/*
 * Closes one interrupt: messages raise it no more. The kernel has masked it before. A message that
 * is on its way may still arrive. The kernel closes interrupts that it opened by one call one by
 * one, in any order and at any time. It may open a closed one again while others are still open.
 */
void ob_host_interrupt_close(struct ob_host *host, uint32_t interrupt);

/*
 * Masks or unmasks an interrupt that is open. Calls may repeat. A host should keep an edge that
 * arrives while the interrupt is masked, and raise the interrupt when it is unmasked. A host need
 * not do so: the kernel notes what arrives while a driver has disabled its interrupt. A host must
 * not raise a level interrupt that is masked. Unmasking may call ob_kernel_interrupt(). The
 * caller's interrupts are off.
 */
void ob_host_interrupt_mask(struct ob_host *host, uint32_t interrupt);
void ob_host_interrupt_unmask(struct ob_host *host, uint32_t interrupt);

/*
 * A hint: vCPUs of this set handle the interrupt. Bit n stands for vCPU n; one bit at least is set.
 * OB_ANY_VCPU: any vCPU does, also one that comes up later. The caller's interrupts are off.
 */
#define OB_ANY_VCPU (~0ull)
void ob_host_interrupt_affinity(struct ob_host *host, uint32_t interrupt, uint64_t vcpus);

enum ob_pin_flags {
	OB_PIN_LEVEL = 1,		/* else edge: raised when the line is asserted */
	OB_PIN_ACTIVE_LOW = 2		/* the asserted line is low, else high */
};

/*
 * Opens an interrupt for a pin: an input of the platform's interrupt controllers, which the
 * platform numbers as it likes. `flags`: enum ob_pin_flags. Devices may share a pin: the kernel
 * opens a pin once, with one interrupt for all its devices, and never closes it. The interrupt is
 * masked at first. -EINVAL: there is no such pin, or it does not work like that. -EBUSY: the
 * interrupt or the pin is open. -ENOSPC: the host has no more.
 */
int ob_host_interrupt_open_pin(struct ob_host *host, uint32_t interrupt, uint32_t pin,
			       uint32_t flags);

/*
 * The kernel has handled a level interrupt that the host has raised, or ignores it: one call for
 * each that the host has raised. The interrupt may be masked. May call ob_kernel_interrupt(). The
 * caller's interrupts are off.
 */
void ob_host_interrupt_end(struct ob_host *host, uint32_t interrupt);

/* ---- device memory ----------------------------------------------------- */

/*
 * Addresses are those of the host's bus, below 2^52. The group of the bus states which ranges
 * there are. A host may lack this group: then drivers cannot map device memory.
 */

enum ob_iomem_flags {
	OB_IOMEM_UNCACHED = 0,
	/*
	 * The processor may join writes, and delay them until a fence, as in a frame buffer. The
	 * kernel asks for this only where a driver does. The host may map the range uncached.
	 */
	OB_IOMEM_WRITE_COMBINING = 1,
};

/*
 * Maps device memory into the address space, and stores a pointer to it. `address` and `size` may
 * have any alignment. `flags`: enum ob_iomem_flags. The pointer is that of `address` itself, not of
 * its page. The kernel accesses the range in the sizes that the device knows. A range may be mapped
 * several times, in parts, and with several flags. -EOPNOTSUPP: the host cannot map this range, and
 * the kernel uses the calls below. -EINVAL: there is no device. -ENOMEM.
 */
int ob_host_iomem_map(struct ob_host *host, uint64_t address, uint64_t size, uint32_t flags,
		      uint64_t *pointer);

/* `pointer`: as ob_host_iomem_map() has stored it. The kernel accesses that range no more. */
void ob_host_iomem_unmap(struct ob_host *host, uint64_t pointer);

/*
 * Accesses device memory. `size`: 1, 2, 4 or 8 bytes; the address is a multiple of `size`. If no
 * device answers, a read returns all ones, and a write is lost. The caller's interrupts may be off.
 * Both calls may call ob_kernel_interrupt().
 */
uint64_t ob_host_iomem_read(struct ob_host *host, uint64_t address, uint32_t size);
void ob_host_iomem_write(struct ob_host *host, uint64_t address, uint32_t size, uint64_t value);

/* ---- ports ------------------------------------------------------------- */

/*
 * The I/O ports of x86: an address space of its own, from 0 to 65535. Drivers of devices with I/O
 * BARs and of legacy devices use them. A host may lack this group: then a read returns all ones,
 * and a write is lost. Programs get no access to ports.
 *
 * `size`: 1, 2 or 4 bytes, all of them below 65536. `port` may have any alignment. If no device
 * answers, a read returns all ones, and a write is lost. The kernel uses the low `size` bytes of
 * the result. A host refuses a driver's access to a port of its own in the same way. The caller's
 * interrupts may be off. Both calls may call ob_kernel_interrupt().
 */
uint32_t ob_host_port_read(struct ob_host *host, uint32_t port, uint32_t size);
void ob_host_port_write(struct ob_host *host, uint32_t port, uint32_t size, uint32_t value);

/* ---- DMA --------------------------------------------------------------- */

/* A part of RAM, and where devices find it. */
struct ob_dma_extent {
	uint64_t physical;		/* 0 is the first byte of RAM */
	uint64_t bus;
	uint64_t size;			/* bytes, not 0; all three are multiples of 4 MB */
};

/*
 * States one extent: index 0, 1, ... until -ENOENT, 16 at most. The kernel asks at boot, and the
 * extents stay as they are. The first extent begins at physical address 0. Each other extent begins
 * where the one before it ends. The last extent ends at RAM's ceiling or above. So extents must not
 * overlap in physical addresses, nor have gaps. On the bus they may be in any order, but must not
 * overlap either. No window of the PCI bus may overlap an extent, even above RAM's ceiling: see
 * ob_host_pci_window(). If an extent breaks a rule of this group, the kernel prints an error, and
 * no device reaches RAM.
 *
 * Devices with a mask of 32 bits need extent 0 below 4 GB. Then it is Linux's ZONE_DMA32: coherent
 * memory of such devices comes from there. If RAM has bus addresses above 4 GB, too, bounce buffers
 * for it come from there as well. If extent 0 is not below 4 GB, a buffer whose bus address is
 * above the mask of a device cannot be mapped for that device.
 *
 * If the bus has an IOMMU, the host maps RAM in ob_host_ram_extend(), before that returns. Devices
 * see what processors have written, and processors what devices have written. A host may lack
 * this group: then devices have no access to RAM.
 */
int ob_host_dma_extent(struct ob_host *host, uint32_t index, struct ob_dma_extent *extent);

/* ---- PCI --------------------------------------------------------------- */

/*
 * One bus with what is behind its bridges. A host may lack this group: then there is no bus, and
 * the kernel does nothing for it at boot. A host with this group also has the groups interrupts,
 * device memory and DMA, and sets OB_HOST_RAM_IS_PINNED. Else the kernel prints an error and does
 * not use the bus.
 *
 * At a halt the drivers shut their devices down. Then the kernel clears the bus master bit of each
 * device, and masks each interrupt. All this is done before the vCPUs stop, and so before
 * ob_host_regions_release(). Devices and interrupts stay like that, whatever drivers do. Interrupts
 * that are still open stay open: the host may close them after the halt.
 *
 * If a client thread is stuck in the kernel, drivers do not shut their devices down. The rest is
 * done. After a panic none of this is done: see ob_host_panic().
 */

enum ob_pci_window_flags {
	OB_PCI_PREFETCHABLE = 1,	/* for memory whose reads have no side effects */
	OB_PCI_PORTS = 2,		/* for I/O BARs: addresses are numbers of ports */
};

/*
 * Where the kernel may put device memory or ports: addresses for the groups of device memory and of
 * ports.
 */
struct ob_pci_window {
	uint64_t address;
	uint64_t size;
	uint32_t flags;			/* enum ob_pci_window_flags; not both */
	uint32_t reserved;
};

/*
 * States one window: index 0, 1, ... until -ENOENT; at most 8. A window of memory must not overlap
 * another window of memory or an extent of RAM. Windows of ports must not overlap each other, and
 * need the group of ports. If a window breaks a rule, the kernel prints an error and does not use
 * the bus.
 */
int ob_host_pci_window(struct ob_host *host, uint32_t index, struct ob_pci_window *window);

/*
 * Accesses configuration space. `device`: bus << 8 | device << 3 | function. `size`: 1, 2 or 4
 * bytes; `offset` is a multiple of `size`, below 4096. If there is no such device, a read returns
 * all ones, and a write is lost. The caller's interrupts are off. There is one call at a time.
 */
uint32_t ob_host_pci_read(struct ob_host *host, uint32_t device, uint32_t offset, uint32_t size);
void ob_host_pci_write(struct ob_host *host, uint32_t device, uint32_t offset, uint32_t size,
		       uint32_t value);

/*
 * Routes a pin of a device: stores which pin of ob_host_interrupt_open_pin() it reaches, and how
 * that one works (enum ob_pin_flags). `device`: as above, on bus 0: the kernel follows pins through
 * bridges itself. `pin`: 1 to 4, for INTA to INTD. Several may reach the same pin, and then with
 * the same flags. -ENOENT: nobody routes this pin. The kernel prints that, and the driver gets no
 * interrupt by pin. The caller's interrupts are on.
 */
int ob_host_pci_pin(struct ob_host *host, uint32_t device, uint32_t pin, uint32_t *routed,
		    uint32_t *flags);

/* ---- virtio ------------------------------------------------------------ */

/*
 * Virtio devices of the host, for Linux's own virtio drivers: the virtio specification 1.2, without
 * a transport of its own. The program adds and removes devices (gate.h). A host may lack this
 * group: then there are no such devices.
 *
 *   info --> features --> queue ... --> start --> notify ... --> reset --> features ...
 *                                                                   `---> close
 *
 * Queues are split virtqueues. Addresses in them, and in struct ob_virtio_queue, are physical
 * addresses plus OB_VIRTIO_BASE. All of them are in RAM. A device reaches RAM from `start` to
 * `reset`, on any thread of the host, and raises its interrupts in that time.
 *
 * A device keeps its number from the program's request to `close`. An unknown number is -ENODEV.
 * Only `notify` may run at the same time as another call for the same device.
 */
#define OB_VIRTIO_BASE (16ull << 20)

struct ob_virtio_info {
	uint32_t type;			/* the specification's device ID: 1 is a network device */
	uint32_t queue_count;
	uint32_t queue_size;		/* most entries of a queue: a power of two */
	uint32_t config_size;		/* bytes of the configuration space */
	uint64_t features;		/* that the device offers */
};

struct ob_virtio_queue {
	uint64_t descriptors;
	uint64_t available;
	uint64_t used;
	uint32_t size;			/* entries: a power of two */
	/* OB_INTERRUPT_FIRST and above, as the kernel chooses; 0: the kernel polls the queue */
	uint32_t interrupt;
};

int ob_host_virtio_info(struct ob_host *host, uint32_t device, struct ob_virtio_info *info);

/*
 * Reads or writes a part of the configuration space. A read beyond its end gives zeroes, a write
 * there is lost. The device raises `interrupt` of `start` when its configuration has changed.
 */
void ob_host_virtio_read(struct ob_host *host, uint32_t device, uint32_t offset, void *bytes,
			 uint32_t size);
void ob_host_virtio_write(struct ob_host *host, uint32_t device, uint32_t offset,
			  const void *bytes, uint32_t size);

/* The driver's choice of features. -EINVAL: not a subset of those on offer. */
int ob_host_virtio_features(struct ob_host *host, uint32_t device, uint64_t features);

/* Sets up a queue, before `start`. -EINVAL: outside of RAM, or a wrong size. */
int ob_host_virtio_queue(struct ob_host *host, uint32_t device, uint32_t index,
			 const struct ob_virtio_queue *queue);

/* The driver is ready. Errors: the host's. */
int ob_host_virtio_start(struct ob_host *host, uint32_t device, uint32_t interrupt);

/*
 * The queue has new buffers. The device may process them on the calling thread. Calls for two
 * queues may overlap. The caller's interrupts may be off. May call ob_kernel_interrupt().
 */
void ob_host_virtio_notify(struct ob_host *host, uint32_t device, uint32_t index);

/*
 * Takes the device back to its first state. -EAGAIN: a thread of the device is in RAM; the kernel
 * sleeps a little and calls again. After a result of 0 the device leaves RAM alone.
 */
int ob_host_virtio_reset(struct ob_host *host, uint32_t device);

/*
 * Closes the device for ever. Never called with a vCPU held. Blocks. If the kernel has ended
 * without `reset`, this ends the device's use of RAM.
 */
void ob_host_virtio_close(struct ob_host *host, uint32_t device);

/*
 * The calling thread waits without sleeping, until the word has one of the bits, or until the time
 * `end` of the monotonic clock. Meanwhile it does what threads of devices would do: it hands over
 * what has arrived, and calls ob_kernel_interrupt(). So an answer that comes soon needs no thread
 * to be woken. A device may stay with threads that call here again and again; its own thread then
 * looks late. A thread that is about to sleep, and that has not waited here, calls with `end` 0:
 * the devices' threads take over. 1: the word has one of the bits. 0: the time is over. -ENODEV: no
 * device can be served like that, and the call returned at once. Never called with a vCPU held.
 * Needs 8 KB of stack.
 */
int ob_host_virtio_poll(struct ob_host *host, const uint32_t *word, uint32_t bits, uint64_t end);

/*
 * Makes a network device that leads nowhere, for an interface of a snapshot. It offers what a later
 * device offers that shall have this interface; the platform chooses of which kind. The kernel
 * closes it before the snapshot is saved. Returns its number. -ENODEV: the platform has no such
 * device. Never called with a vCPU held. Blocks.
 */
int ob_host_virtio_spare(struct ob_host *host);

/* ---- upcalls: implemented by the kernel -------------------------------- */

/*
 * These rules hold for every upcall unless its comment says otherwise:
 *  - The calling thread has its block (tables.h) and enough stack: 64 KB, or what is left of the
 *    stack that was interrupted.
 *  - The caller holds no lock of the platform: the kernel may make any hypercall.
 *  - The host's interrupts and signals are as they are in the program.
 *  - An upcall for an interrupted thread (fault, preempt) runs on the stack that was interrupted:
 *    it may return on another thread, after others have used any shared stack. So a trap handler
 *    neither makes it on a stack of the processor's (IST) nor leaves anything there.
 *  - Kernel code has no red zone. Code of clients may have one: the 128 bytes below the stack
 *    pointer. In ring 0 the processor pushes a trap's frame there. So there either all code of
 *    clients is compiled with -mno-red-zone, or traps enter on a stack of the processor's, and the
 *    entry moves the frame to the interrupted stack, below these 128 bytes.
 *  - An upcall is an ordinary call of the System V ABI. The control words of the x87 and SSE units
 *    are the ABI's at the call, and the kernel does not change them.
 *  - ob_kernel_interrupt() and ob_kernel_preempt_begin() use general registers only: for these two
 *    a trap or signal handler need not save vector registers. Every other upcall may run any code
 *    of the kernel, on this thread and for other tasks. Some of that uses vector registers: copies
 *    of memory, AES, and the parity of RAID, which takes all that XCR0 enables. So a handler saves
 *    them all before such an upcall, and restores them after.
 */

/*
 * Raises an interrupt. Any thread, also in a trap or signal handler that interrupted the kernel,
 * with the host's interrupts off, and while the kernel boots. The call does not block. The kernel
 * ignores a number that is not open, and all numbers after a halt. If a driver has disabled its
 * interrupt, the kernel handles it when the driver enables it. The only hypercalls made are
 * ob_host_wake(), ob_host_service_request() and ob_host_clock_monotonic().
 */
void ob_kernel_interrupt(uint32_t interrupt);

/*
 * Does what a vCPU's service thread would do: raises the vCPU's timer, takes interrupts in the
 * place of a client that is out in host code, and interrupts a thread that does not poll. Returns
 * when to call again, as a time of the host's monotonic clock. OB_FOREVER: when
 * ob_host_service_request() asks for a call.
 *
 * The calling thread is neither a client nor made by ob_host_thread_create(). It has a block of its
 * own (tables.h), so it never calls in the middle of other kernel code. There is one call at a time
 * for a vCPU. Calls for several vCPUs may come from one thread, one after the other, or from
 * several threads. The call does not wait for a vCPU, but may spin for a lock of the kernel, and
 * then yields.
 */
uint64_t ob_kernel_service(uint32_t vcpu);

enum ob_fault_flags {
	OB_FAULT_WRITE = 1,
	OB_FAULT_EXECUTE = 2,		/* `address` is that of the instruction, not executable */
	OB_FAULT_NO_ADDRESS = 4,	/* the host does not know the address; it is 0 */
};

/* What a platform reports about a memory fault. */
struct ob_fault {
	uint64_t address;		/* of the failed access */
	uint64_t instruction;		/* that made the access; the kernel may change this */
	uint64_t frame;			/* frame pointer, for a back-trace */
	/* Stack pointer. After a jump to an invalid address it points to the return address. */
	uint64_t stack;
	uint32_t flags;			/* enum ob_fault_flags */
	uint32_t reserved;
};

/*
 * Handles a fault, on the thread and the stack where it happened. The platform has saved the
 * processor's state. The call may return on another thread: after it, the platform uses nothing
 * that belongs to the first thread. Another fault may happen during the call. Returns 1: the
 * platform resumes at fault->instruction. Returns 0: the fault is the program's, and the platform
 * does what the program has asked for. For a bug of the kernel the call does not return: the
 * kernel panics.
 */
int ob_kernel_fault(struct ob_fault *fault);

/*
 * ob_host_thread_interrupt() has interrupted the calling thread. The platform calls this in its
 * handler, where that interrupt is still masked. It makes no hypercall.
 * Returns 1: the thread must call ob_kernel_preempt(); until then this function returns 0 on it.
 * Returns 0: the thread need not take interrupts, or may not do so here.
 */
int ob_kernel_preempt_begin(void);

/*
 * Takes pending interrupts, after ob_kernel_preempt_begin() has returned 1. The platform unmasks
 * its own interrupt before. The call may return on another thread, as ob_kernel_fault().
 */
void ob_kernel_preempt(void);

/* The calling client thread ends: its task exits. Not in a handler. Blocks like a system call. */
void ob_kernel_thread_exit(void);

/*
 * The process that booted this kernel has called fork(): the only thread of the child calls this.
 * Every later call of that thread gets -ENODEV.
 */
void ob_kernel_forked(void);

#endif
