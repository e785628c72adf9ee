// SPDX-License-Identifier: GPL-2.0-only
/* Programs that execute others, and how processes come and go. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "executed.h"
#include "semantics.h"

/* ---- beside threads ------------------------------------------------------- */

static void *compute(void *unused)
{
	(void)unused;
	for (volatile long i = 0;; i = i + 1)
		;
	return NULL;
}

static void *make_calls(void *unused)
{
	(void)unused;
	for (;;)
		getppid();
	return NULL;
}

static void *sleep_long(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *fault_often(void *unused)
{
	(void)unused;
	for (;;) {
		volatile char *memory = map(8 * PAGE, MAP_PRIVATE);

		for (size_t i = 0; i < 8; i++)
			memory[i * PAGE] = 1;
		munmap((void *)memory, 8 * PAGE);
	}
	return NULL;
}

static void *execute_alone(void *unused)
{
	char pid[16], *words[] = { "semantics", EXECUTED, "alone", pid, NULL };
	char *environment[] = { "ONE=1", NULL };

	snprintf(pid, sizeof(pid), "%d", getpid());
	execve(self, words, environment);
	CHECK(!"execve");
	return unused;
}

void exec_beside_threads(void)
{
	void *(*const others[])(void *) = { compute, make_calls, sleep_long, fault_often };
	pthread_t thread;
	pid_t child;

	CHECK(fcntl(2, F_DUPFD_CLOEXEC, 20) == 20 && fcntl(2, F_DUPFD, 21) == 21);
	for (long round = 0; round < rounds(3, 100); round++) {
		child = fork_or_die();
		if (!child) {
			for (int i = 0; i < 7; i++) {
				if (i == 2)
					pthread_create(&thread, NULL, execute_alone, NULL);
				pthread_create(&thread, NULL, others[i % 4], NULL);
			}
			compute(NULL);
		}
		wait_for_success(child);
	}
}

/* ---- vfork ---------------------------------------------------------------- */

void virtual_fork(void)
{
	char *words[] = { "semantics", EXECUTED, "exits", "5", NULL };
	volatile int *shared = map(PAGE, MAP_SHARED);
	volatile int local = 0;
	pid_t child;

	child = vfork();
	if (!child) {
		struct timespec time = { 0, 20000000 };

		nanosleep(&time, NULL);
		local = 1;
		*shared = 1;
		execve(self, words, environ);
		_exit(99);
	}
	/* The child has the parent's memory, and the parent goes on after its exec. */
	CHECK(local == 1 && *shared == 1);
	CHECK_EQUAL(WEXITSTATUS(wait_for(child)), 5);
	child = vfork();
	if (!child)
		_exit(7);
	CHECK_EQUAL(WEXITSTATUS(wait_for(child)), 7);
	/* Killed in its place. */
	child = vfork();
	if (!child) {
		kill(getpid(), SIGKILL);
		_exit(1);
	}
	wait_for_signal(child, SIGKILL);
}

/* ---- arguments ------------------------------------------------------------ */

/* `count` strings of `length` bytes. */
static void execute_with(int count, size_t length)
{
	char **words = calloc((size_t)count + 4, sizeof(*words));
	char *word = malloc(length + 1);
	pid_t child;
	int error;

	memset(word, 'a', length);
	word[length] = '\0';
	words[0] = "semantics";
	words[1] = EXECUTED;
	words[2] = "strings";
	for (int i = 0; i < count; i++)
		words[3 + i] = word;
	child = fork_or_die();
	if (!child) {
		char *environment[] = { "SOME=thing", NULL };

		execve(self, words, environment);
		error = errno;
		printf("  %d of %zu: %s\n", count, length, strerrorname_np(error));
		fflush(stdout);
		_exit(0);
	}
	wait_for_success(child);
	free(word);
	free(words);
}

void long_arguments(void)
{
	struct rlimit limit = { 8 << 20, RLIM_INFINITY };
	char *nothing[] = { NULL }, *words[] = { "semantics", NULL };
	/* The compiler shall not see that it is bad. */
	char **volatile bad = (char **)8;

	CHECK(!setrlimit(RLIMIT_STACK, &limit));
	fflush(stdout);
	execute_with(15, 131071);
	execute_with(15, 131072);
	execute_with(17, 131071);
	execute_with(100000, 4);
	execute_with(400000, 1);
	CHECK(execve("/nowhere", words, nothing) == -1 && errno == ENOENT);
	CHECK(execve("/proc/version", words, nothing) == -1 && errno == EACCES);
	CHECK(execve("/", words, nothing) == -1 && errno == EACCES);
	CHECK(execve(self, bad, nothing) == -1 && errno == EFAULT);
	CHECK(execve((char *)bad, words, nothing) == -1 && errno == EFAULT);
	words[0] = (char *)bad;
	CHECK(execve(self, words, nothing) == -1 && errno == EFAULT);
}

/* ---- scripts -------------------------------------------------------------- */

static void write_file(const char *path, const void *data, size_t size, mode_t mode)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && !fchmod(fd, mode) && !close(fd));
}

