/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The whole interface between the kernel and its host: THE porting surface.
 *
 * Two directions. Hypercalls (ob_host_*) are implemented by a platform and
 * called by the kernel. Upcalls (ob_kernel_*) are implemented by the kernel
 * and called by a platform. Nothing else crosses this wall, and no type here
 * belongs to any libc.
 *
 * A host can have several kernels. Each has its own handle, a struct ob_host that only the platform
 * knows: a kernel gets it at its start (tables.h) and passes it to every hypercall. Regions, threads,
 * disks and all else that a call names belong to that handle.
 *
 * Rules that hold for every hypercall unless its comment says otherwise:
 *  - it does not block: a vCPU is held by the caller (invariant V7). The
 *    calls that may block are marked "Blocks", and the kernel makes them only
 *    where waiting belongs: idle, the hand-over of a vCPU, and outside of it;
 *  - any thread may call it at any time, also from the handler of the
 *    platform's own signals: no allocation from the program's heap, no lock
 *    that an interrupted caller may hold;
 *  - it is no cancellation point and throws nothing: a client's thread must not
 *    end inside it;
 *  - an error is a negative Linux errno value, success is 0 or positive;
 *  - a count of bytes is 64 bits wide, a time is in nanoseconds.
 */
#ifndef OUTBOARD_HYPERCALL_H
#define OUTBOARD_HYPERCALL_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

/* What a platform knows of one kernel. */
struct ob_host;

/* ---- regions ----------------------------------------------------------- */

/*
 * A region is a range of the address space, reserved once at boot. RAM is the
 * memory that physical addresses name: physical address 0 is its first byte.
 * All other regions are windows: empty until mapped (VMALLOC, MODULES,
 * CLIENT) or committed (STACKS, PAGES).
 */
enum ob_region {
	OB_REGION_RAM,		/* readable, writable; taken from the host page by page as it is touched */
	OB_REGION_VMALLOC,	/* window for the kernel's own mappings */
	OB_REGION_MODULES,	/* the same, within 1 GB of the kernel's text; executable */
	OB_REGION_CLIENT,	/* window for mmap() by local clients */
	OB_REGION_STACKS,	/* stacks of coroutines, with guard pages between them */
	OB_REGION_PAGES,	/* the array of struct page */
	OB_REGION_SHADOW,	/* what KASAN knows of the address space; only a kernel with KASAN asks for it */
	OB_REGIONS
};

/* ---- info -------------------------------------------------------------- */

enum ob_host_feature {
	/*
	 * Devices, or other processes, use RAM by its physical address. So each page of RAM stays
	 * the same memory of the host from ob_host_ram_extend() to the end: the kernel never
	 * discards it, neither starts from a snapshot nor leaves one, and touches no RAM before
	 * it has extended it.
	 */
	OB_HOST_RAM_IS_PINNED = 1,
	/*
	 * RAM can be executed. A kernel on a host without the mapping group then loads modules into
	 * RAM. Each page of a module must be within 2 GB of the kernel's text and of the other pages
	 * of RAM that modules are in: else a module is refused with -ERANGE.
	 */
	OB_HOST_RAM_IS_EXECUTABLE = 2,
};

struct ob_info {
	uint64_t features;		/* enum ob_host_feature */
	uint64_t memory;		/* bytes that the host has in all: the basis of the default ceiling */
	uint32_t processors;		/* that the host lets this program use; at least 1 */
	uint32_t reserved;
	/*
	 * Bytes of address space for VMALLOC, MODULES, CLIENT and STACKS, multiples of 16 MB; the
	 * kernel knows what the others need. A host without the mapping group has no use for the
	 * first three. STACKS: 128 KB for each kernel thread, 16 MB at least.
	 */
	uint64_t windows[OB_REGIONS];
};

/* What the host is like: the same each time. */
void ob_host_info(struct ob_host *host, struct ob_info *info);

/* ---- memory ------------------------------------------------------------ */

