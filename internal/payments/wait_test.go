package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/internal/watch"
	"payonce/test/wait"
)

// undecided are the keys that a look finds undecided, and whether each is in flight.
type undecided struct {
	mu   sync.Mutex
	keys map[idempotency.Ref]bool
}

func (u *undecided) look(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.keys), nil
}

// become is what the next looks find.
func (u *undecided) become(inFlight bool, refs ...idempotency.Ref) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys = map[idempotency.Ref]bool{}
	for _, ref := range refs {
		u.keys[ref] = inFlight
	}
}

func numbered(n int) idempotency.Ref {
	return idempotency.StoredRef("acme", "POST /payments", fmt.Sprintf("order-%010d", n))
}

// member is a request that waits for a key.
type member struct {
	*watch.Member[bool]

	waits *waits
	of    string // the tenant
}

// waitsFor joins a key and waits.
func waitsFor(t *testing.T, w *waits, ref idempotency.Ref, what until) *member {
	t.Helper()
	m := &member{w.keys.Join(ref), w, ref.Tenant}
	if !w.enter(ref.Tenant) {
		t.Fatal("it may not wait")
	}
	m.Wait(what.over)
	return m
}

func (m *member) leave() {
	m.Leave()
	m.waits.leave(m.of)
}

func woken(m interface{ Changed() <-chan struct{} }) bool {
	select {
	case <-m.Changed():
		return true
	default:
		return false
	}
}

// passes lets so many looks happen.
func passes(looks int) {
	<-time.NewTimer(time.Duration(looks)*watch.Interval + watch.Interval/2).C
	synctest.Wait()
}

// nobodyLeft checks that nothing is left of requests that have come and gone.
func nobodyLeft(t *testing.T, w *waits) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys.Len() != 0 || w.waiting != 0 || len(w.tenants) != 0 {
		t.Fatalf("%d keys and %d requests of %v are left", w.keys.Len(), w.waiting, w.tenants)
	}
}

// A request that leaves takes nothing from those who stay: a change wakes them, and their places are counted.
func TestRequestThatLeavesLeavesTheOthersWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		leaves, stays := waitsFor(t, w, numbered(1), executionEnd), waitsFor(t, w, numbered(1), executionEnd)
		leaves.leave()
		if w.tenants["acme"] != 1 || w.waiting != 1 {
			t.Errorf("%v are counted, %d in all", w.tenants, w.waiting)
		}
		if w.keys.Wake(numbered(1)); !woken(stays) {
			t.Error("a change does not wake who stays")
		}
		stays.leave()
		passes(1)
		nobodyLeft(t, w)
	})
}

// The execution has ended, and its outcome is unknown. That ends the wait for the execution only.
func TestWaitForTheOutcomeOutlastsTheExecution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost, executed := numbered(1), numbered(2)
		b := &undecided{}
		b.become(true, lost, executed)
		w := newWaits(b.look)
		end, ends := waitsFor(t, w, executed, executionEnd), waitsFor(t, w, lost, outcome)
		b.become(false, lost, executed)
		passes(2)
		if !woken(end) || woken(ends) {
			t.Fatalf("unknown: the wait for the end is over: %v, for the outcome: %v", woken(end), woken(ends))
		}
		b.become(false)
		passes(1)
		if !woken(ends) {
			t.Fatal("the outcome is not told")
		}
		end.leave()
		ends.leave()
		passes(2)
		nobodyLeft(t, w)
	})
}

// waited is how often await has asked, and its result.
type waited struct {
	asked  int
	waited bool
	took   time.Duration
	err    error
}

// awaits waits for a key that stays undecided, for a second at most.
func awaits(ctx context.Context, w *waits, asked func(times int)) waited {
	times, began := 0, time.Now()
	as, err := await(ctx, w, numbered(1), time.Second, func() (until, error) {
		times++
		asked(times)
		return outcome, nil
	})
	return waited{times, as, time.Since(began), err}
}

// undecidedForEver is a database that shows no change.
func undecidedForEver() *undecided {
	return &undecided{keys: map[idempotency.Ref]bool{numbered(1): true}}
}

