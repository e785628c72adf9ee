/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_SPARSEMEM_H
#define _ASM_OUTBOARD_SPARSEMEM_H

/* Memory is added in sections of 4 MB, up to 1 TB. */
#define SECTION_SIZE_BITS 22
#define MAX_PHYSMEM_BITS 40
#endif
