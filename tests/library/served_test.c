// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks that the program serves. One in memory, which loses at a "power cut" what was not flushed;
 * then it fails, and is slow. Arguments: an ext4 image that is its contents at first, and a file
 * for what is stable at the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#define PATIENCE 120000		/* milliseconds, on however busy a host */

static struct memory_disk {
	char *bytes;		/* with all writes */
	char *stable;		/* as of the last flush */
	uint64_t size;
	pthread_mutex_t mutex;
	int flushes, writes, discards, zeroes, closes;
	int unflushed;		/* writes since the last flush */
	int unflushed_before;	/* the same, when the last write came */
	bool failing, stuck;
} memory = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static int busy;
static char disk_name[32];

static void enter(struct memory_disk *disk)
{
	__atomic_add_fetch(&busy, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&disk->stuck, __ATOMIC_SEQ_CST))
		usleep(1000);
	pthread_mutex_lock(&disk->mutex);
}

static int leave(struct memory_disk *disk)
{
	int error = __atomic_load_n(&disk->failing, __ATOMIC_SEQ_CST) ? -EIO : 0;

	pthread_mutex_unlock(&disk->mutex);
	__atomic_sub_fetch(&busy, 1, __ATOMIC_SEQ_CST);
	return error;
}

static int transfer(struct memory_disk *disk, uint64_t offset, const struct iovec *pieces,
		    int count, bool write)
{
	enter(disk);
	for (int i = 0; i < count; i++) {
		CHECK(offset + pieces[i].iov_len <= disk->size && offset % 512 == 0);
		if (write && !disk->failing)
			memcpy(disk->bytes + offset, pieces[i].iov_base, pieces[i].iov_len);
		else if (!write)
			memcpy(pieces[i].iov_base, disk->bytes + offset, pieces[i].iov_len);
		offset += pieces[i].iov_len;
	}
	if (write) {
		disk->writes++;
		disk->unflushed_before = disk->unflushed++;
	}
	return leave(disk);
}

static int memory_read(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	return transfer(context, offset, pieces, count, false);
}

static int memory_write(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	return transfer(context, offset, pieces, count, true);
}

static int memory_flush(void *context)
{
	struct memory_disk *disk = context;

	enter(disk);
	if (!disk->failing)
		memcpy(disk->stable, disk->bytes, disk->size);
	disk->flushes++;
	disk->unflushed = 0;
	return leave(disk);
}

static int memory_discard(void *context, uint64_t offset, uint64_t length)
{
	struct memory_disk *disk = context;

	enter(disk);
	memset(disk->bytes + offset, 0xdd, length);
	disk->discards++;
	return leave(disk);
}

static int memory_write_zeroes(void *context, uint64_t offset, uint64_t length)
{
	struct memory_disk *disk = context;

	enter(disk);
	memset(disk->bytes + offset, 0, length);
	disk->zeroes++;
	return leave(disk);
}

static void memory_closed(void *context)
{
	((struct memory_disk *)context)->closes++;
}

static const struct ob_disk_operations operations = {
	.size = sizeof(operations),
	.read = memory_read,
	.write = memory_write,
	.flush = memory_flush,
	.discard = memory_discard,
	.write_zeroes = memory_write_zeroes,
	.closed = memory_closed,
};

static void load(const char *image)
{
	int fd = open(image, O_RDONLY);
	struct stat status;

	CHECK(fd >= 0 && !fstat(fd, &status));
	memory.size = (uint64_t)status.st_size;
	memory.bytes = malloc(memory.size);
	memory.stable = malloc(memory.size);
	CHECK(memory.bytes && memory.stable);
	for (uint64_t at = 0; at < memory.size;) {
		ssize_t length = read(fd, memory.bytes + at, memory.size - at);

		CHECK(length > 0);
		at += (uint64_t)length;
	}
	memcpy(memory.stable, memory.bytes, memory.size);
	close(fd);
}

static struct ob_disk_config new_config(void)
{
	return (struct ob_disk_config){
		.size = sizeof(struct ob_disk_config),
		.operations = &operations,
		.context = &memory,
		.capacity = memory.size,
	};
}

/* Less than a sector, and more than Linux can count. */
static void refuses_capacities(void)
{
	static const struct {
		uint64_t capacity;
		unsigned int sector_size;
	} bad[] = { { 0, 0 },	    { 100, 0 },	       { 511, 512 },
		    { 4095, 4096 }, { 1ull << 63, 0 }, { UINT64_MAX, 4096 } };
	struct ob_disk_config config = new_config();
	int disk;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		config.capacity = bad[i].capacity;
		config.sector_size = bad[i].sector_size;
		CHECK_EQUAL(ob_disk_add(&config, NULL), -EINVAL);
	}
	config = new_config();
	config.capacity = 512;
	config.flags = OB_DISK_READ_ONLY;
	disk = ob_disk_add(&config, NULL);
	CHECK(disk >= 0);
	CHECK_EQUAL(ob_disk_remove(disk), 0);
	CHECK_EQUAL(memory.closes, 1);
	memory.closes = 0;
}

