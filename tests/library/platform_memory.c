// SPDX-License-Identifier: GPL-2.0-only
/* Tests of the POSIX platform: regions of memory and mappings. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "platform_bed.h"

static uint64_t resident_bytes(void)
{
	unsigned long total, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file);
	CHECK(fscanf(file, "%lu %lu", &total, &resident) == 2);
	fclose(file);
	return resident * 4096;
}

static void test_regions(void)
{
	uint64_t address, before;

	setup();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, RAM_SIZE, &address), -EEXIST);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, 0, &address), -EINVAL);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGIONS, 4096, &address), -EINVAL);
	CHECK_EQUAL(mock_read_byte((void *)regions[OB_REGION_RAM]), 0);
	CHECK_EQUAL(mock_write_byte((void *)(regions[OB_REGION_RAM] + RAM_SIZE - 1)), 0);
	for (int i = OB_REGION_RAM + 1; i < OB_REGION_SHADOW; i++) {
		CHECK_EQUAL(mock_read_byte((void *)regions[i]), -EFAULT);
		CHECK_EQUAL(mock_write_byte((void *)(regions[i] + WINDOW_SIZE - 1)), -EFAULT);
	}
	before = resident_bytes();
	memset((void *)regions[OB_REGION_RAM], 1, 32 * MB);
	CHECK(resident_bytes() >= before + 30 * MB);
	ob_host_region_discard(mock_host, regions[OB_REGION_RAM], 32 * MB);
	CHECK(resident_bytes() < before + 4 * MB);
	CHECK_EQUAL(*(char *)regions[OB_REGION_RAM], 0);
	ob_host_regions_release(mock_host);
	CHECK_EQUAL(mock_read_byte((void *)regions[OB_REGION_RAM]), -EFAULT);
	reserve_all();
}

/* The shadow region has the wanted address, is zero and huge, and outlives the other regions. */
static void test_shadow(void)
{
	const uint64_t wanted = 0x200000000000, size = 1ull << 44;
	uint64_t address = (uint64_t)test_regions & ~0xfffull, before;

	start();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_SHADOW, size, &address), -ENOMEM);
	address = wanted;
	before = resident_bytes();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_SHADOW, size, &address), 0);
	CHECK_EQUAL(address, wanted);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_SHADOW, size, &address), -EEXIST);
	CHECK_EQUAL(*(char *)wanted, 0);
	*(char *)(wanted + size - 1) = 1;
	CHECK(resident_bytes() < before + 4 * MB);
	ob_host_regions_release(mock_host);
	CHECK_EQUAL(*(char *)(wanted + size - 1), 1);
}

static void test_commit(void)
{
	uint64_t stacks;

	setup();
	stacks = regions[OB_REGION_STACKS];
	CHECK_EQUAL(ob_host_region_commit(mock_host, stacks + 4096, 64 << 10), 0);
	CHECK_EQUAL(mock_read_byte((void *)stacks), -EFAULT);
	CHECK_EQUAL(mock_write_byte((void *)(stacks + 4096)), 0);
	CHECK_EQUAL(*(char *)(stacks + 4096), 1);
	ob_host_region_discard(mock_host, stacks + 4096, 64 << 10);
	CHECK_EQUAL(*(char *)(stacks + 4096), 0);
	CHECK_EQUAL(ob_host_region_commit(mock_host, regions[OB_REGION_VMALLOC], 4096), -EINVAL);
	CHECK_EQUAL(ob_host_region_commit(mock_host, stacks + WINDOW_SIZE - 4096, 8192), -EINVAL);
	CHECK_EQUAL(ob_host_region_commit(mock_host, stacks, 100), -EINVAL);
}

