# SPDX-License-Identifier: GPL-2.0-only
# Thousands of files: find, xargs, grep, sed, tar.
export LC_ALL=C TZ=UTC
umask 022
for i in {1..40}; do
	mkdir -p tree/$((i % 7))/"d $i"
	for j in {1..50}; do echo "file $i $j" >"tree/$((i % 7))/d $i/f$j"; done
done
find tree -type f | wc -l
find tree -type f -print0 | sort -z | xargs -0 -n 100 -P 4 md5sum | sort | md5sum
find tree -name 'f1*' -newer /proc/self/exe | wc -l
find tree -name 'f2?' -exec sed -i 's/file/FILE/' {} +
grep -rl FILE tree | sort | md5sum
grep -rhoE '[0-9]+$' tree | sort -n | uniq -c | head -n 5
find tree -name 'f5*' -delete -printf . ; echo
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - tree | md5sum
tar -cf - tree | (mkdir copy && tar -C copy -xf -) && diff -r tree copy/tree && echo equal
find tree -depth -type d -empty; rm -rf tree copy && ls