static void refuses_nonsense(void)
{
	struct ob_disk_operations bad = operations;
	struct ob_disk_config config = new_config();

	config.path = "/dev/null";
	CHECK_EQUAL(ob_disk_add(&config, NULL), -EINVAL);
	config = new_config();
	config.operations = &bad;
	bad.size = 1;
	CHECK_EQUAL(ob_disk_add(&config, NULL), -EINVAL);
	bad = operations;
	bad.read = NULL;
	CHECK_EQUAL(ob_disk_add(&config, NULL), -EINVAL);
	bad = operations;
	bad.flush = NULL;
	CHECK_EQUAL(ob_disk_add(&config, NULL), -EINVAL);
	bad = operations;
	bad.discard = NULL;
	CHECK_EQUAL(ob_disk_add(&config, NULL), -EINVAL);
	refuses_capacities();
	CHECK_EQUAL(memory.closes, 0);
}

static int add_and_mount(unsigned int flags)
{
	struct ob_disk_config config = new_config();
	char device[48];
	int disk;

	config.flags = flags;
	disk = ob_disk_add(&config, NULL);
	CHECK(disk >= 0);
	CHECK_EQUAL(ob_disk_remove(disk), 0);
	CHECK_EQUAL(memory.closes, 1);
	memory.closes = 0;
	disk = ob_disk_add(&config, disk_name);
	CHECK(disk >= 0);
	snprintf(device, sizeof(device), "/dev/%s", disk_name);
	OK(ob_sys_mount(device, "/disk", "ext4", flags & OB_DISK_READ_ONLY ? 1 : 0, NULL));
	return disk;
}

static int make_file(const char *path, size_t size)
{
	static char text[65536];
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT, 0644));

	memset(text, 'x', sizeof(text));
	for (size_t done = 0; done < size; done += sizeof(text))
		CHECK_EQUAL(ob_sys_write(fd, text, sizeof(text)), sizeof(text));
	return fd;
}

/* V11: what fsync reported is stable, because flush was called after the writes. */
static void durable(void)
{
	int flushes = memory.flushes;
	int fd = make_file("/disk/durable", 1 << 20);

	OK(ob_sys_fsync(fd));
	CHECK(memory.flushes > flushes);
	CHECK(memmem(memory.stable, memory.size, "durable", 7));
	OK(ob_sys_close(fd));
	CHECK(memory.writes > 0);
}

/* Requests that do nothing but flush, as Linux counts them. */
static long flush_requests(const char *disk)
{
	char text[4096], *at;
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/proc/diskstats", O_RDONLY, 0));
	long length = OK(ob_sys_read(fd, text, sizeof(text) - 1)), flushes = -1;

	OK(ob_sys_close(fd));
	text[length] = '\0';
	at = strstr(text, disk);
	CHECK(at);
	/* Fifteen numbers of other requests come first. */
	CHECK_EQUAL(sscanf(at, "%*s %*s %*s %*s %*s %*s %*s %*s "
			       "%*s %*s %*s %*s %*s %*s %*s %*s %ld", &flushes), 1);
	return flushes;
}

/*
 * V11: the write that commits a journal comes when all before it is flushed, and is flushed itself.
 * The host gets flush and write as one request: Linux makes none for the flush. Now and then there
 * may be other writes and flushes.
 */
static void commits(void)
{
	enum { FILES = 20 };
	long requests = flush_requests(disk_name);
	int flushes = memory.flushes, ordered = 0;

	for (int i = 0; i < FILES; i++) {
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/disk/commit%d", i);
		fd = make_file(path, 1);
		OK(ob_sys_fsync(fd));
		OK(ob_sys_close(fd));
		pthread_mutex_lock(&memory.mutex);
		ordered += !memory.unflushed && !memory.unflushed_before;
		pthread_mutex_unlock(&memory.mutex);
	}
	CHECK(memory.flushes >= flushes + 2 * FILES);
	CHECK(ordered > FILES / 2);
	CHECK(flush_requests(disk_name) < requests + FILES / 2);
}

static void *read_cold(void *path)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECT, 0));
	void *page = (void *)ob_sys_mmap(0, 4096, 3, 0x22, -1, 0);

	CHECK_EQUAL(ob_sys_pread64(fd, page, 4096, 0), 4096);
	OK(ob_sys_close(fd));
	return NULL;
}

