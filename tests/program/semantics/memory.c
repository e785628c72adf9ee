// SPDX-License-Identifier: GPL-2.0-only
/* Anonymous memory: copies on write, pages that are gone, mappings of all kinds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <unistd.h>

#include "semantics.h"

/* ---- copies on write ------------------------------------------------------ */

#define PAGE_WORDS (PAGE / sizeof(uint64_t))

static size_t cow_pages;

static uint64_t pattern(size_t page, size_t word)
{
	return (page * PAGE_WORDS + word) * 0x9e3779b97f4a7c15;
}

/* In an order of its own, each process writes to every second page while the others do. */
static void write_half(uint64_t *memory, unsigned int who)
{
	for (size_t n = 0; n < cow_pages; n++) {
		size_t page = (n * 10007 + who * 389) % cow_pages;

		if (page % 2 == who % 2)
			memory[page * PAGE_WORDS + page % PAGE_WORDS] = who + 1;
	}
}

static void check_all(const uint64_t *memory, unsigned int who)
{
	for (size_t page = 0; page < cow_pages; page++) {
		for (size_t word = 0; word < PAGE_WORDS; word++) {
			bool is_own = page % 2 == who % 2 && word == page % PAGE_WORDS;

			CHECK_EQUAL(memory[page * PAGE_WORDS + word],
				    is_own ? who + 1 : pattern(page, word));
		}
	}
}

/* The child of a child shares pages with all others. */
static void write_in_child(uint64_t *memory, unsigned int who)
{
	pid_t child;

	write_half(memory, who);
	child = fork_or_die();
	check_all(memory, who);
	if (child)
		wait_for_success(child);
	_exit(0);
}

void cow_load(void)
{
	uint64_t *memory;
	pid_t children[8];

	cow_pages = (size_t)rounds(512, 16384);
	memory = map(cow_pages * PAGE, MAP_PRIVATE);
	for (size_t page = 0; page < cow_pages; page++)
		for (size_t word = 0; word < PAGE_WORDS; word++)
			memory[page * PAGE_WORDS + word] = pattern(page, word);
	for (unsigned int who = 0; who < 8; who++) {
		children[who] = fork_or_die();
		if (!children[who])
			write_in_child(memory, who);
	}
	write_half(memory, 8);
	for (unsigned int who = 0; who < 8; who++)
		wait_for_success(children[who]);
	check_all(memory, 8);
}

/* ---- pages that are gone -------------------------------------------------- */

#define OURS 0x1111111111111111ull
#define OTHERS 0x2222222222222222ull
#define TAKEN_PAGES 8

static volatile uint64_t *volatile watched;
static atomic_bool enough;
static int watched_file;

/* The page is ours, new, or not there: never what another process has in it. */
static void *watch(void *unused)
{
	struct fault fault;

	(void)unused;
	while (!atomic_load(&enough)) {
		uint64_t seen = 0;

		fault = touch(watched, false);
		if (!fault.number)
			seen = *watched;
		CHECK(seen == OURS || seen == 0);
	}
	return NULL;
}

/* As `watch`, without handlers: the page is always there. */
static void *watch_plainly(void *unused)
{
	(void)unused;
	while (!atomic_load(&enough)) {
		uint64_t seen = *watched;

		CHECK(seen == OURS || seen == 0);
	}
	return NULL;
}

/* Another process takes pages that have just become free, and writes to them. */
static void take_pages_for_ever(void)
{
	for (;;) {
		uint64_t *memory = map(TAKEN_PAGES * PAGE, MAP_PRIVATE);

		for (size_t i = 0; i < TAKEN_PAGES * PAGE_WORDS; i++)
			memory[i] = OTHERS;
		CHECK(!munmap(memory, TAKEN_PAGES * PAGE));
	}
}

