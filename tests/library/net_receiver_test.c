// SPDX-License-Identifier: GPL-2.0-only
/*
 * The network device in front of a driver that accepts some of the offloads: net_receiver_test
 * ROUNDS
 *
 * Each round has another driver: its features, the number and size of its buffers. Frames of honest
 * senders must come as they are, or in parts with right lengths and checksums, and none may get
 * lost. Frames that are not what their headers say may be dropped. No byte outside of the buffers
 * that the driver gets back may change.
 */
#include <errno.h>
#include <linux/virtio_config.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "net/device.h"
#include "net_receiver_frames.h"

#define BIT(name) (1ull << VIRTIO_NET_F_##name)
#define LARGE (BIT(GUEST_TSO4) | BIT(GUEST_TSO6) | BIT(GUEST_UFO) | BIT(GUEST_USO4) | \
	       BIT(GUEST_USO6))
#define OFFLOADS (LARGE | BIT(GUEST_CSUM) | BIT(GUEST_ECN))

#define ADDRESS 0x10000000ull
#define RAM_BYTES (8u << 20)
#define RINGS_BYTES 0x10000u
#define SIZE_MOST 256
#define LARGE_BUFFER 65600u
#define PATTERN 0xa5

/* ---- what the device needs ------------------------------------------------------ */

int ob_host_random(struct ob_host *host, void *buffer, uint64_t size)
{
	(void)host;
	memset(buffer, 2, size);
	return 0;
}

void ob_net_pcap_frame(struct ob_net_capture *capture, bool outbound, const struct iovec *pieces,
		       int count, size_t length)
{
	(void)capture, (void)outbound, (void)pieces, (void)count, (void)length;
	CHECK(false);
}

void ob_net_pcap_close(struct ob_net_capture *capture)
{
	(void)capture;
}

void ob_net_pcap_forked(struct ob_net_capture *capture)
{
	(void)capture;
}

static void close_nothing(struct ob_net_backend *backend)
{
	(void)backend;
}

static const struct ob_net_backend_operations operations = { .close = close_nothing };
static struct ob_net_backend backend = {
	.operations = &operations, .offloads = OFFLOADS, .mtu = 1500, .queues = 1,
};

static uint64_t interrupts;

static void interrupt(void *context, uint32_t number)
{
	(void)context;
	CHECK_EQUAL(number, 1);
	interrupts++;
}

/* ---- the driver ------------------------------------------------------------------ */

struct driver {
	struct ob_net_port *port;
	struct ob_virtio_device *device;
	unsigned char *ram;
	struct ob_virtqueue_memory memory;
	struct vring_desc *descriptors;
	struct vring_avail *available;
	struct vring_used *used;
	uint64_t features;
	uint16_t size, seen;
	uint32_t buffer;		/* bytes of each */
	bool is_split;			/* the header has a descriptor of its own */
};

static bool has(const struct driver *d, uint64_t feature)
{
	return (d->features & feature) == feature;
}

/* What the driver may ask for: segmentation needs checksums. */
static uint64_t usable(uint64_t features)
{
	return features & BIT(GUEST_CSUM) ? features : features & ~LARGE;
}

static unsigned char *buffer_of(const struct driver *d, uint16_t place)
{
	return d->ram + RINGS_BYTES + (size_t)place * d->buffer;
}

static void describe(struct driver *d, uint16_t index, size_t offset, uint32_t length,
		     uint16_t next)
{
	d->descriptors[index] = (struct vring_desc){
		ADDRESS + offset, length,
		(uint16_t)(VRING_DESC_F_WRITE | (next ? VRING_DESC_F_NEXT : 0)), next,
	};
}

static void offer(struct driver *d, uint16_t place)
{
	size_t offset = RINGS_BYTES + (size_t)place * d->buffer;
	uint16_t second = (uint16_t)(d->size / 2 + place);

	memset(buffer_of(d, place), PATTERN, d->buffer);
	if (d->is_split) {
		describe(d, place, offset, OB_NET_HEADER_BYTES, second);
		describe(d, second, offset + OB_NET_HEADER_BYTES, d->buffer - OB_NET_HEADER_BYTES,
			 0);
	} else {
		describe(d, place, offset, d->buffer, 0);
	}
	d->available->ring[d->available->idx % d->size] = place;
	__atomic_store_n(&d->available->idx, (uint16_t)(d->available->idx + 1), __ATOMIC_RELEASE);
}

