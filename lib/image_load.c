// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads a kernel image into this process: the loader of all hosts (outboard/loader.h), at a place
 * that the platform chooses, with its file beside it for debuggers.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <outboard/loader.h>

#include "image_load.h"

static int map(void *file, const struct ob_loader_segment *segment)
{
	return ob_platform_image_map(file, segment);
}

static int protect(void *file, uint64_t address, uint64_t size, uint32_t protection)
{
	(void)file;
	return ob_platform_image_protect(address, size, protection);
}

static const struct ob_loader_memory memory = { .map = map, .protect = protect };

static struct ob_loader loader_of(struct ob_platform_file *file)
{
	return (struct ob_loader){
		.bytes = file->bytes, .size = file->size, .memory = &memory, .context = file,
		.thread_block = ob_platform_thread_block_bytes(),
	};
}

static int reserve(struct ob_image *image, struct ob_loader *loader)
{
	int error;

	image->address = loader->first;
	image->size = loader->end - loader->first;
	image->linked = loader->first;
	image->reserved = image->size + OB_DEBUGGER_BYTES + ob_loader_page_end(loader->size);
	error = ob_platform_image_reserve(image->host, image->reserved, &image->address,
					  &image->placed);
	loader->distance = image->address - image->linked;
	return error;
}

/* Maps headers and file in one range, as debuggers need them. That takes no memory. */
static void show_file(struct ob_image *image)
{
	uint64_t first = image->address + image->size;
	struct ob_loader_segment header = {
		.address = first, .size = OB_DEBUGGER_BYTES,
		.protection = OB_PROTECTION_READ | OB_PROTECTION_WRITE,
	};
	struct ob_loader_segment file = {
		.address = first + OB_DEBUGGER_BYTES, .size = image->file.size,
		.file_size = image->file.size, .protection = OB_PROTECTION_READ,
	};

	if (image->file.handle >= 0 && !ob_platform_image_map(&image->file, &header) &&
	    !ob_platform_image_map(&image->file, &file))
		image->shown = first;
}

static int enter(struct ob_image *image, struct ob_loader *loader)
{
	int error = ob_loader_enter(loader, ob_platform_hypercalls(), image->host,
				    ob_platform_thread_block(image->host));

	if (error)
		return error;
	image->upcalls = loader->upcalls;
	ob_platform_text(image->host, image->address, image->size);
	return 0;
}

static int load(struct ob_image *image, struct ob_loader *loader)
{
	int error;

	if (!ob_loader_check(loader))
		return -ENOEXEC;
	if (loader->id_size)
		memcpy(image->id, loader->id, loader->id_size);
	image->id_size = loader->id_size;
	error = reserve(image, loader);
	if (error)
		return error;
	error = ob_loader_load(loader);
	if (!error)
		error = enter(image, loader);
	if (error)
		ob_platform_image_release(image->address, image->reserved);
	return error;
}

int ob_image_load(struct ob_image *image, char *reason, size_t size)
{
	struct ob_loader loader = loader_of(&image->file);
	int error = load(image, &loader);

	if (error)
		snprintf(reason, size, "%s",
			 error == -ENOEXEC ? loader.reason : strerror(-error));
	else if (loader.distance)
		show_file(image);
	return error;
}

int ob_image_enter(struct ob_image *image)
{
	struct ob_loader loader = loader_of(&image->file);

	loader.header = image->file.bytes;
	loader.distance = image->address - image->linked;
	return enter(image, &loader);
}

int ob_image_load_data(struct ob_image *image, const struct ob_platform_file *file)
{
	struct ob_platform_file opened = *file;
	struct ob_loader loader = loader_of(&opened);

	/* Somebody may have written to the file, so it is checked again. */
	if (!ob_loader_check(&loader) || loader.end - loader.first != image->size)
		return -ENOEXEC;
	loader.distance = image->address - image->linked;
	loader.upcalls = image->upcalls;
	return ob_loader_renew(&loader);
}
