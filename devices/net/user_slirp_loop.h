/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libslirp, and all of its loop but the frames: timers, descriptors, port forwards. One thread at a
 * time uses it.
 */
#ifndef OUTBOARD_DEVICES_NET_USER_SLIRP_LOOP_H
#define OUTBOARD_DEVICES_NET_USER_SLIRP_LOOP_H

#include <poll.h>
#include <stdint.h>

#include "slirp_api.h"
#include "user.h"

/* A port without an address has a socket for IPv4 and one for IPv6. */
#define OB_SLIRP_FORWARD_SOCKETS_MOST (2 * OB_USER_FORWARDS_MOST)

struct ob_slirp_timer;

struct ob_slirp {
	const struct ob_slirp_library *library;
	struct Slirp *slirp;
	/* A frame for the kernel, on the thread that uses this. */
	void (*send)(void *opaque, const void *frame, size_t length);
	void *opaque;
	struct ob_slirp_timer *timers;
	struct pollfd *fds;
	int fd_count, fd_room;
	/* Sockets of libslirp that wait for connections and packets from the host. */
	int forwards[OB_SLIRP_FORWARD_SOCKETS_MOST];
	int forward_count;
	/* Sockets that listened before, and those of libslirp that have their places meanwhile. */
	struct {
		int given;
		int place;
	} sockets[OB_USER_FORWARDS_MOST];
	int socket_count;
};

/*
 * Loads libslirp, and opens the forwarded ports. `slirp` is zeros but for `send` and `opaque`. 0,
 * or an error with one line in `error`. -ENOENT: libslirp is not installed; `error` is not written.
 */
int ob_slirp_open(struct ob_slirp *slirp, const struct ob_user_options *options, char *error,
		  size_t size);

/* Closes all sockets, and frees all memory but `slirp` itself. Also after a failure to open. */
void ob_slirp_close(struct ob_slirp *slirp);

/*
 * In a fork()ed child, instead: closes the forwarded ports, which are free once the parent closes
 * them. Other sockets and the memory of libslirp stay: its lists may be in the middle of a change
 * by the parent's thread. The sockets are closed on exec.
 */
void ob_slirp_forked(struct ob_slirp *slirp);

/*
 * Fills `fds` with what the loop waits for, `fd` with POLLIN first, and stores the time-out for
 * poll() in milliseconds. False: there is no memory.
 */
bool ob_slirp_prepare(struct ob_slirp *slirp, int fd, int *timeout);

/* Adds a descriptor with POLLIN to `fds`, until the next turn. Returns its index, or -1. */
int ob_slirp_watch(struct ob_slirp *slirp, int fd);

/*
 * From now on, the socket with this number among those that listened before takes connections.
 * Until then, its clients wait. Does nothing if there is none.
 */
void ob_slirp_take_socket(struct ob_slirp *slirp, unsigned int number);

/* Works on what poll() has found. `is_failed`: it has failed. */
void ob_slirp_work(struct ob_slirp *slirp, bool is_failed);

/* Passes a frame of the kernel, without its virtio header, to libslirp. */
void ob_slirp_input(struct ob_slirp *slirp, const void *frame, size_t length);

/* Calls the timers that have expired. */
void ob_slirp_run_timers(struct ob_slirp *slirp);

#endif
