// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations of the host's sockets: addresses, connections, poll, shutdown, close.
 *
 * Checks of addresses and of the order of calls are the host's. A call that would wait in the host
 * returns at once, and this file waits in the kernel.
 */
#include <linux/in.h>
#include <linux/poll.h>
#include <linux/sockios.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <asm/host.h>
#include "sockets.h"

#include <asm/ioctls.h>

/* How often a close with SO_LINGER looks whether the peer has all data. */
#define OB_LINGER_PAUSE (HZ / 100)

/* Any address, and any port. */
static bool ob_is_wildcard(const struct sockaddr *address, int size)
{
	const struct sockaddr_in6 *in6 = (const void *)address;
	const struct sockaddr_in *in = (const void *)address;

	switch (size < (int)sizeof(*in) ? AF_UNSPEC : address->sa_family) {
	case AF_INET:
		return !in->sin_port && in->sin_addr.s_addr == htonl(INADDR_ANY);
	case AF_INET6:
		return size >= (int)sizeof(*in6) && !in6->sin6_port &&
		       ipv6_addr_any(&in6->sin6_addr);
	default:
		return false;
	}
}

/*
 * Code of the kernel binds like that to be called back, as the client of NFS 4.0. A port of the
 * host would be open to everybody, so that code gets a socket that nobody reaches.
 */
static bool ob_is_for_callbacks(const struct sock *sk, const struct sockaddr *address, int size)
{
	return sk->sk_kern_sock && ob_is_stream(sk) && ob_is_wildcard(address, size);
}

static int ob_socket_bind(struct socket *sock, struct sockaddr *address, int size)
{
	struct ob_socket *socket = ob_socket_of(sock->sk);
	int error;

	if (ob_is_for_callbacks(sock->sk, address, size)) {
		error = ob_socket_make_own(sock);
		return error ?: READ_ONCE(sock->ops)->bind(sock, address, size);
	}
	ob_socket_follow(socket);
	return ob_host_socket_bind(ob_host, socket->number, address, size);
}

/* ---- connect -------------------------------------------------------------- */

static void ob_set_state(struct sock *sk, u8 state)
{
	spin_lock_bh(&sk->sk_lock.slock);
	sk->sk_state = state;
	if (state == TCP_SYN_SENT || state == TCP_ESTABLISHED)
		sk->sk_shutdown = 0;
	spin_unlock_bh(&sk->sk_lock.slock);
}

/*
 * The host's socket keeps in mind that a connection has failed: one more call ends that, and the
 * next one begins anew.
 */
static int ob_connect_failed(struct socket *sock, const void *address, int size)
{
	struct sock *sk = sock->sk;
	int error = sock_error(sk);

	ob_host_socket_connect(ob_host, ob_socket_of(sk)->number, address, size);
	sock->state = SS_UNCONNECTED;
	return error ?: -ECONNABORTED;
}

static int ob_await_connection(struct socket *sock, long timeout)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct sock *sk = sock->sk;
	int error = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	while (!error && READ_ONCE(sk->sk_state) == TCP_SYN_SENT)
		error = ob_socket_wait(ob_socket_of(sk), &wait, OB_SOCKET_OUT, &timeout);
	remove_wait_queue(sk_sleep(sk), &wait);
	return error;
}

/* The host has connected the socket at once. */
static int ob_connected(struct socket *sock)
{
	struct sock *sk = sock->sk;

	sock->state = SS_CONNECTED;
	if (READ_ONCE(sk->sk_state) == TCP_CLOSE)
		ob_set_state(sk, TCP_SYN_SENT);
	if (READ_ONCE(sk->sk_state) == TCP_SYN_SENT)
		ob_socket_tell(ob_socket_of(sk), OB_SOCKET_OUT);
	return 0;
}

static int ob_disconnect(struct socket *sock, struct sockaddr *address, int size)
{
	int error = ob_host_socket_connect(ob_host, ob_socket_of(sock->sk)->number, address, size);

	if (!error) {
		sock->state = SS_UNCONNECTED;
		ob_set_state(sock->sk, TCP_CLOSE);
	}
	return error;
}

static int ob_socket_connect_stream(struct socket *sock, struct sockaddr *address, int size,
				    int flags)
{
	struct sock *sk = sock->sk;
	struct ob_socket *socket = ob_socket_of(sk);
	long timeout = sock_sndtimeo(sk, flags & O_NONBLOCK);
	int error;

	if (size < (int)sizeof(address->sa_family))
		return -EINVAL;
	if (address->sa_family == AF_UNSPEC)
		return ob_disconnect(sock, address, size);
	if (sock->state == SS_CONNECTED)
		return -EISCONN;
	if (sock->state == SS_CONNECTING && READ_ONCE(sk->sk_state) == TCP_CLOSE)
		return ob_connect_failed(sock, address, size);
	ob_socket_follow(socket);
	error = ob_host_socket_connect(ob_host, socket->number, address, size);
	if (!error)
		return ob_connected(sock);
	if (error == -EINPROGRESS) {
		sock->state = SS_CONNECTING;
		ob_set_state(sk, TCP_SYN_SENT);
		ob_socket_watch(socket, OB_SOCKET_OUT);
	}
	if ((error != -EINPROGRESS && error != -EALREADY) || !timeout)
		return error;
	error = ob_await_connection(sock, timeout);
	if (error)
		return error == -EAGAIN ? -EINPROGRESS : error;
	if (READ_ONCE(sk->sk_state) == TCP_CLOSE)
		return ob_connect_failed(sock, address, size);
	sock->state = SS_CONNECTED;
	return 0;
}

