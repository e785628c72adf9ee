/* SPDX-License-Identifier: GPL-2.0-only */
/* Components: component.c, nocomponent.c. */
#ifndef OUTBOARD_CORE_COMPONENT_H
#define OUTBOARD_CORE_COMPONENT_H

int ob_components_load(const char *names);

/* Calls whose errors depend on whether a component could be loaded. */
long ob_sys_mount(char __user *source, char __user *directory, char __user *type,
		  unsigned long flags, void __user *data);
long ob_sys_fsopen(const char __user *type, unsigned int flags);

#endif
