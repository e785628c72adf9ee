/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_SETUP_H
#define _ASM_OUTBOARD_SETUP_H

#include <uapi/asm/setup.h>

/* The generic 512 would leave a program too little beside the words of every boot. */
#undef COMMAND_LINE_SIZE
#define COMMAND_LINE_SIZE 1024

#endif
