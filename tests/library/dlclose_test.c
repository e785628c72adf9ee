// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that closes the shared library while its hooks are in the process: those for signals,
 * for fork() and for the end of threads. The library stays. Argument: its path.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/outboard.h>
#include <outboard/syscall.h>

#include "check.h"

static int (*boot)(const struct ob_config *config);
static int (*halt)(void);
static long (*call)(long number, ...);
static pthread_barrier_t both;

static void *function(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(found);
	return found;
}

static void *caller(void *unused)
{
	CHECK(call(OB_SYS_getppid) >= 0);
	pthread_barrier_wait(&both);
	/* The main thread closes the library. */
	pthread_barrier_wait(&both);
	return unused;
}

int main(int count, char **arguments)
{
	void *library = dlopen(arguments[count - 1], RTLD_NOW);
	pthread_t thread;
	pid_t child;
	int status;

	CHECK(library);
	boot = (int (*)(const struct ob_config *))function(library, "ob_boot");
	halt = (int (*)(void))function(library, "ob_halt");
	call = (long (*)(long, ...))function(library, "ob_syscall");
	CHECK_EQUAL(boot(NULL), 0);
	CHECK(!pthread_barrier_init(&both, NULL, 2));
	CHECK(!pthread_create(&thread, NULL, caller, NULL));
	pthread_barrier_wait(&both);
	CHECK_EQUAL(halt(), 0);
	CHECK_EQUAL(dlclose(library), 0);
	pthread_barrier_wait(&both);
	CHECK(!pthread_join(thread, NULL));
	raise(SIGURG);
	child = fork();
	if (!child)
		_exit(0);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(boot(NULL), 0);
	CHECK(call(OB_SYS_getppid) >= 0);
	CHECK_EQUAL(halt(), 0);
	return 0;
}
