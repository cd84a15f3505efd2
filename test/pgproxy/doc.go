// Package pgproxy stands between a program and its PostgreSQL, and holds the world at a named moment: before a
// transaction has reached the server, or after it has committed and before the program hears of it. It is for tests
// that ask what happens when the network fails exactly there.
//
// It owns a unix socket of its own and as much of the frontend/backend protocol, version 3, as it takes to tell one
// transaction from another; see "Frontend/Backend Protocol" in PostgreSQL's manual. It changes no byte that it passes
// on. It refuses to know what a query does, and it never speaks for either side: a test that wants an error of
// PostgreSQL's must make PostgreSQL fail.
//
// # Rounds
//
// What a test can hold is a round: all that a client sends before it waits. In the extended protocol that is everything
// up to a Sync, in the simple protocol one Query. The server answers a round as a whole and ends its answer with
// ReadyForQuery. A batch outside an explicit transaction is one round, and its commit happens between the arrival of
// the Sync and the departure of ReadyForQuery. So there are three places to fail:
//
//	client ──── round ────► server      CutBefore, HoldBefore: nothing has happened
//	                        commit
//	client ◄─── answer ──── server      HoldAfter, DropAcknowledgement: it has, and only the server knows
//
// # Names
//
// A round is named after the queries that are executed in it. sqlc begins every query with a comment, such as "-- name:
// ReserveKeys :many"; SQL without one goes by its first word as it is written, such as pgx's begin and commit. The text
// crosses the wire only once in the life of a connection, in Parse, which gives the prepared statement a name.
// Afterwards Bind names the statement, and Execute the portal that Bind has made of it, so the proxy keeps both maps
// for each connection. A round that only prepares executes nothing, and cannot be held.
//
// # Use
//
//	proxy := pgproxy.Start(t, url)
//	lost := proxy.On("CompleteKeys", pgproxy.DropAcknowledgement)
//	… make the program under test use proxy.URL() …
//	lost.Await(t)
package pgproxy
