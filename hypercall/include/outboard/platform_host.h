/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lib/ asks a host with files, processes and sockets for these things, besides platform.h: forked
 * children, threads, limits, files of images, snapshots, components, disks that the program serves,
 * network interfaces, directories, locks, the log's file. Only a platform that carries all of lib/
 * has this header's functions; those of a feature that it lacks fail. The rules of platform.h hold.
 */
#ifndef OUTBOARD_PLATFORM_HOST_H
#define OUTBOARD_PLATFORM_HOST_H

#include <outboard/platform.h>

/* ---- processes and threads ----------------------------------------------- */

/*
 * Asks the host now for what a sandboxed process may not ask for. Optional, before
 * ob_platform_start. Takes some tenths of a millisecond. The platform does without the things that
 * the host refuses.
 */
void ob_platform_prepare(struct ob_host *host);

/*
 * After that, for a kernel that will run programs: asks for what their spaces need. Takes some
 * milliseconds.
 */
void ob_platform_prepare_programs(struct ob_host *host);

/* Gives back what that call got for a boot that will not be. */
void ob_platform_prepared_drop(struct ob_host *host);

/*
 * True in a child of a fork that has run no hook of fork(), as one of _Fork() or clone(2). The
 * parent's things of the platform are of no use to it, and its calls of kernels fail.
 */
bool ob_platform_is_copy(void);

/* Does in such a child what the hook does. */
void ob_platform_forget_parent(void);

/*
 * Empties the page of the word in each child of a fork, also in one that runs no hook of fork().
 * Nothing else is on that page.
 */
void ob_platform_empty_on_fork(uint32_t *word);

/*
 * Starts a thread of the library, with the signals that the kernel's own threads get. The arguments
 * and errors are those of ob_host_thread_create().
 */
int ob_platform_thread_create(struct ob_host *host, void (*fn)(void *arg), void *arg,
			      const char *name, uint64_t *thread);

/*
 * Waits for the end of such a thread, no longer than OB_PATIENCE. False: the thread goes on, and
 * what it uses must stay.
 */
bool ob_platform_thread_join(struct ob_host *host, uint64_t thread);

/*
 * True if the kernel has halted, but a thread that did not end in time may still use its memory.
 * Then all regions stay for ever, and the handle with them.
 */
bool ob_platform_has_left_behind(const struct ob_host *host);

/* ---- limits -------------------------------------------------------------- */

/*
 * Whether other processes will map the kernel's RAM, as back-ends of vhost-user do. Then RAM is
 * pinned (OB_HOST_RAM_IS_PINNED). Before ob_kernel_boot.
 */
void ob_platform_share_memory(struct ob_host *host, bool is_shared);

/* Processors that this process may run on. */
uint32_t ob_platform_processors(void);

/* Most bytes of memory that a kernel may have: RAM is a file, and the process may have a limit. */
uint64_t ob_platform_memory_most(void);

/* Bytes of memory of the whole host. */
uint64_t ob_platform_memory_host(void);

/*
 * Bytes of memory that the limits of this process's cgroups leave it; UINT64_MAX: there are none. A
 * sandbox may hide them: then the answer is that of the last call before.
 */
uint64_t ob_platform_memory_left(void);

/*
 * Names the limits of the process that leave too little for a kernel that wants this much address
 * space. False: there is no such limit.
 */
bool ob_platform_limits_describe(uint64_t address_space, char *text, size_t size);

/* ---- files of kernel images ---------------------------------------------- */

/* As ob_platform_image_close, but the bytes stay for ever: debuggers read them. */
void ob_platform_image_keep(struct ob_platform_file *file);

/* Has ob_platform_image_open with that path given this file, and would do so again? */
bool ob_platform_image_is_same(const char *path, const struct ob_platform_file *file);

/*
 * Opens a file again whose bytes were kept, so that segments can be mapped from it. It is no error
 * if the file is gone or has changed: then segments are copies of the bytes.
 */
void ob_platform_image_reopen(const char *path, struct ob_platform_file *file);

/* ---- snapshots ---------------------------------------------------------- */

/* A snapshot depends on these things besides the host: the kernel, and its parameters. */
struct ob_platform_kernel {
	uint64_t address;		/* of the image */
	bool placed;			/* ob_platform_image_reserve found the kernel's own place */
	const unsigned char *id;	/* build id of the image */
	uint32_t id_size;		/* 0: it has none */
	const struct ob_boot_parameters *parameters;
};

