// SPDX-License-Identifier: GPL-2.0-only
/*
 * memcpy, memmove, memset, memcmp and strlen.
 *
 * They are kernel code, although the C library has good ones: a fault is the kernel's exactly if
 * its instruction is (fault.c), and the program also runs the C library's.
 *
 * Two accesses that may overlap do short sizes, and the processor's string instructions long ones.
 * Vector registers need no care here: see drivers/aesni.c.
 *
 * With KASAN functions of these names check first, and call __memcpy and its siblings.
 */
#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/string.h>

#undef memcpy
#undef memmove
#undef memset

/* Between these sizes the string instructions are faster than vectors. */
#define OB_STRING_LEAST 2048
#define OB_STRING_MOST 65536

typedef char ob_vector __attribute__((vector_size(16)));
typedef ob_vector ob_v16 __attribute__((aligned(1), may_alias));
typedef u64 ob_u64 __attribute__((aligned(1), may_alias));
typedef u32 ob_u32 __attribute__((aligned(1), may_alias));
typedef u16 ob_u16 __attribute__((aligned(1), may_alias));

/* `size` bytes, which are at least one `type` and at most two. */
#define OB_COPY_ENDS(type, to, from, size)				\
	do {								\
		type first_ = *(const type *)(from);			\
		type last_ = *(const type *)((from) + (size) - sizeof(type)); \
		*(type *)(to) = first_;					\
		*(type *)((to) + (size) - sizeof(type)) = last_;	\
	} while (0)

#define OB_FILL_ENDS(type, to, value, size)				\
	do {								\
		*(type *)(to) = (type)(value);				\
		*(type *)((to) + (size) - sizeof(type)) = (type)(value); \
	} while (0)

void *__memcpy(void *to, const void *from, __kernel_size_t size);
void *__memmove(void *to, const void *from, __kernel_size_t size);
void *__memset(void *to, int byte, __kernel_size_t size);

/* Less than 16 bytes. Reads all before it writes. */
static __always_inline void ob_copy_few(char *to, const char *from, __kernel_size_t size)
{
	if (size >= 8)
		OB_COPY_ENDS(ob_u64, to, from, size);
	else if (size >= 4)
		OB_COPY_ENDS(ob_u32, to, from, size);
	else if (size >= 2)
		OB_COPY_ENDS(ob_u16, to, from, size);
	else if (size)
		*to = *from;
}

/* 16 to 64 bytes. Reads all before it writes. */
static __always_inline void ob_copy_some(char *to, const char *from, __kernel_size_t size)
{
	ob_vector a, b, c, d;

	if (size <= 32) {
		OB_COPY_ENDS(ob_v16, to, from, size);
		return;
	}
	a = *(const ob_v16 *)from;
	b = *(const ob_v16 *)(from + 16);
	c = *(const ob_v16 *)(from + size - 32);
	d = *(const ob_v16 *)(from + size - 16);
	*(ob_v16 *)to = a;
	*(ob_v16 *)(to + 16) = b;
	*(ob_v16 *)(to + size - 32) = c;
	*(ob_v16 *)(to + size - 16) = d;
}

/*
 * More than 64 bytes, from the first to the last. The last 64 are read first: `to` may lie below
 * `from`.
 */
static __always_inline void ob_copy_up(char *to, const char *from, __kernel_size_t size)
{
	char *end = to + size - 64;
	ob_vector a = *(const ob_v16 *)(from + size - 64);
	ob_vector b = *(const ob_v16 *)(from + size - 48);
	ob_vector c = *(const ob_v16 *)(from + size - 32);
	ob_vector d = *(const ob_v16 *)(from + size - 16);

	for (; to < end; to += 64, from += 64) {
		ob_vector e = *(const ob_v16 *)from, f = *(const ob_v16 *)(from + 16);
		ob_vector g = *(const ob_v16 *)(from + 32), h = *(const ob_v16 *)(from + 48);

		*(ob_v16 *)to = e;
		*(ob_v16 *)(to + 16) = f;
		*(ob_v16 *)(to + 32) = g;
		*(ob_v16 *)(to + 48) = h;
	}
	*(ob_v16 *)end = a;
	*(ob_v16 *)(end + 16) = b;
	*(ob_v16 *)(end + 32) = c;
	*(ob_v16 *)(end + 48) = d;
}

/*
 * More than 64 bytes, from the last to the first. The first 64 are read first: `to` may lie above
 * `from`.
 */
static __always_inline void ob_copy_down(char *to, const char *from, __kernel_size_t size)
{
	ob_vector a = *(const ob_v16 *)from, b = *(const ob_v16 *)(from + 16);
	ob_vector c = *(const ob_v16 *)(from + 32), d = *(const ob_v16 *)(from + 48);

	for (; size > 64; size -= 64) {
		ob_vector e = *(const ob_v16 *)(from + size - 64);
		ob_vector f = *(const ob_v16 *)(from + size - 48);
		ob_vector g = *(const ob_v16 *)(from + size - 32);
		ob_vector h = *(const ob_v16 *)(from + size - 16);

		*(ob_v16 *)(to + size - 64) = e;
		*(ob_v16 *)(to + size - 48) = f;
		*(ob_v16 *)(to + size - 32) = g;
		*(ob_v16 *)(to + size - 16) = h;
	}
	*(ob_v16 *)to = a;
	*(ob_v16 *)(to + 16) = b;
	*(ob_v16 *)(to + 32) = c;
	*(ob_v16 *)(to + 48) = d;
}

static __always_inline bool ob_suits_string(__kernel_size_t size)
{
	return size >= OB_STRING_LEAST && size <= OB_STRING_MOST;
}

static __always_inline void ob_copy_string(void *to, const void *from, __kernel_size_t size)
{
	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) :: "memory");
}

