// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt unmounts everything, whatever stands in its way: halt_test WAY IMAGE
 *
 * WAY: chroot   the image is the clients' root, beside more mounts than fit into one list
 *      over     the image is moved over the root
 *      apart    another thread mounts it in namespaces of its own, with files of its own
 *      ring     a file of the image is registered with an io_uring of the halting thread
 *      rings    the same of threads that are out in host code
 *      full     there is no memory left
 *      storm    threads that are out in host code get SIGURG all the time
 *      handler  the first try is made by a signal handler that interrupted a call: it is refused,
 *               and nothing has changed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define MOUNTS 1200

/* Left open. */
static int write_file(const char *path)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, path, O_CREAT | O_WRONLY, 0644));

	CHECK_EQUAL(OK(ob_sys_write(file, "abc", 3)), 3);
	return file;
}

static void in_chroot(const char *image)
{
	char directory[32];

	client_mount(image, "ext4", "/image");
	for (int i = 0; i < MOUNTS; i++) {
		snprintf(directory, sizeof(directory), "/tmp/%d", i);
		client_tmpfs(directory);
	}
	OK(ob_sys_chroot("/image"));
	OK(ob_sys_chdir("/"));
	write_file("/left-open");
}

static void over_root(const char *image)
{
	client_mount(image, "ext4", "/image");
	OK(ob_sys_mount("/image", "/", NULL, MS_MOVE, NULL));
	write_file("/../left-open");
}

static pthread_barrier_t mounted;

static void *apart_main(void *image)
{
	OK(ob_sys_unshare(CLONE_NEWNS | CLONE_FILES));
	client_mount(image, "ext4", "/image");
	write_file("/image/left-open");
	pthread_barrier_wait(&mounted);
	pause();
	return NULL;
}

static void apart(const char *image)
{
	pthread_t thread;

	pthread_barrier_init(&mounted, NULL, 2);
	CHECK_EQUAL(pthread_create(&thread, NULL, apart_main, (void *)image), 0);
	pthread_barrier_wait(&mounted);
	CHECK_EQUAL(ob_sys_faccessat(AT_FDCWD, "/image/left-open", F_OK), -1);
}

static void register_file(void)
{
	struct io_uring_params parameters = {};
	int file = write_file("/image/left-open");
	int ring = (int)OK(ob_sys_io_uring_setup(8, &parameters));

	OK(ob_sys_io_uring_register(ring, IORING_REGISTER_FILES, &file, 1));
}

static void *ring_main(void *unused)
{
	register_file();
	pthread_barrier_wait(&mounted);
	pause();
	return unused;
}

static void rings(const char *image)
{
	pthread_t threads[3];

	client_mount(image, "ext4", "/image");
	pthread_barrier_init(&mounted, NULL, 4);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, ring_main, NULL), 0);
	pthread_barrier_wait(&mounted);
	/* One of them is only parked, or evicted already: both. */
	usleep(100000);
}

static void ring(const char *image)
{
	client_mount(image, "ext4", "/image");
	register_file();
}

static void full(const char *image)
{
	static char block[4096];
	char name[32];
	int file;

	client_mount(image, "ext4", "/image");
	write_file("/image/left-open");
	client_tmpfs("/full");
	file = (int)OK(ob_sys_openat(AT_FDCWD, "/full/file", O_CREAT | O_WRONLY, 0600));
	while (ob_sys_write(file, block, sizeof(block)) == (long)sizeof(block))
		;
	CHECK(errno == ENOMEM || errno == ENOSPC);
	/* Fill the rest of the slabs, too. */
	for (int i = 0; i < 200000; i++) {
		snprintf(name, sizeof(name), "/full/%d", i);
		if (ob_sys_mknod(name, 0600 | S_IFREG, 0) && (errno == ENOMEM || errno == ENOSPC))
			break;
	}
}

static pthread_t target;
static volatile int over;

static void *out_main(void *unused)
{
	OK(ob_sys_getppid());
	pthread_barrier_wait(&mounted);
	while (!over)
		;
	return unused;
}

static void *storm_main(void *unused)
{
	while (!over)
		CHECK_EQUAL(pthread_kill(target, SIGURG), 0);
	return unused;
}

static void storm(const char *image)
{
	static char block[1 << 20];
	pthread_t thread;
	int file;

	client_mount(image, "ext4", "/image");
	write_file("/image/left-open");
	/* Memory that takes the host a while to take back. */
	client_tmpfs("/large");
	file = (int)OK(ob_sys_openat(AT_FDCWD, "/large/file", O_CREAT | O_WRONLY, 0600));
	memset(block, 1, sizeof(block));
	for (int i = 0; i < 200; i++)
		OK(ob_sys_write(file, block, sizeof(block)));
	pthread_barrier_init(&mounted, NULL, 2);
	CHECK_EQUAL(pthread_create(&target, NULL, out_main, NULL), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, storm_main, NULL), 0);
	pthread_barrier_wait(&mounted);
}

static volatile int answer = 1;

/* Only what interrupts a call is of interest: between two, halting would work. */
static void on_alarm(int number)
{
	(void)number;
	if (ob_syscall(OB_SYS_getppid) < 0)
		answer = ob_halt();
	else
		ualarm(1000, 0);
}

static void handler(const char *image)
{
	struct timespec long_time = { 0, 300000000 };
	char *mapped;
	int file;

	client_mount(image, "ext4", "/image");
	file = (int)OK(ob_sys_openat(AT_FDCWD, "/image/left-open", O_CREAT | O_RDWR, 0644));
	OK(ob_sys_ftruncate(file, 3));
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
	ualarm(50000, 0);
	while (answer == 1)
		ob_sys_nanosleep(&long_time, NULL);
	CHECK_EQUAL(answer, -EDEADLK);
	/*
	 * The kernel runs on: a mapping needs the fault handler, a new thread the hook for its end.
	 */
	mapped = ob_sys_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(mapped != MAP_FAILED);
	memcpy(mapped, "abc", 3);
}

static const struct {
	const char *name;
	void (*prepare)(const char *image);
} ways[] = {
	{ "chroot", in_chroot }, { "over", over_root }, { "apart", apart }, { "ring", ring },
	{ "rings", rings },	 { "full", full },	{ "storm", storm }, { "handler", handler },
};

int main(int count, char **arguments)
{
	struct ob_config config = { .size = sizeof(config),
				    .vcpus = 2,
				    .log_level = OB_LOG_DEFAULT };
	int result;

	CHECK_EQUAL(count, 3);
	if (!strcmp(arguments[1], "full"))
		config.memory = 64 << 20;
	CHECK_EQUAL(ob_boot(&config), 0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(arguments[1], ways[i].name))
			ways[i].prepare(arguments[2]);
	result = ob_halt();
	over = 1;
	CHECK_EQUAL(result, 0);
	if (target)
		CHECK_EQUAL(pthread_join(target, NULL), 0);
	return 0;
}
