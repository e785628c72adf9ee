# SPDX-License-Identifier: GPL-2.0-only
# Databases with a journal, with a log that is mapped (WAL), and two processes at once.
for mode in delete wal; do
	sqlite3 $mode.db "PRAGMA journal_mode=$mode; PRAGMA mmap_size=100000000;
		CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
		WITH RECURSIVE n(i) AS
		(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
		INSERT INTO t SELECT i, hex(i * 7919 % 10007), i / 7.0 FROM n;
		CREATE INDEX i ON t(b);"
	for _ in 1 2 3 4; do
		(for j in {1..10}; do
			sqlite3 -cmd '.timeout 60000' $mode.db \
				"UPDATE t SET c = c + 1 WHERE a % 10 = $((j - 1));"
		done) &
	done
	wait
	sqlite3 $mode.db 'PRAGMA integrity_check; SELECT count(*), sum(a), round(sum(c), 3) FROM t;
		SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 DESC, 1 LIMIT 3;
		BEGIN; DELETE FROM t; ROLLBACK; SELECT count(*) FROM t;'
	sqlite3 $mode.db .dump | md5sum
done
