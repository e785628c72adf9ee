/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * liboutboard: Linux kernel code as a library. The C API of local clients.
 *
 * A program boots a kernel, adds disks, and makes Linux system calls. It can have several kernels:
 * see "Instances" below. Any thread may call at any time: a thread that calls for the first time
 * becomes a thread of the one Linux process that this program is inside the kernel, and leaves it
 * when it ends. System calls have Linux's x86-64 numbers, and structures the layout that this
 * host's C library uses for them.
 *
 * The rules for names, errors, memory and callbacks are those of all headers: docs/c-api.md. A
 * function that returns int returns 0 or a number, or -errno. The text of the calling thread's last
 * failure about disks is that of ob_disk_error(), and so for the other families of functions.
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
	/* virtual CPUs, 1 to 64; 0: as many as the host has; 1 in a kernel built with SMP=n */
	uint32_t vcpus;
	/*
	 * Most memory that the kernel may use, in bytes: at least 16 MB, or 4 MB without disks
	 * (profile base). 0: ob_memory_default().
	 */
	uint64_t memory;
	/* added to the kernel's command line, at most 768 characters; NULL: nothing */
	const char *command_line;
	/*
	 * Kernel log lines of this level and below (0 emergency to 7 debug) go to `log`.
	 * OB_LOG_DEFAULT: the level in the environment's OUTBOARD_LOG (emerg, alert, crit, err,
	 * warning, notice, info, debug, or 0 to 7); without that variable there is no log.
	 */
	int log_level;
	/*
	 * Receives one line without its newline, on any thread, possibly with a vCPU held or in a
	 * signal handler. It must not block. It may call only async-signal-safe functions, and
	 * nothing of this library but ob_log_to_stderr. NULL: that function.
	 */
	void (*log)(void *context, int level, const char *line, size_t length);
	void *log_context;
	/*
	 * Components (see below) to load before ob_boot returns: names or aliases, separated by
	 * spaces. NULL: none.
	 */
	const char *components;
	/*
	 * A directory of snapshots. If it has a snapshot of the same program with the same
	 * configuration, the kernel starts from that. If not, the kernel boots and saves one. The
	 * directory must exist, be the user's, and not be writable by others. NULL: no snapshots.
	 * docs/snapshots.md has all conditions. Without a snapshot the kernel boots, and
	 * ob_snapshot_status() has the reason.
	 */
	const char *snapshots;
	/*
	 * Receives the text of a kernel panic: the reason, then a back-trace, in lines separated by
	 * newlines. It runs on the thread that panics, possibly in a signal handler. It may call
	 * only async-signal-safe functions, and nothing of this library. It may end the process,
	 * for example by _exit(2). When it returns, the process ends by abort(). NULL: the text
	 * goes to standard error before abort(). A program built before this member existed passes
	 * a smaller `size`, which means NULL.
	 */
	void (*panic)(void *context, const char *text, size_t length);
	void *panic_context;
	/*
	 * The file of a kernel image, as the build leaves it in outboard-kernel. NULL: the image in
	 * the library. It must have the same interface version as the library. Its components are
	 * those that OUTBOARD_COMPONENTS names, or the library's. Absent in programs built before
	 * this member existed.
	 */
	const char *kernel;
	/*
	 * OB_SHARED_MEMORY, OB_CONTAIN_PANIC. Absent in programs built before this member existed.
	 */
	uint32_t flags;
	/*
	 * Interfaces that a snapshot has in advance, at most 32: eth0, eth1 and so on, down. A
	 * hub's port without a given MTU takes the first one that is left, and is ready sooner.
	 * Loads the component virtio_net. Settings that interfaces inherit belong into
	 * `command_line`: "sysctl.net.ipv6.conf.default.accept_dad=0". 0: none. Without a snapshot
	 * there are none. Absent in programs built before this member existed.
	 */
	uint32_t spare_interfaces;
};