static uint16_t places(const struct driver *d)
{
	uint16_t room = (uint16_t)((RAM_BYTES - RINGS_BYTES) / d->buffer);
	uint16_t most = d->is_split ? d->size / 2 : d->size;

	return room < most ? room : most;
}

static void set_queue(struct driver *d, uint32_t index, uint16_t size, size_t offset)
{
	struct ob_virtio_queue queue = {
		.descriptors = ADDRESS + offset, .available = ADDRESS + offset + 0x2000,
		.used = ADDRESS + offset + 0x3000, .size = size, .interrupt = index + 1,
	};

	CHECK_EQUAL(d->device->operations->queue(d->device, index, &queue), 0);
}

static void start(struct driver *d, uint16_t buffers)
{
	memset(d->ram, 0, RINGS_BYTES);
	d->seen = 0;
	CHECK_EQUAL(d->device->operations->features(d->device, d->features |
						    1ull << VIRTIO_F_VERSION_1), 0);
	set_queue(d, 0, d->size, 0);
	set_queue(d, 1, 8, 0x8000);
	CHECK_EQUAL(d->device->operations->start(d->device, 0), 0);
	for (uint16_t place = 0; place < buffers; place++)
		offer(d, place);
}

static void open_driver(struct driver *d)
{
	struct ob_net_driver driver = { &d->memory, interrupt, NULL, NULL };

	d->ram = malloc(RAM_BYTES);
	CHECK(d->ram);
	d->memory = (struct ob_virtqueue_memory){ 1, { { ADDRESS, RAM_BYTES, (char *)d->ram } } };
	d->descriptors = (void *)d->ram;
	d->available = (void *)(d->ram + 0x2000);
	d->used = (void *)(d->ram + 0x3000);
	d->port = ob_net_port_new(NULL, NULL, 1);
	CHECK(d->port);
	ob_net_port_set_driver(d->port, &driver);
	d->device = ob_net_port_complete(d->port, &backend, NULL);
}

/* ---- what the driver gets --------------------------------------------------------- */

static uint64_t feature_of(uint8_t gso_type)
{
	uint64_t ecn = gso_type & VIRTIO_NET_HDR_GSO_ECN ? BIT(GUEST_ECN) : 0;

	switch (gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		return BIT(GUEST_TSO4) | ecn;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return BIT(GUEST_TSO6) | ecn;
	case VIRTIO_NET_HDR_GSO_UDP:
		return BIT(GUEST_UFO);
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		return BIT(GUEST_USO4) | BIT(GUEST_USO6);
	default:
		CHECK(false);
		return 0;
	}
}

/* The rules of the virtio specification 1.2, section 5.1.6.4.1. `length`: without the header. */
static void check_header(const struct driver *d, const struct virtio_net_hdr_v1 *header,
			 size_t length)
{
	uint64_t features = usable(d->features);

	CHECK(!(header->flags & ~VIRTIO_NET_HDR_F_NEEDS_CSUM));
	if (header->flags) {
		CHECK(features & BIT(GUEST_CSUM));
		CHECK(header->csum_start + header->csum_offset + 2u <= length);
	}
	if (header->gso_type) {
		CHECK(header->flags && header->gso_size);
		CHECK(!(feature_of(header->gso_type) & ~features));
	}
	if (!(features & LARGE))
		CHECK(length <= 1500 + 18);
}

/* Takes one buffer out of the used ring, and checks that nothing behind its contents changed. */
static uint32_t take_buffer(struct driver *d, unsigned char *to, size_t room, uint16_t *place)
{
	const struct vring_used_elem *entry = &d->used->ring[d->seen % d->size];
	const unsigned char *bytes;

	CHECK(entry->id < places(d));
	*place = (uint16_t)entry->id;
	bytes = buffer_of(d, *place);
	CHECK(entry->len <= d->buffer && entry->len <= room);
	memcpy(to, bytes, entry->len);
	for (uint32_t i = entry->len; i < d->buffer; i++)
		CHECK_EQUAL(bytes[i], PATTERN);
	d->seen++;
	return entry->len;
}