static void test_map(void)
{
	char *ram, *window;

	setup();
	ram = (char *)regions[OB_REGION_RAM];
	window = (char *)regions[OB_REGION_VMALLOC];
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, 8192, 4096,
				OB_PROTECTION_READ | OB_PROTECTION_WRITE),
		    0);
	ram[8192] = 'a';
	CHECK_EQUAL(window[0], 'a');
	window[1] = 'b';
	CHECK_EQUAL(ram[8193], 'b');
	CHECK_EQUAL(mock_read_byte(window + 4096), -EFAULT);
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, 12288, 8192, OB_PROTECTION_READ), 0);
	CHECK_EQUAL(window[0], 0);
	CHECK_EQUAL(mock_write_byte(window), -EFAULT);
	CHECK_EQUAL(mock.last_fault.flags, OB_FAULT_WRITE);
	CHECK_EQUAL(mock.last_fault.address, window);
	CHECK_EQUAL(ob_host_unmap(mock_host, (uint64_t)window, 4096), 0);
	CHECK_EQUAL(mock_read_byte(window), -EFAULT);
	CHECK_EQUAL(mock.last_fault.flags, 0);
	CHECK_EQUAL(mock_read_byte(window + 4096), 0);
}

/* One bad range keeps no other one mapped. */
static void test_unmap_many(void)
{
	struct ob_range ranges[2];
	char *window;

	setup();
	window = (char *)regions[OB_REGION_VMALLOC];
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, 8192, 16384, OB_PROTECTION_READ), 0);
	ranges[0] = (struct ob_range){ (uint64_t)window, 4096 };
	ranges[1] = (struct ob_range){ (uint64_t)window + 12288, 4096 };
	CHECK_EQUAL(ob_host_unmap_many(mock_host, ranges, 2), 0);
	CHECK_EQUAL(mock_read_byte(window), -EFAULT);
	CHECK_EQUAL(mock_read_byte(window + 4096), 0);
	CHECK_EQUAL(mock_read_byte(window + 8192), 0);
	CHECK_EQUAL(mock_read_byte(window + 12288), -EFAULT);
	ranges[0].address = regions[OB_REGION_RAM];
	ranges[1].address = (uint64_t)window + 4096;
	CHECK_EQUAL(ob_host_unmap_many(mock_host, ranges, 2), -EINVAL);
	CHECK_EQUAL(mock_read_byte((void *)regions[OB_REGION_RAM]), 0);
	CHECK_EQUAL(mock_read_byte(window + 4096), -EFAULT);
	CHECK_EQUAL(mock_read_byte(window + 8192), 0);
}

/* More RAM may lie in another file, which the kernel cannot notice. */
static void test_extend(void)
{
	const uint64_t border = 32 * MB;
	char *ram, *window;

	ob_platform_prepare(mock_host);
	setup();
	ram = (char *)regions[OB_REGION_RAM];
	window = (char *)regions[OB_REGION_CLIENT];
	memset(ram + border - 4096, 'a', 4096);
	CHECK_EQUAL(ob_host_ram_extend(mock_host, (uint64_t)ram, border), 0);
	CHECK_EQUAL(ob_host_ram_extend(mock_host, (uint64_t)ram + border, 4 * MB), 0);
	CHECK_EQUAL(ob_host_ram_extend(mock_host, (uint64_t)ram + border + 4 * MB, 4 * MB), 0);
	CHECK_EQUAL(ram[border - 1], 'a');
	CHECK_EQUAL(ram[border], 0);
	memset(ram + border, 'b', 16 * MB);
	CHECK_EQUAL(ob_host_map(mock_host, (uint64_t)window, border - 4096, 8192,
				OB_PROTECTION_READ | OB_PROTECTION_WRITE),
		    0);
	CHECK_EQUAL(window[0], 'a');
	CHECK_EQUAL(window[4096], 'b');
	window[0] = window[4096] = 'c';
	CHECK_EQUAL(ram[border - 4096], 'c');
	CHECK_EQUAL(ram[border], 'c');
	ob_host_region_discard(mock_host, (uint64_t)ram + border, MB);
	CHECK_EQUAL(ram[border], 0);
	CHECK_EQUAL(window[4096], 0);
	CHECK_EQUAL(ram[border - 4096], 'c');
	CHECK_EQUAL(ram[border + MB], 'b');
	ob_host_regions_release(mock_host);
	reserve_all();
	CHECK_EQUAL(*((char *)regions[OB_REGION_RAM] + border + MB), 0);
}

