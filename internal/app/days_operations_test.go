package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	mockstripe "payonce/demo/mockpsp/stripe"
	"payonce/internal/config"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/gateway/stripe"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/statement"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// debitDelay is how long the bank takes by the machine's clock. The test moves the mock's clock before that.
const debitDelay = 3 * time.Second

// calendar is a reconciler whose mock PSP has a clock of its own. It shows a day long ago, so each statement is
// published.
type calendar struct {
	t          *testing.T
	r          *Reconciler
	statements *statement.Reconciler
	psp        gateway.PSP
	clock      atomic.Pointer[time.Time]
	due        func() int
	day        time.Time
	payment    payment.ID
}

func newCalendar(t *testing.T, dialect string) *calendar {
	t.Helper()
	c := &calendar{t: t, day: time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC), due: func() int { return 0 }}
	c.is(0)
	env := map[string]string{"DATABASE_URL": pgtest.NewURL(t), "PSP_SECRET": "sk_test_" + strings.Repeat("x", 24)}
	settings, err := config.LoadReconciler(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if c.r, err = NewReconciler(t.Context(), settings, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.r.Close)
	c.serve(dialect, env["PSP_SECRET"])
	statements := c.r.StatementConfig()
	statements.PSPs = gateway.PSPs{dialect: c.psp}
	if c.statements, err = statement.New(statements); err != nil {
		t.Fatal(err)
	}
	c.exec("INSERT INTO tenants (id, psp, psp_account, created_at) VALUES ('acme', $1, 'acct_acme', $2)", dialect, c.day)
	return c
}

// serve starts the mock PSP in a dialect, and makes the client that speaks it.
func (c *calendar) serve(dialect, secret string) {
	c.t.Helper()
	shared := mockpsp.DefaultConfig()
	shared.Secret, shared.Now = secret, func() time.Time { return *c.clock.Load() }
	mock, err := mockpsp.New(shared)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			c.t.Error(err)
		}
	})
	var handler http.Handler = mock
	if dialect == stripe.Name {
		s := mockstripe.DefaultConfig()
		s.Secret, s.ActionDelay = secret, debitDelay
		theirs, err := mockstripe.New(mock, s)
		if err != nil {
			c.t.Fatal(err)
		}
		handler, c.due = theirs, theirs.Due
	}
	server := httptest.NewServer(handler)
	c.t.Cleanup(server.Close)
	if dialect == stripe.Name {
		c.psp, err = stripe.New(stripe.Config{URL: server.URL, Secret: secret, Limits: gateway.DefaultLimits(),
			Now: time.Now, Installation: func() string { return "here" }})
	} else {
		c.psp, err = native.New(server.URL, secret, gateway.DefaultLimits(), nil, time.Now)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.psp.Close)
}

// is sets the mock's clock to noon, so many days after the first day.
func (c *calendar) is(days int) {
	at := c.at(days).Add(12 * time.Hour)
	c.clock.Store(&at)
}

func (c *calendar) at(days int) time.Time { return c.day.AddDate(0, 0, days) }

func (c *calendar) exec(sql string, args ...any) {
	c.t.Helper()
	pgtest.Exec(c.t, c.r.db.Pool(), sql, args...)
}

// asked writes a payment of the first day. With an id at the PSP it has succeeded; otherwise its outcome is unknown.
func (c *calendar) asked(pspID string) {
	c.t.Helper()
	noon := c.at(0).Add(12 * time.Hour)
	c.payment = payment.ID(payments.FirstIDAt(noon))
	status := "processing"
	if pspID != "" {
		status = "succeeded"
	}
	c.exec(`INSERT INTO payments (id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, status,
		psp_charge_id, created_at) VALUES ($1, 'acme', 'order-0000000001', 1, 'cus-1', 12000, 'USD', 'pm_ok', $2, nullif($3, ''), $4)`,
		c.payment, status, pspID, noon)
	c.exec(`INSERT INTO idempotency_keys (tenant_id, operation, key, status, fingerprint, attempt, generation, lease_id, subject, created_at,
		reserved_at, locked_until, expires_at) VALUES ('acme', 'POST /payments', 'order-0000000001', 'in_progress', sha256('x'), 1, 1,
		gen_random_uuid(), $1, $2, $2, $2, $2::timestamptz + interval '2 days')`, c.payment, noon)
	if pspID == "" {
		c.exec(`UPDATE idempotency_keys SET status = 'unknown', locked_until = NULL, unknown_since = $1, reconcile_after = $1`, noon)
		return
	}
	c.exec(`UPDATE idempotency_keys SET status = 'completed', locked_until = NULL, finished_at = $1, response_status = 201,
		response_content_type = '', response_location = '', response_schema_version = 1, response_body = ''`, noon)
}

// finishedAt moves the time at which the key was finished to a day.
func (c *calendar) finishedAt(day int) {
	c.t.Helper()
	c.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
	c.exec("UPDATE idempotency_keys SET finished_at = $1", c.at(day).Add(4*time.Hour))
	c.exec("ALTER TABLE idempotency_keys ENABLE TRIGGER USER")
}

