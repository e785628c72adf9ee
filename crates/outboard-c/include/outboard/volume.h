/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * liboutboard-volume: files of disk images by their paths. The library opens what the program
 * `outboard` opens, by the same names: "laptop.qcow2@3@@home" is the btrfs subvolume @home in
 * partition 3, which may be encrypted. docs/volume-api.md has a table of tasks.
 *
 * The rules for names, errors, memory and callbacks are those of all headers: docs/c-api.md.
 *
 * Results. A function that returns int returns 0, or a negative OB_VOLUME_* for an error. A
 * function that returns int64_t returns a count, or such an error. The functions of "Errors" below
 * then have the text, the errno and the lines of the kernel's log.
 *
 * Threads. Any thread may call any function at any time, also several threads with one handle.
 * Functions may block for as long as the host's disk does, except where a comment says otherwise.
 * A thread needs 64 KB of free stack.
 *
 * Handles. A handle that was closed is never dereferenced and never used again for another object:
 * calls with it fail with OB_VOLUME_CLOSED. So do calls in a child of fork() with handles of the
 * parent. The child can open volumes of its own. NULL is OB_VOLUME_USAGE.
 *
 * Paths are bytes without encoding, and relative to the root of the volume. No symbolic link and no
 * ".." leads out of the volume. Every function follows symbolic links, except in the last name of a
 * path where a comment says so.
 *
 * Memory. Functions do not keep pointers of the caller, except where a comment says so. Memory
 * that a function returns by a pointer to a pointer is the caller's: release it with
 * ob_volume_memory_free(). On an error such a pointer is NULL. A struct of results that has memory
 * has a function of its own that releases all of it.
 *
 * The process. The library sets no signal handlers but those of liboutboard (docs/c-api.md),
 * changes neither umask nor working directory, prints nothing, and asks nothing on the terminal.
 * It does not sandbox the process: docs/volume-api.md says what that means for images from
 * strangers.
 */
#ifndef OUTBOARD_VOLUME_H
#define OUTBOARD_VOLUME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ob_volume;		/* a file system of an image, open */
struct ob_volume_file;		/* a file in it, open */
struct ob_volume_disk;		/* an image, open, for several of its volumes */
struct ob_volume_cancel;	/* ends calls of other threads */

/*
 * Errors
 */

enum ob_volume_error {
	OB_VOLUME_OK = 0,
	OB_VOLUME_OTHER = -1,
	OB_VOLUME_NOT_FOUND = -2,	/* no such image, partition, volume or file */
	OB_VOLUME_PERMISSION_DENIED = -3,
	OB_VOLUME_ALREADY_EXISTS = -4,
	OB_VOLUME_NOT_A_FILE_SYSTEM = -5,
	OB_VOLUME_AMBIGUOUS = -6,	/* the name fits several volumes; the message lists them */
	OB_VOLUME_LOCKED = -7,		/* another process or handle uses the image */
	OB_VOLUME_IN_USE = -8,
	OB_VOLUME_KEY_NEEDED = -9,	/* it is encrypted, and no key was given */
	OB_VOLUME_WRONG_KEY = -10,
	OB_VOLUME_DAMAGED = -11,
	OB_VOLUME_INCOMPLETE = -12,	/* a disk of an array or a group is missing */
	OB_VOLUME_READ_ONLY = -13,
	OB_VOLUME_NO_SPACE = -14,
	OB_VOLUME_UNSUPPORTED = -15,
	OB_VOLUME_USAGE = -16,		/* the call makes no sense; the message has the reason */
	OB_VOLUME_INTERRUPTED = -17,	/* it was cancelled */
	OB_VOLUME_CLOSED = -18,		/* the handle was closed, or is the parent process's */
	OB_VOLUME_CRASHED = -19,	/* the kernel panicked; see OB_VOLUME_CONTAIN_PANIC */
	OB_VOLUME_INTERNAL = -20,	/* a mistake in this library: please report the message */
	OB_VOLUME_UNREACHABLE = -21,	/* a server does not answer, or has closed the connection */
	OB_VOLUME_TIMED_OUT = -22	/* the deadline of ob_volume_limit() has passed */
};