static int ob_socket_connect_datagram(struct socket *sock, struct sockaddr *address, int size,
				      int flags)
{
	int error;

	if (size < (int)sizeof(address->sa_family))
		return -EINVAL;
	error = ob_host_socket_connect(ob_host, ob_socket_of(sock->sk)->number, address, size);
	if (!error)
		ob_set_state(sock->sk, address->sa_family == AF_UNSPEC ? TCP_CLOSE
								       : TCP_ESTABLISHED);
	return error;
}

/* ---- accept --------------------------------------------------------------- */

static int ob_socket_listen(struct socket *sock, int backlog)
{
	struct ob_socket *socket = ob_socket_of(sock->sk);
	int error;

	ob_socket_follow(socket);
	error = ob_host_socket_listen(ob_host, socket->number, backlog);
	if (!error) {
		WRITE_ONCE(sock->sk->sk_max_ack_backlog, backlog);
		ob_set_state(sock->sk, TCP_LISTEN);
	}
	return error;
}

/* Returns the number of the new socket. */
static int ob_await_accept(struct ob_socket *socket, int flags)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct sock *sk = &socket->sk;
	long timeout = sock_rcvtimeo(sk, flags & O_NONBLOCK);
	int number, error = 0;

	add_wait_queue(sk_sleep(sk), &wait);
	do {
		number = ob_host_socket_accept(ob_host, socket->number);
		if (number != -EAGAIN)
			break;
		error = ob_socket_wait(socket, &wait, OB_SOCKET_IN, &timeout);
	} while (!error);
	remove_wait_queue(sk_sleep(sk), &wait);
	if (error == -EAGAIN)
		ob_socket_watch_for_others(socket, OB_SOCKET_IN);
	return error ?: number;
}

/* A connection inherits these settings of the socket that listens. */
static void ob_inherit(struct sock *sk, const struct sock *from)
{
	sk->sk_rcvtimeo = from->sk_rcvtimeo;
	sk->sk_sndtimeo = from->sk_sndtimeo;
	sk->sk_rcvlowat = from->sk_rcvlowat;
	sk->sk_lingertime = from->sk_lingertime;
	sk->sk_reuse = from->sk_reuse;
	sk->sk_reuseport = from->sk_reuseport;
	sk->sk_flags |= from->sk_flags & (BIT(SOCK_LINGER) | BIT(SOCK_KEEPOPEN) |
					  BIT(SOCK_URGINLINE));
	sk->sk_state = TCP_ESTABLISHED;
}

static int ob_socket_accept(struct socket *sock, struct socket *new, struct proto_accept_arg *arg)
{
	struct sock *sk = sock->sk;
	int number = ob_await_accept(ob_socket_of(sk), arg->flags);
	int error;

	if (number < 0)
		return number;
	error = ob_socket_attach(sock_net(sk), new, sk->sk_family, sk->sk_protocol, number,
				 arg->kern);
	if (error) {
		ob_host_socket_close(ob_host, number);
		return error;
	}
	ob_inherit(new->sk, sk);
	new->state = SS_CONNECTED;
	return 0;
}

/* ---- the rest ------------------------------------------------------------- */

static int ob_socket_getname(struct socket *sock, struct sockaddr *address, int peer)
{
	u32 size = sizeof(struct sockaddr_storage);
	int error = ob_host_socket_name(ob_host, ob_socket_of(sock->sk)->number, peer, address,
					&size);

	return error ?: size;
}

/* The events of the host have the numbers of poll(). */
static __poll_t ob_mask_of(u32 events)
{
	__poll_t mask = (__force __poll_t)events;

	if (mask & EPOLLIN)
		mask |= EPOLLRDNORM;
	if (mask & EPOLLOUT)
		mask |= EPOLLWRNORM | EPOLLWRBAND;
	return mask;
}

static __poll_t ob_socket_poll(struct file *file, struct socket *sock,
			       struct poll_table_struct *wait)
{
	struct sock *sk = sock->sk;
	struct ob_socket *socket = ob_socket_of(sk);
	const u32 all = OB_SOCKET_IN | OB_SOCKET_PRI | OB_SOCKET_OUT | OB_SOCKET_RDHUP;
	u32 missing;
	int events;

