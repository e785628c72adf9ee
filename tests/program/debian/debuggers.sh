#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Debian's strace and gdb with programs of the root that have many processes and threads.
set -euo pipefail
cd /tmp
strace -f -o trace dpkg -l >listed
grep -q '^ii  bash ' listed
grep -q '+++ exited with 0 +++' trace
grep -q 'execve("/usr/bin/dpkg-query"' trace
cat >threads.py <<'END'
import os, threading
gate = threading.Barrier(5)
done = []
def work():
    gate.wait()
    done.append(sum(range(10000)))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
gate.wait()
for thread in threads:
    thread.join()
os.kill(os.getpid(), 10)
print(len(done))
END
strace -f -e trace=getpid -e inject=getpid:retval=4242 -o trace \
	python3 -c 'import os; print(os.getpid())' >found
[ "$(cat found)" = 4242 ]
strace -f -c -o counts python3 -c 'import subprocess; subprocess.run(["true"])'
grep -q ' execve' counts
gdb -nx -batch -ex 'handle SIGUSR1 stop print' -ex run -ex 'info threads' -ex backtrace \
	-ex 'signal 0' --args python3 threads.py >said 2>&1
grep -q 'received signal SIGUSR1' said
grep -q '^#0 .*kill' said
grep -q '^4$' said
[ "$(grep -c '^\[New Thread' said)" = 4 ]
# A running program is attached to, looked at, and goes on.
sleep 1000 &
gdb -nx -batch -p $! -ex backtrace -ex detach >said 2>&1
grep -q nanosleep said
kill -0 $!
kill $!
wait $! || [ $? = 143 ]