/*
 * Looks in the directory for a snapshot that fits this kernel; the kernel's boot starts from the
 * snapshot or saves one. Between ob_platform_start and ob_kernel_boot. False: no snapshot is
 * possible; ob_platform_snapshot_status has the reason.
 */
bool ob_platform_snapshot_use(struct ob_host *host, const char *directory,
			      const struct ob_platform_kernel *kernel);
/* After booting. */
void ob_platform_snapshot_done(struct ob_host *host);
/* Returns the fate of the snapshot, in one line. Any threads, also at once. */
const char *ob_platform_snapshot_status(struct ob_host *host);

/* ---- components --------------------------------------------------------- */

/* The archive's components, sorted by name: `index` 0, 1, ... until -ENOENT. */
int ob_platform_component(uint32_t index, struct ob_component *component);

/* Whether a component has this name or alias. */
bool ob_platform_component_is_known(const char *name);

/* Why there is no archive, in one line; NULL if there is one. */
const char *ob_platform_components_problem(void);

/* ---- disks that the program serves -------------------------------------- */

struct ob_platform_served_disk {
	/*
	 * Carries out a READ, WRITE, FLUSH, DISCARD or WRITE_ZEROES that is inside the disk and
	 * allowed on it, without `force_unit_access`: the platform asks for a flush then. May
	 * block. Several threads call it at once. Returns 0 or -errno.
	 */
	int (*perform)(void *context, const struct ob_block_request *request);
	/* The disk is closed: the last call with this context. */
	void (*closed)(void *context);
	void *context;
	uint64_t size;			/* bytes, a multiple of the sector size */
	uint32_t sector_size;
	bool read_only;
	bool can_discard;		/* OB_BLOCK_DISCARD and OB_BLOCK_WRITE_ZEROES */
};

/*
 * Offers a served disk for one ob_host_block_open with OB_BLOCK_SERVED. The path of that call is
 * the number which this function returns, in decimal. -ENOMEM. Does not block for long. Any
 * threads, also at once.
 */
int ob_platform_disk_offer(struct ob_host *host, const struct ob_platform_served_disk *served);
/*
 * Withdraws the offer. Returns whether the disk was opened: only then `closed` is called. Any
 * threads, also at once.
 */
bool ob_platform_disk_withdraw(struct ob_host *host, int number);

/* ---- network interfaces --------------------------------------------------- */

struct ob_platform_net {
	/* "tap", "hub", "user", "vhost-user", "stream" or "pcap"; what is after the colon, or "" */
	const char *kind, *target;
	const char *forwards;		/* user: ports of the host, as in "8080:80"; NULL: none */
	const char *capture;		/* file that gets all frames, as pcapng; NULL: none */
	uint32_t mtu;			/* 0: the kind's own */
	uint32_t queues;		/* queue pairs; 0: the kind's own */
	uint8_t mac[6];
	bool has_mac;			/* else the address will be random */
};

/*
 * Offers a virtio network device for one ob_kernel_virtio_add() of its number, which this returns.
 * Stores the address in `net` if it had none. On failure, `error` has one line: the interface, what
 * the host refused, and what to do. -EINVAL: no such kind. Any threads, also at once.
 */
int ob_platform_net_open(struct ob_host *host, struct ob_platform_net *net, char *error,
			 size_t size);
/* Withdraws the offer: closes the device, unless the kernel has taken it. Blocks. */
void ob_platform_net_done(struct ob_host *host, uint32_t device);

/* Rootless NAT for a kernel in another process, with an interface "stream". It needs no kernel. */
struct ob_net_nat;

struct ob_platform_net_nat {
	const char *forwards;		/* ports of the host, as in "8080:80"; NULL: none */
	bool no_ipv6;
	bool no_host_loopback;		/* the gateway is not the host's loopback */
};

/*
 * Loads libslirp, and opens the forwarded ports. -ENOENT: libslirp is not installed. On failure,
 * `error` has one line.
 */
int ob_platform_net_nat_open(const struct ob_platform_net_nat *from, struct ob_net_nat **nat,
			     char *error, size_t size);
/*
 * Serves the kernel behind a connected stream socket. Returns when the other end was closed.
 * `gate`: -1, or a socket that brings the numbers of sockets that take connections from then on.
 */
