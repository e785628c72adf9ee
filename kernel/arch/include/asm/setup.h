/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_SETUP_H
#define _ASM_OUTBOARD_SETUP_H

#include <uapi/asm/setup.h>
#endif
