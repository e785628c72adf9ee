// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several disks under load on four vCPUs: direct reads and writes from several threads at once,
 * fsync and sync. One of the disks is served by this program. Each request completes with the right
 * data. disk_interrupt_test.c counts interrupts.
 *
 * usage: disks_test FILE FILE FILE, whose contents may be lost
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

#define FILES 3
#define DISKS (FILES + 1)
#define THREADS_OF_DISK 3
#define THREADS (DISKS * THREADS_OF_DISK)
#define ROUNDS 300
#define BLOCK 65536u
#define BLOCKS 16u			/* of each thread */
#define DISK_SIZE (BLOCK * BLOCKS * THREADS_OF_DISK)

struct disk {
	char path[48];			/* in the kernel */
	int host;			/* descriptor of the host's file; of the served disk: -1 */
};

struct worker {
	pthread_t thread;
	const struct disk *disk;
	unsigned int number;		/* of all */
	unsigned char versions[BLOCKS];	/* of the contents of each block; 0: not written yet */
};

static struct disk disks[DISKS];
static struct worker workers[THREADS];
static char served[DISK_SIZE];
static int served_flushes, done;

static int copy(uint64_t offset, const struct iovec *pieces, int count, int write)
{
	for (int i = 0; i < count; i++) {
		CHECK(offset + pieces[i].iov_len <= DISK_SIZE);
		if (write)
			memcpy(served + offset, pieces[i].iov_base, pieces[i].iov_len);
		else
			memcpy(pieces[i].iov_base, served + offset, pieces[i].iov_len);
		offset += pieces[i].iov_len;
	}
	return 0;
}

static int serve_read(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	(void)context;
	return copy(offset, pieces, count, 0);
}

static int serve_write(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	(void)context;
	return copy(offset, pieces, count, 1);
}

static int serve_flush(void *context)
{
	(void)context;
	__atomic_add_fetch(&served_flushes, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static const struct ob_disk_operations operations = {
	.size = sizeof(operations), .read = serve_read, .write = serve_write, .flush = serve_flush,
};

static void add_disk(struct disk *disk, const char *path)
{
	struct ob_disk_config config = { .size = sizeof(config), .path = path };
	char name[32];

	disk->host = -1;
	if (path) {
		disk->host = open(path, O_RDWR | O_CREAT, 0600);
		CHECK(disk->host >= 0 && !ftruncate(disk->host, DISK_SIZE));
	} else {
		config.operations = &operations;
		config.capacity = DISK_SIZE;
	}
	CHECK(ob_disk_add(&config, name) >= 0);
	snprintf(disk->path, sizeof(disk->path), "/dev/%s", name);
}

static long place(const struct worker *worker, unsigned int block)
{
	return (long)((worker->number % THREADS_OF_DISK * BLOCKS + block) * BLOCK);
}

static uint32_t stamp(const struct worker *worker, unsigned int block, size_t i)
{
	uint32_t version = worker->versions[block];

	return worker->number << 24 | block << 16 | version << 8 | (uint32_t)(i / 512);
}

static void fill(const struct worker *worker, unsigned int block, uint32_t *words)
{
	for (size_t i = 0; i < BLOCK / sizeof(*words); i++)
		words[i] = stamp(worker, block, i);
}

static void check(const struct worker *worker, unsigned int block, const uint32_t *words)
{
	for (size_t i = 0; i < BLOCK / sizeof(*words); i++)
		CHECK_EQUAL(words[i], worker->versions[block] ? stamp(worker, block, i) : 0);
}

/* Every second worker has a buffer in the client window: devices get its pages. */
static void *new_buffer(const struct worker *worker)
{
	const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;

	if (worker->number % 2)
		return (void *)OK(ob_sys_mmap(NULL, BLOCK, protection, flags, -1, 0));
	return aligned_alloc(4096, BLOCK);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, worker->disk->path, O_RDWR | O_DIRECT, 0));
	uint32_t *buffer = new_buffer(worker);
	unsigned int random = worker->number + 1;

	CHECK(buffer);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int block = (random = random * 1103515245 + 12345) >> 16 & (BLOCKS - 1);
		long at = place(worker, block);

		CHECK_EQUAL(OK(ob_sys_pread64(fd, (char *)buffer, BLOCK, at)), BLOCK);
		check(worker, block, buffer);
		worker->versions[block]++;
		worker->versions[block] += !worker->versions[block];
		fill(worker, block, buffer);
		CHECK_EQUAL(OK(ob_sys_pwrite64(fd, (char *)buffer, BLOCK, at)), BLOCK);
		if (round % 16 == 0)
			OK(ob_sys_fsync(fd));
	}
	OK(ob_sys_fsync(fd));
	OK(ob_sys_close(fd));
	return NULL;
}

static void *sync_often(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
		ob_sys_sync();
		usleep(5000);
	}
	return NULL;
}

/* Data that fsync() has confirmed is in the host's files. */
static void check_host(const struct worker *worker)
{
	static uint32_t words[BLOCK / sizeof(uint32_t)];

	for (unsigned int block = 0; block < BLOCKS; block++) {
		long at = place(worker, block);

		if (worker->disk->host < 0)
			memcpy(words, served + at, BLOCK);
		else
			CHECK_EQUAL(pread(worker->disk->host, words, BLOCK, at), BLOCK);
		check(worker, block, words);
	}
}

int main(int count, char **arguments)
{
	pthread_t syncer;

	CHECK_EQUAL(count, 1 + FILES);
	client_boot(4);
	for (int i = 0; i < DISKS; i++)
		add_disk(&disks[i], i < FILES ? arguments[1 + i] : NULL);
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].disk = &disks[i / THREADS_OF_DISK];
		CHECK_EQUAL(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	CHECK_EQUAL(pthread_create(&syncer, NULL, sync_often, NULL), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_join(workers[i].thread, NULL), 0);
	__atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(pthread_join(syncer, NULL), 0);
	CHECK(served_flushes > 0);
	for (unsigned int i = 0; i < THREADS; i++)
		check_host(&workers[i]);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
