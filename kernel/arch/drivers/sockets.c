// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sockets of the host: which new sockets are the host's, their start and end, and their events.
 *
 * The families of the kernel's own TCP/IP are registered under names of this file. So one word
 * decides for each new socket whose it is.
 *
 * A vCPU never waits in the host. A thread that would wait sleeps in the kernel, and has the host
 * watch the socket once. The host's event comes by an interrupt. A softirq passes it to the users
 * of the socket as TCP does: by the callbacks of struct sock, which wake threads, epoll and workers
 * of the kernel. While a thread has locked the sock, its events wait for the release.
 */
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu_counter.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/inet_sock.h>
#include <asm/host.h>
#include <outboard/gate.h>
#include "../core/driver.h"
#include "../core/gate.h"
#include "../core/irq.h"
#include "sockets.h"

/* Events that are taken from the host at a time. */
#define OB_EVENTS_MOST 16

static bool ob_sockets_are_hosts;
/* Sockets by the host's number. */
static DEFINE_XARRAY(ob_sockets);

static void ob_socket_released(struct sock *sk);

static struct proto ob_proto = {
	.name = "HOST",
	.owner = THIS_MODULE,
	.obj_size = sizeof(struct ob_socket),
	.keepalive = ob_socket_keepalive,
	.release_cb = ob_socket_released,
};

/* ---- events --------------------------------------------------------------- */

/*
 * The event may be old: a socket that is not connected has HUP, too. So the end of a connection is
 * what the host says now.
 */
static u32 ob_events_now(struct ob_socket *socket, u32 events)
{
	const u32 ends = OB_SOCKET_ERR | OB_SOCKET_HUP | OB_SOCKET_RDHUP;
	int now;

	if (socket->sk.sk_state != TCP_SYN_SENT && !(events & ends))
		return events;
	now = ob_host_socket_ready(ob_host, socket->number);
	return now < 0 ? 0 : now;
}

static void ob_note_error(struct ob_socket *socket)
{
	int error = ob_socket_number(socket, SOL_SOCKET, SO_ERROR);

	if (error > 0)
		WRITE_ONCE(socket->sk.sk_err, error);
}

bool ob_socket_note(struct ob_socket *socket, u32 events)
{
	struct sock *sk = &socket->sk;
	u8 before = sk->sk_state;

	if (!ob_is_stream(sk) || before == TCP_LISTEN) {
		if (events & OB_SOCKET_ERR)
			ob_note_error(socket);
		return false;
	}
	events = ob_events_now(socket, events);
	if (events & OB_SOCKET_ERR)
		ob_note_error(socket);
	if (before == TCP_CLOSE)
		return false;
	if (events & OB_SOCKET_HUP)
		sk->sk_state = TCP_CLOSE;
	else if (before == TCP_SYN_SENT && events & OB_SOCKET_OUT)
		sk->sk_state = TCP_ESTABLISHED;
	else if (before == TCP_ESTABLISHED && events & OB_SOCKET_RDHUP)
		sk->sk_state = TCP_CLOSE_WAIT;
	/* Users learn that a connection stands before they learn that it has ended. */
	if (before == TCP_SYN_SENT)
		return sk->sk_state != before;
	if (events & OB_SOCKET_RDHUP)
		sk->sk_shutdown |= RCV_SHUTDOWN;
	if (events & OB_SOCKET_HUP)
		sk->sk_shutdown = SHUTDOWN_MASK;
	return sk->sk_state != before;
}

/* With the lock of the sock. */
static int ob_socket_watch_locked(struct ob_socket *socket, u32 events)
{
	int error = 0;

	if (events & ~socket->watched)
		error = ob_host_socket_watch(ob_host, socket->number, socket->watched | events);
	if (!error)
		socket->watched |= events;
	return error;
}

/* Nobody calls recvmsg before the first event: the connection is watched from its start. */
static void ob_socket_connected(struct ob_socket *socket, struct sock *sk)
{
	if (sk->sk_data_ready != sock_def_readable)
		ob_socket_watch_locked(socket, OB_SOCKET_IN | OB_SOCKET_RDHUP);
}

