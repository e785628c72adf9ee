# SPDX-License-Identifier: GPL-2.0-only
# A repository of some thousand files, and a clone of it by a local transport.
export HOME=$PWD LC_ALL=C TZ=UTC
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git config --global init.defaultBranch main
git init -q first && cd first || exit
for i in {1..30}; do
	mkdir -p "d$i"
	for j in {1..100}; do echo "$i $j" >"d$i/f$j"; done
done
export GIT_AUTHOR_DATE='2020-01-01 00:00:00 +0000' GIT_COMMITTER_DATE='2020-01-01 00:00:00 +0000'
git add . && git commit -q -m first && git rev-parse HEAD
for i in {1..30}; do echo more >>"d$i/f$i"; done
git commit -q -a -m second && git rev-parse HEAD && git tag v1
cd .. && git clone -q "file://$PWD/first" second && cd second && git rev-parse HEAD v1
git fsck --no-progress --full 2>&1 && git gc -q && git status --porcelain
git log --format='%H %s' && git diff --stat HEAD~1 | tail -n 1
git checkout -q HEAD~1 && git ls-tree -r HEAD | md5sum && git branch -q other
git checkout -q main
echo x >d1/f1 && git stash -q && git status --porcelain && git stash pop -q && git diff --numstat
