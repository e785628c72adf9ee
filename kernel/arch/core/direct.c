// SPDX-License-Identifier: GPL-2.0-only
/*
 * O_DIRECT with buffers that the kernel did not map.
 *
 * Direct I/O needs the struct page of each page of the buffer. Only memory in the client window has
 * one: for the program's own memory Linux returns -EFAULT. Then, and only then, the call is
 * repeated through bounce pages of the kernel, piece by piece. The pages of a piece are physically
 * contiguous, so the disk sees one segment; and a piece stays in the processor's cache between the
 * two copies. A short transfer ends the call, as POSIX allows.
 */
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/sizes.h>
#include <linux/syscalls.h>
#include <linux/uio.h>
#include "direct.h"

#define OB_BOUNCE_ORDER get_order(SZ_512K)

struct ob_transfer {
	struct file *file;
	loff_t *position;
	bool write;
	rwf_t flags;
	struct page *bounce;
	unsigned int order;
};

static int ob_direction(bool write)
{
	return write ? ITER_SOURCE : ITER_DEST;
}

/*
 * Takes as many pages as are free at once. It waits only for a single page. They are one compound
 * page: a file system may take references to each page of the piece, as NFS does.
 */
static bool ob_bounce_get(struct ob_transfer *transfer, size_t size)
{
	unsigned int order = min(get_order(size), OB_BOUNCE_ORDER);

	for (; order; order--) {
		transfer->bounce = alloc_pages(__GFP_COMP | __GFP_NOWARN | __GFP_NORETRY |
					       __GFP_NOMEMALLOC, order);
		if (transfer->bounce)
			break;
	}
	if (!order)
		transfer->bounce = alloc_page(GFP_KERNEL);
	transfer->order = order;
	return transfer->bounce;
}

/* Moves one piece between the bounce pages and the file. */
static ssize_t ob_transfer_file(struct ob_transfer *transfer, size_t size)
{
	struct iov_iter pages;
	struct bio_vec vector;

	bvec_set_page(&vector, transfer->bounce, size, 0);
	iov_iter_bvec(&pages, ob_direction(transfer->write), &vector, 1, size);
	if (transfer->write)
		return vfs_iter_write(transfer->file, &pages, transfer->position, transfer->flags);
	return vfs_iter_read(transfer->file, &pages, transfer->position, transfer->flags);
}

/* Copies a piece to the program. The file's position advances only by what the program got. */
static ssize_t ob_transfer_out(struct ob_transfer *transfer, struct iov_iter *user, size_t done)
{
	size_t copied = copy_to_iter(page_address(transfer->bounce), done, user);

	*transfer->position -= done - copied;
	return copied ?: -EFAULT;
}

static ssize_t ob_transfer_piece(struct ob_transfer *transfer, struct iov_iter *user, size_t size)
{
	void *bounce = page_address(transfer->bounce);
	ssize_t done;

	if (transfer->write && copy_from_iter(bounce, size, user) != size)
		return -EFAULT;
	done = ob_transfer_file(transfer, size);
	if (done > 0 && !transfer->write)
		return ob_transfer_out(transfer, user, done);
	return done;
}

static ssize_t ob_transfer_all(struct ob_transfer *transfer, struct iov_iter *user)
{
	size_t total = 0;
	ssize_t done = 0;

	while (iov_iter_count(user)) {
		size_t size = min_t(size_t, iov_iter_count(user), PAGE_SIZE << transfer->order);

		done = ob_transfer_piece(transfer, user, size);
		if (done > 0)
			total += done;
		if (done != size)
			break;
	}
	return total ?: done;
}

/* Repeats a call through bounce pages. `position`: NULL for the file's own. */
static long ob_retry(unsigned int fd, bool write, loff_t *position, struct iov_iter *user,
		     rwf_t flags)
{
	struct fd f = fdget_pos(fd);
	struct ob_transfer transfer = { .file = fd_file(f), .write = write, .flags = flags };
	long result = -EFAULT;

	if (!transfer.file)
		return -EBADF;
	transfer.position = position ?: &transfer.file->f_pos;
	if (transfer.file->f_flags & O_DIRECT && transfer.file->f_mode & FMODE_CAN_ODIRECT) {
		result = -ENOMEM;
		if (ob_bounce_get(&transfer, iov_iter_count(user))) {
			result = ob_transfer_all(&transfer, user);
			__free_pages(transfer.bounce, transfer.order);
		}
	}
	fdput_pos(f);
	return result;
}

