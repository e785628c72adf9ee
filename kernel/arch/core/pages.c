// SPDX-License-Identifier: GPL-2.0-only
/*
 * Data that Linux takes from a client by reference: MSG_ZEROCOPY, vmsplice(), and SEND_ZC of
 * io_uring.
 *
 * Linux holds the pages of the client's buffer until it has used the data. Only memory in the
 * client window has pages (struct page): for the program's own memory Linux returns -EFAULT. Then,
 * and only then, pages of the kernel with a copy of the data take the place of the client's. As
 * with those, no page has data of two buffers: a send of many buffers makes the same packets as on
 * any Linux.
 *
 * Dodge iov_iter_get_pages2: data outside of the client window have no pages; pages of the kernel
 * get a copy.
 * Dodge msg_zerocopy_realloc: MSG_ZEROCOPY reports that the data were copied
 * (SO_EE_CODE_ZEROCOPY_COPIED): here, by the loopback interface, or by the host, which copies the
 * frames of each virtio device.
 */
#include <linux/gfp.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/uio.h>

/* Fills one page. Returns how many bytes it got: 0 without memory, or at a bad address. */
static size_t ob_copy_page(struct iov_iter *from, struct page **page, size_t size)
{
	size_t copied;

	*page = alloc_page(GFP_KERNEL);
	if (!*page)
		return 0;
	copied = copy_page_from_iter(*page, 0, min(size, PAGE_SIZE), from);
	if (!copied)
		__free_page(*page);
	return copied;
}

/* Data of one buffer: a whole number of pages, but for the last one. */
static ssize_t ob_copy_pages(struct iov_iter *from, struct page **pages, size_t size,
			     unsigned int count)
{
	size_t copied = 0, got;

	/* Leaves empty buffers behind. */
	iov_iter_advance(from, 0);
	size = min3(size, iov_iter_single_seg_count(from), (size_t)count << PAGE_SHIFT);
	while (copied < size) {
		got = ob_copy_page(from, pages++, size - copied);
		copied += got;
		if (got < PAGE_SIZE)
			break;
	}
	return copied ?: -EFAULT;
}

ssize_t __real_iov_iter_get_pages2(struct iov_iter *from, struct page **pages, size_t size,
				   unsigned int count, size_t *start);
ssize_t __wrap_iov_iter_get_pages2(struct iov_iter *from, struct page **pages, size_t size,
				   unsigned int count, size_t *start);

ssize_t __wrap_iov_iter_get_pages2(struct iov_iter *from, struct page **pages, size_t size,
				   unsigned int count, size_t *start)
{
	ssize_t got = __real_iov_iter_get_pages2(from, pages, size, count, start);

	if (got != -EFAULT || !user_backed_iter(from) || iov_iter_rw(from) != ITER_SOURCE)
		return got;
	*start = 0;
	return ob_copy_pages(from, pages, size, count);
}

#ifdef CONFIG_NET
struct ubuf_info *__real_msg_zerocopy_realloc(struct sock *sk, size_t size, struct ubuf_info *last);
struct ubuf_info *__wrap_msg_zerocopy_realloc(struct sock *sk, size_t size, struct ubuf_info *last);

struct ubuf_info *__wrap_msg_zerocopy_realloc(struct sock *sk, size_t size, struct ubuf_info *last)
{
	struct ubuf_info *notice = __real_msg_zerocopy_realloc(sk, size, last);

	if (notice)
		uarg_to_msgzc(notice)->zerocopy = 0;
	return notice;
}
#endif
