// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls of a kernel in another process.
 *
 *	remote URL		the rows below, as "ROW NUMBER" lines
 *	remote native		the same by the host's own kernel, and the two baselines
 *	remote crowd N URL	N processes for five seconds: calls per second of all, and those
 *				of the slowest over the mean
 *
 * Nanoseconds; "read" is bytes per nanosecond. Each figure is the median of several batches.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <outboard/client_calls.h>
#include <outboard/syscall.h>

#define BATCHES 15
#define PIECE 65536
#define PIECES 256
#define CROWD_NS 5000000000ll

/* The kernel that is measured: the server's, else the host's. */
static int is_remote;

static long call(long number, long a, long b, long c, long d)
{
	if (is_remote)
		return ob_client_syscall(number, a, b, c, d, 0l, 0l);
	return syscall(number, a, b, c, d, 0l, 0l);
}

/* A system call of up to four arguments. */
#define CALL(name, a, b, c, d) call(OB_SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d))

static void need(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "remote: %s failed\n", what);
		exit(1);
	}
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static double median(double *samples, int count)
{
	qsort(samples, count, sizeof(*samples), by_value);
	return samples[count / 2];
}

static void null_call(void)
{
	CALL(getppid, 0, 0, 0, 0);
}

static void stat_file(void)
{
	struct stat status;

	need(!CALL(stat, "/tmp/remote-big", &status, 0, 0), "stat");
}

static void open_read_close(void)
{
	static char bytes[4096];
	long file = CALL(open, "/tmp/remote-big", O_RDONLY, 0, 0);

	need(file >= 0, "open");
	need(CALL(read, file, bytes, sizeof(bytes), 0) == sizeof(bytes), "read");
	CALL(close, file, 0, 0, 0);
}

static int pair[2];

static void send_and_receive(void)
{
	static char bytes[64];
	struct iovec piece = { bytes, sizeof(bytes) };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	need(CALL(sendmsg, pair[0], &message, 0, 0) == 64, "sendmsg");
	need(CALL(recvmsg, pair[1], &message, 0, 0) == 64, "recvmsg");
}

static double batches(void (*work)(void), int count)
{
	double samples[BATCHES];

	for (int i = 0; i < count / 10; i++)
		work();
	for (int batch = 0; batch < BATCHES; batch++) {
		int64_t begin = now();

		for (int i = 0; i < count; i++)
			work();
		samples[batch] = (double)(now() - begin) / count;
	}
	return median(samples, BATCHES);
}

static double after_idle(void (*work)(void))
{
	double samples[300];

	for (int i = 0; i < 300; i++) {
		int64_t begin;

		usleep(1000);
		begin = now();
		work();
		samples[i] = now() - begin;
	}
	return median(samples, 300);
}

static void make_file(void)
{
	static char bytes[PIECE];
	long file;

	memset(bytes, 7, sizeof(bytes));
	CALL(mkdir, "/tmp", 0777, 0, 0);
	file = CALL(open, "/tmp/remote-big", O_CREAT | O_TRUNC | O_RDWR, 0644, 0);
	need(file >= 0, "making a file");
	for (int i = 0; i < PIECES; i++)
		need(CALL(write, file, bytes, sizeof(bytes), 0) == PIECE, "write");
	CALL(close, file, 0, 0, 0);
}

/* 1 GB in pieces, from a file of 16 MB. */
static double read_rate(void)
{
	static char bytes[PIECE];
	long file = CALL(open, "/tmp/remote-big", O_RDONLY, 0, 0);
	int64_t begin = now();

	need(file >= 0, "open");
	for (int i = 0; i < 16384; i++)
		need(CALL(pread64, file, bytes, sizeof(bytes), i % PIECES * PIECE) == PIECE,
		     "pread64");
	begin = now() - begin;
	CALL(close, file, 0, 0, 0);
	return 16384.0 * PIECE / begin;
}