/*
 * Other processes may map the kernel's memory, as interfaces of the kind vhost-user need it
 * (docs/net.md). Such a kernel uses no snapshot, and returns no memory to the host until it halts.
 */
#define OB_SHARED_MEMORY 1u
/*
 * A panic ends this kernel, not the process. `panic` gets the text, or standard error does. Then
 * calls of this kernel fail with -ENODEV. Threads that are in a call stay there for ever, also in
 * ob_halt. The instance cannot be used again and is not freed. A panic during ob_boot ends the
 * process all the same.
 */
#define OB_CONTAIN_PANIC 2u

/*
 * Writes a line of the log to standard error, for `log` above. Does not wait for a reader: a line
 * that a full pipe or a stopped terminal does not take is lost, and counted. The next line that is
 * written comes after one that has the number. No SIGPIPE ends the program.
 */
void ob_log_to_stderr(void *context, int level, const char *line, size_t length);

/*
 * The memory in bytes that ob_boot gives a kernel by default: a quarter of the host's, or at most
 * half of what the memory limits of the process's cgroups leave, if that is less. Never less than
 * 64 MB, or 16 MB because of cgroups.
 */
uint64_t ob_memory_default(void);

/*
 * For programs that sandbox themselves before ob_boot (seccomp, capabilities). Asks the host now
 * for a file of huge pages, which a kernel may need later for its memory. Without this call the
 * kernel asks when it grows. If the host refuses, the kernel uses small pages. Also looks at the
 * memory limits of cgroups, for ob_memory_default. Call it once, on any thread. Takes some tenths
 * of a millisecond.
 */
void ob_prepare(void);

/*
 * The same for programs that will call ob_spawn: the host may let a sandboxed process make no
 * processes. Starts the one that makes them. It ends with the kernel, or with this process. Takes
 * some milliseconds.
 */
void ob_prepare_programs(void);

/*
 * Boots the kernel. NULL: defaults for everything. After ob_halt it can boot again; a child of
 * fork() has no kernel, and can boot one. Returns 0, or -EALREADY (a kernel runs), -EBUSY (the
 * kernel before has panicked, or threads have not left it after ob_halt), -EINVAL (a wrong
 * configuration), -ENOEXEC (`kernel` is no kernel image), the host's error for opening `kernel`,
 * -ENOMEM, -EAGAIN, -ENOENT (no such component: ob_boot may be called again), -ETIMEDOUT (the boot
 * did not end in five minutes; it is left behind, and -EBUSY from then on), or the error of loading
 * a component. ob_boot_error() has the reason.
 */
int ob_boot(const struct ob_config *config);

/* The reason why the last ob_boot failed, in one line; "" if it did not. Static storage. */
const char *ob_boot_error(void);

/*
 * The fate of the snapshot in ob_boot, in one line: "started from ...", or "not used: ..." with the
 * reason. Static storage.
 */
const char *ob_snapshot_status(void);

/*
 * Closes this program's files in the kernel, unmounts, writes everything to the disks and stops.
 * Calls of other threads end with -ENODEV, now and later. Returns 0, -ENODEV (no kernel runs),
 * -EBUSY (a file system could not be unmounted; it was synced), -EIO (some data could not be
 * written). The kernel goes on after -EDEADLK (a signal handler has interrupted a call), -EAGAIN
 * and -ENOMEM (no thread or memory for the halt).
 */
int ob_halt(void);

/*
 * One system call: up to six arguments follow the number (OB_SYS_* of <outboard/syscall.h>, equal
 * to the host's SYS_*). Returns the kernel's result: -errno for an error. -ENODEV without a running
 * kernel, and in a child of fork().
 */
long ob_syscall(long number, ...);

