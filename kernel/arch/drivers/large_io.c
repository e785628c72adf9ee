// SPDX-License-Identifier: GPL-2.0-only
/*
 * Large reads and writes of programs in directories of the host go past the kernel's page cache.
 *
 * The host has the file in its own page cache. A second one in the kernel costs a copy and a page
 * of memory for each page of the file, and drops other pages that are needed. So a large transfer
 * goes between the program's memory and the host directly, as with O_DIRECT. Small ones, mappings
 * and what the kernel itself reads stay in the page cache. Linux keeps the two ways coherent.
 *
 * A transfer is large from OB_LARGE bytes on: less costs more as a request than as a copy.
 * A read of pages that the cache has stays there. Memory without pages (struct page), such as that
 * of a device, cannot be reached directly: Linux returns -EFAULT, and the cache is used.
 *
 * Dodge generic_file_read_iter: large reads in directories of the host go past the page cache.
 * Dodge generic_write_checks: large writes in directories of the host go past the page cache.
 * Dodge generic_file_direct_write: a write from memory without pages goes by the page cache.
 */
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/minmax.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uio.h>

#define OB_LARGE (64u << 10)

static bool ob_is_host_directory(const struct super_block *sb)
{
	return sb->s_magic == FUSE_SUPER_MAGIC && !strcmp(sb->s_type->name, "virtiofs");
}

/* The caller has found that the transfer may be large. */
static bool ob_may_pass_cache(struct kiocb *iocb, const struct iov_iter *data)
{
	return current->thread.apart && user_backed_iter(data) && is_sync_kiocb(iocb) &&
	       !(iocb->ki_flags & (IOCB_DIRECT | IOCB_NOWAIT)) &&
	       ob_is_host_directory(iocb->ki_filp->f_mapping->host->i_sb);
}

static bool ob_is_cached(struct address_space *mapping, loff_t place)
{
	struct folio *folio;

	if (!mapping->nrpages)
		return false;
	folio = filemap_get_folio(mapping, place >> PAGE_SHIFT);
	if (IS_ERR(folio))
		return false;
	folio_put(folio);
	return true;
}

/* Readahead brings pages behind those that were asked for: the last one decides. */
static bool ob_reads_past_cache(struct kiocb *iocb, const struct iov_iter *to)
{
	struct address_space *mapping = iocb->ki_filp->f_mapping;
	loff_t place = iocb->ki_pos, end;

	if (iov_iter_count(to) < OB_LARGE || !ob_may_pass_cache(iocb, to))
		return false;
	end = min_t(loff_t, i_size_read(mapping->host), place + (loff_t)iov_iter_count(to));
	return end - place >= OB_LARGE && !ob_is_cached(mapping, end - 1);
}

ssize_t __real_generic_file_read_iter(struct kiocb *iocb, struct iov_iter *to);
ssize_t __wrap_generic_file_read_iter(struct kiocb *iocb, struct iov_iter *to);

ssize_t __wrap_generic_file_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	ssize_t done;

	if (!ob_reads_past_cache(iocb, to))
		return __real_generic_file_read_iter(iocb, to);
	iocb->ki_flags |= IOCB_DIRECT;
	done = __real_generic_file_read_iter(iocb, to);
	iocb->ki_flags &= ~IOCB_DIRECT;
	return done == -EFAULT ? __real_generic_file_read_iter(iocb, to) : done;
}

ssize_t __real_generic_write_checks(struct kiocb *iocb, struct iov_iter *from);
ssize_t __wrap_generic_write_checks(struct kiocb *iocb, struct iov_iter *from);

ssize_t __wrap_generic_write_checks(struct kiocb *iocb, struct iov_iter *from)
{
	ssize_t count = __real_generic_write_checks(iocb, from);

	if (count >= OB_LARGE && ob_may_pass_cache(iocb, from))
		iocb->ki_flags |= IOCB_DIRECT;
	return count;
}

ssize_t __real_generic_file_direct_write(struct kiocb *iocb, struct iov_iter *from);
ssize_t __wrap_generic_file_direct_write(struct kiocb *iocb, struct iov_iter *from);

/* 0: the caller goes on by the page cache. A program that asked for O_DIRECT gets the error. */
ssize_t __wrap_generic_file_direct_write(struct kiocb *iocb, struct iov_iter *from)
{
	ssize_t done = __real_generic_file_direct_write(iocb, from);

	return done == -EFAULT && !(iocb->ki_filp->f_flags & O_DIRECT) ? 0 : done;
}