/*
 * Reserves address space for a region; takes no memory. Called once for each
 * region during boot; OB_REGION_MODULES first, while there is room near the text. `size`: bytes, a multiple of 4096.
 * Stores the address, aligned to 16 MB. Errors: -ENOMEM. VMALLOC, MODULES and CLIENT are asked for
 * only if the host has the mapping group.
 *
 * OB_REGION_SHADOW is wanted at the address that is stored there before, readable and writable; its bytes are zero and take memory
 * when they are written. It outlives ob_host_regions_release, and is there after a fork.
 */
int ob_host_region_reserve(struct ob_host *host, enum ob_region region, uint64_t size,
			   uint64_t *address);

/* Makes [address, address+size) of a STACKS or PAGES region usable, zero-filled. -ENOMEM. */
int ob_host_region_commit(struct ob_host *host, uint64_t address, uint64_t size);

/*
 * RAM has so far been used up to `address`, and is to grow by `size` bytes: a multiple of 4 MB, and
 * at most 4 MB but for the first call, which is for what the kernel boots with. The platform may
 * put better memory there, now and from then on. -ENOMEM: the host has no more; RAM stays as it
 * is. The caller's interrupts are off, and on between two calls.
 */
int ob_host_ram_extend(struct ob_host *host, uint64_t address, uint64_t size);

/*
 * Gives the memory of a committed range, or of a range of RAM, back to the host. What is there when it
 * is touched again is undefined, but no secret of others.
 */
void ob_host_region_discard(struct ob_host *host, uint64_t address, uint64_t size);

/* Gives the whole address space of all regions back. Only after every vCPU has stopped. */
void ob_host_regions_release(struct ob_host *host);

/* ---- mapping ----------------------------------------------------------- */

/*
 * A host may lack this group: then a client's mmap() fails with -ENODEV, vmalloc gives runs of
 * neighbouring pages, and no module is loaded unless OB_HOST_RAM_IS_EXECUTABLE.
 */

enum ob_protection {
	OB_PROTECTION_READ = 1,
	OB_PROTECTION_WRITE = 2,
	OB_PROTECTION_EXECUTE = 4,
};

/*
 * Shows `size` bytes of RAM from physical address `physical` at `address` of
 * a window, replacing what was there. -EINVAL outside RAM or window; -ENOMEM
 * when the host has no room for another mapping: the kernel then drops others
 * and lets them come back by faults (mappings are a cache, invariant V12).
 */
int ob_host_map(struct ob_host *host, uint64_t address, uint64_t physical, uint64_t size,
		uint32_t protection);

/* Makes a range of a window inaccessible again. -ENOMEM as above. */
int ob_host_unmap(struct ob_host *host, uint64_t address, uint64_t size);

/* ---- threads ----------------------------------------------------------- */

/*
 * Starts a host thread that runs fn(arg) with all of the program's signals
 * blocked, and ends when fn returns. Stores a handle for ob_host_thread_join, which is not 0.
 * A stack of 64 KB is enough, beside what the platform's own handlers take.
 * `name` is for debuggers. -EAGAIN when the host has no more threads.
 * The caller's interrupts are off, or it holds no vCPU.
 */
int ob_host_thread_create(struct ob_host *host, void (*fn)(void *arg), void *arg,
			  const char *name, uint64_t *thread);

/* Waits until the thread has ended. Blocks. Never called with a vCPU held. */
void ob_host_thread_join(struct ob_host *host, uint64_t thread);

/*
 * Identifies the calling host thread for ob_host_thread_interrupt (not the same
 * name space as the handle above). Cheap: may be called at every adoption.
 */
uint64_t ob_host_thread_self(struct ob_host *host);

/*
 * Makes the thread call ob_kernel_preempt_begin() soon, wherever it is (invariant
 * V6). A thread that has ended is no error. A platform without such a thing
 * does nothing; a loop in the kernel that never polls then keeps its vCPU.
 */
void ob_host_thread_interrupt(struct ob_host *host, uint64_t self);

/* Lets other host threads run. A hint. */
void ob_host_thread_yield(struct ob_host *host);

/*
 * Tells the platform that the calling thread becomes a client: it shall call
 * ob_kernel_thread_exit() on that thread when the thread ends. -EAGAIN if it
 * cannot: then the thread does not become one.
 */