static void wait_until_busy(int wanted)
{
	for (int i = 0; __atomic_load_n(&busy, __ATOMIC_SEQ_CST) < wanted; i++) {
		CHECK(i < PATIENCE && "the disk gets several requests at once");
		usleep(1000);
	}
}

/*
 * A disk that is stuck holds up who waits for it and nobody else, and gets several requests at
 * once.
 */
static void stuck(void)
{
	pthread_t threads[3];

	__atomic_store_n(&memory.stuck, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, read_cold, "/disk/durable"), 0);
	wait_until_busy(2);
	for (int i = 0; i < 1000; i++)
		OK(ob_sys_getpid());
	__atomic_store_n(&memory.stuck, false, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void discards(void)
{
	uint64_t range[3] = { 0, ~0ull, 0 };
	int root = (int)OK(ob_sys_openat(AT_FDCWD, "/disk", O_RDONLY | O_DIRECTORY, 0));

	OK(ob_sys_ioctl((unsigned int)root, 0xc0185879 /* FITRIM */, (unsigned long)range));
	OK(ob_sys_close(root));
	CHECK(memory.discards > 0);
}

/* Zeroes that are to keep their room in the host are written; others need none. */
static void zeroes(void)
{
	static char before[65536], got[65536];
	int writes, fd;
	char path[48];

	snprintf(path, sizeof(path), "/dev/%s", disk_name);
	fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDWR, 0));
	OK(ob_sys_pread64((unsigned int)fd, before, sizeof(before), 0));
	writes = memory.writes;
	memory.zeroes = 0;
	OK(ob_sys_fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, sizeof(before)));
	CHECK(memory.writes > writes);
	CHECK_EQUAL(memory.zeroes, 0);
	OK(ob_sys_pread64((unsigned int)fd, got, sizeof(got), 0));
	for (unsigned int i = 0; i < sizeof(got); i++)
		CHECK_EQUAL(got[i], 0);
	writes = memory.writes;
	OK(ob_sys_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(before)));
	CHECK(memory.zeroes > 0);
	CHECK_EQUAL(memory.writes, writes);
	OK(ob_sys_pwrite64((unsigned int)fd, before, sizeof(before), 0));
	OK(ob_sys_fsync((unsigned int)fd));
	OK(ob_sys_close((unsigned int)fd));
}

static void save(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(fd >= 0);
	for (uint64_t at = 0; at < memory.size;) {
		ssize_t length = write(fd, memory.stable + at, memory.size - at);

		CHECK(length > 0);
		at += (uint64_t)length;
	}
	close(fd);
}

/* Errors of the program's functions are errors of the calls that need them. */
static void failing(void)
{
	int fd = make_file("/disk/failing", 1 << 20);

	__atomic_store_n(&memory.failing, true, __ATOMIC_SEQ_CST);
	CHECK_EQUAL(ob_sys_fsync(fd), -1);
	CHECK_EQUAL(errno, EIO);
	ob_sys_close(fd);
	ob_sys_umount2("/disk", 0);
	__atomic_store_n(&memory.failing, false, __ATOMIC_SEQ_CST);
}

static void read_only(void)
{
	int writes = memory.writes, flushes = memory.flushes;
	int disk, fd;

	disk = add_and_mount(OB_DISK_READ_ONLY);
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/disk/durable", O_RDONLY, 0));
	OK(ob_sys_close(fd));
	OK(ob_sys_umount2("/disk", 0));
	CHECK_EQUAL(ob_disk_remove(disk), 0);
	CHECK_EQUAL(memory.writes, writes);
	CHECK_EQUAL(memory.flushes, flushes);
}

int main(int count, char **arguments)
{
	int disk;

	CHECK_EQUAL(count, 3);
	load(arguments[1]);
	client_boot(2);
	refuses_nonsense();
	OK(ob_sys_mkdir("/disk", 0755));
	CHECK(!ob_sys_mkdir("/proc", 0755) || errno == EEXIST);
	OK(ob_sys_mount("none", "/proc", "proc", 0, NULL));
	disk = add_and_mount(0);
	durable();
	commits();
	stuck();
	discards();
	OK(ob_sys_umount2("/disk", 0));
	save(arguments[2]);
	zeroes();
	CHECK_EQUAL(ob_disk_remove(disk), 0);
	CHECK_EQUAL(memory.closes, 1);
	memory.closes = 0;
	read_only();
	memory.closes = 0;
	add_and_mount(0);
	failing();
	ob_halt();
	CHECK_EQUAL(memory.closes, 1);
	return 0;
}
