// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages of the host's sockets.
 *
 * The host copies straight from and to the memory that an iterator describes, whether a client's or
 * the kernel's: RAM, the program's own memory, stacks. Memory of windows (vmalloc, modules, mmap of
 * clients) may have no mapping in the host now, and the host would lose a datagram that it cannot
 * store. There, and where the host reports EFAULT, the bytes go through a buffer.
 */
#include <linux/iov_iter.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <asm/host.h>
#include <asm/page.h>
#include "sockets.h"

/* Most bytes of a stream in one call of the host: its copy keeps the vCPU. */
#define OB_STREAM_BYTES (256u << 10)
/* Bytes of a stream that go through a buffer at a time. */
#define OB_BUFFER_BYTES (16u << 10)
/* Largest datagram. */
#define OB_DATAGRAM_BYTES 65535u
#define OB_CONTROL_BYTES 512

#define OB_SEND_FLAGS (MSG_OOB | MSG_DONTROUTE | MSG_MORE | MSG_CONFIRM | MSG_EOR | MSG_PROBE)
#define OB_RECEIVE_FLAGS (MSG_OOB | MSG_PEEK | MSG_TRUNC | MSG_ERRQUEUE)
#define OB_RESULT_FLAGS (MSG_OOB | MSG_TRUNC | MSG_CTRUNC | MSG_ERRQUEUE | MSG_EOR)

/* ---- memory --------------------------------------------------------------- */

struct ob_parts {
	struct ob_socket_part list[OB_SOCKET_PARTS];
	u32 count;
};

static bool ob_overlaps(unsigned long first, unsigned long size, unsigned long from,
			unsigned long to)
{
	return first < to && first + size > from;
}

/* Is a mapping of this memory in the host more than a cache? */
static bool ob_is_reachable(const void *address, size_t size)
{
	unsigned long first = (unsigned long)address;

	return !ob_overlaps(first, size, ob_layout.vmalloc, ob_layout.vmalloc_end) &&
	       !ob_overlaps(first, size, ob_layout.modules, ob_layout.modules_end) &&
	       !ob_overlaps(first, size, ob_layout.client, ob_layout.client_end);
}

/* Returns the bytes that are not taken. */
static size_t ob_add_part(void *address, size_t progress, size_t size, void *argument, void *unused)
{
	struct ob_parts *parts = argument;

	if (parts->count == OB_SOCKET_PARTS || !ob_is_reachable(address, size))
		return size;
	parts->list[parts->count++] = (struct ob_socket_part){ address, size };
	return 0;
}

static size_t ob_add_client_part(void __user *address, size_t progress, size_t size,
				 void *argument, void *unused)
{
	/* An address of a program is none of the host's (V16): its data go through a buffer. */
	if (current->thread.apart)
		return size;
	return ob_add_part((void __force *)address, progress, size, argument, unused);
}

/* Describes the next `size` bytes. Returns how many bytes are described. */
static size_t ob_describe(const struct iov_iter *iter, size_t size, struct ob_parts *parts)
{
	struct iov_iter copy = *iter;

	parts->count = 0;
	return iterate_and_advance2(&copy, size, parts, NULL, ob_add_client_part, ob_add_part);
}

/* ---- sending -------------------------------------------------------------- */

static int64_t ob_send_parts(struct ob_socket *socket, struct msghdr *msg,
			     struct ob_socket_part *parts, u32 count, u32 flags)
{
	struct ob_socket_message message = {
		.parts = parts,
		.part_count = count,
		.address = msg->msg_name,
		.address_size = msg->msg_name ? msg->msg_namelen : 0,
		.control = msg->msg_controllen ? msg->msg_control : NULL,
		.control_size = msg->msg_controllen,
		.flags = flags,
	};

	return ob_host_socket_send(ob_host, socket->number, &message);
}

