/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* As the C libraries of x86-64 hosts lay it out. */
#ifndef _UAPI_ASM_OUTBOARD_SEMBUF_H
#define _UAPI_ASM_OUTBOARD_SEMBUF_H

#include <asm/ipcbuf.h>

struct semid64_ds {
	struct ipc64_perm sem_perm;
	__kernel_long_t sem_otime;
	__kernel_ulong_t __unused1;
	__kernel_long_t sem_ctime;
	__kernel_ulong_t __unused2;
	__kernel_ulong_t sem_nsems;
	__kernel_ulong_t __unused3;
	__kernel_ulong_t __unused4;
};
#endif