/* Takes one frame. False: there is none. */
static bool take_frame(struct driver *d, struct frame *got)
{
	static unsigned char bytes[OB_NET_FRAME_MOST];
	uint16_t index = __atomic_load_n(&d->used->idx, __ATOMIC_ACQUIRE), place;
	size_t length;

	if (index == d->seen)
		return false;
	length = take_buffer(d, bytes, sizeof(bytes), &place);
	CHECK(length >= OB_NET_HEADER_BYTES);
	memcpy(&got->header, bytes, OB_NET_HEADER_BYTES);
	CHECK(got->header.num_buffers >= 1);
	CHECK(has(d, BIT(MRG_RXBUF)) || got->header.num_buffers == 1);
	offer(d, place);
	for (int i = 1; i < got->header.num_buffers; i++) {
		CHECK(index != d->seen);
		length += take_buffer(d, bytes + length, sizeof(bytes) - length, &place);
		offer(d, place);
	}
	got->length = length - OB_NET_HEADER_BYTES;
	memcpy(got->bytes, bytes + OB_NET_HEADER_BYTES, got->length);
	return true;
}

/* Buffers that no frame has used are as they were. */
static void check_unused(struct driver *d)
{
	uint16_t count = places(d);

	for (uint16_t i = 0; i < count; i++) {
		const unsigned char *bytes = buffer_of(d, i);

		for (uint32_t at = 0; at < d->buffer; at += 61)
			CHECK_EQUAL(bytes[at], PATTERN);
	}
}

/* ---- rounds ------------------------------------------------------------------------ */

static void take_frames(struct driver *d, struct received *received, bool is_honest)
{
	static struct frame got;

	while (take_frame(d, &got)) {
		check_header(d, &got.header, got.length);
		if (!is_honest)
			continue;
		if (!got.header.flags) {
			frame_check_part(received, got.bytes, got.length);
			continue;
		}
		/* As it was sent. */
		CHECK_EQUAL(received->frames, 0);
		CHECK_EQUAL(got.header.gso_type, received->sent->header.gso_type);
		CHECK_EQUAL(got.header.gso_size, received->sent->header.gso_size);
		CHECK_EQUAL(got.header.csum_start, received->sent->header.csum_start);
		CHECK_EQUAL(got.length, received->sent->length);
		CHECK(!memcmp(got.bytes, received->sent->bytes, got.length));
		received->frames = 1;
		received->payload = got.length - received->sent->payload;
	}
}

/* Does the driver's queue have room for the frame, or for each of its parts? */
static bool fits(const struct driver *d, const struct frame *frame)
{
	size_t size = frame->length + OB_NET_HEADER_BYTES;
	size_t room = has(d, BIT(MRG_RXBUF)) ? (d->is_split ? 32 : 64) * (size_t)d->buffer
					     : d->buffer;
	size_t part = frame->payload + frame->header.gso_size + OB_NET_HEADER_BYTES;

	if (room > (size_t)places(d) * d->buffer)
		room = (size_t)places(d) * d->buffer;
	if (frame->header.gso_type && part < size)
		size = part;
	return size <= room;
}

static void send(struct driver *d, const struct frame *frame, bool is_honest)
{
	struct iovec pieces[] = {
		{ (void *)&frame->header, OB_NET_HEADER_BYTES },
		{ (void *)frame->bytes, frame->length },
	};
	struct received received = { .sent = frame };
	uint64_t dropped = ob_net_port_dropped(d->port);
	int result;

	while ((result = ob_net_receive(d->port, 0, pieces, 2)) == -ENOBUFS)
		take_frames(d, &received, is_honest);
	CHECK_EQUAL(result, 0);
	take_frames(d, &received, is_honest);
	while ((result = ob_net_receive_rest(d->port, 0)) == -ENOBUFS)
		take_frames(d, &received, is_honest);
	take_frames(d, &received, is_honest);
	dropped = ob_net_port_dropped(d->port) - dropped;
	CHECK(dropped <= 1);
	if (is_honest && fits(d, frame)) {
		CHECK_EQUAL(dropped, 0);
		frame_check_all(&received);
	}
	if (is_honest && !dropped)
		frame_check_all(&received);
}

