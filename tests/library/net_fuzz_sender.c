// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sends frames of net_fuzz_frames.c: net_fuzz_sender hub|packet TARGET FRAMES SEED
 *
 * TARGET is the path of a hub, or an interface of the host. Prints how many frames were sent: an
 * interface of the host refuses some headers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "net_fuzz_frames.h"
#include "net_port.h"

/* The header of a packet socket lacks the last member of the hub's. */
#define PACKET_HEADER sizeof(struct virtio_net_hdr)

#define BATCH 256		/* fewer than a tap has room for */

typedef bool send_frame(void *context, unsigned char *frame, size_t length);

/* Waits while the kernel's ring is full. */
static bool send_to_hub(void *context, unsigned char *frame, size_t length)
{
	struct ob_net_backend *hub = context;
	struct iovec piece = { frame, length };
	int result;

	while ((result = hub->operations->transmit(hub, 0, &piece, 1)) == -ENOBUFS)
		usleep(100);
	CHECK(result == 0 || result == -EINVAL || result == -EMSGSIZE);
	hub->operations->transmit_end(hub, 0);
	return !result;
}

struct interface {
	const char *name;
	int fd;
	uint64_t sent;
};

static uint64_t statistic(const char *name, const char *what)
{
	unsigned long value;
	char path[100];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/%s", name, what);
	file = fopen(path, "r");
	CHECK(file);
	CHECK_EQUAL(fscanf(file, "%lu", &value), 1);
	fclose(file);
	return value;
}

/*
 * A tap drops frames when its queue is full: waits until its reader takes no more. The counters do
 * not say how many are left, as some are counted twice.
 */
static void wait_for_reader(const char *name)
{
	uint64_t before, now = statistic(name, "tx_packets");

	do {
		before = now;
		usleep(5000);
		now = statistic(name, "tx_packets");
	} while (now != before);
}

static bool send_to_interface(void *context, unsigned char *frame, size_t length)
{
	size_t skipped = OB_NET_HEADER_BYTES - PACKET_HEADER;
	struct interface *interface = context;

	memmove(frame + skipped, frame, PACKET_HEADER);
	while (send(interface->fd, frame + skipped, length - skipped, 0) < 0) {
		if (errno != ENOBUFS)
			return false;
		usleep(100);
	}
	if (++interface->sent % BATCH == 0)
		wait_for_reader(interface->name);
	return true;
}

static uint64_t send_frames(send_frame *send_one, void *context, uint64_t count, uint64_t seed)
{
	static unsigned char frame[FUZZ_ROOM];
	uint64_t sent = 0;

	for (uint64_t i = 0; i < count; i++)
		sent += send_one(context, frame, net_fuzz_frame(&seed, frame));
	return sent;
}

static uint64_t over_hub(const char *path, uint64_t count, uint64_t seed)
{
	struct ob_net_request request = { .target = path };
	struct ob_net_backend *hub;
	struct ob_net_port port;
	char error[256] = "";
	uint64_t sent;

	port_init(&port, 64, 1536, NULL, NULL);
	if (ob_net_hub_open(NULL, &port, &request, &hub, error, sizeof(error)))
		fprintf(stderr, "%s\n", error);
	CHECK(!*error);
	CHECK_EQUAL(hub->operations->set_features(hub, 0), 0);
	sent = send_frames(send_to_hub, hub, count, seed);
	hub->operations->close(hub);
	port_free(&port);
	return sent;
}

static uint64_t over_interface(const char *name, uint64_t count, uint64_t seed)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_ifindex = (int)if_nametoindex(name) };
	struct interface interface = { name, socket(AF_PACKET, SOCK_RAW, 0), 0 };
	int fd = interface.fd, one = 1;

	CHECK(fd >= 0);
	CHECK(!setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)));
	CHECK(!bind(fd, (struct sockaddr *)&to, sizeof(to)));
	return send_frames(send_to_interface, &interface, count, seed);
}

int main(int count, char *words[])
{
	uint64_t frames, seed;

	CHECK_EQUAL(count, 5);
	frames = strtoull(words[3], NULL, 10);
	seed = strtoull(words[4], NULL, 10);
	printf("%lu\n", (unsigned long)(strcmp(words[1], "hub") ?
					over_interface(words[2], frames, seed) :
					over_hub(words[2], frames, seed)));
	return 0;
}
