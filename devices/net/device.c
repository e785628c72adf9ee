// SPDX-License-Identifier: GPL-2.0-only
/*
 * The virtio network device (virtio specification 1.2, section 5.1): between the kernel's driver
 * and a back-end (backend.h).
 *
 * Queue 2n receives, queue 2n + 1 sends. With more than one pair, the last queue is for control.
 *
 * Sending: the kernel's notification runs the back-end on the calling thread. A thread that comes
 * while another one works on the same queue only counts itself in `calls`, and the first one looks
 * again.
 *
 * Receiving: a thread of the back-end enters RAM by ob_net_receive_begin(), and leaves it by
 * ob_net_receive_end(). It sets `in_ram`, then reads `running`. A reset clears `running`, then
 * reads `in_ram`. So either the thread stays out, or the reset sees it and is tried again.
 *
 * The kernel of this process accepts all that a back-end offers, and gets frames as they are. Any
 * other driver has `segments`: ob_net_receive() then looks at each frame's header.
 */
#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "virtio.h"
#include "../virtqueue.h"
#include "backend.h"
#include "control.h"
#include "device.h"
#include "pieces.h"
#include "segment.h"

_Static_assert(sizeof(struct virtio_net_hdr_v1) == OB_NET_HEADER_BYTES, "header of a frame");

#define QUEUE_SIZE 256

/* Buffers that one received frame may take: 64 KB in pieces of 1 KB. */
#define BUFFERS_MOST OB_NET_PIECES_MOST

#define BIT(n) (1ull << (n))

/* A buffer for received frames. A frame may need several. */
struct buffer {
	uint16_t head;
	int pieces;
	uint32_t length;
};

struct queue {
	struct ob_virtqueue ring;
	/* Sending and control: threads that have notified and not been served; atomic. */
	uint32_t calls;
	/* Receiving: a thread is in RAM; atomic. */
	uint32_t in_ram;
	/* Receiving: counts notifications, and changes of `running`; atomic. */
	uint32_t arrivals;
	/* Receiving: buffers that were taken, the oldest first, and their pieces. */
	struct buffer buffers[BUFFERS_MOST];
	struct iovec pieces[OB_NET_PIECES_MOST];
	int buffer_count;
	int piece_count;
	size_t room;			/* bytes in all of them */
	size_t lacking;			/* that the last -ENOBUFS waits for */
};

struct ob_net_port {
	struct ob_virtio_device device;
	struct ob_host *host;
	struct ob_net_backend *backend;
	struct ob_net_capture *capture;	/* NULL: none */
	struct virtio_net_config config;
	uint64_t features;		/* that the driver has accepted */
	uint32_t frame_most;		/* bytes of the largest frame to receive, with its header */
	/*
	 * NULL: the driver takes all frames. Of the thread that receives: a back-end with several
	 * queues has the host adapt its frames, and does not call ob_net_receive().
	 */
	struct ob_net_segments *segments;
	struct ob_net_segments *room_for_segments;	/* its pages are allocated when used */
	uint64_t dropped;		/* frames that the driver cannot get; atomic */
	uint32_t config_interrupt;	/* 0: the driver has none */
	bool running;			/* from start to reset; atomic */
	bool stopping;			/* the back-end is being closed; atomic */
	struct ob_net_driver driver;	/* zeroes: the kernel of this process */
	struct ob_virtqueue_memory ram;	/* of the kernel */
	unsigned int pairs_most;	/* there is memory for the queues of so many, and control */
	struct queue queues[];
};

static bool is_running(const struct ob_net_port *port)
{
	return __atomic_load_n(&port->running, __ATOMIC_SEQ_CST);
}

static void interrupt(struct ob_net_port *port, uint32_t number)
{
	if (port->driver.interrupt)
		port->driver.interrupt(port->driver.context, number);
	else
		port->host->upcalls->interrupt(number);
}

/* A stranger may offer frames without an end. */
static bool is_ending(const struct ob_net_port *port)
{
	return port->driver.ending && __atomic_load_n(port->driver.ending, __ATOMIC_RELAXED);
}

