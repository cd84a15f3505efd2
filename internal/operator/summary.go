package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
)

// Summary counts what is open, and says how far the work is behind. Its parts are read one after the other, so they are
// not of one moment.
type Summary struct {
	Keys        idempotency.KeyCounts
	DeadLetters deadletters.Summary
	Webhooks    Lag // webhooks that are stored and not processed yet
	Lookups     Lag // lookups of unknown keys that are due and have not begun
	Ledger      []Watermark
	Jobs        map[string]int64 // the jobs in the queue, by state
}

// Lag says how many items wait, and how long the oldest has waited.
type Lag struct {
	Count  int64
	Oldest time.Duration // zero if nothing waits
}

// Watermark says how far an account's ledger at the PSP has been compared with our books.
type Watermark struct {
	Account   string
	Object    string
	ScannedTo time.Time     // by the PSP's clock; zero if the ledger is empty or was never read
	Age       time.Duration // since the ledger was last read to its end, or since the tenant was created
}

// maxWatermarks bounds the list in the summary. The accounts that are furthest behind come first.
const maxWatermarks = 200

// Summary reads the summary.
func (s *Service) Summary(ctx context.Context) (Summary, error) {
	var out Summary
	var err error
	if out.Keys, err = s.config.Keys.KeyCounts(ctx); err != nil {
		return Summary{}, err
	}
	if out.DeadLetters, err = deadletters.Summarize(ctx, s.config.DB); err != nil {
		return Summary{}, err
	}
	err = out.readLags(ctx, dbsqlc.New(s.config.DB.Reader()))
	if err != nil {
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
		if m.ScannedTo != nil {
			w.ScannedTo = *m.ScannedTo
		}
		s.Ledger = append(s.Ledger, w)
	}
	return nil
}

// seconds is never negative. A difference of two clocks may be.
func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }

type lagBody struct {
	Count         int64 `json:"count"`
	OldestSeconds int64 `json:"oldestSeconds"`
}

func (l Lag) body() lagBody { return lagBody{l.Count, whole(l.Oldest)} }

type watermarkBody struct {
	Account    string           `json:"account"`
	Object     string           `json:"object"`
	ScannedTo  idempotency.Time `json:"scannedTo,omitzero"`
	AgeSeconds int64            `json:"ageSeconds"`
}

// MarshalJSON writes the summary as the operator's API shows it.
func (s Summary) MarshalJSON() ([]byte, error) {
	var b struct {
		Keys                 map[idempotency.Status]int64 `json:"keys"`
		OldestUnknownSeconds int64                        `json:"oldestUnknownSeconds"`
		DeadLetters          struct {
			Open          map[deadletters.Kind]int64 `json:"open"`
			OldestSeconds int64                      `json:"oldestSeconds"`
		} `json:"deadLetters"`
		Webhooks lagBody          `json:"webhooks"`
		Lookups  lagBody          `json:"lookups"`
		Ledger   []watermarkBody  `json:"ledger"`
		Jobs     map[string]int64 `json:"jobs"`
	}
	b.Keys, b.OldestUnknownSeconds = s.Keys.ByStatus, whole(s.Keys.OldestUnknown)
	b.DeadLetters.Open, b.DeadLetters.OldestSeconds = s.DeadLetters.Open, whole(s.DeadLetters.Oldest)
	b.Webhooks, b.Lookups, b.Jobs = s.Webhooks.body(), s.Lookups.body(), s.Jobs
	b.Ledger = make([]watermarkBody, len(s.Ledger))
	for i, m := range s.Ledger {
		b.Ledger[i] = watermarkBody{Account: m.Account, Object: m.Object, AgeSeconds: whole(m.Age)}
		if !m.ScannedTo.IsZero() {
			b.Ledger[i].ScannedTo = idempotency.Time(m.ScannedTo)
		}
	}
	return json.Marshal(b, json.Deterministic(true))
}

func whole(d time.Duration) int64 { return int64(d / time.Second) }
