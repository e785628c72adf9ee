/* SPDX-License-Identifier: GPL-2.0-only */
/* The host of this kernel: every hypercall names it. core/host.c */
#ifndef _ASM_OUTBOARD_HOST_H
#define _ASM_OUTBOARD_HOST_H

#include <outboard/hypercall.h>

/* Data of the process: no snapshot has them, and they outlive a halt (vmlinux.lds.S). */
#define __ob_host_data __section("outboard_host")

extern struct ob_host *ob_host;

#endif
