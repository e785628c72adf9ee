// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the hub back-end between two processes, without kernels.
 *
 * usage: net_hub_bench PATH [SECONDS]
 *
 * Prints the round trip of one frame (the receiving thread of the other process answers it), and
 * frames and bytes of one direction, for small frames and for those of a segmentation offload.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "net_port.h"

#define ROUNDS 20000
#define HEADER OB_NET_HEADER_BYTES

static struct ob_net_port port;
static struct ob_net_backend *hub;
static const char *path;
static double seconds = 1;
static char frame[OB_NET_FRAME_MOST];

/* Shared by both processes. */
static struct shared {
	uint64_t received;
	bool answer;
	bool end;
} *shared;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* False: the ring is full. */
static bool send_frame(char *bytes, size_t length)
{
	struct iovec pieces[OB_NET_PIECES_MOST];
	int count = 0;

	for (size_t at = 0; at < length; at += 4096, count++)
		pieces[count] = (struct iovec){
			bytes + at, length - at < 4096 ? length - at : 4096
		};
	return !hub->operations->transmit(hub, 0, pieces, count);
}

static void end_batch(void)
{
	hub->operations->transmit_end(hub, 0);
}

static void join(port_frame *receive, void *context)
{
	struct ob_net_request request = { .target = path };
	char error[256];

	port_init(&port, 512, 4096, receive, context);
	if (ob_net_hub_open(NULL, &port, &request, &hub, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	CHECK_EQUAL(hub->operations->set_features(hub, 0), 0);
}

static void answer(void *context, unsigned int queue, const struct iovec *pieces, int count,
		   size_t length)
{
	(void)context;
	(void)queue;
	(void)count;
	if (shared->answer) {
		char bytes[2048];

		port_copy(bytes, pieces, 0, length);
		memcpy(bytes + HEADER, "\2\0\0\0\0\1\2\0\0\0\0\2", 12);
		send_frame(bytes, length);
		end_batch();
	}
	__atomic_add_fetch(&shared->received, 1, __ATOMIC_RELEASE);
}

static void other_side(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	join(answer, NULL);
	memcpy(frame + HEADER, "\377\377\377\377\377\377\2\0\0\0\0\2", 12);
	send_frame(frame, 100);
	end_batch();
	while (!__atomic_load_n(&shared->end, __ATOMIC_ACQUIRE))
		usleep(1000);
	hub->operations->close(hub);
	_exit(0);
}

/* The thread that receives an answer sends the next frame, after a pause. */
static struct {
	uint32_t left;		/* the futex of the main thread */
	useconds_t pause;
	double start, times[ROUNDS];
} round_trips;

static void ask(void)
{
	if (round_trips.pause)
		usleep(round_trips.pause);
	round_trips.start = now();
	send_frame(frame, HEADER + 66);
	end_batch();
}

static void on_answer(void *context, unsigned int queue, const struct iovec *pieces, int count,
		      size_t length)
{
	uint32_t left = __atomic_load_n(&round_trips.left, __ATOMIC_ACQUIRE);

	(void)context;
	(void)queue;
	(void)pieces;
	(void)count;
	(void)length;
	if (!left)
		return;
	round_trips.times[left - 1] = now() - round_trips.start;
	if (left > 1)
		ask();
	__atomic_store_n(&round_trips.left, left - 1, __ATOMIC_RELEASE);
	if (left == 1)
		syscall(SYS_futex, &round_trips.left, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_round_trip(const char *name, uint32_t rounds, useconds_t pause)
{
	uint32_t left;

	shared->answer = true;
	round_trips.pause = pause;
	__atomic_store_n(&round_trips.left, rounds, __ATOMIC_RELEASE);
	ask();
	while ((left = __atomic_load_n(&round_trips.left, __ATOMIC_ACQUIRE)))
		syscall(SYS_futex, &round_trips.left, FUTEX_WAIT, left, NULL, NULL, 0);
	shared->answer = false;
	qsort(round_trips.times, rounds, sizeof(double), compare);
	printf("%-28s median %7.2f us   p99 %7.2f us\n", name, round_trips.times[rounds / 2] * 1e6,
	       round_trips.times[rounds * 99 / 100] * 1e6);
}

static double processor_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* As a TCP does, no more frames are on the way than a window has. */
static void measure_stream(const char *name, size_t length, uint64_t window, int batch)
{
	uint64_t before = shared->received, sent = 0, dropped = 0;
	double start = now(), cpu = processor_time(), time;

	do {
		for (int i = 0; i < batch; i++) {
			bool done = send_frame(frame, length);

			sent += done;
			dropped += !done;
		}
		end_batch();
		while (sent - (__atomic_load_n(&shared->received, __ATOMIC_ACQUIRE) - before) >
		       window)
			__builtin_ia32_pause();
		time = now() - start;
	} while (time < seconds);
	for (int i = 0; i < 10000 && shared->received - before < sent; i++)
		usleep(1000);
	CHECK_EQUAL(shared->received - before, sent);
	printf("%-28s %9.0f frames/s %7.2f Gbit/s, dropped %lu of %lu, sender's CPU %.2f\n", name,
	       (double)(shared->received - before) / time,
	       (double)(shared->received - before) * (double)length * 8 / time / 1e9,
	       dropped, sent + dropped, (processor_time() - cpu) / time);
}

int main(int count, char **arguments)
{
	int status;
	pid_t child;

	CHECK(count > 1);
	setlinebuf(stdout);
	path = arguments[1];
	if (count > 2)
		seconds = atof(arguments[2]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	child = fork();
	if (!child)
		other_side();
	join(on_answer, NULL);
	while (!port_frames(&port, 0))
		usleep(1000);
	memcpy(frame + HEADER, "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	measure_round_trip("round trip, busy", ROUNDS, 0);
	measure_round_trip("round trip, after 30 us", 1000, 30);
	measure_round_trip("round trip, after 1 ms", 500, 1000);
	measure_stream("64 KB frames, window 4 MB", HEADER + 65000, 48, 1);
	measure_stream("64 KB frames, window 512 KB", HEADER + 65000, 8, 1);
	measure_stream("1514 bytes, batches of 32", HEADER + 1514, 1024, 32);
	measure_stream("66 bytes, batches of 32", HEADER + 66, 1024, 32);
	measure_stream("66 bytes, one by one", HEADER + 66, 1024, 1);
	__atomic_store_n(&shared->end, true, __ATOMIC_RELEASE);
	waitpid(child, &status, 0);
	hub->operations->close(hub);
	return 0;
}