/* With the lock of the sock, and no thread in it. */
static void ob_socket_tell_now(struct ob_socket *socket, u32 events)
{
	struct sock *sk = &socket->sk;
	const u32 bad = OB_SOCKET_ERR | OB_SOCKET_HUP;
	u8 before = sk->sk_state;

	if (sock_flag(sk, SOCK_DEAD))
		return;
	if (ob_socket_note(socket, events)) {
		if (before == TCP_SYN_SENT && sk->sk_state != TCP_CLOSE)
			ob_socket_connected(socket, sk);
		sk->sk_state_change(sk);
	}
	if (events & (OB_SOCKET_IN | OB_SOCKET_PRI | OB_SOCKET_RDHUP | bad))
		READ_ONCE(sk->sk_data_ready)(sk);
	if (events & (OB_SOCKET_OUT | bad)) {
		WRITE_ONCE(sk->sk_wmem_queued, 0);
		READ_ONCE(sk->sk_write_space)(sk);
	}
	if (events & bad && READ_ONCE(sk->sk_err))
		sk_error_report(sk);
}

void ob_socket_tell(struct ob_socket *socket, u32 events)
{
	struct sock *sk = &socket->sk;

	spin_lock_bh(&sk->sk_lock.slock);
	if (sock_owned_by_user(sk))
		socket->deferred |= events;
	else
		ob_socket_tell_now(socket, events);
	spin_unlock_bh(&sk->sk_lock.slock);
}

/* A thread releases the lock of the sock. */
static void ob_socket_released(struct sock *sk)
{
	struct ob_socket *socket = ob_socket_of(sk);
	u32 events = socket->deferred;

	/* Linux's setters would start TCP's timer, which this sock does not have. */
	if (sk->sk_kern_sock)
		sock_reset_flag(sk, SOCK_KEEPOPEN);
	ob_socket_uncork(socket);
	if (!events)
		return;
	socket->deferred = 0;
	ob_socket_tell_now(socket, events);
}

int ob_socket_watch(struct ob_socket *socket, u32 events)
{
	struct sock *sk = &socket->sk;
	int error;

	spin_lock_bh(&sk->sk_lock.slock);
	error = ob_socket_watch_locked(socket, events);
	spin_unlock_bh(&sk->sk_lock.slock);
	return error;
}

void ob_socket_watch_for_others(struct ob_socket *socket, u32 events)
{
	struct sock *sk = &socket->sk;
	bool wanted;

	rcu_read_lock();
	wanted = sk->sk_data_ready != sock_def_readable ||
		 skwq_has_sleeper(rcu_dereference(sk->sk_wq));
	rcu_read_unlock();
	if (wanted)
		ob_socket_watch(socket, events);
}

int ob_socket_wait(struct ob_socket *socket, struct wait_queue_entry *wait, u32 events,
		   long *timeout)
{
	int error;

	if (!*timeout)
		return -EAGAIN;
	if (signal_pending(current))
		return sock_intr_errno(*timeout);
	error = ob_socket_watch(socket, events);
	if (error)
		return error;
	*timeout = wait_woken(wait, TASK_INTERRUPTIBLE, *timeout);
	return 0;
}

/* The host watches no more for what has come. */
static void ob_socket_event(struct ob_socket *socket, u32 events)
{
	struct sock *sk = &socket->sk;
	u32 rest;

	spin_lock_bh(&sk->sk_lock.slock);
	rest = socket->watched & ~events;
	if (events & (OB_SOCKET_ERR | OB_SOCKET_HUP))
		rest = 0;
	if (events & (OB_SOCKET_IN | OB_SOCKET_RDHUP))
		rest &= ~(OB_SOCKET_IN | OB_SOCKET_RDHUP);
	socket->watched = rest;
	if (rest && !sock_flag(sk, SOCK_DEAD))
		ob_host_socket_watch(ob_host, socket->number, rest);
	spin_unlock_bh(&sk->sk_lock.slock);
	ob_socket_tell(socket, events);
}

static struct ob_socket *ob_socket_get(u32 number)
{
	struct ob_socket *socket;

	rcu_read_lock();
	socket = xa_load(&ob_sockets, number);
	if (socket && !refcount_inc_not_zero(&socket->sk.sk_refcnt))
		socket = NULL;
	rcu_read_unlock();
	return socket;
}

static void ob_events_work(struct work_struct *work)
{
	struct ob_socket_event events[OB_EVENTS_MOST];
	u32 count, i;

	do {
		count = ob_host_socket_take(ob_host, events, OB_EVENTS_MOST);
		for (i = 0; i < count; i++) {
			struct ob_socket *socket = ob_socket_get(events[i].socket);

			if (!socket)
				continue;
			ob_socket_event(socket, events[i].events);
			sock_put(&socket->sk);
		}
	} while (count == OB_EVENTS_MOST);
}
static DECLARE_WORK(ob_events, ob_events_work);

static irqreturn_t ob_sockets_interrupt(int irq, void *unused)
{
	queue_work(system_bh_wq, &ob_events);
	return IRQ_HANDLED;
}

