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

// Summary is how things stand: what is open, and how far everything lags behind. Its parts are read one after the other.
type Summary struct {
	Keys     idempotency.Census
	Letters  deadletters.Summary
	Webhooks Lag // stored, and not processed yet
	Lookups  Lag // of unknown keys, due and not begun yet
	Ledger   []Watermark
	Jobs     map[string]int64 // of the queue, by state
}

// Lag is how much waits, and for how long.
type Lag struct {
	Count  int64
	Oldest time.Duration // zero when nothing waits
}

// Watermark is how far an account's ledger at the PSP has been compared with ours.
type Watermark struct {
	Account   string
	Object    string
	ScannedTo time.Time     // by the PSP's clock; zero for a ledger with nothing in it, or never read
	Age       time.Duration // since the ledger was last read to its end, or else since the tenant was created
}

// maxWatermarks bounds the summary: the accounts furthest behind come first.
const maxWatermarks = 200

// Summary reads how things stand.
func (d *Desk) Summary(ctx context.Context) (Summary, error) {
	var s Summary
	var err error
	if s.Keys, err = d.keys.Census(ctx); err != nil {
		return Summary{}, err
	}
	if s.Letters, err = deadletters.Summarize(ctx, d.db); err != nil {
		return Summary{}, err
	}
	err = s.readLags(ctx, dbsqlc.New(d.db.Reader()))
	if err != nil {
		return Summary{}, fmt.Errorf("read lags: %w", err)
	}
	return s, nil
}

func (s *Summary) readLags(ctx context.Context, q *dbsqlc.Queries) error {
	webhooks, err := q.UnprocessedWebhooks(ctx)
	if err != nil {
		return err
	}
	s.Webhooks = Lag{Count: webhooks.Events, Oldest: seconds(webhooks.OldestSeconds)}
	lookups, err := q.OverdueLookups(ctx)
	if err != nil {
		return err
	}
	s.Lookups = Lag{Count: lookups.Keys, Oldest: seconds(lookups.OldestSeconds)}
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
	jobs, err := q.CountJobs(ctx)
	if err != nil {
		return err
	}
	s.Jobs = make(map[string]int64, len(jobs))
	for _, j := range jobs {
		s.Jobs[j.State] = j.Jobs
	}
	return nil
}

// seconds is never negative: clocks differ.
func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }

type lagBody struct {
	Count         int64 `json:"count"`
	OldestSeconds int64 `json:"oldestSeconds"`
}

func (l Lag) body() lagBody { return lagBody{l.Count, whole(l.Oldest)} }

type watermarkBody struct {
	Account    string `json:"account"`
	Object     string `json:"object"`
	ScannedTo  string `json:"scannedTo,omitempty"`
	AgeSeconds int64  `json:"ageSeconds"`
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
	b.DeadLetters.Open, b.DeadLetters.OldestSeconds = s.Letters.Open, whole(s.Letters.Oldest)
	b.Webhooks, b.Lookups, b.Jobs = s.Webhooks.body(), s.Lookups.body(), s.Jobs
	b.Ledger = make([]watermarkBody, len(s.Ledger))
	for i, m := range s.Ledger {
		b.Ledger[i] = watermarkBody{Account: m.Account, Object: m.Object, AgeSeconds: whole(m.Age)}
		if !m.ScannedTo.IsZero() {
			b.Ledger[i].ScannedTo = stamp(m.ScannedTo)
		}
	}
	return json.Marshal(b, json.Deterministic(true))
}

func whole(d time.Duration) int64 { return int64(d / time.Second) }
