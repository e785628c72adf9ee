/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#ifndef _UAPI_ASM_OUTBOARD_AUXVEC_H
#define _UAPI_ASM_OUTBOARD_AUXVEC_H

#define AT_SYSINFO_EHDR 33

#define AT_VECTOR_SIZE_ARCH 2		/* AT_MINSIGSTKSZ, AT_SYSINFO_EHDR */
#endif
