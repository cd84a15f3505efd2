package rig

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/test/pgtest"
)

func TestPipelinedBatchIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	counter, err := CountRoundTrips(t.Context(), pgtest.NewURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(counter.Close)
	conn := connect(t, counter.URL())
	send := func() int64 {
		t.Helper()
		before := counter.Count()
		b := &pgx.Batch{}
		for range 5 {
			b.Queue("SELECT $1::int + 1", 1)
		}
		if err := conn.SendBatch(t.Context(), b).Close(); err != nil {
			t.Fatal(err)
		}
		return counter.Count() - before
	}
	send() // prepares the statement, by a round trip of its own
	if n := send(); n != 1 {
		t.Errorf("a batch of five statements took %d round trips", n)
	}
}

func TestStatementByStatementEachIsARoundTrip(t *testing.T) {
	t.Parallel()
	counter, err := CountRoundTrips(t.Context(), pgtest.NewURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(counter.Close)
	conn := connect(t, counter.URL())
	before := counter.Count()
	for _, sql := range []string{"BEGIN", "SELECT 1", "COMMIT"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if n := counter.Count() - before; n != 3 {
		t.Errorf("three statements took %d round trips", n)
	}
}
