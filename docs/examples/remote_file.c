// SPDX-License-Identifier: MIT
/* Writes a file of a server's kernel to standard output: remote_file unix:SOCKET /PATH */
#include <fcntl.h>
#include <stdio.h>

#include <outboard/client_calls.h>

int main(int count, char **arguments)
{
	char buffer[65536];
	long file, length;

	if (count != 3)
		return 2;
	if (ob_client_connect(arguments[1]))
		return fprintf(stderr, "%s\n", ob_client_error()), 1;
	file = ob_sys_open(arguments[2], O_RDONLY, 0);
	if (file < 0)
		return perror(arguments[2]), 1;
	while ((length = ob_sys_read(file, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, length, stdout);
	return length != 0;
}
