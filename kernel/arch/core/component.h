/* SPDX-License-Identifier: GPL-2.0-only */
/* component.c: calls whose errors depend on whether a component could be loaded. */
#ifndef OUTBOARD_CORE_COMPONENT_H
#define OUTBOARD_CORE_COMPONENT_H

long ob_sys_mount(char __user *source, char __user *directory, char __user *type,
		  unsigned long flags, void __user *data);
long ob_sys_fsopen(const char __user *type, unsigned int flags);

#endif
