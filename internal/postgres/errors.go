package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errUnreadableURL replaces pgx's own error, which repeats the URL. pgx hides a password only if it finds it. It does
// not find it in "password = x", or after a second @.
var errUnreadableURL = errors.New("DATABASE_URL cannot be read: it must be like postgres://user:password@host:5432/name, with special characters " +
	"percent-encoded, or like host=… user=… password=… dbname=…")

// errMode refuses to have the URL choose a mode of pgx. In describe_exec, a statement and its values are two messages.
// Behind a pooler, the values may go into another client's statement, without an error. exec cannot write our arrays.
var errMode = errors.New("DATABASE_URL must not have default_query_exec_mode: remove it, and behind a pooler set DB_POOLER=true")

// opRun is the Op of an error with which the server has refused a running transaction.
const opRun = "run transaction"

// UnavailableError says that the database cannot serve now, and that nothing was written. There was no connection, no
// space, or not enough time.
type UnavailableError struct {
	Op  string
	Err error
}

func (e *UnavailableError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// AmbiguousError says that a commit was sent, or may have been sent, and its acknowledgement did not arrive.
type AmbiguousError struct{ Err error }

func (e *AmbiguousError) Error() string { return fmt.Sprintf("commit outcome not known: %v", e.Err) }

// Unwrap returns the cause.
func (e *AmbiguousError) Unwrap() error { return e.Err }

// RolledBack reports whether it is certain that the transaction did not happen.
func RolledBack(err error) bool {
	_, unavailable := errors.AsType[*UnavailableError](err)
	_, ambiguous := errors.AsType[*AmbiguousError](err)
	_, refused := errors.AsType[*pgconn.PgError](err)
	return errors.Is(err, pgx.ErrTxCommitRollback) || unavailable || refused && !ambiguous
}

// Unavailable reports whether err means that the store cannot serve now, and not that it refuses the request. An
// ambiguous commit counts as unavailable, too, after reading could not resolve it.
func Unavailable(err error) bool {
	_, unavailable := errors.AsType[*UnavailableError](err)
	_, ambiguous := errors.AsType[*AmbiguousError](err)
	return unavailable || ambiguous
}

// inMessage finds the name of a constraint in a message: the quoted word after "constraint", with any kind of quotes.
var inMessage = regexp.MustCompile(`\bconstraint [^\w\s]+([a-z][a-z_]*?)(?:_[0-9]{6,})?[^\w\s]`)

// Violates reports whether err says that the named constraint was violated.
func Violates(err error, constraint string) bool {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if !answered || pg.ConstraintName == constraint {
		return answered
	}
	// A server that passes on another one's error leaves out this field. Some names have a number then.
	named := inMessage.FindStringSubmatch(pg.Message)
	return pg.ConstraintName == "" && strings.HasPrefix(pg.Code, "23") && named != nil && named[1] == constraint
}

// classifyCommit says what is known after a transaction was sent.
func classifyCommit(err error) error {
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	if pg, answered := errors.AsType[*pgconn.PgError](err); answered && pg.SeverityUnlocalized == "ERROR" {
		// The server says that it has aborted the transaction. A FATAL does not say that: a session that is terminated
		// while its commit waits for the synchronous standby has committed.
		return unlessRefused(opRun, err)
	}
	return &AmbiguousError{Err: err}
}

// classifyRead says what is known after a failure of statements that write nothing.
func classifyRead(err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return unlessRefused("read", err)
}

// unlessRefused is err if the server has refused what it was asked, and otherwise an UnavailableError.
func unlessRefused(op string, err error) error {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	if answered && pg.SeverityUnlocalized == "ERROR" && !shortOfMeans(pg.Code) {
		return err
	}
	return &UnavailableError{Op: op, Err: err}
}

// onlyReads is the SQLSTATE of a write that was refused because the session only reads.
const onlyReads = "25006"

// shortOfMeans reports whether PostgreSQL says "not now" with this SQLSTATE:
//   - 08: the connection failed
//   - 40: the transaction was rolled back because of concurrency
//   - 53: insufficient resources, such as a full disk
//   - 55P03, 57014: a lock timeout, a statement timeout
//   - 57P, 25006: the server starts, stops or only reads
//   - 42P01, 42703, 42883, 42501: a table, a column, a function or a right does not exist yet. The schema is older than
//     this program: it waits for api migrate
//   - 58: a system error
//   - XX000: an internal error, such as that a server behind this one is away
//
// Damaged data (XX001, XX002) is not among them, because waiting does not help.
func shortOfMeans(sqlstate string) bool {
	switch sqlstate {
	case "55P03", "57014", onlyReads, "42P01", "42703", "42883", "42501", "XX000":
		return true
	}
	for _, class := range []string{"08", "40", "53", "57P", "58"} {
		if strings.HasPrefix(sqlstate, class) {
			return true
		}
	}
	return false
}