static void script_path(char *path, int level)
{
	snprintf(path, 64, "./script-%d", level);
}

/* Each level is the interpreter of the next one. The first one is run by this program. */
static void make_scripts(const char *program, int levels)
{
	char path[64], text[256], before[64];

	snprintf(text, sizeof(text), "#!%s " EXECUTED "\n", program);
	script_path(path, 0);
	write_file(path, text, strlen(text), 0755);
	for (int level = 1; level < levels; level++) {
		script_path(before, level - 1);
		script_path(path, level);
		snprintf(text, sizeof(text), "#! %s  level %d \n", before, level);
		write_file(path, text, strlen(text), 0755);
	}
}

static void run_script(int level)
{
	char path[64], *words[] = { "name", "last word", NULL };
	pid_t child;

	script_path(path, level);
	child = fork_or_die();
	if (!child) {
		execve(path, words, environ);
		printf("  level %d: %s\n", level, strerrorname_np(errno));
		fflush(stdout);
		_exit(0);
	}
	printf("  level %d: status %x\n", level, (unsigned int)wait_for(child));
	fflush(stdout);
}

void nested_scripts(void)
{
	char path[64];

	fflush(stdout);
	make_scripts(self, 7);
	for (int level = 0; level < 7; level++)
		run_script(level);
	script_path(path, 0);
	write_file(path, "#!/nowhere\n", 11, 0755);
	run_script(0);
	write_file(path, "#!\n", 3, 0755);
	run_script(0);
	write_file(path, "\x7f" "ELF", 4, 0755);
	run_script(0);
	for (int level = 0; level < 7; level++) {
		script_path(path, level);
		CHECK(!unlink(path));
	}
}

/* ---- files that are executed ---------------------------------------------- */

static int copy_of_self(const char *path)
{
	static char buffer[1 << 16];
	int from = open(self, O_RDONLY), to = open(path, O_CREAT | O_TRUNC | O_RDWR, 0700);
	ssize_t size;

	CHECK(from >= 0 && to >= 0);
	while ((size = read(from, buffer, sizeof(buffer))) > 0)
		CHECK(write(to, buffer, (size_t)size) == size);
	CHECK(!size && !close(from));
	return to;
}

static int exec_status(const char *path, char *const *words)
{
	pid_t child = fork_or_die();

	if (!child) {
		execve(path, words, environ);
		_exit(errno);
	}
	return WEXITSTATUS(wait_for(child));
}

void busy_text(void)
{
	char *words[] = { "semantics", EXECUTED, "exits", "33", NULL };
	char *mapped;
	pid_t child;
	int fd = copy_of_self("./busy");

	CHECK_EQUAL(exec_status("./busy", words), ETXTBSY);
	/* A mapping that is written to is as good as a descriptor. */
	mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(mapped != MAP_FAILED && !close(fd));
	CHECK_EQUAL(exec_status("./busy", words), ETXTBSY);
	CHECK(!munmap(mapped, PAGE));
	CHECK_EQUAL(exec_status("./busy", words), 33);
	child = fork_or_die();
	if (!child) {
		char *sleeper[] = { "semantics", EXECUTED, "sleeps", NULL };

		execve("./busy", sleeper, environ);
		_exit(1);
	}
	wait_until_asleep(child);
	while (open("./busy", O_WRONLY) != -1)
		usleep(1000);
	CHECK(errno == ETXTBSY && truncate("./busy", 0) == -1 && errno == ETXTBSY);
	/* Its name can go, and the program goes on. */
	CHECK(!unlink("./busy") && !kill(child, SIGTERM));
	wait_for_signal(child, SIGTERM);
}

static void copy_all(int to, int from, off_t size)
{
	while (size) {
		ssize_t copied = sendfile(to, from, NULL, (size_t)size);

		CHECK(copied > 0);
		size -= copied;
	}
}

static int exec_at(int directory, const char *path, char *const *words, int flags)
{
	pid_t child = fork_or_die();

	if (!child) {
		syscall(SYS_execveat, directory, path, words, environ, flags);
		_exit(errno);
	}
	return WEXITSTATUS(wait_for(child));
}

