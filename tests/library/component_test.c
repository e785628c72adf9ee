// SPDX-License-Identifier: GPL-2.0-only
/*
 * Components are loaded when they are needed, or asked for: component_test WHAT [ARGUMENT...]
 *
 *   mount IMAGE TYPE        mounting loads the file system; it is in use, and unloaded after
 *   sockets                 opening a socket loads the protocol
 *   names                   loading by name and alias, parameters, errors, the list
 *   nodes                   opening a device node loads its driver
 *   own HELLO.ko            a module of the program's own
 *   refused FILE WORDS      a file that is none, and the error's text
 *   race                    threads that want the same one at the same time
 *   user                    a client without rights has Linux load what it needs
 *   chroot                  a client with another root directory
 *   off                     an empty modprobe_path: nothing is loaded on demand, but what is
 *                           asked for
 *   all                     every component, one after the other
 *   damaged                 the archive is damaged somewhere: nothing may crash, whatever fails
 *   none WORDS              there is no archive, and the error's text
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

struct search {
	const char *name;
	struct ob_component_info found;		/* size 0: not found */
	unsigned int count;
	unsigned int loaded;
	int error;
};

static int look(void *context, const struct ob_component_info *info)
{
	struct search *search = context;

	CHECK_EQUAL(info->size, sizeof(*info));
	search->count++;
	search->loaded += info->is_loaded != 0;
	if (!strcmp(info->name, search->name))
		search->found = *info;
	return 0;
}

static struct search find(const char *name)
{
	struct search search = { .name = name };

	search.error = ob_component_list(look, &search);
	return search;
}

static int is_loaded(const char *name)
{
	return (int)find(name).found.is_loaded;
}

static void mounting(const char *image, const char *type)
{
	CHECK_EQUAL(find(type).loaded, 0);
	client_mount(image, type, "/image");
	CHECK(is_loaded(type));
	CHECK(find(type).found.memory > 0);
	CHECK(find(type).found.users > 0);
	CHECK(!is_loaded("minix"));
	CHECK_EQUAL(ob_component_unload(type), -EBUSY);
	CHECK(strstr(ob_component_error(), "in use"));
	OK(ob_sys_umount2("/image", 0));
	CHECK_EQUAL(ob_component_unload(type), 0);
	CHECK(!is_loaded(type));
	CHECK_EQUAL(ob_component_unload(type), -ENOENT);
}

static void sockets(void)
{
	CHECK(!is_loaded("sctp"));
	OK(ob_sys_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	CHECK(is_loaded("sctp"));
	CHECK(!is_loaded("af_packet"));
	OK(ob_sys_socket(AF_PACKET, SOCK_RAW, 0));
	CHECK(is_loaded("af_packet"));
	CHECK_EQUAL(ob_sys_socket(AF_X25, SOCK_SEQPACKET, 0), -1);
	CHECK_EQUAL(errno, EAFNOSUPPORT);
}

static void names(void)
{
	CHECK_EQUAL(ob_component_load("xfs", NULL), 0);
	CHECK_EQUAL(ob_component_load("xfs", NULL), 0);
	CHECK(is_loaded("xfs") && is_loaded("libcrc32c"));
	CHECK_EQUAL(ob_component_load("fs-minix", NULL), 0);
	CHECK(is_loaded("minix"));
	CHECK(!*ob_component_error());
	CHECK_EQUAL(ob_component_load("no-such", NULL), -ENOENT);
	CHECK(strstr(ob_component_error(), "no-such: no such component"));
	CHECK_EQUAL(ob_component_load(NULL, NULL), -EINVAL);
	CHECK_EQUAL(ob_component_load("loop", "max_loop=3 max_part=1"), 0);
	CHECK(!ob_sys_faccessat(AT_FDCWD, "/dev/loop2", F_OK));
	CHECK(ob_sys_faccessat(AT_FDCWD, "/dev/loop3", F_OK) == -1);
	CHECK_EQUAL(ob_component_load("dummy", "numdummies=not-a-number"), -EINVAL);
	CHECK(*ob_component_error());
	CHECK(!is_loaded("dummy"));
}

static void nodes(void)
{
	CHECK(!is_loaded("loop") && !is_loaded("tun") && !is_loaded("btrfs"));
	OK(ob_sys_openat(AT_FDCWD, "/dev/loop-control", O_RDWR, 0));
	CHECK(is_loaded("loop"));
	OK(ob_sys_openat(AT_FDCWD, "/dev/net/tun", O_RDWR, 0));
	CHECK(is_loaded("tun"));
	OK(ob_sys_openat(AT_FDCWD, "/dev/btrfs-control", O_RDONLY, 0));
	CHECK(is_loaded("btrfs"));
	CHECK(!is_loaded("fuse") && !is_loaded("dm_mod"));
	OK(ob_sys_openat(AT_FDCWD, "/dev/fuse", O_RDWR, 0));
	CHECK(is_loaded("fuse"));
	OK(ob_sys_openat(AT_FDCWD, "/dev/mapper/control", O_RDWR, 0));
	CHECK(is_loaded("dm_mod"));
}

static void own(const char *path)
{
	CHECK_EQUAL(ob_component_load_file(path, "whom=tester"), 0);
	CHECK(is_loaded("hello"));
	CHECK_EQUAL(find("hello").found.file_size, 0);
	CHECK_EQUAL(ob_component_load_file(path, NULL), -EEXIST);
	CHECK(strstr(ob_component_error(), "already loaded"));
	CHECK_EQUAL(ob_component_unload("hello"), 0);
	CHECK_EQUAL(ob_component_load_file(path, NULL), 0);
}

static void refused(const char *path, const char *words)
{
	CHECK(ob_component_load_file(path, NULL) < 0);
	if (!strstr(ob_component_error(), words)) {
		fprintf(stderr, "not \"%s\" in: %s\n", words, ob_component_error());
		_Exit(1);
	}
}

static pthread_barrier_t start;

static void *want(void *name)
{
	ob_sys_getppid();
	pthread_barrier_wait(&start);
	CHECK_EQUAL(ob_component_load(name, NULL), 0);
	return NULL;
}

static void race(void)
{
	static const char *const wanted[] = { "xfs", "f2fs", "xfs",   "btrfs",
					      "xfs", "f2fs", "btrfs", "fs-btrfs" };
	pthread_t threads[8];

	pthread_barrier_init(&start, NULL, 8);
	for (int i = 0; i < 8; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, want, (void *)wanted[i]), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	CHECK(is_loaded("xfs") && is_loaded("f2fs") && is_loaded("btrfs"));
}

static void user(void)
{
	OK(ob_sys_setresuid(1000, 1000, 1000));
	OK(ob_sys_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	CHECK(is_loaded("sctp"));
	CHECK(ob_component_unload("sctp") < 0);
}

static void want_sctp(void)
{
	OK(ob_sys_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP));
	CHECK(is_loaded("sctp"));
}

static void in_chroot(void)
{
	OK(ob_sys_mkdir("/jail", 0755));
	OK(ob_sys_chroot("/jail"));
	OK(ob_sys_chdir("/"));
	want_sctp();
}

static void off(void)
{
	int file;

	OK(ob_sys_mkdir("/proc", 0555) == -1 && errno != EEXIST ? -1 : 0);
	if (ob_sys_faccessat(AT_FDCWD, "/proc/sys", F_OK) == -1)
		OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	file = (int)OK(ob_sys_openat(AT_FDCWD, "/proc/sys/kernel/modprobe", O_WRONLY, 0));
	CHECK_EQUAL(ob_sys_write(file, "\n", 1), 1);
	OK(ob_sys_close(file));
	CHECK_EQUAL(ob_sys_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), -1);
	CHECK_EQUAL(errno, EPROTONOSUPPORT);
	CHECK_EQUAL(ob_component_load("sctp", NULL), 0);
	want_sctp();
}