/*
 * Ends a call of another thread of this program early. The thread's blocked call, or else its next
 * one that would block, fails with EINTR, as if by a signal. Data that were read or written are not
 * lost: such a call returns their number, and the next one fails. `thread` is the result of
 * ob_sys_gettid() there. 0 is the calling thread, for signal handlers that end the call that they
 * interrupted. Does not block and is async-signal-safe. Returns 0, also for threads that do not
 * exist; -ESRCH (a negative number, or 0 on a thread that has never called and did not boot);
 * -EAGAIN (too many at once); -ENODEV (no kernel runs).
 */
int ob_interrupt(int thread);

/*
 * As ob_interrupt(), and ends also waits that only a fatal signal ends: those for servers of 9p,
 * NFS and SMB, and for pages of a disk. The thread goes on. Only the call under way, or the next
 * one, ends in such a wait. So repeat this, every 50 ms for instance, until the call has returned:
 * the client of 9p first asks its server to drop the request, and waits for that until the second
 * time. Nothing ends a wait in the middle of a change to a disk. For a thread of a process of its
 * own (see below) it is ob_interrupt(): a signal can kill that process.
 */
int ob_abort_call(int thread);

/*
 * Processes of their own, for threads that act for others: a server's for its clients. All threads
 * that simply call are threads of one process. A process of its own has its own descriptors, root,
 * credentials, signals and children, and ends alone. kill, wait4, exit and exit_group act on it as
 * in Linux, also while its threads are out in the program's code. It can map no memory (ENOMEM).
 *
 * Its tasks are made first. A thread that has made no call yet, or has left, then claims one by its
 * number, and is its thread until one of the two ends. When the task has ended, calls of its thread
 * fail with -ESRCH, until the thread claims another task or leaves. exit and exit_group return 0.
 * All calls return -ENODEV if no kernel runs.
 */

/*
 * Makes a process with one task: no descriptors, the first root, all capabilities. Its parent is
 * process 1, which reaps it. Returns its number (> 0), or -EAGAIN, -ENOMEM, -ENOSYS (a kernel
 * without an MMU). Blocks for a moment.
 */
int ob_process_new(void);

/*
 * By a thread of a process of its own: copies the calling task as clone(2) does. `flags`: the
 * signal for the parent when the copy ends, as SIGCHLD, with any of CLONE_VM, FS, FILES, SIGHAND,
 * THREAD, SYSVSEM, PARENT, IO and NEW*; SIGCHLD alone is fork(2). Returns the copy's number as the
 * caller sees it. `number` (may be NULL) receives the one for ob_process_claim, which differs in
 * another PID namespace. -EOPNOTSUPP: the caller is an ordinary client; -EINVAL, or Linux's error.
 */
int ob_process_clone(unsigned long flags, int *number);

/*
 * The calling thread becomes that task's. Returns 0; -EBUSY (the thread has a task: see
 * ob_process_leave), -ESRCH (no such task waits for a thread).
 */
int ob_process_claim(int number);

/*
 * By a thread of a process of its own: what execve(2) does, without a program. Descriptors with
 * FD_CLOEXEC close, handlers are reset, its other threads end, it is called `name`. Returns 0,
 * -EOPNOTSUPP or Linux's error.
 */
int ob_process_exec(const char *name);

/*
 * Ends the calling thread's task. Its next call makes it an ordinary client. Returns 0; -EDEADLK in
 * a signal handler that has interrupted a call.
 */
int ob_process_leave(void);

/*
 * Starts a program: an unmodified x86-64 binary or script of the kernel's tree, as a process of the
 * kernel with memory of its own. It is a child of the caller's process there: wait for it with
 * ob_sys_wait4. It gets the caller's descriptors 0 to 2, root, working directory and credentials,
 * and a session of its own. `arguments` begins with the program's name; both lists end with NULL,
 * and NULL is an empty list. Returns the number of its process once the program is loaded; or
 * -ENOSYS (this host cannot run programs), -ENOEXEC (no program of this machine), -E2BIG (2 MB of
 * strings), -EFAULT, or Linux's error. A halt kills programs.
 */
