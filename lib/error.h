/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reasons of failures, one line for each thread and subject. Functions of the C API return
 * -errno, and leave the reason here for ob_component_error(), ob_dir_error(), ob_disk_error() and
 * ob_net_error().
 */
#ifndef OUTBOARD_LIB_ERROR_H
#define OUTBOARD_LIB_ERROR_H

enum ob_error_subject {
	OB_ERROR_COMPONENT,
	OB_ERROR_DIR,
	OB_ERROR_DISK,
	OB_ERROR_NET,
	OB_ERROR_SUBJECTS,		/* their number */
};

#define OB_ERROR_BYTES 512

void ob_error_clear(enum ob_error_subject subject);

/* Returns `error`. A longer line is cut. */
__attribute__((format(printf, 3, 4)))
int ob_error_set(enum ob_error_subject subject, int error, const char *format, ...);

/* "" if the last call about the subject did not fail, or there is no memory for the reason. */
const char *ob_error_text(enum ob_error_subject subject);

#endif
