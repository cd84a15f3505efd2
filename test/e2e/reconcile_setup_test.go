package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// gracePeriod is how long "not found" is no proof in these tests.
func gracePeriod() time.Duration { return lease() + time.Second }

// lease is so short that it ends within a test. An owner sends within a third of it, and the first statement of a
// session takes longer where it connects to other servers.
func lease() time.Duration { return pgtest.ByServers(3*time.Second, 9*time.Second) }

// quick are settings under which every case ends within seconds. A webhook has all the time until the first lookup.
func quick(c *config.Shared) {
	c.PSPTotal, c.PSPDial = time.Second, time.Second
	c.Lease, c.PSPLate = lease(), gracePeriod()-lease()
	c.FirstLookup = 3 * time.Second
	c.PSPBreakerFailures = 100_000
}

// never is longer than any test. What waits for it does not happen.
const never = time.Hour

// setupOpen is setup with a PSP that sends webhooks, and times of seconds. Nobody reconciles yet.
func setupOpen(t testing.TB, with ...func(*options)) *world {
	t.Helper()
	return setup(t, slices.Concat([]func(*options){func(o *options) {
		o.webhooks = true
		o.settings = func(c *config.API) { quick(&c.Shared) }
	}}, with)...)
}

// shared edits the settings of API and reconciler both.
func shared(edit func(*config.Shared)) func(*options) {
	return func(o *options) {
		before := o.settings
		o.settings = func(c *config.API) {
			before(c)
			edit(&c.Shared)
		}
	}
}

// noLookups leaves everything to webhooks, scans and operators.
func noLookups(c *config.Shared) { c.FirstLookup = never }

// longLease is for tests that end a lease in the table. The owner then still works, however slow the machine is.
func longLease(c *config.Shared) { c.Lease = patience }

// reconciler is a reconciler process.
type reconciler struct {
	t         testing.TB
	base      string // URL of its own listener
	logs      *lockedBuffer
	interrupt context.CancelFunc
	ended     chan error
	over      chan struct{}
}

// reconcile starts a reconciler on w's database and PSP. Several may run.
func (w *world) reconcile(edit ...func(*config.Reconciler)) *reconciler {
	w.t.Helper()
	c, err := config.LoadReconciler(func(string) string { return "" })
	if err != nil {
		w.t.Fatal(err)
	}
	c.Shared, c.Addr, c.DBMaxConns = w.own.Shared, "127.0.0.1:0", 12
	c.SweepEvery, c.ClaimEvery, c.PruneEvery, c.ScanEvery = 200*time.Millisecond, 100*time.Millisecond, never, never
	c.LookupBudget, c.LookupBase, c.LookupCap, c.LookupRecheck = 3, 100*time.Millisecond, 500*time.Millisecond,
		time.Second
	c.DatabaseURL = pgtest.As(w.t, c.DatabaseURL, postgres.Reconciler)
	for _, e := range edit {
		e(&c)
	}
	r := &reconciler{t: w.t, logs: &lockedBuffer{}, ended: make(chan error, 1), over: make(chan struct{})}
	made, err := app.NewReconciler(w.t.Context(), c, slog.New(slog.NewJSONHandler(r.logs, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.Background())
	r.interrupt = interrupt
	ready := make(chan struct{})
	go func() {
		defer close(r.over)
		r.ended <- made.Run(ctx, sync.OnceFunc(func() { close(ready) }))
	}()
	w.t.Cleanup(func() {
		interrupt()
		<-r.over
	})
	select {
	case <-ready:
	case err := <-r.ended:
		w.t.Fatalf("ended: %v", err)
	}
	address := regexp.MustCompile(`"reconciling","operator":"([^"]+)"`).FindStringSubmatch(r.logs.String())
	if address == nil {
		w.t.Fatalf("the log does not tell the address: %s", r.logs)
	}
	r.base = "http://" + address[1]
	w.sweptFromNow()
	return r
}

// sweptFromNow waits for a sweep that begins after now. A schedule begins when somebody has been elected to keep it,
// which takes seconds.
func (w *world) sweptFromNow() {
	w.t.Helper()
	last := w.count("SELECT coalesce(max(id), 0) FROM river_job")
	eventually(w.t, "a sweep", func() bool {
		return w.count("SELECT count(*) FROM river_job WHERE kind = 'sweep' AND state = 'completed' AND id > $1",
			last) > 0
	})
}

// stop interrupts the reconciler and waits for its end.
func (r *reconciler) stop() {
	r.t.Helper()
	r.interrupt()
	if err := wait.For(r.t, "the reconciler's end", r.ended); err != nil {
		r.t.Fatalf("ended: %v", err)
	}
	<-r.over
}

// scanning has the PSP's ledger compared all the time.
func scanning(c *config.Reconciler) { c.ScanEvery = 200 * time.Millisecond }

// becomes waits for a key to reach a status.
func (w *world) becomes(key, status string) keyRow {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("the key is %+v after %q", w.keyRow(key), w.moves(key))
		}
	}()
	eventually(w.t, "the key's becoming "+status, func() bool { return w.keyRow(key).Status == status })
	return w.keyRow(key)
}

