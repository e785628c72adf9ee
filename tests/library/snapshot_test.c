// SPDX-License-Identifier: GPL-2.0-only
/*
 * Differences between two starts of one snapshot that must be, or must not. Prints random numbers
 * for the caller to compare; checks clocks, vCPUs, and memory that the snapshot has when it gets
 * another use.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define MEGABYTE (1ul << 20)

static void print_random(void)
{
	unsigned char bytes[16];

	CHECK_EQUAL(ob_sys_getrandom((char *)bytes, sizeof(bytes), 0), (long)sizeof(bytes));
	printf("random ");
	for (size_t i = 0; i < sizeof(bytes); i++)
		printf("%02x", bytes[i]);
	printf("\n");
}

static void print_file(const char *label, const char *path)
{
	char text[4096];
	int file = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0));
	long length = OK(ob_sys_read(file, text, sizeof(text) - 1));

	text[length] = '\0';
	printf("%s %s%s", label, text, length && text[length - 1] == '\n' ? "" : "\n");
	OK(ob_sys_close(file));
}

static double seconds(const struct timespec *time)
{
	return (double)time->tv_sec + (double)time->tv_nsec / 1e9;
}

static void clocks(void)
{
	struct timespec ours, host, later, before, after, nap = { .tv_nsec = 30000000 };

	clock_gettime(CLOCK_REALTIME, &host);
	OK(ob_sys_clock_gettime(CLOCK_REALTIME, &ours));
	clock_gettime(CLOCK_REALTIME, &later);
	CHECK(seconds(&ours) > seconds(&host) - 1.0 && seconds(&ours) < seconds(&later) + 1.0);
	OK(ob_sys_clock_gettime(CLOCK_BOOTTIME, &before));
	/* A snapshot's age is no time that this kernel has been up. */
	CHECK(seconds(&before) < 60);
	OK(ob_sys_nanosleep(&nap, NULL));
	OK(ob_sys_clock_gettime(CLOCK_BOOTTIME, &after));
	CHECK(seconds(&after) - seconds(&before) >= 0.03);
	CHECK(seconds(&after) - seconds(&before) < 120);
}

/*
 * Pages of the snapshot that are free or become so are used again, in windows too: those show what
 * the kernel sees.
 */
static void memory(void)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, "/tmp/file", O_CREAT | O_RDWR, 0600));
	size_t size = 24 * MEGABYTE;
	unsigned int *view, word;

	OK(ob_sys_ftruncate(file, (long)size));
	view = (unsigned int *)OK(
		ob_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
	for (size_t i = 0; i < size / 4096; i++) {
		CHECK_EQUAL(view[i * 1024], 0);
		view[i * 1024] = (unsigned int)i + 1;
	}
	for (size_t i = 0; i < size / 4096; i++) {
		CHECK_EQUAL(OK(ob_sys_pread64(file, &word, sizeof(word), (long)i * 4096)),
			    (long)sizeof(word));
		CHECK_EQUAL(word, (unsigned int)i + 1);
		word = ~word;
		CHECK_EQUAL(OK(ob_sys_pwrite64(file, &word, sizeof(word), (long)i * 4096)),
			    (long)sizeof(word));
		CHECK_EQUAL(view[i * 1024], ~((unsigned int)i + 1));
	}
	OK(ob_sys_munmap(view, size));
	OK(ob_sys_close(file));
	OK(ob_sys_unlink("/tmp/file"));
}

static void anonymous_zero_page(void)
{
	unsigned char *page = (unsigned char *)OK(
		ob_sys_mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	for (int i = 0; i < 4096; i++)
		CHECK_EQUAL(page[i], 0);
	OK(ob_sys_munmap(page, 4096));
}

static void all_vcpus_come_up(unsigned int wanted)
{
	unsigned long mask[16] = { 0 };

	OK(ob_sys_sched_getaffinity(0, sizeof(mask), mask));
	CHECK_EQUAL((unsigned int)__builtin_popcountl(mask[0]), wanted);
}

static void use_it(unsigned int vcpus)
{
	clocks();
	memory();
	anonymous_zero_page();
	all_vcpus_come_up(vcpus);
	memory();
}

/* Nothing of the kernel can be there. */
static void take_address(const char *number)
{
	void *address = number ? (void *)strtoul(number, NULL, 16) : NULL;

	CHECK(!address ||
	      mmap(address, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		   0) == address);
}

/* Arguments: vCPUs; and any other one: only tell what is random. */
int main(int count, char *arguments[])
{
	unsigned int vcpus = count > 1 ? (unsigned int)atoi(arguments[1]) : 2;

	take_address(getenv("TAKEN"));
	client_boot(vcpus);
	print_random();
	print_file("boot-id", "/proc/sys/kernel/random/boot_id");
	if (count <= 2)
		use_it(vcpus);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
