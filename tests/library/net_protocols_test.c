// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protocols and virtual devices of two kernels on one segment: net_protocols_test CASE SIDE HUB
 *
 * SIDE is 1 or 2. Both sides run the same case in processes of their own. Side 2 connects to side
 * 1 and both exchange checked contents, through what the case has configured. The addresses of the
 * interfaces on the segment are 10.1.0.SIDE, those behind a tunnel 10.2.0.SIDE.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_bonding.h>
#include <linux/if_link.h>
#include <linux/mptcp.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"
#include "net_links.h"
#include "net_message.h"
#include "net_policies.h"
#include "net_wireguard.h"
#include "stream.h"

#define PORT 7007
#define DROPPED 7008
#define REJECTED 7009
#define BYTES (4u << 20)
#define ATTEMPTS 3000		/* of 100 milliseconds: a guard against hangs */
#define OUTER "10.1.0.1"
#define INNER "10.2.0.1"

static int side;
static const char *hub;

/* ---- the segment ------------------------------------------------------------------ */

/* `segment`: each has its own file. */
static void add_interface(int segment)
{
	char description[400];

	snprintf(description, sizeof(description), "hub:%s%d", hub, segment);
	net_add(description, NULL);
}

static void set_address(const char *name, const char *network)
{
	char words[64];

	snprintf(words, sizeof(words), "ip=%s.%d/24", network, side);
	net_configure(name, words);
}

static void join(void)
{
	add_interface(0);
	set_address("eth0", "10.1.0");
}

/* ---- transfers -------------------------------------------------------------------- */

static struct sockaddr_in at(const char *address, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };

	CHECK_EQUAL(inet_pton(AF_INET, address, &to.sin_addr), 1);
	return to;
}

static long send_some(const struct stream *stream, const void *bytes, size_t size)
{
	return OK(ob_sys_sendto(stream->fd, (void *)bytes, size, MSG_NOSIGNAL, NULL, 0));
}

static long receive_some(const struct stream *stream, void *bytes, size_t room)
{
	return OK(ob_sys_recvfrom(stream->fd, bytes, room, 0, NULL, NULL));
}

/* A side's end. Its number is that of the stream that it sends. */
static struct stream end_of(int fd, uint32_t bytes)
{
	return (struct stream){
		.send = send_some, .receive = receive_some, .fd = fd,
		.sends = (unsigned int)side, .receives = (unsigned int)(3 - side), .bytes = bytes,
	};
}

static void exchange(int fd, uint32_t bytes)
{
	struct stream stream = end_of(fd, bytes);

	stream_exchange(&stream);
}

static int accepted(int protocol, const char *address)
{
	struct sockaddr_in own = at(address, PORT);
	int listener = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, protocol)), fd;

	OK(ob_sys_bind(listener, (void *)&own, sizeof(own)));
	OK(ob_sys_listen(listener, 4));
	fd = (int)OK(ob_sys_accept4(listener, NULL, NULL, 0));
	OK(ob_sys_close(listener));
	return fd;
}

/* The other side may not be there yet. */
static int connected(int protocol, const char *address)
{
	struct sockaddr_in to = at(address, PORT);

	for (int i = 0; i < ATTEMPTS; i++) {
		int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, protocol));

		if (!ob_sys_connect(fd, (void *)&to, sizeof(to)))
			return fd;
		OK(ob_sys_close(fd));
		usleep(100000);
	}
	CHECK(!"side 1 answers");
	return -1;
}

static int meet(int protocol, const char *address)
{
	return side == 1 ? accepted(protocol, address) : connected(protocol, address);
}

/* No side ends before the other one has everything. */
static void part(int fd)
{
	char byte = 0;

	CHECK_EQUAL(OK(ob_sys_sendto(fd, &byte, 1, MSG_NOSIGNAL, NULL, 0)), 1);
	CHECK_EQUAL(OK(ob_sys_recvfrom(fd, &byte, 1, 0, NULL, NULL)), 1);
	OK(ob_sys_close(fd));
}

static void transfer(int protocol, const char *address)
{
	int fd = meet(protocol, address);

	exchange(fd, BYTES);
	part(fd);
}

/* ---- devices --------------------------------------------------------------------------- */

static void add_vlan_words(struct net_message *message)
{
	uint16_t id = 7;

	net_message_add(message, IFLA_VLAN_ID, &id, sizeof(id));
}

static void test_vlan(void)
{
	join();
	net_make_link_with("vlan", "vlan7", "eth0", add_vlan_words);
	set_address("vlan7", "10.2.0");
	transfer(0, INNER);
}

static void add_vxlan_words(struct net_message *message)
{
	struct sockaddr_in peer = at(side == 1 ? "10.1.0.2" : "10.1.0.1", 4789);

	net_message_add_u32(message, IFLA_VXLAN_ID, 42);
	net_message_add(message, IFLA_VXLAN_GROUP, &peer.sin_addr, sizeof(peer.sin_addr));
	net_message_add(message, IFLA_VXLAN_PORT, &peer.sin_port, sizeof(peer.sin_port));
}

