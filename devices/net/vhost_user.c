// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network: "vhost-user:PATH", a virtio network device whose back-end is another process, as DPDK,
 * Open vSwitch, VPP and passt have one.
 *
 * The back-end maps the kernel's RAM and serves the driver's queues there. Nothing here touches a
 * frame. The kernel's notifications become writes to `kick`, the back-end's writes to `call` become
 * interrupts. The control queue alone is served here. Both descriptors of a queue live as long as
 * the device: a notification is never lost while the back-end is away.
 *
 * A write to `kick` blocks if the back-end wants that (bell.h). So a thread that notifies, with a
 * vCPU, sets a bit of `kicks`, and the thread of the device rings.
 *
 * One thread talks to the back-end:
 *
 *   state	the back-end	leaves by
 *   AWAY	none		connection -> IDLE; tried again and again
 *   IDLE	has no queues	the driver is ready (`running`) -> STARTED; lost -> AWAY
 *   STARTED	uses RAM	reset -> IDLE; lost -> AWAY
 *
 * In AWAY the interface has no link. A back-end that is back goes on at the last entry that the one
 * before has returned to the driver, so frames may be sent twice, and none stays behind.
 *
 * A reset clears `running`, then reads `in_ram` and `in_poll`. The thread, and one that polls, set
 * their word, then read `running`, before they read a queue or raise an interrupt. So either they
 * stay out, or the reset sees them and is tried again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fork_owner.h"
#include "raw.h"
#include "regions.h"
#include "../shared_fd.h"
#include "virtio.h"
#include "../virtqueue.h"
#include "bell.h"
#include "clock.h"
#include "control.h"
#include "report.h"
#include "vhost_user.h"

#define BIT(n) (1ull << (n))

#define QUEUE_SIZE 256
#define QUEUES_MOST (2 * OB_NET_QUEUES_MOST)

/* How long the thread waits before it tries to connect again. */
#define RETRY_LEAST 20000000ull
#define RETRY_MOST 1000000000ull
#define NSEC_PER_SEC 1000000000ull

/* Features that concern frames and queues: the driver has them if the back-end does. */
#define OF_BACKEND (BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_NET_F_MRG_RXBUF) | \
		    BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VIRTIO_RING_F_INDIRECT_DESC) | \
		    BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM) | \
		    BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) | \
		    BIT(VIRTIO_NET_F_GUEST_ECN) | BIT(VIRTIO_NET_F_GUEST_UFO) | \
		    BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) | \
		    BIT(VIRTIO_NET_F_HOST_ECN) | BIT(VIRTIO_NET_F_HOST_UFO) | \
		    BIT(VIRTIO_NET_F_GUEST_USO4) | BIT(VIRTIO_NET_F_GUEST_USO6) | \
		    BIT(VIRTIO_NET_F_HOST_USO))

enum state { AWAY, IDLE, STARTED };

struct queue {
	struct ob_virtqueue ring;	/* `returned`: what a thread that polls has seen */
	uint64_t addresses[3];		/* of descriptors, available and used; the kernel's own */
	struct ob_bell kick;		/* open from the start */
	int call;			/* an eventfd */
	uint16_t announced;		/* entry for which a thread that polls has interrupted */
	bool enabled;			/* that the back-end knows */
};

struct vhost_user {
	struct ob_virtio_device device;
	struct ob_host *host;
	struct ob_fork_owner owner;	/* of all descriptors */
	struct virtio_net_config config;
	char *path;
	uint32_t mtu;			/* 0: none was given */
	uint64_t features;		/* that the driver has accepted */
	uint32_t config_interrupt;	/* 0: the driver has none */
	bool running;			/* from start to reset; atomic */
	bool stopping;			/* atomic */
	bool in_ram, in_poll;		/* see above; atomic */
	bool has_queues;		/* STARTED, for threads that poll; atomic */
	uint32_t notifying;		/* threads in a notification; atomic */
	uint32_t control_calls;		/* notifications of the control queue; atomic */
	uint32_t pairs_wanted;		/* queue pairs that the driver uses; atomic */
	unsigned int pairs;
	struct ob_virtqueue_memory ram;	/* of all queues */
	struct ob_virtqueue control;
	struct queue queues[QUEUES_MOST];
	uint32_t kicks;			/* a bit for each queue that the driver notified; atomic */
	int kicked;			/* an eventfd that wakes the thread for `kicks` */
	int event;			/* the same for all else */
	uint64_t thread;
	uint32_t ended;			/* the thread is about to end; atomic */
	/* Of the thread. */
	struct ob_vhost_session session;
	enum state state;
	uint64_t pause;			/* before the next try to connect */
	char reported[OB_VHOST_REASON_BYTES];
};

