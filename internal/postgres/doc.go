// Package postgres owns how Payonce talks to PostgreSQL: the pool and its limits, the one way to send a transaction, the
// group commit, the meaning of a database error, the migrations, and the roles that processes log in as. It knows no table.
//
// A transaction of the request path is a Pipeline: statements sent together, outside any explicit BEGIN. PostgreSQL runs them in one
// implicit transaction that commits at the end, in a single round trip. Pipeline is the only place where such a commit
// happens, and so the only place where its acknowledgement can be lost. What Pipeline returns is either nil (committed), an
// error that satisfies RolledBack (nothing happened), or an AmbiguousError (it may have happened: read and see).
package postgres
