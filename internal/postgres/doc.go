// Package postgres owns how Payonce talks to PostgreSQL: the pool and its limits, the ways to send a transaction, the
// group commit, the meaning of a database error, the migrations, and the roles that processes log in as. It knows no
// table of the domain.
//
// A transaction of the request path is a Pipeline: statements that are sent together, outside any explicit BEGIN.
// PostgreSQL runs them in one implicit transaction that commits at the end, in a single round trip. Transact is for
// work whose statements depend on each other.
//
// Apart from the migrations and the job queue, no other code commits. So the lost acknowledgement of a commit is
// noticed only here. Both functions return one of three results: nil (committed), an error that satisfies RolledBack
// (nothing was written), or an AmbiguousError (the transaction may have committed; a read shows whether it has).
package postgres
