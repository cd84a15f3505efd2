package console

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/tenants"
)

const (
	latestKeys    = 20
	overviewEvery = time.Second
	// summaryEvery is longer: the summary counts keys and webhooks in several statements.
	summaryEvery = 5 * time.Second
)

// overviewView is what is happening. Requests are those that this process has answered; the rest is from the database.
type overviewView struct {
	Summary  operator.Summary
	Keys     []count
	Requests []count
	Open     int64 // open dead letters
	Jobs     int64 // that wait or run
	Oldest   time.Duration
	Latest   []operator.KeyEntry
	Since    time.Time // when this process was started
}

// count is a bar of a chart. Most is the longest bar's.
type count struct {
	Name    string
	N, Most int64
}

// countsOf are the bars of a chart, the highest first.
func countsOf[Name ~string](by map[Name]int64) []count {
	var counts []count
	var most int64
	for name, n := range by {
		counts, most = append(counts, count{Name: string(name), N: n}), max(most, n)
	}
	for i := range counts {
		counts[i].Most = max(1, most)
	}
	slices.SortFunc(counts, func(a, b count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	return counts
}

// overviewReader reads what the overview shows. It keeps the summary for some seconds.
type overviewReader struct {
	c       *Console
	summary operator.Summary
	read    time.Time // when the summary was read; zero before
}

func (o *overviewReader) view(ctx context.Context) (overviewView, error) {
	c := o.c
	if now := c.config.Now(); now.Sub(o.read) >= summaryEvery {
		summary, err := c.config.Operators.Summary(ctx)
		if err != nil {
			return overviewView{}, err
		}
		o.summary, o.read = summary, now
	}
	latest, err := c.config.Operators.LatestKeys(ctx, latestKeys)
	if err != nil {
		return overviewView{}, err
	}
	v := overviewView{Summary: o.summary, Latest: latest, Since: c.config.Recent.Since(),
		Requests: countsOf(c.config.Recent.ByOutcome())}
	for _, n := range o.summary.DeadLetters.Open {
		v.Open += n
	}
	for n := range maps.Values(o.summary.Jobs) {
		v.Jobs += n
	}
	for _, w := range o.summary.Ledger {
		v.Oldest = max(v.Oldest, w.Age)
	}
	byStatus := maps.Clone(o.summary.Keys)
	for _, status := range []idempotency.Status{idempotency.InProgressStatus, idempotency.UnknownStatus,
		idempotency.FailedRetryableStatus, idempotency.CompletedStatus, idempotency.ExpiredStatus} {
		byStatus[status] += 0 // A status without keys is shown, too.
	}
	v.Keys = countsOf(byStatus)
	return v, nil
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	v, err := (&overviewReader{c: c}).view(r.Context())
	if err != nil {
		c.explain(w, r, err)
		return
	}
	c.show(w, r, http.StatusOK, "overview.html", "Overview", &by, v)
}

func (c *Console) overviewLive(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
	c.stream(w, r, "/console/", func() *topic {
		reader := overviewReader{c: c}
		return &topic{every: overviewEvery, render: func(ctx context.Context, _ bool, show func(string)) error {
			v, err := reader.view(ctx)
			if err != nil {
				return err
			}
			return c.showPart("overview-live", v, show)
		}}
	})
}