int ob_spawn(const char *path, const char *const arguments[], const char *const environment[]);

#define OB_DISK_READ_ONLY 1u	/* the bytes of the file never change */
#define OB_DISK_NO_LOCK 2u	/* do not lock the file against a second user, such as QEMU */

/*
 * The functions of a disk that the program itself serves. Each returns 0 or -errno. Up to 16 worker
 * threads of the library call them at once, in any order. They may block: then the request waits,
 * and with 16 blocked at once also requests of other disks. They must not call into the library. A
 * request lies inside the disk and is a multiple of its sector size. Two at once touch the same
 * bytes only if a program inside asked for that.
 */
struct ob_disk_operations {
	size_t size;			/* sizeof(struct ob_disk_operations) */
	/*
	 * Transfers all pieces, which are contiguous on the disk from `offset`. Their memory is the
	 * kernel's.
	 */
	int (*read)(void *context, uint64_t offset, const struct iovec *pieces, int count);
	int (*write)(void *context, uint64_t offset, const struct iovec *pieces, int count);
	/*
	 * Makes everything durable that completed calls have written. Not called for a read-only
	 * disk. An error means that data may be lost: all later flushes of the disk fail with it,
	 * without a call.
	 */
	int (*flush)(void *context);
	/*
	 * Drops contents; writes zeroes, which need no room. Both functions or none (NULL). `write`
	 * gets zeroes that are to keep their room.
	 */
	int (*discard)(void *context, uint64_t offset, uint64_t length);
	int (*write_zeroes)(void *context, uint64_t offset, uint64_t length);
	/*
	 * The last call with this context, once for each disk that was added, after its removal or
	 * the kernel's halt. May be NULL.
	 */
	void (*closed)(void *context);
};

struct ob_disk_config {
	size_t size;			/* sizeof(struct ob_disk_config) */
	/*
	 * A regular file or block device of the host. "/dev/fd/N" is the open descriptor N: the
	 * library duplicates it and does not open the file again. The descriptor must be open for
	 * reading, and for writing unless the disk is read-only. Locks and errors of flushes belong
	 * to all copies of a descriptor: the program must not flock() or fsync() it meanwhile.
	 */
	const char *path;
	uint32_t flags;
	uint32_t sector_size;		/* 0: the device's own (512 for a file); 512 or 4096 */
	/*
	 * For a disk that the program serves: `path` is NULL, and `capacity` is its size in bytes,
	 * cut to a multiple of the sector size (at least one sector, at most INT64_MAX). There is
	 * no lock. `write` and `flush` may be NULL with OB_DISK_READ_ONLY. NULL: `path` names the
	 * disk.
	 */
	const struct ob_disk_operations *operations;
	void *context;			/* for the operations */
	uint64_t capacity;
};

/*
 * Adds a disk. Its block device and partitions exist when this returns. `name` (may be NULL)
 * receives the device's name, as in /dev/vda. Returns the disk's number (>= 0), or -EBUSY (the file
 * is in use, also by this program), -EROFS (the file can only be read), -EFBIG (the file is larger
 * than RLIMIT_FSIZE, and the disk is not read-only), -EINVAL (a wrong configuration, or none; a
 * descriptor with O_APPEND or O_DIRECT), -ENODEV (no kernel runs), or the host's error for opening
 * the file. ob_disk_error() has the reason.
 */
int ob_disk_add(const struct ob_disk_config *config, char name[32]);

/*
 * Locks a file as ob_disk_add does, for a program that serves a disk from it. `exclusive`: as for
 * writing. The lock ends with the last descriptor of the open file, or with ob_file_unlock. Returns
 * 0 or -EBUSY (the file is in use, also by this program). A file system without locks is no error.
 * Needs no kernel.
 */
int ob_file_lock(int fd, int exclusive);
void ob_file_unlock(int fd);

