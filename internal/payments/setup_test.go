// What the tests of this package share:
//
//	shop      a service with a database of the test's own, at the mock PSP or at one that the test plays
//	stage     a key with its movement: reserved, brought to where a test begins, and looked at
//	evidence  what a record may say of a stage, and who brings it
//	faults    a database that fails or cannot be reached, and what is logged then
//
// The PSP that a test plays is in actor_test.go. Who needs the helpers of one source file finds them in its tests.

package payments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/demo/mockpsp"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

const (
	patience  = time.Minute
	pspSecret = "test-psp-secret"
)

// shop is a service on a database and a PSP of the test's own.
type shop struct {
	t       *testing.T
	pool    *pgxpool.Pool // straight to the tables
	keys    *idempotency.Keys
	service *Service
	pspURL  string
}

// setup is a shop at the mock PSP, which gives up at once what it leaves without an answer.
func setup(t *testing.T) *shop {
	t.Helper()
	config := mockpsp.DefaultConfig()
	config.Secret, config.HangLimit = pspSecret, time.Millisecond
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mock)
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return setupAt(t, server.URL, time.Now)
}

// setupOn is a shop at a PSP that the test plays itself.
func setupOn(t *testing.T, psp http.Handler) *shop {
	t.Helper()
	server := httptest.NewServer(psp)
	t.Cleanup(server.Close)
	return setupAt(t, server.URL, time.Now)
}

// terms are the defaults of the settings.
func terms() idempotency.Terms {
	return idempotency.Terms{
		Lease: 30 * time.Second, Retention: 48 * time.Hour, PSPMemory: 24 * time.Hour,
		GracePeriod: 90 * time.Second, FirstLookup: 5 * time.Second, Audit: 30 * 24 * time.Hour,
	}
}