// moves are the lines of a key's timeline that say that it has moved, and who moved it. Looks that decided nothing are
// left out.
func (w *world) moves(key string) []string {
	w.t.Helper()
	return pgtest.Values[string](w.t, w.db, `SELECT actor || ': ' || from_status || ' > ' || to_status FROM idempotency_key_events
		WHERE key = $1 AND from_status <> to_status ORDER BY id`, key)
}

func (w *world) wantMoves(key string, want ...string) {
	w.t.Helper()
	if got := w.moves(key); !slices.Equal(got, want) {
		w.t.Fatalf("timeline is %q, want %q", got, want)
	}
}

// wantNeverLost checks the timeline of a key that was answered at once. On a busy machine the webhook may complete it
// before its owner does.
func (w *world) wantNeverLost(key string) {
	w.t.Helper()
	if len(w.moves(key)) > 0 {
		w.wantMoves(key, "webhook: in_progress > completed")
	}
}

// deadLetters counts the open dead letters of a kind that are about a key; all of the kind if the key is empty.
func (w *world) deadLetters(kind, key string) int {
	w.t.Helper()
	return w.count("SELECT count(*) FROM dead_letters WHERE status = 'open' AND kind = $1 AND (key = $2 OR $2 = '')",
		kind, key)
}

// awaitDeadLetter waits for a dead letter, and checks that it is the only one about the key.
func (w *world) awaitDeadLetter(kind, key string) {
	w.t.Helper()
	eventually(w.t, "a dead letter "+kind, func() bool { return w.deadLetters(kind, key) == 1 })
	if n := w.count("SELECT count(*) FROM dead_letters WHERE key = $1", key); key != "" && n != 1 {
		w.t.Fatalf("%d dead letters about the key, want 1", n)
	}
}

// pspPosts counts how often the PSP was asked to move money under a key.
func (w *world) pspPosts(account, key string) int {
	w.t.Helper()
	var seen struct {
		Posts int `json:"posts"`
	}
	w.askPSP(fmt.Sprintf("/_requests?account=%s&idempotencyKey=%s", account, key), &seen)
	return seen.Posts
}

// replaysSuccess checks that the next retry of a key that was resolved as executed is answered what the live request
// would have been, and that it moves no money. retry sends it.
func (w *world) replaysSuccess(key string, retry func() reply) {
	w.t.Helper()
	posts := w.pspPosts("acme", key)
	r := retry()
	r.expect(w.t, http.StatusCreated, "")
	if r.header.Get("Idempotent-Replayed") != "true" || r.header.Get("Content-Type") != "application/json" ||
		r.header.Get("Idempotency-Key") != key {
		w.t.Fatalf("replayed under %v", r.header)
	}
	// What is shown is rendered from the row, what is replayed is what was stored.
	shown := w.do(call{method: "GET", path: r.header.Get("Location")})
	if shown.expect(w.t, http.StatusOK, ""); !bytes.Equal(shown.undated(), r.body) ||
		shown.text(w.t, "status") != "succeeded" {
		w.t.Fatalf("replayed is %s, and shown %s", r.body, shown.body)
	}
	retry().same(w.t, r)
	l := w.ledger("acme", key)
	if len(l.Charges)+len(l.Refunds) != 1 || w.pspPosts("acme", key) != posts {
		w.t.Fatalf("the PSP was asked %d times, then %d; it has %+v", posts, w.pspPosts("acme", key), l)
	}
}

