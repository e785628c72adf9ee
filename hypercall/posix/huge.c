// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file in huge pages, for the memory that RAM grows by: one page fault brings 2 MB instead of 4
 * KB.
 *
 * By default the host gives a memfd no huge pages. A tmpfs that is mounted with huge=always has
 * them, and any user may mount one in user and mount namespaces of its own. So a child process
 * enters such namespaces, creates an unnamed file there, and exits. The descriptor keeps file and
 * tmpfs alive. The child shares memory and descriptors with this process, which waits for it:
 * nothing is copied, and no SIGCHLD arrives. If the host refuses a step, there is no such file, and
 * RAM stays in the memfd.
 *
 *   none -> making -> made -> taken
 *                  \-> refused
 *
 * This takes some tenths of a millisecond. While a kernel runs, a thread does it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "raw.h"

enum { NONE, MAKING, MADE, TAKEN, REFUSED };

/* What the child gets, and what it returns. */
struct child {
	char users[32];
	char groups[32];
	int fd;
};

static bool write_setting(const char *name, const char *text)
{
	ssize_t length = (ssize_t)strlen(text);
	int fd = raw_open(name, O_WRONLY | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return false;
	done = raw_write(fd, text, (size_t)length) == length;
	raw_close(fd);
	return done;
}

/* Creating files needs a user that the namespace knows. */
static bool become_known(const struct child *child)
{
	return write_setting("/proc/self/uid_map", child->users) &&
	       write_setting("/proc/self/setgroups", "deny") &&
	       write_setting("/proc/self/gid_map", child->groups);
}

static bool configure(int context, unsigned int command, const char *key, const char *value)
{
	return !syscall(SYS_fsconfig, context, command, key, value, 0);
}

/* The root of a new tmpfs without a size limit: RAM has its own. */
static int mount_tmpfs(void)
{
	int context = ob_platform_descriptor((int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC));
	int root = -1;

	if (context < 0)
		return -1;
	if (configure(context, FSCONFIG_SET_STRING, "huge", "always") &&
	    configure(context, FSCONFIG_SET_STRING, "size", "0") &&
	    configure(context, FSCONFIG_CMD_CREATE, NULL, NULL))
		root = ob_platform_descriptor((int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
							   0));
	raw_close(context);
	return root;
}

static int child_main(void *pointer)
{
	struct child *child = pointer;
	int root;

	if (!become_known(child))
		return 1;
	root = mount_tmpfs();
	if (root < 0)
		return 1;
	child->fd = raw_openat(root, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	raw_close(root);
	return 0;
}

/* Returns when the child has ended. */
static void run_child(struct ob_host *host, struct child *child)
{
	char *stack = host->huge.stack;
	sigset_t all, before;
	int pid;

	/* The child has the handlers of this process, and must not run them. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pid = clone(child_main, stack + sizeof(host->huge.stack),
		    CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWUSER | CLONE_NEWNS, child);
	if (pid > 0)
		raw_waitpid(pid, NULL, __WALL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Components are in RAM, and some hosts run no code from files of a tmpfs. */
static bool can_run_code(int fd)
{
	void *page;

	if (ftruncate(fd, PAGE_BYTES))
		return false;
	page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return false;
	munmap(page, PAGE_BYTES);
	return true;
}

/* A seccomp filter may end the process for the system calls that make() tries. */
static bool is_filtered(void)
{
	return prctl(PR_GET_SECCOMP) != 0;
}

static void make(void *pointer)
{
	struct ob_host *host = pointer;
	struct child child = { .fd = -1 };

	snprintf(child.users, sizeof(child.users), "%u %u 1", geteuid(), geteuid());
	snprintf(child.groups, sizeof(child.groups), "%u %u 1", getegid(), getegid());
	if (!is_filtered())
		run_child(host, &child);
	if (child.fd >= 0 && !can_run_code(child.fd)) {
		raw_close(child.fd);
		child.fd = -1;
	}
	host->huge.fd = child.fd;
	__atomic_store_n(&host->huge.state, child.fd >= 0 ? MADE : REFUSED, __ATOMIC_RELEASE);
}

/* True: the caller must make the file. */
static bool begin(struct ob_host *host)
{
	uint32_t none = NONE;

	return __atomic_compare_exchange_n(&host->huge.state, &none, MAKING, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void ob_posix_huge_prepare(struct ob_host *host)
{
	if (begin(host))
		make(host);
}

int ob_posix_huge_fd(struct ob_host *host)
{
	return __atomic_load_n(&host->huge.state, __ATOMIC_ACQUIRE) == MADE ? host->huge.fd : -1;
}

int ob_posix_huge_take(struct ob_host *host)
{
	if (__atomic_load_n(&host->huge.is_hidden, __ATOMIC_ACQUIRE))
		return -1;
	if (begin(host)) {
		host->huge.has_thread = !ob_host_thread_create(host, make, host, "huge",
							       &host->huge.thread);
		if (!host->huge.has_thread)
			__atomic_store_n(&host->huge.state, REFUSED, __ATOMIC_RELEASE);
	}
	if (__atomic_load_n(&host->huge.state, __ATOMIC_ACQUIRE) != MADE)
		return -1;
	host->huge.state = TAKEN;
	return host->huge.fd;
}

void ob_posix_huge_release(struct ob_host *host)
{
	bool is_over = !host->huge.has_thread ||
		       ob_platform_thread_join(host, host->huge.thread);

	host->huge.has_thread = false;
	/* A late thread finds its place as it was. */
	if (is_over)
		ob_posix_huge_forked(host);
}

void ob_posix_huge_forked(struct ob_host *host)
{
	if (host->huge.state == MADE)
		raw_close(host->huge.fd);
	host->huge.state = NONE;
	host->huge.has_thread = false;
}
