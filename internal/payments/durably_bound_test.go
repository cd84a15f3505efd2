package payments

import (
	"context"
	"testing"
	"time"

	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// While the standby is away, each durable read keeps its connection until it gives up. Clients that ask again and again
// for what is processing must not take all connections that way.
func TestDurableReadsTakeFewConnections(t *testing.T) {
	t.Parallel()
	s := setup(t)
	query := func(ctx context.Context, q dbsqlc.DBTX) error {
		return q.QueryRow(ctx, "SELECT 1").Scan(new(int))
	}
	waiting, back := make(chan struct{}), make(chan struct{})
	done := make(chan error, mostDurableReads)
	for range mostDurableReads {
		go func() {
			done <- s.service.readDurably(t.Context(), func(ctx context.Context, q dbsqlc.DBTX) error {
				waiting <- struct{}{}
				<-back
				return query(ctx, q)
			})
		}()
	}
	for range mostDurableReads {
		<-waiting
	}
	one := func(ctx context.Context) error { return s.service.readDurably(ctx, query) }
	began := time.Now()
	if err := one(t.Context()); !postgres.Unavailable(err) || time.Since(began) < durablePatience {
		t.Errorf("one more: %v, after %s", err, time.Since(began))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := one(gone); !postgres.Unavailable(err) {
		t.Errorf("one more, whose client is gone: %v", err)
	}
	close(back)
	for range mostDurableReads {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := one(t.Context()); err != nil {
		t.Errorf("when there is a place again: %v", err)
	}
}
