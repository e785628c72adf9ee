/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fuzz target of the parser of DHCPv4 (lib/dhcp_message.h). An input is a message, and the end of
 * an IPv4 packet as well. The transaction and the MAC address are always the right ones: a guess
 * would take libFuzzer's time.
 */
#define CHECK_FAILED() abort()
#include "dhcp_sane.h"

#define AT_TRANSACTION 4
#define AT_MAC 28
#define MESSAGE_LEAST (AT_MAC + 6)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_message(const uint8_t *message, size_t size)
{
	struct ob_dhcp_reply reply;
	uint32_t transaction;

	if (size < MESSAGE_LEAST)
		return;
	memcpy(&transaction, message + AT_TRANSACTION, sizeof(transaction));
	if (ob_dhcp_read(message, size, ntohl(transaction), message + AT_MAC, &reply))
		check_sane_reply(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const uint8_t *message;
	size_t message_size;

	read_message(bytes, size);
	message = ob_dhcp_find_message(bytes, size, false, &message_size);
	if (!message)
		return 0;
	CHECK(message >= bytes && message_size <= size &&
	      (size_t)(message - bytes) <= size - message_size);
	read_message(message, message_size);
	return 0;
}
