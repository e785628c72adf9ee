/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Structures differ between configurations and between versions of this architecture: so do
 * modules.
 */
#ifndef OUTBOARD_ASM_VERMAGIC_H
#define OUTBOARD_ASM_VERMAGIC_H

#define MODULE_ARCH_VERMAGIC "outboard-" CONFIG_OUTBOARD_IDENTITY " "

#endif
