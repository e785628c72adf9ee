// SPDX-License-Identifier: GPL-2.0-only
/*
 * The grammar of network interfaces, for everyone who describes one: C programs, the command line,
 * topology files.
 *
 *   description = kind [ ":" target ] { "," word [ "=" value ] }
 *
 * A backslash takes the next character as it is, so "\," is a comma in a path. Nothing here calls
 * the kernel: a wrong description is refused before anything is made.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "net_options.h"

#define fail(...) ob_error_set(OB_ERROR_NET, -EINVAL, __VA_ARGS__)

#define MTU_LEAST 68
#define MTU_LEAST_IPV6 1280
#define MTU_MOST 65535
#define QUEUES_MOST 16
#define SECONDS_MOST 3600
#define DHCP_SECONDS 30
#define SLAAC_SECONDS 15

/* Reasons are one line: a word in them has no control characters, and is cut. */
static void show(const char *text, char *shown, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size && text[i]; i++)
		shown[i] = (unsigned char)text[i] < ' ' ? '?' : text[i];
	shown[i] = '\0';
}

/* ---- kinds ---------------------------------------------------------------- */

enum target { TARGET_NONE, TARGET_PROGRAM, TARGET_OPTIONAL, TARGET_NEEDED };

static const struct kind {
	const char *name;
	enum target target;
	const char *example;
	bool forwards;
} kinds[] = {
	{ "user", TARGET_PROGRAM, "user", true },
	{ "host", TARGET_NONE, "host", false },
	{ "tap", TARGET_OPTIONAL, "tap:tap0", false },
	{ "hub", TARGET_NEEDED, "hub:/run/lab", false },
	{ "vhost-user", TARGET_NEEDED, "vhost-user:/run/switch", false },
	{ "pcap", TARGET_NEEDED, "pcap:FILE", false },
	{ "stream", TARGET_NEEDED, "stream:NUMBER", false },
};

#define KINDS "user, host, tap, hub, vhost-user, stream or pcap"

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

static int read_kind(struct ob_net_options *options, char *word)
{
	char shown[96], *colon = strchr(word, ':');
	const struct kind *kind;

	show(word, shown, sizeof(shown));
	if (colon)
		*colon = '\0';
	kind = find_kind(word);
	if (!kind)
		return fail("%s: no such kind of interface: begin with " KINDS,
			    *shown ? shown : "(nothing)");
	options->device.kind = kind->name;
	options->device.target = colon ? colon + 1 : "";
	options->is_host = !strcmp(kind->name, "host");
	if (kind->target == TARGET_NONE && colon)
		return fail("%s: there is one host: write %s", shown, kind->example);
	if (kind->target == TARGET_PROGRAM && colon && strcmp(options->device.target, "passt") &&
	    strcmp(options->device.target, "slirp"))
		return fail("%s: write user, user:passt or user:slirp", shown);
	if (kind->target == TARGET_NEEDED && !*options->device.target)
		return fail("%s: the target is missing: write %s", kind->name, kind->example);
	return 0;
}

/* ---- values --------------------------------------------------------------- */

/* Decimal digits only. */
static bool read_number(const char *text, unsigned long most, unsigned long *number)
{
	size_t length = strspn(text, "0123456789");

	if (!length || text[length] || length > 9)
		return false;
	*number = strtoul(text, NULL, 10);
	return *number <= most;
}

static bool read_address(const char *text, struct ob_net_address *address)
{
	*address = (struct ob_net_address){ 0 };
	if (inet_pton(AF_INET, text, address->bytes) == 1)
		address->family = AF_INET;
	else if (inet_pton(AF_INET6, text, address->bytes) == 1)
		address->family = AF_INET6;
	else
		return false;
	address->prefix = (uint8_t)(ob_net_address_bytes(address) * 8);
	return true;
}

static bool is_zero(const uint8_t *bytes, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (bytes[i])
			return false;
	return true;
}