/* The driver has broken the rules of a queue: that queue does nothing any more. */
static void report_if_broken(struct ob_net_port *port, struct ob_virtqueue *ring)
{
	static const char line[] = "network device: the driver has broken a queue";

	if (!ring->broken || ring->reported)
		return;
	ring->reported = true;
	ob_host_console_write(port->host, 3, line, sizeof(line) - 1);
}

/* ---- sending --------------------------------------------------------------- */

static void send_one(struct ob_net_port *port, unsigned int pair,
		     const struct ob_virtqueue_chain *chain)
{
	struct ob_net_backend *backend = port->backend;
	size_t length = ob_net_pieces_length(chain->pieces, chain->readable);

	if (length < OB_NET_HEADER_BYTES + 14 || length > OB_NET_FRAME_MOST)
		return;
	if (port->capture)
		ob_net_pcap_frame(port->capture, true, chain->pieces, chain->readable, length);
	backend->operations->transmit(backend, pair, chain->pieces, chain->readable);
}

static void send_all(struct ob_net_port *port, unsigned int index)
{
	struct ob_net_backend *backend = port->backend;
	struct queue *queue = &port->queues[index];
	struct ob_virtqueue_chain chain;
	bool sent = false;

	do {
		while (!is_ending(port) && ob_virtqueue_take(&queue->ring, &chain)) {
			send_one(port, index / 2, &chain);
			ob_virtqueue_return(&queue->ring, chain.head, 0);
			sent = true;
		}
		if (sent)
			ob_virtqueue_publish(&queue->ring);
	} while (!is_ending(port) && ob_virtqueue_ask_notify(&queue->ring));
	if (sent && backend->operations->transmit_end)
		backend->operations->transmit_end(backend, index / 2);
	if (ob_virtqueue_wants_interrupt(&queue->ring))
		interrupt(port, queue->ring.interrupt);
	report_if_broken(port, &queue->ring);
}

/* ---- control --------------------------------------------------------------- */

static int set_pairs(void *context, unsigned int pairs)
{
	struct ob_net_port *port = context;
	struct ob_net_backend *backend = port->backend;

	return backend->operations->set_queues ? backend->operations->set_queues(backend, pairs)
					       : 0;
}

static void control_all(struct ob_net_port *port, unsigned int index)
{
	struct ob_virtqueue *ring = &port->queues[index].ring;

	ob_net_control(ring, port->backend->queues, set_pairs, port);
	if (ob_virtqueue_wants_interrupt(ring))
		interrupt(port, ring->interrupt);
	report_if_broken(port, ring);
}

/* ---- receiving --------------------------------------------------------------- */

static struct queue *receive_queue(struct ob_net_port *port, unsigned int queue)
{
	return &port->queues[2 * queue];
}

static void leave_ram(struct queue *queue)
{
	__atomic_store_n(&queue->in_ram, 0, __ATOMIC_SEQ_CST);
}

static bool enter_ram(struct ob_net_port *port, struct queue *queue)
{
	__atomic_store_n(&queue->in_ram, 1, __ATOMIC_SEQ_CST);
	if (is_running(port))
		return true;
	leave_ram(queue);
	return false;
}

static bool is_merging(const struct ob_net_port *port)
{
	return port->features & BIT(VIRTIO_NET_F_MRG_RXBUF);
}

/* The header would be in two pieces, or there are more pieces than any frame has. */
static bool is_odd(const struct ob_virtqueue_chain *chain)
{
	int count = chain->count - chain->readable;

	return !count || count > OB_NET_PIECES_MOST ||
	       chain->pieces[chain->readable].iov_len < OB_NET_HEADER_BYTES;
}

static bool has_place(const struct queue *queue, const struct ob_virtqueue_chain *chain)
{
	return queue->piece_count + chain->count - chain->readable <= OB_NET_PIECES_MOST;
}

