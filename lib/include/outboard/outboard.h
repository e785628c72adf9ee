/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * liboutboard: Linux kernel code as a library. The C API of local clients.
 *
 * A program boots a kernel, adds disks, and makes Linux system calls. It can have several kernels:
 * see "Instances" below. Any thread may call at any time: a thread that calls for the first time
 * becomes a thread of the one Linux process that this program is inside the kernel, and leaves it
 * when it ends. System calls have Linux's x86-64 numbers, and structures the layout that this
 * host's C library uses for them.
 */
#ifndef OUTBOARD_OUTBOARD_H
#define OUTBOARD_OUTBOARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OB_LOG_DEFAULT (-1)

struct ob_config {
	size_t size;			/* sizeof(struct ob_config) */
	/* virtual CPUs, 1 to 64; 0: as many as the host's. A kernel built with SMP=n has one */
	unsigned int vcpus;
	/*
	 * Most memory that the kernel may use, in bytes: at least 16 MB, or 4 MB if it has no disks
	 * (profile base). 0: a quarter of the host's.
	 */
	uint64_t memory;
	/* added to the kernel's command line, at most 384 characters; NULL: nothing */
	const char *command_line;
	/*
	 * Kernel log lines of this level and below (0 emergency to 7 debug) go to
	 * `log`. OB_LOG_DEFAULT: what the environment's OUTBOARD_LOG says (emerg, alert, crit, err,
	 * warning, notice, info, debug, or 0 to 7); without it nothing is shown.
	 */
	int log_level;
	/*
	 * Receives one line without its newline, on any thread, possibly with a
	 * vCPU held, and possibly in a signal handler: it must not block, may call only
	 * async-signal-safe functions, and nothing of this library.
	 * NULL: lines are written to standard error.
	 */
	void (*log)(void *context, int level, const char *line, size_t length);
	void *log_context;
	/*
	 * Components (see below) that are loaded before ob_boot returns: names or aliases,
	 * separated by spaces. NULL: none.
	 */
	const char *components;
	/*
	 * A directory of snapshots: a kernel that was booted there with the same configuration, by
	 * the same program, is not booted but gone on with. If there is none, this one leaves its
	 * snapshot. The directory must exist, be the user's, and not be writable by others. NULL:
	 * no snapshots. docs/snapshots.md has all conditions. Without a snapshot the kernel boots;
	 * ob_snapshot_status() tells why.
	 */
	const char *snapshots;
	/*
	 * Receives the text of a kernel panic: what happened, then a back-trace, in lines separated
	 * by newlines. It runs on the thread that panics, possibly in a signal handler. It may call
	 * only async-signal-safe functions, and nothing of this library. It may end the process, by
	 * _exit(2) for one; when it returns, the process ends by abort(). NULL: the text is written
	 * to standard error before abort(). A program built before this member existed passes a
	 * smaller `size`, which means NULL.
	 */
	void (*panic)(void *context, const char *text, size_t length);
	void *panic_context;
	/*
	 * The kernel image: a file, as the build leaves it in outboard-kernel. NULL: the one that
	 * is part of the library. It must be of the same release as the library; its components are
	 * those that OUTBOARD_COMPONENTS names, or the library's. Absent in programs built before
	 * this member existed.
	 */
	const char *kernel;
	/*
	 * 1: a panic ends this kernel, not the process. `panic` is called, or the text is written
	 * to standard error; then calls of this kernel fail with -ENODEV. Threads that are in a
	 * call then stay there for ever, as after a power cut of their machine. The instance cannot
	 * be used again and is not freed. A panic during ob_boot ends the process all the same. 0:
	 * as described at `panic`. Absent in programs built before this member existed.
	 */
	int contain_panic;
};

/*
 * For programs that shut themselves in before ob_boot (seccomp, capabilities): asks the host now
 * for what a kernel may want of it later, a file of huge pages for its memory. Without this call
 * the kernel asks when it grows; where the host refuses, it does without. Once, by any thread;
 * blocks for some tenths of a millisecond.
 */
void ob_prepare(void);

/*
 * Boots the kernel. NULL: defaults for everything. After ob_halt it can boot again; a child of
 * fork() has no kernel, and can boot one. Returns 0, or -EALREADY (it runs), -EBUSY (the kernel
 * before has panicked, or threads have not left it after ob_halt), -EINVAL (what is wrong is in
 * ob_boot_error()), -ENOMEM, -EAGAIN, -ENOENT (no such component: it can be called again), or why a
 * component cannot be loaded.
 */
int ob_boot(const struct ob_config *config);

/* One line saying why the last ob_boot failed, "" if it did not. Static storage. */
const char *ob_boot_error(void);

/*
 * One line saying what became of the snapshot in ob_boot: "started from ...", or "not used: ..."
 * and why. Static storage.
 */
const char *ob_snapshot_status(void);