static long ob_retry_buffer(unsigned int fd, bool write, loff_t *position,
			    const void __user *buffer, size_t size)
{
	struct iov_iter user;
	int error = import_ubuf(ob_direction(write), (void __user *)buffer, size, &user);

	return error ?: ob_retry(fd, write, position, &user, 0);
}

static long ob_retry_vector(unsigned int fd, bool write, loff_t *position,
			    const struct iovec __user *vector, unsigned long count, rwf_t flags)
{
	struct iovec few[UIO_FASTIOV], *copy = few;
	struct iov_iter user;
	ssize_t size = import_iovec(ob_direction(write), vector, count, ARRAY_SIZE(few), &copy,
				    &user);
	long result;

	if (size < 0)
		return size;
	result = ob_retry(fd, write, position, &user, flags);
	kfree(copy);
	return result;
}

/* The result of `call`; of `retry` if the call met memory that the kernel did not map. */
#define ob_retry_if_fault(call, retry) ({				\
	long result_ = (call);						\
									\
	unlikely(result_ == -EFAULT) ? (retry) : result_;		\
})

long ob_sys_read(unsigned int fd, char __user *buffer, size_t size)
{
	return ob_retry_if_fault(ksys_read(fd, buffer, size),
				 ob_retry_buffer(fd, false, NULL, buffer, size));
}

long ob_sys_write(unsigned int fd, const char __user *buffer, size_t size)
{
	return ob_retry_if_fault(ksys_write(fd, buffer, size),
				 ob_retry_buffer(fd, true, NULL, buffer, size));
}

long ob_sys_pread64(unsigned int fd, char __user *buffer, size_t size, loff_t position)
{
	return ob_retry_if_fault(ksys_pread64(fd, buffer, size, position),
				 ob_retry_buffer(fd, false, &position, buffer, size));
}

long ob_sys_pwrite64(unsigned int fd, const char __user *buffer, size_t size, loff_t position)
{
	return ob_retry_if_fault(ksys_pwrite64(fd, buffer, size, position),
				 ob_retry_buffer(fd, true, &position, buffer, size));
}

long ob_sys_readv(unsigned long fd, const struct iovec __user *vector, unsigned long count)
{
	return ob_retry_if_fault(sys_readv(fd, vector, count),
				 ob_retry_vector(fd, false, NULL, vector, count, 0));
}

long ob_sys_writev(unsigned long fd, const struct iovec __user *vector, unsigned long count)
{
	return ob_retry_if_fault(sys_writev(fd, vector, count),
				 ob_retry_vector(fd, true, NULL, vector, count, 0));
}

long ob_sys_preadv(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		   unsigned long low, unsigned long high)
{
	loff_t position = low;

	return ob_retry_if_fault(sys_preadv(fd, vector, count, low, high),
				 ob_retry_vector(fd, false, &position, vector, count, 0));
}

long ob_sys_pwritev(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		    unsigned long low, unsigned long high)
{
	loff_t position = low;

	return ob_retry_if_fault(sys_pwritev(fd, vector, count, low, high),
				 ob_retry_vector(fd, true, &position, vector, count, 0));
}

/* A position of -1 means the file's own. */
long ob_sys_preadv2(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		    unsigned long low, unsigned long high, rwf_t flags)
{
	loff_t position = low, *chosen = position == -1 ? NULL : &position;

	return ob_retry_if_fault(sys_preadv2(fd, vector, count, low, high, flags),
				 ob_retry_vector(fd, false, chosen, vector, count, flags));
}

long ob_sys_pwritev2(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		     unsigned long low, unsigned long high, rwf_t flags)
{
	loff_t position = low, *chosen = position == -1 ? NULL : &position;

	return ob_retry_if_fault(sys_pwritev2(fd, vector, count, low, high, flags),
				 ob_retry_vector(fd, true, chosen, vector, count, flags));
}