/*
 * About the calling thread's last call that failed. The text says what failed, on which thing, why
 * and what to do; lines are separated by newlines. `errno` is Linux's number of the system call
 * that failed, or 0. The kernel's log has its lines about the failure, or "". The strings stay
 * valid until the thread's next call that fails. These functions do not block.
 */
const char *ob_volume_error(void);
int ob_volume_errno(void);
const char *ob_volume_error_kernel_log(void);

/* A name of an error for logs and protocols: "wrong-key"; "ok" for 0. Static storage. */
const char *ob_volume_error_name(int error);

/*
 * Releases memory that a function stored at a pointer to a pointer; no handle, and no struct. NULL
 * is allowed. Does not block.
 */
void ob_volume_memory_free(void *memory);

/*
 * Volumes
 */

#define OB_VOLUME_WRITABLE 1u		/* also for writing; else no byte of an image changes */
#define OB_VOLUME_RAW 2u		/* images are raw disks, whatever they look like */
/*
 * A panic of the volume's kernel ends this volume, not the process. Calls then fail with
 * OB_VOLUME_CRASHED, and threads that are in a call stay there for ever. The image stays locked
 * until the process ends, also after ob_volume_close.
 */
#define OB_VOLUME_CONTAIN_PANIC 4u

/* All members but `size` may be 0 or NULL. Lists of strings end with NULL. */
struct ob_volume_options {
	size_t size;			/* sizeof(struct ob_volume_options) */
	uint32_t flags;			/* OB_VOLUME_WRITABLE, ... */
	uint32_t vcpus;			/* virtual CPUs of the kernel, 1 to 64; 0: at most 4 */
	uint64_t memory;		/* most bytes for the kernel; 0: at most 2 GiB */
	/* its contents, up to the last byte, are the key; its first line is the password for SMB */
	const char *key_file;
	const void *key;		/* the key or password itself, where there is no file */
	size_t key_length;		/* bytes of `key`; not 0 if `key` is not NULL */
	const char *type;		/* of the file system, as in "ext4"; NULL: a probe */
	const char *const *disks;	/* further disks of the machine, for RAID and LVM */
	const char *const *backing;	/* files elsewhere that a qcow2 may be based on */
	const char *const *components;	/* .ko files that the kernel loads first */
	const char *verity_root_hash;	/* of dm-verity, in hexadecimal digits */
	/* where the hash tree begins, in bytes; 0: a search finds it */
	uint64_t verity_offset;
	const char *integrity;		/* algorithm of dm-integrity's tags; NULL: crc32c */
	/* a directory of kernel snapshots, the user's alone; NULL: the kernel boots */
	const char *snapshots;
	/* how the kernel reaches servers, as for ob_net_add(): "host", ...; NULL: "user" */
	const char *network;
	uint64_t server_timeout;	/* seconds for an answer of a server; 0: 30 */
};

/*
 * Opens a volume by a name of the program's grammar: IMAGE[@PARTITION][@VOLUME...]. `options` may
 * be NULL. Boots a kernel in this process, or starts one from a snapshot. A process can have
 * 16 volumes open at a time, less those kernels that it boots by <outboard/outboard.h>; the next
 * open fails with OB_VOLUME_OTHER. The image is locked until the volume is closed: shared for
 * reading, else exclusive.
 *
 * A name such as nfs://server/export, smb://user@server/share, 9p://server/tree or
 * nbd://server/disk[@PARTITION]... means what a server has. No other kernel's use of it is noticed.
 * OB_VOLUME_UNREACHABLE: the server cannot be reached, or has not answered in time; after that, a
 * volume may have to be opened again.
 */
int ob_volume_open(const char *name, const struct ob_volume_options *options,
		   struct ob_volume **volume);

/*
 * Closes the volume and all of its files that are open. Waits for calls of other threads with this
 * volume; cancel those first. Writes everything to stable storage, unmounts, and halts the kernel.
 * The message has every error since the open by which something may be missing in the image, also
 * that the image was removed meanwhile (OB_VOLUME_NOT_FOUND). The handle is closed in any case,
 * unless the result is OB_VOLUME_USAGE: a callback must not close a volume. After a contained panic
 * this call waits for no thread. A process that ends without this call leaves its images as a power
 * cut would.
 */
