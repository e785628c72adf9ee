// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does what needs each function that the link wraps, and checks what comes of it. test_dodges.py
 * has gdb stop there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include <outboard/net.h>

#include "../../library/client.h"

#define MB (1ul << 20)
#define CEILING (64 * MB)

static char block[MB];

static void boot(void)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 1, .memory = CEILING, .log_level = OB_LOG_DEFAULT,
	};

	CHECK_EQUAL(ob_boot(&config), 0);
}

/* A component by the name of its file system; its memory is mapped. */
static void load_a_component(void)
{
	OK(ob_sys_mkdir("/dodges", 0755));
	CHECK(ob_sys_mount("none", "/dodges", "vfat", 0, NULL) == -1 && errno != ENODEV);
}

static void look_into_sysfs(void)
{
	struct stat status;

	OK(ob_sys_newfstatat(AT_FDCWD, "/sys/kernel/slab", &status, 0));
}

static void make_a_file(void)
{
	int fd;

	client_tmpfs("/tmpfs");
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/tmpfs/file", O_CREAT | O_RDWR, 0600));
	CHECK_EQUAL(OK(ob_sys_write(fd, block, MB)), (long)MB);
	OK(ob_sys_close(fd));
}

/* The file has a name only here. */
static void flush_a_disk(void)
{
	struct ob_disk_config config = { .size = sizeof(config) };
	int file = memfd_create("disk", 0), fd;
	char path[32], name[32], device[48];

	CHECK(file >= 0 && !ftruncate(file, MB));
	snprintf(path, sizeof(path), "/dev/fd/%d", file);
	config.path = path;
	CHECK(ob_disk_add(&config, name) >= 0);
	snprintf(device, sizeof(device), "/dev/%s", name);
	fd = (int)OK(ob_sys_openat(AT_FDCWD, device, O_RDWR, 0));
	OK(ob_sys_fsync(fd));
	OK(ob_sys_close(fd));
}

/* Each has a little memory of its own for every vCPU, until Linux needs another piece for that. */
static void mount_often(void)
{
	OK(ob_sys_mkdir("/often", 0755));
	for (int i = 0; i < 1500; i++)
		OK(ob_sys_mount("none", "/often", "tmpfs", 0, NULL));
}

/* Its line discipline takes memory from vmalloc. */
static void open_a_terminal(void)
{
	OK(ob_sys_mkdir("/pts", 0755));
	OK(ob_sys_mount("none", "/pts", "devpts", 0, "ptmxmode=0666"));
	OK(ob_sys_close((int)OK(ob_sys_openat(AT_FDCWD, "/pts/ptmx", O_RDWR, 0))));
}

/* The kernel reads all of it before it looks at it. */
static void load_what_is_no_module(void)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/tmpfs/file", O_RDONLY, 0));

	CHECK(ob_sys_finit_module(fd, "", 0) == -1 && errno == ENOEXEC);
	OK(ob_sys_close(fd));
}

static long nanoseconds(const struct timespec *time)
{
	return time->tv_sec * 1000000000l + time->tv_nsec;
}

static long host_time(void)
{
	struct timespec now;

	CHECK(!clock_gettime(CLOCK_REALTIME_COARSE, &now));
	return nanoseconds(&now);
}

static long time_of_new_file(void)
{
	struct stat status;
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/tmpfs/time", O_CREAT | O_TRUNC | O_WRONLY,
				       0600));

	OK(ob_sys_write(fd, "x", 1));
	OK(ob_sys_fstat(fd, &status));
	OK(ob_sys_close(fd));
	return nanoseconds(&status.st_mtim);
}

/* Files have the host's coarse time to the nanosecond. The kernel's own is up to a tick behind. */
static void files_have_the_host_s_time(void)
{
	for (int i = 0; i < 100; i++) {
		long before = host_time(), time = time_of_new_file();

		CHECK(before <= time && time <= host_time());
		usleep(1000);
	}
}

/* The clock and the times of files are as far behind the host's. */
static void clock_is_behind(long seconds)
{
	struct timespec now;
	long wanted = host_time() / 1000000000 - seconds;

	OK(ob_sys_clock_gettime(CLOCK_REALTIME, &now));
	CHECK(labs(now.tv_sec - wanted) < 60);
	CHECK(labs(time_of_new_file() / 1000000000 - wanted) < 60);
}

