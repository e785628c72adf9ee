// SPDX-License-Identifier: GPL-2.0-only
/*
 * vCPUs change hands all the time, and nothing is lost (V2, V3, V4): threads in pairs exchange data
 * by pipes, wait for each other by futexes in the host's memory, write files, sleep and yield, with
 * pauses in host code between, short ones and such as get a task evicted. Wrong data, a lost update
 * or a lost wake-up ends the program; the last shows as an alarm. Argument: the number of vCPUs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../library/client.h"

#define PAIRS 32
#define ROUNDS 120
#define BLOCK 1000
#define PATIENCE 280		/* seconds for all of it; it takes about two on a quiet host */

enum operation { BY_PIPE, BY_FUTEX, BY_FILE, BY_SLEEP, BY_YIELD, BY_LOCK, OPERATIONS };

struct pair {
	unsigned int random;		/* chooses what both do next */
	int there[2], back[2];
	uint32_t word[2];		/* the round that each side has come to */
};

struct side {
	struct pair *pair;
	int index;			/* 0 or 1 */
	unsigned int random;		/* chooses the pauses */
	int round;
	enum operation operation;
};

static struct pair pairs[PAIRS];
static struct side sides[2 * PAIRS];
static uint32_t lock;			/* 0 free, 1 taken, 2 taken and waited for */
static long locked_count;

static unsigned int next_random(unsigned int *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static void on_alarm(int number)
{
	(void)number;
	for (int i = 0; i < 2 * PAIRS; i++)
		if (sides[i].round < ROUNDS)
			fprintf(stderr, "thread %d hangs in round %d, operation %d\n", i,
				sides[i].round, sides[i].operation);
	_Exit(1);
}

static void futex_wait(uint32_t *word, uint32_t value)
{
	if (ob_sys_futex(word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0) == -1)
		CHECK(errno == EAGAIN || errno == EINTR);
}

static void futex_wake(uint32_t *word)
{
	OK(ob_sys_futex(word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
}

static void fill(char *block, const struct side *side, int writer)
{
	for (int i = 0; i < BLOCK; i++)
		block[i] = (char)(i * 7 + side->round * 13 + writer + (side->pair - pairs) * 3);
}

static void read_block(int fd, const struct side *side, int writer)
{
	char got[BLOCK], wanted[BLOCK];
	int done = 0;

	while (done < BLOCK)
		done += (int)OK(ob_sys_read(fd, got + done, (size_t)(BLOCK - done)));
	fill(wanted, side, writer);
	CHECK(!memcmp(got, wanted, BLOCK));
}

static void by_pipe(const struct side *side)
{
	const int *out = side->index ? side->pair->back : side->pair->there;
	const int *in = side->index ? side->pair->there : side->pair->back;
	char block[BLOCK];

	fill(block, side, side->index);
	CHECK_EQUAL(OK(ob_sys_write(out[1], block, BLOCK)), BLOCK);
	read_block(in[0], side, !side->index);
}

static void by_futex(const struct side *side)
{
	uint32_t *mine = &side->pair->word[side->index], *other = &side->pair->word[!side->index];
	uint32_t wanted = (uint32_t)side->round + 1, seen;

	__atomic_store_n(mine, wanted, __ATOMIC_SEQ_CST);
	futex_wake(mine);
	while ((seen = __atomic_load_n(other, __ATOMIC_SEQ_CST)) < wanted)
		futex_wait(other, seen);
}

static void by_file(const struct side *side)
{
	char path[64], block[BLOCK];
	int fd;

	snprintf(path, sizeof(path), "/tmpfs/%d", (int)(side - sides));
	fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 0600));
	fill(block, side, side->index);
	CHECK_EQUAL(OK(ob_sys_pwrite64(fd, block, BLOCK, side->round * 100)), BLOCK);
	OK(ob_sys_lseek(fd, side->round * 100, SEEK_SET));
	read_block(fd, side, side->index);
	OK(ob_sys_close(fd));
	OK(ob_sys_unlink(path));
}

static void by_sleep(struct side *side)
{
	struct timespec time = { 0, next_random(&side->random) % 2000000 };

	OK(ob_sys_nanosleep(&time, NULL));
}

/* A lock that all threads share: the futex mutex that everybody knows. */
static void by_lock(void)
{
	uint32_t state = 0;

	if (!__atomic_compare_exchange_n(&lock, &state, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		while (__atomic_exchange_n(&lock, 2, __ATOMIC_SEQ_CST))
			futex_wait(&lock, 2);
	locked_count++;
	OK(ob_sys_sched_yield());
	if (__atomic_exchange_n(&lock, 0, __ATOMIC_SEQ_CST) == 2)
		futex_wake(&lock);
}

static void operate(struct side *side)
{
	switch (side->operation) {
	case BY_PIPE: by_pipe(side); break;
	case BY_FUTEX: by_futex(side); break;
	case BY_FILE: by_file(side); break;
	case BY_SLEEP: by_sleep(side); break;
	case BY_YIELD: OK(ob_sys_sched_yield()); break;
	default: by_lock(); break;
	}
}

static void pause_in_host_code(struct side *side)
{
	unsigned int choice = next_random(&side->random);

	if (choice % 16 == 0)
		usleep(15000 + choice % 25000);
	else
		for (volatile unsigned int i = 0; i < choice % 4000; i++)
			;
}

static void *run_side(void *argument)
{
	struct side *side = argument;
	unsigned int random = side->pair->random;
	long number = OK(ob_sys_gettid());

	for (; side->round < ROUNDS; side->round++) {
		side->operation = next_random(&random) % OPERATIONS;
		operate(side);
		pause_in_host_code(side);
		CHECK_EQUAL(OK(ob_sys_gettid()), number);
	}
	return NULL;
}

static long expected_locks(void)
{
	long expected = 0;

	for (int i = 0; i < PAIRS; i++) {
		unsigned int random = pairs[i].random;

		for (int round = 0; round < ROUNDS; round++)
			expected += 2 * (next_random(&random) % OPERATIONS == BY_LOCK);
	}
	return expected;
}

int main(int count, char **arguments)
{
	static pthread_t threads[2 * PAIRS];

	CHECK_EQUAL(count, 2);
	client_boot((unsigned int)atoi(arguments[1]));
	client_tmpfs("/tmpfs");
	CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
	alarm(PATIENCE);
	for (int i = 0; i < PAIRS; i++) {
		pairs[i].random = (unsigned int)i * 7919 + 1;
		OK(ob_sys_pipe2(pairs[i].there, 0));
		OK(ob_sys_pipe2(pairs[i].back, 0));
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		sides[i] = (struct side){ .pair = &pairs[i / 2],
					  .index = i % 2,
					  .random = (unsigned int)i + 1 };
	for (int i = 0; i < 2 * PAIRS; i++)
		CHECK(!pthread_create(&threads[i], NULL, run_side, &sides[i]));
	for (int i = 0; i < 2 * PAIRS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(locked_count, expected_locks());
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
