#!/usr/bin/env bash
# Two packages for one ordered id: github.com/google/uuid v1.6.0 and github.com/gofrs/uuid/v5 v5.5.1 (Go), UUID version
# 7.
#
# Guess: UUIDs of version 7 are in the order of time, also if two parts of a program make them, so a list can be sorted
#   and paged by them. Below a millisecond some pairs may be exchanged.
# Seen: each package alone is in order, all 10 000 of 10 000. Taken in turn in one loop of one process, about every
#   second id is smaller than the one before it. After the milliseconds google/uuid writes a part of the clock, and
#   gofrs/uuid a counter that starts at a random number; both are allowed by RFC 9562, and they are not comparable. A
#   web framework that makes ids for requests, and a program that makes ids for rows, are often not the same package.
# What follows: one package per column, or let the database make the id. Page by (time, id) and not by id.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
go mod init example.test/ids 2>go.log
cat >main.go <<'GO'
package main

import (
	"fmt"

	gofrs "github.com/gofrs/uuid/v5"
	google "github.com/google/uuid"
)

func fromGoogle() string { return google.Must(google.NewV7()).String() }
func fromGofrs() string  { return gofrs.Must(gofrs.NewV7()).String() }

func disorder(makers ...func() string) int {
	n, last := 0, ""
	for i := range 10000 {
		id := makers[i%len(makers)]()
		if id < last {
			n++
		}
		last = id
	}
	return n
}

func main() {
	fmt.Println("google/uuid alone:", disorder(fromGoogle), "of 10000 out of order")
	fmt.Println("gofrs/uuid alone:", disorder(fromGofrs), "of 10000 out of order")
	mixed := disorder(fromGoogle, fromGofrs)
	fmt.Println("in turn: more than a thousand of 10000 out of order:", mixed > 1000)
}
GO
go get github.com/google/uuid@v1.6.0 github.com/gofrs/uuid/v5@v5.5.1 >>go.log 2>&1 || { cat go.log; exit 1; }

go run . | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
google/uuid alone: 0 of 10000 out of order
gofrs/uuid alone: 0 of 10000 out of order
in turn: more than a thousand of 10000 out of order: true
SEEN
echo "as it was seen: two packages have two orders"
