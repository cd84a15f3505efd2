// Package pgbench has PostgreSQL's own benchmark run the very statements that Payonce sends. What it reaches is the
// ceiling: no HTTP, no JSON, no PSP, a client in C.
//
// It owns the way from a generated query to a pgbench script, and the reading of pgbench's report. The SQL comes from
// the files that sqlc has written, with their parameters by name: a query that changes changes the script, and a
// parameter without a value is an error. It refuses to know what is compared with what.
//
// pgbench can count and draw numbers but not make a UUID, so keys and ids are computed from numbers within the
// statement. That costs the server about a microsecond, which makes the ceiling lower by as much.
package pgbench
