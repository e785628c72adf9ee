// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program of another C library than the host's: threads, signals, pipes, children, time, names.
 * Prints a line for each, which is the same on any Linux.
 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 50
#define ROUNDS 2000

extern char **environ;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t signals;
static long sum;

static void need(int good, const char *what)
{
	printf("%s %s\n", what, good ? "ok" : "FAILED");
	if (!good)
		exit(1);
}

static void *add(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&lock);
		sum++;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void *wait_for_ever(void *unused)
{
	pause();
	return NULL;
}

static void threads(void)
{
	pthread_t all[THREADS], waiting;
	void *result;

	for (int i = 0; i < THREADS; i++)
		need(!pthread_create(&all[i], NULL, add, NULL) || i, "thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
	need(sum == THREADS * ROUNDS, "mutex");
	pthread_create(&waiting, NULL, wait_for_ever, NULL);
	usleep(10000);
	pthread_cancel(waiting);
	pthread_join(waiting, &result);
	need(result == PTHREAD_CANCELED, "cancel");
}

static void count(int number)
{
	signals++;
}

static void timers(void)
{
	struct sigaction action = { .sa_handler = count };
	struct itimerspec often = { { 0, 1000000 }, { 0, 1000000 } };
	timer_t timer;

	sigaction(SIGALRM, &action, NULL);
	need(!timer_create(CLOCK_MONOTONIC, NULL, &timer), "timer");
	timer_settime(timer, 0, &often, NULL);
	while (signals < 20)
		pause();
	timer_delete(timer);
	need(signals >= 20, "signals");
}

static void children(char *self)
{
	char *words[] = { self, "child", NULL };
	int ends[2], status;
	char text[16] = "";
	pid_t child;

	need(!pipe(ends), "pipe");
	child = fork();
	if (!child) {
		dup2(ends[1], 1);
		execv(self, words);
		_exit(127);
	}
	close(ends[1]);
	need(read(ends[0], text, 5) == 5 && !strcmp(text, "child"), "fork and exec");
	need(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "wait");
	need(!posix_spawn(&child, self, NULL, NULL, words, environ), "posix_spawn");
	need(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "wait");
	need(!system("exit 0"), "system");
	need(WEXITSTATUS(system("exit 9")) == 9, "system");
}

static void memory_and_names(void)
{
	struct addrinfo *found, hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
	char *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(map != MAP_FAILED && (map[12345] = 1), "mmap");
	need(!mprotect(map, 4096, PROT_READ) && !munmap(map, 1 << 20), "munmap");
	need(!getaddrinfo("localhost", "80", &hints, &found), "getaddrinfo");
	freeaddrinfo(found);
}

int main(int number, char **words)
{
	if (number > 1) {
		dprintf(1, "child");
		return 7;
	}
	setvbuf(stdout, NULL, _IONBF, 0);
	threads();
	timers();
	children(words[0]);
	memory_and_names();
	return 0;
}
