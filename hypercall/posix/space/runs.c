// SPDX-License-Identifier: GPL-2.0-only
/*
 * The runs of pages that a space shows, or will show when the mapper's list is carried out. They
 * are for ob_host_space_protect(): the host changes the rights of ranges without holes only.
 *
 * The table is sorted. Neighbours with the same rights are one run. So it has an entry for each
 * change of rights and each hole, and not for each mapping.
 *
 * The table is complete, or says that it is not (`has_lost_runs`), until nothing is shown any more.
 * It may have runs that are not shown: the mapper drops everything if the host has no room. The
 * host then refuses to change their rights, and the mapper drops everything again.
 */
#include <string.h>

#include "space.h"

/* The first run that ends behind the address, or the end of the table. */
static uint32_t find(const struct ob_space *space, uint64_t address)
{
	uint32_t least = 0, most = space->run_count;

	while (least < most) {
		uint32_t middle = least + (most - least) / 2;

		if (space->runs[middle].end > address)
			most = middle;
		else
			least = middle + 1;
	}
	return least;
}

static void insert(struct ob_space *space, uint32_t i, struct ob_space_run run)
{
	struct ob_space_run *at = &space->runs[i];

	if (space->run_count == RUNS_MOST) {
		space->has_lost_runs = true;
		return;
	}
	memmove(at + 1, at, (space->run_count++ - i) * sizeof(*at));
	*at = run;
}

static void delete(struct ob_space *space, uint32_t i, uint32_t count)
{
	struct ob_space_run *at = &space->runs[i];

	memmove(at, at + count, (space->run_count - i - count) * sizeof(*at));
	space->run_count -= count;
}

/* Cuts the run at the address in two, if it goes across. The index of the run behind it. */
static uint32_t cut(struct ob_space *space, uint64_t address)
{
	uint32_t i = find(space, address);
	struct ob_space_run *run = &space->runs[i], behind;

	if (i == space->run_count || run->address >= address)
		return i;
	behind = *run;
	behind.address = address;
	run->end = address;
	insert(space, ++i, behind);
	return i;
}

void ob_runs_remove(struct ob_space *space, uint64_t address, uint64_t end)
{
	uint32_t first = cut(space, address);
	uint32_t last = cut(space, end);

	delete(space, first, last - first);
}

static bool are_one(const struct ob_space_run *run, const struct ob_space_run *next)
{
	return run->end == next->address && run->protection == next->protection;
}

void ob_runs_add(struct ob_space *space, uint64_t address, uint64_t end, int protection)
{
	const struct ob_space_run run = { address, end, protection, false };
	struct ob_space_run *next;
	uint32_t i;

	ob_runs_remove(space, address, end);
	i = find(space, address);
	next = &space->runs[i];
	if (i && are_one(next - 1, &run)) {
		next[-1].end = end;
		if (i < space->run_count && are_one(next - 1, next)) {
			next[-1].end = next->end;
			delete(space, i, 1);
		}
	} else if (i < space->run_count && are_one(&run, next)) {
		next->address = address;
	} else {
		insert(space, i, run);
	}
}

void ob_runs_clear(struct ob_space *space)
{
	space->run_count = 0;
	space->has_lost_runs = false;
}

/* Whether all runs are known, and none is in the range in part. */
static bool are_within(const struct ob_space *space, uint64_t address, uint64_t end)
{
	const uint32_t first = find(space, address), last = find(space, end);

	return !space->has_lost_runs &&
	       (first == space->run_count || space->runs[first].address >= address) &&
	       (last == space->run_count || space->runs[last].address >= end);
}

bool ob_runs_protect(struct ob_space *space, uint64_t address, uint64_t end, int protection)
{
	uint32_t count = 0;

	if (!are_within(space, address, end))
		return false;
	for (uint32_t i = 0; i < space->run_count; i++) {
		struct ob_space_run run = space->runs[i];

		if (run.address >= address && run.end <= end && run.protection & ~protection) {
			run.protection &= protection;
			run.changes = true;
		}
		if (count && are_one(&space->runs[count - 1], &run)) {
			space->runs[count - 1].end = run.end;
			space->runs[count - 1].changes |= run.changes;
		} else {
			space->runs[count++] = run;
		}
	}
	space->run_count = count;
	return true;
}
