/* SPDX-License-Identifier: GPL-2.0-only */
/* Runs a fuzz target over the files that its arguments name, without libFuzzer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* libFuzzer's name of a target. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define LARGEST (1 << 17)

int main(int count, char **paths)
{
	for (int i = 1; i < count; i++) {
		FILE *file = fopen(paths[i], "rb");
		uint8_t *room = malloc(LARGEST), *bytes;
		size_t size;

		if (!file || !room) {
			perror(paths[i]);
			return 1;
		}
		size = fread(room, 1, LARGEST, file);
		fclose(file);
		/* A sanitizer sees the end of a block that is as large as the input. */
		bytes = realloc(room, size ? size : 1);
		if (!bytes) {
			perror(paths[i]);
			return 1;
		}
		LLVMFuzzerTestOneInput(bytes, size);
		free(bytes);
	}
	return count < 2;
}
