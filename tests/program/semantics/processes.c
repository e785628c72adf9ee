// SPDX-License-Identifier: GPL-2.0-only
/* Kinds of processes, their addresses, groups, terminals and orphans. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "executed.h"
#include "semantics.h"

/* ---- clone ---------------------------------------------------------------- */

/* Of linux/sched.h, which does not go with sched.h. */
struct clone_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static pid_t clone_with(struct clone_args *arguments)
{
	return (pid_t)syscall(SYS_clone3, arguments, sizeof(*arguments));
}

static void check_numbers(void)
{
	int *ids = map(PAGE, MAP_SHARED), fd = -1;
	struct clone_args arguments = {
		.flags = CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID,
		.pidfd = (uint64_t)&fd, .parent_tid = (uint64_t)&ids[0],
		.child_tid = (uint64_t)&ids[1], .exit_signal = SIGUSR1,
	};
	struct pollfd ended = { .events = POLLIN };
	siginfo_t info;
	pid_t child;

	counted = 0;
	set_handler(SIGUSR1, count_signal, SA_RESTART);
	child = clone_with(&arguments);
	CHECK(child >= 0);
	if (!child) {
		CHECK(ids[1] == getpid());
		for (;;)
			pause();
	}
	CHECK(ids[0] == child && fd >= 0);
	ended.fd = fd;
	CHECK(poll(&ended, 1, 0) == 0);
	wait_until_asleep(child);
	CHECK(!syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
	while (poll(&ended, 1, -1) != 1)
		;
	CHECK(waitpid(child, NULL, WNOHANG) == -1 && errno == ECHILD);
	CHECK(!waitid(P_PIDFD, (id_t)fd, &info, WEXITED | __WALL) && info.si_status == SIGTERM);
	CHECK_EQUAL(counted, 1);
}

static int share(void *argument)
{
	*(volatile int *)argument = dup2(0, 77);
	return 0;
}

/* A process with its parent's memory and files, but not a thread. */
static void check_sharing(void)
{
	struct clone_args arguments = { .flags = CLONE_SIGHAND, .exit_signal = SIGCHLD };
	char *stack = map(16 * PAGE, MAP_PRIVATE);
	volatile int word = 0;

	wait_for_success(clone(share, stack + 16 * PAGE, CLONE_VM | CLONE_FILES | SIGCHLD,
			       (void *)&word));
	CHECK(word == 77 && !close(77));
	CHECK(clone_with(&arguments) == -1 && errno == EINVAL);
	arguments.flags = CLONE_THREAD;
	CHECK(clone_with(&arguments) == -1 && errno == EINVAL);
	arguments.flags = 0;
	arguments.stack = 8;
	CHECK(clone_with(&arguments) == -1 && errno == EINVAL);
}

static void check_cleared_word(void)
{
	volatile int *word = map(PAGE, MAP_SHARED);
	struct clone_args arguments = {
		.flags = CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID, .exit_signal = SIGCHLD,
		.child_tid = (uint64_t)word,
	};
	pid_t child = clone_with(&arguments);

	CHECK(child >= 0);
	/* Linux clears it only where somebody else has the memory. */
	if (!child)
		_exit(*word == getpid() ? 0 : 1);
	wait_for_success(child);
	CHECK_EQUAL(*word, child);
}

void clones(void)
{
	check_numbers();
	check_sharing();
	check_cleared_word();
}

/* ---- addresses ------------------------------------------------------------ */

static void addresses_of(char *text, size_t size, unsigned long persona)
{
	char *words[] = { "semantics", EXECUTED, "addresses", NULL };
	ssize_t got, all = 0;
	pid_t child;
	int ends[2];

	CHECK(!pipe(ends));
	child = fork_or_die();
	if (!child) {
		CHECK(dup2(ends[1], 1) == 1 && personality(persona) != -1);
		execve(self, words, environ);
		_exit(1);
	}
	CHECK(!close(ends[1]));
	while ((got = read(ends[0], text + all, size - 1 - (size_t)all)) > 0)
		all += got;
	text[all] = '\0';
	CHECK(all > 20 && !close(ends[0]));
	wait_for_success(child);
}

static void check_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, before = 0;
	char line[512], right[5];
	bool has_stack = false, has_heap = false, has_code = false;

	CHECK(maps && malloc(100));
	while (fgets(line, sizeof(line), maps)) {
		CHECK(sscanf(line, "%lx-%lx %4s", &start, &end, right) == 3);
		CHECK(start >= before && end > start);
		has_stack |= strstr(line, "[stack]") && !strcmp(right, "rw-p");
		has_heap |= strstr(line, "[heap]") && !strcmp(right, "rw-p");
		has_code |= !strcmp(right, "r-xp") && start <= (unsigned long)check_maps &&
			    (unsigned long)check_maps < end;
		before = end;
	}
	CHECK(has_stack && has_heap && has_code && !fclose(maps));
}