static int64_t ob_send_copy(struct ob_socket *socket, struct msghdr *msg, size_t size, u32 flags)
{
	struct iov_iter copy = msg->msg_iter;
	struct ob_socket_part part = { .length = size };
	int64_t result;

	part.address = kmalloc(max_t(size_t, size, 1), socket->sk.sk_allocation);
	if (!part.address)
		return -ENOBUFS;
	if (copy_from_iter_full(part.address, size, &copy))
		result = ob_send_parts(socket, msg, &part, 1, flags);
	else
		result = -EFAULT;
	kfree(part.address);
	return result;
}

/* Sends a datagram, or some bytes of a stream. */
static int64_t ob_send_some(struct ob_socket *socket, struct msghdr *msg, u32 flags)
{
	size_t left = msg_data_left(msg), size = left, described;
	bool is_stream = ob_is_stream(&socket->sk);
	struct ob_parts parts;
	int64_t result;

	if (is_stream)
		size = min(size, OB_STREAM_BYTES);
	if (size < left)
		flags |= MSG_MORE;
	described = ob_describe(&msg->msg_iter, size, &parts);
	if (described == size || (is_stream && described)) {
		result = ob_send_parts(socket, msg, parts.list, parts.count,
				 described < left ? flags | (is_stream ? MSG_MORE : 0) : flags);
		if (result != -EFAULT)
			return result;
	}
	if (is_stream)
		size = min(size, OB_BUFFER_BYTES);
	else if (size > OB_DATAGRAM_BYTES)
		return -EMSGSIZE;
	return ob_send_copy(socket, msg, size, size < left && is_stream ? flags | MSG_MORE : flags);
}

/* The host has no room: kernel code that asks the sock for room finds none, until the event. */
static void ob_note_full(struct ob_socket *socket)
{
	struct sock *sk = &socket->sk;

	WRITE_ONCE(sk->sk_wmem_queued, READ_ONCE(sk->sk_sndbuf));
	ob_socket_watch(socket, OB_SOCKET_OUT);
}

/* A control message that names files would have the host's descriptors. */
static bool ob_is_control_allowed(const struct msghdr *msg)
{
	struct cmsghdr *control;

	for_each_cmsghdr(control, (struct msghdr *)msg) {
		if (!CMSG_OK(msg, control))
			return false;
		if (control->cmsg_level != SOL_IP && control->cmsg_level != SOL_IPV6 &&
		    control->cmsg_level != SOL_UDP)
			return false;
	}
	return true;
}

int ob_socket_sendmsg(struct socket *sock, struct msghdr *msg, size_t size)
{
	struct sock *sk = sock->sk;
	struct ob_socket *socket = ob_socket_of(sk);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	long timeout = sock_sndtimeo(sk, msg->msg_flags & MSG_DONTWAIT);
	u32 flags = msg->msg_flags & OB_SEND_FLAGS;
	bool is_waiting = false;
	size_t sent = 0;
	int64_t result;

	if (msg->msg_controllen && !ob_is_control_allowed(msg))
		return -EINVAL;
	if (sk->sk_kern_sock)
		ob_socket_follow(socket);
	if (!ob_is_stream(sk) && READ_ONCE(sk->sk_err))
		return sock_error(sk);
	if (ob_socket_has_cork(socket)) {
		flags |= MSG_MORE;
		socket->is_corked = true;
	}
	for (;;) {
		result = ob_send_some(socket, msg, flags);
		if (result > 0) {
			iov_iter_advance(&msg->msg_iter, result);
			sent += result;
		}
		if (result >= 0) {
			if (!ob_is_stream(sk) || !msg_data_left(msg))
				break;
			cond_resched();
			continue;
		}
		if (result != -EAGAIN)
			break;
		if (READ_ONCE(sk->sk_err)) {
			result = -EPIPE;
			break;
		}
		ob_note_full(socket);
		if (!is_waiting)
			add_wait_queue(sk_sleep(sk), &wait);
		is_waiting = true;
		result = ob_socket_wait(socket, &wait, OB_SOCKET_OUT, &timeout);
		if (result)
			break;
	}
	if (is_waiting)
		remove_wait_queue(sk_sleep(sk), &wait);
	if (sent || !result)
		return sent;
	return ob_is_stream(sk) ? sk_stream_error(sk, msg->msg_flags, result) : result;
}

