/* SPDX-License-Identifier: GPL-2.0-only */
/* The contents of a snapshot: save.c. */
#ifndef OUTBOARD_CORE_SAVE_H
#define OUTBOARD_CORE_SAVE_H

int ob_snapshot_write(void);

#endif
