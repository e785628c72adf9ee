/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sockets of the host as PF_INET and PF_INET6:
 *
 *   sockets.c		which sockets are the host's, their start and end, their events
 *   socket_calls.c	bind, connect, accept ...: all operations but those below
 *   socket_message.c	sendmsg and recvmsg
 *   socket_option.c	options
 *
 * Each socket has a struct sock that looks like one of Linux's TCP or UDP: code of the kernel (NFS,
 * SMB, NBD) casts to tcp_sock, writes options there, and waits by the callbacks of struct sock. The
 * memory behind the casts is there, and holds what such code writes. Linux's protocols know nothing
 * of the socket: it is in none of their tables, and has no packets.
 *
 * The lock of all fields is sk_lock.slock. States of a stream are those that the host's events
 * tell:
 *
 *   from                   to            by
 *   CLOSE                  SYN_SENT      connect, if the host does not finish it at once
 *   CLOSE                  ESTABLISHED   connect; accept
 *   CLOSE                  LISTEN        listen
 *   SYN_SENT               ESTABLISHED   the event OUT
 *   SYN_SENT               CLOSE         an event, with the error of the connection
 *   ESTABLISHED            CLOSE_WAIT    the event RDHUP: the peer sends no more
 *   ESTABLISHED            FIN_WAIT1     shutdown
 *   CLOSE_WAIT             LAST_ACK      shutdown
 *   all but SYN_SENT,      CLOSE         the event HUP: both directions have ended
 *   LISTEN
 */
#ifndef OUTBOARD_DRIVERS_SOCKETS_H
#define OUTBOARD_DRIVERS_SOCKETS_H

#include <linux/ipv6.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/sock.h>
#include <outboard/hypercall_sockets.h>

/* Options that kernel code sets by writing into struct sock: socket_option.c. */
enum ob_followed {
	OB_FOLLOW_NODELAY, OB_FOLLOW_KEEPIDLE, OB_FOLLOW_KEEPINTVL, OB_FOLLOW_KEEPCNT,
	OB_FOLLOW_USER_TIMEOUT, OB_FOLLOW_SYNCNT, OB_FOLLOW_REUSEADDR, OB_FOLLOW_REUSEPORT,
	OB_FOLLOW_V6ONLY,
	OB_FOLLOWED
};

struct ob_socket {
	union {
		struct sock sk;
		struct tcp6_sock tcp;
		struct udp6_sock udp;
	};
	u32 number;			/* the host's */
	u32 watched;			/* events of the last ob_host_socket_watch() */
	u32 deferred;			/* events that came while a thread had locked the sock */
	bool is_corked;			/* the host may keep data back */
	struct mutex receiving;		/* of a stream: socket_message.c */
	u32 followed[OB_FOLLOWED];	/* values that the host has */
};

static inline struct ob_socket *ob_socket_of(struct sock *sk)
{
	return container_of(sk, struct ob_socket, sk);
}

static inline bool ob_is_stream(const struct sock *sk)
{
	return sk->sk_type == SOCK_STREAM;
}

/* ---- sockets.c ---- */

/*
 * Makes the struct sock of a socket of the host, and attaches it. On failure the caller closes the
 * host's socket.
 */
int ob_socket_attach(struct net *net, struct socket *sock, int family, int protocol, u32 number,
		     int kern);

/*
 * Has the host watch the socket for these events, besides those that it watches for already. The
 * host may refuse: -ENOMEM, -ENOSPC.
 */
int ob_socket_watch(struct ob_socket *socket, u32 events);

/* Watches, if a waiter may be in no call of the socket: epoll, or code of the kernel. */
void ob_socket_watch_for_others(struct ob_socket *socket, u32 events);

/* Notes what the events say about state and error. Returns whether the state has changed. */
bool ob_socket_note(struct ob_socket *socket, u32 events);

/* Tells the socket's users about events, at once or when its lock is released. */
void ob_socket_tell(struct ob_socket *socket, u32 events);

/*
 * Waits until the socket may be ready for one of the events. `timeout`: jiffies that are left, and
 * that this makes less. The caller has put `wait` on the queue of the sock. -EAGAIN: no time is
 * left; -EINTR, -ERESTARTSYS; or the host does not watch.
 */
int ob_socket_wait(struct ob_socket *socket, struct wait_queue_entry *wait, u32 events,
		   long *timeout);

/* Takes the sock from its socket, and closes it. */
void ob_socket_detach(struct socket *sock);

/* Makes a socket of kernel code, which has not been used yet, one of the kernel's own. */
int ob_socket_make_own(struct socket *sock);

/* ---- socket_calls.c ---- */

extern const struct proto_ops ob_stream_ops, ob_datagram_ops;

/* ---- socket_message.c ---- */

int ob_socket_sendmsg(struct socket *sock, struct msghdr *msg, size_t size);
int ob_socket_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags);

/* ---- socket_option.c ---- */

int ob_socket_setsockopt(struct socket *sock, int level, int name, sockptr_t value,
			 unsigned int size);
int ob_socket_getsockopt(struct socket *sock, int level, int name, char __user *value,
			 int __user *size);

int ob_socket_set_number(struct ob_socket *socket, int level, int name, int value);
int ob_socket_number(struct ob_socket *socket, int level, int name);

/* Passes on what kernel code has written into struct sock since the last call. */
void ob_socket_follow(struct ob_socket *socket);
/* Kernel code may have removed the cork: has the host send what it keeps back. */
void ob_socket_uncork(struct ob_socket *socket);
bool ob_socket_has_cork(const struct ob_socket *socket);
void ob_socket_keepalive(struct sock *sk, int on);

#endif