/*
 * Removes a disk. -EBUSY while it is mounted or open, -ENOENT if there is none of that number,
 * -ENODEV.
 */
int ob_disk_remove(int disk);

/* Why the calling thread's last call about disks failed, in one line; "" if it did not. */
const char *ob_disk_error(void);

#define OB_DIR_READ_ONLY 1u	/* nothing below the directory changes */
#define OB_DIR_KEEP_OWNERS 2u	/* owners are kept in attributes, also if the process is root */

#define OB_DIR_CACHE_AUTO 0u	/* what the kernel knows of a file holds for a second */
#define OB_DIR_CACHE_NONE 1u	/* the kernel asks before each use */
#define OB_DIR_CACHE_ALWAYS 2u	/* nobody else changes the files */

struct ob_dir_config {
	size_t size;			/* sizeof(struct ob_dir_config) */
	const char *path;		/* a directory of the host, or a regular file */
	const char *tag;		/* by which the kernel mounts it: 1 to 36 bytes */
	uint32_t flags;
	uint32_t cache;
};

/*
 * Shows a directory of the host to the kernel, for mount(TAG, place, "virtiofs", 0, NULL). Of a
 * regular file the kernel sees a directory with this one name. The directory is opened now; later
 * changes of its path do not matter. Returns the number of the directory (>= 0), or -EEXIST (the
 * kernel has a directory of that tag), -EINVAL (a wrong configuration, or none), -ENODEV (no kernel
 * runs), -ENOTDIR (neither a directory nor a regular file), or the host's error for opening it.
 * ob_dir_error() has the reason. docs/c-api.md says what becomes of owners.
 */
int ob_dir_add(const struct ob_dir_config *config);

/* Removes a directory. -EBUSY while it is mounted, -ENOENT if there is none of that number. */
int ob_dir_remove(int dir);

/* Why the calling thread's last call about directories failed, in one line; "" if it did not. */
const char *ob_dir_error(void);

/*
 * Components: file systems, protocols and drivers, which are modules of this kernel. Linux loads
 * what it needs by itself: mount() of an XFS image loads xfs, socket() of SCTP loads sctp. A
 * program may load them earlier, give parameters, or bring modules of its own.
 */

/*
 * Loads a component and what it needs. `name`: a module's name or an alias, as for modprobe;
 * `parameters`: as in "name=value other=value", or NULL. Returns 0 also if the component is loaded
 * already. -ENOENT: no such component; -EINVAL: `name` is NULL; else Linux's error.
 * ob_component_error() has the reason. Blocks.
 */
int ob_component_load(const char *name, const char *parameters);

/*
 * Loads a module of the program's own from a .ko file that was built for this kernel (make modules
 * M=DIRECTORY). -ENOEXEC: the file was not; -EEXIST: a module of that name is loaded; -EINVAL:
 * `path` is NULL. Blocks.
 */
int ob_component_load_file(const char *path, const char *parameters);

/* Unloads a component. -EBUSY while it is in use, -ENOENT if it is not loaded or `name` is NULL. */
int ob_component_unload(const char *name);

/* Why the calling thread's last call about components failed, in one line; "" if it did not. */
const char *ob_component_error(void);

struct ob_component_info {
	size_t size;			/* sizeof(struct ob_component_info) */
	const char *name;
	/* bytes of it in the archive, compressed; 0 if it did not come with the library */
	uint64_t file_size;
	/* bytes in the kernel; 0 if it is not loaded */
	uint64_t memory;
	uint32_t users;			/* number of users */
	uint32_t is_loaded;		/* 1: it is loaded */
};

/* Called for each component. It is valid only during the call. 0: go on; another value ends. */
typedef int ob_component_info_function(void *context, const struct ob_component_info *info);

/*
 * Calls the function for every component, sorted by name, then for loaded modules that the program
 * brought. Returns 0, or the other value by which the function has ended the list. -ENOENT, after
 * these calls: no components came with the library. -EINVAL: the function is NULL. Works before
 * ob_boot, too.
 */
