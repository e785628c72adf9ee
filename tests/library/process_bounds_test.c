// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes of their own within what Linux puts around them: namespaces, control groups, sessions
 * with a terminal, reapers, descriptors of processes, tracers. The argument is the number of vCPUs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "actor.h"
#include "client.h"

#define CONTROL_C "\003"
#define CONTROL_Z "\032"

static void write_text(const char *path, const char *text)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_WRONLY, 0));

	CHECK_EQUAL(OK(ob_sys_write(fd, text, strlen(text))), (long)strlen(text));
	OK(ob_sys_close(fd));
}

static void write_number(const char *path, int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", number);
	write_text(path, text);
}

static bool has_text(const char *path, const char *text)
{
	char found[512] = "";
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0));

	OK(ob_sys_read(fd, found, sizeof(found) - 1));
	OK(ob_sys_close(fd));
	return strstr(found, text) != NULL;
}

static void wait_for_text(const char *path, const char *text)
{
	for (int i = 0; !has_text(path, text); i++) {
		CHECK(i < 10000);
		usleep(1000);
	}
}

/* Ends by itself when the test lets it. */
static void exit_when_told(struct actor *actor)
{
	CHECK(!sem_wait(&actor->go));
	OK(ob_sys_exit_group(actor->value));
	check_ended();
}

/* Is out of the kernel until the test lets it go, and has no task then. */
static void find_itself_killed(struct actor *actor)
{
	CHECK(!sem_wait(&actor->go));
	check_ended();
}

/* ---- namespaces ---- */

/* Process 1 of a namespace: ends, and Linux kills all others of that namespace with it. */
static void be_first(struct actor *actor)
{
	struct actor second;
	int number, pid;

	CHECK_EQUAL(OK(ob_sys_getpid()), 1);
	pid = ob_process_clone(SIGCHLD, &number);
	CHECK(pid == 2 && number != 2);
	begin(&second, number, find_itself_killed, -1);
	CHECK_EQUAL(OK(ob_sys_kill(2, 0)), 0);
	CHECK(ob_sys_kill(actor->task, 0) == -1 && errno == ESRCH);
	OK(ob_sys_exit_group(3));
	check_ended();
	sem_post(&second.go);
	end(&second);
}

static void test_numbers(void)
{
	struct actor first;
	int number, pid;

	become_process();
	OK(ob_sys_unshare(CLONE_NEWPID));
	pid = ob_process_clone(SIGCHLD, &number);
	CHECK(pid > 1 && pid == number);
	begin(&first, number, be_first, -1);
	CHECK_EQUAL(wait_for(pid, 0), 3 << 8);
	end(&first);
	/* A namespace whose first process has ended takes no other one. */
	CHECK_EQUAL(ob_process_clone(SIGCHLD, NULL), -ENOMEM);
	CHECK_EQUAL(ob_process_leave(), 0);
}

static bool is_called(const char *name)
{
	struct utsname found;

	OK(ob_sys_uname((void *)&found));
	return !strcmp(found.nodename, name);
}

/* An ordinary user becomes root of a namespace, and names the machine there. */
static void test_users(void)
{
	OK(ob_sys_sethostname("outside", 7));
	become_process();
	OK(ob_sys_setresuid(1000, 1000, 1000));
	CHECK(ob_sys_sethostname("x", 1) == -1 && errno == EPERM);
	OK(ob_sys_unshare(CLONE_NEWUSER | CLONE_NEWUTS));
	OK(ob_sys_sethostname("inside", 6));
	CHECK(is_called("inside"));
	CHECK_EQUAL(ob_process_leave(), 0);
	CHECK(is_called("outside"));
}

/* ---- control groups ---- */

static void make_group(void)
{
	OK(ob_sys_mkdir("/groups", 0700));
	OK(ob_sys_mount("none", "/groups", "cgroup2", 0, NULL));
	write_text("/groups/cgroup.subtree_control", "+pids");
	OK(ob_sys_mkdir("/groups/one", 0700));
}

static void test_limit_of_processes(void)
{
	int task;

	make_group();
	write_text("/groups/one/pids.max", "2");
	become_process();
	write_number("/groups/one/cgroup.procs", (int)OK(ob_sys_getpid()));
	task = fork_child();
	CHECK_EQUAL(ob_process_clone(SIGCHLD, NULL), -EAGAIN);
	OK(ob_sys_kill(task, SIGKILL));
	CHECK_EQUAL(wait_for(task, 0), SIGKILL);
	OK(ob_sys_kill(fork_child(), SIGKILL));
	CHECK_EQUAL(ob_process_leave(), 0);
}

