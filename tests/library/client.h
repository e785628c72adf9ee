/* SPDX-License-Identifier: GPL-2.0-only */
/* Code that the programs that boot a kernel share. Link with client.c. */
#ifndef OUTBOARD_TESTS_CLIENT_H
#define OUTBOARD_TESTS_CLIENT_H

#include <stdint.h>

#include <outboard/outboard.h>
#include <outboard/syscall.h>
#include <outboard/syscalls.h>

#include "check.h"

/* A system call that succeeds: its error is shown otherwise. Gives its result. */
#define OK(call)                                                                     \
	({                                                                           \
		long ok_ = (long)(call);                                             \
		if (ok_ == -1) {                                                     \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #call); \
			_Exit(1);                                                    \
		}                                                                    \
		ok_;                                                                 \
	})

/*
 * Boots with so many vCPUs (0: the default) and 512 MB, or ends the program. From the environment:
 * SNAPSHOTS, a directory, COMPONENTS, COMMAND_LINE and SPARE_INTERFACES, as struct ob_config has
 * them.
 */
void client_boot(unsigned int vcpus);

/* Adds the image as a disk and mounts it on a new directory. Returns the disk. */
int client_mount(const char *image, const char *type, const char *directory);

/* Mounts a new tmpfs on a new directory. */
void client_tmpfs(const char *directory);

/* A page that nobody may access, preceded by a readable and writable one. Returns the border. */
char *client_border(void);

/*
 * Before the kernel is booted: the library hands on the faults that are not its own, for
 * client_can_read and client_can_write.
 */
void client_catch_faults(void);

/* Whether the byte can be read; and written, which leaves what it has. One thread at a time. */
int client_can_read(volatile char *address);
int client_can_write(volatile char *address);

/* Loads the module in a file of the host. */
void client_load(const char *path, const char *parameters);

/* Bytes of memory that the process has taken from the host. */
uint64_t client_resident_bytes(void);

/* Waits until there is a task of that number (0: not yet) that sleeps in a call. Mounts /proc. */
void client_wait_until_asleep(const volatile long *number);

/* Tasks that the kernel has. */
long client_task_count(void);

/*
 * Wait until there are at most so many tasks, or so many bytes are taken: what threads had goes a
 * moment after they end.
 */
void client_wait_for_tasks(long most);
void client_wait_for_memory(uint64_t most);

/* The host's resources that the process has: open files, threads, mappings, and bytes of memory. */
struct client_belongings {
	long descriptors, threads, mappings, bytes;
};
struct client_belongings client_belongings(void);

/* Checks that the process has as many files and threads as before. */
void client_check_files_and_threads(struct client_belongings before);

/* As well, that it has hardly more mappings and memory. */
void client_check_nothing_is_left(struct client_belongings before);

/* The path of the one snapshot in the directory. */
void client_find_snapshot(const char *directory, char *path, size_t room);

#endif
