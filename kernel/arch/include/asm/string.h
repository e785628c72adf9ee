/* SPDX-License-Identifier: GPL-2.0-only */
/* These five are in core/string.c. */
#ifndef _ASM_OUTBOARD_STRING_H
#define _ASM_OUTBOARD_STRING_H

#define __HAVE_ARCH_MEMCPY
#define __HAVE_ARCH_MEMSET
#define __HAVE_ARCH_MEMMOVE
#ifndef CONFIG_KASAN
#define __HAVE_ARCH_MEMCMP
#define __HAVE_ARCH_STRLEN
#endif

void *memcpy(void *to, const void *from, __kernel_size_t size);
void *memset(void *to, int byte, __kernel_size_t size);
void *memmove(void *to, const void *from, __kernel_size_t size);
int memcmp(const void *a, const void *b, __kernel_size_t size);
__kernel_size_t strlen(const char *s);

#ifdef CONFIG_KASAN
/*
 * The functions above are checked by KASAN. These are not, for files that are not to be checked.
 */
void *__memcpy(void *to, const void *from, __kernel_size_t size);
void *__memset(void *to, int byte, __kernel_size_t size);
void *__memmove(void *to, const void *from, __kernel_size_t size);

#ifndef __SANITIZE_ADDRESS__
#define memcpy(to, from, size) __memcpy(to, from, size)
#define memset(to, byte, size) __memset(to, byte, size)
#define memmove(to, from, size) __memmove(to, from, size)
#endif
#endif
#endif
