#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A repository of 20,000 files: a clone of it, packed anew, with all objects checked.
set -euo pipefail
export HOME=/srv
git config --global user.email a@example.org
git config --global user.name a
git config --global init.defaultBranch main
cd /srv
git init -q first
cd first
for i in {1..200}; do
	mkdir "d$i"
	for j in {1..100}; do echo "$i $j" >"d$i/f$j"; done
done
git add .
git commit -q -m first
for i in {1..200}; do echo more >>"d$i/f$((i % 100 + 1))"; done
git commit -q -a -m second
cd /srv
git clone -q file:///srv/first second
cd second
git gc -q --aggressive --prune=now
git fsck --full --strict --no-dangling
[ "$(git rev-parse HEAD)" = "$(git -C ../first rev-parse HEAD)" ]
[ "$(git ls-files | wc -l)" = 20000 ]
[ -z "$(git status --porcelain)" ]
[ "$(git count-objects -v | sed -n 's/^packs: //p')" = 1 ]
diff -r --exclude=.git . ../first
