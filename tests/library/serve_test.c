// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that serves its kernel (outboard/server.h), and does what its standard input says, one
 * command a line. Each is answered by one line: a number, and the text of an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/outboard.h>
#include <outboard/server.h>
#include <outboard/syscalls.h>

static struct ob_instance *current, *other;
static atomic_bool is_busy;
static pthread_t busy;

static void answer(long number, const char *text)
{
	printf("%ld %s\n", number, text);
	fflush(stdout);
}

/* The program uses its own kernel. Returns the number of rounds, or -1. */
static long use(const char *path, long rounds)
{
	char text[8] = "";
	int fd;

	for (long round = 0; round < rounds; round++) {
		fd = ob_sys_openat_on(current, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || ob_sys_write_on(current, fd, "own", 3) != 3 ||
		    ob_sys_pread64_on(current, fd, text, sizeof(text), 0) != 3 ||
		    memcmp(text, "own", 3) || ob_sys_close_on(current, fd))
			return -1;
	}
	return rounds;
}

static void *use_all_the_time(void *unused)
{
	(void)unused;
	while (is_busy)
		if (use("/busy", 10) < 0)
			return "failed";
	return NULL;
}

static void set_busy(bool wanted)
{
	void *failed = NULL;

	is_busy = wanted;
	if (wanted)
		pthread_create(&busy, NULL, use_all_the_time, NULL);
	else
		pthread_join(busy, &failed);
	answer(failed ? -1 : 0, "");
}

/* In a child: its parent serves, and it has no kernel before it boots one. */
static int child(const char *url)
{
	ob_serve_end_on(current);
	if (ob_serve_on(current, url, NULL) != -ENODEV || ob_halt_on(current) != -ENODEV)
		return 1;
	if (ob_boot_on(current, NULL))
		return 2;
	if (ob_serve_on(current, url, NULL))
		return 3;
	if (access(url + strlen("unix:"), F_OK))
		return 4;
	if (ob_halt_on(current))
		return 5;
	return access(url + strlen("unix:"), F_OK) ? 0 : 6;
}

static void make_child(const char *url)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		exit(child(url));
	waitpid(pid, &status, 0);
	answer(WIFEXITED(status) ? WEXITSTATUS(status) : -1, "");
}

/* A child that does nothing, and has the descriptors of its parent as long as the input lasts. */
static void leave_child(void)
{
	if (!fork()) {
		while (getchar() != EOF)
			;
		_exit(0);
	}
	answer(0, "");
}

static void serve(const char *url, const struct ob_serve_config *config)
{
	int result = ob_serve_on(current, url, config);

	answer(result, result < 0 ? ob_serve_error() : "");
}

/* Another user of the host: its number follows. */
static void serve_user(char *words)
{
	struct ob_serve_user user = { .inside_user = 7, .inside_group = 8 };
	struct ob_serve_config config = { .size = sizeof(config), .users = &user, .user_count = 1 };
	char *url = strchr(words, ' ');

	*url = '\0';
	user.user = (uint32_t)strtoul(words, NULL, 10);
	serve(url + 1, &config);
}

static void serve_wrong(const char *url)
{
	struct ob_serve_config config = { .size = 3 };

	if (ob_serve_on(current, url, &config) != -EINVAL)
		return answer(1, "");
	config = (struct ob_serve_config){ .size = sizeof(config), .user_count = 1 };
	if (ob_serve_on(current, url, &config) != -EINVAL)
		return answer(2, "");
	config = (struct ob_serve_config){ .size = sizeof(config), .flags = 1 };
	if (ob_serve_on(current, url, &config) != -EINVAL)
		return answer(3, "");
	if (ob_serve(NULL, NULL) != -EINVAL || ob_serve_on(NULL, url, NULL) != -EINVAL)
		return answer(4, "");
	answer(0, "");
}

/* To a file system that is small, empty and cannot be written. */
static int change_root(const char *path)
{
	if (ob_sys_mkdir(path, 0755) ||
	    ob_sys_mount("none", path, "tmpfs", MS_RDONLY, "size=64k") || ob_sys_chroot(path))
		return -errno;
	return 0;
}

static void obey(const char *command, char *rest)
{
	if (!strcmp(command, "boot"))
		answer(ob_boot_on(current, NULL), ob_boot_error_on(current));
	else if (!strcmp(command, "halt"))
		answer(ob_halt_on(current), "");
	else if (!strcmp(command, "serve"))
		serve(rest, NULL);
	else if (!strcmp(command, "serve-user"))
		serve_user(rest);
	else if (!strcmp(command, "serve-wrong"))
		serve_wrong(rest);
	else if (!strcmp(command, "chroot"))
		answer(change_root(rest), "");
	else if (!strcmp(command, "end"))
		ob_serve_end_on(current), answer(0, "");
	else if (!strcmp(command, "use"))
		answer(use(rest, 100), "");
	else if (!strcmp(command, "busy"))
		set_busy(!strcmp(rest, "on"));
	else if (!strcmp(command, "child"))
		make_child(rest);
	else if (!strcmp(command, "leave-child"))
		leave_child();
	else if (!strcmp(command, "other"))
		answer(ob_instance_new(&other), ""), current = other;
	else
		answer(-1, "no such command");
}

int main(void)
{
	char line[4096];

	current = ob_instance_default();
	while (fgets(line, sizeof(line), stdin)) {
		char *rest = line + strcspn(line, " \n");

		line[strcspn(line, "\n")] = '\0';
		if (*rest)
			*rest++ = '\0';
		obey(line, rest);
	}
	return 0;
}
