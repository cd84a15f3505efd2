package payments

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// reading runs one query: readNow or readDurably.
type reading func(ctx context.Context, query func(ctx context.Context, q dbsqlc.DBTX) error) error

func (s *Service) readNow(ctx context.Context, query func(ctx context.Context, q dbsqlc.DBTX) error) error {
	return query(ctx, s.db.Reader())
}

// readDurably fails unless a failover would find what the query has read (ADR 0022). It costs no further round trip,
// but a commit. It is for a row that was read a moment ago. If that row is gone, another server answers by now.
func (s *Service) readDurably(ctx context.Context, query func(ctx context.Context, q dbsqlc.DBTX) error) error {
	return s.db.ReadDurably(ctx, func(ctx context.Context, q postgres.Statement) error {
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
	value, final, err := read(s.readNow)
	if err == nil && !final {
		value, _, err = read(s.readDurably)
	}
	return value, err
}