// hand does by hand what the PSP's page can do: /v1 as the API does, /_ as an examiner.
func (w *world) hand(method, path, account, key, body string) reply {
	w.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+pspSecret)
	req.Header.Set("PSP-Account", account)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	w.mock.ServeHTTP(rec, req)
	return reply{status: rec.Code, header: rec.Result().Header, body: rec.Body.Bytes()}
}

// chargeByHand makes a charge that we did not ask for, or not at this time, and gives the PSP's id of it.
func (w *world) chargeByHand(account, key, reference string) string {
	w.t.Helper()
	r := w.hand(http.MethodPost, "/v1/charges", account, key,
		fmt.Sprintf(`{"amountCents":12000,"currency":"USD","paymentMethod":"pm_ok","reference":%q}`, reference))
	r.expect(w.t, http.StatusCreated, "")
	return r.text(w.t, "id")
}

// sendWebhook has the PSP send the webhook of an entry now, in a disorder or in none, and gives the answers.
func (w *world) sendWebhook(entry, disorder string) (statuses []int) {
	w.t.Helper()
	body := ""
	if disorder != "" {
		body = fmt.Sprintf(`{"disorder":%q}`, disorder)
	}
	r := w.hand(http.MethodPost, "/_webhooks/"+entry, "", "", body)
	r.expect(w.t, http.StatusOK, "")
	var sent struct {
		Tries []struct {
			Status int `json:"status"`
		} `json:"tries"`
	}
	if err := json.Unmarshal(r.body, &sent); err != nil {
		w.t.Fatal(err)
	}
	for _, try := range sent.Tries {
		statuses = append(statuses, try.Status)
	}
	return statuses
}

// disorder sets how often the PSP's webhooks go astray, such as "drop":1.
func (w *world) disorder(rates string) {
	w.t.Helper()
	w.hand(http.MethodPut, "/_faults", "", "", `{"webhooks":{`+rates+`}}`).expect(w.t, http.StatusOK, "")
}

// processed waits until every webhook that was taken in has been dealt with.
func (w *world) processed(events int) {
	w.t.Helper()
	eventually(w.t, "the processing of the webhooks", func() bool {
		return w.count("SELECT count(*) FROM webhook_events WHERE processed_at IS NOT NULL") == events
	})
}

// way is the way between us and the PSP, on which requests and answers get lost.
type way struct {
	requests, answers sync.Map    // the keys of movements under which they do
	deaf              atomic.Bool // lookups are answered 500
	lists             sync.Map    // what lists have been asked for, by their raw query
	closed            atomic.Pointer[gate]
}

// hold has lookups wait from now on, until the gate is opened.
func (y *way) hold() *gate {
	g := newGate()
	y.closed.Store(g)
	return g
}

// loseRequests has every request under a key lost before the PSP sees it. Nobody here can tell that from a lost answer.
func (y *way) loseRequests(key string) { y.requests.Store(key, true) }

// loseAnswers has the answer to every request under a key lost.
func (y *way) loseAnswers(key string) { y.answers.Store(key, true) }

func (y *way) wrap(psp http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			y.list(psp, rw, r)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if _, lost := y.requests.Load(key); lost {
			panic(http.ErrAbortHandler)
		}
		if _, lost := y.answers.Load(key); lost {
			psp.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		psp.ServeHTTP(rw, r)
	})
}

func (y *way) list(psp http.Handler, rw http.ResponseWriter, r *http.Request) {
	y.lists.Store(r.URL.RawQuery, true)
	if g := y.closed.Load(); g != nil {
		g.wrap(psp).ServeHTTP(rw, r)
		return
	}
	if y.deaf.Load() {
		rw.WriteHeader(http.StatusInternalServerError)
		return
	}
	psp.ServeHTTP(rw, r)
}
