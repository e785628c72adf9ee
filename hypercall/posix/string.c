// SPDX-License-Identifier: GPL-2.0-only
/* Memory functions: the C library's, which choose the best instructions of the processor. */
#include <string.h>

#include "internal.h"

void *ob_host_memcpy(void *to, const void *from, unsigned long size)
{
	return memcpy(to, from, size);
}

void *ob_host_memmove(void *to, const void *from, unsigned long size)
{
	return memmove(to, from, size);
}

void *ob_host_memset(void *to, int byte, unsigned long size)
{
	return memset(to, byte, size);
}

int ob_host_memcmp(const void *a, const void *b, unsigned long size)
{
	return memcmp(a, b, size);
}

unsigned long ob_host_strlen(const char *string)
{
	return strlen(string);
}