/* ---- receiving ------------------------------------------------------------ */

/* Gives the caller the control messages of the host. */
static void ob_put_controls(struct msghdr *msg, void *controls, size_t size)
{
	struct msghdr host = { .msg_control = controls, .msg_controllen = size };
	struct cmsghdr *control;

	for_each_cmsghdr(control, &host) {
		if (!CMSG_OK(&host, control))
			break;
		put_cmsg(msg, control->cmsg_level, control->cmsg_type,
			 control->cmsg_len - sizeof(*control), CMSG_DATA(control));
	}
}

static int64_t ob_receive_parts(struct ob_socket *socket, struct msghdr *msg,
				struct ob_socket_part *parts, u32 count, u32 flags)
{
	char controls[OB_CONTROL_BYTES] __aligned(8);
	struct ob_socket_message message = {
		.parts = parts,
		.part_count = count,
		.address = msg->msg_name,
		.address_size = msg->msg_name ? sizeof(struct sockaddr_storage) : 0,
		.control = msg->msg_controllen ? controls : NULL,
		.control_size = sizeof(controls),
		.flags = flags,
	};
	int64_t result = ob_host_socket_receive(ob_host, socket->number, &message);

	if (result < 0)
		return result;
	if (msg->msg_name)
		msg->msg_namelen = message.address_size;
	msg->msg_flags |= message.flags & OB_RESULT_FLAGS;
	if (message.control && message.control_size)
		ob_put_controls(msg, controls, min(message.control_size, OB_CONTROL_BYTES));
	return result;
}

/*
 * Drops bytes of a stream: with MSG_TRUNC the host stores none. They may be among those that the
 * caller has got by a peek.
 */
static int64_t ob_receive_discard(struct ob_socket *socket, struct msghdr *msg, size_t size,
				  u32 flags)
{
	struct ob_socket_part part = { .address = socket, .length = size };

	return ob_receive_parts(socket, msg, &part, 1, flags | MSG_TRUNC);
}

/* Returns the bytes that the caller has got. */
static int64_t ob_copy_out(struct msghdr *msg, const void *bytes, size_t size)
{
	struct iov_iter copy = msg->msg_iter;
	size_t done = copy_to_iter(bytes, size, &copy);

	return done || !size ? done : -EFAULT;
}

static int64_t ob_receive_datagram_copy(struct ob_socket *socket, struct msghdr *msg,
					struct ob_socket_part *part, u32 flags)
{
	int64_t got = ob_receive_parts(socket, msg, part, 1, flags);
	size_t stored = got > 0 ? min_t(size_t, got, part->length) : 0;

	return ob_copy_out(msg, part->address, stored) == stored ? got : -EFAULT;
}

/* The host drops only what the caller has got. */
static int64_t ob_receive_stream_copy(struct ob_socket *socket, struct msghdr *msg,
				      struct ob_socket_part *part, u32 flags)
{
	int64_t got = ob_receive_parts(socket, msg, part, 1, flags | MSG_PEEK);

	if (got > 0)
		got = ob_copy_out(msg, part->address, got);
	if (got > 0 && !(flags & MSG_PEEK))
		got = ob_receive_discard(socket, msg, got, flags);
	return got;
}

static int64_t ob_receive_copy(struct ob_socket *socket, struct msghdr *msg, size_t size, u32 flags)
{
	struct ob_socket_part part = { .length = size };
	int64_t got;

	part.address = kmalloc(max_t(size_t, size, 1), socket->sk.sk_allocation);
	if (!part.address)
		return -ENOBUFS;
	got = ob_is_stream(&socket->sk) ? ob_receive_stream_copy(socket, msg, &part, flags)
					: ob_receive_datagram_copy(socket, msg, &part, flags);
	kfree(part.address);
	return got;
}

