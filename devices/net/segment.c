// SPDX-License-Identifier: GPL-2.0-only
/*
 * Segmentation and checksums by software: segment.h.
 *
 * TCP and UDP over IPv4 and IPv6 are cut, behind VLAN tags and extension headers too. Frames of a
 * tunnel, fragments and other protocols cannot be cut here. Linux cuts them itself before it sends
 * them, because the device does not offer these offloads.
 *
 * A frame that is not cut needs no look at its headers: the virtio header says where the checksum
 * begins and where it is stored, and the sender has stored the sum of the pseudo header there.
 */
#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>

#include "pieces.h"
#include "segment.h"

#define BIT(n) (1ull << (n))

#define ETHERNET_BYTES 14u
#define VLAN_BYTES 4u
#define VLAN_TAGS_MOST 4
#define IP4_BYTES 20u
#define IP6_BYTES 40u
#define TCP_BYTES 20u
#define UDP_BYTES 8u
#define EXTENSIONS_MOST 8

#define TYPE_IP4 0x0800
#define TYPE_IP6 0x86dd
#define TYPE_VLAN 0x8100
#define TYPE_SERVICE_VLAN 0x88a8

#define IP4_FRAGMENT 0x3fff	/* more fragments follow, or this is not the first */
#define PACKET_MOST 65535u
/* 64 KB by the smallest payload that Linux's TCP sends: 48 bytes less all options. */
#define SEGMENTS_MOST 8192u

#define TCP_FIN 0x01
#define TCP_PSH 0x08
#define TCP_CWR 0x80

/* ---- bytes ------------------------------------------------------------------- */

