// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls of a thread that has only so many bytes of free stack: small_stack_test BYTES IMAGE...
 *
 * Each image is named by its type and path, as in xfs:disk.img. The thread mounts it, writes and
 * reads files, and talks to itself by TCP. Below its stack is a page that nobody may access.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"

#define STACK_BYTES (256ul << 10)
#define PAGE 4096
#define FILE_BYTES (1u << 20)

static size_t wanted;
static char *stack;
static char **images;
static char data[FILE_BYTES], got[FILE_BYTES];

static void use_files(const char *directory)
{
	char path[64];
	int fd;

	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "%s/%d", directory, i);
		fd = (int)OK(ob_sys_open(path, O_RDWR | O_CREAT, 0644));
		CHECK_EQUAL(OK(ob_sys_write((unsigned int)fd, data, sizeof(data))), sizeof(data));
		OK(ob_sys_fsetxattr(fd, "user.name", data, 200, 0));
		OK(ob_sys_fsync((unsigned int)fd));
		OK(ob_sys_close((unsigned int)fd));
		fd = (int)OK(ob_sys_open(path, O_RDONLY | O_DIRECT, 0));
		CHECK_EQUAL(OK(ob_sys_read((unsigned int)fd, got, sizeof(got))), sizeof(got));
		CHECK(!memcmp(got, data, sizeof(got)));
		OK(ob_sys_close((unsigned int)fd));
		if (i % 2)
			OK(ob_sys_unlink(path));
	}
}

static void use_sockets(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(80),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int listener = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	int client = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0)), server;

	OK(ob_sys_bind(listener, (void *)&address, sizeof(address)));
	OK(ob_sys_listen(listener, 1));
	OK(ob_sys_connect(client, (void *)&address, sizeof(address)));
	server = (int)OK(ob_sys_accept(listener, NULL, NULL));
	for (int i = 0; i < 100; i++) {
		CHECK_EQUAL(OK(ob_sys_write((unsigned int)client, data, 10000)), 10000);
		CHECK_EQUAL(OK(ob_sys_recvfrom(server, got, 10000, MSG_WAITALL, NULL, NULL)),
			    10000);
	}
	OK(ob_sys_close((unsigned int)server));
	OK(ob_sys_close((unsigned int)client));
	OK(ob_sys_close((unsigned int)listener));
}

static __attribute__((noinline)) void work(void)
{
	for (int i = 0; images[i]; i++) {
		char directory[16], *path = strchr(images[i], ':');

		CHECK(path);
		*path++ = 0;
		snprintf(directory, sizeof(directory), "/disk%d", i);
		client_mount(path, images[i], directory);
		use_files(directory);
		OK(ob_sys_umount2(directory, 0));
	}
	use_sockets();
}

static void *thread(void *unused)
{
	size_t free_bytes = (size_t)((char *)__builtin_frame_address(0) - stack);
	/* Occupies what there is beyond the wanted bytes. */
	volatile char *taken = alloca(free_bytes - wanted);

	taken[0] = 0;
	work();
	return unused;
}

int main(int count, char **arguments)
{
	pthread_attr_t attributes;
	pthread_t number;

	CHECK(count > 2);
	wanted = strtoul(arguments[1], NULL, 10);
	CHECK(wanted < STACK_BYTES / 2);
	images = arguments + 2;
	memset(data, 'x', sizeof(data));
	stack = mmap(NULL, STACK_BYTES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != MAP_FAILED);
	stack += PAGE;
	CHECK(!mprotect(stack, STACK_BYTES, PROT_READ | PROT_WRITE));
	client_boot(2);
	CHECK_EQUAL(ob_net_configure("lo", "up"), 0);
	CHECK(!pthread_attr_init(&attributes) &&
	      !pthread_attr_setstack(&attributes, stack, STACK_BYTES));
	CHECK(!pthread_create(&number, &attributes, thread, NULL));
	CHECK(!pthread_join(number, NULL));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
