// SPDX-License-Identifier: GPL-2.0-only
/*
 * Captures without an interface: many threads, full rings, readers that do not read, damaged files.
 *
 *	net_pcap_test threads FILE	four threads put frames; each frame in FILE is whole
 *	net_pcap_test stuck FIFO	nobody reads; putting and closing do not hang
 *	net_pcap_test number FIFO	the same with a descriptor of the program, which may block
 *	net_pcap_test full FILE		the file cannot grow beyond the limit of the process
 *	net_pcap_test behind FILE	the same, behind what the program has written there
 *	net_pcap_test used FILE		nothing is written into a file that is in use
 *	net_pcap_test close FILE	the host reports only at the end that the disk is full
 *	net_pcap_test read FILE		counts the frames, or says what is wrong
 *	net_pcap_test damage FILE COUNT	reads COUNT variants of FILE with changed bytes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "net/backend.h"
#include "net/pcap_read.h"
#include "net_host.h"

#define THREADS 4
#define FRAMES 20000

static struct ob_net_capture *open_capture(const char *path)
{
	struct ob_net_capture *capture;
	char error[300] = "";

	if (ob_net_pcap_open(NULL, path, "tap0", &capture, error, sizeof(error))) {
		printf("error %s\n", error);
		exit(1);
	}
	return capture;
}

/* Frame `i`: its length and all its bytes follow from the number. */
static size_t make_frame(unsigned char *frame, uint32_t i)
{
	size_t length = 60 + i % 3000;

	memset(frame, (unsigned char)(i % 251), length);
	memcpy(frame + 14, &i, sizeof(i));
	return length;
}

static void put_frame(struct ob_net_capture *capture, uint32_t i)
{
	unsigned char header[OB_NET_HEADER_BYTES] = { 1 }, frame[4096];
	size_t length = make_frame(frame, i);
	/* The last piece is longer than the frame, as a receive buffer is. */
	struct iovec pieces[] = {
		{ header, 5 }, { header + 5, sizeof(header) - 5 },
		{ frame, 33 }, { frame + 33, sizeof(frame) - 33 },
	};

	ob_net_pcap_frame(capture, i % 2, pieces, 4, sizeof(header) + length);
}

struct putter {
	struct ob_net_capture *capture;
	uint32_t first;
};

static void *put_frames(void *pointer)
{
	struct putter *putter = pointer;

	for (uint32_t i = 0; i < FRAMES; i++) {
		put_frame(putter->capture, putter->first + i);
		/* A pause now and then: the writer sleeps and is woken. */
		if (i % 1000 == 0)
			usleep(3000);
	}
	return NULL;
}

static void check_frame(const struct ob_pcap_frame *frame)
{
	unsigned char wanted[4096];
	uint32_t i;

	CHECK(frame->length >= 60);
	memcpy(&i, frame->bytes + 14, sizeof(i));
	CHECK(i < THREADS * FRAMES && i % 2 == 0);
	CHECK_EQUAL(frame->length, make_frame(wanted, i));
	CHECK(!memcmp(frame->bytes, wanted, frame->length));
}

/* Returns how many frames are not outbound. */
static uint64_t read_all(const char *path, void (*check)(const struct ob_pcap_frame *frame),
			 const char **problem)
{
	static struct ob_pcap_reader reader;
	struct ob_pcap_frame frame;
	uint64_t count = 0;

	*problem = NULL;
	if (ob_pcap_reader_open(&reader, path)) {
		*problem = reader.problem ? reader.problem : "it cannot be opened";
		return 0;
	}
	for (; ob_pcap_read(&reader, &frame); count++)
		if (check)
			check(&frame);
	*problem = reader.problem;
	ob_pcap_reader_close(&reader);
	return count;
}