static void renew(void *to, int flags, int fd)
{
	CHECK(mmap(to, PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == to);
}

/* Each takes the page away in another way, and leaves a new one. */
static void take_away(int round, void *page, void *aside)
{
	switch (round % 5) {
	case 0:
		CHECK(!madvise(page, PAGE, MADV_DONTNEED));
		break;
	case 1:
		renew(page, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		break;
	case 2:
		renew(page, MAP_SHARED, watched_file);
		*(volatile uint64_t *)page = OURS;
		CHECK(!fallocate(watched_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				 (off_t)PAGE));
		break;
	case 3:
		/* Another page comes into its place. */
		*(volatile uint64_t *)aside = 0;
		CHECK(mremap(aside, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) == page);
		renew(aside, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		break;
	case 4:
		CHECK(!mprotect(page, PAGE, PROT_READ));
		CHECK(!mprotect(page, PAGE, PROT_READ | PROT_WRITE));
		break;
	}
}

static void take_away_often(void)
{
	long most = rounds(100, 20000);
	pid_t other = fork_or_die();
	pthread_t thread;
	void *aside = map(PAGE, MAP_PRIVATE);

	if (!other)
		take_pages_for_ever();
	watched = map(PAGE, MAP_PRIVATE);
	atomic_store(&enough, false);
	CHECK(!pthread_create(&thread, NULL, watch_plainly, NULL));
	for (int round = 0; round < most; round++) {
		*watched = OURS;
		take_away(round, (void *)watched, aside);
	}
	atomic_store(&enough, true);
	CHECK(!pthread_join(thread, NULL));
	CHECK(!kill(other, SIGKILL));
	wait_for_signal(other, SIGKILL);
}

/* The reader finds out by a fault, too. */
static void unmap_often(void)
{
	long most = rounds(50, 5000);
	void *page = map(PAGE, MAP_PRIVATE);
	pthread_t thread;

	watched = page;
	atomic_store(&enough, false);
	CHECK(!pthread_create(&thread, NULL, watch, NULL));
	for (int round = 0; round < most; round++) {
		CHECK(!munmap(page, PAGE));
		renew(page, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		*(volatile uint64_t *)page = OURS;
		CHECK(!mprotect(page, PAGE, PROT_NONE));
		CHECK(!mprotect(page, PAGE, PROT_READ));
	}
	atomic_store(&enough, true);
	CHECK(!pthread_join(thread, NULL));
}

void final_unmap(void)
{
	watched_file = unnamed_file(PAGE);
	take_away_often();
	unmap_often();
}

/* ---- mappings ------------------------------------------------------------- */

static void *map_at(void *wish, size_t size, int flags)
{
	return mmap(wish, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static int errno_of(void *mapping)
{
	CHECK(mapping == MAP_FAILED);
	return errno;
}

/* Linux keeps a gap of 256 pages free below. */
#define ROOM_PAGES 1024

static void check_grows_down(void)
{
	char *room = map(ROOM_PAGES * PAGE, MAP_PRIVATE), *end = room + ROOM_PAGES * PAGE;

	CHECK(!munmap(room, ROOM_PAGES * PAGE));
	CHECK(map_at(end - 4 * PAGE, 4 * PAGE, MAP_FIXED | MAP_GROWSDOWN) == end - 4 * PAGE);
	for (size_t page = 1; page < 100; page++)
		CHECK_EQUAL(touch(end - page * PAGE + 8, true).number, 0);
}

void mapping_kinds(void)
{
	char *page = map(4 * PAGE, MAP_PRIVATE), *low, *locked;

	low = map_at(NULL, 5 * PAGE, MAP_32BIT);
	CHECK(low != MAP_FAILED && low + 5 * PAGE < (char *)0x80000000);
	low[0] = low[5 * PAGE - 1] = 1;
	printf("taken %d\n", errno_of(map_at(page, PAGE, MAP_FIXED_NOREPLACE)));
	printf("beyond %d\n", errno_of(map_at((void *)(1ul << 62), PAGE, MAP_FIXED)));
	printf("no size %d\n", errno_of(map_at(NULL, 0, 0)));
	printf("askew %d\n", errno_of(map_at(page + 1, PAGE, MAP_FIXED)));
	/* A wish that is free is granted. */
	CHECK(!munmap(page, 4 * PAGE) && map_at(page, 2 * PAGE, 0) == page);
	CHECK_EQUAL(touch(page + 2 * PAGE, false).code, SEGV_MAPERR);
	CHECK(mmap(page, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
	CHECK_EQUAL(touch(page, false).code, SEGV_ACCERR);
	locked = map(PAGE * 4, MAP_PRIVATE | MAP_LOCKED | MAP_POPULATE);
	CHECK(!munlock(locked, PAGE * 4) && !mlock2(locked, PAGE, MLOCK_ONFAULT));
	CHECK(!mlockall(MCL_CURRENT) && !munlockall());
	check_grows_down();
}

static void fill(unsigned char *memory, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		memset(memory + i * PAGE, (int)i + 1, PAGE);
}

static void check_filled(const unsigned char *memory, size_t pages, size_t first)
{
	for (size_t i = 0; i < pages; i++)
		CHECK(memory[i * PAGE] == first + i + 1 &&
		      memory[i * PAGE + PAGE - 1] == first + i + 1);
}

void remapping(void)
{
	unsigned char *area = map(64 * PAGE, MAP_PRIVATE), *memory, *moved;

	fill(area, 8);
	/* Within: it shrinks, and grows again in place. */
	CHECK(mremap(area, 64 * PAGE, 8 * PAGE, 0) == area);
	CHECK(mremap(area, 8 * PAGE, 16 * PAGE, 0) == area);
	check_filled(area, 8, 0);
	CHECK_EQUAL(area[15 * PAGE], 0);
	/* Something is in the way. */
	CHECK(map_at(area + 16 * PAGE, PAGE, MAP_FIXED) == area + 16 * PAGE);
	CHECK(mremap(area, 16 * PAGE, 32 * PAGE, 0) == MAP_FAILED && errno == ENOMEM);
	memory = mremap(area, 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
	CHECK(memory != MAP_FAILED && memory != area);
	check_filled(memory, 8, 0);
	CHECK_EQUAL(touch(area, false).code, SEGV_MAPERR);
	/* A part, to a place of our choice. */
	moved = map(2 * PAGE, MAP_PRIVATE);
	CHECK(mremap(memory + 2 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		     moved) == moved);
	check_filled(moved, 2, 2);
	CHECK_EQUAL(touch(memory + 3 * PAGE, true).code, SEGV_MAPERR);
	/* The old place stays, empty. */
	moved = mremap(memory, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	CHECK(moved != MAP_FAILED);
	check_filled(moved, 2, 0);
	CHECK(!memory[0] && !memory[PAGE]);
	/* A second view of a shared mapping: the size is 0. */
	memory = map(2 * PAGE, MAP_SHARED);
	moved = mremap(memory, 0, 2 * PAGE, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED && moved != memory);
	for (int i = 0; i < 100; i++) {
		memory[i] = (unsigned char)i;
		CHECK_EQUAL(moved[i], i);
		moved[PAGE + (size_t)i] = (unsigned char)i;
		CHECK_EQUAL(memory[PAGE + (size_t)i], i);
	}
}

static void check_forks(unsigned char *kept, unsigned char *wiped, unsigned char *left_out)
{
	pid_t child = fork_or_die();

	if (!child) {
		CHECK_EQUAL(kept[0], 1);
		CHECK_EQUAL(wiped[0], 0);
		CHECK_EQUAL(touch(left_out, false).code, SEGV_MAPERR);
		_exit(0);
	}
	wait_for_success(child);
	CHECK(kept[0] == 1 && wiped[0] == 1 && left_out[0] == 1);
}

void advice(void)
{
	unsigned char *memory = map(8 * PAGE, MAP_PRIVATE), in_core[8];
	unsigned char *shared = map(2 * PAGE, MAP_SHARED);

	fill(memory, 8);
	CHECK(!madvise(memory + 2 * PAGE, PAGE, MADV_DONTNEED) && !memory[2 * PAGE]);
	CHECK(!madvise(memory + 3 * PAGE, PAGE, MADV_FREE));
	memory[3 * PAGE] = 9;
	CHECK_EQUAL(memory[3 * PAGE], 9);
	CHECK(!madvise(memory, 8 * PAGE, MADV_COLD));
	CHECK(!madvise(memory + 4 * PAGE, 4 * PAGE, MADV_PAGEOUT));
	check_filled(memory + 4 * PAGE, 4, 4);
	shared[0] = 1;
	CHECK(!madvise(shared, PAGE, MADV_DONTNEED) && shared[0] == 1);
	CHECK(!madvise(shared, PAGE, MADV_REMOVE) && !shared[0]);
	CHECK(madvise(memory + 1, PAGE, MADV_NORMAL) == -1 && errno == EINVAL);
	memory = map(8 * PAGE, MAP_PRIVATE);
	CHECK(!madvise(memory, 4 * PAGE, MADV_POPULATE_WRITE));
	CHECK(!madvise(memory + 4 * PAGE, PAGE, MADV_POPULATE_READ));
	CHECK(!mincore(memory, 8 * PAGE, in_core));
	CHECK((in_core[0] & 1) && (in_core[3] & 1) && !(in_core[6] & 1));
	CHECK(!madvise(memory + PAGE, PAGE, MADV_WIPEONFORK));
	CHECK(!madvise(memory + 2 * PAGE, PAGE, MADV_DONTFORK));
	memory[0] = memory[PAGE] = memory[2 * PAGE] = 1;
	check_forks(memory, memory + PAGE, memory + 2 * PAGE);
}

/* ---- code that a program makes -------------------------------------------- */

/* mov $value, %eax; ret */
static void write_code(volatile unsigned char *to, unsigned int value)
{
	const unsigned char code[] = { 0xb8, (unsigned char)value, 0, 0, 0, 0xc3 };

	for (size_t i = 0; i < sizeof(code); i++)
		to[i] = code[i];
}

static unsigned int run_code(const volatile unsigned char *code)
{
	__asm__ volatile("" : : : "memory");
	return ((unsigned int (*)(void))code)();
}

static const volatile unsigned char *code_to_run;

static void run_that_code(void)
{
	run_code(code_to_run);
}

static struct fault fault_of_code(const volatile unsigned char *code)
{
	code_to_run = code;
	return call(run_that_code);
}

static void check_two_views(int fd)
{
	unsigned char *written = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	unsigned char *run = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);

	CHECK(written != MAP_FAILED && run != MAP_FAILED);
	for (unsigned int i = 0; i < 50; i++) {
		write_code(written, i);
		CHECK_EQUAL(run_code(run), i);
	}
	CHECK_EQUAL(touch(run, true).code, SEGV_ACCERR);
	CHECK_EQUAL(fault_of_code(written).code, SEGV_ACCERR);
}

void generated_code(void)
{
	unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("code", 0);
	struct fault fault;

	CHECK(code != MAP_FAILED && fd >= 0 && !ftruncate(fd, (off_t)PAGE));
	for (unsigned int i = 0; i < 50; i++) {
		write_code(code, i);
		CHECK_EQUAL(run_code(code), i);
	}
	CHECK(!mprotect(code, PAGE, PROT_READ));
	fault = fault_of_code(code);
	CHECK(fault.number == SIGSEGV && fault.code == SEGV_ACCERR && fault.address == code);
	CHECK(!mprotect(code, PAGE, PROT_READ | PROT_EXEC));
	CHECK_EQUAL(run_code(code), 49);
	CHECK_EQUAL(touch(code, true).code, SEGV_ACCERR);
	fault = fault_of_code(code + PAGE * 3);
	CHECK(fault.number == SIGSEGV && fault.address == code + PAGE * 3);
	check_two_views(fd);
}

/* ---- stacks --------------------------------------------------------------- */

static __attribute__((noinline)) unsigned long go_deep(unsigned long depth)
{
	volatile unsigned char room[1024];

	room[0] = room[1023] = (unsigned char)depth;
	return depth ? go_deep(depth - 1) + room[0] : room[1023];
}

static void overflow(void)
{
	go_deep(1ul << 30);
}

void growing_stack(void)
{
	stack_t other = { .ss_sp = map(64 << 10, MAP_PRIVATE), .ss_size = 64 << 10 };
	struct sigaction action;
	pid_t child;

	CHECK(go_deep(4000));
	/* Its own stack is no place for a handler then. */
	child = fork_or_die();
	if (!child)
		overflow();
	wait_for_signal(child, SIGSEGV);
	CHECK(!sigaltstack(&other, NULL));
	touch(&other, false);
	CHECK(!sigaction(SIGSEGV, NULL, &action));
	action.sa_flags |= SA_ONSTACK;
	CHECK(!sigaction(SIGSEGV, &action, NULL));
	child = fork_or_die();
	if (!child) {
		/* The default again, and with an alternate stack: it still ends. */
		signal(SIGSEGV, SIG_DFL);
		overflow();
	}
	wait_for_signal(child, SIGSEGV);
}

/* ---- the memory of others ------------------------------------------------- */

static void check_by_file(pid_t process, char *memory)
{
	char path[64], text[16];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", process);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0);
	CHECK(pread(fd, text, 8, (off_t)memory) == 8 && !memcmp(text, "childs", 7));
	CHECK(pwrite(fd, "parents", 8, (off_t)memory) == 8);
	/* Also where the process itself may not write. */
	CHECK(pwrite(fd, "forced", 7, (off_t)(memory + PAGE)) == 7);
	CHECK(pread(fd, text, 8, 4096) == -1 && errno == EIO);
	CHECK(!close(fd));
}

static void check_by_call(pid_t process, char *memory)
{
	char text[16] = "called";
	struct iovec here = { text, 7 }, there = { memory + 2 * PAGE - 3, 7 };
	struct iovec nowhere = { (void *)8, 7 };

	CHECK_EQUAL(process_vm_writev(process, &here, 1, &there, 1, 0), 7);
	memset(text, 0, sizeof(text));
	CHECK_EQUAL(process_vm_readv(process, &here, 1, &there, 1, 0), 7);
	CHECK(!strcmp(text, "called"));
	CHECK(process_vm_readv(process, &here, 1, &nowhere, 1, 0) == -1 && errno == EFAULT);
}

static void check_shared_segment(void)
{
	int segment = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	volatile int *here = shmat(segment, NULL, 0), *there;
	pid_t child;

	CHECK(segment >= 0 && here != (void *)-1);
	child = fork_or_die();
	if (!child) {
		there = shmat(segment, NULL, SHM_RDONLY);
		CHECK(there != (void *)-1 && there != here);
		here[3] = 7;
		CHECK_EQUAL(there[3], 7);
		CHECK_EQUAL(touch((void *)there, true).code, SEGV_ACCERR);
		_exit(0);
	}
	wait_for_success(child);
	CHECK_EQUAL(here[3], 7);
	CHECK(!shmctl(segment, IPC_RMID, NULL) && !shmdt((void *)here));
}

void other_memory(void)
{
	char *memory = map(4 * PAGE, MAP_PRIVATE);
	int ends[2];
	pid_t child;
	char byte;

	CHECK(!pipe(ends));
	child = fork_or_die();
	if (!child) {
		CHECK(!close(ends[1]));
		strcpy(memory, "childs");
		CHECK(!mprotect(memory + PAGE, PAGE, PROT_READ));
		CHECK(!read(ends[0], &byte, 1));
		CHECK(!strcmp(memory, "parents") && !strcmp(memory + PAGE, "forced"));
		CHECK(!memcmp(memory + 3 * PAGE - 3, "called", 7));
		_exit(0);
	}
	while (memory[0] != 'c') {
		struct iovec here = { memory, 8 }, there = { memory, 8 };

		CHECK(process_vm_readv(child, &here, 1, &there, 1, 0) == 8);
		usleep(1000);
	}
	wait_until_asleep(child);
	check_by_file(child, memory);
	check_by_call(child, memory + PAGE);
	CHECK(!close(ends[1]));
	wait_for_success(child);
	check_shared_segment();
}
