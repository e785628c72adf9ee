/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_LIB_SNAPSHOT_H
#define OUTBOARD_LIB_SNAPSHOT_H

#include <stdbool.h>

#include <outboard/gate.h>

#include "image.h"

/* Tells the platform which snapshot of the directory fits. False: there can be none. */
bool ob_snapshot_prepare(struct ob_host *host, const char *directory, const struct ob_boot_parameters *parameters,
			 const struct ob_image *kernel);

#endif
