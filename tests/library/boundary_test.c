// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hosts that break a rule of the interface, and how the kernel refuses them: the platform is
 * hypercall/mock. And one rule that the kernel has to keep: it hides all pages that it gives away.
 *
 * usage: boundary_test IMAGE CASE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "check.h"
#include "mock.h"

#define MB (1ul << 20)

static struct ob_host *host;
static char text[65536];
static size_t length;

#define CALL(number, a, b, c, d, e) \
	mock_call(host, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

/* Keeps what fits of the log. */
static void keep(int level, const char *line, uint64_t size)
{
	if (level > 4 || size + 2 > sizeof(text) - length)
		return;
	memcpy(text + length, line, size);
	length += size;
	text[length++] = '\n';
	text[length] = '\0';
}

static struct ob_host *load(const char *image, struct mock_options options)
{
	options.memory = 64 * MB;
	options.vcpus = 1;
	options.log_level = 4;
	options.log = keep;
	text[0] = '\0';
	length = 0;
	return mock_new(image, &options);
}

/* The entry point refuses that table, and says why. */
static void check_refused(const char *image, void (*change)(struct ob_hypercalls *table),
			  const char *why)
{
	CHECK(!load(image, (struct mock_options){ .change = change }));
	CHECK(mock_refusal());
	if (strcmp(mock_refusal(), why)) {
		fprintf(stderr, "%s\nis not\n%s\n", mock_refusal(), why);
		_Exit(1);
	}
}

static void another_version(struct ob_hypercalls *table)
{
	table->version = 2;
}

static void no_clocks(struct ob_hypercalls *table)
{
	table->clocks = NULL;
}

static void table_cut(struct ob_hypercalls *table)
{
	table->size = offsetof(struct ob_hypercalls, threads) + 4;
}

static void memory_cut(struct ob_hypercalls *table)
{
	static struct ob_host_memory cut;

	cut = *table->memory;
	cut.size = offsetof(struct ob_host_memory, ram_extend) + 7;
	table->memory = &cut;
}

static void memory_empty(struct ob_hypercalls *table)
{
	static const struct ob_host_memory empty;

	table->memory = &empty;
}

static void no_wake(struct ob_hypercalls *table)
{
	static struct ob_host_threads hole;

	hole = *table->threads;
	hole.wake = NULL;
	table->threads = &hole;
}

#define LACKS(function, group) \
	"the host's table lacks the function " function " of the required group " group

static void test_refused(const char *image)
{
	check_refused(image, another_version,
		      "the host's table has version 2, this kernel needs 3");
	check_refused(image, no_clocks, LACKS("clock_monotonic", "clocks"));
	check_refused(image, table_cut, LACKS("thread_create", "threads"));
	check_refused(image, memory_cut, LACKS("ram_extend", "memory"));
	check_refused(image, memory_empty, LACKS("region_reserve", "memory"));
	check_refused(image, no_wake, LACKS("wake", "threads"));
}

static void test_thread_block(const char *image)
{
	CHECK(!load(image, (struct mock_options){ .thread_block = 63 }));
	CHECK(strstr(mock_refusal(), "uses 64 bytes of each thread's block, and this host has 63"));
	host = load(image, (struct mock_options){ .thread_block = 64 });
	CHECK(host);
	mock_free(host);
}

static void block_cut(struct ob_hypercalls *table)
{
	static struct ob_host_block cut;

	cut = *table->block;
	cut.size = offsetof(struct ob_host_block, block_completed);
	table->block = &cut;
}

/* The kernel boots, names what is missing, and calls no function of the group. */
static void test_half_a_group(const char *image)
{
	struct ob_disk_parameters disk = { .path = "ram" };
	char name[32];

	host = load(image, (struct mock_options){ .disk_size = MB, .change = block_cut });
	CHECK(host);
	CHECK_EQUAL(mock_boot(host), 0);
	CHECK(strstr(text, "the kernel does not use the host's group block: "
			   "it lacks the function block_completed"));
	CHECK(!strstr(text, "the host's group timer"));
	CHECK_EQUAL(mock_upcalls(host)->disk_add(&disk, name), -ENOSYS);
	CHECK_EQUAL(mock_halt(host), 0);
	mock_free(host);
}

/* The mistake of the next host: which region is elsewhere, and where. */
static enum ob_region wrong_region;
static uint64_t wrong_bits, last_address;
static bool is_on_the_last;

static uint64_t place(enum ob_region region, uint64_t address)
{
	if (region == wrong_region && is_on_the_last)
		return last_address;
	last_address = address;
	return region == wrong_region ? address | wrong_bits : address;
}

static void check_region(const char *image, enum ob_region region, const char *name,
			 const char *fault)
{
	char address[32];

	wrong_region = region;
	host = load(image, (struct mock_options){ .place = place, .mapping = true });
	CHECK(host);
	CHECK_EQUAL(mock_boot(host), -EFAULT);
	snprintf(address, sizeof(address), "%#lx",
		 is_on_the_last ? last_address : last_address | wrong_bits);
	if (!strstr(text, name) || !strstr(text, address) || !strstr(text, fault)) {
		fprintf(stderr, "%s does not say %s, %s and %s\n", text, name, address, fault);
		_Exit(1);
	}
	mock_free(host);
}

static void check_regions(const char *image, const char *fault)
{
	check_region(image, OB_REGION_RAM, "RAM", fault);
	check_region(image, OB_REGION_VMALLOC, "VMALLOC", fault);
	check_region(image, OB_REGION_CLIENT, "CLIENT", fault);
	check_region(image, OB_REGION_STACKS, "STACKS", fault);
	check_region(image, OB_REGION_PAGES, "PAGES", fault);
}

static void test_regions(const char *image)
{
	wrong_bits = 1ul << 47;
	check_regions(image, "is not below 2^47");
	wrong_bits = 0xffffull << 48;
	check_region(image, OB_REGION_MODULES, "MODULES", "is not below 2^47");
	wrong_bits = 4096;
	check_regions(image, "is not aligned to 16 MB");
	/* MODULES is the first. */
	is_on_the_last = true;
	check_regions(image, "is in another region");
}

/* Opens a pair of terminals, whose buffers come from vmalloc. Returns its descriptor. */
static long open_terminals(void)
{
	long fd = CALL(SYS_open, "/pts/ptmx", O_RDWR, 0, 0, 0);

	CHECK(fd >= 0);
	return fd;
}

/*
 * Linux frees buffers at once, but hides their addresses later, all that are between the lowest and
 * the highest, except live ones. Some stay open, so this is many ranges.
 */
static void test_hidden(const char *image)
{
	const struct mock_counts *counts;
	uint64_t before, each, live = 1;
	long fd;

	host = load(image, (struct mock_options){ .mapping = true });
	CHECK(host);
	counts = mock_counts(host);
	CHECK_EQUAL(mock_boot(host), 0);
	CHECK_EQUAL(CALL(SYS_mkdir, "/pts", 0755, 0, 0, 0), 0);
	CHECK_EQUAL(CALL(SYS_mount, "none", "/pts", "devpts", 0, "ptmxmode=0666"), 0);
	before = counts->mapped;
	open_terminals();
	each = counts->mapped - before;
	CHECK(each > 0);
	for (int i = 1; i < 4096 && counts->most_ranges < 2; i++) {
		fd = open_terminals();
		if (i % 32 == 0)
			live++;
		else
			CHECK_EQUAL(CALL(SYS_close, fd, 0, 0, 0, 0), 0);
	}
	CHECK(counts->most_ranges > 8);
	CHECK(live > 20);
	CHECK(counts->mapped - before < (live + 2) * each);
	CHECK_EQUAL(mock_halt(host), 0);
	mock_free(host);
}

int main(int argc, char **argv)
{
	const char *image = argv[1], *which = argc > 2 ? argv[2] : "";

	if (!strcmp(which, "refused"))
		test_refused(image);
	else if (!strcmp(which, "thread-block"))
		test_thread_block(image);
	else if (!strcmp(which, "half-a-group"))
		test_half_a_group(image);
	else if (!strcmp(which, "regions"))
		test_regions(image);
	else if (!strcmp(which, "hidden"))
		test_hidden(image);
	else
		CHECK(!"usage: boundary_test IMAGE CASE");
	puts("done");
	return 0;
}