/* Counts its calls until it is killed. */
static void count_calls(struct actor *actor)
{
	while (ob_sys_getpid() == actor->task)
		actor->value++;
	check_ended();
}

static void test_freeze_and_kill(void)
{
	struct actor busy, out;
	int before;

	make_group();
	become_process();
	begin(&busy, fork_child(), count_calls, -1);
	begin(&out, fork_child(), find_itself_killed, -1);
	write_number("/groups/one/cgroup.procs", busy.task);
	write_number("/groups/one/cgroup.procs", out.task);
	write_text("/groups/one/cgroup.freeze", "1");
	wait_for_text("/groups/one/cgroup.events", "frozen 1");
	before = busy.value;
	usleep(50000);
	/* Its thread may have been between two calls. */
	CHECK(busy.value <= before + 1);
	before = busy.value;
	write_text("/groups/one/cgroup.freeze", "0");
	for (int i = 0; busy.value == before; i++) {
		CHECK(i < 10000);
		usleep(1000);
	}
	write_text("/groups/one/cgroup.kill", "1");
	CHECK_EQUAL(wait_for(busy.task, 0), SIGKILL);
	CHECK_EQUAL(wait_for(out.task, 0), SIGKILL);
	sem_post(&out.go);
	end(&busy);
	end(&out);
	CHECK(has_text("/groups/one/cgroup.events", "populated 0"));
	CHECK_EQUAL(ob_process_leave(), 0);
}

/* ---- sessions ---- */

/* Opens the first terminal, /terminals/0. Returns the descriptor of its master. */
static int open_terminal(void)
{
	int number, master, unlock = 0;

	OK(ob_sys_mkdir("/terminals", 0700));
	OK(ob_sys_mount("none", "/terminals", "devpts", 0, "ptmxmode=0666"));
	master = (int)OK(ob_sys_openat(AT_FDCWD, "/terminals/ptmx", O_RDWR | O_NOCTTY, 0));
	OK(ob_sys_ioctl((unsigned int)master, TIOCSPTLCK, (unsigned long)&unlock));
	OK(ob_sys_ioctl((unsigned int)master, TIOCGPTN, (unsigned long)&number));
	CHECK_EQUAL(number, 0);
	return master;
}

/* Reads a line of the terminal, which stops it while it is in the background. */
static void read_line(struct actor *actor)
{
	char line[8];

	CHECK(!sem_wait(&actor->go));
	if (ob_sys_read((unsigned int)actor->fd, line, sizeof(line)) == -1) {
		CHECK_EQUAL(errno, ESRCH);
		check_ended();
		return;
	}
	CHECK_EQUAL(line[0], 'x');
	OK(ob_sys_exit_group(5));
	check_ended();
}