void *__memcpy(void *to, const void *from, __kernel_size_t size)
{
	if (size < 16)
		ob_copy_few(to, from, size);
	else if (size <= 64)
		ob_copy_some(to, from, size);
	else if (ob_suits_string(size))
		ob_copy_string(to, from, size);
	else
		ob_copy_up(to, from, size);
	return to;
}

/* The string instructions are slow where the ranges overlap. */
void *__memmove(void *to, const void *from, __kernel_size_t size)
{
	if (size < 16)
		ob_copy_few(to, from, size);
	else if (size <= 64)
		ob_copy_some(to, from, size);
	else if ((unsigned long)to - (unsigned long)from < size)
		ob_copy_down(to, from, size);
	else if (ob_suits_string(size) && (unsigned long)from - (unsigned long)to >= size)
		ob_copy_string(to, from, size);
	else
		ob_copy_up(to, from, size);
	return to;
}

/* 16 to 64 bytes. */
static __always_inline void ob_fill_some(char *to, ob_vector all, __kernel_size_t size)
{
	OB_FILL_ENDS(ob_v16, to, all, size);
	if (size <= 32)
		return;
	*(ob_v16 *)(to + 16) = all;
	*(ob_v16 *)(to + size - 32) = all;
}

/* More than 64 bytes. */
static __always_inline void ob_fill_many(char *to, ob_vector all, __kernel_size_t size)
{
	char *end = to + size - 64;

	for (; to < end; to += 64) {
		*(ob_v16 *)to = all;
		*(ob_v16 *)(to + 16) = all;
		*(ob_v16 *)(to + 32) = all;
		*(ob_v16 *)(to + 48) = all;
	}
	ob_fill_some(end, all, 64);
}

static __always_inline void ob_fill_vectors(char *to, u64 bytes, __kernel_size_t size)
{
	typedef u64 ob_pair __attribute__((vector_size(16)));
	ob_vector all = (ob_vector)(ob_pair){ bytes, bytes };

	if (size <= 64)
		ob_fill_some(to, all, size);
	else
		ob_fill_many(to, all, size);
}

static __always_inline void ob_fill_string(void *to, int byte, __kernel_size_t size)
{
	asm volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
}

void *__memset(void *to, int byte, __kernel_size_t size)
{
	u64 bytes = (u8)byte * 0x0101010101010101;

	if (size >= OB_STRING_LEAST)
		ob_fill_string(to, byte, size);
	else if (size >= 16)
		ob_fill_vectors(to, bytes, size);
	else if (size >= 8)
		OB_FILL_ENDS(ob_u64, to, bytes, size);
	else if (size >= 4)
		OB_FILL_ENDS(ob_u32, to, bytes, size);
	else if (size >= 2)
		OB_FILL_ENDS(ob_u16, to, bytes, size);
	else if (size)
		*(char *)to = (char)byte;
	return to;
}

void *memcpy(void *to, const void *from, __kernel_size_t size) __weak __alias(__memcpy);
void *memmove(void *to, const void *from, __kernel_size_t size) __weak __alias(__memmove);
void *memset(void *to, int byte, __kernel_size_t size) __weak __alias(__memset);

#ifndef CONFIG_KASAN
/* Which bytes of 16 differ: a bit for each. */
static __always_inline u32 ob_differences(const char *a, const char *b)
{
	return ~(u32)__builtin_ia32_pmovmskb128(*(const ob_v16 *)a == *(const ob_v16 *)b) & 0xffff;
}

/* The bytes are in the order of the words' digits then. */
static __always_inline int ob_compare_words(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

static __always_inline u64 ob_load_digits(const char *bytes)
{
	return __builtin_bswap64(*(const ob_u64 *)bytes);
}

/* Less than 16 bytes. */
static __always_inline int ob_compare_few(const char *a, const char *b, __kernel_size_t size)
{
	const char *end = a + size;
	int difference = 0;

	if (size >= 8) {
		difference = ob_compare_words(ob_load_digits(a), ob_load_digits(b));
		a += size - 8;
		b += size - 8;
		return difference ?: ob_compare_words(ob_load_digits(a), ob_load_digits(b));
	}
	if (size >= 4) {
		difference = ob_compare_words(__builtin_bswap32(*(const ob_u32 *)a),
					      __builtin_bswap32(*(const ob_u32 *)b));
		a += 4;
		b += 4;
	}
	for (; !difference && a < end; a++, b++)
		difference = (int)(u8)*a - (int)(u8)*b;
	return difference;
}

int memcmp(const void *first, const void *second, __kernel_size_t size)
{
	const char *a = first, *b = second, *end = a + size - 16;
	u32 differences = 0;

	if (size < 16)
		return ob_compare_few(a, b, size);
	for (; a < end && !differences; a += 16, b += 16)
		differences = ob_differences(a, b);
	if (differences) {
		a -= 16;
		b -= 16;
	} else {
		b -= a - end;
		a = end;
		differences = ob_differences(a, b);
	}
	if (!differences)
		return 0;
	a += __builtin_ctz(differences);
	b += __builtin_ctz(differences);
	return (int)(u8)*a - (int)(u8)*b;
}

/* An aligned vector is on one page: what follows the string there can be read. */
__kernel_size_t strlen(const char *string)
{
	const ob_vector *at = (const ob_vector *)((unsigned long)string & ~15UL);
	const ob_vector zero = {};
	u32 zeroes = __builtin_ia32_pmovmskb128(*at == zero) >> ((unsigned long)string & 15);

	if (zeroes)
		return __builtin_ctz(zeroes);
	do
		zeroes = __builtin_ia32_pmovmskb128(*++at == zero);
	while (!zeroes);
	return (const char *)at + __builtin_ctz(zeroes) - string;
}
#endif
