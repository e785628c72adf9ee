// SPDX-License-Identifier: GPL-2.0-only
/* See net_links.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <outboard/net.h>

#include "client.h"
#include "net_links.h"
#include "net_message.h"

/* Begins a message about the link of that name. */
static void start(struct net_message *message, uint16_t type, uint16_t flags, const char *name)
{
	struct ifinfomsg info = { 0 };

	net_message_init(message);
	net_message_begin(message, type, NLM_F_ACK | flags, &info, sizeof(info));
	net_message_add_text(message, IFLA_IFNAME, name);
}

static void perform(struct net_message *message)
{
	net_message_perform(message, NETLINK_ROUTE);
}

void net_make_link_with(const char *kind, const char *name, const char *below,
			net_link_words *add_words)
{
	struct net_message message;
	uint32_t info, data;

	start(&message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, name);
	if (below)
		net_message_add_u32(&message, IFLA_LINK, (uint32_t)net_index(below));
	info = net_message_nest(&message, IFLA_LINKINFO);
	net_message_add_text(&message, IFLA_INFO_KIND, kind);
	if (add_words) {
		data = net_message_nest(&message, IFLA_INFO_DATA);
		add_words(&message);
		net_message_end_nest(&message, data);
	}
	net_message_end_nest(&message, info);
	perform(&message);
}

void net_make_link(const char *kind, const char *name)
{
	net_make_link_with(kind, name, NULL, NULL);
}

void net_make_dummy(const char *name)
{
	net_make_link("dummy", name);
}

void net_make_veth(const char *name, const char *peer)
{
	struct net_message message;
	struct ifinfomsg head = { 0 };
	uint32_t info, data, other;

	start(&message, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, name);
	info = net_message_nest(&message, IFLA_LINKINFO);
	net_message_add_text(&message, IFLA_INFO_KIND, "veth");
	data = net_message_nest(&message, IFLA_INFO_DATA);
	other = net_message_nest(&message, VETH_INFO_PEER);
	net_message_add_head(&message, &head, sizeof(head));
	net_message_add_text(&message, IFLA_IFNAME, peer);
	net_message_end_nest(&message, other);
	net_message_end_nest(&message, data);
	net_message_end_nest(&message, info);
	perform(&message);
}

void net_delete_link(const char *name)
{
	struct net_message message;

	start(&message, RTM_DELLINK, 0, name);
	perform(&message);
}

void net_up_down_up(const char *name)
{
	static const unsigned int flags[] = { IFF_UP, 0, IFF_UP };
	struct net_message message;

	net_message_init(&message);
	for (int i = 0; i < 3; i++) {
		struct ifinfomsg info = { .ifi_flags = flags[i], .ifi_change = IFF_UP };

		net_message_begin(&message, RTM_NEWLINK, NLM_F_ACK, &info, sizeof(info));
		net_message_add_text(&message, IFLA_IFNAME, name);
	}
	perform(&message);
}

void net_move_link(const char *name, long task)
{
	struct net_message message;

	start(&message, RTM_NEWLINK, 0, name);
	net_message_add_u32(&message, IFLA_NET_NS_PID, (uint32_t)task);
	perform(&message);
}

void net_set_controller(const char *name, const char *controller)
{
	struct net_message message;

	start(&message, RTM_NEWLINK, 0, name);
	net_message_add_u32(&message, IFLA_MASTER, (uint32_t)net_index(controller));
	perform(&message);
}

int net_add(const char *description, char name[16])
{
	int number = ob_net_add(description, name);

	if (number < 0) {
		fprintf(stderr, "%s: %d: %s\n", description, number, ob_net_error());
		_Exit(1);
	}
	return number;
}

void net_configure(const char *name, const char *changes)
{
	int error = ob_net_configure(name, changes);

	if (error) {
		fprintf(stderr, "%s %s: %d: %s\n", name, changes, error, ob_net_error());
		_Exit(1);
	}
}

static socklen_t fill(const char *address, struct sockaddr_storage *storage)
{
	struct sockaddr_in *four = (void *)storage;
	struct sockaddr_in6 *six = (void *)storage;

	memset(storage, 0, sizeof(*storage));
	if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons(9);
		return sizeof(*four);
	}
	CHECK_EQUAL(inet_pton(AF_INET6, address, &six->sin6_addr), 1);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons(9);
	return sizeof(*six);
}

bool net_has_address(const char *address)
{
	struct sockaddr_storage storage;
	socklen_t length = fill(address, &storage);
	int fd = (int)OK(ob_sys_socket(storage.ss_family, SOCK_DGRAM, 0));
	bool bound = !ob_sys_bind(fd, (void *)&storage, (int)length);

	OK(ob_sys_close(fd));
	return bound;
}

static long ask(const char *name, unsigned long request, struct ifreq *answer)
{
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	long result;

	memset(answer, 0, sizeof(*answer));
	strcpy(answer->ifr_name, name);
	result = ob_sys_ioctl(fd, (unsigned int)request, (unsigned long)answer);
	OK(ob_sys_close(fd));
	return result;
}

static int flags_of(const char *name)
{
	struct ifreq answer;

	OK(ask(name, SIOCGIFFLAGS, &answer));
	return answer.ifr_flags;
}

bool net_is_up(const char *name)
{
	return flags_of(name) & IFF_UP;
}

bool net_has_link(const char *name)
{
	return flags_of(name) & IFF_RUNNING;
}

int net_mtu(const char *name)
{
	struct ifreq answer;

	OK(ask(name, SIOCGIFMTU, &answer));
	return answer.ifr_mtu;
}

int net_index(const char *name)
{
	struct ifreq answer;

	return ask(name, SIOCGIFINDEX, &answer) ? -1 : answer.ifr_ifindex;
}

bool net_source(const char *destination, char *source, uint32_t size)
{
	struct sockaddr_storage storage;
	socklen_t length = fill(destination, &storage);
	int fd = (int)OK(ob_sys_socket(storage.ss_family, SOCK_DGRAM, 0)), room = sizeof(storage);
	bool connected = !ob_sys_connect(fd, (void *)&storage, (int)length);

	OK(ob_sys_getsockname(fd, (void *)&storage, &room));
	if (storage.ss_family == AF_INET)
		inet_ntop(AF_INET, &((struct sockaddr_in *)&storage)->sin_addr, source, size);
	else
		inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&storage)->sin6_addr, source, size);
	OK(ob_sys_close(fd));
	return connected;
}

bool net_read_file(const char *path, char *text, uint32_t size)
{
	long fd = ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0), length;

	if (fd < 0)
		return false;
	length = OK(ob_sys_read((int)fd, text, size - 1));
	text[length] = '\0';
	OK(ob_sys_close((int)fd));
	return true;
}
