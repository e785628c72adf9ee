// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts by pins. The device of the test routes its pins to those of this platform, and asserts
 * their lines. A level interrupt is raised again only after the kernel has ended it.
 */
#include <errno.h>

#include "internal.h"

static struct mock_pin *pin_of(struct ob_host *host, uint32_t interrupt)
{
	for (uint32_t i = 0; i < MOCK_PINS; i++)
		if (interrupt && host->pins[i].interrupt == interrupt)
			return &host->pins[i];
	return NULL;
}

static void raise_pin(struct ob_host *host, struct mock_pin *pin)
{
	pin->raised = true;
	host->counts.pin_interrupts++;
	host->upcalls->interrupt(pin->interrupt);
}

static void check_level(struct ob_host *host, struct mock_pin *pin)
{
	if (pin->flags & OB_PIN_LEVEL && pin->asserted && !pin->raised &&
	    !host->masked[pin->interrupt])
		raise_pin(host, pin);
}

int ob_host_interrupt_open_pin(struct ob_host *host, uint32_t interrupt, uint32_t number,
			       uint32_t flags)
{
	struct mock_pin *pin;
	int error;

	if (number >= MOCK_PINS || flags & ~(uint32_t)(OB_PIN_LEVEL | OB_PIN_ACTIVE_LOW))
		return -EINVAL;
	pin = &host->pins[number];
	if (pin->interrupt) {
		host->counts.wrong_opens++;
		return -EBUSY;
	}
	error = mock_interrupt_open(host, interrupt, 1);
	if (error)
		return error;
	pin->interrupt = interrupt;
	pin->flags = flags;
	return 0;
}

void ob_host_interrupt_end(struct ob_host *host, uint32_t interrupt)
{
	struct mock_pin *pin = pin_of(host, interrupt);

	if (!pin || !(pin->flags & OB_PIN_LEVEL) || !pin->raised) {
		host->counts.wrong_ends++;
		return;
	}
	pin->raised = false;
	check_level(host, pin);
}

void mock_pin_unmasked(struct ob_host *host, uint32_t interrupt)
{
	struct mock_pin *pin = pin_of(host, interrupt);

	if (pin)
		check_level(host, pin);
}

void mock_line(struct ob_host *host, uint32_t number, bool asserted)
{
	struct mock_pin *pin = &host->pins[number];
	bool edge = asserted && !pin->asserted;

	pin->asserted = asserted;
	if (!pin->interrupt)
		return;
	if (pin->flags & OB_PIN_LEVEL)
		check_level(host, pin);
	else if (edge)
		raise_pin(host, pin);
}

int ob_host_pci_pin(struct ob_host *host, uint32_t function, uint32_t pin, uint32_t *routed,
		    uint32_t *flags)
{
	const struct mock_device *device = host->options.device;

	return device->pin ? device->pin(device->state, function, pin, routed, flags) : -ENOENT;
}
