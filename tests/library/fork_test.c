// SPDX-License-Identifier: GPL-2.0-only
/*
 * fork() in a program that has booted: the child gets clear errors, and can boot a kernel of its
 * own. The parent is unharmed.
 *
 *   fork_test [booted|_Fork|clone|prepared]
 *
 * `_Fork`, `clone`: children that run no hook of fork(). `prepared`: fork() between ob_prepare()
 * and ob_boot().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

static void boot_one_of_its_own(void)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .memory = 64 << 20, .log_level = OB_LOG_DEFAULT,
	};
	char text[8] = "";
	int fd;

	CHECK_EQUAL(ob_boot(&config), 0);
	fd = (int)OK(ob_sys_openat(-100, "/tmp/f", O_RDWR | O_CREAT, 0600));
	CHECK_EQUAL(OK(ob_sys_write(fd, "child", 6)), 6);
	CHECK_EQUAL(OK(ob_sys_pread64(fd, text, 6, 0)), 6);
	CHECK(!strcmp(text, "child"));
	CHECK(ob_sys_write(fd, client_border(), 1) == -1 && errno == EFAULT);
	CHECK_EQUAL(ob_halt(), 0);
}

static pid_t clone_alone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static pid_t (*make_child)(void) = fork;
static int has_handlers_of_its_own;

/* What a hook has done already. */
static void check_the_hook(const char *window)
{
	unsigned char resident;

	/* The parent's snapshot is not the child's. */
	CHECK(!strcmp(ob_snapshot_status(), "not wanted"));
	/* The window is not there any more, so nothing can be written to the parent's memory. */
	CHECK_EQUAL(mincore((void *)window, 4096, &resident), -1);
}

static int child(const char *window)
{
	struct ob_disk_config disk = { .size = sizeof(disk), .path = "/" };

	alarm(120);
	CHECK_EQUAL(ob_syscall(OB_SYS_getppid), -ENODEV);
	CHECK_EQUAL(ob_sys_openat(-100, "/tmp/f", 0, 0), -1);
	CHECK_EQUAL(errno, ENODEV);
	CHECK_EQUAL(ob_disk_add(&disk, NULL), -ENODEV);
	CHECK_EQUAL(ob_interrupt(0), -ENODEV);
	CHECK_EQUAL(ob_halt(), -ENODEV);
	if (make_child == fork)
		check_the_hook(window);
	/* As libraries do in a child that they have made. */
	if (has_handlers_of_its_own)
		CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR && signal(SIGBUS, SIG_DFL) != SIG_ERR);
	boot_one_of_its_own();
	return 0;
}

static void *child_of_a_thread(void *window)
{
	pid_t pid = make_child();
	int status;

	if (pid == 0)
		_exit(child(window));
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQUAL(status, 0);
	return NULL;
}

static volatile int stop;

static void *busy(void *unused)
{
	(void)unused;
	while (!stop)
		CHECK(ob_sys_getppid() >= 0);
	return NULL;
}

#define MB (1l << 20)
#define GROWTH 96	/* MB, of which much is in memory that was not there at first */

static char bytes[MB], got[MB];

/* Fills memory, and looks at it when the other child has done so too. */
static void child_of_prepared(char what, int filled, int go)
{
	long fd;

	alarm(120);
	client_boot(1);
	fd = OK(ob_sys_openat(-100, "/tmp/f", O_RDWR | O_CREAT, 0600));
	memset(bytes, what, MB);
	for (long i = 0; i < GROWTH; i++)
		CHECK_EQUAL(OK(ob_sys_pwrite64((int)fd, bytes, MB, i * MB)), MB);
	CHECK_EQUAL(write(filled, &what, 1), 1);
	CHECK_EQUAL(read(go, got, 1), 1);
	for (long i = 0; i < GROWTH; i++) {
		CHECK_EQUAL(OK(ob_sys_pread64((int)fd, got, MB, i * MB)), MB);
		CHECK(!memcmp(got, bytes, MB));
	}
	CHECK_EQUAL(ob_halt(), 0);
	_exit(0);
}

static void children_of_prepared(void)
{
	int filled[2], go[2], status;
	char answers[2];

	ob_prepare();
	CHECK(!pipe(filled) && !pipe(go));
	for (char what = 'A'; what <= 'B'; what++)
		if (!fork())
			child_of_prepared(what, filled[1], go[0]);
	close(filled[1]);
	for (int i = 0; i < 2; i++)
		CHECK_EQUAL(read(filled[0], &answers[i], 1), 1);
	CHECK_EQUAL(write(go[1], answers, 2), 2);
	for (int i = 0; i < 2; i++) {
		CHECK(wait(&status) > 0);
		CHECK_EQUAL(status, 0);
	}
	/* The parent still has all that they have not taken. */
	client_boot(1);
	CHECK_EQUAL(ob_halt(), 0);
}

int main(int count, char **arguments)
{
	const char *way = count > 1 ? arguments[1] : "booted";
	pthread_t other, thread;
	char *window, text[8] = "";
	long fd;

	if (!strcmp(way, "prepared")) {
		children_of_prepared();
		return 0;
	}
	if (!strcmp(way, "_Fork"))
		make_child = _Fork;
	if (!strcmp(way, "clone"))
		make_child = clone_alone;
	/* Unless the test sets one, a directory that does not exist: its status is no default. */
	CHECK(!setenv("SNAPSHOTS", "/dev/null/none", 0));
	client_boot(2);
	CHECK(strcmp(ob_snapshot_status(), "not wanted"));
	fd = OK(ob_sys_memfd_create("m", 0));
	OK(ob_sys_ftruncate(fd, 4096));
	window = ob_sys_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	CHECK(window != MAP_FAILED);
	strcpy(window, "parent");
	CHECK(!pthread_create(&other, NULL, busy, NULL));
	for (int i = 0; i < 10; i++) {
		has_handlers_of_its_own = i % 2;
		/* From a thread that is known to the kernel, and from one that is not. */
		child_of_a_thread(window);
		CHECK(!pthread_create(&thread, NULL, child_of_a_thread, window));
		pthread_join(thread, NULL);
	}
	stop = 1;
	pthread_join(other, NULL);
	CHECK_EQUAL(OK(ob_sys_pread64(fd, text, 7, 0)), 7);
	CHECK(!strcmp(text, "parent"));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