static void add_buffer(struct queue *queue, const struct ob_virtqueue_chain *chain)
{
	struct iovec *pieces = queue->pieces + queue->piece_count;
	int count = chain->count - chain->readable;
	struct buffer *buffer = &queue->buffers[queue->buffer_count];

	memcpy(pieces, chain->pieces + chain->readable, (size_t)count * sizeof(*pieces));
	*buffer = (struct buffer){
		chain->head, count, (uint32_t)ob_net_pieces_length(pieces, count)
	};
	queue->buffer_count++;
	queue->piece_count += count;
	queue->room += buffer->length;
}

/* Without merged buffers, a frame is in one. */
static bool takes_more(const struct ob_net_port *port, const struct queue *queue)
{
	return queue->buffer_count < (is_merging(port) ? BUFFERS_MOST : 1);
}

/* The driver has no descriptor left for another buffer. */
static bool has_all(const struct queue *queue)
{
	return queue->buffer_count == queue->ring.size || queue->piece_count >= queue->ring.size;
}

/* Is there room for a frame: now, later, or never, because no frame gets so many buffers? */
enum room { ROOM, NOT_YET, NEVER };

/* Takes buffers until there is room for `size` bytes. */
static enum room make_room(struct ob_net_port *port, struct queue *queue, size_t size)
{
	struct ob_virtqueue_chain chain;

	if (size > port->frame_most)
		size = port->frame_most;
	while (queue->room < size && queue->ring.memory && !queue->ring.broken) {
		if (!takes_more(port, queue))
			return NEVER;
		if (!ob_virtqueue_take(&queue->ring, &chain)) {
			if (has_all(queue))
				return NEVER;
			break;
		}
		if (is_odd(&chain)) {
			queue->ring.broken = true;
		} else if (!has_place(queue, &chain)) {
			/* The buffer is for the next frame. */
			queue->ring.taken--;
			return NEVER;
		} else {
			add_buffer(queue, &chain);
		}
	}
	report_if_broken(port, &queue->ring);
	return queue->room >= size ? ROOM : NOT_YET;
}

int ob_net_receive_begin(struct ob_net_port *port, unsigned int index, size_t size,
			 struct iovec pieces[OB_NET_PIECES_MOST])
{
	struct queue *queue = receive_queue(port, index);

	if (!enter_ram(port, queue))
		return 0;
	if (make_room(port, queue, size) == NOT_YET) {
		leave_ram(queue);
		return 0;
	}
	memcpy(pieces, queue->pieces, (size_t)queue->piece_count * sizeof(*pieces));
	return queue->piece_count;
}

/* Returns the buffers that a frame fills to the driver. Returns how many. */
static int return_buffers(struct queue *queue, size_t length)
{
	int count = 0, pieces = 0;

	while (length && count < queue->buffer_count) {
		const struct buffer *buffer = &queue->buffers[count++];
		size_t part = length < buffer->length ? length : buffer->length;

		ob_virtqueue_return(&queue->ring, buffer->head, (uint32_t)part);
		length -= part;
		pieces += buffer->pieces;
		queue->room -= buffer->length;
	}
	queue->buffer_count -= count;
	queue->piece_count -= pieces;
	memmove(queue->buffers, queue->buffers + count,
		(size_t)queue->buffer_count * sizeof(queue->buffers[0]));
	memmove(queue->pieces, queue->pieces + pieces,
		(size_t)queue->piece_count * sizeof(queue->pieces[0]));
	return count;
}

/* The first buffers contain a frame: the driver gets them. */
static void complete(struct ob_net_port *port, struct queue *queue, size_t length)
{
	struct virtio_net_hdr_v1 *header = queue->pieces[0].iov_base;

	if (port->capture)
		ob_net_pcap_frame(port->capture, false, queue->pieces, queue->piece_count, length);
	header->num_buffers = (uint16_t)return_buffers(queue, length);
	ob_virtqueue_publish(&queue->ring);
}

void ob_net_receive_end(struct ob_net_port *port, unsigned int index, size_t length)
{
	struct queue *queue = receive_queue(port, index);

	if (length > OB_NET_HEADER_BYTES)
		complete(port, queue, length);
	leave_ram(queue);
}

