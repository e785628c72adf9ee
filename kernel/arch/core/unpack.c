// SPDX-License-Identifier: GPL-2.0-only
/* Components that the host carries compressed: Linux's own zstd decompresses them. */
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/zstd.h>
#include "unpack.h"

bool ob_is_packed(const void *image, u64 size)
{
	zstd_frame_header header;

	return !zstd_get_frame_header(&header, image, size);
}

static long ob_unpack_into(void *target, size_t length, const void *image, u64 size)
{
	size_t workspace_size = zstd_dctx_workspace_bound();
	void *workspace = kvmalloc(workspace_size, GFP_KERNEL);
	size_t done;

	if (!workspace)
		return -ENOMEM;
	done = zstd_decompress_dctx(zstd_init_dctx(workspace, workspace_size), target, length,
				    image, size);
	kvfree(workspace);
	return done == length ? 0 : -ENOEXEC;
}

void *ob_unpack(const void *image, u64 *size)
{
	zstd_frame_header header;
	void *target;
	long error;

	if (zstd_get_frame_header(&header, image, *size))
		return ERR_PTR(-ENOEXEC);
	/* An unknown length is larger than any memory. */
	target = kvmalloc(header.frameContentSize, GFP_KERNEL | __GFP_NOWARN);
	if (ZERO_OR_NULL_PTR(target))
		return ERR_PTR(-ENOMEM);
	error = ob_unpack_into(target, header.frameContentSize, image, *size);
	if (error) {
		kvfree(target);
		return ERR_PTR(error);
	}
	*size = header.frameContentSize;
	return target;
}
