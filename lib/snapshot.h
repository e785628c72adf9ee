/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_LIB_SNAPSHOT_H
#define OUTBOARD_LIB_SNAPSHOT_H

#include <stdbool.h>

#include "instance.h"

/*
 * Has the platform look for a snapshot of the directory that fits the instance and its image.
 * False: there can be none, and ob_snapshot_status_on() has the reason.
 */
bool ob_snapshot_use(struct ob_instance *instance, const char *directory,
		     const struct ob_boot_parameters *parameters);

#endif
