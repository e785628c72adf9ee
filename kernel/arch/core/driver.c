// SPDX-License-Identifier: GPL-2.0-only
/* The list of drivers, and what core asks of all of them: driver.h. */
#include <linux/errno.h>
#include "driver.h"

static struct ob_driver *ob_drivers;

#define ob_for_each_driver(driver)	\
	for (driver = ob_drivers; driver; driver = driver->next)

void __init ob_driver_register(struct ob_driver *driver)
{
	driver->next = ob_drivers;
	ob_drivers = driver;
}

bool ob_drivers_have_hardware(void)
{
	struct ob_driver *driver;

	ob_for_each_driver(driver)
		if (driver->has_hardware)
			return true;
	return false;
}

void ob_drivers_make_spares(void)
{
	struct ob_driver *driver;

	ob_for_each_driver(driver)
		if (driver->make_spares)
			driver->make_spares();
}

void ob_drivers_park(void)
{
	struct ob_driver *driver;

	ob_for_each_driver(driver)
		if (driver->park)
			driver->park();
}

/* A driver whose devices have to be served goes before one that only hopes for an answer. */
int ob_drivers_poll(const u32 *word, u32 bits, u64 end)
{
	struct ob_driver *driver;
	int result = -ENODEV;

	ob_for_each_driver(driver) {
		int found = driver->poll ? driver->poll(word, bits, end) : -ENODEV;

		if (found >= 0)
			return found;
		if (found != -ENODEV)
			result = found;
	}
	return result;
}

int ob_drivers_stop(void)
{
	struct ob_driver *driver;
	int result = 0;

	ob_for_each_driver(driver) {
		int error = driver->stop ? driver->stop() : 0;

		result = result ?: error;
	}
	return result;
}

void ob_drivers_close(void)
{
	struct ob_driver *driver;

	ob_for_each_driver(driver)
		if (driver->close)
			driver->close();
}
