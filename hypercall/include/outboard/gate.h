/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's functions for lib/, or for a program that makes the upcalls itself: boot, the system
 * call gate, halt, disks, components, virtio devices, the host's sockets. Programs that use lib/
 * include outboard/outboard.h.
 *
 * Errors are negative Linux errno values.
 */
#ifndef OUTBOARD_GATE_H
#define OUTBOARD_GATE_H

#include <outboard/hypercall.h>

struct ob_boot_parameters {
	/* 1 to 64; the kernel may use fewer */
	uint32_t vcpus;
	/* lines of this level and below reach the console: 0 to 8 */
	uint32_t log_level;
	uint64_t memory;		/* ceiling in bytes */
	const char *command_line;	/* added to the kernel's command line; may be NULL */
	/* names or aliases to load before this returns, separated by spaces; may be NULL */
	const char *components;
	/* 1: start from the platform's snapshot, or else save one */
	uint32_t snapshot;
	/*
	 * number of this boot; no two kernels of a process have the same, and the lower 16 bits are
	 * not 0
	 */
	uint32_t boot;
	/* interfaces that a snapshot has in advance, for later devices of ob_kernel_virtio_add() */
	uint32_t spare_interfaces;
};

/*
 * Boots the kernel. Returns when the first system call can be made. -EALREADY: this image has
 * booted before, and its data were not reset since (tables.h). -EINVAL: bad parameters. -ENOMEM. If
 * a component cannot be loaded, the kernel runs, and the error is that of loading. -ETIMEDOUT, and
 * ob_kernel_halt() fails: the boot has not come to its end in five minutes. It is left behind, with
 * its threads and its memory. Blocks.
 */
int ob_kernel_boot(const struct ob_boot_parameters *parameters);

/*
 * One system call with Linux's x86-64 numbers and conventions. A thread's first call adopts it.
 * -ENODEV before boot, after halt and in a fork()ed child.
 */
long ob_kernel_syscall(long number, long a, long b, long c, long d, long e, long f);

/*
 * Makes the current call of a client thread fail with EINTR, or its next call that would block.
 * `thread`: Linux's number; 0: the calling thread. -ESRCH: 0 on a thread that never called. It is
 * no error if another thread does not exist. -EAGAIN: too many at once. -ENODEV. Does not block and
 * takes no vCPU: signal handlers may call it.
 */
int ob_kernel_interrupt_call(int thread);

/*
 * The same, and waits end that only a fatal signal ends, as those for a server. The thread goes on.
 * The mark on such a wait is gone once a call of the thread has ended, for whatever reason: repeat
 * this until the call that is meant has returned.
 */
int ob_kernel_abort_call(int thread);

enum ob_halted {
	OB_HALTED_NOT,
	OB_HALTED,
	/* threads may run the kernel's code for ever: ob_kernel_free() fails */
	OB_HALTED_IN_USE,
};

/*
 * Closes the files of the clients, unmounts, writes back, stops every vCPU and ends every thread of
 * the kernel. Calls of other threads, also blocked ones, end with -ENODEV. Returns 0; -EBUSY: a
 * file system could not be unmounted, and was synced; -EIO: a write to a disk of the block group
 * has failed (failed writes to other disks, such as those of PCI devices, are in the log only);
 * -ENODEV: no kernel runs. Stores one of enum ob_halted. Unless the kernel has ended, it goes on
 * unchanged, and the result is the reason. Blocks.
 */
int ob_kernel_halt(int *halted);

/*
 * Releases the kernel's memory, after the halt, when no signal handler of the platform reads it any
 * more. -EBUSY: threads are still in calls, so the memory stays, and the image's data with it.
 */
int ob_kernel_free(void);

/*
 * Returns where the number of the boot is (`boot` of struct ob_boot_parameters): alone on one of
 * the pages that are kept (tables.h). Where the number is 0, calls get -ENODEV, and faults are the
 * program's. So a host whose programs can fork has this page empty in each child: also in one that
 * does not call ob_kernel_forked(). Right after the entry point.
 */
uint32_t *ob_kernel_boot_number(void);

struct ob_disk_parameters {
	const char *path;
	uint32_t flags;			/* enum ob_block_flags */
	uint32_t sector_size;		/* 0: the host's; else 512 or 4096 */
};

/*
 * Opens a disk of the host and adds it as a block device. The kernel scans its partitions before
 * this returns. Stores the device's name ("vda"). Returns the disk's number or an error of
 * ob_host_block_open. Blocks.
 */
int ob_kernel_disk_add(const struct ob_disk_parameters *parameters, char name[32]);

/*
 * Loads the component of that name or alias, and what it needs. It is no error if the component is
 * loaded already. `parameters`: as for Linux's init_module. -ENOENT: the host has none of that
 * name; -ENOSYS: this kernel loads nothing; else Linux's error. Blocks.
 */
