package crashbutton

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/app"
	"payonce/internal/postgres"
	"payonce/internal/tenants"
	"payonce/lab/chaos/crowd"
	"payonce/lab/chaos/plan"
	"payonce/lab/chaos/tally"
	"payonce/lab/history"
	"payonce/test/pgtest"
)

const (
	clients   = 8 // merchants' programs, each with several requests at a time
	perSecond = 120
	// leastUnderWay is how many payments and refunds have no answer yet when a button is pressed.
	leastUnderWay = 4
	// noLimit is more requests per second than the clients send.
	noLimit   = 100_000
	pollEvery = 20 * time.Millisecond
)

// load is the clients, and what they were told.
type load struct {
	demo     *demo
	db       *pgxpool.Pool
	keys     map[string]string // API key by tenant
	crowd    *crowd.Crowd
	recorder *history.Recorder
	tally    *tally.Tally
	figures  figures

	mu         sync.Mutex
	complaints []string
}

// figures are what the presses have met.
type figures struct{ presses, underWay, cut map[string]int }

func (f *figures) add(b button, underWay, cut int) {
	f.presses[b.path]++
	f.underWay[b.path] += underWay
	f.cut[b.path] += cut
}

func newLoad(t *testing.T, d *demo, seed uint64) *load {
	t.Helper()
	l := &load{demo: d, recorder: history.New(nil), tally: tally.New(),
		figures: figures{map[string]int{}, map[string]int{}, map[string]int{}}}
	var err error
	if l.db, err = pgxpool.New(context.Background(), d.databaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.db.Close)
	l.keys = addTenants(t, d.databaseURL)
	l.crowd = crowd.New(crowd.Options{
		Plan: plan.Plan{Seed: seed, Clients: clients}, APIs: []string{d.public}, Operators: []string{d.operator},
		OperatorKey: "demo-operator-key", Keys: l.keys, PSP: d.psp, PerSecond: perSecond, Recorder: l.recorder,
		Tally: l.tally, Complain: l.complain,
	})
	t.Cleanup(l.crowd.Close)
	return l
}

// addTenants adds those that the demo does not have, and lifts the limits of requests of all of them.
func addTenants(t *testing.T, databaseURL string) (keys map[string]string) {
	t.Helper()
	db := pgtest.Open(t, databaseURL, postgres.DefaultLimits())
	registry := tenants.NewRegistry(db, app.NewID)
	keys = map[string]string{"acme": "demo-acme-key", "globex": "demo-globex-key"}
	for _, tenant := range plan.SmallTenants() {
		keys[tenant] = "crash-button-" + tenant
		if err := registry.EnsureTenant(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		_, err := registry.AddKey(t.Context(), tenant, keys[tenant], "crash button",
			[]tenants.Permission{tenants.PaymentsWrite, tenants.PaymentsRead})
		if err != nil {
			t.Fatal(err)
		}
	}
	for tenant := range keys {
		if err := registry.SetRate(t.Context(), tenant, noLimit, noLimit); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// complain hears of what is wrong whatever has happened before, such as a 500.
func (l *load) complain(where, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complaints = append(l.complaints, where+": "+detail)
}

// answers counts what the clients were told so far.
func (l *load) answers() int { return l.tally.Sum("answer") - l.tally.Of("answer", "none") }

// awaitAnswers waits until there are so many answers more.
func (l *load) awaitAnswers(ctx context.Context, t *testing.T, more int) {
	t.Helper()
	enough := l.answers() + more
	l.await(ctx, t, fmt.Sprintf("%d answers more", more), func() bool { return l.answers() >= enough })
}

// awaitUnderWay waits until some payments or refunds have no answer yet, and lists them by their place in the history.
func (l *load) awaitUnderWay(ctx context.Context, t *testing.T) (underWay map[int]bool) {
	t.Helper()
	l.await(ctx, t, "requests under way", func() bool {
		underWay = map[int]bool{}
		for i, o := range l.recorder.Operations() {
			moves := o.Route == history.PaymentsRoute || o.Route == history.RefundsRoute
			if moves && !o.Answered() && o.Failure == "" {
				underWay[i] = true
			}
		}
		return len(underWay) >= leastUnderWay
	})
	return underWay
}

// cut counts those of the requests whose connection has ended without an answer. A client that hung up by itself was
// not cut.
func (l *load) cut(underWay map[int]bool) (n int) {
	for i, o := range l.recorder.Operations() {
		if underWay[i] && wasCut(o) {
			n++
		}
	}
	return n
}

func wasCut(o history.Operation) bool {
	return strings.HasSuffix(o.Failure, "EOF") || strings.Contains(o.Failure, "connection reset") ||
		strings.Contains(o.Failure, "broken pipe")
}

// await looks again and again: the crowd tells nobody what it does.
func (l *load) await(ctx context.Context, t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.After(patience)
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("wait for %s: %v\n%s", what, ctx.Err(), l.demo.said())
		case <-limit:
			t.Fatalf("%s did not come within %s\n%s", what, patience, l.demo.said())
		}
	}
}
