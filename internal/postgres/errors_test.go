package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// said is what a server says; in its own language, too.
func said(severity, code string) error {
	return &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: severity, Code: code,
		ConstraintName: "some_constraint"}
}

func TestWhatIsKnownAfterACommitWasSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err                     error
		rolledBack, unavailable bool
	}{
		"a constraint's refusal":                 {said("ERROR", "23505"), true, false},
		"a bug in the SQL":                       {said("ERROR", "42601"), true, false},
		"serialization failure":                  {said("ERROR", "40001"), true, true},
		"deadlock":                               {said("ERROR", "40P01"), true, true},
		"disk full":                              {said("ERROR", "53100"), true, true},
		"out of memory":                          {said("ERROR", "53200"), true, true},
		"lock timeout":                           {said("ERROR", "55P03"), true, true},
		"statement timeout":                      {said("ERROR", "57014"), true, true},
		"read only":                              {said("ERROR", "25006"), true, true},
		"no schema yet":                          {said("ERROR", "42P01"), true, true},
		"no column yet":                          {said("ERROR", "42703"), true, true},
		"no function yet":                        {said("ERROR", "42883"), true, true},
		"no right yet":                           {said("ERROR", "42501"), true, true},
		"I/O error":                              {said("ERROR", "58030"), true, true},
		"connection lost, said by the server":    {said("ERROR", "08006"), true, true},
		"the server is shutting down":            {said("FATAL", "57P01"), false, true},
		"a fatal word that looks like a refusal": {said("FATAL", "23505"), false, true},
		"the server is in panic":                 {said("PANIC", "58030"), false, true},
		"the commit turned into a rollback":      {pgx.ErrTxCommitRollback, true, false},
		"the connection ended":                   {io.ErrUnexpectedEOF, false, true},
		"our time was over":                      {context.DeadlineExceeded, false, true},
		"pgx calls it safe to try again":         {safeToRetry{}, false, true},
	} {
		err := classifyCommit(fmt.Errorf("send: %w", c.err))
		if RolledBack(err) != c.rolledBack || Unavailable(err) != c.unavailable {
			t.Errorf("%s: rolled back %v, unavailable %v, want %v and %v", name, RolledBack(err), Unavailable(err),
				c.rolledBack, c.unavailable)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: the cause is gone from %v", name, err)
		}
		// The layers above wrap.
		wrapped := fmt.Errorf("reserve key: %w", err)
		if RolledBack(wrapped) != c.rolledBack || Unavailable(wrapped) != c.unavailable {
			t.Errorf("%s: is another thing once it is wrapped", name)
		}
	}
	if classifyCommit(nil) != nil || RolledBack(nil) || Unavailable(nil) {
		t.Error("a commit is taken for a failure")
	}
}

// safeToRetry is an error of which pgconn.SafeToRetry says that nothing was sent.
type safeToRetry struct{}

func (safeToRetry) Error() string     { return "not sent" }
func (safeToRetry) SafeToRetry() bool { return true }

func TestWhatIsKnownAfterARead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err         error
		unavailable bool
	}{
		"no row":                      {pgx.ErrNoRows, false},
		"a bug in the SQL":            {said("ERROR", "42601"), false},
		"statement timeout":           {said("ERROR", "57014"), true},
		"the server is shutting down": {said("FATAL", "57P01"), true},
		"the connection ended":        {io.EOF, true},
		"our time was over":           {context.Canceled, true},
	} {
		err := classifyRead(fmt.Errorf("query: %w", c.err))
		if Unavailable(err) != c.unavailable || !errors.Is(err, c.err) {
			t.Errorf("%s: unavailable %v of %v, want %v", name, Unavailable(err), err, c.unavailable)
		}
		// A read that failed has no outcome that could be in doubt.
		if c.unavailable && !RolledBack(err) {
			t.Errorf("%s: is ambiguous", name)
		}
	}
	if classifyRead(nil) != nil {
		t.Error("success is taken for a failure")
	}
}

func TestOnlyTheNamedConstraintIsViolated(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("resolve: %w", classifyCommit(said("ERROR", "23505")))
	if !Violates(err, "some_constraint") || Violates(err, "another") || Violates(io.EOF, "some_constraint") ||
		Violates(nil, "") {
		t.Error("the constraint is not told from others")
	}
}

// A group that found no connection is not split: its members would find none either. A group that may have been
// committed must not be sent again.
func TestOnlyWhatWasRolledBackIsTriedAlone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"success":            {nil, false},
		"no connection":      {&UnavailableError{Op: "acquire connection", Err: context.DeadlineExceeded}, false},
		"a lock's timeout":   {classifyCommit(said("ERROR", "55P03")), true},
		"a constraint":       {classifyCommit(said("ERROR", "23505")), true},
		"no room on disk":    {classifyCommit(said("ERROR", "53100")), false},
		"read only":          {classifyCommit(said("ERROR", "25006")), false},
		"shutting down":      {classifyCommit(said("ERROR", "57P01")), false},
		"rolled back":        {classifyCommit(pgx.ErrTxCommitRollback), true},
		"commit not known":   {classifyCommit(io.ErrUnexpectedEOF), false},
		"session terminated": {classifyCommit(said("FATAL", "57P01")), false},
	} {
		if got := mayBeAnothers(row.err); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}