int ob_volume_close(struct ob_volume *volume);

/* Writes everything that was written to stable storage. */
int ob_volume_sync(struct ob_volume *volume);

/*
 * Notes and warnings since the open, one per line: a journal that could not be replayed, a feature
 * that is ignored. `text` is "" if there are none.
 */
int ob_volume_warnings(struct ob_volume *volume, char **text);

/* The last lines of the volume's kernel's log of level warning and worse. */
int ob_volume_kernel_log(struct ob_volume *volume, char **text);

/* The type of the file system, as in "ext4". */
int ob_volume_type(struct ob_volume *volume, char **type);

/*
 * Disks: several volumes of one image
 */

/*
 * Opens an image once. `name` is that of its file. `options` may be NULL; keys and the type are
 * those of all its volumes. Boots one kernel for all of them. The image is locked until the disk
 * and all of its volumes are closed: shared for reading; with OB_VOLUME_WRITABLE exclusive.
 */
int ob_volume_disk_open(const char *name, const struct ob_volume_options *options,
			struct ob_volume_disk **disk);

/*
 * Closes the disk. Waits for calls of other threads with this handle. Writes everything to stable
 * storage. If volumes of the disk are still open, the result is OB_VOLUME_IN_USE and the message
 * names them: they go on, and the ob_volume_close of the last one halts the kernel. Else this call
 * halts it. The handle is closed in any case, unless the result is OB_VOLUME_USAGE: a callback must
 * not close a disk.
 */
int ob_volume_disk_close(struct ob_volume_disk *disk);

/* The format of the image, as in "qcow2" or "raw". */
int ob_volume_disk_format(struct ob_volume_disk *disk, char **format);

/* The size of the disk in the image, in bytes. */
int64_t ob_volume_disk_length(struct ob_volume_disk *disk);

/*
 * Bytes of a logical sector: those that the partition table counts, else those of the disk. 512 or
 * 4096 on most disks.
 */
int64_t ob_volume_disk_sector_size(struct ob_volume_disk *disk);

/*
 * The files that a qcow2 image is based on, each with a byte 0 after it: the one that the image
 * names first. `length` is the number of bytes of all.
 */
int ob_volume_disk_backing(struct ob_volume_disk *disk, char **paths, size_t *length);

/* A partition or volume. All of it is valid only during the callback. */
struct ob_volume_info {
	size_t size;			/* sizeof(struct ob_volume_info), set by the library */
	const char *name;		/* for ob_volume_disk_volume: "2", "vg0/root", "3@@home" */
	const char *sort;		/* in words: "partition", "logical volume", "subvolume" */
	const char *type;		/* of what is in it, as in "ext4"; NULL: unknown */
	const char *label;		/* NULL: none */
	const char *uuid;		/* NULL: none */
	const char *problem;		/* why it, or what is in it, cannot be used; or NULL */
	uint64_t length;		/* bytes; 0 for a subvolume */
	uint32_t is_file_system;	/* 1: what is in it is a file system */
	uint32_t is_locked;		/* 1: it needs a key that the options do not have */
};

/*
 * Called for each volume, on the thread that called ob_volume_disk_list. It may call every function
 * but ob_volume_close and ob_volume_disk_close. 0: go on; another value ends the listing.
 */
typedef int ob_volume_info_function(void *context, const struct ob_volume_info *volume);

/*
 * Lists the partitions, then the volumes in layers: logical volumes, arrays, encrypted volumes,
 * subvolumes. Opens all layers that need no key, or whose key the options have. The name of the
 * whole disk is "". The result is as that of ob_volume_list.
 */
int ob_volume_disk_list(struct ob_volume_disk *disk, ob_volume_info_function *function,
			void *context);

/*
 * Opens a volume of the disk, by what follows IMAGE@ in a name for ob_volume_open; "" is the whole
 * disk, or the only file system in it. Flags: OB_VOLUME_WRITABLE, for which the disk must have been
 * opened so. A volume that is written excludes all others with bytes of it: OB_VOLUME_LOCKED, and
 * the message names both. The volume stays open when the disk is closed.
 */