// setupAt is a shop with two tenants, and with the application's clock as the test has it.
func setupAt(t *testing.T, pspURL string, now func() time.Time) *shop {
	t.Helper()
	s := &shop{t: t, pool: pgtest.New(t), pspURL: pspURL}
	if err := terms().Check(); err != nil {
		t.Fatal(err)
	}
	db := postgres.Wrap(s.pool, patience)
	limits := gateway.DefaultLimits()
	limits.Total = patience // A busy machine may take longer than eight seconds for a page of megabytes.
	psp, err := native.New(pspURL, pspSecret, limits, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	s.keys = idempotency.New(db, terms(), now)
	s.service = New(Config{
		DB: db, Keys: s.keys, PSPs: gateway.PSPs{native.Name: psp}, NewID: uuid.NewV7,
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		Log:     slog.New(slog.DiscardHandler), PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	s.exec("INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme'), ('globex', 'globex')")
	return s
}

func keyed(t testing.TB, key string) Keyed {
	t.Helper()
	k, err := idempotency.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: k}
}

// order is a request for 120 dollars that has passed Validate.
func order() payment.CreateRequest {
	return payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"}
}

// orderBy is an order that is paid by a token of the mock PSP.
func orderBy(method string) payment.CreateRequest {
	o := order()
	o.PaymentMethod = method
	return o
}

// paid takes a payment and returns it.
func (s *shop) paid(key string) payment.Payment {
	s.t.Helper()
	answer := s.create(key, order())
	if f, ok := answer.(Final); !ok || f.Response.Status != http.StatusCreated {
		s.t.Fatalf("answer is %T %+v", answer, answer)
	}
	page, err := s.service.PaymentsToTell(s.t.Context(), "acme", Filter{Limit: 1})
	if err != nil || len(page.Payments) != 1 {
		s.t.Fatalf("%d payments: %v", len(page.Payments), err)
	}
	return page.Payments[0]
}

// create asks for a payment as a client does.
func (s *shop) create(key string, r payment.CreateRequest) Answer {
	s.t.Helper()
	answer, err := s.service.Create(s.t.Context(), keyed(s.t, key), r)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

func (s *shop) count(sql string, args ...any) int {
	s.t.Helper()
	return pgtest.Value[int](s.t, s.pool, sql, args...)
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.pool, sql, args...)
}

func (s *shop) timePasses(sql string, args ...any) {
	s.t.Helper()
	pgtest.TimePasses(s.t, s.pool, sql, args...)
}

// is checks which of its cases a value is.
func is[Case any](t testing.TB, v any) Case {
	t.Helper()
	c, ok := v.(Case)
	if !ok {
		t.Fatalf("it is %T %+v, want %T", v, v, c)
	}
	return c
}

func noID() (uuid.UUID, error) { return uuid.UUID{}, errors.New("no random numbers") }

// inTx runs fn in a transaction that commits if fn returns nil.
func (s *shop) inTx(fn func(context.Context, pgx.Tx) error) error {
	return s.service.db.Transact(s.t.Context(), fn)
}

// stage is a key with the movement that it stands for, as some moment of its life has left it.
type stage struct {
	*shop
	t           *testing.T
	key         Keyed
	reservation idempotency.Reservation
	lease       idempotency.Lease // of the first attempt
	movement    *movement
	record      gateway.Record // what the PSP's ledger has of it once it is executed
}

// charging reserves a key for an order.
func (s *shop) charging(key string) *stage {
	s.t.Helper()
	k := keyed(s.t, key)
	return s.enter(k, payment.CreateOperation, "/payments", order(), s.charge(k))
}

// refunding reserves a key for the refund of a part of a payment.
func (s *shop) refunding(key string, p payment.Payment, part payment.AmountMinor) *stage {
	s.t.Helper()
	k, asked := keyed(s.t, key), payment.RefundRequest{AmountCents: part}
	return s.enter(k, payment.RefundOperation, "/payments/"+p.ID.String()+"/refunds", asked,
		newRefund(s.psp(), k.Merchant, p, asked))
}

func (s *shop) enter(k Keyed, operation idempotency.Operation, path string, asked any, m *movement) *stage {
	s.t.Helper()
	f, err := idempotency.FingerprintOf(http.MethodPost, path, asked)
	if err != nil {
		s.t.Fatal(err)
	}
	g := &stage{shop: s, t: s.t, key: k, reservation: s.reservation(operation, k), movement: m}
	g.reservation.Fingerprint = f
	g.lease = g.reserve(m)
	c, err := s.service.Gather(s.t.Context(), g.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	g.record = recordOf(c, "psp_"+g.lease.Subject.String())
	return g
}

// reserve runs tx 1 for the stage's key, as a new request. m becomes the movement with its row.
func (s *stage) reserve(m *movement) idempotency.Lease {
	s.t.Helper()
	c := s.keys.NewReservation(s.reservation.Ref, s.reservation.Fingerprint, uuid.Must(uuid.NewV7()),
		uuid.Must(uuid.NewV7()))
	d, begun, err := s.service.reserve(s.t.Context(), c, m)
	if err != nil {
		s.t.Fatal(err)
	}
	m.become(begun)
	return is[idempotency.Execute](s.t, d).Lease
}

// again is the movement of a new request with the stage's key.
func (s *stage) again() *movement {
	m := *s.movement
	m.refund = nil
	if !m.isRefund() {
		m.payment = nil
	}
	return &m
}

// recordOf is a case as the PSP has it that has executed it.
func recordOf(c Gathered, id string) gateway.Record {
	r := gateway.Record{
		Object: c.movement.object, ID: id, Account: c.Seen.Account, Key: c.Seen.Own.PassThroughKey(),
		Status: "succeeded", Created: time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC),
	}
	amount, currency := c.movement.terms()
	r.Reference = payment.ReferenceOf(r.Object, c.movement.subject())
	r.AmountMinor, r.Currency = int64(amount), string(currency)
	if c.movement.isRefund() {
		r.ChargeID = c.movement.payment.PSPChargeID
	}
	return r
}

// declinedAs is the record of a refusal in the place of an execution.
func declinedAs(r gateway.Record, code string) gateway.Record {
	r.Status, r.DeclineCode = "declined", code
	return r
}

// as gives a record another id.
func as(id string, r gateway.Record) gateway.Record {
	r.ID = id
	return r
}

// live is the end of the live path: tx 2 with what the PSP has answered.
func (s *stage) live(l idempotency.Lease, m *movement, o gateway.Outcome) Answer {
	s.t.Helper()
	answer, err := s.ends(l, m, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// ends is live for one that may fail: the second half of execute.
func (s *stage) ends(l idempotency.Lease, m *movement, o gateway.Outcome) (Answer, error) {
	ctx, g, reply := s.t.Context(), gatherReserved(l, m), judge.Reply{Attempt: l.Attempt, Outcome: o}
	step := judge.Judge(g.Seen, reply)
	applied, err := s.service.Apply(ctx, g, step)
	if err != nil || !applied.Passed {
		return s.service.overtaken(ctx, g, reply, err)
	}
	return answerFor(g, step, applied), nil
}

func (s *stage) succeeded() *stage {
	s.live(s.lease, s.movement, gateway.Succeeded{ID: s.record.ID})
	return s
}

func (s *stage) declined() *stage {
	s.live(s.lease, s.movement, gateway.Declined{ID: s.record.ID, Code: "no_money"})
	return s
}

func (s *stage) failed() *stage {
	s.live(s.lease, s.movement, gateway.NotExecuted{Reason: "no connection"})
	return s
}

func (s *stage) lost() *stage {
	s.live(s.lease, s.movement, gateway.Indeterminate{Reason: "no answer in time"})
	return s
}

// expired lets the key's retention pass.
func (s *stage) expired() *stage {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET expires_at = clock_timestamp() WHERE key = $1", s.key.Key.String())
	if n, err := s.keys.Expire(s.t.Context(), 10); n != 1 || err != nil {
		s.t.Fatalf("%d keys expired: %v", n, err)
	}
	return s
}

// renewed has an expired key renewed, for another payment or refund.
func (s *stage) renewed() *stage {
	s.expired().reserve(s.again())
	return s
}

// deleted lets the audit window of an expired key pass.
func (s *stage) deleted() *stage {
	s.t.Helper()
	s.expired().timePasses("UPDATE idempotency_keys SET delete_after = clock_timestamp() WHERE key = $1",
		s.key.Key.String())
	if n, err := s.keys.Delete(s.t.Context(), 10); n != 1 || err != nil {
		s.t.Fatalf("%d keys deleted: %v", n, err)
	}
	return s
}

// windowPasses moves the moment at which the key became unknown beyond the grace period.
func (s *stage) windowPasses() *stage {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET unknown_since = unknown_since - $2::interval WHERE key = $1",
		s.key.Key.String(), terms().GracePeriod)
	return s
}

// gathers reads what judge would be asked about.
func (s *stage) gathers() Gathered {
	s.t.Helper()
	seen, err := s.service.Gather(s.t.Context(), s.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	return seen
}

func (s *stage) row() idempotency.KeyRow {
	s.t.Helper()
	row, err := s.keys.Find(s.t.Context(), s.reservation.Ref)
	if err != nil {
		s.t.Fatal(err)
	}
	return row
}

func (s *stage) wantStatus(want idempotency.Status, attempt int32) idempotency.KeyRow {
	s.t.Helper()
	row := s.row()
	if row.Status != want || row.Attempt != attempt {
		s.t.Fatalf("the key is %s, attempt %d; want %s, %d", row.Status, row.Attempt, want, attempt)
	}
	return row
}

// wantMoved checks what became of the payment or refund itself.
func (s *stage) wantMoved(want payment.Status, pspID string) {
	s.t.Helper()
	c, err := s.service.Gather(s.t.Context(), s.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	if v := c.movement.rowVerdict(); v.Status != want || v.PSPID != pspID {
		s.t.Fatalf("the movement is %+v, want %s as %q", v, want, pspID)
	}
}

// timeline is the key's, each line as "actor from>to".
func (s *stage) timeline() []string {
	s.t.Helper()
	events, err := s.keys.Events(s.t.Context(), s.reservation.Ref)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := []string{}
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s>%s", e.Actor, e.From, e.To))
	}
	return lines
}

func (s *stage) wantTimeline(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.timeline()); diff != "" {
		s.t.Fatalf("timeline differs (-want +got):\n%s", diff)
	}
}

// evidenceBy brings evidence, and wants it to be taken.
func (s *shop) evidenceBy(source judge.Source, r gateway.Record) Effect {
	s.t.Helper()
	finding, err := s.service.ApplyRecord(s.t.Context(), judge.Record{Source: source, Record: r})
	if err != nil {
		s.t.Fatal(err)
	}
	return finding
}

// everything is all that may move: keys, timelines, payments and refunds. What dead letters hold of a key, and what
// they say was moved of a payment, is no movement of it.
func (s *shop) everything() string {
	s.t.Helper()
	var all []string
	for _, table := range []string{"idempotency_keys", "idempotency_key_events", "payments",
		"(SELECT * FROM refunds WHERE origin = 'api')"} {
		rows := pgtest.Value[string](s.t, s.pool, "SELECT coalesce(string_agg(r, E'\\n' ORDER BY r), '') FROM "+table+
			" AS t, CAST(to_jsonb(t) - ARRAY['dead_letter_hold', 'moved_outside_minor', 'refunded_minor', 'updated_at'] "+
			"AS text) AS r")
		all = append(all, rows)
	}
	return strings.Join(all, "\n\n")
}

// wantDeadLetters compares all dead letters there are, each as "kind finding", oldest first.
func (s *shop) wantDeadLetters(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...),
		s.texts("SELECT kind || ' ' || finding FROM dead_letters ORDER BY opened_at, id")); diff != "" {
		s.t.Fatalf("dead letters differ (-want +got):\n%s", diff)
	}
}

// texts reads one column.
func (s *shop) texts(sql string, args ...any) []string {
	s.t.Helper()
	return pgtest.Values[string](s.t, s.pool, sql, args...)
}

func (s *shop) reservation(operation idempotency.Operation, k Keyed) idempotency.Reservation {
	ref := idempotency.Ref{Tenant: k.Merchant.Tenant, Operation: operation, Key: k.Key}
	return s.keys.NewReservation(ref, idempotency.Fingerprint{1}, uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()))
}

