// SPDX-License-Identifier: GPL-2.0-only
/*
 * Options of the host's sockets.
 *
 * The host decides about each option, except for those that are about waiting, which happens here.
 * Linux reads options of the level SOL_SOCKET from struct sock, so they are stored there, too. An
 * option whose value names a file, a process or memory fails with ENOPROTOOPT, and so does one that
 * changes what a socket is.
 *
 * Code of the kernel sets some options by functions that write into struct sock. Nothing calls this
 * file then. So it compares what is there with what the host has, before the host uses the option.
 */
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/sockptr.h>
#include <linux/tcp.h>
#include <net/tcp.h>
#include <asm/host.h>
#include "sockets.h"

/* Largest value, in bytes. */
#define OB_VALUE_MOST 1024

/* Names of SOL_IP and SOL_IPV6 that belong to packet filters. */
#define OB_FILTER_FIRST 64
#define OB_FILTER_LAST 65

int ob_socket_set_number(struct ob_socket *socket, int level, int name, int value)
{
	return ob_host_socket_option_set(ob_host, socket->number, level, name, &value,
					 sizeof(value));
}

int ob_socket_number(struct ob_socket *socket, int level, int name)
{
	int value = 0, error;
	u32 size = sizeof(value);

	error = ob_host_socket_option_get(ob_host, socket->number, level, name, &value, &size);
	return error ?: value;
}

/* ---- options of clients --------------------------------------------------- */

static bool ob_is_passed(int level, int name)
{
	switch (level) {
	case SOL_IP:
		return name < OB_FILTER_FIRST;
	case SOL_IPV6:
		return name != IPV6_ADDRFORM &&
		       (name < OB_FILTER_FIRST || name > OB_FILTER_LAST);
	case SOL_TCP:
		return name != TCP_ULP && name != TCP_ZEROCOPY_RECEIVE &&
		       name != TCP_FASTOPEN_CONNECT && name != TCP_REPAIR;
	case SOL_UDP:
		return name != UDP_ENCAP;
	default:
		return false;
	}
}

/* A time to linger stays here: socket_calls.c. */
static int ob_set_linger(struct socket *sock, sockptr_t value, unsigned int size)
{
	int error = sock_setsockopt(sock, SOL_SOCKET, SO_LINGER, value, size);
	struct sock *sk = sock->sk;
	struct linger linger = {
		.l_onoff = sock_flag(sk, SOCK_LINGER) && !sk->sk_lingertime,
	};

	if (error)
		return error;
	return ob_host_socket_option_set(ob_host, ob_socket_of(sk)->number, SOL_SOCKET, SO_LINGER,
					 &linger, sizeof(linger));
}

/* The host rounds and limits the sizes of buffers. */
static void ob_note_buffers(struct ob_socket *socket)
{
	int sndbuf = ob_socket_number(socket, SOL_SOCKET, SO_SNDBUF);
	int rcvbuf = ob_socket_number(socket, SOL_SOCKET, SO_RCVBUF);

	if (sndbuf > 0)
		WRITE_ONCE(socket->sk.sk_sndbuf, sndbuf);
	if (rcvbuf > 0)
		WRITE_ONCE(socket->sk.sk_rcvbuf, rcvbuf);
}

static int ob_pass(struct ob_socket *socket, int level, int name, sockptr_t value,
		   unsigned int size)
{
	char *copy;
	int error;

	if (size > OB_VALUE_MOST)
		return -EINVAL;
	copy = memdup_sockptr(value, size);
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	error = ob_host_socket_option_set(ob_host, socket->number, level, name, copy, size);
	kfree(copy);
	return error;
}

/* The level SOL_SOCKET. */
static int ob_set_general(struct socket *sock, int name, sockptr_t value, unsigned int size)
{
	struct ob_socket *socket = ob_socket_of(sock->sk);
	int error;

	switch (name) {
	case SO_RCVTIMEO_OLD:
	case SO_RCVTIMEO_NEW:
	case SO_SNDTIMEO_OLD:
	case SO_SNDTIMEO_NEW:
		return sock_setsockopt(sock, SOL_SOCKET, name, value, size);
	case SO_LINGER:
		return ob_set_linger(sock, value, size);
	case SO_SNDBUF:
	case SO_RCVBUF:
	case SO_SNDBUFFORCE:
	case SO_RCVBUFFORCE:
		error = ob_pass(socket, SOL_SOCKET, name, value, size);
		if (!error)
			ob_note_buffers(socket);
		return error;
	case SO_BROADCAST:
	case SO_DONTROUTE:
	case SO_KEEPALIVE:
	case SO_MARK:
	case SO_OOBINLINE:
	case SO_PRIORITY:
	case SO_RCVLOWAT:
	case SO_REUSEADDR:
	case SO_REUSEPORT:
	case SO_RXQ_OVFL:
	case SO_TIMESTAMP_OLD:
	case SO_TIMESTAMP_NEW:
	case SO_TIMESTAMPNS_OLD:
	case SO_TIMESTAMPNS_NEW:
		error = ob_pass(socket, SOL_SOCKET, name, value, size);
		return error ?: sock_setsockopt(sock, SOL_SOCKET, name, value, size);
	default:
		return -ENOPROTOOPT;
	}
}

int ob_socket_setsockopt(struct socket *sock, int level, int name, sockptr_t value,
			 unsigned int size)
{
	if (level == SOL_SOCKET)
		return ob_set_general(sock, name, value, size);
	if (!ob_is_passed(level, name))
		return -ENOPROTOOPT;
	return ob_pass(ob_socket_of(sock->sk), level, name, value, size);
}