func TestCommitBetweenTheQuestionAndTheWaitWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		var second time.Duration
		began := time.Now()
		got := awaits(t.Context(), w, func(times int) {
			if times == 1 {
				w.keys.Wake(numbered(1)) // committed, after the question was answered
			} else {
				second = time.Since(began)
			}
		})
		if got != (waited{asked: 2, waited: true, took: time.Second}) || second != 0 {
			t.Fatalf("%+v, asked again after %s", got, second)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

func TestWaitEndsAtItsLimitWithThePresentAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		if got := awaits(t.Context(), w, func(int) {}); got != (waited{asked: 1, waited: true, took: time.Second}) {
			t.Fatalf("%+v", got)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

func TestClientThatLeavesEndsItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		client, hangUp := context.WithCancel(t.Context())
		go func() {
			passes(1)
			hangUp()
		}()
		got := awaits(client, w, func(int) {})
		if !errors.Is(got.err, context.Canceled) || got.took >= 2*watch.Interval {
			t.Fatalf("%+v", got)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// A request beyond the limit is answered at once, and waits when another one has left.
func TestOnlySoManyRequestsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		var all []*member
		for range MaxWaiting / 2 {
			all = append(all, waitsFor(t, w, numbered(1), outcome))
		}
		if got := awaits(t.Context(), w, func(int) {}); got != (waited{}) {
			t.Fatalf("one too many: %+v", got)
		}
		all[0].leave()
		if got := awaits(t.Context(), w, func(int) {}); !got.waited || got.took != time.Second {
			t.Fatalf("there is room: %+v", got)
		}
		for _, m := range all[1:] {
			m.leave()
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// However many requests of some tenants wait, a request of another tenant may wait, too.
func TestWaitsOfSomeTenantsKeepNoOtherFromWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		var all []*member
		for _, tenant := range []string{"acme", "globex", "initech", "hooli"} {
			ref, theirs := idempotency.StoredRef(tenant, "POST /payments", "order-0000000001"), 0
			for ; w.enter(tenant); theirs++ {
				all = append(all, &member{w.keys.Join(ref), w, tenant})
			}
			if theirs == 0 {
				t.Errorf("nobody of %s may wait", tenant)
			}
		}
		for _, m := range all {
			m.leave()
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// A panic is answered as an internal error, and the process goes on. So it must leave nothing behind.
func TestPanicInTheQuestionLeavesNoWaitBehind(t *testing.T) {
	t.Parallel()
	w := newWaits(undecidedForEver().look)
	func() {
		defer func() { _ = recover() }()
		awaits(t.Context(), w, func(int) { panic("asked") })
	}()
	nobodyLeft(t, w)
}

func TestQuestionThatFailsEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, broken := newWaits(undecidedForEver().look), errors.New("broken")
		waited, err := await(t.Context(), w, numbered(1), time.Hour, func() (until, error) { return outcome, broken })
		if !waited || !errors.Is(err, broken) {
			t.Errorf("waited %v, %v", waited, err)
		}
		nobodyLeft(t, w)
	})
}

// What has an outcome, or cannot be read, is not waited for: it is read once.
func TestOutcomeThatIsThereIsReadOnce(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for first, failed := range map[statusRead]error{
		{payment.Succeeded, "order-0000000001"}: nil, {}: broken,
	} {
		w, reads := newWaits(undecidedForEver().look), 0
		read := func() (statusRead, error) {
			if reads++; reads > 1 {
				return statusRead{payment.Succeeded, first.key}, nil
			}
			return first, failed
		}
		waited, err := awaitOutcome(t.Context(), w, "acme", payment.CreateOperation, time.Minute, read)
		if !waited || !errors.Is(err, failed) || reads != 1 {
			t.Errorf("%+v: waited %v, %v; read %d times", first, waited, err, reads)
		}
	}
}

// What panics in a goroutine that has no handler would end the process. The log must show where it has happened.
func TestPanicOfAQuestionIsThatOfItsCaller(t *testing.T) {
	t.Parallel()
	defer func() {
		got, _ := recover().(*panicked)
		if got == nil || got.cause != "asked" || !strings.Contains(string(got.Stack()), "panics(") {
			t.Errorf("recovered %+v", got)
		}
	}()
	answer, err := apart(panics)
	t.Errorf("answered %+v, %v", answer, err)
}

func panics() (Answer, error) { panic("asked") }

func TestShutdownEndsAllWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWaits(undecidedForEver().look)
		go func() {
			passes(1)
			close(w.over)
		}()
		if got := awaits(t.Context(), w, func(int) {}); got.err != nil || got.waited || got.took >= 2*watch.Interval {
			t.Fatalf("the request that waits: %+v", got)
		}
		if got := awaits(t.Context(), w, func(int) {}); got != (waited{}) {
			t.Fatalf("the next request: %+v", got)
		}
		passes(1)
		nobodyLeft(t, w)
	})
}

// Requests that wait for an outcome, in the process that commits it and in another one.

// heard is the answer of a wait.
type heard[T any] struct {
	answer T
	waited bool
	err    error
}

// background waits in a goroutine.
func background[T any](wait func() (T, bool, error)) <-chan heard[T] {
	out := make(chan heard[T], 1)
	go func() {
		answer, waited, err := wait()
		out <- heard[T]{answer, waited, err}
	}()
	return out
}