static uint16_t get_16(const unsigned char *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put_16(unsigned char *at, size_t value)
{
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}

static uint32_t get_32(const unsigned char *at)
{
	return (uint32_t)get_16(at) << 16 | get_16(at + 2);
}

static void put_32(unsigned char *at, uint32_t value)
{
	put_16(at, value >> 16);
	put_16(at + 2, value & 0xffff);
}

/* Adds to a sum of 16-bit words in the order of memory. Only the last addition may be odd. */
static uint64_t add(uint64_t sum, const unsigned char *bytes, size_t size)
{
	uint32_t word;
	uint16_t half = 0;

	for (; size >= sizeof(word); bytes += sizeof(word), size -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		sum += word;
	}
	if (size >= sizeof(half)) {
		memcpy(&half, bytes, sizeof(half));
		sum += half;
		bytes += sizeof(half);
		size -= sizeof(half);
	}
	half = 0;
	memcpy(&half, bytes, size);
	return sum + half;
}

/* For a checksum of 0, UDP has 0xffff: 0 would mean that there is none. TCP takes both. */
static void put_checksum(unsigned char *at, uint64_t sum)
{
	uint16_t checksum;

	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	checksum = (uint16_t)~sum;
	if (!checksum)
		checksum = 0xffff;
	memcpy(at, &checksum, sizeof(checksum));
}

/* ---- the virtio header --------------------------------------------------------- */

static bool needs_checksum(const struct virtio_net_hdr_v1 *header)
{
	return header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM;
}

/* `length`: without the virtio header. */
static bool is_checksum_inside(const struct virtio_net_hdr_v1 *header, size_t length)
{
	return header->csum_start >= ETHERNET_BYTES &&
	       (size_t)header->csum_start + header->csum_offset + 2 <= length;
}

/* The features that a receiver of that kind of segmentation has all. */
static uint64_t features_of(uint8_t gso_type)
{
	uint64_t ecn = gso_type & VIRTIO_NET_HDR_GSO_ECN ? BIT(VIRTIO_NET_F_GUEST_ECN) : 0;

	switch (gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		return BIT(VIRTIO_NET_F_GUEST_TSO4) | ecn;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return BIT(VIRTIO_NET_F_GUEST_TSO6) | ecn;
	case VIRTIO_NET_HDR_GSO_UDP:
		return BIT(VIRTIO_NET_F_GUEST_UFO);
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		return BIT(VIRTIO_NET_F_GUEST_USO4) | BIT(VIRTIO_NET_F_GUEST_USO6);
	default:
		return ~0ull;
	}
}

bool ob_net_header_fits(uint64_t features, struct virtio_net_hdr_v1 *header, size_t length)
{
	struct virtio_net_hdr_v1 clean = { .flags = 0 };
	bool is_cut = header->gso_type != VIRTIO_NET_HDR_GSO_NONE;

	if (needs_checksum(header)) {
		if (!(features & BIT(VIRTIO_NET_F_GUEST_CSUM)) ||
		    !is_checksum_inside(header, length - OB_NET_HEADER_BYTES))
			return false;
		clean.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		clean.csum_start = header->csum_start;
		clean.csum_offset = header->csum_offset;
	}
	if (is_cut) {
		if (!clean.flags || !header->gso_size ||
		    features_of(header->gso_type) & ~features)
			return false;
		clean.gso_type = header->gso_type;
		clean.gso_size = header->gso_size;
		clean.hdr_len = header->hdr_len;
	}
	*header = clean;
	return true;
}

/* ---- the frame's headers ------------------------------------------------------- */

/* Finds the packet behind the Ethernet header and VLAN tags. Returns its type; 0: there is none. */
static uint16_t find_network(const unsigned char *frame, size_t length, size_t *network)
{
	size_t at = ETHERNET_BYTES;

	for (int tags = 0; tags <= VLAN_TAGS_MOST && at <= length; tags++, at += VLAN_BYTES) {
		uint16_t type = get_16(frame + at - 2);

		if (type == TYPE_VLAN || type == TYPE_SERVICE_VLAN)
			continue;
		*network = at;
		return type;
	}
	return 0;
}

static bool read_ip4(const unsigned char *frame, size_t length, struct ob_net_layout *layout)
{
	const unsigned char *ip = frame + layout->network;
	size_t size;

	if (length - layout->network < IP4_BYTES || ip[0] >> 4 != 4 ||
	    get_16(ip + 6) & IP4_FRAGMENT)
		return false;
	size = (ip[0] & 15) * 4u;
	layout->transport = layout->network + size;
	layout->protocol = ip[9];
	return size >= IP4_BYTES && layout->transport <= length;
}

/* An extension header that each frame gets a copy of. A source route changes the checksum. */
static bool is_copied(uint8_t protocol, const unsigned char *extension)
{
	if (protocol == IPPROTO_ROUTING)
		return !extension[3];
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_DSTOPTS;
}

static bool read_ip6(const unsigned char *frame, size_t length, struct ob_net_layout *layout)
{
	const unsigned char *ip = frame + layout->network;

	if (length - layout->network < IP6_BYTES || ip[0] >> 4 != 6)
		return false;
	layout->is_ip6 = true;
	layout->protocol = ip[6];
	layout->transport = layout->network + IP6_BYTES;
	for (int i = 0; i < EXTENSIONS_MOST; i++) {
		const unsigned char *extension = frame + layout->transport;
		size_t size;

		if (layout->protocol == IPPROTO_TCP || layout->protocol == IPPROTO_UDP)
			return true;
		if (length - layout->transport < 8 || !is_copied(layout->protocol, extension))
			return false;
		size = (extension[1] + 1u) * 8u;
		if (length - layout->transport < size)
			return false;
		layout->protocol = extension[0];
		layout->transport += size;
	}
	return false;
}

static bool read_transport(const unsigned char *frame, size_t length, struct ob_net_layout *layout)
{
	size_t rest = length - layout->transport, size = UDP_BYTES;

	if (layout->protocol == IPPROTO_TCP) {
		if (rest < TCP_BYTES)
			return false;
		size = (frame[layout->transport + 12] >> 4) * 4u;
		if (size < TCP_BYTES)
			return false;
	}
	layout->payload = layout->transport + size;
	return rest >= size;
}

static size_t checksum_offset(const struct ob_net_layout *layout)
{
	return layout->protocol == IPPROTO_TCP ? 16 : 6;
}

/* Is the packet what the virtio header says? */
static bool is_kind(uint8_t gso_type, const struct ob_net_layout *layout)
{
	switch (gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_TCPV4:
		return layout->protocol == IPPROTO_TCP && !layout->is_ip6;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return layout->protocol == IPPROTO_TCP && layout->is_ip6;
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		return gso_type == VIRTIO_NET_HDR_GSO_UDP_L4 && layout->protocol == IPPROTO_UDP;
	default:
		return false;
	}
}

/* In a tunnel, the checksum is that of the packet inside. */
static bool read_layout(const struct virtio_net_hdr_v1 *header, const unsigned char *frame,
			size_t length, struct ob_net_layout *layout)
{
	bool is_read = false;

	*layout = (struct ob_net_layout){ .network = 0 };
	switch (find_network(frame, length, &layout->network)) {
	case TYPE_IP4:
		is_read = read_ip4(frame, length, layout);
		break;
	case TYPE_IP6:
		is_read = read_ip6(frame, length, layout);
	}
	if (!is_read || !is_kind(header->gso_type, layout) ||
	    !read_transport(frame, length, layout))
		return false;
	return !needs_checksum(header) || (header->csum_start == layout->transport &&
					   header->csum_offset == checksum_offset(layout));
}

/* ---- frames -------------------------------------------------------------------- */

static bool complete_checksum(struct ob_net_segments *s, const struct virtio_net_hdr_v1 *header)
{
	unsigned char *start = s->bytes + header->csum_start;

	if (!needs_checksum(header))
		return true;
	if (!is_checksum_inside(header, s->length))
		return false;
	put_checksum(start + header->csum_offset, add(0, start, s->length - header->csum_start));
	return true;
}

/* What follows the header of IP counts as payload, whatever the lengths in the headers say. */
static bool begin_cut(struct ob_net_segments *s, const struct virtio_net_hdr_v1 *header)
{
	struct ob_net_layout *layout = &s->layout;
	size_t payload, headers;

	if (!header->gso_size || !read_layout(header, s->bytes, s->length, layout))
		return false;
	headers = layout->payload - layout->network;
	payload = s->length - layout->payload;
	s->size = payload < header->gso_size ? payload : header->gso_size;
	if (headers + s->size > PACKET_MOST || payload / header->gso_size >= SEGMENTS_MOST)
		return false;
	s->is_cut = true;
	s->next = layout->payload;
	if (!layout->is_ip6)
		s->identification = get_16(s->bytes + layout->network + 4);
	if (layout->protocol == IPPROTO_TCP) {
		s->sequence = get_32(s->bytes + layout->transport + 4);
		s->flags = s->bytes[layout->transport + 13];
	}
	return true;
}

bool ob_net_segments_begin(struct ob_net_segments *s, const struct iovec *pieces, int count)
{
	struct iovec to[] = {
		{ &s->header, OB_NET_HEADER_BYTES },
		{ s->bytes, sizeof(s->bytes) },
	};
	size_t length = ob_net_pieces_length(pieces, count);
	struct virtio_net_hdr_v1 header;
	bool is_right;

	ob_net_segments_drop(s);
	if (length < OB_NET_HEADER_BYTES + ETHERNET_BYTES ||
	    !ob_net_pieces_copy(to, 2, pieces, count))
		return false;
	header = s->header;
	s->header = (struct virtio_net_hdr_v1){ .num_buffers = 1 };
	s->length = s->next = length - OB_NET_HEADER_BYTES;
	if (header.gso_type == VIRTIO_NET_HDR_GSO_NONE)
		is_right = complete_checksum(s, &header);
	else
		is_right = begin_cut(s, &header);
	if (!is_right)
		ob_net_segments_drop(s);
	return is_right;
}

/* A frame without payload is one frame, too. */
bool ob_net_segments_left(const struct ob_net_segments *s)
{
	return s->next < s->length || (s->length && !s->number);
}

static size_t next_size(const struct ob_net_segments *s)
{
	size_t rest = s->length - s->next;

	return rest < s->size ? rest : s->size;
}

static void set_network(struct ob_net_segments *s, size_t size)
{
	unsigned char *ip = s->bytes + s->layout.network;
	size_t headers = s->layout.payload - s->layout.network;

	if (s->layout.is_ip6) {
		put_16(ip + 4, headers - IP6_BYTES + size);
		return;
	}
	put_16(ip + 2, headers + size);
	put_16(ip + 4, (uint16_t)(s->identification + s->number));
	put_16(ip + 10, 0);
	put_checksum(ip + 10, add(0, ip, s->layout.transport - s->layout.network));
}

static void set_tcp(struct ob_net_segments *s, size_t size)
{
	unsigned char *tcp = s->bytes + s->layout.transport;
	uint8_t flags = s->flags;

	if (s->number)
		flags &= (uint8_t)~TCP_CWR;
	if (s->next + size < s->length)
		flags &= (uint8_t)~(TCP_FIN | TCP_PSH);
	put_32(tcp + 4, s->sequence + (uint32_t)(s->next - s->layout.payload));
	tcp[13] = flags;
}

/* The addresses, the protocol and the length: what a checksum of TCP or UDP covers besides. */
static uint64_t pseudo_sum(const struct ob_net_segments *s, size_t length)
{
	const unsigned char *ip = s->bytes + s->layout.network;
	uint64_t words = (uint64_t)htonl((uint32_t)length) + htonl(s->layout.protocol);

	return s->layout.is_ip6 ? add(words, ip + 8, 32) : add(words, ip + 12, 8);
}

static void set_transport(struct ob_net_segments *s, size_t size)
{
	size_t headers = s->layout.payload - s->layout.transport;
	unsigned char *transport = s->bytes + s->layout.transport;
	unsigned char *checksum = transport + checksum_offset(&s->layout);
	uint64_t sum;

	if (s->layout.protocol == IPPROTO_TCP)
		set_tcp(s, size);
	else
		put_16(transport + 4, headers + size);
	put_16(checksum, 0);
	sum = add(pseudo_sum(s, headers + size), transport, headers);
	put_checksum(checksum, add(sum, s->bytes + s->next, size));
}

void ob_net_segments_get(struct ob_net_segments *s, struct iovec pieces[OB_NET_SEGMENT_PIECES])
{
	size_t size = next_size(s);

	pieces[0] = (struct iovec){ &s->header, OB_NET_HEADER_BYTES };
	pieces[1] = (struct iovec){ s->bytes, s->is_cut ? s->layout.payload : s->length };
	pieces[2] = (struct iovec){ s->bytes + s->next, size };
	if (!s->is_cut)
		return;
	set_network(s, size);
	set_transport(s, size);
}

void ob_net_segments_advance(struct ob_net_segments *s)
{
	s->next += next_size(s);
	s->number++;
}

void ob_net_segments_drop(struct ob_net_segments *s)
{
	s->is_cut = false;
	s->length = s->next = s->size = 0;
	s->number = 0;
}
