/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fuzz target of the parser of DHCPv6 (lib/dhcp6_message.h). The first byte of an input chooses the
 * request, the rest is a reply. Its transaction is always the right one.
 */
#define CHECK_FAILED() abort()
#include "dhcp_sane.h"

#define HEADER_BYTES 4

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const enum ob_dhcp6_type requests[] = {
	OB_DHCP6_SOLICIT, OB_DHCP6_REQUEST, OB_DHCP6_RENEW, OB_DHCP6_REBIND, OB_DHCP6_RELEASE,
	OB_DHCP6_INFORMATION,
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct ob_dhcp6_request request = {
		.mac = { 2, 0, 0, 0, 0, 1 },
		.address = { AF_INET6, 128, { 0xfd, 0, 0, 7, [15] = 0x77 } },
	};
	struct ob_dhcp6_reply reply;

	if (size < 1 + HEADER_BYTES)
		return 0;
	request.type = requests[bytes[0] % (sizeof(requests) / sizeof(requests[0]))];
	request.transaction = (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 8 | bytes[4];
	if (ob_dhcp6_read(bytes + 1, size - 1, &request, &reply))
		check_sane_reply6(&reply);
	return 0;
}
