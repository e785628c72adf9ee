/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* As x86-64 hosts have it: struct sigaction carries a restorer, which nobody uses. */
#ifndef _UAPI_ASM_OUTBOARD_SIGNAL_H
#define _UAPI_ASM_OUTBOARD_SIGNAL_H

#define SA_RESTORER 0x04000000

#include <asm-generic/signal.h>
#endif
