/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings that a boot and a start from a snapshot share: boot.c. */
#ifndef OUTBOARD_CORE_BOOT_H
#define OUTBOARD_CORE_BOOT_H

struct ob_boot_parameters;
struct ob_info;

void ob_configure(const struct ob_boot_parameters *parameters, const struct ob_info *info);

#endif
