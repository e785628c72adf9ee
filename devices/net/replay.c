// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replay: an interface that receives the frames of a capture file.
 *
 * The target is "FILE", or "FILE,fast" for no pauses between the frames. Frames that the file marks
 * as outbound were sent by a kernel, and are left out. The kernel's own frames go nowhere. After
 * the last frame the interface stays as it is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "deliver.h"
#include "internal.h"
#include "pcap_read.h"
#include "report.h"

/* Frames between two interrupts, if there are no pauses. */
#define BATCH 64

/* Captures contain packets of segmentation offloads. */
#define MTU_MOST 65535u

struct replay {
	struct ob_net_backend backend;
	struct ob_host *host;
	struct ob_net_port *port;
	struct ob_pcap_reader reader;
	uint64_t thread;
	uint32_t ending;		/* atomic */
	bool is_fast;
	/* Frame times are added to the time when the first frame was delivered. */
	bool has_begun;
	uint64_t first_time, begin;
	uint64_t frames;
	char name[256];			/* of the file, for messages */
};

static int transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count)
{
	(void)backend;
	(void)queue;
	(void)pieces;
	(void)count;
	return 0;
}

static uint64_t now(void)
{
	return ob_net_clock(CLOCK_MONOTONIC);
}

static bool is_ending(struct replay *replay)
{
	return __atomic_load_n(&replay->ending, __ATOMIC_ACQUIRE);
}

/* Sleeps until a frame is due. A time before that of the first frame is due at once. */
static void wait_until_due(struct replay *replay, const struct ob_pcap_frame *frame)
{
	if (!frame->has_time || !replay->has_begun || frame->time <= replay->first_time)
		return;
	while (!is_ending(replay)) {
		uint64_t passed = now() - replay->begin;
		uint64_t due = frame->time - replay->first_time;

		if (passed >= due)
			return;
		ob_net_receive_flush(replay->port, 0);
		ob_host_wait(replay->host, &replay->ending, 0, due - passed);
	}
}

/* False: the interface is being closed. */
static bool replay_one(struct replay *replay, const struct ob_pcap_frame *frame)
{
	if (!replay->is_fast)
		wait_until_due(replay, frame);
	if (is_ending(replay) ||
	    !ob_net_deliver(replay->port, replay->backend.mtu, frame->bytes, frame->length))
		return false;
	if (!replay->has_begun && frame->has_time) {
		replay->has_begun = true;
		replay->first_time = frame->time;
		replay->begin = now();
	}
	if (++replay->frames % BATCH == 0)
		ob_net_receive_flush(replay->port, 0);
	return true;
}

static void report_end(struct replay *replay)
{
	char text[600];
	int length = snprintf(text, sizeof(text), "net pcap: %s: replayed %llu frames",
			      replay->name, (unsigned long long)replay->frames);

	if (replay->reader.skipped)
		length += snprintf(text + length, sizeof(text) - (size_t)length,
				   ", left out %llu packets that are no whole Ethernet frames",
				   (unsigned long long)replay->reader.skipped);
	if (!replay->reader.problem) {
		ob_net_inform(replay->host, text);
		return;
	}
	snprintf(text + length, sizeof(text) - (size_t)length, ", stopped early: %s",
		 replay->reader.problem);
	ob_net_warn(replay->host, text);
}

static void run(void *pointer)
{
	struct replay *replay = pointer;
	struct ob_pcap_frame frame;

	while (!is_ending(replay) && ob_pcap_read(&replay->reader, &frame))
		if (!replay_one(replay, &frame))
			return;
	ob_net_receive_flush(replay->port, 0);
	if (!is_ending(replay))
		report_end(replay);
}

static void free_replay(struct ob_net_backend *backend)
{
	struct replay *replay = (struct replay *)backend;

	ob_pcap_reader_close(&replay->reader);
	free(replay);
}

static void close_replay(struct ob_net_backend *backend)
{
	struct replay *replay = (struct replay *)backend;

	__atomic_store_n(&replay->ending, 1, __ATOMIC_RELEASE);
	ob_net_port_stop(replay->port);
	ob_host_wake(replay->host, &replay->ending, 1);
	ob_host_thread_join(replay->host, replay->thread);
	free_replay(backend);
}

static const struct ob_net_backend_operations operations = {
	.transmit = transmit,
	.close = close_replay,
	.forked = free_replay,
};

/* Splits "FILE,fast". Returns false if the name is too long. */
static bool parse_target(struct replay *replay, const char *target, char *path, size_t size)
{
	static const char fast[] = ",fast";
	size_t length = strlen(target), end = sizeof(fast) - 1;

	replay->is_fast = length > end && !strcmp(target + length - end, fast);
	if (replay->is_fast)
		length -= end;
	if (length >= size)
		return false;
	memcpy(path, target, length);
	path[length] = 0;
	snprintf(replay->name, sizeof(replay->name), "%.255s", path);
	return true;
}

static int open_capture(struct replay *replay, const char *target, char *error, size_t size)
{
	char path[4096];
	int result = -ENAMETOOLONG;

	if (!*target) {
		snprintf(error, size, "net pcap: no file was given; write pcap:FILE");
		return -EINVAL;
	}
	if (parse_target(replay, target, path, sizeof(path)))
		result = ob_pcap_reader_open(&replay->reader, path);
	if (result)
		snprintf(error, size, "net pcap: cannot replay %.200s: %s", target,
			 replay->reader.problem ? replay->reader.problem :
			 strerrordesc_np(-result));
	return result;
}

int ob_net_replay_open(struct ob_host *host, struct ob_net_port *port,
		       const struct ob_net_request *request, struct ob_net_backend **backend,
		       char *error, size_t error_size)
{
	struct replay *replay = calloc(1, sizeof(*replay));
	int result;

	if (!replay) {
		snprintf(error, error_size, "net pcap: out of memory");
		return -ENOMEM;
	}
	replay->backend = (struct ob_net_backend){
		.operations = &operations,
		.mtu = request->mtu ? request->mtu : MTU_MOST,
		.queues = 1,
	};
	replay->host = host;
	replay->port = port;
	result = open_capture(replay, request->target, error, error_size);
	if (result) {
		free(replay);
		return result;
	}
	result = ob_host_thread_create(host, run, replay, "outboard-replay", &replay->thread);
	if (result) {
		snprintf(error, error_size, "net pcap: the host has no more threads");
		free_replay(&replay->backend);
		return result;
	}
	*backend = &replay->backend;
	return 0;
}