void layout(void)
{
	char first[256], second[256];
	unsigned long top = (unsigned long)&first;

	addresses_of(first, sizeof(first), ADDR_NO_RANDOMIZE);
	addresses_of(second, sizeof(second), ADDR_NO_RANDOMIZE);
	CHECK(!strcmp(first, second));
	addresses_of(first, sizeof(first), 0);
	addresses_of(second, sizeof(second), 0);
	CHECK(strcmp(first, second));
	CHECK(top > 0x7f0000000000 && top < 0x800000000000);
	check_maps();
	CHECK(sbrk(0) != (void *)-1 && sbrk(100000) != (void *)-1);
	memset((char *)sbrk(0) - 100000, 1, 100000);
	CHECK(sbrk(-100000) != (void *)-1);
}

/* ---- terminals ------------------------------------------------------------ */

static volatile int last_signal;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	last_signal = number;
}

static void use_terminal(const char *path, int ready)
{
	int fd;

	CHECK(setsid() == getpid());
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && tcgetpgrp(fd) == getpid() && tcgetsid(fd) == getpid());
	set_handler(SIGINT, on_signal, 0);
	set_handler(SIGTSTP, on_signal, 0);
	set_handler(SIGHUP, on_signal, 0);
	set_handler(SIGWINCH, on_signal, 0);
	CHECK(write(ready, "x", 1) == 1);
	for (;;) {
		char text[16] = "";

		last_signal = 0;
		if (read(fd, text, sizeof(text)) > 0 && text[0] == 'q')
			_exit(0);
		CHECK(dprintf(ready, "%d", last_signal) > 0);
	}
}

static void expect(int fd, const char *wanted)
{
	char text[32] = "";
	ssize_t all = 0;

	while (all < (ssize_t)strlen(wanted)) {
		ssize_t got = read(fd, text + all, sizeof(text) - 1 - (size_t)all);

		CHECK(got > 0);
		all += got;
	}
	CHECK(!strcmp(text, wanted));
}

/* A process in the background that reads is stopped. */
static void check_background(int fd)
{
	pid_t child = fork_or_die();
	int status;
	char byte;

	if (!child) {
		CHECK(!setpgid(0, 0));
		_exit(read(fd, &byte, 1) == 1);
	}
	CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	printf("  in the background: signal %d\n", WSTOPSIG(status));
	CHECK(!kill(child, SIGKILL));
	wait_for_signal(child, SIGKILL);
}

static void check_job_control(const char *path)
{
	pid_t child = fork_or_die();
	int fd;

	if (!child) {
		CHECK(setsid() == getpid());
		fd = open(path, O_RDWR);
		CHECK(fd >= 0);
		check_background(fd);
		fflush(stdout);
		_exit(0);
	}
	wait_for_success(child);
}

void terminals(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), ends[2], other;
	struct winsize size = { 24, 80, 0, 0 };
	char path[64];
	pid_t child;

	CHECK(master >= 0 && !grantpt(master) && !unlockpt(master) && !pipe(ends));
	CHECK(!ptsname_r(master, path, sizeof(path)));
	child = fork_or_die();
	if (!child)
		use_terminal(path, ends[1]);
	expect(ends[0], "x");
	wait_until_asleep(child);
	CHECK(write(master, "\003", 1) == 1);
	expect(ends[0], "2");
	wait_until_asleep(child);
	CHECK(write(master, "\032", 1) == 1);
	expect(ends[0], "20");
	wait_until_asleep(child);
	CHECK(!ioctl(master, TIOCSWINSZ, &size));
	expect(ends[0], "28");
	wait_until_asleep(child);
	CHECK(write(master, "quit\n", 5) == 5);
	wait_for_success(child);
	CHECK(!close(master));
	other = posix_openpt(O_RDWR | O_NOCTTY);
	CHECK(other >= 0 && !grantpt(other) && !unlockpt(other));
	CHECK(!ptsname_r(other, path, sizeof(path)));
	fflush(stdout);
	check_job_control(path);
}

/* ---- orphans -------------------------------------------------------------- */

static void leave_orphan(void)
{
	if (!fork_or_die()) {
		usleep(5000);
		_exit(6);
	}
	_exit(0);
}

void orphans(void)
{
	pid_t child, orphan;
	int ends[2], status;
	char byte;

	CHECK(!pipe(ends) && !prctl(PR_SET_CHILD_SUBREAPER, 1));
	child = fork_or_die();
	if (!child)
		leave_orphan();
	wait_for_success(child);
	/* It has become ours. */
	orphan = waitpid(-1, &status, 0);
	CHECK(orphan > 0 && orphan != child && WEXITSTATUS(status) == 6);
	child = fork_or_die();
	if (!child) {
		orphan = fork_or_die();
		if (!orphan) {
			CHECK(!prctl(PR_SET_PDEATHSIG, SIGUSR1));
			CHECK(write(ends[1], "x", 1) == 1);
			for (;;)
				pause();
		}
		CHECK(read(ends[0], &byte, 1) == 1);
		_exit(0);
	}
	wait_for_success(child);
	orphan = waitpid(-1, &status, 0);
	CHECK(orphan > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
}
