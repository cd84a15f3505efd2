// What the tests of this package share:
//
//	fixture   a reconciler with a database and a PSP of the test's own
//	movement  a payment of ours, or a refund, and what becomes of it and of its key
//	line      a line of a statement, and its day
//	runs      of one day, or of each day as the schedule has them, and what they have found and written

package statement

import (
	"bytes"
	"context"
	"fmt"
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

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
	"payonce/internal/telemetry"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// evidence judges breaks in the place of package payments.
type evidence func(ctx context.Context, tx pgx.Tx, b judge.Break) error

func (e evidence) BreakTx(ctx context.Context, tx pgx.Tx, b judge.Break) (bool, error) {
	return false, e(ctx, tx, b)
}

const (
	patience  = time.Minute
	pspSecret = "test-psp-secret"
	header    = "id,object,idempotencyKey,reference,chargeId,amountCents,currency,status,feeCents,netCents,createdAt\r\n"
)

// fixture is a reconciler on a database of the test's own, and a PSP that publishes what the test puts into its files.
type fixture struct {
	t       *testing.T
	pool    *pgxpool.Pool // straight to the tables
	config  Config
	day     time.Time // long over
	files   map[string]string
	payouts map[string][]string // the lines that each has paid
	asked   []string            // files, in order; requests come one at a time
	mock    string              // the address of the mock PSP, if there is one
	told    []string            // the breaks that were judged, in order
}

func setup(t *testing.T) *fixture {
	t.Helper()
	d := &fixture{t: t, pool: pgtest.New(t), day: time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC),
		files: map[string]string{}, payouts: map[string][]string{}}
	d.exec("INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acct_acme'), ('globex', 'acct_globex')")
	d.config = DefaultConfig()
	d.config.DB, d.config.NewID = postgres.Wrap(d.pool, patience), uuid.NewV7
	d.config.Payments = evidence(func(_ context.Context, _ pgx.Tx, b judge.Break) error {
		text := string(b.Kind) + " " + b.PSPID
		if b.Listed {
			text = "listed " + b.PSPID + " " + b.Reference
		}
		d.told = append(d.told, text)
		return nil
	})
	d.config.Metrics = telemetry.NewMetrics(prometheus.NewRegistry())
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if id, is := strings.CutPrefix(r.URL.Path, "/v1/payouts/"); is {
			d.servePayout(w, strings.TrimSuffix(id, ".csv"))
			return
		}
		name := r.Header.Get("PSP-Account") + " " +
			strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1/settlements/"), ".csv")
		d.asked = append(d.asked, name)
		if file, ok := d.files[name]; ok {
			_, _ = w.Write([]byte(file))
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	return d
}

// servePayout answers with the lines that a payout has paid, if the PSP tells.
func (d *fixture) servePayout(w http.ResponseWriter, id string) {
	lines, ok := d.payouts[id]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	fmt.Fprint(w, "id,createdAt\r\n")
	for _, l := range lines {
		id, at, _ := strings.Cut(l, "@")
		fmt.Fprintf(w, "%s,%s\r\n", id, at)
	}
	fmt.Fprintf(w, "total,%d\r\n", len(lines))
}

// clientOf is a client of a PSP that answers so.
func clientOf(t *testing.T, h http.HandlerFunc) gateway.PSPs {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	psp, err := native.New(server.URL, pspSecret, gateway.DefaultLimits(), nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	return gateway.PSPs{native.Name: psp}
}

func (d *fixture) reconciler() *Reconciler {
	d.t.Helper()
	r, err := New(d.config)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// run reconciles acme's day and wants it to succeed.
func (d *fixture) run() Summary { d.t.Helper(); return d.runOf("acct_acme", d.day) }

func (d *fixture) runOf(account string, day time.Time) Summary {
	d.t.Helper()
	report, err := d.reconciler().Run(d.t.Context(), day, account)
	if err != nil {
		d.t.Fatal(err)
	}
	return report.Runs[len(report.Runs)-1]
}

// movement is a payment of ours, or a refund.
type movement struct {
	object           gateway.Object
	tenant, currency string
	amount           int64
	status, psp      string
	created          time.Time
	finished         *time.Time    // of its key; nil: the key is forgotten
	clock            time.Duration // of the process that has made its id, from the database's clock
	id               uuid.UUID
}

// paid is a payment of acme's at that time of the day, in hours.
func (d *fixture) paid(psp string, hour float64, edits ...func(*movement)) movement {
	d.t.Helper()
	m := movement{
		object: gateway.ChargeObject, tenant: "acme", currency: "USD", amount: 12000, status: "succeeded", psp: psp,
		created: d.at(hour),
	}
	finished := m.created.Add(time.Second)
	m.finished = &finished
	for _, edit := range edits {
		edit(&m)
	}
	return d.write(m)
}

func (d *fixture) at(hour float64) time.Time {
	return d.day.Add(time.Duration(hour * float64(time.Hour)))
}

// write puts a movement into the tables as the request path would have.
func (d *fixture) write(m movement) movement {
	d.t.Helper()
	m.id = payments.FirstIDAt(m.created.Add(m.clock))
	random := uuid.New()
	copy(m.id[6:], random[6:])
	m.id[6] = 0x70 | m.id[6]&0x0f
	key, decline := "key-"+m.id.String(), (*string)(nil)
	psp := &m.psp
	if m.psp == "" {
		psp = nil
	}
	if m.status == "declined" {
		code := "insufficient_funds"
		decline = &code
	}
	if m.object == gateway.RefundObject {
		charge := d.paid("ch_of_"+m.psp, -240, func(c *movement) {
			c.tenant, c.currency, c.amount = m.tenant, m.currency, m.amount
		})
		d.exec(`INSERT INTO refunds (id, payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, status, psp_refund_id,
			decline_code, created_at) VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10)`,
			m.id, charge.id, m.tenant, key, m.amount, m.currency, m.status, psp, decline, m.created)
	} else {
		d.exec(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method,
			status, psp_charge_id, decline_code, created_at) VALUES ($1, $2, $3, 1, 'cus-1', $4, $5, 'pm_ok', $6, $7, $8, $9)`,
			m.id, m.tenant, key, m.amount, m.currency, m.status, psp, decline, m.created)
	}
	d.finish(m)
	return m
}

// finish finishes the key of a movement: a failed one is released. Without a time, the movement has no key.
func (d *fixture) finish(m movement) {
	d.t.Helper()
	if m.finished == nil {
		return
	}
	operation, key := payment.CreateOperation, "key-"+m.id.String()
	if m.object == gateway.RefundObject {
		operation = payment.RefundOperation
	}
	d.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at,
		reserved_at, locked_until, expires_at) VALUES ($1, $2, $3, 'in_progress', sha256('x'), 1, 1, gen_random_uuid(), $4, $5, $5,
		$5::timestamptz + interval '30 s', $5::timestamptz + interval '2 days') ON CONFLICT DO NOTHING`,
		m.tenant, operation, key, m.id, m.created)
	if m.status == "failed" {
		d.exec(`UPDATE idempotency_keys SET status = 'failed_retryable', locked_until = NULL, finished_at = $2 WHERE key = $1`,
			key, m.finished)
		return
	}
	d.exec(`UPDATE idempotency_keys SET status = 'completed', locked_until = NULL, finished_at = $4, response_status = 201,
		response_content_type = '', response_location = '', response_schema_version = 1, response_body = ''
		WHERE tenant_id = $1 AND operation = $2 AND key = $3`, m.tenant, operation, key, m.finished)
}

func (m movement) reference() string { return payment.ReferenceOf(m.object, m.id) }

// line is a line of a statement. It is dated when it was created, unless the test says otherwise.
type line struct {
	id, reference, currency, status string
	charge                          string // that a refund changes
	object                          gateway.Object
	amount, fee                     int64
	created                         time.Time
}

// lineOf is what an honest PSP writes of a movement.
func lineOf(m movement, edits ...func(*line)) line {
	l := line{id: m.psp, reference: m.reference(), currency: m.currency, status: "succeeded", object: m.object,
		amount: m.amount, created: m.created}
	for _, edit := range edits {
		edit(&l)
	}
	return l
}

// name is the id by which a payout names the line.
func (l line) name() string { return l.id + "@" + l.created.Format(time.RFC3339Nano) }

func (l line) csv() string {
	charge := l.charge
	if l.object == gateway.RefundObject && charge == "" {
		charge = "ch_of_it"
	}
	net := -l.amount - l.fee
	if l.object == gateway.ChargeObject {
		net = l.amount - l.fee
	}
	return fmt.Sprintf("%s,%s,key,%s,%s,%d,%s,%s,%d,%d,%s\r\n", l.id, l.object, l.reference, charge, l.amount,
		l.currency, l.status, l.fee, net, l.created.Format(time.RFC3339Nano))
}

// publish puts a whole statement of an account's day at the PSP.
func (d *fixture) publish(account string, day time.Time, lines ...line) {
	slices.SortStableFunc(lines, func(a, b line) int { return a.created.Compare(b.created) })
	var file bytes.Buffer
	file.WriteString(header)
	for _, l := range lines {
		file.WriteString(l.csv())
	}
	fmt.Fprintf(&file, "total,%d,,,,,,,,,\r\n", len(lines))
	d.files[account+" "+day.Format(time.DateOnly)] = file.String()
}

// breaks lists what is open of acme's day, each as "kind psp-id".
func (d *fixture) breaks() []string { d.t.Helper(); return d.breaksOf("acct_acme", d.day) }

func (d *fixture) breaksOf(account string, day time.Time) []string {
	d.t.Helper()
	list := []string{}
	for _, b := range d.open(account, day) {
		list = append(list, string(b.Kind)+" "+b.PSPID)
	}
	slices.Sort(list)
	return list
}

func (d *fixture) open(account string, day time.Time) (all []Break) {
	d.t.Helper()
	q := dbsqlc.New(d.config.DB.Reader())
	err := pages(d.t.Context(), q, Summary{Account: account, Day: day}, nil, func(b Break) error {
		all = append(all, b)
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// only is the one break that there is.
func (d *fixture) only() Break {
	d.t.Helper()
	all := d.open("acct_acme", d.day)
	if len(all) != 1 {
		d.t.Fatalf("%d breaks: %+v", len(all), all)
	}
	return all[0]
}

func (d *fixture) want(want ...string) {
	d.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), d.breaks()); diff != "" {
		d.t.Fatalf("breaks differ (-want +got):\n%s", diff)
	}
}

func (d *fixture) exec(sql string, args ...any) {
	d.t.Helper()
	pgtest.Exec(d.t, d.pool, sql, args...)
}

func (d *fixture) count(sql string, args ...any) int64 {
	d.t.Helper()
	return pgtest.Value[int64](d.t, d.pool, sql, args...)
}

func refund(m *movement) { m.object = gateway.RefundObject }

func globex(m *movement) { m.tenant = "globex" }

const minute = 1.0 / 60 // of the hours that tests count in

func dated(at time.Time) func(*line) { return func(l *line) { l.created = at } }

func finishedAt(at time.Time) func(*movement) { return func(m *movement) { m.finished = &at } }

func forgotten(m *movement) { m.finished = nil }

func (d *fixture) next() time.Time { return d.day.Add(oneDay) }

func (d *fixture) previous() time.Time { return d.day.Add(-oneDay) }

func (d *fixture) wantAsked(days ...time.Time) {
	d.t.Helper()
	var want []string
	for _, day := range days {
		want = append(want, "acct_acme "+day.Format(time.DateOnly))
	}
	if diff := cmp.Diff(want, d.asked); diff != "" {
		d.t.Fatalf("other statements were read (-want +got):\n%s", diff)
	}
}

// job runs acme's day, and then each day that can be judged again, as the schedule does.
func (d *fixture) job(day time.Time) {
	d.t.Helper()
	d.runOf("acct_acme", day)
	for _, again := range d.ripe() {
		d.runOf("acct_acme", again.Day)
	}
}

func (d *fixture) ripe() []Due {
	d.t.Helper()
	found, err := d.reconciler().find(d.t.Context(), []string{"acct_acme"})
	if err != nil {
		d.t.Fatal(err)
	}
	ripe, err := d.reconciler().ripe(d.t.Context(), found[0])
	if err != nil {
		d.t.Fatal(err)
	}
	return ripe
}

// jobsUpTo runs the jobs of each day from the fixture's to the given one.
func (d *fixture) jobsUpTo(last time.Time) {
	d.t.Helper()
	for day := d.day; !day.After(last); day = day.Add(oneDay) {
		d.job(day)
	}
}

// publishDays publishes empty statements of the fixture's day and so many days after it.
func (d *fixture) publishDays(more int) {
	for i := range more + 1 {
		d.publish("acct_acme", d.day.Add(time.Duration(i)*oneDay))
	}
}

func open(m *movement) { m.status, m.psp, m.finished = "processing", "", nil }

// becomes gives an open movement its verdict, and its key the time of it.
func (d *fixture) becomes(m movement, status, psp string, finished time.Time) movement {
	d.t.Helper()
	decline := (*string)(nil)
	if status == "declined" {
		code := "insufficient_funds"
		decline = &code
	}
	column := map[string]string{"charge": "payments SET psp_charge_id", "refund": "refunds SET psp_refund_id"}
	d.exec("UPDATE "+column[string(m.object)]+" = $2, status = $3, decline_code = $4 WHERE id = $1", m.id, psp, status,
		decline)
	m.status, m.psp, m.finished = status, psp, &finished
	d.finish(m)
	return m
}

// persisted is all that runs have written, in a form to compare.
func (d *fixture) persisted() string {
	d.t.Helper()
	return pgtest.Value[string](d.t, d.pool, `SELECT coalesce((SELECT string_agg(b::text, E'\n' ORDER BY id) FROM statement_breaks AS b), '')
		|| coalesce((SELECT string_agg(r::text, E'\n' ORDER BY id) FROM statement_runs AS r), '')`)
}

// judging is the run of acme's day that has not read a statement yet. Its transaction is rolled back.
func (d *fixture) judging() *judgement {
	d.t.Helper()
	tx := pgtest.Begin(d.t, d.pool)
	j := &judgement{dbsqlc.FindAccountsRow{Tenant: "acme", Psp: native.Name, Account: "acct_acme"},
		d.config, tx, dbsqlc.New(tx), d.day, uuid.Must(uuid.NewV7()), time.Time{}, nil, 0}
	if err := j.begin(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	return j
}

// loadedLine is a line as the COPY writes it.
type loadedLine struct {
	day     time.Time
	object  gateway.Object
	id      string
	subject *uuid.UUID // what its reference names
}

func (d *fixture) load(j *judgement, lines []loadedLine) {
	d.t.Helper()
	_, err := j.tx.CopyFrom(d.t.Context(), pgx.Identifier{"statement_lines"}, columns(),
		pgx.CopyFromSlice(len(lines), func(i int) ([]any, error) {
			l := lines[i]
			return []any{l.day, i, string(l.object), l.id, "", l.subject, 12000, "USD", "", "succeeded", d.at(12),
				l.id, string(l.object), 0, 12000, "USD"}, nil
		}))
	if err != nil {
		d.t.Fatal(err)
	}
}

// wantRows compares what a run has in its tables, as text.
func (d *fixture) wantRows(j *judgement, what, sql string, want ...string) {
	d.t.Helper()
	got := pgtest.Values[string](d.t, j.tx, sql)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("%s differ (-want +got):\n%s", what, diff)
	}
}
