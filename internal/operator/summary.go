package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
)

// Summary counts what is open, and says how far the work is behind. Its parts are read one after the other, so they are
// not of one moment.
type Summary struct {
	Keys          map[idempotency.Status]int64 `json:"keys"`
	OldestUnknown time.Duration                `json:"oldestUnknownSeconds"`
	DeadLetters   deadletters.Summary          `json:"deadLetters"`
	Webhooks      Lag                          `json:"webhooks"` // webhooks that are stored and not processed yet
	Lookups       Lag                          `json:"lookups"`  // lookups that are due and have not begun
	// OldestEvent has waited so long for its place in the feed, or for an endpoint that does not rest after a failure.
	OldestEvent time.Duration    `json:"oldestEventSeconds"`
	Ledger      []Watermark      `json:"ledger"`
	Jobs        map[string]int64 `json:"jobs"` // the jobs in the queue, by state
}

// Lag says how many items wait, and how long the oldest has waited.
type Lag struct {
	Count  int64         `json:"count"`
	Oldest time.Duration `json:"oldestSeconds"` // zero if nothing waits
}

// Watermark says how far an account's ledger at the PSP has been compared with our books.
type Watermark struct {
	Account   string           `json:"account"`
	Object    string           `json:"object"`
	ScannedTo idempotency.Time `json:"scannedTo,omitzero"` // by the PSP's clock; zero: it is empty or was never read
	Age       time.Duration    `json:"ageSeconds"`         // since it was read to its end, or its tenant was created
}

// maxWatermarks bounds the list in the summary. The accounts that are furthest behind come first.
const maxWatermarks = 200

// Summary reads the summary.
func (s *Service) Summary(ctx context.Context) (Summary, error) {
	keys, err := s.config.Keys.KeyCounts(ctx)
	if err != nil {
		return Summary{}, err
	}
	out := Summary{Keys: keys.ByStatus, OldestUnknown: keys.OldestUnknown}
	if out.DeadLetters, err = deadletters.Summarize(ctx, s.config.DB); err != nil {
		return Summary{}, err
	}
	if err := out.readLags(ctx, dbsqlc.New(s.config.DB.Reader())); err != nil {
		return Summary{}, fmt.Errorf("read lags: %w", err)
	}
	return out, nil
}

func (s *Summary) readLags(ctx context.Context, q *dbsqlc.Queries) error {
	backlog, err := q.Backlog(ctx)
	if err != nil {
		return err
	}
	s.Jobs = map[string]int64{}
	for _, b := range backlog {
		lag := Lag{Count: b.Waiting, Oldest: seconds(b.OldestSeconds)}
		switch b.What {
		case "webhooks":
			s.Webhooks = lag
		case "lookups":
			s.Lookups = lag
		case "events", "deliveries":
			s.OldestEvent = max(s.OldestEvent, lag.Oldest)
		case "jobs":
			s.Jobs[b.State] = b.Waiting
		}
	}
	marks, err := q.ListWatermarks(ctx, maxWatermarks)
	if err != nil {
		return err
	}
	for _, m := range marks {
		w := Watermark{Account: m.Account, Object: m.Object, Age: seconds(m.AgeSeconds)}
		if m.ScannedTo != nil && !m.ScannedTo.IsZero() {
			w.ScannedTo = idempotency.Time(*m.ScannedTo)
		}
		s.Ledger = append(s.Ledger, w)
	}
	return nil
}

// seconds is never negative. A difference of two clocks may be.
func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }

// MarshalJSON writes the summary as the operator's API shows it.
func (s Summary) MarshalJSON() ([]byte, error) {
	type members Summary
	return json.Marshal(members(s), json.Deterministic(true), json.WithMarshalers(json.MarshalFunc(wholeSeconds)))
}

func wholeSeconds(d time.Duration) ([]byte, error) {
	return strconv.AppendInt(nil, int64(d/time.Second), 10), nil
}
