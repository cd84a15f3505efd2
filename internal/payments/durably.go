package payments

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
)

type reading = postgres.Reading

// readDurably fails unless a failover would find what the query has read (ADR 0022). It costs no further round trip,
// but a commit. It is for a row that was read a moment ago. If that row is gone, another server answers by now.
func (s *Service) readDurably(ctx context.Context, query postgres.Query) error {
	return s.db.ReadDurably(ctx, func(ctx context.Context, q postgres.DBTX) error {
		err := query(ctx, q)
		if errors.Is(err, pgx.ErrNoRows) {
			return &postgres.UnavailableError{Op: "read durably", Err: errGone}
		}
		return err
	})
}

var errGone = errors.New("what was read a moment ago is not there")

// readToTell reads what a client will act on. A row that is final was reserved durably, because it was sent. Of any
// other row, nobody knows: its reservation may be one that was answered 503, and that a failover undoes. So it is read
// again, durably.
func readToTell[T any](s *Service, read func(reading) (value T, final bool, err error)) (T, error) {
	value, final, err := read(s.db.ReadNow)
	if err == nil && !final {
		value, _, err = read(s.readDurably)
	}
	return value, err
}
