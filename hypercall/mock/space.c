// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spaces whose user code is a script of a test. A space is a list of pages, and the script asks
 * for each page that it uses whether the space shows it. So a page fault is what it is elsewhere.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

/* The legacy part of XSAVE's format, and the header. */
#define VECTOR_LEAST 576u

static struct mock_space *space_of(struct ob_host *host, uint64_t number)
{
	if (number && number <= MOCK_SPACES && host->spaces[number - 1].used)
		return &host->spaces[number - 1];
	host->counts.wrong_spaces++;
	return NULL;
}

/* What the test wants a call to fail with; 0: nothing. */
static int wanted_error(struct ob_host *host, enum mock_space_call call)
{
	const struct mock_program *program = host->options.program;

	return program->fail ? program->fail(program->state, call) : 0;
}

int ob_host_space_create(struct ob_host *host, uint64_t *space)
{
	int error = wanted_error(host, MOCK_SPACE_CREATE);

	if (error)
		return error;
	for (uint64_t i = 0; i < MOCK_SPACES; i++) {
		if (host->spaces[i].used)
			continue;
		host->spaces[i] = (struct mock_space){ .used = true };
		host->counts.spaces++;
		*space = i + 1;
		return 0;
	}
	return -EAGAIN;
}

void ob_host_space_destroy(struct ob_host *host, uint64_t number)
{
	struct mock_space *space = space_of(host, number);

	if (!space)
		return;
	space->used = false;
	host->counts.spaces--;
}

static struct mock_space_page *page_of(struct mock_space *space, uint64_t address)
{
	for (uint32_t i = 0; i < space->count; i++)
		if (space->pages[i].address == (address & ~(PAGE_BYTES - 1)))
			return &space->pages[i];
	return NULL;
}

int ob_host_space_map(struct ob_host *host, uint64_t number, uint64_t address, uint64_t physical,
		      uint64_t size, uint32_t protection)
{
	struct mock_space *space = space_of(host, number);
	int error = wanted_error(host, MOCK_SPACE_MAP);

	if (!space)
		return -EINVAL;
	if (error)
		return error;
	for (uint64_t done = 0; done < size; done += PAGE_BYTES) {
		struct mock_space_page *page = page_of(space, address + done);

		if (!page && space->count == MOCK_SPACE_PAGES)
			return -ENOMEM;
		if (!page)
			page = &space->pages[space->count++];
		*page = (struct mock_space_page){ address + done, physical + done, protection };
	}
	return 0;
}

void ob_host_space_unmap(struct ob_host *host, uint64_t number, uint64_t address, uint64_t size)
{
	struct mock_space *space = space_of(host, number);
	uint32_t i = 0;

	while (space && i < space->count) {
		if (space->pages[i].address - address < size)
			space->pages[i] = space->pages[--space->count];
		else
			i++;
	}
}

int ob_host_space_protect(struct ob_host *host, uint64_t number, uint64_t address, uint64_t size,
			  uint32_t protection)
{
	struct mock_space *space = space_of(host, number);
	int error = wanted_error(host, MOCK_SPACE_PROTECT);

	if (error)
		return error;
	for (uint32_t i = 0; space && i < space->count; i++)
		if (space->pages[i].address - address < size)
			space->pages[i].protection &= protection;
	return 0;
}

void *mock_space_memory(struct ob_host *host, uint64_t number, uint64_t address,
			uint32_t protection)
{
	struct mock_space *space = space_of(host, number);
	const struct mock_space_page *page = space ? page_of(space, address) : NULL;

	if (!page || ~page->protection & protection)
		return NULL;
	return (char *)mock_ram(host, page->physical) + address % PAGE_BYTES;
}

void ob_host_space_enter(struct ob_host *host, uint64_t number, uint32_t vcpu,
			 struct ob_space_registers *registers, struct ob_space_event *event)
{
	const struct mock_program *program = host->options.program;

	*event = (struct ob_space_event){ .kind = OB_SPACE_INTERRUPTED };
	if (!space_of(host, number))
		event->kind = OB_SPACE_GONE;
	else if (host->space_interrupts & 1ull << vcpu)
		host->space_interrupts &= ~(1ull << vcpu);
	else
		program->run(program->state, number, registers, event);
}

int ob_host_space_vector(struct ob_host *host, uint32_t vcpu, void *area, uint64_t size,
			 uint32_t store)
{
	const uint64_t most = size < MOCK_VECTOR_BYTES ? size : MOCK_VECTOR_BYTES;

	if (size < VECTOR_LEAST)
		return -EINVAL;
	if (store) {
		memset(area, 0, size);
		memcpy(area, host->vectors[vcpu], most);
	} else {
		memcpy(host->vectors[vcpu], area, most);
	}
	return 0;
}

/* User code is none of this machine: it can call no function. */
int ob_host_space_clock(struct ob_host *host, uint64_t *address)
{
	(void)host;
	(void)address;
	return -ENOSYS;
}

int ob_host_space_calls(struct ob_host *host, uint64_t *address)
{
	(void)host;
	(void)address;
	return -ENOSYS;
}

/* The only host thread is not in user code now. */
void ob_host_space_interrupt(struct ob_host *host, uint32_t vcpu)
{
	host->space_interrupts |= 1ull << vcpu;
}