int ob_component_list(ob_component_info_function *function, void *context);

/*
 * Instances: several kernels in one process. Each has its own memory, disks, files, log and
 * threads, and knows nothing of the others. A thread may call any of them: it is a thread of each.
 * The functions above use the default instance, which always exists. Each function that concerns a
 * kernel has a variant with a handle: its name ends in _on, the handle is its first argument, and
 * everything else is the same. NULL as a handle is -EINVAL.
 *
 * A call of one kernel must not come from within a call of another, except from signal handlers.
 * Memory from one kernel's mmap() is no buffer for calls of another.
 */
struct ob_instance;

/*
 * Makes an instance, which boots with ob_boot_on. Returns 0, or -EAGAIN (there are 16 besides the
 * default one), or -EINVAL (NULL). 16 instances, the default one included, can have booted at a
 * time: ob_boot_on returns -EAGAIN for more. A child of fork() has its parent's handles, without
 * their kernels. Any thread; does not block for long.
 */
int ob_instance_new(struct ob_instance **instance);

/*
 * Frees an instance whose kernel has halted, or never booted. No thread may use the handle during
 * this call or after it. Returns 0, or -EBUSY (a kernel runs, has panicked, or threads have not
 * left it), -EINVAL (NULL, or the default instance), -ENODEV (it was freed before).
 */
int ob_instance_free(struct ob_instance *instance);

/* The handle of the default instance. */
struct ob_instance *ob_instance_default(void);

/*
 * From now on, each halt of a kernel of this process first calls the function, on the thread that
 * halts, while the kernel still takes calls. For libraries whose threads make calls of kernels that
 * others halt. Children of fork() inherit it. There is no way to remove it. Returns 0, -EINVAL
 * (NULL), or -EAGAIN (there are 8 already).
 */
int ob_halt_hook_add(void (*function)(void *context, struct ob_instance *instance), void *context);

void ob_prepare_on(struct ob_instance *instance);
void ob_prepare_programs_on(struct ob_instance *instance);
int ob_boot_on(struct ob_instance *instance, const struct ob_config *config);
const char *ob_boot_error_on(struct ob_instance *instance);
const char *ob_snapshot_status_on(struct ob_instance *instance);
int ob_halt_on(struct ob_instance *instance);
long ob_syscall_on(struct ob_instance *instance, long number, ...);
int ob_interrupt_on(struct ob_instance *instance, int thread);
int ob_abort_call_on(struct ob_instance *instance, int thread);
int ob_process_new_on(struct ob_instance *instance);
int ob_process_clone_on(struct ob_instance *instance, unsigned long flags, int *number);
int ob_process_claim_on(struct ob_instance *instance, int number);
int ob_process_exec_on(struct ob_instance *instance, const char *name);
int ob_process_leave_on(struct ob_instance *instance);
int ob_spawn_on(struct ob_instance *instance, const char *path, const char *const arguments[],
		const char *const environment[]);
int ob_disk_add_on(struct ob_instance *instance, const struct ob_disk_config *config,
		   char name[32]);
int ob_disk_remove_on(struct ob_instance *instance, int disk);
int ob_dir_add_on(struct ob_instance *instance, const struct ob_dir_config *config);
int ob_dir_remove_on(struct ob_instance *instance, int dir);
int ob_component_load_on(struct ob_instance *instance, const char *name, const char *parameters);
int ob_component_load_file_on(struct ob_instance *instance, const char *path,
			      const char *parameters);
int ob_component_unload_on(struct ob_instance *instance, const char *name);
int ob_component_list_on(struct ob_instance *instance, ob_component_info_function *function,
			 void *context);

/* "0.1.0" */
const char *ob_version(void);

/* Linux's release, as in "6.12.90". */
const char *ob_kernel_release(void);

/* The profile of the build: "full", "base", "vfs", "net". */
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