_Static_assert(QUEUES_MOST <= 32, "kicks has a bit for each");

static struct vhost_user *vhost_of(struct ob_virtio_device *device)
{
	return (struct vhost_user *)device;
}

static bool load(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

static void store(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

static unsigned int queue_count(const struct vhost_user *v)
{
	return 2 * v->pairs;
}

/* It is no error if the counter is full: the descriptor is readable. */
static void event_set(int fd)
{
	uint64_t one = 1;

	(void)!raw_write(fd, &one, sizeof(one));
}

static void interrupt(struct vhost_user *v, uint32_t number)
{
	if (number)
		v->host->upcalls->interrupt(number);
}

/* ---- the thread: use of RAM --------------------------------------------- */

static bool enter(struct vhost_user *v, bool *word)
{
	store(word, true);
	if (load(&v->running))
		return true;
	store(word, false);
	return false;
}

static void interrupt_all(struct vhost_user *v)
{
	for (unsigned int i = 0; i < queue_count(v); i++)
		interrupt(v, v->queues[i].ring.interrupt);
}

/* Tells the driver that the link is down or up. */
static void set_link(struct vhost_user *v, bool is_up)
{
	uint16_t status = is_up ? VIRTIO_NET_S_LINK_UP : 0;

	__atomic_store_n(&v->config.status, status, __ATOMIC_SEQ_CST);
	if (v->state == STARTED) {
		interrupt(v, v->config_interrupt);
	} else if (enter(v, &v->in_ram)) {
		interrupt(v, v->config_interrupt);
		store(&v->in_ram, false);
	}
}

static void leave_queues(struct vhost_user *v)
{
	store(&v->has_queues, false);
	v->state = IDLE;
	store(&v->in_ram, false);
}

static void report(struct vhost_user *v, const char *text)
{
	char line[sizeof(v->reported) + 160];

	/* The same reason comes with each try to connect. */
	if (!strcmp(text, v->reported))
		return;
	snprintf(v->reported, sizeof(v->reported), "%s", text);
	snprintf(line, sizeof(line), "vhost-user %.100s: %s; the interface has no link", v->path,
		 text);
	ob_net_warn(v->host, line);
}

static void lose(struct vhost_user *v)
{
	bool had = v->state != AWAY;

	ob_vhost_close(&v->session);
	if (v->state == STARTED)
		leave_queues(v);
	v->state = AWAY;
	if (load(&v->stopping))
		return;
	report(v, v->session.reason);
	if (!had)
		return;
	v->pause = RETRY_LEAST;
	set_link(v, false);
}

/* ---- the thread: queues ------------------------------------------------- */

static bool is_wanted(struct vhost_user *v, unsigned int index)
{
	return index / 2 < __atomic_load_n(&v->pairs_wanted, __ATOMIC_SEQ_CST);
}

static uint16_t used_index(const struct queue *queue)
{
	return __atomic_load_n(&queue->ring.used->idx, __ATOMIC_SEQ_CST);
}

static struct ob_vhost_queue describe_queue(struct vhost_user *v, unsigned int index)
{
	struct queue *queue = &v->queues[index];

	queue->enabled = is_wanted(v, index);
	return (struct ob_vhost_queue){
		.rings = {
			.index = index,
			.descriptors = queue->addresses[0],
			.available = queue->addresses[1],
			.used = queue->addresses[2],
		},
		.size = queue->ring.size,
		.base = used_index(queue),
		.kick = queue->kick.fd,
		.call = queue->call,
		.enabled = queue->enabled,
	};
}

/*
 * The back-end looks at each queue once, and so does the driver: the one before may have ended
 * between a change of a queue and its notification.
 */
static void start_queues(struct vhost_user *v)
{
	const struct ob_posix_region *ram = &v->host->regions[OB_REGION_RAM];
	struct ob_vhost_region region = { OB_VIRTIO_BASE, ram->size, ram->address, 0 };
	struct ob_vhost_queue queues[QUEUES_MOST];

	if (!enter(v, &v->in_ram))
		return;
	for (unsigned int i = 0; i < queue_count(v); i++) {
		if (!v->queues[i].ring.memory) {
			/* The driver is ready without all queues: there is nothing to serve. */
			store(&v->in_ram, false);
			return;
		}
		queues[i] = describe_queue(v, i);
	}
	v->state = STARTED;
	if (ob_vhost_start(&v->session, v->features & v->session.features, &region, v->host->ram.fd,
			   queues, queue_count(v))) {
		lose(v);
		return;
	}
	store(&v->has_queues, true);
	for (unsigned int i = 0; i < queue_count(v); i++)
		ob_bell_ring(&v->queues[i].kick);
	interrupt_all(v);
}

static void stop_queues(struct vhost_user *v)
{
	store(&v->has_queues, false);
	if (ob_vhost_stop(&v->session, queue_count(v)))
		lose(v);
	else
		leave_queues(v);
}

/* Follows the number of queue pairs that the driver uses. */
static void enable_queues(struct vhost_user *v)
{
	for (unsigned int i = 0; i < queue_count(v); i++) {
		bool wanted = is_wanted(v, i);

		if (v->queues[i].enabled == wanted)
			continue;
		if (ob_vhost_enable(&v->session, i, wanted)) {
			lose(v);
			return;
		}
		v->queues[i].enabled = wanted;
	}
}

/* ---- the thread: the connection ----------------------------------------- */

static void connect_again(struct vhost_user *v)
{
	uint64_t needed = v->device.info.features & OF_BACKEND;
	int error = ob_vhost_connect(&v->session, v->path, v->mtu);

	if (!error && (needed & ~v->session.features))
		error = ob_vhost_fail(&v->session, -EPROTO,
				      "the back-end that is back lacks the features %#llx",
				      (unsigned long long)(needed & ~v->session.features));
	if (!error && v->session.pairs < v->pairs)
		error = ob_vhost_fail(&v->session, -EPROTO,
				      "the back-end that is back has %u queue pairs, not %u",
				      v->session.pairs, v->pairs);
	if (error) {
		v->pause = v->pause * 2 < RETRY_MOST ? v->pause * 2 : RETRY_MOST;
		lose(v);
		return;
	}
	v->state = IDLE;
	*v->reported = '\0';
	start_queues(v);
	if (v->state == AWAY)
		return;
	set_link(v, true);
}

static void follow(struct vhost_user *v)
{
	if (v->state == AWAY)
		connect_again(v);
	if (v->state == STARTED && !load(&v->running))
		stop_queues(v);
	if (v->state == IDLE && load(&v->running))
		start_queues(v);
	if (v->state == STARTED)
		enable_queues(v);
}

/* The back-end has used entries: interrupts, unless a thread that polls has done it already. */
static void take_call(struct vhost_user *v, struct queue *queue)
{
	ob_shared_event_clear(queue->call);
	if (v->state != STARTED)
		return;
	if (used_index(queue) != __atomic_load_n(&queue->announced, __ATOMIC_SEQ_CST))
		interrupt(v, queue->ring.interrupt);
}

static void ring_kicks(struct vhost_user *v)
{
	uint32_t kicks = __atomic_exchange_n(&v->kicks, 0, __ATOMIC_SEQ_CST);

	for (; kicks; kicks &= kicks - 1)
		ob_bell_ring(&v->queues[__builtin_ctz(kicks)].kick);
}

/* Without a request the back-end sends nothing: it has closed the connection, or is not right. */
static void take_message(struct vhost_user *v)
{
	char byte;
	ssize_t got = raw_recv(v->session.socket, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	ob_vhost_fail(&v->session, -EPIPE, got > 0 ? "the back-end sent a message unasked"
						   : "the back-end closed the connection");
	lose(v);
}

/* Sleeps until there is work. */
static void rest(struct vhost_user *v)
{
	struct pollfd fds[3 + QUEUES_MOST];
	unsigned int count = queue_count(v);
	struct timespec pause = {
		.tv_sec = (time_t)(v->pause / NSEC_PER_SEC),
		.tv_nsec = (long)(v->pause % NSEC_PER_SEC),
	};

	fds[0] = (struct pollfd){ .fd = v->event, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = v->session.socket, .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = v->kicked, .events = POLLIN };
	for (unsigned int i = 0; i < count; i++)
		fds[3 + i] = (struct pollfd){ .fd = v->queues[i].call, .events = POLLIN };
	if (raw_ppoll(fds, 3 + count, v->state == AWAY ? &pause : NULL) <= 0)
		return;
	if (fds[0].revents)
		ob_shared_event_clear(v->event);
	if (fds[2].revents) {
		ob_shared_event_clear(v->kicked);
		ring_kicks(v);
	}
	for (unsigned int i = 0; i < count; i++)
		if (fds[3 + i].revents)
			take_call(v, &v->queues[i]);
	if (fds[1].revents)
		take_message(v);
}

static void work(void *argument)
{
	struct vhost_user *v = argument;

	while (!load(&v->stopping)) {
		follow(v);
		rest(v);
	}
	/* The request to stop the queues is no longer given up. */
	v->session.aborting = NULL;
	if (v->state == STARTED)
		stop_queues(v);
	ob_vhost_close(&v->session);
	__atomic_store_n(&v->ended, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(v->host, &v->ended, 1);
}

/* ---- the calls of the kernel -------------------------------------------- */

static void read_config(struct ob_virtio_device *device, uint32_t offset, void *bytes,
			uint32_t size)
{
	memcpy(bytes, (const char *)&vhost_of(device)->config + offset, size);
}

static int set_features(struct ob_virtio_device *device, uint64_t features)
{
	if (!(features & BIT(VIRTIO_F_VERSION_1)))
		return -EINVAL;
	vhost_of(device)->features = features;
	return 0;
}

static bool is_control(const struct vhost_user *v, uint32_t index)
{
	return index == queue_count(v);
}

static int set_queue(struct ob_virtio_device *device, uint32_t index,
		     const struct ob_virtio_queue *from)
{
	struct vhost_user *v = vhost_of(device);
	struct ob_virtqueue *ring = is_control(v, index) ? &v->control : &v->queues[index].ring;
	int error;

	v->ram = ob_virtqueue_ram(v->host);
	error = ob_virtqueue_set(ring, &v->ram, from);
	ring->event_index = v->features & BIT(VIRTIO_RING_F_EVENT_IDX);
	if (error || is_control(v, index))
		return error;
	v->queues[index].announced = 0;
	v->queues[index].addresses[0] = (uint64_t)ring->descriptors;
	v->queues[index].addresses[1] = (uint64_t)ring->available;
	v->queues[index].addresses[2] = (uint64_t)ring->used;
	return 0;
}

static int start(struct ob_virtio_device *device, uint32_t config_interrupt)
{
	struct vhost_user *v = vhost_of(device);

	v->config_interrupt = config_interrupt;
	__atomic_store_n(&v->pairs_wanted, 1, __ATOMIC_SEQ_CST);
	store(&v->running, true);
	event_set(v->event);
	return 0;
}

static int set_pairs(void *context, unsigned int pairs)
{
	struct vhost_user *v = context;

	__atomic_store_n(&v->pairs_wanted, pairs, __ATOMIC_SEQ_CST);
	event_set(v->event);
	return 0;
}

/* A thread that comes while another one works on the queue only counts itself. */
static void control_all(struct vhost_user *v)
{
	uint32_t calls = __atomic_add_fetch(&v->control_calls, 1, __ATOMIC_SEQ_CST);

	if (calls != 1)
		return;
	do {
		calls = __atomic_load_n(&v->control_calls, __ATOMIC_SEQ_CST);
		if (!load(&v->running))
			continue;
		ob_net_control(&v->control, v->pairs, set_pairs, v);
		if (ob_virtqueue_wants_interrupt(&v->control))
			interrupt(v, v->control.interrupt);
	} while (!__atomic_compare_exchange_n(&v->control_calls, &calls, 0, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

static void notify_back_end(struct vhost_user *v, uint32_t index)
{
	/* A bit that is there already has woken the thread. */
	if (!__atomic_fetch_or(&v->kicks, 1u << index, __ATOMIC_SEQ_CST))
		event_set(v->kicked);
}

static void notify(struct ob_virtio_device *device, uint32_t index)
{
	struct vhost_user *v = vhost_of(device);

	__atomic_add_fetch(&v->notifying, 1, __ATOMIC_SEQ_CST);
	if (is_control(v, index))
		control_all(v);
	else
		notify_back_end(v, index);
	__atomic_sub_fetch(&v->notifying, 1, __ATOMIC_SEQ_CST);
}

static int reset(struct ob_virtio_device *device)
{
	struct vhost_user *v = vhost_of(device);

	store(&v->running, false);
	event_set(v->event);
	for (unsigned int i = 0; i < queue_count(v); i++)
		ob_bell_release(&v->queues[i].kick);
	if (load(&v->in_ram) || load(&v->in_poll) ||
	    __atomic_load_n(&v->control_calls, __ATOMIC_SEQ_CST))
		return -EAGAIN;
	for (unsigned int i = 0; i < queue_count(v); i++)
		v->queues[i].ring = (struct ob_virtqueue){ .memory = NULL };
	v->control = (struct ob_virtqueue){ .memory = NULL };
	v->config_interrupt = 0;
	return 0;
}

static void look(struct vhost_user *v, struct queue *queue)
{
	queue->ring.returned = used_index(queue);
	if (!ob_virtqueue_wants_interrupt(&queue->ring))
		return;
	__atomic_store_n(&queue->announced, queue->ring.returned, __ATOMIC_SEQ_CST);
	interrupt(v, queue->ring.interrupt);
}

/* The back-end's own notification wakes the thread, also if nobody polls. */
static void poll_queues(struct ob_virtio_device *device, bool is_last)
{
	struct vhost_user *v = vhost_of(device);

	(void)is_last;
	if (!enter(v, &v->in_poll))
		return;
	if (load(&v->has_queues))
		for (unsigned int i = 0; i < queue_count(v); i++)
			look(v, &v->queues[i]);
	store(&v->in_poll, false);
}

/* ---- open and close ----------------------------------------------------- */

static void close_descriptors(struct ob_fork_owner *owner)
{
	struct vhost_user *v =
		(struct vhost_user *)((char *)owner - offsetof(struct vhost_user, owner));

	ob_vhost_close(&v->session);
	for (unsigned int i = 0; i < QUEUES_MOST; i++) {
		ob_fork_owner_drop(&v->queues[i].kick.fd);
		ob_fork_owner_drop(&v->queues[i].call);
	}
	ob_fork_owner_drop(&v->event);
	ob_fork_owner_drop(&v->kicked);
}

static void release(struct vhost_user *v)
{
	close_descriptors(&v->owner);
	ob_fork_owner_remove(&v->owner);
	free(v->path);
	free(v);
}

/* False: the back-end keeps the thread. */
static bool end_thread(struct vhost_user *v)
{
	struct ob_bell *bells[QUEUES_MOST];

	for (unsigned int i = 0; i < queue_count(v); i++)
		bells[i] = &v->queues[i].kick;
	store(&v->stopping, true);
	event_set(v->event);
	if (!ob_bell_wait(bells, queue_count(v), v->host, &v->ended)) {
		ob_posix_leave_behind(v->host);
		return false;
	}
	ob_host_thread_join(v->host, v->thread);
	return true;
}

/* A client that the halt has left in the kernel may be in notify(): then the memory stays. */
static void close_device(struct ob_virtio_device *device)
{
	struct vhost_user *v = vhost_of(device);

	store(&v->running, false);
	if (end_thread(v) && !__atomic_load_n(&v->notifying, __ATOMIC_SEQ_CST))
		release(v);
}

/* The child has closed the descriptors. */
static void forked(struct ob_virtio_device *device)
{
	struct vhost_user *v = vhost_of(device);

	free(v->path);
	free(v);
}

static const struct ob_virtio_operations operations = {
	.read = read_config,
	.features = set_features,
	.queue = set_queue,
	.start = start,
	.notify = notify,
	.reset = reset,
	.poll = poll_queues,
	.close = close_device,
	.forked = forked,
};

static struct vhost_user *new_vhost_user(struct ob_host *host, const struct ob_platform_net *net)
{
	struct vhost_user *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->device.operations = &operations;
	v->device.is_polled = true;
	v->host = host;
	v->mtu = net->mtu;
	v->pairs = net->queues ? net->queues : 1;
	v->session.socket = -1;
	v->session.abort = -1;
	for (unsigned int i = 0; i < QUEUES_MOST; i++)
		v->queues[i].kick.fd = v->queues[i].call = -1;
	v->event = v->kicked = -1;
	v->path = strdup(net->target);
	if (!v->path) {
		free(v);
		return NULL;
	}
	ob_fork_owner_add(&v->owner, close_descriptors);
	return v;
}

static int open_events(struct vhost_user *v)
{
	v->event = raw_eventfd();
	v->kicked = raw_eventfd();
	if (v->event < 0 || v->kicked < 0)
		return -errno;
	for (unsigned int i = 0; i < queue_count(v); i++) {
		v->queues[i].kick.fd = raw_eventfd();
		v->queues[i].call = raw_eventfd();
		if (v->queues[i].kick.fd < 0 || v->queues[i].call < 0)
			return -errno;
		ob_bell_open(&v->queues[i].kick);
	}
	return 0;
}

static void describe(struct vhost_user *v, const struct ob_platform_net *net)
{
	struct ob_virtio_info *info = &v->device.info;

	info->type = VIRTIO_ID_NET;
	info->queue_size = QUEUE_SIZE;
	info->queue_count = queue_count(v);
	info->config_size = sizeof(v->config);
	info->features = (v->session.features & OF_BACKEND) | BIT(VIRTIO_NET_F_MAC) |
			 BIT(VIRTIO_NET_F_STATUS);
	memcpy(v->config.mac, net->mac, sizeof(v->config.mac));
	v->config.status = VIRTIO_NET_S_LINK_UP;
	v->config.max_virtqueue_pairs = (uint16_t)v->pairs;
	if (v->mtu) {
		info->features |= BIT(VIRTIO_NET_F_MTU);
		v->config.mtu = (uint16_t)v->mtu;
	}
	if (v->pairs > 1) {
		info->features |= BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_MQ);
		info->queue_count++;
	}
}

static int connect_first(struct vhost_user *v)
{
	int error = ob_vhost_connect(&v->session, v->path, v->mtu);

	if (error || v->session.pairs >= v->pairs)
		return error;
	return ob_vhost_fail(&v->session, -EINVAL, "queues=%u: the back-end has %u queue pairs",
			     v->pairs, v->session.pairs);
}

static int start_thread(struct vhost_user *v)
{
	int error = open_events(v);

	v->session.abort = v->event;
	v->session.aborting = &v->stopping;
	v->state = IDLE;
	if (!error)
		error = ob_host_thread_create(v->host, work, v, "outboard-vhost", &v->thread);
	if (error)
		ob_vhost_fail(&v->session, error, "the host refuses another thread or descriptor "
			      "(%s); raise the limits of the process", strerror(-error));
	return error;
}

/* Other processes cannot map pages that are not in the file of RAM. */
static int check_memory(struct ob_host *host, char *error, size_t size)
{
	if (host->ram.is_shared)
		return 0;
	snprintf(error, size, "vhost-user: the back-end cannot map this kernel's memory; boot the "
		 "kernel with OB_SHARED_MEMORY");
	return -EINVAL;
}

int ob_vhost_user_open(struct ob_host *host, const struct ob_platform_net *net,
		       struct ob_virtio_device **device, char *error, size_t error_size)
{
	struct vhost_user *v;
	int result = check_memory(host, error, error_size);

	if (result)
		return result;
	v = new_vhost_user(host, net);
	if (!v) {
		snprintf(error, error_size, "vhost-user: out of memory");
		return -ENOMEM;
	}
	result = connect_first(v);
	if (!result) {
		describe(v, net);
		result = start_thread(v);
	}
	if (result) {
		snprintf(error, error_size, "vhost-user %s: %s", net->target, v->session.reason);
		release(v);
		return result;
	}
	*device = &v->device;
	return 0;
}