/* ---- start and end of a socket ------------------------------------------- */

static void ob_socket_init(struct ob_socket *socket, struct sock *sk, int protocol)
{
	int sndbuf = ob_socket_number(socket, SOL_SOCKET, SO_SNDBUF);
	int rcvbuf = ob_socket_number(socket, SOL_SOCKET, SO_RCVBUF);

	/* Events find the sock without a reference of their own. */
	sock_set_flag(sk, SOCK_RCU_FREE);
	sk->sk_protocol = protocol;
	mutex_init(&socket->receiving);
	inet_sk(sk)->pinet6 = ob_is_stream(sk) ? &socket->tcp.inet6 : &socket->udp.inet6;
	if (sndbuf > 0)
		sk->sk_sndbuf = sndbuf;
	if (rcvbuf > 0)
		sk->sk_rcvbuf = rcvbuf;
}

int ob_socket_attach(struct net *net, struct socket *sock, int family, int protocol, u32 number,
		     int kern)
{
	struct sock *sk = sk_alloc(net, family, GFP_KERNEL, &ob_proto, kern);
	int error;

	if (!sk)
		return -ENOMEM;
	sock_init_data(sock, sk);
	ob_socket_of(sk)->number = number;
	ob_socket_init(ob_socket_of(sk), sk, protocol);
	error = xa_err(xa_store(&ob_sockets, number, sk, GFP_KERNEL));
	if (error) {
		sock_orphan(sk);
		sock->sk = NULL;
		sock_put(sk);
		return error;
	}
	sock->ops = ob_is_stream(sk) ? &ob_stream_ops : &ob_datagram_ops;
	/* Options of the level SOL_SOCKET come to socket_option.c, too. */
	set_bit(SOCK_CUSTOM_SOCKOPT, &sock->flags);
	return 0;
}

/* The protocol of a new socket; 0 chooses by the type. */
static int ob_protocol_of(int family, int type, int protocol)
{
	bool is_echo = protocol == (family == PF_INET6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);

	switch (type) {
	case SOCK_STREAM:
		return !protocol || protocol == IPPROTO_TCP ? IPPROTO_TCP : -EPROTONOSUPPORT;
	case SOCK_DGRAM:
		if (!protocol || protocol == IPPROTO_UDP)
			return IPPROTO_UDP;
		return is_echo ? protocol : -EPROTONOSUPPORT;
	default:
		return -ESOCKTNOSUPPORT;
	}
}

static int ob_socket_create(struct net *net, struct socket *sock, int family, int protocol,
			    int kern)
{
	int number, error;

	protocol = ob_protocol_of(family, sock->type, protocol);
	if (protocol < 0)
		return protocol;
	number = ob_host_socket_open(ob_host, family, sock->type, protocol);
	if (number < 0)
		return number;
	error = ob_socket_attach(net, sock, family, protocol, number, kern);
	if (error)
		ob_host_socket_close(ob_host, number);
	return error;
}

static void ob_socket_free(struct sock *sk)
{
	u32 number = ob_socket_of(sk)->number;

	xa_erase(&ob_sockets, number);
	lock_sock(sk);
	sock_orphan(sk);
	release_sock(sk);
	ob_host_socket_close(ob_host, number);
	sock_put(sk);
}

void ob_socket_detach(struct socket *sock)
{
	struct sock *sk = sock->sk;

	sock->sk = NULL;
	ob_socket_free(sk);
}

/* ---- families ------------------------------------------------------------- */

static const struct net_proto_family *ob_own_inet, *ob_own_inet6;

/*
 * Code of the kernel that has datagrams or raw packets, such as a tunnel or a new network
 * namespace, takes them from a struct sock of Linux's own.
 */
static bool ob_is_hosts(const struct socket *sock, int kern)
{
	return READ_ONCE(ob_sockets_are_hosts) && (!kern || sock->type == SOCK_STREAM);
}

static int ob_create(struct net *net, struct socket *sock, const struct net_proto_family *own,
		     int protocol, int kern)
{
	return ob_is_hosts(sock, kern) ? ob_socket_create(net, sock, own->family, protocol, kern)
				       : own->create(net, sock, protocol, kern);
}

/*
 * An MPTCP socket opens sockets of TCP when it connects, and takes them for Linux's own. So no
 * MPTCP socket may be open while new sockets are the host's. The mutex keeps a switch away from the
 * start of such a socket.
 */
static DEFINE_MUTEX(ob_mptcp_mutex);
/* Counts all open sockets of MPTCP. NULL: none was ever opened. */
static struct proto *ob_mptcp;

