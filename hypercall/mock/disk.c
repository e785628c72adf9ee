// SPDX-License-Identifier: GPL-2.0-only
/* The only disk, "ram", is memory. Each request completes when it is submitted. */
#include <errno.h>
#include <string.h>

#include "internal.h"

int ob_host_block_open(struct ob_host *host, const char *path, uint32_t flags,
		       struct ob_block_info *info)
{
	if (strcmp(path, "ram"))
		return -ENOENT;
	*info = (struct ob_block_info) {
		.size = host->options.disk_size,
		.sector_size = 512,
		.read_only = flags & OB_BLOCK_READ_ONLY,
		.can_discard = 1,
	};
	return 0;
}

void ob_host_block_close(struct ob_host *host, uint32_t disk)
{
	(void)host;
	(void)disk;
}

static void transfer(char *disk, const struct ob_block_request *request)
{
	for (uint32_t i = 0; i < request->segment_count; i++) {
		const struct ob_block_segment *segment = &request->segments[i];

		if (request->operation == OB_BLOCK_READ)
			memcpy(segment->address, disk, segment->length);
		else
			memcpy(disk, segment->address, segment->length);
		disk += segment->length;
	}
}

int ob_host_block_submit(struct ob_host *host, struct ob_block_request *request)
{
	uint64_t size = host->options.disk_size;

	request->result = 0;
	if (request->offset > size || request->length > size - request->offset)
		request->result = -EIO;
	else if (request->operation == OB_BLOCK_READ || request->operation == OB_BLOCK_WRITE)
		transfer(host->disk + request->offset, request);
	else if (request->operation != OB_BLOCK_FLUSH)
		memset(host->disk + request->offset, 0, request->length);
	return 1;
}

struct ob_block_request *ob_host_block_completed(struct ob_host *host)
{
	(void)host;
	return NULL;
}