void ob_net_receive_flush(struct ob_net_port *port, unsigned int index)
{
	struct queue *queue = receive_queue(port, index);
	uint32_t number = 0;

	if (!enter_ram(port, queue))
		return;
	if (ob_virtqueue_wants_interrupt(&queue->ring))
		number = queue->ring.interrupt;
	/* A reset waits for this thread, so that the number is still the queue's. */
	if (number && !port->driver.interrupt)
		interrupt(port, number);
	leave_ram(queue);
	/* A stranger's interrupt may block. */
	if (number && port->driver.interrupt)
		interrupt(port, number);
}

/* Copies a frame into buffers. -ENOBUFS: there are too few now. -EMSGSIZE: it never fits. */
static int place(struct ob_net_port *port, struct queue *queue, const struct iovec *pieces,
		 int count)
{
	size_t length = ob_net_pieces_length(pieces, count);
	enum room room;

	if (length > port->frame_most)
		return -EMSGSIZE;
	room = make_room(port, queue, length);
	queue->lacking = length;
	if (room != ROOM)
		return room == NEVER ? -EMSGSIZE : -ENOBUFS;
	if (!ob_net_pieces_copy(queue->pieces, queue->piece_count, pieces, count))
		return -EMSGSIZE;
	complete(port, queue, length);
	return 0;
}

static void drop(struct ob_net_port *port)
{
	__atomic_add_fetch(&port->dropped, 1, __ATOMIC_RELAXED);
}

/* Places what is left of a frame that was cut. -ENOBUFS: not all of it. */
static int place_rest(struct ob_net_port *port, struct queue *queue)
{
	struct ob_net_segments *segments = port->segments;

	while (ob_net_segments_left(segments)) {
		struct iovec pieces[OB_NET_SEGMENT_PIECES];
		int result;

		ob_net_segments_get(segments, pieces);
		result = place(port, queue, pieces, OB_NET_SEGMENT_PIECES);
		if (result == -ENOBUFS)
			return result;
		if (result) {
			/* The others are no smaller, but for the last one. */
			drop(port);
			ob_net_segments_drop(segments);
		} else {
			ob_net_segments_advance(segments);
		}
	}
	return 0;
}

/* The frame as it is, if the driver has accepted all that it needs. -EMSGSIZE: it has not. */
static int place_whole(struct ob_net_port *port, struct queue *queue, const struct iovec *pieces,
		       int count)
{
	struct virtio_net_hdr_v1 header;
	struct iovec checked[1 + OB_NET_PIECES_MOST] = { { &header, sizeof(header) } };

	/* The sender may change the frame meanwhile: its header is read once. */
	ob_net_pieces_copy(checked, 1, pieces, count);
	if (!ob_net_header_fits(port->features, &header, ob_net_pieces_length(pieces, count)))
		return -EMSGSIZE;
	count = ob_net_pieces_skip(pieces, count, sizeof(header), checked + 1);
	return place(port, queue, checked, count + 1);
}

static int place_adapted(struct ob_net_port *port, struct queue *queue, const struct iovec *pieces,
			 int count)
{
	int result = place_rest(port, queue);

	if (!result)
		result = place_whole(port, queue, pieces, count);
	if (result != -EMSGSIZE)
		return result;
	if (!ob_net_segments_begin(port->segments, pieces, count))
		return -EMSGSIZE;
	/* The frame is copied. Those that have no room now come before the next one. */
	place_rest(port, queue);
	return 0;
}

int ob_net_receive(struct ob_net_port *port, unsigned int index, const struct iovec *pieces,
		   int count)
{
	struct queue *queue = receive_queue(port, index);
	size_t length = ob_net_pieces_length(pieces, count);
	int result;

	if (length <= OB_NET_HEADER_BYTES || length > OB_NET_FRAME_MOST ||
	    count > OB_NET_PIECES_MOST)
		return 0;
	queue->lacking = length;
	if (!enter_ram(port, queue))
		return -ENOBUFS;
	if (port->segments)
		result = place_adapted(port, queue, pieces, count);
	else
		result = place(port, queue, pieces, count);
	leave_ram(queue);
	if (result != -EMSGSIZE)
		return result;
	drop(port);
	return 0;
}

