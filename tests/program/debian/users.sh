#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Users and groups are made, changed, become the user of programs, and go.
set -euo pipefail
useradd -m -s /bin/bash ann
echo ann:secret | chpasswd
groupadd staff2
usermod -a -G staff2 ann
[ "$(id -Gn ann)" = 'ann staff2' ]
getent shadow ann | grep -q '^ann:[$]y[$]'
[ "$(su - ann -c 'id -un; pwd; echo x >~/x; stat -c %U:%G ~/x')" = $'ann\n/home/ann\nann:ann' ]
# `su` of an ordinary user asks for the password of the other.
[ "$(su ann -c 'echo secret | su ann -c "id -un"')" = ann ]
su ann -c 'echo wrong | su ann -c true' && exit 1
su ann -c 'cat /etc/shadow' && exit 1
adduser --system --group --home /srv/robot robot
[ "$(stat -c %U:%G /srv/robot)" = robot:robot ]
pwck -q -r
grpck -r
userdel -r ann 2>&1
id ann && exit 1
[ ! -e /home/ann ]