int ob_volume_disk_volume(struct ob_volume_disk *disk, const char *name, uint32_t flags,
			  struct ob_volume **volume);

/*
 * Space
 */

struct ob_volume_space {
	size_t size;			/* sizeof(struct ob_volume_space), set by the caller */
	uint64_t block_size;		/* of the file system, in bytes */
	uint64_t bytes;			/* of the file system */
	uint64_t free;			/* bytes */
	uint64_t available;		/* bytes that users other than root may use */
	uint64_t files;			/* inodes; 0 where there is no fixed number */
	uint64_t files_free;
};

int ob_volume_space(struct ob_volume *volume, struct ob_volume_space *space);

/*
 * Files and directories by their paths
 */

/* Seconds since 1970, and nanoseconds (0 to 999999999) after them: -0.5 s is { -1, 500000000 }. */
struct ob_volume_time {
	int64_t seconds;
	int64_t nanoseconds;
};

enum ob_volume_file_type {
	OB_VOLUME_TYPE_UNKNOWN = 0,
	OB_VOLUME_TYPE_REGULAR = 1,
	OB_VOLUME_TYPE_DIRECTORY = 2,
	OB_VOLUME_TYPE_SYMLINK = 3,
	OB_VOLUME_TYPE_BLOCK_DEVICE = 4,
	OB_VOLUME_TYPE_CHARACTER_DEVICE = 5,
	OB_VOLUME_TYPE_FIFO = 6,
	OB_VOLUME_TYPE_SOCKET = 7
};

struct ob_volume_stat {
	size_t size;			/* sizeof(struct ob_volume_stat), set by the caller */
	uint32_t type;			/* enum ob_volume_file_type */
	uint32_t mode;			/* permissions: the low 12 bits */
	uint64_t length;		/* bytes */
	uint64_t stored;		/* bytes that the file takes on the disk */
	uint64_t inode;
	uint64_t links;			/* number of names */
	uint64_t device;		/* Linux's dev_t of a device node, else 0 */
	uint32_t user;
	uint32_t group;
	struct ob_volume_time accessed;
	struct ob_volume_time modified;
	struct ob_volume_time changed;
};

#define OB_VOLUME_NO_FOLLOW 1u		/* a last name that is a symbolic link is not followed */
#define OB_VOLUME_PARENTS 2u		/* make missing directories on the way */
#define OB_VOLUME_RECURSIVE 4u		/* a directory with everything in it */

/* Flags: OB_VOLUME_NO_FOLLOW. */
int ob_volume_stat(struct ob_volume *volume, const char *path, uint32_t flags,
		   struct ob_volume_stat *stat);

/* A name in a directory. All of it is valid only during the callback. */
struct ob_volume_entry {
	size_t size;			/* sizeof(struct ob_volume_entry), set by the library */
	const char *path;		/* begins with the path that the caller gave */
	const char *name;		/* the last part of `path` */
	uint32_t type;			/* enum ob_volume_file_type; links are not followed */
	uint32_t depth;			/* 1: directly in the directory; 0: the directory itself */
};

/*
 * Called for each name, on the thread that called ob_volume_list. It may call every function but
 * ob_volume_close. 0: go on; another value ends the listing.
 */
typedef int ob_volume_entry_function(void *context, const struct ob_volume_entry *entry);

/*
 * Lists a directory, without "." and "..", in the order of the file system. With
 * OB_VOLUME_RECURSIVE: `path` itself and everything below it, a directory before its contents,
 * names sorted by their bytes. Does not follow symbolic links below `path`. Returns the function's
 * result if that is not 0 and not negative, OB_VOLUME_INTERRUPTED if it is negative, or 0, or an
 * error.
 */
int ob_volume_list(struct ob_volume *volume, const char *path, uint32_t flags,
		   ob_volume_entry_function *function, void *context);

/*
 * Reads a whole file. `data` gets its bytes and one byte 0 after them, `length` the number of its
 * bytes. A file of more than `most` bytes is OB_VOLUME_USAGE: an image from a stranger may claim
 * that a file has petabytes.
 */