int ob_net_receive_rest(struct ob_net_port *port, unsigned int index)
{
	struct queue *queue = receive_queue(port, index);
	int result = 0;

	if (!enter_ram(port, queue))
		return 0;
	if (port->segments && ob_net_segments_left(port->segments))
		result = place_rest(port, queue) ? -ENOBUFS : 1;
	leave_ram(queue);
	return result;
}

size_t ob_net_receive_lacks(struct ob_net_port *port, unsigned int index)
{
	return receive_queue(port, index)->lacking;
}

uint64_t ob_net_port_dropped(const struct ob_net_port *port)
{
	return __atomic_load_n(&port->dropped, __ATOMIC_RELAXED);
}

/* Is there room for a frame? If not, the kernel notifies the device of the next buffer. */
static bool has_room(struct ob_net_port *port, struct queue *queue, size_t size)
{
	bool found;

	if (!enter_ram(port, queue))
		return false;
	do {
		found = make_room(port, queue, size) != NOT_YET;
	} while (!found && ob_virtqueue_ask_notify(&queue->ring));
	leave_ram(queue);
	return found;
}

bool ob_net_receive_wait(struct ob_net_port *port, unsigned int index, size_t size)
{
	struct queue *queue = receive_queue(port, index);

	for (;;) {
		uint32_t seen = __atomic_load_n(&queue->arrivals, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(&port->stopping, __ATOMIC_SEQ_CST))
			return false;
		if (has_room(port, queue, size))
			return true;
		ob_host_wait(port->host, &queue->arrivals, seen, OB_FOREVER);
	}
}

static void wake_receiver(struct ob_net_port *port, struct queue *queue)
{
	__atomic_add_fetch(&queue->arrivals, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(port->host, &queue->arrivals, 1);
}

static void wake_receivers(struct ob_net_port *port)
{
	for (unsigned int pair = 0; pair < port->backend->queues; pair++)
		wake_receiver(port, receive_queue(port, pair));
}

void ob_net_port_stop(struct ob_net_port *port)
{
	__atomic_store_n(&port->stopping, true, __ATOMIC_SEQ_CST);
	for (unsigned int pair = 0; pair < port->pairs_most; pair++)
		wake_receiver(port, receive_queue(port, pair));
}

void ob_net_port_link(struct ob_net_port *port, bool is_up)
{
	uint16_t status = is_up ? VIRTIO_NET_S_LINK_UP : 0;

	__atomic_store_n(&port->config.status, status, __ATOMIC_SEQ_CST);
	if (is_running(port) && port->config_interrupt)
		interrupt(port, port->config_interrupt);
}

size_t ob_net_frame_most(const struct ob_net_port *port)
{
	return port->frame_most;
}

/* ---- the device -------------------------------------------------------------- */

static struct ob_net_port *port_of(struct ob_virtio_device *device)
{
	return (struct ob_net_port *)device;
}

static void net_read(struct ob_virtio_device *device, uint32_t offset, void *bytes, uint32_t size)
{
	memcpy(bytes, (const char *)&port_of(device)->config + offset, size);
}

/* On offer besides what the back-end offers. The kernel's driver accepts all of it. */
#define OFFERED (BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_NET_F_MRG_RXBUF))

#define LARGE_RECEIVE (BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) | \
		       BIT(VIRTIO_NET_F_GUEST_USO4) | BIT(VIRTIO_NET_F_GUEST_USO6) | \
		       BIT(VIRTIO_NET_F_GUEST_UFO))
#define RECEIVE (LARGE_RECEIVE | BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_GUEST_ECN) | \
		 BIT(VIRTIO_NET_F_MRG_RXBUF))

/* A driver that accepts large frames without partial checksums gets neither. */
static uint64_t consistent(uint64_t features)
{
	if (!(features & BIT(VIRTIO_NET_F_GUEST_CSUM)))
		features &= ~LARGE_RECEIVE;
	return features;
}

/*
 * The kernel of this process gets frames as they are, if it has accepted all that is on offer. The
 * caller may hold a vCPU, so the memory is there already.
 */
