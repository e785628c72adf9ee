// SPDX-License-Identifier: GPL-2.0-only
/*
 * See net_fuzz_frames.h. A frame grows header by header; later the lengths and checksums of outer
 * headers are made right, and then bytes are changed. Most headers of IP get a right checksum after
 * that. Those of TCP, UDP and SCTP are mostly declared as right by the virtio header: Linux looks
 * at what follows.
 */
#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <stdbool.h>
#include <string.h>

#include "backend.h"
#include "net_fuzz_frames.h"

#define ETHERNET 14
#define IP4 20
#define IP6 40

struct frame {
	unsigned char *bytes;
	size_t length;
	uint64_t *state;
};

static uint32_t pick(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33) % below;
}

static void put(struct frame *frame, const void *bytes, size_t length)
{
	memcpy(frame->bytes + frame->length, bytes, length);
	frame->length += length;
}

static void put_random(struct frame *frame, size_t length)
{
	while (length--)
		frame->bytes[frame->length++] = (unsigned char)pick(frame->state, 256);
}

static void set16(unsigned char *at, size_t value)
{
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}

static void checksum(unsigned char *header, size_t length)
{
	uint32_t sum = 0;

	set16(header + 10, 0);
	for (size_t i = 0; i + 1 < length; i += 2)
		sum += (uint32_t)header[i] << 8 | header[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	set16(header + 10, ~sum & 0xffff);
}

/* ---- payloads of IP: each returns its protocol --------------------------------- */

static void put_ports(struct frame *frame)
{
	unsigned char ports[4] = { 0x20, (unsigned char)pick(frame->state, 8) };

	set16(ports + 2, FUZZ_PORT + pick(frame->state, 2));
	put(frame, ports, sizeof(ports));
}

static uint8_t put_tcp(struct frame *frame)
{
	static const unsigned char options[] = {
		2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
		30, 12, 1, 0x81, 1, 2, 3, 4, 5, 6, 7, 8,	/* MPTCP */
	};
	static const unsigned char flags[] = { 2, 2, 2, 0x12, 0x10, 0x18, 0x11, 0x14, 0xff, 0 };
	unsigned char rest[4] = { 13 << 4, flags[pick(frame->state, sizeof(flags))], 0x20, 0 };

	put_ports(frame);
	put_random(frame, 8);
	put(frame, rest, sizeof(rest));
	put(frame, "\0\0\0\0", 4);
	put(frame, options, sizeof(options));
	put_random(frame, pick(frame->state, 64));
	return IPPROTO_TCP;
}

static uint8_t put_udp(struct frame *frame)
{
	size_t length = pick(frame->state, 1200);
	unsigned char rest[4] = { 0 };

	put_ports(frame);
	set16(rest, length + 8);
	put(frame, rest, sizeof(rest));
	put_random(frame, length);
	return IPPROTO_UDP;
}

static void put_frame(struct frame *frame, unsigned int depth);

static uint8_t put_vxlan(struct frame *frame)
{
	static const unsigned char head[] = { 8, 0, 0, 0, 0, 0, 42, 0 };
	size_t start = frame->length;

	put_random(frame, 2);
	put(frame, "\x12\xb5\0\0\0\0", 6);
	put(frame, head, sizeof(head));
	put_frame(frame, 1);
	set16(frame->bytes + start + 4, frame->length - start);
	return IPPROTO_UDP;
}

static uint8_t put_icmp(struct frame *frame)
{
	static const unsigned char types[] = { 8, 0, 3, 4, 5, 11, 12, 13, 17, 42 };
	unsigned char head[4] = { types[pick(frame->state, sizeof(types))],
				  (unsigned char)pick(frame->state, 16) };

	put(frame, head, sizeof(head));
	put_random(frame, 4 + pick(frame->state, 80));
	return IPPROTO_ICMP;
}

/* Neighbours, routers, groups, echo. */
static uint8_t put_icmp6(struct frame *frame)
{
	static const unsigned char types[] = { 1, 2, 3, 4, 128, 129, 130, 131, 132, 133,
					       134, 135, 136, 137, 143 };
	static const unsigned char address[] = { 0xfd, [15] = 1 };
	static const unsigned char prefix[] = { 3, 4, 64, 0xc0, 0, 0, 1, 0, 0, 0, 1, 0,
						[16] = 0xfd, 1, [31] = 0 };
	unsigned char head[8] = { types[pick(frame->state, sizeof(types))] };

	put(frame, head, sizeof(head));
	put(frame, address, sizeof(address));
	put(frame, prefix, sizeof(prefix));
	put_random(frame, pick(frame->state, 80));
	return IPPROTO_ICMPV6;
}

/* A packet with a chunk INIT, COOKIE ECHO, DATA... */
static uint8_t put_sctp(struct frame *frame)
{
	unsigned char chunk[4] = { (unsigned char)pick(frame->state, 15) };
	size_t length = 4 + pick(frame->state, 100);

	put_ports(frame);
	put(frame, "\0\0\0\0\0\0\0\0", 8);
	set16(chunk + 2, length);
	put(frame, chunk, sizeof(chunk));
	put_random(frame, length - 4);
	return IPPROTO_SCTP;
}

static uint8_t put_igmp(struct frame *frame)
{
	put(frame, pick(frame->state, 2) ? "\x11\1" : "\x22\1", 2);
	put_random(frame, 6 + pick(frame->state, 40));
	return IPPROTO_IGMP;
}

static uint8_t put_anything(struct frame *frame)
{
	put_random(frame, pick(frame->state, 200));
	return (uint8_t)pick(frame->state, 256);
}

static uint8_t (*const payloads[])(struct frame *frame) = {
	put_tcp, put_tcp, put_udp, put_udp, put_icmp, put_icmp6, put_sctp, put_igmp, put_vxlan,
	put_anything,
};

static uint8_t put_payload(struct frame *frame, unsigned int depth)
{
	uint32_t count = sizeof(payloads) / sizeof(payloads[0]);
	uint8_t (*payload)(struct frame *) = payloads[pick(frame->state, count)];

	return depth && payload == put_vxlan ? put_udp(frame) : payload(frame);
}

/* ---- headers of IP and Ethernet --------------------------------------------------- */

static void put_ip4(struct frame *frame, unsigned int depth)
{
	static const unsigned char head[IP4] = { 0x45, [8] = 64, [12] = 10, 1, 0, 2, 10, 1, 0, 1 };
	size_t start = frame->length, options = pick(frame->state, 8) ? 0 : pick(frame->state, 11);
	unsigned char *at = frame->bytes + start;

	put(frame, head, sizeof(head));
	at[0] = (unsigned char)(0x45 + options);
	/* One of eight is a fragment. */
	if (!pick(frame->state, 8))
		set16(at + 6, pick(frame->state, 2) << 13 | pick(frame->state, 100));
	set16(at + 4, pick(frame->state, 4));
	put_random(frame, options * 4);
	at[9] = put_payload(frame, depth);
	set16(at + 2, frame->length - start);
}

static uint8_t put_extension(struct frame *frame, uint8_t next)
{
	static const uint8_t kinds[] = { 0, 43, 44, 60, 51, 135 };
	unsigned char head[8] = { next, 0, (unsigned char)pick(frame->state, 3),
				  (unsigned char)pick(frame->state, 20) };

	put(frame, head, sizeof(head));
	return kinds[pick(frame->state, sizeof(kinds))];
}

static void put_ip6(struct frame *frame, unsigned int depth)
{
	static const unsigned char head[IP6] = { 0x60, [7] = 255, [8] = 0xfe, 0x80, [23] = 2,
						 [24] = 0xfd, [39] = 1 };
	size_t start = frame->length, extensions = pick(frame->state, 4) ? 0 : 2;
	unsigned char *next = frame->bytes + start + 6;

	put(frame, head, sizeof(head));
	for (size_t i = 0; i < extensions; i++) {
		unsigned char *following = frame->bytes + frame->length;

		*next = put_extension(frame, 59);
		next = following;
	}
	*next = put_payload(frame, depth);
	set16(frame->bytes + start + 4, frame->length - start - IP6);
}

static void put_arp(struct frame *frame)
{
	static const unsigned char head[] = { 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 1, 0,
					      2, 0, 0, 0, 0, 0, 0, 10, 1, 0, 1 };

	put(frame, head, sizeof(head));
	frame->bytes[frame->length - sizeof(head) + 7] = (unsigned char)(1 +
									 pick(frame->state, 2));
}

static void put_frame(struct frame *frame, unsigned int depth)
{
	static const unsigned char head[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };
	static const unsigned char everybody[6] = { 255, 255, 255, 255, 255, 255 };
	size_t start = frame->length;

	put(frame, head, sizeof(head));
	if (!pick(frame->state, 4))
		memcpy(frame->bytes + start, everybody, sizeof(everybody));
	if (!pick(frame->state, 8))
		put(frame, "\x81\x00\x00\x07", 4);
	switch (pick(frame->state, 8)) {
	case 0:
		put(frame, "\x08\x06", 2);
		put_arp(frame);
		break;
	case 1: case 2: case 3:
		put(frame, "\x86\xdd", 2);
		put_ip6(frame, depth);
		break;
	default:
		put(frame, "\x08\x00", 2);
		put_ip4(frame, depth);
	}
}

/* ---- mistakes ------------------------------------------------------------------------ */

static void change(struct frame *frame, size_t start)
{
	static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };
	size_t size = frame->length - start, at = start + pick(frame->state, (uint32_t)size);

	switch (pick(frame->state, 6)) {
	case 0:
		frame->bytes[at] ^= (unsigned char)(1 << pick(frame->state, 8));
		break;
	case 1:
		frame->bytes[at] = values[pick(frame->state, sizeof(values))];
		break;
	case 2:
		frame->length = at;
		break;
	case 3:
		put_random(frame, pick(frame->state, 100));
		break;
	case 4:
		memmove(frame->bytes + at, frame->bytes + start, frame->length - at);
		break;
	default:
		frame->bytes[at] = (unsigned char)pick(frame->state, 256);
	}
}

