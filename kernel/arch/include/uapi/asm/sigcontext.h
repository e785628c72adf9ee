/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* Signal handlers of clients are called as functions: there is no frame to describe. */
#ifndef _UAPI_ASM_OUTBOARD_SIGCONTEXT_H
#define _UAPI_ASM_OUTBOARD_SIGCONTEXT_H

struct sigcontext {
	unsigned long reserved[32];
};
#endif