void exec_by_descriptor(void)
{
	char *words[] = { "semantics", EXECUTED, "exits", "44", NULL };
	int fd = open(self, O_RDONLY | O_CLOEXEC), here = open(".", O_PATH);
	int memory = memfd_create("program", MFD_CLOEXEC), script;
	struct stat status;

	CHECK(fd >= 0 && here >= 0 && memory >= 0 && !fstat(fd, &status));
	CHECK_EQUAL(exec_at(fd, "", words, AT_EMPTY_PATH), 44);
	CHECK_EQUAL(exec_at(fd, "", words, 0), ENOENT);
	CHECK_EQUAL(exec_at(here, "nowhere", words, 0), ENOENT);
	copy_all(memory, fd, status.st_size);
	CHECK_EQUAL(exec_at(memory, "", words, AT_EMPTY_PATH), 44);
	/* A script's interpreter needs a name for it. */
	write_file("./script", "#!/bin/true\n", 12, 0755);
	script = open("./script", O_RDONLY | O_CLOEXEC);
	CHECK_EQUAL(exec_at(script, "", words, AT_EMPTY_PATH), ENOENT);
	CHECK(!symlink("script", "./link"));
	CHECK_EQUAL(exec_at(here, "link", words, AT_SYMLINK_NOFOLLOW), ELOOP);
	CHECK(!unlink("./link") && !unlink("./script"));
}

/* ---- what stays ----------------------------------------------------------- */

static void prepare_for_exec(void)
{
	struct itimerval late = { .it_value = { 1000, 0 } };
	stack_t stack = { .ss_sp = map(64 << 10, MAP_PRIVATE), .ss_size = 64 << 10 };
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	uint32_t vector_control = 0x7f80;
	uint16_t x87_control = 0xf7f;
	timer_t timer;
	sigset_t set;

	set_handler(SIGUSR1, count_signal, 0);
	CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL) && !raise(SIGRTMIN));
	CHECK(!sigaltstack(&stack, NULL) && !setitimer(ITIMER_REAL, &late, NULL));
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	CHECK(!prctl(PR_SET_NAME, "another"));
	CHECK(personality(ADDR_NO_RANDOMIZE) != -1);
	__asm__ volatile("ldmxcsr %0\n fldcw %1" : : "m"(vector_control), "m"(x87_control));
}

void kept_by_exec(void)
{
	char *words[] = { "semantics", EXECUTED, "kept", NULL };
	char *others[] = { "semantics", EXECUTED, "auxv", NULL };
	pid_t child;

	fflush(stdout);
	child = fork_or_die();
	if (!child) {
		prepare_for_exec();
		execve(self, words, environ);
		_exit(1);
	}
	wait_for_success(child);
	child = fork_or_die();
	if (!child) {
		execve(self, others, environ);
		_exit(1);
	}
	wait_for_success(child);
}

/* ---- posix_spawn ---------------------------------------------------------- */

static void check_actions(void)
{
	char *words[] = { "semantics", EXECUTED, "arguments", "to the file", NULL }, text[64];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	pid_t child;
	ssize_t size;
	int fd;

	CHECK(!posix_spawn_file_actions_init(&actions) && !posix_spawnattr_init(&attributes));
	CHECK(!posix_spawn_file_actions_addopen(&actions, 1, "./output",
						O_CREAT | O_TRUNC | O_WRONLY, 0600));
	CHECK(!posix_spawn_file_actions_adddup2(&actions, 1, 5));
	CHECK(!posix_spawn_file_actions_addclose(&actions, 5));
	sigfillset(&defaults);
	CHECK(!posix_spawnattr_setsigdefault(&attributes, &defaults));
	CHECK(!posix_spawnattr_setpgroup(&attributes, 0));
	CHECK(!posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
							     POSIX_SPAWN_SETSIGDEF));
	CHECK(!posix_spawn(&child, self, &actions, &attributes, words, environ));
	wait_for_success(child);
	fd = open("./output", O_RDONLY);
	size = read(fd, text, sizeof(text) - 1);
	CHECK(size > 0 && !close(fd) && !unlink("./output"));
	text[size] = '\0';
	CHECK(!strcmp(text, "  argument to the file\n"));
}

void spawn(void)
{
	char *words[] = { "semantics", EXECUTED, "exits", "1", NULL };
	pid_t children[40];

	check_actions();
	CHECK_EQUAL(posix_spawn(&children[0], "/nowhere", NULL, NULL, words, environ), ENOENT);
	CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
	for (int i = 0; i < 40; i++)
		children[i] = start_self(words);
	for (int i = 0; i < 40; i++)
		CHECK_EQUAL(WEXITSTATUS(wait_for(children[i])), 1);
}