int ob_volume_read(struct ob_volume *volume, const char *path, uint64_t most, void **data,
		   size_t *length);

/*
 * Writes a whole file: a new one with the permissions 0644, or an old one without its contents. The
 * file is incomplete after an error.
 */
int ob_volume_write(struct ob_volume *volume, const char *path, const void *data, size_t length);

/*
 * Makes a directory; `mode`: its permissions. The umask has no effect. Flags: OB_VOLUME_PARENTS,
 * with which a directory that exists is no error.
 */
int ob_volume_mkdir(struct ob_volume *volume, const char *path, uint32_t mode, uint32_t flags);

/*
 * Removes a file, a symbolic link itself, or an empty directory. With OB_VOLUME_RECURSIVE: a
 * directory with its contents. The root, and a path that ends in "." or "..", cannot be removed.
 */
int ob_volume_remove(struct ob_volume *volume, const char *path, uint32_t flags);

/* Renames a file, and replaces a file that has the new name. Symbolic links are not followed. */
int ob_volume_rename(struct ob_volume *volume, const char *from, const char *to);

/* Makes `path` another name of `target`, which is not followed if it is a symbolic link. */
int ob_volume_link(struct ob_volume *volume, const char *target, const char *path);

/* Makes a symbolic link at `path` with any text as its target. */
int ob_volume_symlink(struct ob_volume *volume, const char *target, const char *path);

/* The target of a symbolic link. */
int ob_volume_readlink(struct ob_volume *volume, const char *path, char **target);

#define OB_VOLUME_SAME 0xffffffffu	/* leaves user or group as they are */

/* Permissions: 12 bits. A last name that is a symbolic link is an error. */
int ob_volume_set_mode(struct ob_volume *volume, const char *path, uint32_t mode);
/* Owner and group; of a symbolic link, its own. */
int ob_volume_set_owner(struct ob_volume *volume, const char *path, uint32_t user,
			uint32_t group);
/* Times of access and modification; of a symbolic link, its own. */
int ob_volume_set_times(struct ob_volume *volume, const char *path,
			const struct ob_volume_time *accessed,
			const struct ob_volume_time *modified);

/*
 * Extended attributes, such as "user.comment"; of a symbolic link, its own. ob_volume_xattrs
 * returns all names, each with a byte 0 after it; `length` is the number of bytes of all.
 */
int ob_volume_xattrs(struct ob_volume *volume, const char *path, char **names, size_t *length);
int ob_volume_xattr(struct ob_volume *volume, const char *path, const char *name, void **value,
		    size_t *length);
int ob_volume_set_xattr(struct ob_volume *volume, const char *path, const char *name,
			const void *value, size_t length);
int ob_volume_remove_xattr(struct ob_volume *volume, const char *path, const char *name);

/*
 * Open files
 */

#define OB_VOLUME_READ 1u
#define OB_VOLUME_WRITE 2u
#define OB_VOLUME_CREATE 4u		/* make the file if it is missing */
#define OB_VOLUME_NEW 8u		/* fail if the file exists; with OB_VOLUME_CREATE */
#define OB_VOLUME_TRUNCATE 16u		/* drop its contents */

/* Opens a file. `mode`: permissions of a new one; the umask has no effect. */
int ob_volume_file_open(struct ob_volume *volume, const char *path, uint32_t flags, uint32_t mode,
			struct ob_volume_file **file);

/*
 * Reads or writes at an offset in bytes. A read returns fewer bytes than `length` only at the end
 * of the file. A write returns `length`, or an error: then some of the bytes may be written.
 */
int64_t ob_volume_file_read(struct ob_volume_file *file, void *buffer, size_t length,
			    uint64_t offset);
int64_t ob_volume_file_write(struct ob_volume_file *file, const void *buffer, size_t length,
			     uint64_t offset);

int ob_volume_file_stat(struct ob_volume_file *file, struct ob_volume_stat *stat);
/* Cuts the file, or makes it longer with zeroes. */
int ob_volume_file_set_length(struct ob_volume_file *file, uint64_t length);
/* Writes data and metadata of the file to stable storage. */
int ob_volume_file_sync(struct ob_volume_file *file);
int ob_volume_file_close(struct ob_volume_file *file);

