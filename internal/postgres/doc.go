// Package postgres owns how Payonce talks to PostgreSQL: the pool and its limits, the one way to send a transaction, the
// meaning of a database error, the migrations, and the roles that processes log in as. It knows no table.
//
// A transaction of the request path is one pgx.Batch, sent outside any explicit BEGIN: PostgreSQL runs its statements in one
// implicit transaction that commits at the end, in a single round trip. Send is the only place where such a commit
// happens, and so the only place where its acknowledgement can be lost. What Send returns is either nil (committed), an
// error that satisfies RolledBack (nothing happened), or an AmbiguousError (it may have happened: read and see).
package postgres
