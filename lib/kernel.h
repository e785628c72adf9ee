/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel that the gate's functions (outboard/gate.h) and the platform's upcalls reach. */
#ifndef OUTBOARD_LIB_KERNEL_H
#define OUTBOARD_LIB_KERNEL_H

#include <outboard/tables.h>

/* From now on they are these; NULL: there is no kernel, and they fail with -ENODEV. */
void ob_kernel_attach(const struct ob_upcalls *upcalls);

/* The table that these changes are made to: the platform's upcalls go through it. */
const struct ob_upcalls *ob_kernel_table(void);

/* Linux's version magic of the kernel: a module must have the same. "": it loads none. */
const char *ob_kernel_magic(void);

/* boot.c: the platform's handle of the kernel; NULL before the first boot. */
struct ob_host *ob_boot_host(void);

#endif
