/* SPDX-License-Identifier: GPL-2.0-only */
/* Page faults in the memory of programs: space_fault.c. */
#ifndef OUTBOARD_CORE_SPACE_FAULT_H
#define OUTBOARD_CORE_SPACE_FAULT_H

#include <linux/mm_types.h>

struct ob_trap;

enum ob_fault_outcome {
	OB_FAULT_DONE,
	OB_FAULT_NO_AREA,		/* nothing is mapped there */
	OB_FAULT_NO_ACCESS,		/* the mapping does not allow it */
	OB_FAULT_NO_DATA,		/* a file has no such page, or it could not be read */
	OB_FAULT_NO_MEMORY,
	OB_FAULT_SIGNAL,		/* a signal came first */
};

enum ob_fault_outcome ob_space_fault(struct mm_struct *mm, unsigned long address,
				     unsigned int flags);
void ob_program_fault(const struct ob_trap *trap);

#endif
