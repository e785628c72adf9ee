# SPDX-License-Identifier: GPL-2.0-only
# A small project, compiled by gcc with make -j4: objects, archive and program, byte for byte.
export LC_ALL=C
mkdir project && cd project || exit
for i in {1..24}; do
	cat >f$i.c <<END
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct s$i { double d[$i]; char name[32]; struct s$i *next; };
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int f$i(int n)
{
	struct s$i s = { .name = "s$i" };
	int *v = malloc(sizeof(*v) * n), sum = 0;
	for (int i = 0; i < n; i++) v[i] = (i * 7919 + $i) % 1009;
	qsort(v, n, sizeof(*v), compare);
	for (int i = 0; i < n; i++) { s.d[i % $i] += sqrt(v[i]); sum += v[i] ^ i; }
	printf("%s %.6f %d\n", s.name, s.d[0], sum);
	free(v);
	return sum;
}
END
done
{
	for i in {1..24}; do echo "int f$i(int);"; done
	echo 'int main(void) { int s = 0;'
	for i in {1..24}; do echo "s += f$i($((i * 100)));"; done
	echo 'return s == 0; }'
} >main.c
cat >Makefile <<'END'
O := $(patsubst %.c,%.o,$(wildcard *.c))
program: main.o all.a
	gcc -Wl,--build-id=none -o $@ $^ -lm
all.a: $(filter-out main.o,$(O))
	ar rcD $@ $(sort $^)
%.o: %.c
	@gcc -O2 -Wall -c -o $@ $<
END
make -s -j4 && ./program && md5sum ./*.o all.a
touch f7.c && make -q; echo "$?"; make -s -j4 && make -q; echo "$?"
