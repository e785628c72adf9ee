# SPDX-License-Identifier: GPL-2.0-only
# Text, files, times and processes by coreutils and bash. The output is the same on any Linux.
export LC_ALL=C TZ=UTC
umask 022
seq 1 50000 | sort -r | uniq | tac | md5sum
seq 1 20000 | shuf --random-source=<(yes) | sort -n | cmp - <(seq 1 20000) && echo sorted
seq 1 3000 | split -l 700 - part- && wc -l part-* && cat part-* | sha512sum
echo $(($(join <(seq 100 200) <(seq 150 250) | paste -sd+)))
comm -12 <(seq 1 100 | sort) <(seq 50 150 | sort) | wc -l
factor 18446744073709551557 1234567890123
printf '%s\n' {a..z}{0..9} | cut -c2 | sort | uniq -c
head -c 1000000 /dev/zero | tr '\0' 'x' | fold -w 77 | nl | tail -n 3
dd if=/dev/zero of=sparse bs=1 count=1 seek=1000000 2>/dev/null
stat -c '%s %a %F %h' sparse
ln sparse hard && ln -s sparse soft && stat -c '%s %h %F' hard soft
readlink -f soft | sed 's,.*/,,'
cp -a part-aa copy && touch -d '2020-02-29 12:34:56.789' copy
stat -c '%s %y' copy
mkfifo pipe && (seq 100 >pipe &) && wc -l <pipe
timeout 0.2 sleep 100; echo "timeout $?"
timeout -s KILL 0.2 sleep 100; echo "killed $?"
(trap 'echo term' TERM; kill -TERM $BASHPID; echo after)
(exit 37); echo "status $?"
sleep 100 & kill %1; wait $!; echo "waited $?"
coproc tr a-z A-Z; echo coprocess >&"${COPROC[1]}"
eval "exec ${COPROC[1]}>&-"; cat <&"${COPROC[0]}"
for i in 1 2 3 4 5 6 7 8; do (seq $((i * 1000)) | md5sum) & done | sort; wait
set -o pipefail; false | true; echo "pipefail $?"
echo $((16#ff << 33)) "${PWD:+set}" "$(umask)"
mapfile -t lines < <(seq 5); echo "${lines[@]:1:3}"
