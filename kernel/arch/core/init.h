/* SPDX-License-Identifier: GPL-2.0-only */
/* Process 1, and nodes of devices: init.c. */
#ifndef OUTBOARD_CORE_INIT_H
#define OUTBOARD_CORE_INIT_H

#include <linux/init.h>
#include <linux/types.h>

void __noreturn ob_init_main(void);
int ob_init_clone(void);
void ob_device_node(const char *name, umode_t type, dev_t device);

#endif