int ob_host_thread_adopted(struct ob_host *host);

/* ---- wait and wake ----------------------------------------------------- */

#define OB_FOREVER (~0ULL)

/*
 * Sleeps while *word == value, until woken or for `timeout` nanoseconds.
 * May return early for no reason. Blocks.
 */
void ob_host_wait(struct ob_host *host, const uint32_t *word, uint32_t value,
		  uint64_t timeout);

/*
 * Wakes up to `count` sleepers on the word. Returns how many. A thread that was taken from its
 * sleep, by a signal or a debugger, does not count: the kernel looks for another one then.
 */
uint32_t ob_host_wake(struct ob_host *host, const uint32_t *word, uint32_t count);

/* ---- timer ------------------------------------------------------------- */

/*
 * A host may lack this group: then each vCPU has a thread of its own, its service thread, that
 * sleeps until its next timer is due and does the same. A host with timers needs no such
 * threads: it calls ob_kernel_service() itself, when it is asked to and when time has come.
 */

/*
 * Has ob_kernel_service(vcpu) called soon, and once more if that runs already; does not call it
 * itself. The first call for a vCPU starts its service. Any thread, interrupt or signal handler.
 */
void ob_host_service_request(struct ob_host *host, uint32_t vcpu);

/*
 * Ends the service of a vCPU: when this returns, ob_kernel_service(vcpu) does not run, and will not
 * be called again. Never called with a vCPU held. Blocks.
 */
void ob_host_service_end(struct ob_host *host, uint32_t vcpu);

/* ---- clocks ------------------------------------------------------------ */

/* Nanoseconds since some fixed point; never goes back. */
uint64_t ob_host_clock_monotonic(struct ob_host *host);

/* Nanoseconds since 1970-01-01 00:00 UTC. */
uint64_t ob_host_clock_realtime(struct ob_host *host);

/*
 * The same at the last tick of the host: the clock that the host's file systems take their times from. Called for
 * each time of a file; should cost no system call. A host without such a clock returns ob_host_clock_realtime().
 */
uint64_t ob_host_clock_realtime_coarse(struct ob_host *host);

/* ---- console, exit and panic ------------------------------------------- */

/* Hands one line of the kernel's log (no newline at its end) to the program. `level`: 0 (emergency) to 7 (debug). */
void ob_host_console_write(struct ob_host *host, int level, const char *line,
			   uint64_t length);

/*
 * Reports a kernel panic to the user and ends the program so that a core can be taken. Where the
 * program has asked for it, only this kernel ends: the calling thread stays here for ever. Does not return.
 */
void ob_host_panic(struct ob_host *host, const char *message) __attribute__((noreturn));

/* ---- random ------------------------------------------------------------ */

/* Fills the buffer with bytes fit for keys. -EIO if there are none. */
int ob_host_random(struct ob_host *host, void *buffer, uint64_t size);

/* ---- block ------------------------------------------------------------- */

enum ob_block_flags {
	OB_BLOCK_READ_ONLY = 1,		/* open for reading only; nothing is ever written */
	OB_BLOCK_NO_LOCK = 2,		/* do not take the lock against a second writer */
	OB_BLOCK_SERVED = 4,		/* the path is the number of a disk that the program serves (the platform's own affair) */
};

struct ob_block_info {
	uint64_t size;			/* bytes */
	uint32_t sector_size;		/* logical sector of the host's device; 512 for a file */
	uint32_t read_only;
	uint32_t can_discard;		/* discard and write-zeroes are supported */
	uint32_t reserved;
};

/*
 * Opens a disk. `path`: as the platform names disks (POSIX: a regular file or
 * a block device, or /dev/fd/N for one that is open as the descriptor N). Takes a lock against a second writer: -EBUSY if somebody
 * holds it. -EROFS if write access was asked for and only reading is possible
 * (-EACCES if not even that), -EISDIR, -ENOENT, ... as the host says.
 * Returns the disk's number (>= 0). Blocks; never called with a vCPU held.
 */
int ob_host_block_open(struct ob_host *host, const char *path, uint32_t flags,
		       struct ob_block_info *info);

