/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_IO_H
#define _ASM_OUTBOARD_IO_H

#define IO_SPACE_LIMIT 0
#include <asm-generic/io.h>
#define page_to_phys(page) ((phys_addr_t)page_to_pfn(page) << PAGE_SHIFT)
#endif