static void test_vxlan(void)
{
	join();
	net_make_link_with("vxlan", "vxlan0", NULL, add_vxlan_words);
	set_address("vxlan0", "10.2.0");
	transfer(0, INNER);
}

static void test_wireguard(void)
{
	join();
	net_make_wireguard("wg0", (uint8_t)side, (uint8_t)(3 - side), 51820,
			   side == 1 ? "10.1.0.2" : "10.1.0.1", 51820);
	set_address("wg0", "10.2.0");
	net_configure("wg0", "mtu=1420");
	/* Side 1 is there: a lost handshake is repeated after five seconds only. */
	part(meet(0, OUTER));
	transfer(0, INNER);
}

/* eth0 and one end of a cable are ports. The address is at the other end. */
static void test_bridge(void)
{
	add_interface(0);
	net_make_link("bridge", "br0");
	net_make_veth("veth0", "veth1");
	net_set_controller("eth0", "br0");
	net_set_controller("veth0", "br0");
	net_configure("br0", "up");
	net_configure("veth0", "up");
	set_address("veth1", "10.2.0");
	transfer(0, INNER);
}

static void add_bond_words(struct net_message *message)
{
	uint8_t mode = BOND_MODE_ACTIVEBACKUP;

	net_message_add(message, IFLA_BOND_MODE, &mode, sizeof(mode));
	net_message_add_u32(message, IFLA_BOND_MIIMON, 20);
}

/* Waits until the bond uses another interface than this one. Returns its name. */
static const char *active_but(const char *not_this)
{
	char text[32];

	for (int i = 0; i < ATTEMPTS; i++) {
		CHECK(net_read_file("/sys/class/net/team/bonding/active_slave", text,
				    sizeof(text)));
		for (int j = 0; j < 2; j++) {
			const char *port = j ? "eth1" : "eth0";

			if (strcmp(port, not_this) && !strncmp(text, port, strlen(port)))
				return port;
		}
		usleep(100000);
	}
	CHECK(!"the bond changes its interface");
	return NULL;
}

/* The controller of both interfaces, each on a segment of its own. */
static void join_both(const char *controller)
{
	add_interface(0);
	add_interface(1);
	for (int i = 0; i < 2; i++) {
		const char *port = i ? "eth1" : "eth0";

		net_configure(port, "down");
		net_set_controller(port, controller);
		net_configure(port, "up");
	}
	set_address(controller, "10.2.0");
}

/* Side 1 is the switch of both segments. Side 2 leaves the one that it uses while data flow. */
static void test_bond(void)
{
	struct stream stream;
	pthread_t sender;

	if (side == 1) {
		net_make_link("bridge", "br0");
		join_both("br0");
	} else {
		net_make_link_with("bond", "team", NULL, add_bond_words);
		join_both("team");
	}
	stream = end_of(meet(0, INNER), 4 * BYTES);
	CHECK_EQUAL(pthread_create(&sender, NULL, stream_send, &stream), 0);
	stream_receive(&stream, 0, BYTES);
	if (side == 2) {
		const char *active = active_but("");

		net_configure(active, "down");
		active_but(active);
	}
	stream_receive(&stream, BYTES, stream.bytes);
	CHECK_EQUAL(pthread_join(sender, NULL), 0);
	part(stream.fd);
}

/* ---- protocols ------------------------------------------------------------------------- */

static void test_ipsec(void)
{
	const char *own = side == 1 ? "10.1.0.1" : "10.1.0.2";
	const char *peer = side == 1 ? "10.1.0.2" : "10.1.0.1";

	join();
	net_add_ipsec(own, peer);
	transfer(0, OUTER);
	/* A packet is at most 64 KB, before it is segmented. */
	CHECK(net_ipsec_packets(peer) > BYTES / 65536);
	CHECK(net_ipsec_packets(own) > BYTES / 65536);
}

static void test_mptcp(void)
{
	struct mptcp_info info;
	int size = sizeof(info), fd;

	join();
	fd = meet(IPPROTO_MPTCP, OUTER);
	exchange(fd, BYTES);
	OK(ob_sys_getsockopt(fd, SOL_MPTCP, MPTCP_INFO, (void *)&info, &size));
	CHECK(!(info.mptcpi_flags & MPTCP_INFO_FLAG_FALLBACK));
	CHECK(info.mptcpi_flags & MPTCP_INFO_FLAG_REMOTE_KEY_RECEIVED);
	part(fd);
}

static void test_sctp(void)
{
	join();
	transfer(IPPROTO_SCTP, OUTER);
}