/* Closes a disk that has no request in flight; its lock is dropped. Blocks. */
void ob_host_block_close(struct ob_host *host, uint32_t disk);

enum ob_block_operation {
	OB_BLOCK_READ,
	OB_BLOCK_WRITE,
	OB_BLOCK_FLUSH,			/* what was completed before is on stable storage after (V11) */
	OB_BLOCK_DISCARD,		/* contents undefined, room given back */
	OB_BLOCK_WRITE_ZEROES,
};

struct ob_block_segment {
	void *address;			/* in RAM or in the kernel's image */
	uint64_t length;
};

struct ob_block_request {
	uint32_t disk;
	uint32_t operation;
	uint32_t force_unit_access;	/* a write is complete when it is on stable storage */
	uint32_t segment_count;
	uint64_t offset;		/* bytes from the start of the disk; 0 for FLUSH */
	uint64_t length;		/* bytes in all segments, or the range of a discard; 0 for FLUSH */
	const struct ob_block_segment *segments;
	int32_t result;			/* set by the platform: 0 or -errno */
	uint32_t ahead;			/* a read of what is likely to be wanted next: the caller has other things to do meanwhile */
	struct ob_block_request *next;	/* for the platform while in flight, for the kernel after */
};

/*
 * Starts a request. Returns 1 if it is complete already (result is set), 0 if
 * it will complete later: then the platform puts it on the completed list and
 * calls ob_kernel_interrupt(OB_INTERRUPT_BLOCK). Short transfers are errors
 * (-EIO). A read beyond what the file has (it shrank) is -EIO, not a signal.
 */
int ob_host_block_submit(struct ob_host *host, struct ob_block_request *request);

/* Takes the list of all completed requests, linked by `next`; NULL if there are none. */
struct ob_block_request *ob_host_block_completed(struct ob_host *host);

/* ---- components -------------------------------------------------------- */

/* A module of the kernel's own build that the host carries. */
struct ob_component {
	const char *name;	/* as Linux says it: with _ for - */
	const void *image;	/* the bytes of its .ko file */
	uint64_t size;
	uint32_t wanted;	/* 1: it is what was asked for, 0: that needs it */
	uint32_t reserved;
};

/*
 * Finds what is to be loaded for a name: that of a module, or one of its aliases, as in
 * "fs-xfs". `index` 0, 1, ... gives one after the other, in the order of loading: what is needed comes
 * before what needs it. What is found stays valid for ever. -ENOENT: no more, or nothing at all.
 */
int ob_host_component_find(struct ob_host *host, const char *name, uint32_t index,
			   struct ob_component *component);

/* A device node that has to be there before its component is loaded: opening it does that. */
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
 * them for one source. A host may lack this group: then there are no other interrupts.
 *
 * The host raises an interrupt by ob_kernel_interrupt(). Interrupts are edges: the host raises
 * one each time its source asks for it. The kernel may merge those that come before it has
 * handled the first.
 */
enum ob_interrupt {
	OB_INTERRUPT_BLOCK = 1,		/* disks have completed requests */
	OB_INTERRUPT_FIRST = 16,
	OB_INTERRUPTS = 1024
};

/* A device raises its interrupt by writing `data`, 32 bits, to `address` of the bus. */
struct ob_interrupt_message {
	uint64_t address;
	uint32_t data;
	uint32_t reserved;
};

/*
 * Opens an interrupt for messages of devices, and stores what raises it. It is masked at first.
 * -EBUSY: it is open; -ENOSPC: the host has no more. Any thread; so for all calls of the group.
 */
int ob_host_interrupt_open(struct ob_host *host, uint32_t interrupt,
			   struct ob_interrupt_message *message);

/* Messages raise the interrupt no more. It is masked. One that is on its way may still come. */
void ob_host_interrupt_close(struct ob_host *host, uint32_t interrupt);

/*
 * Masks or unmasks an interrupt that is open. The host should hold back what comes while it is
 * masked, and raise it when it is unmasked. It need not: the kernel notes what comes for a driver
 * that is not ready. Unmasking may call ob_kernel_interrupt().
 */