/*
 * Trees: copies and archives
 */

struct ob_volume_progress {
	size_t size;			/* sizeof(struct ob_volume_progress), set by the library */
	uint64_t files;			/* complete files */
	uint64_t bytes;			/* bytes that are done */
	uint64_t total;			/* bytes of the whole; 0: not known */
};

/*
 * Called about ten times a second, on the thread that called the transfer, or ob_volume_make. It
 * may call every function but ob_volume_close. Another value than 0 cancels the call, and ends the
 * callbacks. The function must return: no longjmp(), no C++ exception may leave it. A process that
 * it forks must not return from it.
 */
typedef int ob_volume_progress_function(void *context, const struct ob_volume_progress *progress);

#define OB_VOLUME_FOLLOW 1u		/* copy what symbolic links lead to, not the links */
/* Contents alone: copies belong to the caller and have the permissions of new files. */
#define OB_VOLUME_CONTENTS 2u
#define OB_VOLUME_FORCE 4u		/* also replace host files that look like disk images */

enum ob_volume_compression {
	OB_VOLUME_PLAIN = 0,
	OB_VOLUME_GZIP = 1,
	OB_VOLUME_ZSTD = 2,
	OB_VOLUME_XZ = 3
};

/* All members but `size` may be 0 or NULL. */
struct ob_volume_transfer {
	size_t size;			/* sizeof(struct ob_volume_transfer) */
	uint32_t flags;			/* OB_VOLUME_FOLLOW, ... */
	uint32_t compression;		/* of ob_volume_tar_out: enum ob_volume_compression */
	ob_volume_progress_function *progress;
	void *progress_context;
	/*
	 * Another thread, or a signal handler, cancels the transfer when it stores a value other
	 * than 0 here. The memory must stay valid during the call.
	 */
	const volatile uint32_t *cancel;
};

struct ob_volume_summary {
	size_t size;			/* sizeof(struct ob_volume_summary), set by the caller */
	/* Complete files, and bytes that were written; also after an error. */
	uint64_t files;
	uint64_t bytes;
	char *warnings;			/* attributes that were not kept, by lines; NULL: none */
};

/*
 * Releases the memory in a summary, and stores NULL there. NULL, and a summary without memory, are
 * allowed. Does not block.
 */
int ob_volume_summary_free(struct ob_volume_summary *summary);

/*
 * Copies a file, or a directory with everything in it, with owner, permissions, times, access
 * control lists, extended attributes and hard links. `to_path` is the path of the copy itself. A
 * directory is merged into one that is there. `options` and `summary` may be NULL; then warnings
 * are dropped. A summary is filled after an error, too.
 *
 * After OB_VOLUME_INTERRUPTED and other errors complete copies stay; a new copy that is not
 * complete is removed. The message names an old file that has only a part of its new contents.
 *
 * No transfer overwrites a file of a volume that this process has open, by whatever name:
 * OB_VOLUME_IN_USE. A host file that looks like a disk image is OB_VOLUME_ALREADY_EXISTS without
 * OB_VOLUME_FORCE.
 */
int ob_volume_copy_in(const char *host_path, struct ob_volume *to, const char *to_path,
		      const struct ob_volume_transfer *options, struct ob_volume_summary *summary);
/* The copy may still be in the host's page cache: fsync() what must survive a power cut. */
int ob_volume_copy_out(struct ob_volume *from, const char *from_path, const char *host_path,
		       const struct ob_volume_transfer *options, struct ob_volume_summary *summary);
/* Between two volumes, or in one. */
int ob_volume_copy(struct ob_volume *from, const char *from_path, struct ob_volume *to,
		   const char *to_path, const struct ob_volume_transfer *options,
		   struct ob_volume_summary *summary);

