// SPDX-License-Identifier: GPL-2.0-only
/* See net_receiver_frames.h. */
#include <netinet/in.h>
#include <string.h>

#include "check.h"
#include "net_receiver_frames.h"

#define FIN 0x01
#define PSH 0x08
#define CWR 0x80

static uint64_t state = 1;

uint32_t pick(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % below;
}

static void set_16(unsigned char *at, size_t value)
{
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}

static size_t get_16(const unsigned char *at)
{
	return (size_t)at[0] << 8 | at[1];
}

static uint32_t get_32(const unsigned char *at)
{
	return (uint32_t)(get_16(at) << 16 | get_16(at + 2));
}

/* The folded sum of big-endian words. */
static uint32_t sum_of(const unsigned char *bytes, size_t size, uint32_t sum)
{
	for (size_t i = 0; i < size; i++) {
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (sum & 0xffff) + (sum >> 16);
}

static uint32_t pseudo(const struct frame *frame, const unsigned char *bytes, size_t length)
{
	const unsigned char *ip = bytes + frame->network;
	uint32_t sum = (frame->is_tcp ? IPPROTO_TCP : IPPROTO_UDP) + (uint32_t)length;

	sum = (sum & 0xffff) + (sum >> 16);
	return frame->is_ip6 ? sum_of(ip + 8, 32, sum) : sum_of(ip + 12, 8, sum);
}

/* ---- frames of an honest sender ------------------------------------------------ */

static void put(struct frame *frame, const void *bytes, size_t size)
{
	memcpy(frame->bytes + frame->length, bytes, size);
	frame->length += size;
}

static void put_random(struct frame *frame, size_t size)
{
	while (size--)
		frame->bytes[frame->length++] = (unsigned char)pick(256);
}

static void put_ethernet(struct frame *frame)
{
	put(frame, "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	for (uint32_t tags = pick(3); tags; tags--)
		put(frame, pick(2) ? "\x81\0\0\7" : "\x88\xa8\0\7", 4);
	put(frame, frame->is_ip6 ? "\x86\xdd" : "\x08\0", 2);
	frame->network = frame->length;
}

static void put_ip4(struct frame *frame)
{
	unsigned char head[20] = { 0x45, [6] = 0x40, [8] = 64, [12] = 10, 1, 0, 1, 10, 1, 0, 2 };
	uint32_t options = pick(2) * pick(11);

	head[0] = (unsigned char)(0x45 + options);
	set_16(head + 4, pick(65536));
	head[9] = frame->is_tcp ? IPPROTO_TCP : IPPROTO_UDP;
	put(frame, head, sizeof(head));
	put_random(frame, options * 4);
}

/* Hop-by-hop options, routing that is done, destination options. */
static void put_ip6(struct frame *frame)
{
	static const uint8_t kinds[] = { IPPROTO_HOPOPTS, IPPROTO_ROUTING, IPPROTO_DSTOPTS };
	unsigned char head[40] = { 0x60, [7] = 64, [8] = 0xfd, [23] = 1, [24] = 0xfd, [39] = 2 };
	uint8_t last = frame->is_tcp ? IPPROTO_TCP : IPPROTO_UDP;
	uint32_t count = pick(2) * pick(3), kind = pick(3);
	size_t next = frame->length + 6;

	put(frame, head, sizeof(head));
	for (; count; count--, kind = (kind + 1) % 3) {
		uint32_t more = pick(3);

		frame->bytes[next] = kinds[kind];
		next = frame->length;
		put(frame, "\0\0\0\0\1\2\3\4", 8);
		frame->bytes[next + 1] = (unsigned char)more;
		put_random(frame, more * 8);
	}
	frame->bytes[next] = last;
}

static void put_transport(struct frame *frame)
{
	unsigned char tcp[20] = { 0x10, 0, 0x20, 0, [14] = 0x20 };
	uint32_t options = frame->is_tcp ? pick(11) : 0;

	frame->transport = frame->length;
	if (frame->is_tcp) {
		set_16(tcp + 4, pick(65536));
		set_16(tcp + 6, pick(65536));
		tcp[12] = (unsigned char)((5 + options) << 4);
		tcp[13] = (unsigned char)pick(256);
		put(frame, tcp, sizeof(tcp));
		put_random(frame, options * 4);
	} else {
		put(frame, "\x10\0\x20\0\0\0\0", 8);
	}
	frame->payload = frame->length;
}

/* The lengths, and the sum of the pseudo header in the place of the checksum. */
static void finish(struct frame *frame)
{
	unsigned char *ip = frame->bytes + frame->network;
	unsigned char *transport = frame->bytes + frame->transport;
	size_t length = frame->length - frame->transport;

	if (frame->is_ip6) {
		set_16(ip + 4, frame->length - frame->network - 40);
	} else {
		set_16(ip + 2, frame->length - frame->network);
		set_16(ip + 10, 0);
		set_16(ip + 10, ~sum_of(ip, frame->transport - frame->network, 0) & 0xffff);
	}
	if (!frame->is_tcp)
		set_16(transport + 4, length);
	set_16(transport + (frame->is_tcp ? 16 : 6), pseudo(frame, frame->bytes, length));
	frame->header.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	frame->header.csum_start = (uint16_t)frame->transport;
	frame->header.csum_offset = frame->is_tcp ? 16 : 6;
	frame->header.hdr_len = (uint16_t)frame->payload;
}

static void set_segmentation(struct frame *frame)
{
	bool is_ecn = frame->is_tcp && frame->bytes[frame->transport + 13] & CWR;

	if (!frame->is_tcp)
		frame->header.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
	else if (frame->is_ip6)
		frame->header.gso_type = VIRTIO_NET_HDR_GSO_TCPV6;
	else
		frame->header.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	if (is_ecn)
		frame->header.gso_type |= VIRTIO_NET_HDR_GSO_ECN;
}

void frame_make(struct frame *frame)
{
	size_t most, size;
	bool is_cut = pick(4);

	memset(&frame->header, 0, sizeof(frame->header));
	frame->length = 0;
	frame->is_ip6 = pick(2);
	frame->is_tcp = pick(3);
	put_ethernet(frame);
	if (frame->is_ip6)
		put_ip6(frame);
	else
		put_ip4(frame);
	put_transport(frame);
	most = 1500 - (frame->payload - frame->network);
	/* The device takes one tag to be no part of the MTU. */
	if (frame->network > 18)
		most -= 4;
	size = pick((uint32_t)most + 1);
	if (is_cut) {
		frame->header.gso_size = (uint16_t)(pick(2) ? most : 8 + pick((uint32_t)most - 7));
		size = pick(8) ? pick(20000) : pick(65000 - (uint32_t)frame->payload);
		set_segmentation(frame);
	}
	put_random(frame, size);
	finish(frame);
}

/* ---- what is not so -------------------------------------------------------------- */

static void lie_in_header(struct virtio_net_hdr_v1 *header)
{
	static const uint8_t types[] = { 0, 1, 3, 4, 5, 0x80, 0x81, 0x83, 0x84, 0x85, 2, 0xff };
	static const uint16_t values[] = { 0, 1, 7, 13, 14, 34, 1500, 0x7fff, 0xffff };

	switch (pick(6)) {
	case 0:
		header->flags = (uint8_t)pick(256);
		break;
	case 1:
		header->gso_type = types[pick(sizeof(types))];
		break;
	case 2:
		header->gso_size = values[pick(9)];
		break;
	case 3:
		header->csum_start = pick(2) ? values[pick(9)] : (uint16_t)pick(200);
		break;
	case 4:
		header->csum_offset = values[pick(9)];
		break;
	default:
		header->hdr_len = values[pick(9)];
	}
}

void frame_make_lie(struct frame *frame)
{
	size_t headers = frame->payload;

	for (uint32_t i = 1 + pick(3); i; i--) {
		switch (pick(4)) {
		case 0:
			frame->bytes[pick((uint32_t)headers)] = (unsigned char)pick(256);
			break;
		case 1:
			if (frame->length > 15)
				frame->length = 14 + pick((uint32_t)frame->length - 13);
			break;
		default:
			lie_in_header(&frame->header);
		}
	}
}

/* ---- what a receiver without offloads gets ---------------------------------------- */

static void check_network(const struct received *received, const unsigned char *bytes,
			  size_t length)
{
	const struct frame *sent = received->sent;
	const unsigned char *ip = bytes + sent->network, *old = sent->bytes + sent->network;
	size_t size = sent->transport - sent->network;

	if (sent->is_ip6) {
		CHECK_EQUAL(get_16(ip + 4), length - sent->network - 40);
		CHECK(!memcmp(ip, old, 4) && !memcmp(ip + 6, old + 6, size - 6));
		return;
	}
	CHECK_EQUAL(get_16(ip + 2), length - sent->network);
	CHECK_EQUAL(get_16(ip + 4), (get_16(old + 4) + received->frames) & 0xffff);
	CHECK_EQUAL(sum_of(ip, size, 0), 0xffff);
	CHECK(!memcmp(ip, old, 2) && !memcmp(ip + 6, old + 6, 4) &&
	      !memcmp(ip + 12, old + 12, size - 12));
}

static void check_tcp(const struct received *received, const unsigned char *bytes, bool is_last)
{
	const struct frame *sent = received->sent;
	const unsigned char *tcp = bytes + sent->transport, *old = sent->bytes + sent->transport;
	int flags = old[13];

	if (received->frames)
		flags &= ~CWR;
	if (!is_last)
		flags &= ~(FIN | PSH);
	CHECK_EQUAL(get_32(tcp + 4), get_32(old + 4) + (uint32_t)received->payload);
	CHECK_EQUAL(tcp[13], flags);
	CHECK(!memcmp(tcp, old, 4) && !memcmp(tcp + 8, old + 8, 5) &&
	      !memcmp(tcp + 14, old + 14, 2) &&
	      !memcmp(tcp + 18, old + 18, sent->payload - sent->transport - 18));
}

void frame_check_part(struct received *received, const unsigned char *bytes, size_t length)
{
	const struct frame *sent = received->sent;
	size_t rest = sent->length - sent->payload - received->payload, size = rest;
	const unsigned char *transport = bytes + sent->transport;
	size_t covered = length - sent->transport;

	if (sent->header.gso_type && size > sent->header.gso_size)
		size = sent->header.gso_size;
	CHECK_EQUAL(length, sent->payload + size);
	CHECK(!memcmp(bytes, sent->bytes, sent->network));
	check_network(received, bytes, length);
	if (sent->is_tcp)
		check_tcp(received, bytes, size == rest);
	else
		CHECK_EQUAL(get_16(transport + 4), covered);
	if (!sent->is_tcp)
		CHECK(get_16(transport + 6));
	CHECK_EQUAL(sum_of(transport, covered, pseudo(sent, bytes, covered)), 0xffff);
	CHECK(!memcmp(bytes + sent->payload, sent->bytes + sent->payload + received->payload,
		      size));
	received->payload += size;
	received->frames++;
}

void frame_check_all(const struct received *received)
{
	CHECK(received->frames);
	CHECK_EQUAL(received->payload, received->sent->length - received->sent->payload);
}
