/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes of their own in tests: threads that claim tasks, and what becomes of them. */
#ifndef OUTBOARD_TESTS_ACTOR_H
#define OUTBOARD_TESTS_ACTOR_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

/* The kernel's sigaction. */
struct kernel_action {
	void (*handler)(int number);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* A thread that claims a task and runs a function as that. */
struct actor {
	int task;			/* number */
	void (*act)(struct actor *actor);
	int fd;				/* for the function */
	pthread_t thread;
	sem_t claimed, go;
	atomic_int value;
};

static inline void *act(void *argument)
{
	struct actor *actor = argument;

	CHECK_EQUAL(ob_process_claim(actor->task), 0);
	sem_post(&actor->claimed);
	actor->act(actor);
	return NULL;
}

static inline void begin(struct actor *actor, int task, void (*function)(struct actor *actor),
			 int fd)
{
	*actor = (struct actor){ .task = task, .act = function, .fd = fd };
	sem_init(&actor->claimed, 0, 0);
	sem_init(&actor->go, 0, 0);
	CHECK(!pthread_create(&actor->thread, NULL, act, actor));
	CHECK(!sem_wait(&actor->claimed));
}

static inline void end(struct actor *actor)
{
	CHECK(!pthread_join(actor->thread, NULL));
}

static inline int new_process(void)
{
	int number = ob_process_new();

	CHECK(number > 1);
	return number;
}

static inline int fork_child(void)
{
	int number, pid = ob_process_clone(SIGCHLD, &number);

	CHECK(pid > 1 && number == pid);
	return number;
}

/* The calling thread becomes that of a new process, until ob_process_leave. */
static inline void become_process(void)
{
	int task = new_process();

	CHECK_EQUAL(ob_process_leave(), 0);
	CHECK_EQUAL(ob_process_claim(task), 0);
}

static inline int wait_for(int pid, int flags)
{
	int status = 0;

	CHECK_EQUAL(OK(ob_sys_wait4(pid, &status, flags, NULL)), pid);
	return status;
}

static inline void set_handler(int number, void (*handler)(int))
{
	struct kernel_action action = { .handler = handler };

	OK(ob_sys_rt_sigaction(number, (void *)&action, NULL, 8));
}

/* The thread has lost its task: it cannot act among the local clients by chance. */
static inline void check_ended(void)
{
	CHECK(ob_sys_getpid() == -1 && errno == ESRCH);
	CHECK(ob_sys_access("/", F_OK) == -1 && errno == ESRCH);
	CHECK_EQUAL(ob_process_leave(), 0);
	CHECK(OK(ob_sys_getpid()) > 0);
}

/* Until nobody has the task, not even as a zombie. */
static inline void wait_until_gone(int task)
{
	for (int i = 0; ob_sys_kill(task, 0) != -1; i++) {
		CHECK(i < 10000);
		usleep(1000);
	}
	CHECK_EQUAL(errno, ESRCH);
}

#endif
