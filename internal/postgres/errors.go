package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errUnreadableURL takes the place of pgx's own error, which repeats the value. It masks a password where it finds it, and that is not in
// "password = x" nor behind a second @.
var errUnreadableURL = errors.New("DATABASE_URL cannot be read: it must be like postgres://user:password@host:5432/name, with special characters " +
	"percent-encoded, or like host=… user=… password=… dbname=…")

// opRun is the Op of what the server has refused while it ran it.
const opRun = "run transaction"

// UnavailableError says that the database could not serve and that nothing was written: no connection, no room, no time.
type UnavailableError struct {
	Op  string
	Err error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// AmbiguousError says that a commit was sent, or may have been, and its acknowledgement never came.
type AmbiguousError struct{ Err error }

func (e *AmbiguousError) Error() string { return fmt.Sprintf("commit outcome not known: %v", e.Err) }

// Unwrap gives the cause.
func (e *AmbiguousError) Unwrap() error { return e.Err }

// RolledBack reports whether the database itself has said that the transaction did not happen.
func RolledBack(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return true
	}
	var ambiguous *AmbiguousError
	if errors.As(err, &ambiguous) {
		return false
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg)
}

// Unavailable reports whether err means that the store cannot serve now, as opposed to a refusal of what was asked.
// An ambiguous commit is one, too, once it could not be settled by reading.
func Unavailable(err error) bool {
	var unavailable *UnavailableError
	var ambiguous *AmbiguousError
	return errors.As(err, &unavailable) || errors.As(err, &ambiguous)
}

// ofShard finds the name of a constraint in a message: the last word that is quoted, in whatever way the language of the server quotes.
var ofShard = regexp.MustCompile(`\bconstraint [^\w\s]+([a-z][a-z_]*?)(?:_[0-9]{6,})?[^\w\s]`)

// Violates reports whether err is the refusal by the named constraint.
func Violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg):
		return false
	case pg.ConstraintName == constraint:
		return true
	}
	// Citus passes a worker's refusal on without this field, and puts the number of a shard behind some names.
	named := ofShard.FindStringSubmatch(pg.Message)
	return pg.ConstraintName == "" && strings.HasPrefix(pg.Code, "23") && named != nil && named[1] == constraint
}

// classifyCommit names what is known after a transaction was sent.
func classifyCommit(err error) error {
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" {
		// The server has aborted the transaction and said so. A FATAL does not say that: a session that is terminated
		// while its commit waits for the synchronous standby has committed all the same.
		if shortOfMeans(pg.Code) {
			return &UnavailableError{Op: opRun, Err: err}
		}
		return err
	}
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return &AmbiguousError{Err: err}
}

// classifyEnd names what is known after a COMMIT of its own was sent. Where tables are distributed, an ERROR does not say that the transaction was rolled
// back: the coordinator passes the COMMIT on to a worker, and calls it an error when the worker's answer is lost.
func (db *DB) classifyEnd(err error) error {
	var pg *pgconn.PgError
	if db.spread.Load() && errors.As(err, &pg) {
		return &AmbiguousError{Err: err}
	}
	return classifyCommit(err)
}

// classifyRead names the failure of statements that write nothing.
func classifyRead(err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, pgx.ErrNoRows):
		return err
	case errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" && !shortOfMeans(pg.Code):
		return err
	default:
		return &UnavailableError{Op: "read", Err: err}
	}
}

// shortOfMeans tells the SQLSTATEs by which PostgreSQL says "not now": connection exceptions (08), transaction
// rollback for concurrency (40), insufficient resources such as a full disk (53), lock and statement timeouts,
// a server that starts, stops or only reads (57P, 25006), a schema or a right that is not there yet (42P01, 42501), system errors (58), and internal ones
// (XX000), by which Citus says that a worker is away. Damaged data (XX001, XX002) is none of these: it does not pass.
func shortOfMeans(sqlstate string) bool {
	switch sqlstate {
	case "55P03", "57014", "25006", "42P01", "42501", "XX000":
		return true
	}
	for _, class := range []string{"08", "40", "53", "57P", "58"} {
		if strings.HasPrefix(sqlstate, class) {
			return true
		}
	}
	return false
}
