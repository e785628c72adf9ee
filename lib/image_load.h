/* SPDX-License-Identifier: GPL-2.0-only */
/* Loading of a kernel image into this process: outboard/loader.h on the platform's functions. */
#ifndef OUTBOARD_LIB_IMAGE_LOAD_H
#define OUTBOARD_LIB_IMAGE_LOAD_H

#include "image.h"

/*
 * Checks and loads an image, whose file is open, for its host. On failure `reason` says why:
 * -ENOEXEC, or the host's error.
 */
int ob_image_load(struct ob_image *image, char *reason, size_t size);

/* Calls the entry point of an image that is loaded. 0 or -ENOEXEC. */
int ob_image_enter(struct ob_image *image);

/* Maps and relocates the data once more, from the file that was opened again. 0 or an error. */
int ob_image_load_data(struct ob_image *image, const struct ob_platform_file *file);

#endif
