/* SPDX-License-Identifier: GPL-2.0-only */
/* Components that the host carries compressed: unpack.c. */
#ifndef OUTBOARD_CORE_UNPACK_H
#define OUTBOARD_CORE_UNPACK_H

#include <linux/types.h>

bool ob_is_packed(const void *image, u64 size);
/* Returns a new image, for kvfree(), and its size; or an ERR_PTR(). */
void *ob_unpack(const void *image, u64 *size);

#endif
