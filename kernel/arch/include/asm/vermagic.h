/* SPDX-License-Identifier: GPL-2.0-only */
/* Structures differ between configurations and versions of this architecture, and so do modules. */
#ifndef OUTBOARD_ASM_VERMAGIC_H
#define OUTBOARD_ASM_VERMAGIC_H

#define MODULE_ARCH_VERMAGIC "outboard-" CONFIG_OUTBOARD_IDENTITY " "

#endif