static void threads(const char *path)
{
	struct ob_net_capture *capture = open_capture(path);
	pthread_t ids[THREADS];
	struct putter putters[THREADS];
	const char *problem;

	for (uint32_t i = 0; i < THREADS; i++) {
		putters[i] = (struct putter){ capture, i * FRAMES };
		CHECK(!pthread_create(&ids[i], NULL, put_frames, &putters[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	ob_net_pcap_close(capture);
	printf("inbound %lu\n", (unsigned long)read_all(path, check_frame, &problem));
	CHECK(!problem);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void stuck(const char *path)
{
	struct ob_net_capture *capture = open_capture(path);
	double begin = seconds();

	/* More than the ring holds. */
	for (uint32_t i = 0; i < 30000; i++)
		put_frame(capture, i);
	CHECK(seconds() - begin < 10);
	begin = seconds();
	ob_net_pcap_close(capture);
	CHECK(seconds() - begin < 10);
}

static void stuck_path(const char *path)
{
	CHECK(open(path, O_RDONLY | O_NONBLOCK) >= 0);
	stuck(path);
}

static void stuck_number(const char *path)
{
	int reader = open(path, O_RDONLY | O_NONBLOCK), writer = open(path, O_WRONLY);
	char number[16];

	CHECK(reader >= 0 && writer >= 0);
	snprintf(number, sizeof(number), "fd:%d", writer);
	stuck(number);
	CHECK(!(fcntl(writer, F_GETFL) & O_NONBLOCK));
}

/* Writes more than the file may have. */
static void fill(const char *target)
{
	struct rlimit limit = { 1 << 20, 1 << 20 };
	struct ob_net_capture *capture;

	signal(SIGXFSZ, SIG_IGN);
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	capture = open_capture(target);
	for (uint32_t i = 0; i < 5000; i++) {
		put_frame(capture, i);
		if (i % 500 == 0)
			usleep(5000);
	}
	ob_net_pcap_close(capture);
}

static void full(const char *path)
{
	const char *problem;

	fill(path);
	CHECK(read_all(path, check_frame, &problem) > 50);
	CHECK(!problem);
}

/* A capture that is cut off leaves the earlier contents of the file. */
static void behind(const char *path)
{
	static char own[500000], found[sizeof(own)];
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
	char number[16];

	memset(own, 'o', sizeof(own));
	CHECK(write(fd, own, sizeof(own)) == (ssize_t)sizeof(own));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	snprintf(number, sizeof(number), "fd:%d", fd);
	fill(number);
	CHECK(lseek(fd, 0, SEEK_END) > (off_t)sizeof(own));
	CHECK(pread(fd, found, sizeof(found), 0) == (ssize_t)sizeof(found));
	CHECK(!memcmp(own, found, sizeof(own)));
}

static void check_refused(const char *path)
{
	struct ob_net_capture *other;
	char error[300] = "";

	CHECK(ob_net_pcap_open(NULL, path, "tap1", &other, error, sizeof(error)) == -EBUSY);
	CHECK(strstr(error, "in use"));
}

static void used(const char *path)
{
	static struct ob_pcap_reader reader;
	struct ob_net_capture *capture = open_capture(path);
	const char *problem;

	check_refused(path);
	for (uint32_t i = 0; i < 10; i++)
		put_frame(capture, i);
	ob_net_pcap_close(capture);
	CHECK_EQUAL(read_all(path, check_frame, &problem), 5);
	CHECK(!problem);
	CHECK(!ob_pcap_reader_open(&reader, path));
	check_refused(path);
	ob_pcap_reader_close(&reader);
	CHECK_EQUAL(read_all(path, check_frame, &problem), 5);
	ob_net_pcap_close(open_capture(path));
	CHECK_EQUAL(read_all(path, check_frame, &problem), 0);
}

static bool close_fails;

/*
 * The platform's calls come here. File systems as NFS and FUSE report errors of writes late. Most
 * calls have fewer words than are read here.
 */
__attribute__((no_sanitize_address, no_sanitize_thread)) long syscall(long number, ...)
{
	long words[6], result;
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		words[i] = va_arg(arguments, long);
	va_end(arguments);
	register long r10 __asm__("r10") = words[3];
	register long r8 __asm__("r8") = words[4];
	register long r9 __asm__("r9") = words[5];

	__asm__ volatile("syscall" : "=a"(result)
			 : "a"(number), "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (number == SYS_close && close_fails)
		result = -ENOSPC;
	if (result >= 0 || result < -4095)
		return result;
	errno = (int)-result;
	return -1;
}

static void late(const char *path)
{
	struct ob_net_capture *capture = open_capture(path);

	for (uint32_t i = 0; i < 100; i++)
		put_frame(capture, i);
	close_fails = true;
	ob_net_pcap_close(capture);
}

static void read_file(const char *path)
{
	const char *problem;
	uint64_t count = read_all(path, NULL, &problem);

	printf("frames %lu, %s\n", (unsigned long)count, problem ? problem : "no problem");
}

/* Reads every byte, so that the sanitizer sees it. */
static void touch(const struct ob_pcap_frame *frame)
{
	static volatile unsigned char sum;

	CHECK(frame->length >= 14 && frame->length <= OB_NET_FRAME_MOST);
	for (size_t i = 0; i < frame->length; i++)
		sum ^= frame->bytes[i];
}

/* Changes some bytes, mostly to values at the border of a type, and sometimes cuts the end off. */
static void change(unsigned char *bytes, size_t *size)
{
	static const uint32_t values[] = {
		0, 1, 3, 4, 7, 12, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff, 0x0a0d0d0a,
	};
	int changes = 1 + (int)(random() % 4);

	while (changes--) {
		size_t at = (size_t)random() % (*size - 4);
		uint32_t value = values[(size_t)random() % (sizeof(values) / sizeof(values[0]))];

		/* Lengths are at multiples of 4. */
		if (random() % 3)
			memcpy(bytes + (at & ~3ul), &value, sizeof(value));
		else
			bytes[at] = (unsigned char)random();
	}
	if (random() % 8 == 0)
		*size = (size_t)random() % *size;
}

static void damage(const char *path, long count)
{
	int source = open(path, O_RDONLY), target = memfd_create("damaged", 0);
	static unsigned char bytes[1 << 16], changed[1 << 16];
	ssize_t size = read(source, bytes, sizeof(bytes));
	char target_path[64];
	long problems = 0;

	CHECK(size > 100 && target >= 0);
	snprintf(target_path, sizeof(target_path), "/proc/self/fd/%d", target);
	srandom(1);
	while (count--) {
		size_t new_size = (size_t)size;
		const char *problem;

		memcpy(changed, bytes, (size_t)size);
		change(changed, &new_size);
		CHECK(!ftruncate(target, 0));
		CHECK(pwrite(target, changed, new_size, 0) == (ssize_t)new_size);
		read_all(target_path, touch, &problem);
		problems += problem != NULL;
	}
	printf("problems %ld\n", problems);
}

int main(int count, char **arguments)
{
	CHECK(count >= 3);
	net_host_output = stdout;
	if (!strcmp(arguments[1], "threads"))
		threads(arguments[2]);
	else if (!strcmp(arguments[1], "stuck"))
		stuck_path(arguments[2]);
	else if (!strcmp(arguments[1], "number"))
		stuck_number(arguments[2]);
	else if (!strcmp(arguments[1], "full"))
		full(arguments[2]);
	else if (!strcmp(arguments[1], "behind"))
		behind(arguments[2]);
	else if (!strcmp(arguments[1], "used"))
		used(arguments[2]);
	else if (!strcmp(arguments[1], "close"))
		late(arguments[2]);
	else if (!strcmp(arguments[1], "read"))
		read_file(arguments[2]);
	else
		damage(arguments[2], atol(arguments[3]));
	return 0;
}
