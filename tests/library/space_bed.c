// SPDX-License-Identifier: GPL-2.0-only
/* See space_bed.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "space_bed.h"
#include "space/space.h"

struct ob_space_event event;
struct ob_space_registers registers;

char *ram(uint64_t physical)
{
	return (char *)regions[OB_REGION_RAM] + physical;
}

void map(uint64_t space, uint64_t address, uint64_t physical, uint32_t protection)
{
	CHECK_EQUAL(ob_host_space_map(mock_host, space, address, physical, PAGE, protection), 0);
}

uint64_t new_space(const char *code, size_t size)
{
	uint64_t space = 0, calls;

	if (!regions[OB_REGION_RAM])
		setup();
	/* If the platform can: user code is then free to try them. */
	ob_host_space_calls(mock_host, &calls);
	memcpy(ram(CODE_PAGE), code, size);
	CHECK_EQUAL(ob_host_space_create(mock_host, &space), 0);
	CHECK(space);
	map(space, CODE, CODE_PAGE, EXECUTE);
	map(space, DATA, DATA_PAGE, WRITE);
	return space;
}

uint32_t enter(uint64_t space)
{
	ob_host_space_enter(mock_host, space, 0, &registers, &event);
	return event.kind;
}

uint32_t enter_at_code(uint64_t space)
{
	registers = (struct ob_space_registers){ .ip = CODE, .sp = DATA + PAGE, .flags = 0x202 };
	return enter(space);
}

static pthread_t repeater;
static bool is_repeating;

static void *repeat_thread(void *fn)
{
	while (__atomic_load_n(&is_repeating, __ATOMIC_ACQUIRE)) {
		/* On an overloaded host user code needs some milliseconds to go on at all. */
		usleep(5000);
		((void (*)(void))fn)();
	}
	return NULL;
}

void repeat(void (*fn)(void))
{
	__atomic_store_n(&is_repeating, true, __ATOMIC_RELEASE);
	CHECK(!pthread_create(&repeater, NULL, repeat_thread, (void *)fn));
}

void end_repeating(void)
{
	__atomic_store_n(&is_repeating, false, __ATOMIC_RELEASE);
	CHECK(!pthread_join(repeater, NULL));
}

void interrupt_all(void)
{
	ob_host_space_interrupt(mock_host, 0);
	ob_host_space_interrupt(mock_host, 1);
}

pid_t stub_of(uint64_t space)
{
	return mock_host->spaces->spaces[space].pid;
}

/* A process that has ended is there until its parent has noticed. */
static bool is_alive(pid_t pid)
{
	char name[32], line[256] = "";
	FILE *file;
	bool alive;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	file = fopen(name, "r");
	if (!file)
		return false;
	alive = fgets(line, sizeof(line), file) && !strstr(line, ") Z") && !strstr(line, ") X");
	fclose(file);
	return alive;
}

bool process_ends(pid_t pid)
{
	for (int i = 0; i < 5000; i++) {
		if (!is_alive(pid))
			return true;
		usleep(1000);
	}
	return false;
}