static int ob_get(struct ob_socket *socket, int level, int name, char __user *value, u32 *size)
{
	char *copy = kzalloc(OB_VALUE_MOST, GFP_KERNEL);
	int error;

	if (!copy)
		return -ENOMEM;
	*size = min(*size, OB_VALUE_MOST);
	error = copy_from_user(copy, value, *size) ? -EFAULT :
		ob_host_socket_option_get(ob_host, socket->number, level, name, copy, size);
	if (!error && copy_to_user(value, copy, min(*size, OB_VALUE_MOST)))
		error = -EFAULT;
	kfree(copy);
	return error;
}

/* Linux handles the level SOL_SOCKET itself. */
int ob_socket_getsockopt(struct socket *sock, int level, int name, char __user *value,
			 int __user *size)
{
	int room, error;
	u32 bytes;

	if (!ob_is_passed(level, name))
		return -ENOPROTOOPT;
	if (get_user(room, size))
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	bytes = room;
	error = ob_get(ob_socket_of(sock->sk), level, name, value, &bytes);
	if (!error && put_user(bytes, size))
		error = -EFAULT;
	return error;
}

/* ---- options of kernel code ------------------------------------------------ */

static const struct {
	int level, name;
	bool stream_only;
} ob_followed[] = {
	[OB_FOLLOW_NODELAY] = { SOL_TCP, TCP_NODELAY, true },
	[OB_FOLLOW_KEEPIDLE] = { SOL_TCP, TCP_KEEPIDLE, true },
	[OB_FOLLOW_KEEPINTVL] = { SOL_TCP, TCP_KEEPINTVL, true },
	[OB_FOLLOW_KEEPCNT] = { SOL_TCP, TCP_KEEPCNT, true },
	[OB_FOLLOW_USER_TIMEOUT] = { SOL_TCP, TCP_USER_TIMEOUT, true },
	[OB_FOLLOW_SYNCNT] = { SOL_TCP, TCP_SYNCNT, true },
	[OB_FOLLOW_REUSEADDR] = { SOL_SOCKET, SO_REUSEADDR, false },
	[OB_FOLLOW_REUSEPORT] = { SOL_SOCKET, SO_REUSEPORT, false },
	[OB_FOLLOW_V6ONLY] = { SOL_IPV6, IPV6_V6ONLY, false },
};

/* The setting of the kernel counts if a client has changed it. */
static u32 ob_wanted_syncnt(const struct ob_socket *socket)
{
	u32 own = READ_ONCE(socket->tcp.tcp.inet_conn.icsk_syn_retries);
	u32 general = READ_ONCE(sock_net(&socket->sk)->ipv4.sysctl_tcp_syn_retries);

	return own ?: general == TCP_SYN_RETRIES ? 0 : general;
}

/* 0: kernel code has not set it. */
static u32 ob_wanted(const struct ob_socket *socket, enum ob_followed option)
{
	const struct tcp_sock *tcp = &socket->tcp.tcp;

	switch (option) {
	case OB_FOLLOW_NODELAY:
		return tcp->nonagle & TCP_NAGLE_OFF;
	case OB_FOLLOW_KEEPIDLE:
		return READ_ONCE(tcp->keepalive_time) / HZ;
	case OB_FOLLOW_KEEPINTVL:
		return READ_ONCE(tcp->keepalive_intvl) / HZ;
	case OB_FOLLOW_KEEPCNT:
		return READ_ONCE(tcp->keepalive_probes);
	case OB_FOLLOW_USER_TIMEOUT:
		return READ_ONCE(tcp->inet_conn.icsk_user_timeout);
	case OB_FOLLOW_SYNCNT:
		return ob_wanted_syncnt(socket);
	case OB_FOLLOW_REUSEADDR:
		return socket->sk.sk_reuse == SK_CAN_REUSE;
	case OB_FOLLOW_REUSEPORT:
		return socket->sk.sk_reuseport;
	case OB_FOLLOW_V6ONLY:
		return socket->sk.sk_ipv6only;
	default:
		return 0;
	}
}

/* The host may refuse an option. The connection of the kernel code goes on without the option. */
void ob_socket_follow(struct ob_socket *socket)
{
	enum ob_followed option;

	for (option = 0; option < OB_FOLLOWED; option++) {
		u32 value;

		if (ob_followed[option].stream_only && !ob_is_stream(&socket->sk))
			continue;
		value = ob_wanted(socket, option);
		if (value == socket->followed[option])
			continue;
		socket->followed[option] = value;
		ob_socket_set_number(socket, ob_followed[option].level, ob_followed[option].name,
				     value);
	}
}

bool ob_socket_has_cork(const struct ob_socket *socket)
{
	return ob_is_stream(&socket->sk) && socket->tcp.tcp.nonagle & TCP_NAGLE_CORK;
}

void ob_socket_uncork(struct ob_socket *socket)
{
	if (!socket->is_corked || ob_socket_has_cork(socket))
		return;
	socket->is_corked = false;
	ob_socket_set_number(socket, SOL_TCP, TCP_CORK, 0);
}

void ob_socket_keepalive(struct sock *sk, int on)
{
	ob_socket_set_number(ob_socket_of(sk), SOL_SOCKET, SO_KEEPALIVE, on);
}