static void rows(void)
{
	make_file();
	printf("null %f\n", batches(null_call, 20000));
	printf("idle %f\n", after_idle(null_call));
	printf("stat %f\n", batches(stat_file, 10000));
	printf("open %f\n", batches(open_read_close, 5000));
	need(!CALL(socketpair, AF_UNIX, SOCK_DGRAM, 0, pair),
	     "socketpair");
	printf("message %f\n", batches(send_and_receive, 5000));
	printf("read %f\n", read_rate());
	CALL(unlink, "/tmp/remote-big", 0, 0, 0);
}

/* One word, which two processes set in turn: what no protocol can be below. */
static double spin_baseline(void)
{
	volatile uint32_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int count = 200000;
	int64_t begin;
	pid_t child;

	need(word != MAP_FAILED, "mmap");
	child = fork();
	if (!child) {
		for (int i = 0; i < count; i++) {
			while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 2u * i + 1)
				__builtin_ia32_pause();
			__atomic_store_n(word, 2u * i + 2, __ATOMIC_RELEASE);
		}
		_exit(0);
	}
	begin = now();
	for (int i = 0; i < count; i++) {
		__atomic_store_n(word, 2u * i + 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 2u * i + 2)
			__builtin_ia32_pause();
	}
	begin = now() - begin;
	waitpid(child, NULL, 0);
	return (double)begin / count;
}

static int ends[2];

static void socket_trip(void)
{
	char bytes[64] = { 0 };

	need(write(ends[0], bytes, sizeof(bytes)) == 64, "write");
	need(read(ends[0], bytes, sizeof(bytes)) == 64, "read");
}

/* A round trip to another process by a Unix socket: a protocol over one costs at least that. */
static void socket_baseline(void)
{
	char bytes[64];
	pid_t child;

	need(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), "socketpair");
	child = fork();
	if (!child) {
		close(ends[0]);
		while (read(ends[1], bytes, sizeof(bytes)) == 64)
			need(write(ends[1], bytes, sizeof(bytes)) == 64, "write");
		_exit(0);
	}
	close(ends[1]);
	printf("socket %f\n", batches(socket_trip, 5000));
	printf("socket-idle %f\n", after_idle(socket_trip));
	close(ends[0]);
	waitpid(child, NULL, 0);
}

static uint64_t calls_of(const char *url, int64_t end)
{
	uint64_t calls = 0;

	need(!ob_client_connect(url), ob_client_error());
	while (now() < end) {
		for (int i = 0; i < 16; i++)
			null_call();
		calls += 16;
	}
	return calls;
}

static void crowd(int count, const char *url)
{
	uint64_t *calls = mmap(NULL, count * sizeof(*calls), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t end = now() + CROWD_NS;
	uint64_t all = 0, least = UINT64_MAX;

	need(calls != MAP_FAILED, "mmap");
	for (int i = 0; i < count; i++)
		if (!fork()) {
			calls[i] = calls_of(url, end);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	for (int i = 0; i < count; i++) {
		all += calls[i];
		least = calls[i] < least ? calls[i] : least;
	}
	printf("calls %f\nslowest %f\n", all * 1e9 / CROWD_NS, (double)least * count / all);
}

int main(int count, char **words)
{
	if (count == 4 && !strcmp(words[1], "crowd")) {
		is_remote = 1;
		crowd(atoi(words[2]), words[3]);
	} else if (count == 2 && !strcmp(words[1], "native")) {
		rows();
		socket_baseline();
		/* Two that spin on one processor would wait for its timer. */
		cpu_set_t set;

		sched_getaffinity(0, sizeof(set), &set);
		printf("spin %f\n", CPU_COUNT(&set) > 1 ? spin_baseline() : 0);
	} else if (count == 2) {
		is_remote = 1;
		need(!ob_client_connect(words[1]), ob_client_error());
		rows();
	} else {
		return 2;
	}
	return 0;
}
