/* SPDX-License-Identifier: GPL-2.0-only */
/* Where devices find RAM: dma.c. */
#ifndef OUTBOARD_CORE_DMA_H
#define OUTBOARD_CORE_DMA_H

#include <linux/types.h>

/* Asks the host. Once, when RAM is known to memblock and not in use yet. */
void ob_dma_setup(void);

/* Did the host state valid extents? */
bool ob_dma_reaches_ram(void);

#endif
