// SPDX-License-Identifier: GPL-2.0-only
/*
 * In a child of fork(), hooks that the program registered before the boot run before the library's.
 * What they map may be where the kernel's memory was: it stays.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define MB (1ul << 20)
#define COUNT 40

static char *mapped[COUNT];

static void map_much(void)
{
	for (int i = 0; i < COUNT; i++) {
		mapped[i] = mmap(NULL, 64 * MB, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		CHECK(mapped[i] != MAP_FAILED);
		mapped[i][0] = mapped[i][64 * MB - 1] = 'x';
	}
}

static void child(void)
{
	for (int i = 0; i < COUNT; i++)
		CHECK(mapped[i][0] == 'x' && mapped[i][64 * MB - 1] == 'x');
	client_boot(1);
	CHECK_EQUAL(ob_halt(), 0);
	for (int i = 0; i < COUNT; i++)
		CHECK(mapped[i][0] == 'x' && mapped[i][64 * MB - 1] == 'x');
	_exit(0);
}

int main(void)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 2048 * MB, .log_level = OB_LOG_DEFAULT,
	};
	int status;
	pid_t pid;

	CHECK(!pthread_atfork(NULL, NULL, map_much));
	CHECK_EQUAL(ob_boot(&config), 0);
	pid = fork();
	if (!pid)
		child();
	CHECK_EQUAL(waitpid(pid, &status, 0), pid);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
