// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load on everything at once, for long: soak SECONDS EXT4-IMAGE XFS-IMAGE
 *
 * 32 threads on 4 vCPUs, with less memory than they want: files that are written, read back and
 * renamed on two file systems, pipes, TCP connections, mounts that come and go, dropped caches, and
 * hogs that fill memory until there is none, and give it back. Each read must return the written
 * data; ENOMEM and ENOSPC may come at any time, nothing else.
 *
 * Every half second a line goes to standard output: seconds, resident MB of the process, MB that
 * the kernel has, MB of it that are free, and whether the hogs are at work. At the end one line of
 * counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <net/if.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define MB (1ul << 20)
#define MEMORY (256 * MB)
#define BLOCK 16384
#define PHASE 20			/* seconds of pressure, and of calm */

static atomic_int over, pressure;
static struct {
	atomic_ulong files, messages, mounts, drops, full, refused;
} counts;

struct worker {
	pthread_t thread;
	void (*turn)(struct worker *worker);
	unsigned int number;
	unsigned int random;
	const char *directory;
	int ends[2];
	unsigned long turns;
	unsigned char buffer[BLOCK];
};

static unsigned int draw(struct worker *worker)
{
	worker->random = worker->random * 1664525 + 1013904223;
	return worker->random >> 8;
}

/* Did the call succeed? Only a lack of memory or room excuses it. */
static int good(long result, const char *what)
{
	if (result >= 0)
		return 1;
	if (errno != ENOMEM && errno != ENOSPC && errno != ENOBUFS) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		_Exit(1);
	}
	counts.refused++;
	return 0;
}

static unsigned char pattern(unsigned int seed, unsigned long position)
{
	return (unsigned char)((position * 2654435761u + seed) >> 13);
}

static void fill(unsigned char *buffer, unsigned int seed, unsigned long position, size_t size)
{
	for (size_t i = 0; i < size; i++)
		buffer[i] = pattern(seed, position + i);
}

static void verify(const unsigned char *buffer, unsigned int seed, unsigned long position,
		   size_t size, const char *where)
{
	for (size_t i = 0; i < size; i++) {
		if (buffer[i] != pattern(seed, position + i)) {
			fprintf(stderr, "%s: byte %lu is wrong\n", where, position + i);
			_Exit(1);
		}
	}
}

/* Returns how much could be written. */
static unsigned long write_pattern(struct worker *worker, int file, unsigned int seed,
				   unsigned long size)
{
	unsigned long done = 0;

	while (done < size) {
		size_t part = size - done < BLOCK ? size - done : BLOCK;
		long written;

		fill(worker->buffer, seed, done, part);
		written = ob_sys_write(file, (const char *)worker->buffer, part);
		if (!good(written, "write"))
			break;
		done += (unsigned long)written;
	}
	return done;
}

static void read_pattern(struct worker *worker, const char *path, unsigned int seed,
			 unsigned long size)
{
	int file = (int)ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0);
	unsigned long done = 0;

	if (!good(file, path))
		return;
	while (done < size) {
		long part = ob_sys_read(file, (char *)worker->buffer, BLOCK);

		if (!good(part, "read"))
			break;
		CHECK(part > 0);
		verify(worker->buffer, seed, done, (size_t)part, path);
		done += (unsigned long)part;
	}
	OK(ob_sys_close(file));
}

/* A file that is written, synced at times, renamed, read back, removed. */
static void file_turn(struct worker *worker)
{
	unsigned int seed = draw(worker);
	unsigned long size = draw(worker) % (draw(worker) % 8 ? 100000 : 8 * MB), written;
	char path[64], other[64];
	int file;

	snprintf(path, sizeof(path), "%s/%u.%lu", worker->directory, worker->number, worker->turns);
	snprintf(other, sizeof(other), "%s/%u", worker->directory, worker->number);
	file = (int)ob_sys_openat(AT_FDCWD, path, O_CREAT | O_TRUNC | O_RDWR, 0600);
	if (!good(file, "create"))
		return;
	written = write_pattern(worker, file, seed, size);
	if (draw(worker) % 4 == 0)
		good(ob_sys_fsync(file), "fsync");
	OK(ob_sys_close(file));
	if (good(ob_sys_rename(path, other), "rename"))
		read_pattern(worker, other, seed, written);
	else
		good(ob_sys_unlink(path), "unlink");
	counts.files++;
}

/* Both directions of a pipe or a connection, by one thread each. */
static void send_turn(struct worker *worker)
{
	size_t size = draw(worker) % BLOCK + 1;

	fill(worker->buffer, worker->number / 2, worker->turns * BLOCK, BLOCK);
	for (size_t done = 0; done < BLOCK; ) {
		size_t part = BLOCK - done < size ? BLOCK - done : size;
		long sent = ob_sys_write(worker->ends[1], (const char *)worker->buffer + done,
					 part);

		if (good(sent, "send"))
			done += (size_t)sent;
		else if (atomic_load(&over))
			return;
	}
	counts.messages++;
}

static void receive_turn(struct worker *worker)
{
	for (size_t done = 0; done < BLOCK; ) {
		long part = ob_sys_read(worker->ends[0], (char *)worker->buffer + done,
					BLOCK - done);

		/* When memory is short, Linux resets connections whose other side is closed. */
		if (atomic_load(&over) && (!part || (part < 0 && errno == ECONNRESET)))
			return;
		CHECK(part);
		if (good(part, "receive"))
			done += (size_t)part;
	}
	verify(worker->buffer, worker->number / 2, worker->turns * BLOCK, BLOCK, "stream");
}

