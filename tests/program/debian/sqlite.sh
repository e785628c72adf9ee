#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Four programs write to one database at a time, with a journal and with a log that is mapped.
set -euo pipefail
for mode in delete wal; do
	file=/srv/$mode.db
	sqlite3 "$file" "PRAGMA journal_mode=$mode; CREATE TABLE t(a INTEGER PRIMARY KEY, b, c);
		CREATE INDEX i ON t(b)"
	for writer in 1 2 3 4; do
		rows="SELECT value, $writer FROM generate_series(1, 20)"
		for _ in {1..50}; do
			echo "BEGIN IMMEDIATE; INSERT INTO t(b, c) $rows; COMMIT;"
		done | sqlite3 -bail -cmd '.timeout 300000' "$file" &
		writers[writer]=$!
	done
	for process in "${writers[@]}"; do wait "$process"; done
	[ "$(sqlite3 "$file" 'SELECT count(*), sum(b), sum(c) FROM t')" = '4000|42000|10000' ]
	[ "$(sqlite3 "$file" 'PRAGMA integrity_check')" = ok ]
done