static void prepare_segments(struct ob_net_port *port)
{
	bool is_needed = port->driver.memory || port->device.info.features & RECEIVE &
						~port->features;

	port->segments = is_needed ? port->room_for_segments : NULL;
	if (is_needed)
		ob_net_segments_drop(port->segments);
}

static int net_features(struct ob_virtio_device *device, uint64_t features)
{
	struct ob_net_port *port = port_of(device);
	struct ob_net_backend *backend = port->backend;
	uint32_t mtu = backend->mtu ? backend->mtu : 1500;

	if (!(features & BIT(VIRTIO_F_VERSION_1)))
		return -EINVAL;
	port->features = consistent(features);
	port->frame_most = port->features & LARGE_RECEIVE ? OB_NET_FRAME_MOST
							  : OB_NET_HEADER_BYTES + 18 + mtu;
	prepare_segments(port);
	if (!backend->operations->set_features)
		return 0;
	return backend->operations->set_features(backend, port->features & backend->offloads);
}

static int net_queue(struct ob_virtio_device *device, uint32_t index,
		     const struct ob_virtio_queue *from)
{
	struct ob_net_port *port = port_of(device);
	struct queue *queue = &port->queues[index];
	int error;

	if (!port->driver.memory)
		port->ram = ob_virtqueue_ram(port->host);
	error = ob_virtqueue_set(&queue->ring, port->driver.memory ? port->driver.memory
								   : &port->ram, from);
	queue->ring.event_index = port->features & BIT(VIRTIO_RING_F_EVENT_IDX);
	return error;
}

static int net_start(struct ob_virtio_device *device, uint32_t config_interrupt)
{
	struct ob_net_port *port = port_of(device);

	port->config_interrupt = config_interrupt;
	__atomic_store_n(&port->running, true, __ATOMIC_SEQ_CST);
	wake_receivers(port);
	return 0;
}

static bool is_control(const struct ob_net_port *port, unsigned int index)
{
	return index == 2 * port->backend->queues;
}