bool ob_net_address_is_of_host(const struct ob_net_address *address)
{
	if (is_zero(address->bytes, ob_net_address_bytes(address)))
		return false;
	if (address->family == AF_INET)
		return address->bytes[0] && address->bytes[0] < 224;
	return address->bytes[0] != 0xff;
}

const char *ob_net_address_text(const struct ob_net_address *address, bool prefix,
				char text[OB_NET_ADDRESS_TEXT])
{
	if (!inet_ntop(address->family, address->bytes, text, INET6_ADDRSTRLEN))
		strcpy(text, "?");
	if (prefix)
		sprintf(text + strlen(text), "/%u", address->prefix);
	return text;
}

static bool same_address(const struct ob_net_address *a, const struct ob_net_address *b)
{
	return a->family == b->family && !memcmp(a->bytes, b->bytes, ob_net_address_bytes(a));
}

static bool same_network(const struct ob_net_address *a, const struct ob_net_address *b,
			 unsigned int prefix)
{
	unsigned int bytes = prefix / 8, bits = prefix % 8;

	if (a->family != b->family || memcmp(a->bytes, b->bytes, bytes))
		return false;
	return !bits || (a->bytes[bytes] ^ b->bytes[bytes]) >> (8 - bits) == 0;
}

/* The first or the last address of an IPv4 network, which no host can have. */
static bool is_network_itself(const struct ob_net_address *address)
{
	uint32_t value, mask;

	if (address->family != AF_INET || address->prefix > 30 || !address->prefix)
		return false;
	memcpy(&value, address->bytes, sizeof(value));
	value = ntohl(value);
	mask = ~0u >> address->prefix;
	return !(value & mask) || (value & mask) == mask;
}

/* ---- words ---------------------------------------------------------------- */

static int read_ip(struct ob_net_options *options, const char *word, char *value)
{
	struct ob_net_address *address = &options->addresses[options->address_count];
	char *slash = strchr(value, '/');
	unsigned long prefix;
	bool right;

	if (options->address_count == OB_NET_ADDRESSES_MOST)
		return fail("%s: an interface gets %d addresses at most", word,
			    OB_NET_ADDRESSES_MOST);
	if (slash)
		*slash = '\0';
	right = read_address(value, address);
	if (slash)
		*slash = '/';
	if (!right)
		return fail("%s: not an IPv4 or IPv6 address", word);
	if (!slash)
		return fail("%s: write the length of the prefix, too, as in ip=10.0.0.2/24", word);
	if (!read_number(slash + 1, address->prefix, &prefix) || !prefix)
		return fail("%s: the length of the prefix is a number from 1 to %u", word,
			    address->prefix);
	address->prefix = (uint8_t)prefix;
	if (!ob_net_address_is_of_host(address) || is_network_itself(address))
		return fail("%s: not the address of a host, but of a network or a group", word);
	for (int i = 0; i < options->address_count; i++)
		if (same_address(&options->addresses[i], address))
			return fail("%s: this address is there twice", word);
	options->address_count++;
	return 0;
}

static int read_gw(struct ob_net_options *options, const char *word, char *value)
{
	struct ob_net_address gateway, *place;

	if (!read_address(value, &gateway))
		return fail("%s: not an IPv4 or IPv6 address", word);
	if (!ob_net_address_is_of_host(&gateway))
		return fail("%s: not the address of a host, but of a network or a group", word);
	place = &options->gateways[gateway.family == AF_INET6];
	if (place->family)
		return fail("%s: there is a gateway for %s already", word,
			    gateway.family == AF_INET6 ? "IPv6" : "IPv4");
	*place = gateway;
	return 0;
}