/*
 * Writes the contents of a directory as a tar archive in PAX format to a descriptor of the host,
 * which stays the caller's. After OB_VOLUME_INTERRUPTED, and after an error of writing, the archive
 * has no end mark. Files that cannot be read do not end the call: the archive is complete without
 * them, with zeros in place of bytes that cannot be read, and the error names them. Nothing is
 * synced. A pipe without a reader raises SIGPIPE, as for write(2): a program that ignores SIGPIPE
 * gets an error with the errno EPIPE.
 */
int ob_volume_tar_out(struct ob_volume *from, const char *directory, int fd,
		      const struct ob_volume_transfer *options, struct ob_volume_summary *summary);

/*
 * Unpacks a tar archive from a descriptor of the host into a directory. Compression by gzip, zstd
 * and xz is found by itself. Members never get outside of the directory. After an error complete
 * members stay.
 */
int ob_volume_tar_in(int fd, struct ob_volume *to, const char *directory,
		     const struct ob_volume_transfer *options, struct ob_volume_summary *summary);

/*
 * Limits of calls
 */

/* A handle by which a thread ends calls of other threads. */
int ob_volume_cancel_new(struct ob_volume_cancel **cancel);

/*
 * Ends the calls of all threads that have set this handle by ob_volume_limit(): those that wait
 * now, and all later ones. They fail with OB_VOLUME_INTERRUPTED. For ever: make another handle for
 * later work. Does not wait for these calls. Not for signal handlers.
 */
int ob_volume_cancel_calls(struct ob_volume_cancel *cancel);

/* Frees the handle. Threads that have set it keep their limit, which no call can reach any more. */
int ob_volume_cancel_free(struct ob_volume_cancel *cancel);

/*
 * Limits the calls that this thread makes from now on, in place of the limits before.
 * `milliseconds`: a deadline from now on for all calls together, after which they fail with
 * OB_VOLUME_TIMED_OUT; 0: none. `cancel` may be NULL. ob_volume_limit(0, NULL) ends all limits of
 * the thread.
 *
 * A call that a limit has ended leaves what it leaves after another error. A file that is half
 * written by ob_volume_write() stays; transfers remove new copies that are not complete.
 * ob_volume_close(), ob_volume_file_close() and the functions of errors and memory have no limits.
 * A wait of the host's disk in the middle of a change ends by itself alone.
 */
int ob_volume_limit(uint64_t milliseconds, struct ob_volume_cancel *cancel);

/*
 * Making and changing images
 *
 * The distribution's tools do the work: mke2fs, sfdisk, e2fsck and others, in sandboxes of their
 * own. A tool that is not installed is OB_VOLUME_UNSUPPORTED; the message names its package. Tools
 * are child processes of this process, and a thread of the library waits for each: do not reap them
 * with wait(-1), and leave SIGCHLD at its default. Kernels that fill file systems run in this
 * process, and count among its 16.
 *
 * A cancel and the limits of the thread kill a tool that runs. But a tool that changes an image in
 * place would leave it half changed: the call ends when that tool does.
 *
 * The image must not be open: OB_VOLUME_LOCKED. `options` says how images are opened; it may be
 * NULL. Tools work on raw images and on partitions in them. In images of other formats and inside
 * of layers, such as LUKS, a file system can be made, but neither checked nor resized:
 * OB_VOLUME_UNSUPPORTED. In these formats a partition table can only be made with a new image.
 */

#define OB_VOLUME_REPLACE 1u		/* overwrite a file, file system or table that exists */
#define OB_VOLUME_REPRODUCIBLE 2u	/* the same call makes the same bytes */
#define OB_VOLUME_FIT 4u		/* choose a size that fits the contents */

/* All members but `size` may be 0 or NULL. */
struct ob_volume_make {
	size_t size;			/* sizeof(struct ob_volume_make) */
	uint32_t flags;			/* OB_VOLUME_REPLACE, ... */
	uint64_t length;		/* bytes; 0: all of the place, or what fits the contents */
	const char *from;		/* the contents: a directory or a tar archive of the host */
	const char *label;
	const char *uuid;		/* or the serial number of FAT */
	const char *owner;		/* of all files: "USER:GROUP", numbers or names of `from` */
	const char *file_contexts;	/* a file of SELinux labels of the host */
	const char *const *tool_options; /* further ones for the tool; ends with NULL */
	/* How much of the contents is copied. A tool that runs reports nothing of its work. */
	ob_volume_progress_function *progress;
	void *progress_context;
	/*
	 * Another thread, or a signal handler, cancels the call when it stores a value other than 0
	 * here: OB_VOLUME_INTERRUPTED.
	 */
	const volatile uint32_t *cancel;
};