/* Receives a datagram, or some bytes of a stream. */
static int64_t ob_receive_once(struct ob_socket *socket, struct msghdr *msg, u32 flags)
{
	bool is_stream = ob_is_stream(&socket->sk);
	size_t size = msg_data_left(msg), described;
	struct ob_parts parts;
	int64_t result;

	if (is_stream)
		size = min(size, OB_STREAM_BYTES);
	if (is_stream && iov_iter_is_discard(&msg->msg_iter))
		return ob_receive_discard(socket, msg, size, flags);
	described = iov_iter_is_discard(&msg->msg_iter) ? 0 :
		    ob_describe(&msg->msg_iter, size, &parts);
	if (described == size || (is_stream && described)) {
		result = ob_receive_parts(socket, msg, parts.list, parts.count, flags);
		if (result != -EFAULT)
			return result;
	}
	size = min(size, is_stream ? OB_BUFFER_BYTES : OB_DATAGRAM_BYTES);
	return ob_receive_copy(socket, msg, size, flags);
}

/* Two threads that receive from a stream do not come between a peek and its end. */
static int64_t ob_receive_some(struct ob_socket *socket, struct msghdr *msg, u32 flags)
{
	int64_t result;

	if (!ob_is_stream(&socket->sk))
		return ob_receive_once(socket, msg, flags);
	mutex_lock(&socket->receiving);
	result = ob_receive_once(socket, msg, flags);
	mutex_unlock(&socket->receiving);
	return result;
}

/* The result of a call that has received nothing: `result` is what the host said last. */
static int ob_receive_error(struct sock *sk, int64_t result)
{
	if (READ_ONCE(sk->sk_err) && (result == -EAGAIN || (!result && ob_is_stream(sk))))
		return sock_error(sk);
	return result;
}

int ob_socket_recvmsg(struct socket *sock, struct msghdr *msg, size_t size, int flags)
{
	struct sock *sk = sock->sk;
	struct ob_socket *socket = ob_socket_of(sk);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	long timeout = sock_rcvtimeo(sk, flags & MSG_DONTWAIT);
	size_t target = ob_is_stream(sk) ? sock_rcvlowat(sk, flags & MSG_WAITALL, size) : 0;
	bool is_waiting = false;
	size_t received = 0;
	int64_t result;

	for (;;) {
		result = ob_receive_some(socket, msg, flags & OB_RECEIVE_FLAGS);
		if (result > 0) {
			received += result;
			iov_iter_advance(&msg->msg_iter, min_t(size_t, result, msg_data_left(msg)));
			if (received >= target || flags & MSG_PEEK || !msg_data_left(msg))
				break;
			continue;
		}
		if (result != -EAGAIN || flags & MSG_ERRQUEUE || READ_ONCE(sk->sk_err))
			break;
		if (!is_waiting)
			add_wait_queue(sk_sleep(sk), &wait);
		is_waiting = true;
		result = ob_socket_wait(socket, &wait,
					flags & MSG_OOB ? OB_SOCKET_PRI
							: OB_SOCKET_IN | OB_SOCKET_RDHUP,
					&timeout);
		if (result)
			break;
	}
	if (is_waiting)
		remove_wait_queue(sk_sleep(sk), &wait);
	/*
	 * Code of the kernel, or epoll, expects an event whenever more comes: also if this call got
	 * all that it asked for, and no other call follows before the event.
	 */
	if (result == -EAGAIN || (received && ob_is_stream(sk)))
		ob_socket_watch_for_others(socket, OB_SOCKET_IN | OB_SOCKET_RDHUP);
	return received ?: ob_receive_error(sk, result);
}
