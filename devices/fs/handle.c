// SPDX-License-Identifier: GPL-2.0-only
/* Files that the kernel has opened: handle.h. */
#include <errno.h>
#include <stdlib.h>

#include "handle.h"
#include "node.h"
#include "proc.h"

static int grow(struct ob_fs_handles *handles)
{
	uint32_t count = handles->count ? handles->count * 2 : 64;
	struct ob_fs_handle *entries;

	if (count > handles->most)
		count = handles->most;
	if (count <= handles->count)
		return -ENFILE;
	entries = realloc(handles->entries, count * sizeof(entries[0]));
	if (!entries)
		return -ENOMEM;
	for (uint32_t i = handles->count; i < count; i++)
		entries[i] = (struct ob_fs_handle){ .fd = -1 };
	handles->entries = entries;
	handles->count = count;
	return 0;
}

/* The first free entry, from a place that most often is near one. */
static struct ob_fs_handle *find_free(struct ob_fs_handles *handles)
{
	for (uint32_t i = 0; i < handles->count; i++) {
		struct ob_fs_handle *entry = &handles->entries[(handles->used + i) %
							       handles->count];

		if (!entry->node)
			return entry;
	}
	return NULL;
}

int ob_fs_handle_add(struct ob_fs_share *share, struct ob_fs_node *node, int fd,
		     struct ob_fs_listing *listing, uint64_t *number)
{
	struct ob_fs_handles *handles = &share->handles;
	int error = handles->used == handles->count ? grow(handles) : 0;
	struct ob_fs_handle *entry;

	if (error) {
		ob_fs_close(share, fd);
		free(listing);
		return error;
	}
	entry = find_free(handles);
	entry->node = node;
	entry->fd = fd;
	entry->listing = listing;
	handles->used++;
	node->uses++;
	*number = (uint64_t)entry->generation << 32 | (uint64_t)(entry - handles->entries);
	return 0;
}

static struct ob_fs_handle *find(struct ob_fs_share *share, uint64_t number)
{
	uint32_t index = (uint32_t)number;
	struct ob_fs_handle *entry;

	if (index >= share->handles.count)
		return NULL;
	entry = &share->handles.entries[index];
	return entry->node && entry->generation == number >> 32 ? entry : NULL;
}

struct ob_fs_handle *ob_fs_handle_file(struct ob_fs_share *share, uint64_t number)
{
	struct ob_fs_handle *entry = find(share, number);

	return entry && !entry->listing ? entry : NULL;
}

struct ob_fs_handle *ob_fs_handle_directory(struct ob_fs_share *share, uint64_t number)
{
	struct ob_fs_handle *entry = find(share, number);

	return entry && entry->listing ? entry : NULL;
}

void ob_fs_handle_close(struct ob_fs_share *share, struct ob_fs_handle *handle)
{
	struct ob_fs_node *node = handle->node;

	ob_fs_close(share, handle->fd);
	free(handle->listing);
	*handle = (struct ob_fs_handle){ .fd = -1, .generation = handle->generation + 1 };
	share->handles.used--;
	node->uses--;
	ob_fs_node_drop(share, node);
}

void ob_fs_handles_reset(struct ob_fs_share *share)
{
	for (uint32_t i = 0; i < share->handles.count; i++)
		if (share->handles.entries[i].node)
			ob_fs_handle_close(share, &share->handles.entries[i]);
}