static void mount_turn(struct worker *worker)
{
	char directory[32], path[48];
	int file;

	snprintf(directory, sizeof(directory), "/mnt%u", worker->number);
	if (!worker->turns)
		OK(ob_sys_mkdir(directory, 0755));
	if (!good(ob_sys_mount("none", directory, "tmpfs", 0, "size=4m"), "mount"))
		return;
	snprintf(path, sizeof(path), "%s/file", directory);
	file = (int)ob_sys_openat(AT_FDCWD, path, O_CREAT | O_RDWR, 0600);
	if (good(file, path)) {
		write_pattern(worker, file, worker->number, 100000);
		OK(ob_sys_close(file));
	}
	good(ob_sys_umount2(directory, MNT_DETACH), "umount");
	counts.mounts++;
}

static void drop_turn(struct worker *worker)
{
	int file = (int)ob_sys_openat(AT_FDCWD, "/proc/sys/vm/drop_caches", O_WRONLY, 0);

	if (good(file, "drop_caches")) {
		good(ob_sys_write(file, worker->turns % 2 ? "1" : "3", 1), "drop_caches");
		OK(ob_sys_close(file));
		counts.drops++;
	}
	usleep(300000);
}

/*
 * Takes all memory that there is, keeps it for a moment, gives it back. Rests while there is calm.
 */
static void hog_turn(struct worker *worker)
{
	char path[32];
	int file;

	if (!atomic_load(&pressure)) {
		usleep(100000);
		return;
	}
	snprintf(path, sizeof(path), "/hog/%u", worker->number);
	file = (int)ob_sys_openat(AT_FDCWD, path, O_CREAT | O_RDWR, 0600);
	if (!good(file, path))
		return;
	if (write_pattern(worker, file, worker->number, 2 * MEMORY) < 2 * MEMORY)
		counts.full++;
	OK(ob_sys_close(file));
	usleep(20000);
	good(ob_sys_unlink(path), "unlink");
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	while (!atomic_load(&over)) {
		worker->turn(worker);
		worker->turns++;
	}
	/* The other side of a stream must not wait for more. */
	if (worker->turn == send_turn)
		OK(ob_sys_close(worker->ends[1]));
	if (worker->turn == receive_turn)
		while (ob_sys_read(worker->ends[0], (char *)worker->buffer, BLOCK) > 0)
			;
	return NULL;
}

static void connect_pair(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int size = sizeof(address), listener = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));

	OK(ob_sys_bind(listener, (void *)&address, sizeof(address)));
	OK(ob_sys_listen(listener, 1));
	OK(ob_sys_getsockname(listener, (void *)&address, &size));
	ends[1] = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	OK(ob_sys_connect(ends[1], (void *)&address, sizeof(address)));
	ends[0] = (int)OK(ob_sys_accept(listener, NULL, NULL));
	OK(ob_sys_close(listener));
}

static void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int file = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));

	OK(ob_sys_ioctl(file, SIOCSIFFLAGS, (unsigned long)&request));
	OK(ob_sys_close(file));
}

static void prepare(char **images)
{
	OK(ob_sys_mount("none", "/proc", "proc", 0, NULL));
	OK(ob_sys_mkdir("/hog", 0755));
	OK(ob_sys_mount("none", "/hog", "tmpfs", 0, "size=4g"));
	client_mount(images[0], "ext4", "/ext4");
	client_mount(images[1], "xfs", "/xfs");
	loopback_up();
}

#define WORKERS 32
static struct worker workers[WORKERS];

/* 12 for files, 6 pairs for pipes and connections, 3 for mounts, 1 that drops caches, 4 hogs. */
static void appoint(void)
{
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct worker *worker = &workers[i];

		worker->number = i;
		worker->random = i + 1;
		worker->directory = i % 2 ? "/ext4" : "/xfs";
		if (i < 12) {
			if (i % 2) {
				worker->turn = receive_turn;
				memcpy(worker->ends, workers[i - 1].ends, sizeof(worker->ends));
				continue;
			}
			worker->turn = send_turn;
			if (i < 6)
				OK(ob_sys_pipe2(worker->ends, 0));
			else
				connect_pair(worker->ends);
		} else {
			worker->turn = i < 24	? file_turn
				       : i < 27 ? mount_turn
				       : i < 28 ? drop_turn
						: hog_turn;
		}
	}
}

static void report(double seconds)
{
	struct sysinfo info = { 0 };

	OK(ob_sys_sysinfo(&info));
	printf("%.1f %lu %lu %lu %d\n", seconds, (unsigned long)(client_resident_bytes() / MB),
	       (unsigned long)(info.totalram * info.mem_unit / MB),
	       (unsigned long)(info.freeram * info.mem_unit / MB), atomic_load(&pressure));
	fflush(stdout);
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 4, .memory = MEMORY, .log_level = OB_LOG_DEFAULT
	};
	long halves;

	CHECK_EQUAL(count, 4);
	CHECK_EQUAL(ob_boot(&config), 0);
	prepare(arguments + 2);
	appoint();
	for (int i = 0; i < WORKERS; i++)
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	halves = 2 * atol(arguments[1]);
	for (long i = 0; i < halves; i++) {
		atomic_store(&pressure,
			     halves < 4 * PHASE ? i < halves / 2 : i / (2 * PHASE) % 2 == 0);
		report((double)i / 2);
		usleep(500000);
	}
	atomic_store(&over, 1);
	for (int i = 0; i < WORKERS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	printf("files %lu messages %lu mounts %lu drops %lu full %lu refused %lu\n", counts.files,
	       counts.messages, counts.mounts, counts.drops, counts.full, counts.refused);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
