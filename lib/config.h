/* SPDX-License-Identifier: GPL-2.0-only */
/* The tables that generate-config.py puts into config.c. */
#ifndef OUTBOARD_LIB_CONFIG_H
#define OUTBOARD_LIB_CONFIG_H

extern const char ob_config_release[];
extern const char ob_config_profile[];

/*
 * "NAME=value" strings, one after the other, with an empty one at the end. There are no pointers,
 * which would need relocations at start.
 */
extern const char ob_config_options[];

#endif
