// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: disks that the program serves, on their way to the table.
 *
 * The kernel passes on a path and knows nothing of functions. So lib/ leaves here what serves the disk, gives the
 * kernel the number that it got for it, and the kernel's ob_host_block_open comes back with that number.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "block.h"

struct offer {
	struct ob_posix_served served;
	int number;
	bool opened;
	struct offer *next;
};

static struct {
	pthread_mutex_t mutex;
	struct offer *first;
	int last_number;
} offers = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* The place that points to the offer; the last one, which is NULL, if there is none. With the mutex held. */
static struct offer **find(int number)
{
	struct offer **place = &offers.first;

	while (*place && (*place)->number != number)
		place = &(*place)->next;
	return place;
}

int ob_posix_serve(const struct ob_posix_served *served)
{
	struct offer *offer = malloc(sizeof(*offer));
	int number;

	if (!offer)
		return -ENOMEM;
	pthread_mutex_lock(&offers.mutex);
	do {
		number = offers.last_number = (offers.last_number + 1) & 0x7fffffff;
	} while (*find(number));
	*offer = (struct offer){ .served = *served, .number = number, .next = offers.first };
	offers.first = offer;
	pthread_mutex_unlock(&offers.mutex);
	return number;
}

bool ob_posix_serve_done(int number)
{
	struct offer **place, *offer;
	bool opened = false;

	pthread_mutex_lock(&offers.mutex);
	place = find(number);
	offer = *place;
	if (offer) {
		*place = offer->next;
		opened = offer->opened;
	}
	pthread_mutex_unlock(&offers.mutex);
	free(offer);
	return opened;
}

int ob_disk_open_served(struct ob_disk *disk, const char *number)
{
	struct offer *offer;
	int error = -ENOENT;

	pthread_mutex_lock(&offers.mutex);
	offer = *find(atoi(number));
	if (offer && !offer->opened) {
		offer->opened = true;
		*disk = (struct ob_disk){
			.in_use = true, .fd = -1, .served = offer->served, .size = offer->served.size,
			.sector_size = offer->served.sector_size, .read_only = offer->served.read_only,
			.can_discard = offer->served.can_discard,
		};
		error = 0;
	}
	pthread_mutex_unlock(&offers.mutex);
	return error;
}

/* Their memory is not freed: another thread of the parent may have been about to. */
void ob_block_served_forked(void)
{
	pthread_mutex_init(&offers.mutex, NULL);
	offers.first = NULL;
}