/* Files follow a clock that a client sets, or moves. A client that only asks changes nothing. */
static void set_the_clock(void)
{
	struct timex change = { .modes = 0 };
	struct timeval time;

	files_have_the_host_s_time();
	OK(ob_sys_adjtimex(&change));
	files_have_the_host_s_time();
	time = (struct timeval){ .tv_sec = host_time() / 1000000000 - 7200 };
	OK(ob_sys_settimeofday(&time, NULL));
	clock_is_behind(7200);
	change.modes = ADJ_SETOFFSET;
	change.time.tv_sec = -3600;
	OK(ob_sys_adjtimex(&change));
	clock_is_behind(7200 + 3600);
}

/* A file in memory does not take what the kernel itself needs. */
static void fill_a_tmpfs(void)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/tmpfs/all", O_CREAT | O_WRONLY, 0600));
	long done, written = 0;

	while ((done = ob_sys_write(fd, block, MB)) > 0)
		written += done;
	CHECK_EQUAL(errno, ENOSPC);
	CHECK(written >= (long)CEILING / 2 && written <= (long)(CEILING - 16 * MB));
	OK(ob_sys_unlink("/tmpfs/all"));
	OK(ob_sys_close(fd));
}

/* The pages of the message hold a copy: the program's own memory has none that the kernel knows. */
static void send_without_a_copy(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(9),
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int one = 1, fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));

	CHECK_EQUAL(ob_net_configure("lo", "up"), 0);
	OK(ob_sys_setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, (char *)&one, sizeof(one)));
	OK(ob_sys_sendto(fd, block, 100, MSG_ZEROCOPY, (struct sockaddr *)&address,
			 sizeof(address)));
	OK(ob_sys_close(fd));
}

static volatile int number = 1;

static void *end_with_a_wake_up(void *unused)
{
	OK(ob_sys_set_tid_address((int *)&number));
	return unused;
}

/* The kernel clears the number of a thread that ends, and wakes who waits for that. */
static void end_a_thread(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, end_with_a_wake_up, NULL));
	CHECK(!pthread_join(thread, NULL));
	while (number)
		usleep(1000);
}

/* Nobody can take back memory that pipes have. */
static void take_all_memory(void)
{
	for (uint64_t taken = 0; taken < 2 * CEILING; taken += MB) {
		int ends[2];

		OK(ob_sys_pipe2(ends, O_NONBLOCK));
		OK(ob_sys_fcntl(ends[1], F_SETPIPE_SZ, MB));
		if (ob_sys_write(ends[1], block, MB) != (long)MB)
			return;
	}
	CHECK(!"twice as much as there is");
}

/* Past the page cache, from memory that has pages; and a part of it by the page cache. */
static void use_a_host_directory(void)
{
	char place[] = "/tmp/dodges.XXXXXX", file[sizeof(place) + 5];
	struct ob_dir_config config = { .size = sizeof(config), .path = place, .tag = "host" };
	char *bytes = ob_sys_mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);
	struct stat status;
	int fd;

	CHECK(bytes != MAP_FAILED && mkdtemp(place));
	CHECK(ob_dir_add(&config) >= 0);
	OK(ob_sys_mkdir("/host", 0755));
	OK(ob_sys_mount("host", "/host", "virtiofs", 0, NULL));
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/host/file", O_CREAT | O_WRONLY | O_DIRECT, 0600));
	CHECK_EQUAL(OK(ob_sys_write(fd, bytes, MB)), (long)MB);
	OK(ob_sys_close(fd));
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/host/file", O_RDONLY, 0));
	CHECK_EQUAL(OK(ob_sys_read(fd, bytes, 1)), 1);
	OK(ob_sys_close(fd));
	snprintf(file, sizeof(file), "%s/file", place);
	CHECK(!stat(file, &status) && status.st_size == (off_t)MB);
	CHECK(!unlink(file) && !rmdir(place));
}

int main(void)
{
	boot();
	load_a_component();
	look_into_sysfs();
	make_a_file();
	flush_a_disk();
	mount_often();
	open_a_terminal();
	load_what_is_no_module();
	set_the_clock();
	fill_a_tmpfs();
	send_without_a_copy();
	use_a_host_directory();
	end_a_thread();
	take_all_memory();
	puts("done");
	return 0;
}
