// SPDX-License-Identifier: GPL-2.0-only
/* Prints a file of an encrypted volume: read_volume laptop.qcow2@3 KEYFILE /etc/hostname */
#include <outboard/volume.h>
#include <stdio.h>

static int failed(struct ob_volume *volume)
{
	fprintf(stderr, "read_volume: %s\n", ob_volume_error());
	ob_volume_close(volume);
	return 1;
}

int main(int count, char **arguments)
{
	struct ob_volume_options options = { .size = sizeof(options) };
	struct ob_volume *volume;
	void *data;
	size_t length;

	if (count != 4)
		return 2;
	options.key_file = arguments[2];
	if (ob_volume_open(arguments[1], &options, &volume))
		return failed(NULL);
	if (ob_volume_read(volume, arguments[3], 64 << 20, &data, &length))
		return failed(volume);
	fwrite(data, 1, length, stdout);
	ob_volume_memory_free(data);
	return ob_volume_close(volume) ? failed(NULL) : 0;
}
