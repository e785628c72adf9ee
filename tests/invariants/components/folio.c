// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a file of 1 MB, whose name is the parameter "path", and reads it back from the disk. Loads
 * if the page cache had it in large folios both times.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

static char *path = "";
module_param(path, charp, 0);

static bool is_in_large_folio(struct file *file)
{
	struct folio *folio = filemap_get_folio(file->f_mapping, SZ_512K >> PAGE_SHIFT);
	bool large;

	if (IS_ERR(folio))
		return false;
	large = folio_test_large(folio);
	folio_put(folio);
	return large;
}

static int look(struct file *file, void *buffer)
{
	loff_t start = 0, at = 0;
	bool written, read;

	if (kernel_write(file, buffer, SZ_1M, &start) != SZ_1M)
		return -EIO;
	written = is_in_large_folio(file);
	if (vfs_fsync(file, 0) || invalidate_inode_pages2(file->f_mapping) ||
	    kernel_read(file, buffer, SZ_1M, &at) != SZ_1M)
		return -EIO;
	read = is_in_large_folio(file);
	return written && read ? 0 : -ENOTSUPP;
}

static int __init folio_init(void)
{
	struct file *file = filp_open(path, O_RDWR | O_CREAT | O_LARGEFILE, 0644);
	void *buffer = vzalloc(SZ_1M);
	int error = -ENOMEM;

	if (IS_ERR(file)) {
		vfree(buffer);
		return PTR_ERR(file);
	}
	if (buffer)
		error = look(file, buffer);
	vfree(buffer);
	filp_close(file, NULL);
	return error;
}
module_init(folio_init);

MODULE_LICENSE("GPL");
