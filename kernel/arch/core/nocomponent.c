// SPDX-License-Identifier: GPL-2.0-only
/* A kernel without modules has no components. */
#include <linux/errno.h>
#include <outboard/gate.h>
#include "component.h"

const char ob_kernel_version_magic[] = "";

int ob_components_load(const char *names)
{
	return *names ? -ENOSYS : 0;
}

int ob_kernel_component_load(const char *name, const char *parameters)
{
	return -ENOSYS;
}

int ob_kernel_component_insert(const void *image, u64 size, const char *parameters)
{
	return -ENOSYS;
}

int ob_kernel_component_state(u32 index, struct ob_component_state *state)
{
	return -ENOENT;
}
