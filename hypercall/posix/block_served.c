// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: disks that the program serves, on their way to the table.
 *
 * The kernel passes on a path and knows nothing of functions. So lib/ offers the disk's functions
 * here and gets a number. The kernel gets this number as a path, and passes it to
 * ob_host_block_open.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "block.h"

struct ob_offer {
	struct ob_platform_served_disk served;
	int number;
	bool opened;
	struct ob_offer *next;
};

/* The link to the offer, or the last link, which is NULL. With the mutex held. */
static struct ob_offer **find(struct ob_host *host, int number)
{
	struct ob_offer **place = &host->offers.first;

	while (*place && (*place)->number != number)
		place = &(*place)->next;
	return place;
}

int ob_platform_disk_offer(struct ob_host *host, const struct ob_platform_served_disk *served)
{
	struct ob_offer *offer = malloc(sizeof(*offer));
	int number;

	if (!offer)
		return -ENOMEM;
	pthread_mutex_lock(&host->offers.mutex);
	do {
		number = host->offers.last_number = (host->offers.last_number + 1) & 0x7fffffff;
	} while (*find(host, number));
	*offer = (struct ob_offer){ .served = *served,
				    .number = number,
				    .next = host->offers.first };
	host->offers.first = offer;
	pthread_mutex_unlock(&host->offers.mutex);
	return number;
}

bool ob_platform_disk_withdraw(struct ob_host *host, int number)
{
	struct ob_offer **place, *offer;
	bool opened = false;

	pthread_mutex_lock(&host->offers.mutex);
	place = find(host, number);
	offer = *place;
	if (offer) {
		*place = offer->next;
		opened = offer->opened;
	}
	pthread_mutex_unlock(&host->offers.mutex);
	free(offer);
	return opened;
}

int ob_posix_disk_open_served(struct ob_host *host, struct ob_posix_disk *disk, const char *number)
{
	struct ob_offer *offer;
	int error = -ENOENT;

	pthread_mutex_lock(&host->offers.mutex);
	offer = *find(host, atoi(number));
	if (offer && !offer->opened) {
		offer->opened = true;
		*disk = (struct ob_posix_disk){
			.in_use = true,
			.fd = -1,
			.served = offer->served,
			.size = offer->served.size,
			.sector_size = offer->served.sector_size,
			.read_only = offer->served.read_only,
			.can_discard = offer->served.can_discard,
		};
		error = 0;
	}
	pthread_mutex_unlock(&host->offers.mutex);
	return error;
}

/* Does not free the offers: another thread of the parent may have been freeing one. */
void ob_block_served_forked(struct ob_host *host)
{
	pthread_mutex_init(&host->offers.mutex, NULL);
	host->offers.first = NULL;
}
