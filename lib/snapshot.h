/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_LIB_SNAPSHOT_H
#define OUTBOARD_LIB_SNAPSHOT_H

#include <stdbool.h>

#include "instance.h"

/*
 * Tells the platform which snapshot of the directory fits the instance and its image. False: there can
 * be none, and the instance's snapshot_fault says why.
 */
bool ob_snapshot_prepare(struct ob_instance *instance, const char *directory,
			 const struct ob_boot_parameters *parameters);

#endif