void ob_platform_net_nat_serve(struct ob_net_nat *nat, int socket, int gate);
void ob_platform_net_nat_close(struct ob_net_nat *nat);

/* A server that offers a port of a hub to front-ends of vhost-user. It needs no kernel. */
struct ob_net_server;

struct ob_platform_net_serve {
	const char *hub;		/* the path of the hub */
	const char *socket;		/* where front-ends connect */
	uint32_t mtu;			/* 0: the hub's */
	/* Receives a line about a front-end that is refused, on a thread of the server, or NULL. */
	void (*log)(void *context, const char *line);
	void *context;
};

/*
 * Makes a server: listens, without a thread. Front-ends that connect wait. On failure, `error` has
 * one line, as above. Any threads, also at once.
 */
int ob_platform_net_serve_listen(const struct ob_platform_net_serve *from,
				 struct ob_net_server **server, char *error, size_t size);
/*
 * Serves, on a thread. Once for each server. `opener` -1: the process opens the hub and the memory
 * of its ports itself. Else a socket, of which the server has a copy: another process, which has
 * the same server, calls ob_platform_net_serve_open() with the other end. In a child that fork()
 * makes later there is no server. On failure, `error` has one line, and the server can only end.
 */
int ob_platform_net_serve_start(struct ob_net_server *server, int opener, char *error, size_t size);
/* Opens files for another process. Blocks until that process closes its end. Any threads. */
void ob_platform_net_serve_open(const struct ob_net_server *server, int socket);
/* Ends the server: disconnects its front-end, removes the socket. Blocks. */
void ob_platform_net_serve_end(struct ob_net_server *server);

/* ---- directories of the host --------------------------------------------- */

enum ob_platform_directory_cache {
	OB_DIRECTORY_CACHE_AUTO,	/* what the kernel knows holds for a second */
	OB_DIRECTORY_CACHE_NONE,
	OB_DIRECTORY_CACHE_ALWAYS,
};

struct ob_platform_directory {
	const char *path;		/* of a directory, or of a regular file */
	const char *tag;		/* by which the kernel mounts it: 1 to 36 bytes */
	bool is_read_only;
	bool keeps_owners;		/* in attributes, also if the process is root */
	enum ob_platform_directory_cache cache;
};

/*
 * Offers a virtio file system device for one ob_kernel_virtio_add() of its number, which this
 * returns. On failure, `error` has one line: the path, and what the host refused. Any threads, also
 * at once.
 */
int ob_platform_directory_open(struct ob_host *host, const struct ob_platform_directory *directory,
			       char *error, size_t size);
/* Withdraws the offer: closes the device, unless the kernel has taken it. Blocks. */
void ob_platform_directory_done(struct ob_host *host, uint32_t device);
/* Whether the kernel has mounted the directory. */
bool ob_platform_directory_is_mounted(struct ob_host *host, uint32_t device);

/* ---- files -------------------------------------------------------------- */

/*
 * POSIX: takes a new descriptor, and returns it or, in the place of 0, 1 or 2, a copy with a higher
 * number that is closed on exec. -1 stays, with its errno. If there is no other number: -1, and the
 * descriptor is closed. Does not block.
 */
int ob_platform_descriptor(int fd);

/*
 * Locks a file that is a disk against other users of this library and against QEMU, as long as its
 * open file description lives. -EBUSY: another user has it. A file system without such locks is no
 * error. Does not block.
 */
int ob_platform_file_lock(int fd, bool exclusive);
/* Unlocks it, also for copies of the descriptor that a fork()ed child has. */
void ob_platform_file_unlock(int fd);

/*
 * Reads a whole file into memory. -ENOEXEC: the file is not a regular one, or empty; -EIO: it
 * cannot be read; -ENOMEM; or the host's error for opening it.
 */
int ob_platform_file_read(const char *path, void **bytes, uint64_t *size);
void ob_platform_file_free(void *bytes, uint64_t size);

/* Opens a file that lines of the log are appended to. -1: it cannot be opened. */
int ob_platform_log_open(const char *path);
void ob_platform_log_close(int handle);
/*
 * Writes the prefix, the line and a line feed in one piece, and does not wait for a reader. False:
 * the line is lost. For signal handlers, too.
 */
#define OB_PLATFORM_STANDARD_ERROR 2
bool ob_platform_log_write(int handle, const char *prefix, const char *line, uint64_t length);

#endif
