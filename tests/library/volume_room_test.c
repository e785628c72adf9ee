// SPDX-License-Identifier: GPL-2.0-only
/*
 * outboard/volume.h: the host refuses to make the file of an image larger.
 *
 *   volume_room_test NAME LENGTH
 *
 * The volume NAME can be written, and has 16 MiB of free space. Its file may have LENGTH bytes.
 */
#include <signal.h>
#include <sys/resource.h>

#include "volume_check.h"

#define MUCH (16 * 1024 * 1024)

int main(int count, char **arguments)
{
	struct ob_volume *volume;
	struct rlimit limit;
	char *data = malloc(MUCH);

	CHECK(count == 3 && data);
	memset(data, 'x', MUCH);
	volume = open_volume(arguments[1], NULL, OB_VOLUME_WRITABLE);
	/* Otherwise the host may end the process. */
	signal(SIGXFSZ, SIG_IGN);
	CHECK(!getrlimit(RLIMIT_FSIZE, &limit));
	limit.rlim_cur = strtoul(arguments[2], NULL, 10);
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	/* The kernel may keep the data in memory until the volume is closed. */
	if (ob_volume_write(volume, "/large", data, MUCH) < 0)
		CHECK(ob_volume_error()[0]);
	BAD(ob_volume_close(volume), OB_VOLUME_NO_SPACE);
	puts(ob_volume_error());
	free(data);
	return 0;
}
