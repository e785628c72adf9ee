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

struct link_request {
	struct nlmsghdr header;
	struct ifinfomsg info;
	char attributes[256];
};

static struct rtattr *add(struct link_request *request, uint16_t type, const void *value,
			  uint32_t bytes)
{
	char *end = (char *)request + NLMSG_ALIGN(request->header.nlmsg_len);
	struct rtattr *attribute = (void *)end;

	attribute->rta_type = type;
	attribute->rta_len = (uint16_t)RTA_LENGTH(bytes);
	if (bytes)
		memcpy(RTA_DATA(attribute), value, bytes);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) +
				    RTA_ALIGN(attribute->rta_len);
	return attribute;
}

static void close_nested(struct link_request *request, struct rtattr *attribute)
{
	attribute->rta_len = (uint16_t)((char *)request + request->header.nlmsg_len -
					(char *)attribute);
}

static void start(struct link_request *request, uint16_t type, uint16_t flags, const char *name)
{
	*request = (struct link_request){ .header = {
		.nlmsg_len = NLMSG_LENGTH(sizeof(request->info)),
		.nlmsg_type = type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags),
	} };
	add(request, IFLA_IFNAME, name, (uint32_t)strlen(name) + 1);
}

static void perform(struct link_request *request)
{
	int fd = (int)OK(ob_sys_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer;

	OK(ob_sys_sendto(fd, request, request->header.nlmsg_len, 0, NULL, 0));
	OK(ob_sys_recvfrom(fd, &answer, sizeof(answer), 0, NULL, NULL));
	CHECK_EQUAL(answer.header.nlmsg_type, NLMSG_ERROR);
	CHECK_EQUAL(answer.error.error, 0);
	OK(ob_sys_close(fd));
}

void net_make_dummy(const char *name)
{
	struct link_request request;
	struct rtattr *info;

	start(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, name);
	info = add(&request, IFLA_LINKINFO, NULL, 0);
	add(&request, IFLA_INFO_KIND, "dummy", 5);
	close_nested(&request, info);
	perform(&request);
}

void net_make_veth(const char *name, const char *peer)
{
	struct link_request request;
	struct rtattr *info, *data, *other;

	start(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, name);
	info = add(&request, IFLA_LINKINFO, NULL, 0);
	add(&request, IFLA_INFO_KIND, "veth", 4);
	data = add(&request, IFLA_INFO_DATA, NULL, 0);
	other = add(&request, VETH_INFO_PEER, &(struct ifinfomsg){ 0 }, sizeof(struct ifinfomsg));
	add(&request, IFLA_IFNAME, peer, (uint32_t)strlen(peer) + 1);
	close_nested(&request, other);
	close_nested(&request, data);
	close_nested(&request, info);
	perform(&request);
}

void net_delete_link(const char *name)
{
	struct link_request request;

	start(&request, RTM_DELLINK, 0, name);
	perform(&request);
}

void net_move_link(const char *name, long task)
{
	struct link_request request;
	uint32_t number = (uint32_t)task;

	start(&request, RTM_NEWLINK, 0, name);
	add(&request, IFLA_NET_NS_PID, &number, sizeof(number));
	perform(&request);
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

bool net_is_up(const char *name)
{
	struct ifreq answer;

	OK(ask(name, SIOCGIFFLAGS, &answer));
	return answer.ifr_flags & IFF_UP;
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
