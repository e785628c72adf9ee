// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes of their own (ob_process_*): what they have to themselves, how they are copied,
 * replaced, stopped, killed and reaped, and what a halt does with them. The argument is the number
 * of vCPUs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"
#include "client.h"

#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

/* ---- what it has to itself ---- */

static void use_own(struct actor *actor)
{
	char byte;

	CHECK(OK(ob_sys_getpid()) == actor->task && OK(ob_sys_getppid()) == 1);
	CHECK_EQUAL(ob_process_claim(actor->task), -EBUSY);
	CHECK(ob_sys_fcntl(actor->fd, F_GETFD, 0) == -1 && errno == EBADF);
	CHECK_EQUAL(OK(ob_sys_openat(AT_FDCWD, "/own", O_CREAT | O_RDWR, 0600)), 0);
	CHECK_EQUAL(ob_sys_read(0, &byte, 1), 0);
	OK(ob_sys_mkdir("/below", 0700));
	OK(ob_sys_chroot("/below"));
	OK(ob_sys_umask(077));
	OK(ob_sys_setresuid(1000, 1000, 1000));
	CHECK((long)ob_sys_mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -1 &&
	      errno == ENOMEM);
	CHECK(ob_sys_kill(1, 0) == -1 && errno == EPERM);
	CHECK_EQUAL(ob_process_leave(), 0);
	/* An ordinary client again. */
	CHECK(OK(ob_sys_getuid()) == 0 && OK(ob_sys_fcntl(actor->fd, F_GETFD, 0)) == 0);
	OK(ob_sys_access("/own", F_OK));
}

static void test_own(void)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/mine", O_CREAT | O_RDWR, 0600));
	int task = new_process();
	struct actor actor;

	CHECK_EQUAL(ob_process_clone(SIGCHLD, NULL), -EOPNOTSUPP);
	CHECK_EQUAL(ob_process_exec("x"), -EOPNOTSUPP);
	CHECK_EQUAL(ob_process_claim(task), -EBUSY);
	begin(&actor, task, use_own, fd);
	end(&actor);
	/* Process 1 reaps it. */
	wait_until_gone(task);
	OK(ob_sys_close(fd));
}

/* ---- copies ---- */

static void act_as_child(struct actor *actor)
{
	CHECK(!sem_wait(&actor->go));
	CHECK_EQUAL(OK(ob_sys_getppid()), actor->value);
	CHECK_EQUAL(OK(ob_sys_write(actor->fd, "child", 5)), 5);
	OK(ob_sys_close(actor->fd));
	CHECK_EQUAL(ob_sys_exit_group(7), 0);
	check_ended();
}

static void test_fork(void)
{
	struct actor child;
	int fd, task;

	become_process();
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/shared", O_CREAT | O_RDWR, 0600));
	OK(ob_sys_write(fd, "parent", 6));
	CHECK_EQUAL(ob_process_clone(SIGCHLD | CLONE_VFORK, NULL), -EINVAL);
	task = fork_child();
	begin(&child, task, act_as_child, fd);
	child.value = (int)OK(ob_sys_getpid());
	sem_post(&child.go);
	end(&child);
	OK(ob_sys_kill(task, 0));	/* a zombie */
	CHECK_EQUAL(wait_for(task, 0), 7 << 8);
	CHECK(ob_sys_kill(task, 0) == -1 && errno == ESRCH);
	/* One offset for both, two tables of descriptors. */
	CHECK_EQUAL(OK(ob_sys_lseek(fd, 0, SEEK_CUR)), 11);
	CHECK_EQUAL(ob_process_leave(), 0);
}

/* Reads a pipe that nobody writes. The task is gone afterwards. */
static void read_for_ever(struct actor *actor)
{
	char byte;

	CHECK(ob_sys_read(actor->fd, &byte, 1) == -1 && errno == ESRCH);
	check_ended();
}

static void wait_until_asleep(int task)
{
	long number = task;

	client_wait_until_asleep(&number);
}

static void test_threads(void)
{
	struct actor actor;
	int ends[2], task, fd;

	become_process();
	OK(ob_sys_pipe2(ends, 0));
	CHECK(ob_process_clone(THREAD, &task) == task);
	fd = ends[0];
	begin(&actor, task, read_for_ever, fd);
	CHECK(OK(ob_sys_getpid()) != task);
	OK(ob_sys_tgkill((int)OK(ob_sys_getpid()), task, 0));
	wait_until_asleep(task);
	CHECK_EQUAL(ob_sys_exit_group(3), 0);
	end(&actor);
	check_ended();
}

/* ---- signals ---- */

static void kill_blocked(int signal)
{
	struct actor actor;
	int ends[2], task;

	OK(ob_sys_pipe2(ends, 0));
	task = fork_child();
	begin(&actor, task, read_for_ever, ends[0]);
	wait_until_asleep(task);
	OK(ob_sys_kill(task, signal));
	CHECK_EQUAL(wait_for(task, 0) & 0x7f, signal);
	end(&actor);
	OK(ob_sys_close(ends[0]));
	OK(ob_sys_close(ends[1]));
}

