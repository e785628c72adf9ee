// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts by messages and pins, for the device of a test (device.c). The device writes messages,
 * and asserts the lines of pins.
 */
#include <errno.h>

#include "internal.h"

#define MESSAGE_ADDRESS 0xfee00000ull
#define MESSAGE_DATA 0x4000u

static bool is_free(const struct ob_host *host, uint32_t interrupt, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (host->interrupts[interrupt + i])
			return false;
	return true;
}

static int open_interrupts(struct ob_host *host, uint32_t interrupt, uint32_t count)
{
	bool wrong = interrupt < OB_INTERRUPT_FIRST || !count || count & (count - 1) ||
		     count > OB_INTERRUPT_COUNT_MOST || interrupt % count ||
		     interrupt + count > OB_INTERRUPTS;

	if (wrong || !is_free(host, interrupt, count)) {
		host->counts.wrong_opens++;
		return wrong ? -EINVAL : -EBUSY;
	}
	for (uint32_t i = 0; i < count; i++)
		host->interrupts[interrupt + i] = host->masked[interrupt + i] = true;
	host->counts.interrupts_open += count;
	return 0;
}

int ob_host_interrupt_open(struct ob_host *host, uint32_t interrupt, uint32_t count,
			   struct ob_interrupt_message *message)
{
	if (host->options.messages_most && count > host->options.messages_most)
		return -ENOSPC;
	*message = (struct ob_interrupt_message) {
		.address = MESSAGE_ADDRESS, .data = MESSAGE_DATA + interrupt,
	};
	return open_interrupts(host, interrupt, count);
}

static void set_masked(struct ob_host *host, uint32_t interrupt, bool masked)
{
	if (!host->interrupts[interrupt] || host->masked[interrupt] == masked)
		return;
	host->masked[interrupt] = masked;
	if (masked)
		host->counts.interrupts_live--;
	else
		host->counts.interrupts_live++;
}

void ob_host_interrupt_close(struct ob_host *host, uint32_t interrupt)
{
	set_masked(host, interrupt, true);
	host->counts.interrupts_open -= host->interrupts[interrupt];
	host->interrupts[interrupt] = false;
}

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

/* A level interrupt is raised again only after the kernel has ended it. */
static void check_level(struct ob_host *host, struct mock_pin *pin)
{
	if (pin->flags & OB_PIN_LEVEL && pin->asserted && !pin->raised &&
	    !host->masked[pin->interrupt])
		raise_pin(host, pin);
}

/* This platform raises masked edges, too: the kernel notes them. */
void ob_host_interrupt_mask(struct ob_host *host, uint32_t interrupt)
{
	set_masked(host, interrupt, true);
	host->counts.masked++;
}

void ob_host_interrupt_unmask(struct ob_host *host, uint32_t interrupt)
{
	struct mock_pin *pin = pin_of(host, interrupt);

	set_masked(host, interrupt, false);
	host->counts.unmasked++;
	if (pin)
		check_level(host, pin);
}

void ob_host_interrupt_affinity(struct ob_host *host, uint32_t interrupt, uint64_t vcpus)
{
	(void)interrupt;
	host->counts.affinity = vcpus;
}

void mock_message(struct ob_host *host, uint64_t address, uint32_t data)
{
	if (address == MESSAGE_ADDRESS)
		host->upcalls->interrupt(data - MESSAGE_DATA);
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
	error = open_interrupts(host, interrupt, 1);
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
