/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work on files, by the system calls of the host or of the library: the same code for both.
 *
 * Usage: filework host|library fill|read|write DEVICE TYPE DIRECTORY IMAGE
 *
 * Mounts DEVICE (the host: a block device; the library: an image or a block device) and works on
 * it. Prints a line for each work: its name, and the seconds that the work itself took.
 *   fill    makes what `read` needs, and prints nothing
 *   read    reads a file of 512 MB in pieces of 1 MB, and by 16 threads at random places, 4 KB
 *           each; walks a tree of 8,000 files as `ls -lR` does
 *   write   copies a tree of 4,000 files as `cp -a` does, and syncs; creates 2,000 files, with
 *           fsync each
 * Before a cold work the file system is mounted afresh: its kernel has nothing in memory. IMAGE,
 * the host's file behind it all, stays in the host's page cache, but for what is "from disk".
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <outboard/outboard.h>

#define MEGABYTE (1l << 20)
#define BIG_SIZE (512 * MEGABYTE)
#define LISTED_DIRECTORIES 400
#define COPIED_DIRECTORIES 200
#define FILES_EACH 20
#define LISTED_SIZE 100
#define COPIED_SIZE_MAX 16384
#define SYNCED_FILES 2000
#define SYNCED_SIZE 1024
#define ENTRIES_SIZE 32768
#define RANDOM_READERS 16
#define RANDOM_READS 512		/* of each */
#define RANDOM_SIZE 4096

static long (*call)(long number, ...);
static const char *image, *device, *type, *directory;
static char buffer[1 << 20];
static double begun;