static void stay_out(struct actor *actor)
{
	CHECK(!sem_wait(&actor->go));
	check_ended();
}

/* Its thread is out in host code, and does not come before the process is reaped. */
static void kill_out(int signal, useconds_t after)
{
	struct actor actor;
	int task = fork_child();

	begin(&actor, task, stay_out, -1);
	usleep(after);
	OK(ob_sys_kill(task, signal));
	CHECK_EQUAL(wait_for(task, 0) & 0x7f, signal);
	sem_post(&actor.go);
	end(&actor);
}

static void kill_unclaimed(useconds_t after)
{
	int task = fork_child();

	usleep(after);
	OK(ob_sys_kill(task, SIGKILL));
	CHECK_EQUAL(wait_for(task, 0) & 0x7f, SIGKILL);
	CHECK_EQUAL(ob_process_claim(task), -EBUSY);
	CHECK_EQUAL(ob_process_leave(), 0);
	CHECK_EQUAL(ob_process_claim(task), -ESRCH);
	become_process();
}

static void test_kill(void)
{
	static const int signals[] = { SIGKILL, SIGTERM, SIGSEGV };

	become_process();
	for (size_t i = 0; i < 3; i++) {
		kill_blocked(signals[i]);
		kill_out(signals[i], 0);
		kill_out(signals[i], 100000);
	}
	CHECK_EQUAL(ob_process_leave(), 0);
	become_process();
	kill_unclaimed(0);
	kill_unclaimed(100000);
	CHECK_EQUAL(ob_process_leave(), 0);
}

static atomic_int handled;

static void note(int number)
{
	handled += number;
}

/* A handler waits for its thread; a signal behind it that has none does not. */
static void take_signals(struct actor *actor)
{
	set_handler(SIGUSR1, note);
	sem_post(&actor->claimed);
	CHECK(!sem_wait(&actor->go));
	CHECK_EQUAL(handled, 0);
	CHECK_EQUAL(OK(ob_sys_getpid()), actor->task);
	CHECK_EQUAL(handled, SIGUSR1);
	sem_post(&actor->claimed);
	CHECK(!sem_wait(&actor->go));
	check_ended();
	CHECK_EQUAL(handled, SIGUSR1);
}

static void test_handlers(void)
{
	struct actor actor;
	int task;

	become_process();
	set_handler(SIGCHLD, note);
	task = fork_child();
	begin(&actor, task, take_signals, -1);
	CHECK(!sem_wait(&actor.claimed));
	OK(ob_sys_kill(task, SIGUSR1));
	usleep(50000);
	sem_post(&actor.go);
	CHECK(!sem_wait(&actor.claimed));
	OK(ob_sys_kill(task, SIGUSR1));
	OK(ob_sys_kill(task, SIGTERM));
	/* SIGCHLD's handler runs here, in whichever call is under way. */
	while (handled != SIGUSR1 + SIGCHLD)
		OK(ob_sys_getpid());
	handled = SIGUSR1;
	CHECK_EQUAL(wait_for(task, 0) & 0x7f, SIGTERM);
	sem_post(&actor.go);
	end(&actor);
	CHECK_EQUAL(ob_process_leave(), 0);
}

static void go_on(struct actor *actor)
{
	CHECK(!sem_wait(&actor->go));
	CHECK_EQUAL(OK(ob_sys_getpid()), actor->task);
	actor->value = 1;
	CHECK(!sem_wait(&actor->go));
	OK(ob_sys_exit_group(0));
	check_ended();
}

/* A stopped process stands still: its thread's next call waits. */
static void test_stop(void)
{
	struct actor actor;
	int task, status;

	become_process();
	task = fork_child();
	begin(&actor, task, go_on, -1);
	OK(ob_sys_kill(task, SIGSTOP));
	status = wait_for(task, WUNTRACED);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	sem_post(&actor.go);
	usleep(50000);
	CHECK_EQUAL(actor.value, 0);
	OK(ob_sys_kill(task, SIGCONT));
	CHECK(WIFCONTINUED(wait_for(task, WCONTINUED)));
	sem_post(&actor.go);
	CHECK_EQUAL(wait_for(task, 0), 0);
	end(&actor);
	CHECK_EQUAL(ob_process_leave(), 0);
}

/* ---- exec ---- */

