/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#ifndef _UAPI_ASM_OUTBOARD_UNISTD_H
#define _UAPI_ASM_OUTBOARD_UNISTD_H

#include <asm/unistd_64.h>
#endif
