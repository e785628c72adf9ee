// SPDX-License-Identifier: GPL-2.0-only
/* The library's version and configuration. */
#include <string.h>

#include <outboard/outboard.h>

#include "config.h"

/* The build defines OB_VERSION, and writes it into the pkg-config file, too. */
const char *ob_version(void)
{
	return OB_VERSION;
}

const char *ob_kernel_release(void)
{
	return ob_config_release;
}

const char *ob_profile(void)
{
	return ob_config_profile;
}

const char *ob_kernel_config(const char *option)
{
	size_t length = option ? strlen(option) : 0;

	for (const char *entry = ob_config_options; *entry; entry += strlen(entry) + 1) {
		if (!strncmp(entry, option, length) && entry[length] == '=')
			return entry + length + 1;
	}
	return NULL;
}
