// SPDX-License-Identifier: GPL-2.0-only
/*
 * The runs of pages that a space shows, or will show when the mapper's list is carried out. They
 * are for ob_host_space_protect(): the host changes the rights of ranges without holes only.
 *
 * The table is complete, or says that it is not (`has_lost_runs`), until nothing is shown any more.
 * It may have runs that are not shown: the mapper drops everything if the host has no room. The
 * host then refuses to change their rights, and the mapper drops everything again.
 */
#include "space.h"

static void add(struct ob_space *space, uint64_t address, uint64_t end, int protection)
{
	struct ob_space_run *last = space->run_count ? &space->runs[space->run_count - 1] : NULL;

	if (last && last->end == address && last->protection == protection)
		last->end = end;
	else if (space->run_count < RUNS_MOST)
		space->runs[space->run_count++] = (struct ob_space_run){ address, end, protection };
	else
		space->has_lost_runs = true;
}

void ob_runs_remove(struct ob_space *space, uint64_t address, uint64_t end)
{
	uint32_t i = 0;

	while (i < space->run_count) {
		struct ob_space_run *run = &space->runs[i], old = *run;

		if (old.end <= address || old.address >= end) {
			i++;
			continue;
		}
		/* Runs that are added behind the table do not overlap. */
		*run = space->runs[--space->run_count];
		if (old.address < address)
			add(space, old.address, address, old.protection);
		if (old.end > end)
			add(space, end, old.end, old.protection);
	}
}

void ob_runs_add(struct ob_space *space, uint64_t address, uint64_t end, int protection)
{
	ob_runs_remove(space, address, end);
	add(space, address, end, protection);
}

void ob_runs_clear(struct ob_space *space)
{
	space->run_count = 0;
	space->has_lost_runs = false;
}

bool ob_runs_are_within(const struct ob_space *space, uint64_t address, uint64_t end)
{
	if (space->has_lost_runs)
		return false;
	for (uint32_t i = 0; i < space->run_count; i++) {
		const struct ob_space_run *run = &space->runs[i];

		if (run->address < end && run->end > address &&
		    (run->address < address || run->end > end))
			return false;
	}
	return true;
}