/* 0, an error, or ETIMEDOUT if nothing comes in time. */
static int try_port(uint16_t port, int milliseconds)
{
	struct sockaddr_in to = at(OUTER, port);
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)), error;
	struct pollfd event = { .fd = fd, .events = POLLOUT };
	int size = sizeof(error);

	CHECK_EQUAL(ob_sys_connect(fd, (void *)&to, sizeof(to)), -1);
	CHECK_EQUAL(errno, EINPROGRESS);
	error = ETIMEDOUT;
	if (OK(ob_sys_poll(&event, 1, milliseconds)))
		OK(ob_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, (void *)&error, &size));
	OK(ob_sys_close(fd));
	return error;
}

static void listen_at(uint16_t port)
{
	struct sockaddr_in own = at(OUTER, port);
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));

	OK(ob_sys_bind(fd, (void *)&own, sizeof(own)));
	OK(ob_sys_listen(fd, 4));
}

static void test_nftables(void)
{
	int fd;

	join();
	if (side == 1) {
		net_add_filter(DROPPED, REJECTED);
		listen_at(DROPPED);
		listen_at(REJECTED);
		listen_at(PORT + 10);
	}
	fd = meet(0, OUTER);
	if (side == 2) {
		CHECK_EQUAL(try_port(DROPPED, 500), ETIMEDOUT);
		CHECK_EQUAL(try_port(REJECTED, 60000), ECONNREFUSED);
		CHECK_EQUAL(try_port(PORT + 10, 60000), 0);
	}
	exchange(fd, BYTES);
	part(fd);
}

static void set_keys(int fd, int direction, int sender)
{
	struct tls12_crypto_info_aes_gcm_128 info = { .info = {
		.version = TLS_1_3_VERSION, .cipher_type = TLS_CIPHER_AES_GCM_128,
	} };

	memset(info.key, sender, sizeof(info.key));
	memset(info.salt, sender + 10, sizeof(info.salt));
	OK(ob_sys_setsockopt(fd, SOL_TLS, direction, (void *)&info, sizeof(info)));
}

static void start_tls(int fd)
{
	OK(ob_sys_setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3));
}

/* On the way, the bytes are a record of encrypted data. */
static void check_record(void)
{
	unsigned char text[100], record[200];
	int fd = meet(0, OUTER);
	long size = 5 + 1 + (long)sizeof(text) + TLS_CIPHER_AES_GCM_128_TAG_SIZE;

	memset(text, 'a', sizeof(text));
	if (side == 2) {
		start_tls(fd);
		set_keys(fd, TLS_TX, 2);
		OK(ob_sys_sendto(fd, text, sizeof(text), 0, NULL, 0));
		part(fd);
		return;
	}
	CHECK_EQUAL(OK(ob_sys_recvfrom(fd, record, (size_t)size, MSG_WAITALL, NULL, NULL)),
		    size);
	CHECK(record[0] == 23 && record[1] == 3 && record[2] == 3);
	CHECK_EQUAL(record[3] * 256 + record[4], size - 5);
	CHECK(!memmem(record, sizeof(record), "aaaa", 4));
	part(fd);
}

static void test_tls(void)
{
	int fd;

	join();
	check_record();
	fd = meet(0, OUTER);
	start_tls(fd);
	set_keys(fd, TLS_TX, side);
	set_keys(fd, TLS_RX, 3 - side);
	exchange(fd, BYTES);
	part(fd);
}

/* Side 1 accepts datagrams whose first byte is 7. */
static void test_bpf(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 8),	/* behind the header of UDP */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, ~0u),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	struct sockaddr_in to = at(OUTER, PORT);
	int udp = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0)), fd;
	uint8_t datagram[4];

	join();
	if (side == 1) {
		OK(ob_sys_setsockopt(udp, SOL_SOCKET, SO_ATTACH_FILTER, (void *)&program,
				     sizeof(program)));
		OK(ob_sys_bind(udp, (void *)&to, sizeof(to)));
	}
	fd = meet(0, OUTER);
	for (int i = 0; side == 2 && i < 256; i++)
		OK(ob_sys_sendto(udp, (uint8_t[]){ (uint8_t)(i % 16), (uint8_t)i }, 2, 0,
				 (void *)&to, sizeof(to)));
	for (int i = 7; side == 1 && i < 256; i += 16) {
		long size = OK(ob_sys_recvfrom(udp, datagram, sizeof(datagram), 0, NULL, NULL));

		CHECK_EQUAL(size, 2);
		CHECK_EQUAL(datagram[0], 7);
		CHECK_EQUAL(datagram[1], i);
	}
	part(fd);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "vlan", test_vlan }, { "vxlan", test_vxlan }, { "wireguard", test_wireguard },
	{ "bridge", test_bridge }, { "bond", test_bond }, { "ipsec", test_ipsec },
	{ "mptcp", test_mptcp }, { "sctp", test_sctp }, { "nftables", test_nftables },
	{ "tls", test_tls }, { "bpf", test_bpf },
};

int main(int count, char *words[])
{
	CHECK_EQUAL(count, 4);
	side = atoi(words[2]);
	hub = words[3];
	client_boot(2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(words[1], cases[i].name)) {
			cases[i].run();
			CHECK_EQUAL(ob_halt(), 0);
			return 0;
		}
	return 2;
}