// charges has the PSP charge for the payment.
func (c *calendar) charges(method string) {
	c.t.Helper()
	ch := gateway.Charge{Account: "acct_acme", Key: "order-0000000001", Attempt: 1,
		TwoSteps: c.psp.Traits().TwoSteps, Reference: c.payment.String(), AmountMinor: 12000, Currency: "USD",
		PaymentMethod: method}
	object, refused := c.psp.Prepare(c.t.Context(), ch)
	if refused != nil {
		c.t.Fatalf("%T %+v", refused, refused)
	}
	ch.ObjectID = object
	switch o := c.psp.Charge(c.t.Context(), ch).(type) {
	case gateway.Succeeded, gateway.Pending:
	case gateway.Declined, gateway.NotExecuted, gateway.Indeterminate:
		c.t.Fatalf("%T %+v", o, o)
	}
}

// awaitTheBank waits until the mock PSP has done all that happens by itself.
func (c *calendar) awaitTheBank() {
	c.t.Helper()
	wait.Until(c.t, "the bank's decision", func() bool { return c.due() == 0 })
}

// job sets the mock's clock to the day after a day, and runs the jobs that are due then.
func (c *calendar) job(day int) {
	c.t.Helper()
	c.is(day + 1)
	if _, err := c.statements.Run(c.t.Context(), c.at(day)); err != nil {
		c.t.Fatal(err)
	}
	due, err := c.statements.Due(c.t.Context(), 1)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, d := range due {
		if d.Day.After(c.at(day)) {
			continue // not over by the mock's clock
		}
		if _, err := c.statements.Run(c.t.Context(), d.Day, d.Account); err != nil {
			c.t.Fatal(err)
		}
	}
}

// wants compares one row, as text.
func (c *calendar) wants(what, sql, want string) {
	c.t.Helper()
	got := pgtest.Value[string](c.t, c.r.db.Pool(), sql)
	if got != want {
		c.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

const (
	openCases = `SELECT concat_ws(', ', (SELECT count(*) || ' breaks' FROM statement_breaks WHERE gone_at IS NULL),
		(SELECT count(*) || ' pending' FROM statement_pending), (SELECT count(*) || ' dead letters' FROM dead_letters WHERE status = 'open'))`
	theKey = `SELECT status || ', hold ' || dead_letter_hold FROM idempotency_keys`
)

func eachDialect(t *testing.T, test func(t *testing.T, c *calendar)) {
	t.Helper()
	t.Parallel()
	for _, dialect := range []string{native.Name, stripe.Name} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			test(t, newCalendar(t, dialect))
		})
	}
}

// The bank decides two days later, and no webhook and no lookup tells us. The statement of that day does. Nobody is
// told that anything is missing, and no break is left.
func TestDebitOfALaterDayIsFoundInTheStatementOfThatDay(t *testing.T) {
	eachDialect(t, func(t *testing.T, c *calendar) {
		c.asked("")
		if c.psp.Traits().TwoSteps {
			c.charges("pm_bank_debit")
			c.is(2)
			c.awaitTheBank()
		} else {
			c.is(2)
			c.charges("pm_ok")
		}
		for day := range 2 {
			c.job(day)
			c.wants("the days before", openCases, "0 breaks, 1 pending, 0 dead letters")
		}
		c.job(2)
		c.wants("the key", theKey, "completed, hold none")
		c.finishedAt(3) // Our clock is not the mock's.
		c.wants("the timeline", "SELECT string_agg(actor || ' ' || to_status, ', ') FROM idempotency_key_events",
			"statement completed")
		c.job(3)
		c.wants("in the end", openCases, "0 breaks, 0 pending, 0 dead letters")
	})
}

// An operator has vouched for the payment. The PSP books it two days later: until then it is a case, and then the case
// is closed, with its audit row, and holds the key no more.
func TestMovementThatIsBookedLaterClosesItsCase(t *testing.T) {
	eachDialect(t, func(t *testing.T, c *calendar) {
		c.asked("operator:0001")
		c.job(0)
		c.wants("the day itself", openCases, "1 breaks, 0 pending, 1 dead letters")
		c.wants("the case", "SELECT kind FROM dead_letters", "missing_at_psp")
		c.wants("the key", theKey, "completed, hold release")
		c.job(1)
		c.is(2)
		c.charges("pm_ok")
		c.job(2)
		c.wants("in the end", openCases, "0 breaks, 0 pending, 0 dead letters")
		c.wants("the key", theKey, "completed, hold none")
		c.wants("the case", "SELECT concat_ws(' ', action, actor, version) FROM dead_letters", "answered statement 2")
		c.wants("the audit", `SELECT string_agg(concat_ws(' ', dead_letter_version, actor, action, outcome), ', ') FROM operator_actions`,
			"1 statement answered done")
		// The day itself may be judged again: what a later file has is not missing.
		c.finishedAt(2)
		if _, err := c.statements.Run(t.Context(), c.at(0)); err != nil {
			t.Fatal(err)
		}
		c.wants("judged again", openCases, "0 breaks, 0 pending, 0 dead letters")
	})
}
