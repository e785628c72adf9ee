// SPDX-License-Identifier: GPL-2.0-only
/* Snapshots: describes this kernel to the platform. */
#include <outboard/outboard.h>

#include "snapshot.h"

const char *ob_snapshot_status_on(struct ob_instance *instance)
{
	if (!instance)
		return "no instance";
	return instance->host ? ob_platform_snapshot_status(instance->host) : "not wanted";
}

bool ob_snapshot_use(struct ob_instance *instance, const char *directory,
		     const struct ob_boot_parameters *parameters)
{
	const struct ob_image *image = instance->image;
	struct ob_platform_kernel kernel = {
		.address = image->address,
		.placed = image->placed,
		.id = image->id,
		.id_size = image->id_size,
		.parameters = parameters,
	};

	return ob_platform_snapshot_use(instance->host, directory, &kernel);
}
