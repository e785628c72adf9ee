// SPDX-License-Identifier: GPL-2.0-only
/* Sends each datagram of port 5000 back: a server for tests of programs' networks. */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

int main(void)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(5000) };
	int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
	char bytes[1000];

	if (socket_fd < 0 || bind(socket_fd, (struct sockaddr *)&own, sizeof(own)))
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		struct sockaddr_in peer;
		socklen_t size = sizeof(peer);
		ssize_t count = recvfrom(socket_fd, bytes, sizeof(bytes), 0,
					 (struct sockaddr *)&peer, &size);

		if (count < 0)
			return 1;
		sendto(socket_fd, bytes, (size_t)count, 0, (struct sockaddr *)&peer, size);
	}
}