struct entry {
	uint64_t number;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

static long must(const char *what, long result)
{
	/* The C library has the reason in errno, the library in the result. */
	if (result < 0) {
		fprintf(stderr, "filework: %s: %s\n", what,
			strerror(result < -1 ? (int)-result : errno));
		exit(1);
	}
	return result;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void begin(void)
{
	begun = now();
}

static void end(const char *name)
{
	printf("%s %f\n", name, now() - begun);
}

static int open_at(int place, const char *name, int flags)
{
	return (int)must(name, call(SYS_openat, place, name, flags, 0644));
}

static void close_file(int file)
{
	must("close", call(SYS_close, file));
}

static void write_file(int place, const char *name, long size, bool sync)
{
	int file = open_at(place, name, O_WRONLY | O_CREAT | O_EXCL);

	for (long done = 0; done < size; done += MEGABYTE) {
		long piece = size - done < MEGABYTE ? size - done : MEGABYTE;

		memcpy(buffer, &done, sizeof(done));
		if (must("write", call(SYS_write, file, buffer, piece)) != piece)
			must("write: short", -EIO);
	}
	if (sync)
		must("fsync", call(SYS_fsync, file));
	close_file(file);
}

static int make_directory(int place, const char *name)
{
	must(name, call(SYS_mkdirat, place, name, 0755));
	return open_at(place, name, O_RDONLY | O_DIRECTORY);
}

/* Files of sizes up to `largest`, or all of that size. */
static void make_tree(int root, const char *name, int directories, long largest, bool vary)
{
	int top = make_directory(root, name);
	unsigned int chosen = 1;

	for (int i = 0; i < directories; i++) {
		char child[32];
		int place;

		snprintf(child, sizeof(child), "d%d", i);
		place = make_directory(top, child);
		for (int j = 0; j < FILES_EACH; j++) {
			chosen = chosen * 1103515245 + 12345;
			snprintf(child, sizeof(child), "file%d", j);
			write_file(place, child, vary ? (long)(chosen >> 8) % largest : largest,
				   false);
		}
		close_file(place);
	}
	close_file(top);
}

static long read_all(int file, char *data, long size)
{
	long bytes, all = 0;

	while ((bytes = must("read", call(SYS_read, file, data, size))) > 0)
		all += bytes;
	return all;
}

static void read_big(int root)
{
	int file = open_at(root, "big", O_RDONLY);

	if (read_all(file, buffer, MEGABYTE) != BIG_SIZE)
		must("big: size", -EIO);
	close_file(file);
}

struct random_reader {
	int file;
	unsigned int chosen;
};

static void *read_random_places(void *argument)
{
	struct random_reader *reader = argument;
	char data[RANDOM_SIZE];

	for (int i = 0; i < RANDOM_READS; i++) {
		long place;

		reader->chosen = reader->chosen * 1103515245 + 12345;
		place = (reader->chosen >> 8) % (BIG_SIZE / RANDOM_SIZE) * RANDOM_SIZE;
		if (must("pread64", call(SYS_pread64, reader->file, data, sizeof(data), place)) !=
		    RANDOM_SIZE)
			must("pread64: short", -EIO);
	}
	return NULL;
}

static void read_random(int root)
{
	int file = open_at(root, "big", O_RDONLY);
	struct random_reader readers[RANDOM_READERS];
	pthread_t threads[RANDOM_READERS];

	for (unsigned int i = 0; i < RANDOM_READERS; i++) {
		readers[i] = (struct random_reader){ file, i };
		must("thread", -pthread_create(&threads[i], NULL, read_random_places, &readers[i]));
	}
	for (int i = 0; i < RANDOM_READERS; i++)
		pthread_join(threads[i], NULL);
	close_file(file);
}

/* Called by a walk for a file or directory, and then for the contents of the directory. */
typedef void visit(int place, const struct entry *entry, const struct statx *status, void *context);

static void walk(int place, visit *each, void *context)
{
	char entries[ENTRIES_SIZE];
	long length;

	while ((length = must("getdents64",
			      call(SYS_getdents64, place, entries, sizeof(entries)))) > 0)
		for (long at = 0; at < length;) {
			const struct entry *entry = (const struct entry *)(entries + at);
			struct statx status;

			at += entry->length;
			if (!strcmp(entry->name, ".") || !strcmp(entry->name, ".."))
				continue;
			must(entry->name, call(SYS_statx, place, entry->name, AT_SYMLINK_NOFOLLOW,
					       STATX_BASIC_STATS, &status));
			each(place, entry, &status, context);
		}
}

static void list_one(int place, const struct entry *entry, const struct statx *status,
		     void *context)
{
	if (S_ISDIR(status->stx_mode)) {
		int child = open_at(place, entry->name, O_RDONLY | O_DIRECTORY);

		walk(child, list_one, context);
		close_file(child);
	} else {
		++*(long *)context;
	}
}

static void list_tree(int root)
{
	int top = open_at(root, "listed", O_RDONLY | O_DIRECTORY);
	long files = 0;

	walk(top, list_one, &files);
	close_file(top);
	if (files != LISTED_DIRECTORIES * FILES_EACH)
		must("listed: number of files", -EIO);
}

static void copy_one(int place, const struct entry *entry, const struct statx *status,
		     void *context)
{
	const struct timespec times[2] = {
		{ status->stx_atime.tv_sec, status->stx_atime.tv_nsec },
		{ status->stx_mtime.tv_sec, status->stx_mtime.tv_nsec },
	};
	bool is_directory = S_ISDIR(status->stx_mode);
	int from = open_at(place, entry->name, is_directory ? O_RDONLY | O_DIRECTORY : O_RDONLY);
	int into = *(int *)context, to;
	long bytes;

	if (is_directory) {
		to = make_directory(into, entry->name);
		walk(from, copy_one, &to);
	} else {
		to = open_at(into, entry->name, O_WRONLY | O_CREAT | O_EXCL);
		while ((bytes = must("read", call(SYS_read, from, buffer, 128l << 10))) > 0)
			must("write", call(SYS_write, to, buffer, bytes));
	}
	must("fchown", call(SYS_fchown, to, status->stx_uid, status->stx_gid));
	must("fchmod", call(SYS_fchmod, to, status->stx_mode & 07777));
	must("utimensat", call(SYS_utimensat, to, NULL, times, 0));
	close_file(to);
	close_file(from);
}

static void copy_tree(int root)
{
	int from = open_at(root, "tree", O_RDONLY | O_DIRECTORY), to = make_directory(root, "copy");

	walk(from, copy_one, &to);
	close_file(from);
	close_file(to);
	must("syncfs", call(SYS_syncfs, root));
}

static void create_synced(int root)
{
	int place = make_directory(root, "synced");

	for (int i = 0; i < SYNCED_FILES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "file%d", i);
		write_file(place, name, SYNCED_SIZE, true);
	}
	close_file(place);
}

static int mount_it(unsigned long flags)
{
	must(device, call(SYS_mount, device, directory, type, flags, NULL));
	return open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
}

static void unmount(int root)
{
	close_file(root);
	must("umount", call(SYS_umount2, directory, 0));
}

/* Takes what the host has of it out of its page cache; it has been written already. */
static void evict(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	must(path, file);
	must(path, -posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
	close(file);
}

static void fill(void)
{
	int root = mount_it(0);

	write_file(root, "big", BIG_SIZE, false);
	make_tree(root, "listed", LISTED_DIRECTORIES, LISTED_SIZE, false);
	unmount(root);
}

static int timed(const char *name, void (*work)(int root), int root)
{
	begin();
	work(root);
	end(name);
	return root;
}

static void read_work(const char *source)
{
	int root;

	/* The first read is by a kernel that has not had so much memory yet. */
	unmount(timed("first_read", read_big, mount_it(MS_RDONLY)));
	root = timed("cold_read", read_big, mount_it(MS_RDONLY));
	/* The second one makes the kernel keep the file. */
	root = timed("second_read", read_big, root);
	unmount(timed("warm_read", read_big, root));
	unmount(timed("warm_list", list_tree, timed("cold_list", list_tree, mount_it(MS_RDONLY))));
	evict(source);
	evict(image);
	unmount(timed("disk_read", read_big, mount_it(MS_RDONLY)));
	evict(source);
	evict(image);
	unmount(timed("random_read", read_random, mount_it(MS_RDONLY)));
}

static void write_work(void)
{
	int root = mount_it(0);

	make_tree(root, "tree", COPIED_DIRECTORIES, COPIED_SIZE_MAX, true);
	must("syncfs", call(SYS_syncfs, root));
	timed("copy", copy_tree, root);
	unmount(timed("create", create_synced, root));
}

/* Our mounts are nobody else's, and go with the process. */
static void use_host(void)
{
	call = syscall;
	must("unshare", unshare(CLONE_NEWNS));
	must("private mounts", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static void use_library(void)
{
	struct ob_disk_config config = { .size = sizeof(config), .path = device };
	static char name[32], path[40];

	call = ob_syscall;
	if (ob_boot(NULL) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		exit(1);
	}
	must(device, ob_disk_add(&config, name));
	snprintf(path, sizeof(path), "/dev/%s", name);
	device = path;
	directory = "/filework";
	must(directory, call(SYS_mkdir, directory, 0755));
}

int main(int argc, char **argv)
{
	const char *work;
	bool library;

	if (argc != 7)
		return 2;
	library = !strcmp(argv[1], "library");
	work = argv[2];
	device = argv[3];
	type = argv[4];
	directory = argv[5];
	image = argv[6];
	if (library)
		use_library();
	else
		use_host();
	if (!strcmp(work, "fill"))
		fill();
	else if (!strcmp(work, "read"))
		read_work(argv[3]);
	else
		write_work();
	return library && ob_halt() != 0;
}
