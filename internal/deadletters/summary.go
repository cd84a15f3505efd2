package deadletters

import (
	"context"
	"fmt"
	"time"

	"payonce/internal/deadletters/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Summary counts the open dead letters.
type Summary struct {
	Open   map[Kind]int64 `json:"open"`          // only kinds with an open dead letter
	Oldest time.Duration  `json:"oldestSeconds"` // the age of the oldest open dead letter; zero if there is none
}

// Summarize counts the open dead letters.
func Summarize(ctx context.Context, db *postgres.DB) (Summary, error) {
	rows, err := dbsqlc.New(db.Reader()).CountOpen(ctx)
	if err != nil {
		return Summary{}, fmt.Errorf("count open dead letters: %w", err)
	}
	s := Summary{Open: map[Kind]int64{}}
	for _, r := range rows {
		s.Open[Kind(r.Kind)] = r.DeadLetters
		s.Oldest = max(s.Oldest, seconds(r.OldestSeconds))
	}
	return s, nil
}