// hears is the answer of a request that has waited.
func hears[T any](t *testing.T, from <-chan heard[T]) T {
	t.Helper()
	h := wait.For(t, "the answer", from)
	if h.err != nil || !h.waited {
		t.Fatalf("answered %+v", h)
	}
	return h.answer
}

// awaitWaiting returns when so many requests of the service wait.
func (s *shop) awaitWaiting(n int) {
	s.t.Helper()
	wait.Until(s.t, fmt.Sprintf("%d requests wait", n), func() bool {
		s.service.waits.mu.Lock()
		defer s.service.waits.mu.Unlock()
		return s.service.waits.waiting == n
	})
}

// blind makes the service see no change that another process commits.
func (s *shop) blind() *shop {
	s.service.waits = newWaits(func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error) {
		return nil, errors.New("not asked here")
	})
	return s
}

// elsewhere is the same shop, seen from another process.
func (s *shop) elsewhere() *shop {
	other, db := *s, postgres.Wrap(s.pool, patience)
	other.keys = idempotency.New(db, terms(), time.Now)
	other.service = New(Config{
		DB: db, Keys: other.keys, PSPs: s.service.psps, NewID: uuid.NewV7,
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	return &other
}

func (s *stage) paymentID() payment.ID { return payment.ID(s.lease.Subject) }

// waitsFor sends the stage's request again, with a wait for its outcome.
func (s *stage) waitsFor(limit time.Duration) <-chan heard[Answer] {
	return s.waits(Patience{limit, true})
}

func (s *stage) waits(p Patience) <-chan heard[Answer] {
	return background(func() (Answer, bool, error) {
		return s.service.WaitFor(s.t.Context(), s.reservation.Ref, p, func() (Answer, error) {
			return s.service.Create(s.t.Context(), s.key, order())
		})
	})
}

func (s *stage) waitsForPayment(limit time.Duration) <-chan heard[payment.Payment] {
	return background(func() (payment.Payment, bool, error) {
		waited, err := s.service.AwaitPayment(s.t.Context(), "acme", s.paymentID(), limit)
		if err != nil {
			return payment.Payment{}, waited, err
		}
		p, err := s.service.Payment(s.t.Context(), "acme", s.paymentID())
		return p, waited, err
	})
}

// The reads of the waited keys fail here, so only the commit itself can wake.
func TestCommitOfThisProcessWakesWithoutARead(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.charging("order-0000000001").lost()
	post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
	s.awaitWaiting(2)
	s.evidenceBy(judge.SourceLookup, g.record)
	if final := is[Final](t, hears(t, post)); !final.Replayed || final.Response.Status != 201 {
		t.Errorf("POST answers %+v", final)
	}
	if p := hears(t, get); p.Status != payment.Succeeded || p.PSPChargeID != g.record.ID {
		t.Errorf("GET answers %+v", p)
	}
	s.awaitWaiting(0)
}

// A request that has said nothing waits for the end of the execution alone: its client is told at once that the outcome
// is lost.
func TestWaitForAnExecutionAloneEndsWithIt(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.charging("order-0000000001")
	post := g.waits(Patience{Limit: time.Hour})
	s.awaitWaiting(1)
	g.lost()
	if pending := is[Pending](t, hears(t, post)); !pending.Recalled {
		t.Errorf("POST answers %+v", pending)
	}
	is[Pending](t, hears(t, g.waits(Patience{Limit: time.Hour})))
	s.awaitWaiting(0)
}

// Almost no request has to wait, and a request beyond the limit may not. Neither is asked twice, or takes part in the
// waits.
func TestRequestThatDoesNotWaitIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWaits(undecidedForEver().look)
	for w.enter("acme") { // all places of the tenant are taken
	}
	s := &Service{waits: w}
	for answer, want := range map[Answer]bool{Pending{}: true, InFlight{}: false} {
		asked := 0
		_, waited, err := s.WaitFor(t.Context(), numbered(1), Patience{Limit: time.Hour}, func() (Answer, error) {
			asked++
			if w.keys.Len() != 0 {
				t.Error("it has joined the waits before it was asked")
			}
			return answer, nil
		})
		if waited != want || err != nil || asked != 1 {
			t.Errorf("%T: waited %v, %v; asked %d times", answer, waited, err, asked)
		}
	}
}

// A request waits for an execution, the outcome of which is lost, and then for the outcome.
func TestWaitForAnExecutionGoesOnUntilTheOutcome(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.charging("order-0000000001")
	post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
	s.awaitWaiting(2)
	change := s.service.waits.keys.Join(g.reservation.Ref)
	defer change.Leave()
	g.lost()
	<-change.Changed()
	s.awaitWaiting(2)
	s.evidenceBy(judge.SourceLookup, declinedAs(g.record, "no_money"))
	if final := is[Final](t, hears(t, post)); final.Response.Status != 402 {
		t.Errorf("POST answers %+v", final)
	}
	if p := hears(t, get); p.Status != payment.Declined {
		t.Errorf("GET answers %+v", p)
	}
}

func TestRefundIsWaitedForLikeAPayment(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.refunding("refund-000000001", s.charging("paid-00000000001").paidFor(), 100).lost()
	get := background(func() (payment.Refund, bool, error) {
		id := payment.RefundID(g.lease.Subject)
		waited, err := s.service.AwaitRefund(t.Context(), "acme", id, time.Hour)
		if err != nil {
			return payment.Refund{}, waited, err
		}
		r, err := s.service.RefundByID(t.Context(), "acme", id)
		return r, waited, err
	})
	s.awaitWaiting(1)
	s.evidenceBy(judge.SourceLookup, g.record)
	if r := hears(t, get); r.Status != payment.Succeeded || r.PSPRefundID != g.record.ID {
		t.Errorf("answers %+v", r)
	}
}

func TestCommitOfAnotherProcessIsFoundByTheNextRead(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.elsewhere()
	for name, g := range map[string]*stage{
		"unknown":   s.charging("order-0000000001").lost(),
		"in flight": s.charging("order-0000000002"),
	} {
		post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
		s.awaitWaiting(2)
		other.evidenceBy(judge.SourceLookup, g.record)
		if final := is[Final](t, hears(t, post)); !final.Replayed || final.Response.Status != 201 {
			t.Errorf("%s: POST answers %+v", name, final)
		}
		if p := hears(t, get); p.Status != payment.Succeeded {
			t.Errorf("%s: GET answers %+v", name, p)
		}
	}
}

// Nothing was executed: the payment has failed, and that is an outcome.
func TestProofThatNothingWasExecutedEndsTheWait(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	get := g.waitsForPayment(time.Hour)
	s.awaitWaiting(1)
	g.proven()
	if p := hears(t, get); p.Status != payment.Failed {
		t.Errorf("answers %+v", p)
	}
}

func TestWaitThatReachesItsLimitAnswersThePresentState(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	post, get := g.waitsFor(2*watch.Interval), g.waitsForPayment(2*watch.Interval)
	is[Pending](t, hears(t, post))
	if p := hears(t, get); p.Status != payment.Processing {
		t.Errorf("answers %+v", p)
	}
}

func TestPaymentWithAnOutcomeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.charging("order-0000000001").succeeded()
	if p := hears(t, g.waitsForPayment(time.Hour)); p.Status != payment.Succeeded {
		t.Errorf("answers %+v", p)
	}
	waited, err := s.service.AwaitPayment(t.Context(), "globex", g.paymentID(), time.Hour)
	if !errors.Is(err, ErrPaymentNotFound) || !waited {
		t.Errorf("another tenant hears %v", err)
	}
}