static void test_exec(void)
{
	char name[16] = "";
	int ends[2], task, pid;
	struct actor actor;

	become_process();
	pid = (int)OK(ob_sys_getpid());
	OK(ob_sys_mkdir("/jail", 0700));
	OK(ob_sys_chroot("/jail"));
	OK(ob_sys_pipe2(ends, 0));
	OK(ob_sys_fcntl(ends[1], F_SETFD, FD_CLOEXEC));
	set_handler(SIGUSR1, note);
	CHECK(ob_process_clone(THREAD, &task) == task);
	begin(&actor, task, read_for_ever, ends[0]);
	wait_until_asleep(task);
	CHECK_EQUAL(ob_process_exec("another"), 0);
	end(&actor);
	CHECK_EQUAL(OK(ob_sys_getpid()), pid);
	OK(ob_sys_prctl(PR_GET_NAME, (long)name, 0, 0, 0));
	CHECK(!strcmp(name, "another"));
	CHECK(ob_sys_fcntl(ends[1], F_GETFD, 0) == -1 && errno == EBADF);
	OK(ob_sys_fcntl(ends[0], F_GETFD, 0));
	/* Still in its own root, which is empty. */
	CHECK(ob_sys_access("/init", F_OK) == -1 && errno == ENOENT);
	CHECK(ob_sys_kill(pid, SIGUSR1) == -1 && errno == ESRCH);
	check_ended();
}

/* ---- races, and what is left ---- */

static void call_until_killed(struct actor *actor)
{
	while (ob_sys_getppid() != -1)
		actor->value++;
	CHECK_EQUAL(errno, ESRCH);
	check_ended();
}

/* A signal at any point of entering, leaving, being out and being evicted. */
static void test_races(void)
{
	become_process();
	for (int i = 0; i < 300; i++) {
		struct actor actor;
		int task = fork_child();

		begin(&actor, task, call_until_killed, -1);
		usleep((useconds_t)(i * 7 % 200));
		OK(ob_sys_kill(task, i % 3 ? SIGKILL : SIGTERM));
		wait_for(task, 0);
		end(&actor);
	}
	CHECK_EQUAL(ob_process_leave(), 0);
}

static void test_many(void)
{
	unsigned long all = 0;
	long before;

	/* Waits for the vCPUs that come up late, with their threads. */
	OK(ob_sys_sched_getaffinity(0, sizeof(all), &all));
	before = client_task_count();
	for (int i = 0; i < 500; i++) {
		become_process();
		OK(ob_sys_openat(AT_FDCWD, "/many", O_CREAT | O_RDWR, 0600));
		CHECK_EQUAL(ob_process_leave(), 0);
	}
	/* The kernel's own workers come and go. */
	client_wait_for_tasks(before + 50);
}

static void unshare_and_block(struct actor *actor)
{
	char byte;

	OK(ob_sys_unshare(CLONE_NEWNS));
	OK(ob_sys_mount("none", "/tmp", "tmpfs", 0, NULL));
	OK(ob_sys_openat(AT_FDCWD, "/tmp/open", O_CREAT | O_RDWR, 0600));
	sem_post(&actor->claimed);
	/* The halt ends it. */
	CHECK(ob_sys_read(actor->fd, &byte, 1) == -1 && errno == ENODEV);
}

static void stay_out_of_halt(struct actor *actor)
{
	CHECK(!sem_wait(&actor->go));
	CHECK(ob_sys_getpid() == -1 && errno == ENODEV);
}

/* Blocked, parked, evicted, not claimed, dead: a halt ends all, and nothing stays mounted. */
static void test_halt(void)
{
	struct actor blocked, parked, evicted;
	int ends[2];

	become_process();
	OK(ob_sys_pipe2(ends, 0));
	begin(&blocked, fork_child(), unshare_and_block, ends[0]);
	CHECK(!sem_wait(&blocked.claimed));
	begin(&evicted, fork_child(), stay_out_of_halt, -1);
	usleep(100000);
	fork_child();
	OK(ob_sys_kill(fork_child(), SIGKILL));
	begin(&parked, fork_child(), stay_out_of_halt, -1);
	CHECK_EQUAL(ob_halt(), 0);
	sem_post(&parked.go);
	sem_post(&evicted.go);
	end(&blocked);
	end(&parked);
	end(&evicted);
	CHECK_EQUAL(ob_process_claim(2), -ENODEV);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "own", test_own }, { "fork", test_fork }, { "threads", test_threads },
	{ "kill", test_kill }, { "handlers", test_handlers }, { "stop", test_stop },
	{ "exec", test_exec }, { "races", test_races }, { "many", test_many },
	{ "halt", test_halt },
};

int main(int argc, char **argv)
{
	int vcpus = argc > 1 ? atoi(argv[1]) : 2;

	CHECK(ob_process_new() == -ENODEV && ob_process_leave() == -ENODEV);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		if (argc > 2 && strcmp(tests[i].name, argv[2]))
			continue;
		client_boot((unsigned int)vcpus);
		tests[i].run();
		if (tests[i].run != test_halt)
			CHECK_EQUAL(ob_halt(), 0);
	}
	puts("ok");
	return 0;
}