/* A header that Linux must not trust, or one that declares the checksum as right. */
static void set_virtio_header(struct frame *frame)
{
	struct virtio_net_hdr_v1 header = { .flags = VIRTIO_NET_HDR_F_DATA_VALID };

	if (!pick(frame->state, 8)) {
		header.flags = (uint8_t)pick(frame->state, 4);
		header.gso_type = (uint8_t)pick(frame->state, 6);
		header.hdr_len = (uint16_t)pick(frame->state, 200);
		header.gso_size = (uint16_t)pick(frame->state, 2000);
		header.csum_start = (uint16_t)pick(frame->state, 100);
		header.csum_offset = (uint16_t)pick(frame->state, 20);
	}
	memcpy(frame->bytes, &header, sizeof(header));
}

size_t net_fuzz_frame(uint64_t *state, unsigned char bytes[FUZZ_ROOM])
{
	const size_t start = OB_NET_HEADER_BYTES, ip = start + ETHERNET;
	struct frame frame = { bytes, start, state };
	bool is_random = !pick(state, 8);

	set_virtio_header(&frame);
	if (is_random)
		put_random(&frame, ETHERNET + pick(state, 1500));
	else
		put_frame(&frame, 0);
	for (uint32_t i = pick(state, 6); !is_random && i && frame.length > ip; i--)
		change(&frame, pick(state, 8) ? ip : start);
	if (frame.length < ip + IP4)
		put_random(&frame, ip + IP4 - frame.length);
	if (bytes[ip] >> 4 == 4 && bytes[ip - 2] == 8 && pick(state, 8)) {
		size_t size = (bytes[ip] & 15) * 4u;

		checksum(bytes + ip, size >= IP4 && ip + size <= frame.length ? size : IP4);
	}
	return frame.length;
}