static int read_dns(struct ob_net_options *options, const char *word, char *value)
{
	struct ob_net_servers *servers = &options->servers;
	struct ob_net_address server;

	if (!read_address(value, &server))
		return fail("%s: not an IPv4 or IPv6 address", word);
	if (!ob_net_address_is_of_host(&server))
		return fail("%s: not the address of a host, but of a network or a group", word);
	for (int i = 0; i < servers->count; i++)
		if (same_address(&servers->list[i], &server))
			return fail("%s: this server is there twice", word);
	if (servers->count == OB_NET_SERVERS_MOST)
		return fail("%s: an interface gets %d name servers at most", word,
			    OB_NET_SERVERS_MOST);
	servers->list[servers->count++] = server;
	return 0;
}

static int read_mac(struct ob_net_options *options, const char *word, char *value)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	uint8_t *mac = options->device.mac;
	const char *at = value;

	for (int i = 0; i < 6; i++, at += 3) {
		if (strspn(at, digits) != 2 || at[2] != (i < 5 ? ':' : '\0'))
			return fail("%s: write six bytes, as in mac=02:00:00:00:00:01", word);
		mac[i] = (uint8_t)strtoul(at, NULL, 16);
	}
	if (mac[0] & 1 || is_zero(mac, 6))
		return fail("%s: not the address of one interface: use an even first byte, as in "
			    "mac=02:00:00:00:00:01",
			    word);
	options->device.has_mac = true;
	return 0;
}

static int read_mtu(struct ob_net_options *options, const char *word, char *value)
{
	unsigned long mtu;

	if (!read_number(value, MTU_MOST, &mtu) || mtu < MTU_LEAST)
		return fail("%s: the MTU is a number from %d to %d", word, MTU_LEAST, MTU_MOST);
	options->device.mtu = (uint32_t)mtu;
	return 0;
}

static int read_queues(struct ob_net_options *options, const char *word, char *value)
{
	unsigned long queues;

	if (!read_number(value, QUEUES_MOST, &queues) || !queues)
		return fail("%s: an interface has 1 to %d queues", word, QUEUES_MOST);
	options->device.queues = (uint32_t)queues;
	return 0;
}