struct tally {
	const char *names[1024];
	int count;
};

static int note(void *context, const struct ob_component_info *info)
{
	struct tally *tally = context;

	if (info->file_size && tally->count < 1024)
		tally->names[tally->count++] = info->name;
	return 0;
}

static struct tally every_name(void)
{
	struct tally tally = { .count = 0 };

	ob_component_list(note, &tally);
	return tally;
}

/* Drivers of what this processor lacks say ENODEV; anything else is a mistake. */
static void all(void)
{
	struct tally tally = every_name();

	for (int i = 0; i < tally.count; i++) {
		int error = ob_component_load(tally.names[i], NULL);

		if (error && error != -ENODEV) {
			fprintf(stderr, "%s\n", ob_component_error());
			_Exit(1);
		}
	}
}

static void damaged(void)
{
	struct tally tally = every_name();

	for (int i = 0; i < 3 && i < tally.count; i++)
		ob_component_load(tally.names[tally.count / (i + 1) - 1], NULL);
	ob_component_load("xfs", NULL);
	ob_sys_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
}

static void none(const char *words)
{
	CHECK_EQUAL(find("xfs").error, -ENOENT);
	CHECK(strstr(ob_component_error(), words));
	CHECK_EQUAL(find("xfs").count, 0);
	CHECK_EQUAL(ob_component_load("xfs", NULL), -ENOENT);
	CHECK(strstr(ob_component_error(), words));
	CHECK_EQUAL(ob_sys_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP), -1);
	CHECK_EQUAL(errno, EPROTONOSUPPORT);
}

int main(int count, char **arguments)
{
	const char *what;

	CHECK(count >= 2);
	what = arguments[1];
	if (strcmp(what, "damaged"))
		CHECK((find("xfs").count > 50) == !!strcmp(what, "none"));
	CHECK_EQUAL(ob_component_load("xfs", NULL), -ENODEV);
	client_boot(2);
	if (!strcmp(what, "mount"))
		mounting(arguments[2], arguments[3]);
	else if (!strcmp(what, "sockets"))
		sockets();
	else if (!strcmp(what, "names"))
		names();
	else if (!strcmp(what, "nodes"))
		nodes();
	else if (!strcmp(what, "own"))
		own(arguments[2]);
	else if (!strcmp(what, "refused"))
		refused(arguments[2], arguments[3]);
	else if (!strcmp(what, "race"))
		race();
	else if (!strcmp(what, "user"))
		user();
	else if (!strcmp(what, "chroot"))
		in_chroot();
	else if (!strcmp(what, "off"))
		off();
	else if (!strcmp(what, "all"))
		all();
	else if (!strcmp(what, "damaged"))
		damaged();
	else
		none(arguments[2]);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