static void net_notify(struct ob_virtio_device *device, uint32_t index)
{
	struct ob_net_port *port = port_of(device);
	struct queue *queue = &port->queues[index];
	uint32_t calls;

	if (index % 2 == 0 && !is_control(port, index)) {
		wake_receiver(port, queue);
		return;
	}
	calls = __atomic_add_fetch(&queue->calls, 1, __ATOMIC_SEQ_CST);
	if (calls != 1)
		return;
	do {
		calls = __atomic_load_n(&queue->calls, __ATOMIC_SEQ_CST);
		if (!is_running(port))
			continue;
		if (is_control(port, index))
			control_all(port, index);
		else
			send_all(port, index);
	} while (!__atomic_compare_exchange_n(&queue->calls, &calls, 0, false, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
}

static void net_poll(struct ob_virtio_device *device, bool is_last)
{
	struct ob_net_backend *backend = port_of(device)->backend;

	backend->operations->poll(backend, is_last);
}

static unsigned int queue_count(const struct ob_net_port *port)
{
	return port->device.info.queue_count;
}

static bool is_in_use(struct queue *queue)
{
	return __atomic_load_n(&queue->in_ram, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&queue->calls, __ATOMIC_SEQ_CST);
}

/* The driver frees the queue's memory, and the buffers. */
static void forget_buffers(struct queue *queue)
{
	queue->ring = (struct ob_virtqueue){ .memory = NULL };
	queue->buffer_count = 0;
	queue->piece_count = 0;
	queue->room = 0;
}

static int net_reset(struct ob_virtio_device *device)
{
	struct ob_net_port *port = port_of(device);

	__atomic_store_n(&port->running, false, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < queue_count(port); i++)
		if (is_in_use(&port->queues[i]))
			return -EAGAIN;
	for (unsigned int i = 0; i < queue_count(port); i++)
		forget_buffers(&port->queues[i]);
	if (port->segments)
		ob_net_segments_drop(port->segments);
	port->config_interrupt = 0;
	return 0;
}

static void free_port(struct ob_net_port *port)
{
	free(port->room_for_segments);
	free(port);
}

/* A client that the halt has left in the kernel sends: the memory stays. */
static bool is_stuck(struct ob_net_port *port)
{
	for (unsigned int i = 0; i < queue_count(port); i++)
		if (__atomic_load_n(&port->queues[i].calls, __ATOMIC_SEQ_CST))
			return true;
	return false;
}

static void net_close(struct ob_virtio_device *device)
{
	struct ob_net_port *port = port_of(device);

	__atomic_store_n(&port->running, false, __ATOMIC_SEQ_CST);
	if (is_stuck(port)) {
		ob_net_port_stop(port);
		return;
	}
	port->backend->operations->close(port->backend);
	if (port->capture)
		ob_net_pcap_close(port->capture);
	free_port(port);
}

static void net_forked(struct ob_virtio_device *device)
{
	struct ob_net_port *port = port_of(device);

	port->backend->operations->forked(port->backend);
	if (port->capture)
		ob_net_pcap_forked(port->capture);
	free_port(port);
}

static const struct ob_virtio_operations net_operations = {
	.read = net_read,
	.features = net_features,
	.queue = net_queue,
	.start = net_start,
	.notify = net_notify,
	.reset = net_reset,
	.poll = net_poll,
	.close = net_close,
	.forked = net_forked,
};

int ob_net_choose_mac(struct ob_host *host, uint8_t mac[6])
{
	int error = ob_host_random(host, mac, 6);

	mac[0] = (uint8_t)((mac[0] & ~1u) | 2u);
	return error;
}

static void describe(struct ob_net_port *port)
{
	const struct ob_net_backend *backend = port->backend;
	uint64_t features = OFFERED | backend->offloads | BIT(VIRTIO_RING_F_EVENT_IDX) |
			    BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_NET_F_MAC) |
			    BIT(VIRTIO_NET_F_STATUS);

	port->device.is_polled = backend->operations->poll;
	port->device.info.queue_count = 2 * backend->queues;
	if (backend->mtu) {
		features |= BIT(VIRTIO_NET_F_MTU);
		port->config.mtu = (uint16_t)backend->mtu;
	}
	if (backend->queues > 1) {
		features |= BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_MQ);
		port->device.info.queue_count++;
	}
	port->config.max_virtqueue_pairs = (uint16_t)backend->queues;
	port->device.info.features = features;
}

struct ob_net_port *ob_net_port_new(struct ob_host *host, const uint8_t *mac,
				    unsigned int pairs_most)
{
	size_t queues = (2 * pairs_most + 1) * sizeof(struct queue);
	struct ob_net_port *port = calloc(1, sizeof(*port) + queues);

	if (!port)
		return NULL;
	port->pairs_most = pairs_most;
	port->device.operations = &net_operations;
	port->device.info.type = VIRTIO_ID_NET;
	port->device.info.queue_size = QUEUE_SIZE;
	port->device.info.config_size = sizeof(port->config);
	port->config.status = VIRTIO_NET_S_LINK_UP;
	port->host = host;
	port->frame_most = OB_NET_FRAME_MOST;
	port->room_for_segments = malloc(sizeof(*port->room_for_segments));
	if (mac)
		memcpy(port->config.mac, mac, 6);
	if (port->room_for_segments && (mac || !ob_net_choose_mac(host, port->config.mac)))
		return port;
	free_port(port);
	return NULL;
}

void ob_net_port_set_driver(struct ob_net_port *port, const struct ob_net_driver *driver)
{
	port->driver = *driver;
}

void ob_net_port_set_base(struct ob_net_port *port, unsigned int index, uint16_t taken)
{
	struct ob_virtqueue *ring = &port->queues[index].ring;

	ring->taken = taken;
	ring->returned = __atomic_load_n(&ring->used->idx, __ATOMIC_ACQUIRE);
	ring->signalled = ring->returned;
}

struct ob_virtio_device *ob_net_port_complete(struct ob_net_port *port,
					      struct ob_net_backend *backend,
					      struct ob_net_capture *capture)
{
	port->backend = backend;
	port->capture = capture;
	describe(port);
	return &port->device;
}

void ob_net_port_free(struct ob_net_port *port)
{
	free_port(port);
}