/*
 * Makes a file system of a type, as in "ext4" or "squashfs", empty or with contents. `name` is a
 * new image, of the format qcow2 or vhd if it ends in .qcow2 or .vhd, or a volume of an image. The
 * result takes its place only when it is complete: an error leaves the old contents, or no file.
 * But files that cannot be copied do not end the call. All the rest is there then, and the error
 * names them. `make` may be NULL. `warnings` may be NULL; else it gets one note or warning per
 * line, or "".
 */
int ob_volume_make(const char *name, const char *type, const struct ob_volume_make *make,
		   const struct ob_volume_options *options, char **warnings);

enum ob_volume_table_type {
	OB_VOLUME_GPT = 0,
	OB_VOLUME_MBR = 1
};

struct ob_volume_table {
	size_t size;			/* sizeof(struct ob_volume_table) */
	uint32_t flags;			/* OB_VOLUME_REPLACE, OB_VOLUME_REPRODUCIBLE, or 0 */
	uint32_t type;			/* enum ob_volume_table_type */
	uint64_t length;		/* bytes of a new image; 0: the image exists */
	/* "TYPE:SIZE[,name=NAME][,boot][,uuid=UUID]" as in "linux:rest"; ends with NULL */
	const char *const *partitions;
	uint64_t sector_size;		/* 512 or 4096, which a GPT counts; 0: that of the disk */
};

/*
 * Makes a partition table, in a new image or, with OB_VOLUME_REPLACE, in one that exists. Types are
 * those of `outboard part`. Partitions without room are OB_VOLUME_NO_SPACE, before a byte is
 * written.
 */
int ob_volume_partition(const char *image, const struct ob_volume_table *table,
			const struct ob_volume_options *options);

/* Flags of ob_volume_check; without the first two it changes nothing. */
#define OB_VOLUME_REPAIR 1u		/* repair everything */
#define OB_VOLUME_REPAIR_SAFELY 2u	/* make the repairs that are safe without a question */
#define OB_VOLUME_REPLAY 4u		/* first replay the journal */

enum ob_volume_check_outcome {
	OB_VOLUME_CHECK_CLEAN = 0,
	OB_VOLUME_CHECK_CORRECTED = 1,	/* it has no errors any more */
	OB_VOLUME_CHECK_ERRORS = 2,
	OB_VOLUME_CHECK_FAILED = 3	/* the checker gave up */
};

struct ob_volume_checked {
	size_t size;			/* sizeof(struct ob_volume_checked), set by the caller */
	uint32_t outcome;		/* enum ob_volume_check_outcome */
	char *type;			/* of the file system, as in "ext4" */
	char *checker;			/* the tool, as in "e2fsck" */
	char *output;			/* all that the tool printed */
};

/*
 * Releases the memory in a result, and stores NULL there. NULL, and a result without memory, are
 * allowed. Does not block.
 */
int ob_volume_checked_free(struct ob_volume_checked *checked);

/*
 * Checks a file system by the tool of its type. Errors that it finds are no error of the call. On
 * an error the result has no memory.
 */
int ob_volume_check(const char *name, uint32_t flags, const struct ob_volume_options *options,
		    struct ob_volume_checked *checked);

#define OB_VOLUME_LEAST 0		/* as small as the contents allow */
#define OB_VOLUME_MOST UINT64_MAX	/* as large as the partition or image allows */

/*
 * Makes a file system larger or smaller, with the partition and the image that hold it. `result`
 * may be NULL; else it gets the bytes of the file system.
 */
int ob_volume_resize(const char *name, uint64_t length, const struct ob_volume_options *options,
		     uint64_t *result);

/* "0.1.0", of this library. Static storage; does not block. */
const char *ob_volume_version(void);

#ifdef __cplusplus
}
#endif
#endif
