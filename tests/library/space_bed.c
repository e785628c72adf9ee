// SPDX-License-Identifier: GPL-2.0-only
/* See space_bed.h. */
#define _GNU_SOURCE
#include <string.h>

#include "space_bed.h"

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
	uint64_t space = 0;

	if (!regions[OB_REGION_RAM])
		setup();
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