void ob_host_interrupt_mask(struct ob_host *host, uint32_t interrupt);
void ob_host_interrupt_unmask(struct ob_host *host, uint32_t interrupt);

/* A hint: that vCPU handles the interrupt. OB_ANY_VCPU: whichever has time. */
#define OB_ANY_VCPU (~0u)
void ob_host_interrupt_affinity(struct ob_host *host, uint32_t interrupt, uint32_t vcpu);

/* ---- device memory ----------------------------------------------------- */

/*
 * Addresses are those of the host's bus, below 2^52. A host may lack this group: then no
 * device memory can be mapped. Which ranges there are, the bus says that has them.
 */

/*
 * Shows device memory in the address space, uncached. Stores where; it may be accessed there in
 * the sizes that the device knows. -EOPNOTSUPP: the host cannot, the kernel uses the calls below.
 * -EINVAL: there is no device. -ENOMEM.
 */
int ob_host_iomem_map(struct ob_host *host, uint64_t address, uint64_t size, uint64_t *pointer);

/* What ob_host_iomem_map() has stored: that range is accessed no more. */
void ob_host_iomem_unmap(struct ob_host *host, uint64_t pointer);

/*
 * Accesses device memory. `size`: 1, 2, 4 or 8 bytes; the address is a multiple of it. A read
 * that nobody answers gives all ones, such a write is lost. Interrupts of the caller may be off.
 * Either may call ob_kernel_interrupt().
 */
uint64_t ob_host_iomem_read(struct ob_host *host, uint64_t address, uint32_t size);
void ob_host_iomem_write(struct ob_host *host, uint64_t address, uint32_t size, uint64_t value);

/* ---- DMA --------------------------------------------------------------- */

/* A part of RAM, and where devices find it. */
struct ob_dma_extent {
	uint64_t physical;		/* 0 is the first byte of RAM */
	uint64_t bus;
	uint64_t size;			/* bytes; all three are multiples of 4 MB, this one not 0 */
};

/*
 * States one extent: index 0, 1, ... until -ENOENT, 16 at most. The kernel asks at boot, and the
 * extents stay as they are. The first one begins at physical address 0. Each other one begins
 * where the one before ends, and the last one ends at RAM's ceiling or above. So physical addresses
 * neither overlap nor have gaps. Bus addresses may be in any order, but must not overlap. If an
 * extent breaks a rule, the kernel prints an error, and no device reaches RAM.
 *
 * The kernel has no bounce buffers: a buffer whose bus address is above the mask of a device cannot
 * be mapped for that device. So RAM should have bus addresses below 4 GB where devices need that.
 *
 * If the bus has an IOMMU, the host maps RAM in ob_host_ram_extend(), before that returns. Devices
 * see what processors have written, and processors what devices have written. A host may lack
 * this group: then devices have no access to RAM.
 */
int ob_host_dma_extent(struct ob_host *host, uint32_t index, struct ob_dma_extent *extent);

/* ---- PCI --------------------------------------------------------------- */

/*
 * One bus with what is behind its bridges. A host may lack this group: then there is none, and
 * nothing is done at boot. A host that has it has the groups interrupts, device memory and DMA,
 * too, and sets OB_HOST_RAM_IS_PINNED.
 *
 * At a halt the drivers shut their devices down. Then the kernel clears the bus master bit of each
 * device, and masks each interrupt. All this is done before the vCPUs stop, and so before
 * ob_host_regions_release(). Interrupts stay open: the host may close them after the halt.
 */

/* Where the kernel puts the memory of devices: addresses for the group above. */
struct ob_pci_window {
	uint64_t address;
	uint64_t size;
	uint32_t prefetchable;
	uint32_t reserved;
};

/* Index 0, 1, ... until -ENOENT; at most 8. */
int ob_host_pci_window(struct ob_host *host, uint32_t index, struct ob_pci_window *window);

/*
 * Accesses configuration space. `device`: bus << 8 | device << 3 | function. `size`: 1, 2 or 4
 * bytes; `offset` is a multiple of it, below 4096. Of what is not there all bits read as 1, and
 * writes are lost. The caller's interrupts are off; one call at a time.
 */
