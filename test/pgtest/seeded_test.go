package pgtest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestSeedRunsOnceAndIsInEachDatabase(t *testing.T) {
	t.Parallel()
	if OnCitus() {
		t.Skip("there, it runs for each test")
	}
	var runs int
	seed := func(url string) {
		runs++
		count(t, url, "CREATE TABLE seeds AS SELECT 42 AS n")
	}
	urls := make([]string, 4)
	var all sync.WaitGroup
	for i := range urls {
		all.Go(func() { urls[i] = Seeded(t, t.Name(), seed) })
	}
	all.Wait()
	for _, url := range urls {
		if n := count(t, url, "DELETE FROM seeds"); n != 1 { // only its own
			t.Errorf("%d seeds, want 1", n)
		}
	}
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}

// count is how many rows a statement has touched.
func count(t *testing.T, url, sql string) int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer func() { _ = conn.Close(context.Background()) }()
	done, err := conn.Exec(t.Context(), sql)
	if err != nil {
		t.Error(err)
	}
	return done.RowsAffected()
}
