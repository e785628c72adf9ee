/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#ifndef _UAPI_ASM_OUTBOARD_MMAN_H
#define _UAPI_ASM_OUTBOARD_MMAN_H

#define MAP_32BIT 0x40			/* of a program: an address below 2 GB */

#include <asm-generic/mman.h>
#endif