static void test_map_errors(void)
{
	uint64_t window, end;

	setup();
	window = regions[OB_REGION_CLIENT];
	end = window + WINDOW_SIZE;
	CHECK_EQUAL(ob_host_map(mock_host, window, RAM_SIZE, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, RAM_SIZE - 4096, 8192, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, 1, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window + 1, 0, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, 0, 0, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, window, UINT64_MAX - 4095, 8192, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, end - 4096, 0, 8192, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, regions[OB_REGION_RAM], 0, 4096, ALL_ACCESS), -EINVAL);
	CHECK_EQUAL(ob_host_map(mock_host, regions[OB_REGION_STACKS], 0, 4096, ALL_ACCESS),
		    -EINVAL);
	CHECK_EQUAL(ob_host_unmap(mock_host, end, 4096), -EINVAL);
	CHECK_EQUAL(ob_host_unmap(mock_host, regions[OB_REGION_RAM], 4096), -EINVAL);
}

static void test_modules_near_and_executable(void)
{
	/* mov $42, %eax; ret */
	static const unsigned char return_42[] = { 0xb8, 42, 0, 0, 0, 0xc3 };
	int64_t distance;
	uint64_t window;

	setup();
	window = regions[OB_REGION_MODULES];
	distance = (int64_t)(window - (uint64_t)&ob_host_region_reserve);
	CHECK(distance > -(1l << 30) && distance + (int64_t)WINDOW_SIZE < 1l << 30);
	memcpy((char *)regions[OB_REGION_RAM] + 4096, return_42, sizeof(return_42));
	CHECK_EQUAL(ob_host_map(mock_host, window, 4096, 4096,
				OB_PROTECTION_READ | OB_PROTECTION_EXECUTE),
		    0);
	CHECK_EQUAL(((int (*)(void))window)(), 42);
}

/* A host that has no room for more mappings says -ENOMEM, and unmapping gives room again. */
static void test_mappings_run_out(void)
{
	uint64_t size = 1024 * MB, window, pages = size / 4096, mapped = 0;
	int error = 0;

	start();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, RAM_SIZE,
					   &regions[OB_REGION_RAM]),
		    0);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_CLIENT, size, &window), 0);
	while (!error && mapped < pages / 2) {
		/* With gaps, so that no two become one. */
		error = ob_host_map(mock_host, window + mapped * 8192, 0, 4096, OB_PROTECTION_READ);
		mapped += !error;
	}
	CHECK(mapped > 10000);
	CHECK(error == -ENOMEM || mapped == pages / 2);
	for (uint64_t i = 0; i < 100; i++)
		CHECK_EQUAL(ob_host_unmap(mock_host, window + i * 8192, 4096), 0);
	CHECK_EQUAL(mock_read_byte((void *)window), -EFAULT);
	CHECK_EQUAL(ob_host_unmap(mock_host, window, size), 0);
	CHECK_EQUAL(ob_host_map(mock_host, window + size - 4096, 0, 4096, OB_PROTECTION_READ), 0);
}

static void test_address_space_runs_out(void)
{
	struct rlimit limit = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
	uint64_t address;

	start();
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_CLIENT, 1ull << 48, &address),
		    -ENOMEM);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_MODULES, 1ull << 30, &address),
		    -ENOMEM);
	CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_RAM, RAM_SIZE, &address), -ENOMEM);
	CHECK_EQUAL(ob_host_region_reserve(mock_host, OB_REGION_MODULES, WINDOW_SIZE, &address),
		    -ENOMEM);
}

const struct platform_test memory_tests[] = {
	TEST(regions),
	TEST(shadow),
	TEST(commit),
	TEST(map),
	TEST(unmap_many),
	TEST(extend),
	TEST(map_errors),
	TEST(modules_near_and_executable),
	TEST(mappings_run_out),
	TEST(address_space_runs_out),
	{ NULL, NULL },
};