static bool is_name(const char *name)
{
	size_t length = strlen(name);

	if (!length || length >= OB_NET_NAME_BYTES || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (size_t i = 0; i < length; i++)
		if (name[i] <= ' ' || name[i] > '~' || strchr("/:%", name[i]))
			return false;
	return true;
}

static int read_name(struct ob_net_options *options, const char *word, char *value)
{
	if (!is_name(value))
		return fail("%s: a name has 1 to %d characters, none of them / : %% or a space",
			    word, OB_NET_NAME_BYTES - 1);
	strcpy(options->name, value);
	return 0;
}

static int read_seconds(const char *word, const char *value, unsigned int usual,
			unsigned int *seconds)
{
	unsigned long number = usual;

	if (value && (!read_number(value, SECONDS_MOST, &number) || !number))
		return fail("%s: the time is a number of seconds from 1 to %d", word, SECONDS_MOST);
	*seconds = (unsigned int)number;
	return 0;
}

static int read_dhcp(struct ob_net_options *options, const char *word, char *value)
{
	return read_seconds(word, value, DHCP_SECONDS, &options->dhcp);
}

static int read_dhcp6(struct ob_net_options *options, const char *word, char *value)
{
	return read_seconds(word, value, DHCP_SECONDS, &options->dhcp6);
}

static int read_slaac(struct ob_net_options *options, const char *word, char *value)
{
	return read_seconds(word, value, SLAAC_SECONDS, &options->slaac);
}

static int read_up(struct ob_net_options *options, const char *word, char *value)
{
	(void)word;
	(void)value;
	options->wanted = OB_NET_UP;
	return 0;
}

static int read_down(struct ob_net_options *options, const char *word, char *value)
{
	(void)word;
	(void)value;
	options->wanted = OB_NET_DOWN;
	return 0;
}

/*
 * The platform knows the grammar of a forward, and names a wrong one. Each forward is shorter than
 * its word, so there is room for all.
 */
static int read_forward(struct ob_net_options *options, const char *word, char *value)
{
	(void)word;
	if (*options->forwards)
		strcat(options->forwards, ",");
	strcat(options->forwards, value);
	options->device.forwards = options->forwards;
	return 0;
}

static int read_pcap(struct ob_net_options *options, const char *word, char *value)
{
	if (!*value)
		return fail("%s: write the path of a file, as in pcap=/tmp/frames.pcapng", word);
	options->device.capture = value;
	return 0;
}

enum value { VALUE_NONE, VALUE_OPTIONAL, VALUE_NEEDED };

static const struct word {
	const char *name;
	enum value value;
	bool repeats;
	bool new_only;			/* the device has it from its start */
	int (*read)(struct ob_net_options *options, const char *word, char *value);
} words[] = {
	{ "ip", VALUE_NEEDED, true, false, read_ip },
	{ "gw", VALUE_NEEDED, true, false, read_gw },
	{ "dns", VALUE_NEEDED, true, false, read_dns },
	{ "dhcp", VALUE_OPTIONAL, false, false, read_dhcp },
	{ "dhcp6", VALUE_OPTIONAL, false, false, read_dhcp6 },
	{ "slaac", VALUE_OPTIONAL, false, false, read_slaac },
	{ "name", VALUE_NEEDED, false, false, read_name },
	{ "mac", VALUE_NEEDED, false, false, read_mac },
	{ "mtu", VALUE_NEEDED, false, false, read_mtu },
	{ "up", VALUE_NONE, false, false, read_up },
	{ "down", VALUE_NONE, false, false, read_down },
	{ "queues", VALUE_NEEDED, false, true, read_queues },
	{ "forward", VALUE_NEEDED, true, true, read_forward },
	{ "pcap", VALUE_NEEDED, false, true, read_pcap },
};

#define WORD_COUNT (sizeof(words) / sizeof(words[0]))

static const struct word *find_word(const char *text)
{
	size_t length = strcspn(text, "=");

	for (size_t i = 0; i < WORD_COUNT; i++)
		if (strlen(words[i].name) == length && !memcmp(words[i].name, text, length))
			return &words[i];
	return NULL;
}

/* `seen`: a bit for each word that came before. */
static int read_word(struct ob_net_options *options, char *text, bool is_new, unsigned int *seen)
{
	const struct word *word = find_word(text);
	char shown[96], *value = strchr(text, '=');
	unsigned int bit;

	show(text, shown, sizeof(shown));
	if (!word)
		return fail("%s: unknown word: use ip, gw, dns, dhcp, dhcp6, slaac, name, mac, "
			    "mtu, up, down, queues, forward or pcap",
			    *shown ? shown : "(nothing)");
	if (options->is_host && word->read != read_dns)
		return fail("%s: host has no interface of its own: its only word is dns", shown);
	bit = 1u << (word - words);
	if (!word->repeats && *seen & bit)
		return fail("%s: this word is there twice", shown);
	*seen |= bit;
	if (word->new_only && !is_new)
		return fail("%s: this is decided when the interface is added", shown);
	if (word->value == VALUE_NEEDED && !value)
		return fail("%s: the value is missing: write %s=...", shown, word->name);
	if (word->value == VALUE_NONE && value)
		return fail("%s: this word has no value: write %s", shown, word->name);
	return word->read(options, shown, value ? value + 1 : NULL);
}

/*
 * Takes the next word out of *from and writes it to `to`, without backslashes. Returns the place
 * behind its NUL, or NULL: the last character is a backslash. Sets *from to NULL after the last
 * word.
 */
static char *take_word(const char **from, char *to)
{
	const char *at = *from;

	for (; *at && *at != ','; at++) {
		if (*at == '\\' && !*++at)
			return NULL;
		*to++ = *at;
	}
	*from = *at ? at + 1 : NULL;
	*to++ = '\0';
	return to;
}

static int read_words(const char *from, struct ob_net_options *options, bool is_new)
{
	bool is_kind = is_new;
	unsigned int seen = 0;
	char *to = options->text;

	while (from) {
		char *word = to;
		int error;

		to = take_word(&from, to);
		if (!to)
			return fail("the description ends with a backslash: write \\\\ for one");
		error = is_kind ? read_kind(options, word)
				: read_word(options, word, is_new, &seen);
		if (error)
			return error;
		is_kind = false;
	}
	if (options->wanted != OB_NET_AS_IT_IS && seen & 1u << (find_word("up") - words) &&
	    seen & 1u << (find_word("down") - words))
		return fail("up, down: these words contradict each other");
	return 0;
}

/* ---- words that do not fit together --------------------------------------- */

static bool has_ipv6(const struct ob_net_options *options)
{
	for (int i = 0; i < options->address_count; i++)
		if (options->addresses[i].family == AF_INET6)
			return true;
	return options->dhcp6 || options->slaac || options->gateways[1].family;
}

static bool is_link_local(const struct ob_net_address *address)
{
	return address->family == AF_INET6 && address->bytes[0] == 0xfe &&
	       (address->bytes[1] & 0xc0) == 0x80;
}

int ob_net_options_check_gateway(const struct ob_net_address *gateway,
				 const struct ob_net_address *addresses, int count)
{
	char text[OB_NET_ADDRESS_TEXT];

	ob_net_address_text(gateway, false, text);
	for (int i = 0; i < count; i++)
		if (same_address(gateway, &addresses[i]))
			return fail("gw=%s: this is the interface's own address", text);
	if (is_link_local(gateway))
		return 0;
	for (int i = 0; i < count; i++)
		if (same_network(gateway, &addresses[i], addresses[i].prefix))
			return 0;
	return fail("gw=%s: no address of the interface is in one network with the gateway", text);
}

static int check(const struct ob_net_options *options)
{
	const struct kind *kind = options->device.kind ? find_kind(options->device.kind) : NULL;

	if (kind && options->device.forwards && !kind->forwards)
		return fail("forward=%.64s: a %s interface has no forwards, only user has",
			    options->device.forwards, kind->name);
	if (options->device.mtu && options->device.mtu < MTU_LEAST_IPV6 && has_ipv6(options))
		return fail("mtu=%u: IPv6 needs an MTU of at least %d", options->device.mtu,
			    MTU_LEAST_IPV6);
	if (options->wanted != OB_NET_DOWN)
		return 0;
	if (options->dhcp || options->dhcp6 || options->slaac)
		return fail("%s, down: only an interface that is up can ask for an address",
			    options->dhcp ? "dhcp" : options->dhcp6 ? "dhcp6" : "slaac");
	if (options->gateways[0].family || options->gateways[1].family)
		return fail("gw, down: only an interface that is up has routes");
	return 0;
}

static int check_gateways(const struct ob_net_options *options)
{
	for (int i = 0; i < 2; i++) {
		const struct ob_net_address *gateway = &options->gateways[i];
		int error = !gateway->family ? 0 :
			ob_net_options_check_gateway(gateway, options->addresses,
						     options->address_count);

		if (error)
			return error;
	}
	return 0;
}

static int check_length(const char *text)
{
	if (strlen(text) >= OB_NET_TEXT_BYTES)
		return fail("the description has %zu characters: at most %d are read",
			    strlen(text), OB_NET_TEXT_BYTES - 1);
	return 0;
}

int ob_net_options_read_spec(const char *spec, struct ob_net_options *options)
{
	int error = check_length(spec);

	memset(options, 0, sizeof(*options));
	if (!error)
		error = read_words(spec, options, true);
	if (!error)
		error = check(options);
	return error ? error : check_gateways(options);
}

int ob_net_options_read_changes(const char *changes, struct ob_net_options *options)
{
	int error = check_length(changes);

	memset(options, 0, sizeof(*options));
	if (!error)
		error = read_words(changes, options, false);
	return error ? error : check(options);
}
