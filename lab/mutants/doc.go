// Command mutants asks of each guard whether a test needs it. It takes away one condition of the product at a time,
// and runs the tests: if all of them pass, the condition has no test, or nothing needs it. `make mutants` runs it.
//
// What is taken away, one at a time:
//
//   - in Go (go.go, cases.go): each condition, operand of && and ||, case, comparison, boundary and early return of
//     the packages in `packages`
//   - in db/queries (sql.go): each operand of AND and OR of each WHERE, ON and HAVING
//   - in db/migrations (schema.go): each condition of each CHECK, guard function, unique index and trigger, each arm
//     of a generated column, and each trigger, unique index and reference as a whole
//
// All mutants are built at once (overlay.go): each changed place asks a small package, which exists in this build
// alone, whether its mutant is the active one. So a test binary is built once, and an environment variable chooses the
// mutant. No source is changed: `go build -overlay` puts the changed copies in place.
//
// For each test, one run without any mutant records which places it reaches, and where a mutant would make a difference
// (reach.go). A mutant is given to these tests, the quickest first, and the first failure ends it (run.go). A test that
// hangs has failed.
//
// bin/mutants-results.txt keeps what was found, by the hash of the function or statement that was changed. So a later
// run on this machine only has to try what has changed, and what has survived. survivors.txt holds the mutants that may
// survive, each with its reason. A line that fits no mutant is an error.
//
// It owns the places and the verdicts. It refuses to know what the product does.
package main