// reserveOnce sends tx 1 of a new key once, as reserve does, and wants it to win. m becomes the movement with its row.
func (s *shop) reserveOnce(c idempotency.Reservation, m *movement) idempotency.Lease {
	s.t.Helper()
	came, err := s.service.groups.reservations.Do(s.t.Context(), reservation{Try: beginning(c), movement: m})
	if err != nil {
		s.t.Fatal(err)
	}
	m.become(came.movement)
	return is[idempotency.Execute](s.t, came.decision).Lease
}

// become makes m the movement with the row that was written. If none was written, m has none.
func (m *movement) become(begun *movement) {
	switch {
	case begun != nil:
		*m = *begun
	case m.isRefund():
		m.refund = nil
	default:
		m.payment = nil
	}
}

// psp is that of the shop's merchants.
func (s *shop) psp() gateway.PSP { return s.service.psps.Of(native.Name) }

// charge is the movement of an order.
func (s *shop) charge(k Keyed) *movement {
	s.t.Helper()
	m, err := newCharge(s.psp(), k.Merchant, order())
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// An owner that comes back when others have taken its key over.

// leaseEnds lets the key's lease run out.
func (s *stage) leaseEnds() *stage {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET locked_until = clock_timestamp() WHERE key = $1", s.key.Key.String())
	return s
}

// swept lets the lease run out, and the sweeper pass.
func (s *stage) swept() *stage {
	s.t.Helper()
	s.leaseEnds()
	err := pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		due, err := s.keys.SweepTx(s.t.Context(), tx, 10, time.Minute)
		if len(due) != 1 || due[0].Ref != s.reservation.Ref {
			s.t.Errorf("swept %v", due)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return s
}

// proven has the swept key looked up in vain, after the grace period.
func (s *stage) proven() *stage {
	s.t.Helper()
	s.windowPasses()
	seen, err := s.service.Gather(s.t.Context(), s.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	step := judge.Judge(seen.Seen, judge.Nothing{Policy: patient()})
	applied, err := s.service.Apply(s.t.Context(), seen, step)
	if err != nil || !applied.Passed || s.row().Status != idempotency.FailedRetryableStatus {
		s.t.Fatalf("released %v: %v", applied.Passed, err)
	}
	return s
}

func (s *stage) success() gateway.Succeeded { return gateway.Succeeded{ID: s.record.ID} }

// key makes one of a name.
func key(prefix, name string) string {
	k := []byte(prefix + "-0000000000-" + name)
	for i := range k {
		if k[i] == ' ' {
			k[i] = '-'
		}
	}
	return string(k)
}

// twin is another payment or refund under the same key and the same generation: the key was deleted and used again
// before there were tombstones.
func (s *stage) twin() *stage {
	s.t.Helper()
	s.deleted().timePasses("DELETE FROM idempotency_key_tombstones")
	second := *s
	second.movement = s.again()
	second.lease = s.reserve(second.movement)
	c, err := s.service.Gather(s.t.Context(), second.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	second.record = recordOf(c, "psp_"+second.lease.Subject.String())
	if second.record.Key != s.record.Key || second.lease.Subject == s.lease.Subject {
		s.t.Fatalf("the twin is %+v of %+v", second.record, s.record)
	}
	return &second
}

// paidFor completes the payment and reads it.
func (s *stage) paidFor() payment.Payment {
	s.t.Helper()
	s.succeeded()
	p, err := s.service.Payment(s.t.Context(), "acme", payment.ID(s.lease.Subject))
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// wantTotals compares what refunds hold of a payment, and what of it the PSP has confirmed.
func (s *shop) wantTotals(p payment.Payment, held, confirmed int) {
	s.t.Helper()
	h := s.count("SELECT refund_held_minor FROM payments WHERE id = $1", p.ID)
	c := s.count("SELECT refunded_minor FROM payments WHERE id = $1", p.ID)
	if h != held || c != confirmed {
		s.t.Fatalf("%d held, %d confirmed; want %d and %d", h, c, held, confirmed)
	}
}

// What evidence comes to, by what it says and by what the key has become when it comes. Where a cell is empty, the
// records says what is known.

// said are the things that a record can say.
type said string

const (
	executed      said = "executed"
	executedTwice said = "executed under another id"
	refusedSaid   said = "refused"
	otherAmount   said = "of another amount"
)

func (w said) record(g *stage) gateway.Record {
	switch r := g.record; w {
	case executedTwice:
		return as(r.ID+"-2", r)
	case refusedSaid:
		return declinedAs(r, "no_money")
	case otherAmount:
		r.AmountMinor++
		return r
	case executed:
		return r
	}
	panic("unreachable")
}

// contradicts names the dead letter of a record that contradicts what the stage's key stands for.
func contradicts(g *stage, id string) string {
	return "psp_contradicts_request key " + lockOrder(g.reservation.Ref) + " 1 " + g.lease.Subject.String() +
		" record " + id
}

// What an owner tells its client when the database does not tell the owner what has become of a statement.

// proxied has the shop's service reach its database through a proxy. What the test itself asks goes past the proxy,
// except for what it asks by a method of the service or of the keys.
func (s *shop) proxied() *pgproxy.Proxy {
	s.t.Helper()
	proxy := pgproxy.Start(s.t, s.pool.Config().ConnString())
	s.reaching(proxy.URL(), pgtest.Limits())
	return proxy
}

// reaching has the shop's service reach its database by a URL, within limits.
func (s *shop) reaching(url string, l postgres.Limits) *shop {
	s.t.Helper()
	db := pgtest.Open(s.t, url, l)
	s.keys = idempotency.New(db, terms(), time.Now)
	s.service.db, s.service.keys = db, s.keys
	s.service.groups = s.service.newGroups()
	return s
}

// failing has the first n writes that fit fail, as if the disk was full for so long.
func (s *shop) failing(n int, sqlstate, table, write, when string) {
	s.t.Helper()
	s.exec(fmt.Sprintf(`CREATE SEQUENCE outage;
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('outage') <= %d THEN RAISE EXCEPTION 'of the test' USING ERRCODE = '%s'; END IF;
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER outage AFTER %s ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (%s)
			EXECUTE FUNCTION fail()`, n, sqlstate, write, table, when))
}

const (
	diskFull = "53100"
	oddError = "P0001" // an error that says nothing about the means of the server
)

// logged is what the service writes to its log from now on.
func (s *shop) logged() *bytes.Buffer {
	var log bytes.Buffer
	s.service.log = slog.New(slog.NewTextHandler(&log, nil))
	return &log
}

// sentSince are the rounds since some moment in which one of the queries was sent.
func sentSince(p *pgproxy.Proxy, before int, queries ...string) (rounds [][]string) {
	for _, r := range p.Rounds()[before:] {
		if slices.ContainsFunc(queries, func(q string) bool { return slices.Contains(r, q) }) {
			rounds = append(rounds, r)
		}
	}
	return rounds
}

// LookUpDue is that of package reconcile, which imports this one. sources_test.go gives it to these tests.
var LookUpDue func(context.Context, *Service, idempotency.Due, judge.LookupPolicy) (LookupResult, error)

// LookupResult and its values are those of package reconcile, too.
type LookupResult string

const (
	Resolved   LookupResult = "resolved"
	Scheduled  LookupResult = "scheduled"
	ToOperator LookupResult = "failed"
	Moot       LookupResult = "moot"
)

// lookUpDue is what the job of a lookup does.
func (s *shop) lookUpDue(ctx context.Context, due idempotency.Due, p judge.LookupPolicy) (LookupResult, error) {
	return LookUpDue(ctx, s.service, due, p)
}

var (
	ownSubject   = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
	otherSubject = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8058")
)