/*
 * Closes this program's files in the kernel, unmounts, writes everything to the disks, stops and
 * returns. Calls of other threads end with -ENODEV, now and later. Returns 0, -ENODEV if no kernel
 * runs, -EBUSY if something could not be unmounted (it was synced), -EIO if something could not be
 * written. The kernel goes on after -EDEADLK (a signal handler has interrupted a call), -EAGAIN and
 * -ENOMEM (no thread or memory for the halt).
 */
int ob_halt(void);

/*
 * One system call: up to six arguments follow the number (OB_SYS_* of <outboard/syscall.h>, which
 * are the host's own SYS_*). Returns what the kernel returns: -errno for an error. -ENODEV when no
 * kernel runs and in a child of fork().
 */
long ob_syscall(long number, ...);

/*
 * Ends a call of another thread of this program early: the one that is blocked in the kernel, or
 * else the next one that would block, fails with EINTR, as if a signal had come. What has been read
 * or written is not lost: such a call returns how much it was, and the next one fails. `thread` is
 * what ob_sys_gettid() returned there; 0 is the calling thread, for signal handlers that shall end
 * the call that they interrupted. Does not block and is async-signal-safe. Returns 0, also for
 * threads that do not exist; -ESRCH: a negative number, or 0 on a thread that has never called and
 * did not boot; -EAGAIN: too many at once; -ENODEV: no kernel runs.
 */
int ob_interrupt(int thread);

#define OB_DISK_READ_ONLY 1u	/* the file's bytes do not change, whatever is mounted how */
#define OB_DISK_NO_LOCK 2u	/* do not lock the file against a second user, QEMU for one */

/*
 * What a disk does that the program itself serves. Every function returns 0 or -errno. They are
 * called by worker threads of the library, up to 16 at once, in any order, and may block as long as
 * they like: what waits is the request, and with 16 of them at once also those of other disks. They
 * must not call into the library. A request lies inside the disk and is a multiple of its sector
 * size; two at once never touch the same bytes unless a program inside asked for that.
 */
struct ob_disk_operations {
	size_t size;			/* sizeof(struct ob_disk_operations) */
	/*
	 * All of the pieces, which lie one after the other on the disk from `offset`. Their memory
	 * is the kernel's.
	 */
	int (*read)(void *context, uint64_t offset, const struct iovec *pieces, int count);
	int (*write)(void *context, uint64_t offset, const struct iovec *pieces, int count);
	/*
	 * What was written by calls that have returned is on stable storage after it. Not called
	 * for a read-only disk.
	 */
	int (*flush)(void *context);
	/* Contents that are of no more use; zeroes. Both or none (NULL). */
	int (*discard)(void *context, uint64_t offset, uint64_t length);
	int (*write_zeroes)(void *context, uint64_t offset, uint64_t length);
	/*
	 * The last call with this context, once for each disk that was added: it is removed, or the
	 * kernel halted. May be NULL.
	 */
	void (*closed)(void *context);
};

struct ob_disk_config {
	size_t size;			/* sizeof(struct ob_disk_config) */
	/*
	 * Regular file or block device of the host. "/dev/fd/N" is the open descriptor N, whatever
	 * it would take to open its file again: it is duplicated, and must be open for reading, and
	 * for writing if the disk is.
	 */
	const char *path;
	unsigned int flags;
	unsigned int sector_size;	/* 0: the device's own (512 for a file); 512 or 4096 */
	/*
	 * A disk that the program serves: `path` is NULL, `capacity` its size in bytes (what is
	 * more than a multiple of the sector size is cut off; one sector at least, INT64_MAX at
	 * most), and there is no lock. `write` and `flush` may be NULL with OB_DISK_READ_ONLY.
	 * NULL: the disk is what `path` names.
	 */
	const struct ob_disk_operations *operations;
	void *context;			/* for the operations */
	uint64_t capacity;
};

/*
 * Adds a disk. Its block device, partitions included, is there when this returns; `name` (may be
 * NULL) receives what it is called, as in /dev/vda. Returns the disk's number (>= 0), or -EBUSY
 * (somebody else uses the file), -EROFS (it can only be read), -EINVAL (a member of the
 * configuration is not as described above, or there is none), -ENODEV (no kernel runs), or what the
 * host said on opening.
 */
int ob_disk_add(const struct ob_disk_config *config, char name[32]);

/*
 * Locks a file as ob_disk_add does, for a program that serves a disk from it: `exclusive`: as for
 * writing. The lock ends with the last descriptor of the open file, or before with ob_file_unlock.
 * Returns 0 or -EBUSY (somebody else uses the file); a file system without locks is no error. Needs
 * no kernel.
 */
int ob_file_lock(int fd, int exclusive);
void ob_file_unlock(int fd);

/*
 * Removes a disk. -EBUSY while it is mounted or open, -ENOENT if there is none of that number,
 * -ENODEV.
 */
int ob_disk_remove(int disk);