uint32_t ob_host_pci_read(struct ob_host *host, uint32_t device, uint32_t offset, uint32_t size);
void ob_host_pci_write(struct ob_host *host, uint32_t device, uint32_t offset, uint32_t size,
		       uint32_t value);

/* ---- upcalls: implemented by the kernel -------------------------------- */

/*
 * Rules that hold for every upcall unless its comment says otherwise:
 *  - the calling thread has its block (tables.h), and enough stack: 64 KB, or what is left of the
 *    stack that was interrupted;
 *  - no lock of the platform is held: the kernel may make any hypercall;
 *  - the host's interrupts and signals are as they are in the program;
 *  - it is an ordinary call of the System V ABI. The kernel uses the vector registers, so a trap or
 *    signal handler that calls up saves them all before and restores them after. The control
 *    words of the x87 and SSE units are the ABI's at the call, and not changed.
 */

/*
 * Raises an interrupt. Any thread, also in a trap or signal handler that interrupted the kernel,
 * with the host's interrupts off, and while the kernel boots; does not block. A number that is not
 * open is ignored, and so is each one after a halt. One that a driver has disabled is handled when
 * the driver enables it. It makes no hypercall but ob_host_wake(), ob_host_service_request() and
 * ob_host_clock_monotonic().
 */
void ob_kernel_interrupt(uint32_t interrupt);

/*
 * Does what a vCPU's service thread would do: raises its timer, takes interrupts in the place of a
 * client that is out in host code, looks after a thread that does not poll. Returns the time of the
 * host's monotonic clock at which it is to be called again; OB_FOREVER: when
 * ob_host_service_request() asks for it.
 *
 * Called on a thread that is neither a client nor made by ob_host_thread_create(): it has a block of
 * its own (tables.h), so never in the middle of other code of the kernel. One call at a time for a
 * vCPU; calls for several vCPUs may come from one thread, one after the other, or from several.
 * It does not wait for a vCPU, but may spin for a lock of the kernel, and yields then.
 */
uint64_t ob_kernel_service(uint32_t vcpu);

enum ob_fault_flags {
	OB_FAULT_WRITE = 1,
	OB_FAULT_EXECUTE = 2,		/* there is nothing to execute: `address` is that of the instruction */
	OB_FAULT_NO_ADDRESS = 4,	/* the host does not know the address; it is 0 */
};

/* What a platform tells about a memory fault. */
struct ob_fault {
	uint64_t address;		/* that could not be accessed */
	uint64_t instruction;		/* that did it; the kernel may change it */
	uint64_t frame;			/* frame pointer, for a back-trace */
	uint64_t stack;			/* pointer: what it points to is a return address after a jump to nowhere */
	uint32_t flags;			/* enum ob_fault_flags */
	uint32_t reserved;
};

/*
 * Handles a fault, on the thread and the stack where it happened, with the
 * processor's state saved by the platform. May continue on another thread: the platform uses nothing
 * afterwards that belongs to the first one. Another fault may happen meanwhile. Returns 1: resume at
 * fault->instruction. 0: the fault is not the kernel's (the platform then does what the
 * program had asked for). Faults of the kernel's own making do not return: they panic.
 */
int ob_kernel_fault(struct ob_fault *fault);

/*
 * The thread was interrupted by ob_host_thread_interrupt(): called in the handler, where that
 * interrupt is still masked; makes no hypercall but ob_host_thread_self(). 1: the thread shall take pending interrupts; until it calls
 * ob_kernel_preempt() for that, this function says 0 to it. 0: it need not, or may not here.
 */
int ob_kernel_preempt_begin(void);

/*
 * After ob_kernel_preempt_begin() said 1: takes the interrupts. The platform's own interrupt is
 * unmasked before. May continue on another thread, as ob_kernel_fault().
 */
void ob_kernel_preempt(void);

/* The calling client thread ends: its task exits. Not in a handler. Blocks like a system call. */
void ob_kernel_thread_exit(void);

/* The only thread of a fork()ed child of the process that booted calls this: every later call of the calling thread gets -ENODEV. */
void ob_kernel_forked(void);

#endif