	sock_poll_wait(file, sock, wait);
	events = ob_host_socket_ready(ob_host, socket->number);
	if (events < 0)
		return EPOLLERR;
	/* The thread may ask for SO_ERROR next, or for the state. */
	if (events & OB_SOCKET_ERR || READ_ONCE(sk->sk_state) == TCP_SYN_SENT) {
		spin_lock_bh(&sk->sk_lock.slock);
		ob_socket_note(socket, events);
		spin_unlock_bh(&sk->sk_lock.slock);
	}
	if (READ_ONCE(sk->sk_err))
		events |= OB_SOCKET_ERR;
	missing = (__force u32)poll_requested_events(wait) & all & ~events;
	if (missing && ob_socket_watch(socket, missing))
		events |= OB_SOCKET_ERR;
	return ob_mask_of(events);
}

static int ob_socket_ioctl(struct socket *sock, unsigned int request, unsigned long argument)
{
	enum ob_socket_queue queue;
	int value;

	switch (request) {
	case SIOCINQ:
		queue = OB_SOCKET_RECEIVED;
		break;
	case SIOCOUTQ:
		queue = OB_SOCKET_UNSENT;
		break;
	case SIOCATMARK:
		queue = OB_SOCKET_AT_MARK;
		break;
	default:
		return -ENOIOCTLCMD;
	}
	value = ob_host_socket_queued(ob_host, ob_socket_of(sock->sk)->number, queue);
	return value < 0 ? value : put_user(value, (int __user *)argument);
}

/* Code of the kernel waits for a change of the state. */
static void ob_note_shutdown(struct sock *sk, int how)
{
	static const u8 next[] = {
		[TCP_ESTABLISHED] = TCP_FIN_WAIT1, [TCP_CLOSE_WAIT] = TCP_LAST_ACK,
	};
	u8 state;

	lock_sock(sk);
	state = sk->sk_state;
	sk->sk_shutdown |= how + 1;
	if (how != SHUT_RD && state < ARRAY_SIZE(next) && next[state]) {
		sk->sk_state = next[state];
		sk->sk_state_change(sk);
	}
	release_sock(sk);
}

static int ob_socket_shutdown(struct socket *sock, int how)
{
	struct sock *sk = sock->sk;
	int error = ob_host_socket_shutdown(ob_host, ob_socket_of(sk)->number, how);

	if (error || !ob_is_stream(sk))
		return error;
	ob_note_shutdown(sk, how);
	/* The host tells when both directions have ended. */
	ob_socket_watch_for_others(ob_socket_of(sk), OB_SOCKET_IN | OB_SOCKET_RDHUP);
	return 0;
}

/*
 * Waits until the peer has all data, as long as SO_LINGER says. The host itself would wait in its
 * close, with a vCPU.
 */
static void ob_linger(struct ob_socket *socket)
{
	struct sock *sk = &socket->sk;
	unsigned long end = jiffies + sk->sk_lingertime;

	if (!ob_is_stream(sk) || !sock_flag(sk, SOCK_LINGER) || !sk->sk_lingertime ||
	    current->flags & PF_EXITING)
		return;
	if (ob_host_socket_shutdown(ob_host, socket->number, SHUT_WR))
		return;
	while (ob_host_socket_queued(ob_host, socket->number, OB_SOCKET_UNSENT) > 0 &&
	       time_before(jiffies, end) && !signal_pending(current))
		schedule_timeout_interruptible(OB_LINGER_PAUSE);
}

static int ob_socket_release(struct socket *sock)
{
	if (!sock->sk)
		return 0;
	ob_linger(ob_socket_of(sock->sk));
	ob_socket_detach(sock);
	return 0;
}

const struct proto_ops ob_stream_ops = {
	.family = PF_INET,
	.owner = THIS_MODULE,
	.release = ob_socket_release,
	.bind = ob_socket_bind,
	.connect = ob_socket_connect_stream,
	.socketpair = sock_no_socketpair,
	.accept = ob_socket_accept,
	.getname = ob_socket_getname,
	.poll = ob_socket_poll,
	.ioctl = ob_socket_ioctl,
	.listen = ob_socket_listen,
	.shutdown = ob_socket_shutdown,
	.setsockopt = ob_socket_setsockopt,
	.getsockopt = ob_socket_getsockopt,
	.sendmsg = ob_socket_sendmsg,
	.recvmsg = ob_socket_recvmsg,
	.mmap = sock_no_mmap,
};

const struct proto_ops ob_datagram_ops = {
	.family = PF_INET,
	.owner = THIS_MODULE,
	.release = ob_socket_release,
	.bind = ob_socket_bind,
	.connect = ob_socket_connect_datagram,
	.socketpair = sock_no_socketpair,
	.accept = sock_no_accept,
	.getname = ob_socket_getname,
	.poll = ob_socket_poll,
	.ioctl = ob_socket_ioctl,
	.listen = sock_no_listen,
	.shutdown = ob_socket_shutdown,
	.setsockopt = ob_socket_setsockopt,
	.getsockopt = ob_socket_getsockopt,
	.sendmsg = ob_socket_sendmsg,
	.recvmsg = ob_socket_recvmsg,
	.mmap = sock_no_mmap,
};