static int ob_create_mptcp(struct net *net, struct socket *sock,
			   const struct net_proto_family *own, int kern)
{
	int error;

	mutex_lock(&ob_mptcp_mutex);
	error = ob_create(net, sock, own, IPPROTO_MPTCP, kern);
	if (!error)
		ob_mptcp = sock->sk->sk_prot;
	mutex_unlock(&ob_mptcp_mutex);
	return error;
}

static int ob_create_any(struct net *net, struct socket *sock, const struct net_proto_family *own,
			 int protocol, int kern)
{
	/* A raw socket may have the same number, and no counter. */
	if (protocol == IPPROTO_MPTCP && sock->type == SOCK_STREAM)
		return ob_create_mptcp(net, sock, own, kern);
	return ob_create(net, sock, own, protocol, kern);
}

static int ob_inet_create(struct net *net, struct socket *sock, int protocol, int kern)
{
	return ob_create_any(net, sock, ob_own_inet, protocol, kern);
}

static int ob_inet6_create(struct net *net, struct socket *sock, int protocol, int kern)
{
	return ob_create_any(net, sock, ob_own_inet6, protocol, kern);
}

static const struct net_proto_family ob_inet = {
	.family = PF_INET, .create = ob_inet_create, .owner = THIS_MODULE,
};

static const struct net_proto_family ob_inet6 = {
	.family = PF_INET6, .create = ob_inet6_create, .owner = THIS_MODULE,
};

int ob_socket_make_own(struct socket *sock)
{
	struct sock *old = sock->sk;
	const struct net_proto_family *own = old->sk_family == PF_INET ? ob_own_inet : ob_own_inet6;
	int error = own->create(sock_net(old), sock, old->sk_protocol, old->sk_kern_sock);

	if (error) {
		sock->sk = old;
		sock->ops = &ob_stream_ops;
		return error;
	}
	clear_bit(SOCK_CUSTOM_SOCKOPT, &sock->flags);
	sock->sk->sk_reuse = old->sk_reuse;
	sock->sk->sk_ipv6only = old->sk_ipv6only;
	ob_socket_free(old);
	return 0;
}

int __real_sock_register(const struct net_proto_family *family);
int __wrap_sock_register(const struct net_proto_family *family);

/* Dodge sock_register: new sockets of PF_INET and PF_INET6 may be the host's. */
int __wrap_sock_register(const struct net_proto_family *family)
{
	switch (family->family) {
	case PF_INET:
		ob_own_inet = family;
		return __real_sock_register(&ob_inet);
	case PF_INET6:
		ob_own_inet6 = family;
		return __real_sock_register(&ob_inet6);
	default:
		return __real_sock_register(family);
	}
}

/* ---- start and end of all ------------------------------------------------- */

/* With ob_mptcp_mutex. */
static bool ob_has_mptcp_sockets(void)
{
	return ob_mptcp && percpu_counter_sum_positive(ob_mptcp->sockets_allocated);
}

/* Answers may come by sockets of the host. */
static bool ob_has_host_sockets;

static long ob_sockets_switch(void *of_host)
{
	int error = 0;

	mutex_lock(&ob_mptcp_mutex);
	if (of_host && ob_has_mptcp_sockets())
		error = -EBUSY;
	else
		WRITE_ONCE(ob_sockets_are_hosts, of_host);
	mutex_unlock(&ob_mptcp_mutex);
	/* Sockets of the host stay when new ones are the kernel's own again. */
	if (of_host && !error)
		WRITE_ONCE(ob_has_host_sockets, true);
	return error;
}

int ob_kernel_sockets(u32 of_host)
{
	int error = of_host ? ob_host_sockets_begin(ob_host) : 0;

	return error ? error : ob_call(ob_sockets_switch, (void *)(unsigned long)of_host);
}

static int ob_sockets_poll(const u32 *word, u32 bits, u64 end)
{
	return READ_ONCE(ob_has_host_sockets) ? -EAGAIN : -ENODEV;
}

static void ob_sockets_close(void)
{
	ob_host_sockets_end(ob_host);
}

static struct ob_driver ob_sockets_driver = {
	.poll = ob_sockets_poll,
	.close = ob_sockets_close,
};

static int __init ob_sockets_init(void)
{
	unsigned int irq = irq_create_mapping(ob_irq_domain, OB_INTERRUPT_SOCKETS);
	int error = irq ? request_irq(irq, ob_sockets_interrupt, 0, "sockets", NULL) : -ENOMEM;

	ob_driver_register(&ob_sockets_driver);
	return error ? error : proto_register(&ob_proto, 1);
}
subsys_initcall(ob_sockets_init);
