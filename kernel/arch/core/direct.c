// SPDX-License-Identifier: GPL-2.0-only
/*
 * O_DIRECT with buffers that the kernel did not map.
 *
 * Direct I/O needs the struct page of each page of the buffer, and only memory
 * in the client window has one: for the program's own the kernel says
 * -EFAULT. Then, and only then, the call is made again through a buffer in the
 * window, piece by piece. Each segment of a vector is transferred by itself; a short transfer ends the call, as
 * POSIX allows.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/uio.h>
#include "direct.h"

#define OB_BOUNCE_SIZE SZ_1M

struct ob_transfer {
	unsigned int fd;
	bool write;
	bool at_position;		/* `position` counts, not the file's own */
	loff_t position;
	unsigned long bounce;		/* in the client window */
};

static bool ob_is_direct(unsigned int fd)
{
	struct file *file = fget(fd);
	bool direct = file && file->f_flags & O_DIRECT;

	if (file)
		fput(file);
	return direct;
}

static bool ob_in_window(unsigned long address, size_t size)
{
	return address < ob_layout.client_end && address + size > ob_layout.client;
}

static long ob_transfer_call(struct ob_transfer *transfer, size_t size)
{
	void __user *bounce = (void __user *)transfer->bounce;

	if (transfer->at_position)
		return transfer->write ?
		       ksys_pwrite64(transfer->fd, bounce, size, transfer->position) :
		       ksys_pread64(transfer->fd, bounce, size, transfer->position);
	return transfer->write ? ksys_write(transfer->fd, bounce, size) :
				 ksys_read(transfer->fd, bounce, size);
}

/* One piece of at most OB_BOUNCE_SIZE bytes. */
static long ob_transfer_piece(struct ob_transfer *transfer, void __user *buffer, size_t size)
{
	void *bounce = (void *)transfer->bounce;
	long done;

	if (transfer->write && copy_from_user(bounce, buffer, size))
		return -EFAULT;
	done = ob_transfer_call(transfer, size);
	if (done > 0 && !transfer->write && copy_to_user(buffer, bounce, done))
		return -EFAULT;
	if (done > 0)
		transfer->position += done;
	return done;
}

static long ob_transfer_buffer(struct ob_transfer *transfer, void __user *buffer, size_t size)
{
	size_t total = 0;
	long done = 0;

	while (total < size) {
		size_t piece = min_t(size_t, size - total, OB_BOUNCE_SIZE);

		done = ob_transfer_piece(transfer, buffer + total, piece);
		if (done > 0)
			total += done;
		if (done != piece)
			break;
	}
	return total ?: done;
}

static long ob_transfer_vector(struct ob_transfer *transfer, const struct iovec *vector, int count)
{
	size_t total = 0;
	long done = 0;
	int i;

	transfer->bounce = vm_mmap(NULL, 0, OB_BOUNCE_SIZE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(transfer->bounce))
		return transfer->bounce;
	for (i = 0; i < count; i++) {
		done = ob_transfer_buffer(transfer, vector[i].iov_base, vector[i].iov_len);
		if (done > 0)
			total += done;
		if (done < 0 || done != vector[i].iov_len)
			break;
	}
	vm_munmap(transfer->bounce, OB_BOUNCE_SIZE);
	return total ?: done;
}

static long ob_retry(struct ob_transfer transfer, void __user *buffer, size_t size)
{
	struct iovec vector = { buffer, size };

	if (!ob_is_direct(transfer.fd) || ob_in_window((unsigned long)buffer, size))
		return -EFAULT;
	return ob_transfer_vector(&transfer, &vector, 1);
}

static long ob_retry_vector(struct ob_transfer transfer, const struct iovec __user *user, unsigned long count)
{
	struct iovec *vector;
	long result = -EFAULT;

	if (!ob_is_direct(transfer.fd) || count > UIO_MAXIOV)
		return -EFAULT;
	vector = memdup_array_user(user, count, sizeof(*vector));
	if (IS_ERR(vector))
		return PTR_ERR(vector);
	result = ob_transfer_vector(&transfer, vector, count);
	kfree(vector);
	return result;
}

long ob_sys_read(unsigned int fd, char __user *buffer, size_t size)
{
	long result = ksys_read(fd, buffer, size);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry((struct ob_transfer) { .fd = fd }, buffer, size);
}

long ob_sys_write(unsigned int fd, const char __user *buffer, size_t size)
{
	long result = ksys_write(fd, buffer, size);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry((struct ob_transfer) { .fd = fd, .write = true }, (void __user *)buffer, size);
}

long ob_sys_pread64(unsigned int fd, char __user *buffer, size_t size, loff_t position)
{
	struct ob_transfer transfer = { .fd = fd, .at_position = true, .position = position };
	long result = ksys_pread64(fd, buffer, size, position);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry(transfer, buffer, size);
}

long ob_sys_pwrite64(unsigned int fd, const char __user *buffer, size_t size, loff_t position)
{
	struct ob_transfer transfer = {
		.fd = fd, .write = true, .at_position = true, .position = position,
	};
	long result = ksys_pwrite64(fd, buffer, size, position);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry(transfer, (void __user *)buffer, size);
}

long ob_sys_readv(unsigned long fd, const struct iovec __user *vector, unsigned long count)
{
	long result = sys_readv(fd, vector, count);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry_vector((struct ob_transfer) { .fd = fd }, vector, count);
}

long ob_sys_writev(unsigned long fd, const struct iovec __user *vector, unsigned long count)
{
	long result = sys_writev(fd, vector, count);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry_vector((struct ob_transfer) { .fd = fd, .write = true }, vector, count);
}

long ob_sys_preadv(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		   unsigned long low, unsigned long high)
{
	struct ob_transfer transfer = { .fd = fd, .at_position = true, .position = low };
	long result = sys_preadv(fd, vector, count, low, high);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry_vector(transfer, vector, count);
}

long ob_sys_pwritev(unsigned long fd, const struct iovec __user *vector, unsigned long count,
		    unsigned long low, unsigned long high)
{
	struct ob_transfer transfer = {
		.fd = fd, .write = true, .at_position = true, .position = low,
	};
	long result = sys_pwritev(fd, vector, count, low, high);

	if (likely(result != -EFAULT))
		return result;
	return ob_retry_vector(transfer, vector, count);
}