// EndWaits is what a shutdown calls.
func TestShutdownAnswersThoseWhoWaitWithThePresentState(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
	s.awaitWaiting(2)
	s.service.EndWaits()
	if h := <-post; h.err != nil || h.waited {
		t.Errorf("POST answers %+v", h)
	} else {
		is[Pending](t, h.answer)
	}
	if h := <-get; h.err != nil || h.waited || h.answer.Status != payment.Processing {
		t.Errorf("GET answers %+v", h)
	}
}

// What a request waits for depends on what it was answered.
func TestRequestWaitsForWhatItsAnswerLeavesOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer          Answer
		want, byDefault until
	}{
		"it is executed":          {InFlight{}, executionEnd, executionEnd},
		"its outcome is unknown":  {Pending{Recalled: true}, outcome, nothing},
		"its own outcome is lost": {Pending{}, nothing, nothing},
		"it is answered":          {Final{}, nothing, nothing},
		"nobody has executed it":  {NotExecuted{}, nothing, nothing},
		"it has failed":           {nil, nothing, nothing},
	} {
		if got := (Patience{Outcome: true}).awaits(c.answer); got != c.want {
			t.Errorf("%s: it waits for %d", name, got)
		}
		if got := (Patience{}).awaits(c.answer); got != c.byDefault {
			t.Errorf("%s: without a preference, it waits for %d", name, got)
		}
	}
	for _, s := range payment.Statuses() {
		if waits := awaitedIn(s) == outcome; waits != (s == payment.Processing) {
			t.Errorf("a payment that is %s is waited for: %v", s, waits)
		}
	}
}