static int stopped_by(int pid)
{
	int status = wait_for(pid, WUNTRACED);

	CHECK(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

static void set_foreground(int terminal, int group)
{
	OK(ob_sys_ioctl((unsigned int)terminal, TIOCSPGRP, (unsigned long)&group));
}

/* Does as a shell with two jobs. `fd`: the master, which a shell has not. */
static void control_jobs(struct actor *shell)
{
	struct actor job, reader;
	int terminal;

	OK(ob_sys_setsid());
	terminal = (int)OK(ob_sys_openat(AT_FDCWD, "/terminals/0", O_RDWR, 0));
	set_handler(SIGTTOU, SIG_IGN);

	/* Control-Z stops the job in the foreground, and nobody else. */
	begin(&job, fork_child(), find_itself_killed, -1);
	begin(&reader, fork_child(), read_line, terminal);
	OK(ob_sys_setpgid(job.task, job.task));
	OK(ob_sys_setpgid(reader.task, reader.task));
	set_foreground(terminal, job.task);
	sem_post(&reader.go);
	OK(ob_sys_write((unsigned int)shell->fd, CONTROL_Z, 1));
	CHECK_EQUAL(stopped_by(job.task), SIGTSTP);

	/* The other one has stopped, since it reads in the background. */
	CHECK_EQUAL(stopped_by(reader.task), SIGTTIN);
	set_foreground(terminal, reader.task);
	OK(ob_sys_kill(-reader.task, SIGCONT));
	OK(ob_sys_write((unsigned int)shell->fd, "x\n", 2));
	CHECK_EQUAL(wait_for(reader.task, 0), 5 << 8);
	end(&reader);

	/* Control-C ends the job, which goes on for that. */
	set_foreground(terminal, job.task);
	OK(ob_sys_kill(-job.task, SIGCONT));
	OK(ob_sys_write((unsigned int)shell->fd, CONTROL_C, 1));
	CHECK_EQUAL(wait_for(job.task, 0), SIGINT);
	sem_post(&job.go);
	end(&job);

	/* The terminal goes: the leader of the session gets SIGHUP within its call. */
	set_foreground(terminal, shell->task);
	CHECK(ob_sys_close((unsigned int)shell->fd) == -1 && errno == ESRCH);
	check_ended();
}

static void test_jobs(void)
{
	struct actor shell;
	int master;

	become_process();
	master = open_terminal();
	begin(&shell, fork_child(), control_jobs, master);
	OK(ob_sys_close((unsigned int)master));
	CHECK_EQUAL(wait_for(shell.task, 0), SIGHUP);
	end(&shell);
	CHECK_EQUAL(ob_process_leave(), 0);
}

/* ---- reapers ---- */

static void leave_orphan(struct actor *actor)
{
	int task = fork_child();

	actor->value = task;
	OK(ob_sys_exit_group(0));
	check_ended();
}

static void name_parent(struct actor *actor)
{
	CHECK(!sem_wait(&actor->go));
	OK(ob_sys_exit_group((int)OK(ob_sys_getppid()) == actor->value));
	check_ended();
}

/* An orphan goes to the nearest ancestor that has asked for orphans. */
static void test_reaper(void)
{
	struct actor middle, orphan;

	become_process();
	OK(ob_sys_prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
	begin(&middle, fork_child(), leave_orphan, -1);
	CHECK_EQUAL(wait_for(middle.task, 0), 0);
	end(&middle);
	begin(&orphan, middle.value, name_parent, -1);
	orphan.value = (int)OK(ob_sys_getpid());
	sem_post(&orphan.go);
	CHECK_EQUAL(wait_for(orphan.task, 0), 1 << 8);
	end(&orphan);
	CHECK_EQUAL(ob_process_leave(), 0);
}

/* ---- descriptors of processes ---- */

static void test_descriptors(void)
{
	struct actor child;
	struct pollfd ready = { .events = POLLIN };

	become_process();
	begin(&child, fork_child(), exit_when_told, -1);
	child.value = 9;
	ready.fd = (int)OK(ob_sys_pidfd_open(child.task, 0));
	CHECK_EQUAL(OK(ob_sys_poll(&ready, 1, 0)), 0);
	sem_post(&child.go);
	CHECK_EQUAL(OK(ob_sys_poll(&ready, 1, -1)), 1);
	CHECK_EQUAL(wait_for(child.task, 0), 9 << 8);
	end(&child);
	CHECK(ob_sys_pidfd_send_signal(ready.fd, SIGTERM, NULL, 0) == -1 && errno == ESRCH);
	OK(ob_sys_close((unsigned int)ready.fd));
	CHECK_EQUAL(ob_process_leave(), 0);
}

/* ---- tracers ---- */

static void be_traced(struct actor *actor)
{
	OK(ob_sys_ptrace(PTRACE_TRACEME, 0, 0, 0));
	OK(ob_sys_kill(actor->task, SIGUSR1));
	OK(ob_sys_exit_group(4));
	check_ended();
}

/* A tracer sees signals and takes them away. The registers and memory are the host's. */
static void test_tracer(void)
{
	struct actor traced;
	long seen[32];

	become_process();
	begin(&traced, fork_child(), be_traced, -1);
	CHECK_EQUAL(stopped_by(traced.task), SIGUSR1);
	CHECK(ob_sys_ptrace(PTRACE_GETREGS, traced.task, 0, (unsigned long)seen) == -1 &&
	      errno == EIO);
	CHECK(ob_sys_ptrace(PTRACE_PEEKDATA, traced.task, (unsigned long)&traced.task & ~7UL,
			    (unsigned long)seen) == -1 && errno == EIO);
	OK(ob_sys_ptrace(PTRACE_CONT, traced.task, 0, 0));
	CHECK_EQUAL(wait_for(traced.task, 0), 4 << 8);
	end(&traced);
	CHECK_EQUAL(ob_process_leave(), 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "numbers", test_numbers }, { "users", test_users },
	{ "limit", test_limit_of_processes }, { "freeze", test_freeze_and_kill },
	{ "jobs", test_jobs }, { "reaper", test_reaper },
	{ "descriptors", test_descriptors }, { "tracer", test_tracer },
};

int main(int argc, char **argv)
{
	int vcpus = argc > 1 ? atoi(argv[1]) : 2;

	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		if (argc > 2 && strcmp(tests[i].name, argv[2]))
			continue;
		client_boot((unsigned int)vcpus);
		tests[i].run();
		CHECK_EQUAL(ob_halt(), 0);
	}
	puts("ok");
	return 0;
}
