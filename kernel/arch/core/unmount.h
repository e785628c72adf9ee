/* SPDX-License-Identifier: GPL-2.0-only */
/* Halt, step 2: unmount.c. */
#ifndef OUTBOARD_CORE_UNMOUNT_H
#define OUTBOARD_CORE_UNMOUNT_H

void ob_files_close(void);
void ob_unmount_memory(void);
int ob_unmount_all(void);

#endif