int ob_kernel_component_load(const char *name, const char *parameters);

/* Loads a module from memory. -EEXIST: one of its name is loaded. Blocks. */
int ob_kernel_component_insert(const void *image, uint64_t size, const char *parameters);

/* Linux's version magic: a module must have the same. "" if this kernel loads nothing. */
extern const char ob_kernel_version_magic[];

struct ob_component_state {
	char name[64];
	uint64_t memory;		/* bytes in the kernel */
	uint32_t users;			/* references, as lsmod shows them */
	uint32_t reserved;
};

/* Returns the loaded components, the newest first: `index` 0, 1, ... until -ENOENT. Blocks. */
int ob_kernel_component_state(uint32_t index, struct ob_component_state *state);

/* Removes a disk: -EBUSY while it or a partition is open or mounted, -ENOENT. Blocks. */
int ob_kernel_disk_remove(uint32_t disk);

/*
 * Adds a virtio device of the host by its number, with the component that drives it. Stores the
 * name of the network interface or other device ("eth0"); "" if it has none. -ENODEV: the host has
 * no such device, or this kernel no driver for it. The device belongs to the kernel from now on: a
 * failure closes it, too. Blocks.
 */
int ob_kernel_virtio_add(uint32_t device, char name[32]);

/*
 * Removes the device and closes it in the host. -ENOENT; -EBUSY: a thread that was stopped is in
 * the middle of a frame. Blocks.
 */
int ob_kernel_virtio_remove(uint32_t device);

/*
 * 1: from now on, new sockets of PF_INET and PF_INET6 are the host's. 0: they are the kernel's own
 * again, as at boot. Sockets that exist stay what they are. -ENOSYS: the host cannot do that;
 * -EBUSY: a socket of MPTCP is open; else the host's error. Blocks.
 */
int ob_kernel_sockets(uint32_t of_host);

/*
 * Processes of their own. All threads that simply call are threads of one process. A program that
 * acts for others gives each a process: with its own descriptors, root, credentials, signals and
 * children. Its tasks are made first, and have no thread: a host thread claims each one, and is its
 * thread until one of the two ends. kill(2), wait4(2), exit(2) and exit_group(2) are as in Linux.
 * A task dies of a signal also while its thread is out. Memory: it can map none (ENOMEM).
 *
 * Once its task has ended, a thread's calls fail with -ESRCH, until it claims another one or
 * leaves. exit(2) and exit_group(2) return 0.
 */

/*
 * Makes a process with one task. It is a child of init, which reaps it: no descriptor is open, the
 * root is the first one, all capabilities are there. Returns its number. -ENOSYS: a kernel without
 * an MMU. Blocks.
 */
int ob_kernel_process_new(void);

/*
 * Makes a task as clone(2) does, by a thread of a process of its own. `flags`: the signal for the
 * parent's end, and CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, PARENT, IO or NEW*; 0 with
 * SIGCHLD is a fork. Returns its number as the caller sees it; stores the number for
 * ob_kernel_process_claim(). -EOPNOTSUPP: the caller is of no such process; -EINVAL; Linux's error.
 * Blocks.
 */
int ob_kernel_process_clone(uint64_t flags, uint32_t *number);

/*
 * Makes the calling thread that task's. -EBUSY: the thread has a task (ob_kernel_process_leave());
 * -ESRCH: no task of this number waits for a thread. -ENODEV. Blocks.
 */
int ob_kernel_process_claim(uint32_t number);

/*
 * Does what execve(2) does, by a thread of a process of its own: descriptors close on exec,
 * handlers are reset, other threads end, the name changes. The caller goes on. Errors as of
 * ob_kernel_process_clone(). Blocks.
 */
int ob_kernel_process_exec(const char *name);

/*
 * The calling thread's task exits, if it has one, and the thread has none: its next call adopts it
 * as any other thread. 0 or -ENODEV, -EDEADLK (in a signal handler that interrupted a call).
 * Blocks.
 */
int ob_kernel_process_leave(void);

/*
 * Starts a program: an unmodified binary in the kernel's tree, in a space of its own
 * (hypercall_spaces.h). It is a child of the caller's process, which waits for it as for any. It
 * gets the caller's descriptors 0 to 2, root, directory and credentials, and a session of its own.
 * The lists end with NULL; NULL is an empty list, and a program without arguments gets its path as
 * its name. Returns its number, once the program is loaded.
 * -ENOSYS: the host has no spaces, or the kernel no MMU; -ENOEXEC: it is no program of this
 * machine; -E2BIG: 2 MB of strings; -EFAULT; Linux's error. Blocks.
 */
int ob_kernel_program_start(const char *path, const char *const *arguments,
			    const char *const *environment);

#endif