static void choose_driver(struct driver *d, uint32_t round)
{
	static const uint32_t buffers[] = { 1530, 1536, 2048, 4096, 1536, 700, 64, 12 };
	static const uint64_t bits[] = {
		BIT(MRG_RXBUF), BIT(GUEST_CSUM), BIT(GUEST_TSO4), BIT(GUEST_TSO6),
		BIT(GUEST_ECN), BIT(GUEST_UFO), BIT(GUEST_USO4), BIT(GUEST_USO6),
	};

	/* Each set of features in turn. */
	d->features = 0;
	for (int i = 0; i < 8; i++)
		d->features |= round >> i & 1 ? bits[i] : 0;
	d->size = (uint16_t)(8u << pick(6));
	d->buffer = buffers[pick(8)];
	if (!has(d, BIT(MRG_RXBUF)) && usable(d->features) & LARGE && pick(4))
		d->buffer = LARGE_BUFFER;
	d->is_split = d->buffer > 64 && pick(2);
}

static void run_round(struct driver *d, uint32_t round)
{
	static struct frame frame;

	choose_driver(d, round);
	start(d, places(d));
	for (int i = 0; i < 20; i++) {
		bool is_honest = pick(2);

		frame_make(&frame);
		if (!is_honest)
			frame_make_lie(&frame);
		send(d, &frame, is_honest);
		ob_net_receive_flush(d->port, 0);
	}
	check_unused(d);
	CHECK_EQUAL(d->device->operations->reset(d->device), 0);
}

/* The header says UFO: nothing cuts that, and only a driver that has accepted it gets it. */
static void test_fragments(struct driver *d)
{
	static struct frame frame;
	uint64_t before = ob_net_port_dropped(d->port);

	d->features = BIT(MRG_RXBUF) | BIT(GUEST_CSUM);
	d->size = 64;
	d->buffer = 2048;
	d->is_split = false;
	start(d, places(d));
	do
		frame_make(&frame);
	while (frame.is_tcp || !frame.header.gso_type);
	frame.header.gso_type = VIRTIO_NET_HDR_GSO_UDP;
	send(d, &frame, false);
	CHECK_EQUAL(ob_net_port_dropped(d->port), before + 1);
	CHECK_EQUAL(d->device->operations->reset(d->device), 0);
}

/*
 * A driver that takes large frames of TCP, but none of UDP, has few buffers on offer. The parts of
 * a frame need one each: one new buffer is enough for the next part.
 */
static void test_few_buffers(struct driver *d)
{
	static struct frame frame, got;
	struct iovec pieces[] = { { &frame.header, OB_NET_HEADER_BYTES }, { frame.bytes, 0 } };
	struct received received = { .sent = &frame };
	uint16_t offered = 4;
	int result;

	d->features = BIT(MRG_RXBUF) | BIT(GUEST_CSUM) | BIT(GUEST_TSO4) | BIT(GUEST_TSO6);
	d->size = 256;
	d->buffer = 2048;
	d->is_split = false;
	start(d, offered);
	do
		frame_make(&frame);
	while (frame.is_tcp || frame.header.gso_type != VIRTIO_NET_HDR_GSO_UDP_L4 ||
	       frame.header.gso_size < 400 || frame.header.gso_size > 1400 ||
	       frame.length < frame.payload + 8 * frame.header.gso_size);
	pieces[1].iov_len = frame.length;
	CHECK_EQUAL(ob_net_receive(d->port, 0, pieces, 2), 0);
	while ((result = ob_net_receive_rest(d->port, 0)) == -ENOBUFS) {
		offer(d, offered++);
		CHECK(ob_net_receive_wait(d->port, 0, ob_net_receive_lacks(d->port, 0)));
	}
	CHECK_EQUAL(result, 1);
	while (take_frame(d, &got))
		frame_check_part(&received, got.bytes, got.length);
	frame_check_all(&received);
	CHECK_EQUAL(d->device->operations->reset(d->device), 0);
}

int main(int count, char *words[])
{
	struct driver driver = { .ram = NULL };

	CHECK_EQUAL(count, 2);
	open_driver(&driver);
	test_fragments(&driver);
	test_few_buffers(&driver);
	for (uint32_t round = 0; round < (uint32_t)atoi(words[1]); round++)
		run_round(&driver, round);
	CHECK(interrupts);
	driver.device->operations->close(driver.device);
	free(driver.ram);
	return 0;
}