/*
 * Components: file systems, protocols and drivers, which are modules of this kernel. Linux loads
 * what it needs by itself: mount() of an XFS image loads xfs, socket() of SCTP loads sctp. A
 * program may do it before, give parameters, or bring modules of its own.
 */

/*
 * Loads a component and what it needs. `name`: a module's name or an alias, as for modprobe;
 * `parameters`: as in "name=value other=value", or NULL. Returns 0 also if it was loaded already.
 * -ENOENT: no such component, -EINVAL: `name` is NULL, or else what Linux says;
 * ob_component_error() says it in words. Blocks.
 */
int ob_component_load(const char *name, const char *parameters);

/*
 * Loads a module of the program's own from a .ko file that was built for this kernel (make modules
 * M=DIRECTORY). -ENOEXEC: it was not; -EEXIST: one of its name is loaded; -EINVAL: `path` is NULL.
 * Blocks.
 */
int ob_component_load_file(const char *path, const char *parameters);

/* Unloads a component. -EBUSY while it is in use, -ENOENT if it is not loaded or `name` is NULL. */
int ob_component_unload(const char *name);

/* Why the calling thread's last call about components failed, in one line; "" if it did not. */
const char *ob_component_error(void);

struct ob_component_info {
	size_t size;			/* sizeof(struct ob_component_info) */
	const char *name;
	/* bytes of its file; 0 if it did not come with the library */
	uint64_t file_size;
	/* bytes that it takes in the kernel; 0 if it is not loaded */
	uint64_t memory;
	unsigned int users;		/* what it is used by */
	int loaded;
};

typedef void ob_component_function(void *context, const struct ob_component_info *info);

/*
 * Calls the function for every component that there is, sorted by name, then for the loaded ones
 * that the program brought. -ENOENT, after the latter, if none came with the library. -EINVAL: the
 * function is NULL. Also before ob_boot.
 */
int ob_component_list(ob_component_function *function, void *context);

/*
 * Instances: several kernels in one process. Each has its own memory, disks, files, log and
 * threads, and knows nothing of the others. A thread may call any of them: it is a thread of each.
 * The functions above are for the default instance, which is always there. Each of them that
 * concerns a kernel exists once more with a handle: its name ends in _on, the handle is its first
 * argument, and all else is as described above. NULL as a handle is -EINVAL.
 *
 * A call of one kernel must not come from within a call of another, but for signal handlers. Memory
 * that one kernel's mmap() has returned is no buffer for calls of another.
 */
struct ob_instance;

/*
 * Makes an instance, which boots with ob_boot_on. Returns 0, or -EAGAIN (there are 16 of them), or
 * -EINVAL (NULL). 16 instances, the default one included, can have booted at a time: ob_boot_on
 * returns -EAGAIN for more. A child of fork() has its parent's handles, without their kernels. Any
 * thread; does not block for long.
 */
int ob_instance_new(struct ob_instance **instance);

/*
 * Frees an instance whose kernel has halted, or never booted. Nobody may use the handle during this
 * call or after it. Returns 0, or -EBUSY (a kernel runs, has panicked, or threads have not left
 * it), -EINVAL (NULL, or the default instance), -ENODEV (it was freed before).
 */
int ob_instance_free(struct ob_instance *instance);

/* The handle of the default instance. */
struct ob_instance *ob_instance_default(void);

void ob_prepare_on(struct ob_instance *instance);
int ob_boot_on(struct ob_instance *instance, const struct ob_config *config);
const char *ob_boot_error_on(struct ob_instance *instance);
const char *ob_snapshot_status_on(struct ob_instance *instance);
int ob_halt_on(struct ob_instance *instance);
long ob_syscall_on(struct ob_instance *instance, long number, ...);
int ob_interrupt_on(struct ob_instance *instance, int thread);
int ob_disk_add_on(struct ob_instance *instance, const struct ob_disk_config *config,
		   char name[32]);
int ob_disk_remove_on(struct ob_instance *instance, int disk);
int ob_component_load_on(struct ob_instance *instance, const char *name, const char *parameters);
int ob_component_load_file_on(struct ob_instance *instance, const char *path,
			      const char *parameters);
int ob_component_unload_on(struct ob_instance *instance, const char *name);
int ob_component_list_on(struct ob_instance *instance, ob_component_function *function,
			 void *context);

/* "0.1.0" */
const char *ob_version(void);

/* Linux's release that this library was made from, as in "6.12.90". */
const char *ob_kernel_release(void);

/* The profile that the library was built with: "full", "base", "vfs", "net". */
const char *ob_profile(void);

/*
 * The value of a kernel configuration option, as in ob_kernel_config("CONFIG_XFS_FS"): "y", "m", a
 * number, a string, or NULL if it is not set, or if `option` is NULL.
 */
const char *ob_kernel_config(const char *option);

#ifdef __cplusplus
}
#endif
#endif
