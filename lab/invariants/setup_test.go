package invariants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/postgres"
	"payonce/internal/statement"
	"payonce/internal/tenants"
	"payonce/lab/history"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience  = time.Minute
	pspSecret = "test-psp-secret"
)

// shop is a whole system of the test's own, with what its clients have heard.
type shop struct {
	t        *testing.T
	url      string
	db       *pgxpool.Pool
	psp, api *httptest.Server
	operator *httptest.Server
	limited  Limited
	settings config.API
	recorder *history.Recorder
}

func setup(t *testing.T) *shop {
	t.Helper()
	if testing.Short() {
		t.Skip("long: a database for each violation")
	}
	s := &shop{t: t, recorder: history.New(nil), limited: Limited{
		Reader: "test-reader", Writer: "test-writer", Ended: "test-ended",
		OperatorReader: "test-ops-reader", OperatorEnded: "test-ops-ended",
	}}
	s.url = pgtest.Seeded(t, "tenants", s.seed)
	var err error
	if s.db, err = pgxpool.New(context.Background(), s.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	mock := mockpsp.DefaultConfig()
	mock.Secret, mock.HangLimit = pspSecret, time.Millisecond
	psp, err := mockpsp.New(mock)
	if err != nil {
		t.Fatal(err)
	}
	s.psp = httptest.NewServer(psp)
	t.Cleanup(func() {
		if err := psp.Close(); err != nil {
			t.Error(err)
		}
		s.psp.Close()
	})
	env := map[string]string{"DATABASE_URL": s.url, "PSP_URL": s.psp.URL, "PSP_SECRET": pspSecret,
		"PUBLIC_URL": "http://payonce.test"}
	if s.settings, err = config.Load(func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	s.settings.FirstLookup = 0
	api, err := app.NewAPI(t.Context(), s.settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.api, s.operator = httptest.NewServer(api.Public), httptest.NewServer(api.Operator)
	t.Cleanup(func() {
		s.api.Close()
		s.operator.Close()
		api.Close()
	})
	return s
}

func (s *shop) seed(url string) {
	s.t.Helper()
	db, err := postgres.Open(s.t.Context(), url, pgtest.Limits())
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	r := tenants.NewRegistry(db, app.NewID)
	add := func(tenant, secret string, may ...tenants.Permission) uuid.UUID {
		key, err := r.AddKey(s.t.Context(), tenant, secret, "label of "+secret, may)
		if err != nil {
			s.t.Fatal(err)
		}
		return key.ID
	}
	for _, tenant := range []string{"acme", "globex"} {
		if err := r.EnsureTenant(s.t.Context(), tenant); err != nil {
			s.t.Fatal(err)
		}
		add(tenant, apiKey(tenant), tenants.PaymentsRead, tenants.PaymentsWrite)
	}
	add("acme", s.limited.Reader, tenants.PaymentsRead)
	add("acme", s.limited.Writer, tenants.PaymentsWrite)
	add("", apiKey("operator"), tenants.OpsRead, tenants.OpsResolve)
	add("", s.limited.OperatorReader, tenants.OpsRead)
	for _, ended := range []uuid.UUID{
		add("acme", s.limited.Ended, tenants.PaymentsRead, tenants.PaymentsWrite),
		add("", s.limited.OperatorEnded, tenants.OpsRead, tenants.OpsResolve),
	} {
		if _, err := r.ExpireKey(s.t.Context(), ended, 0); err != nil {
			s.t.Fatal(err)
		}
	}
	pgtest.Exec(s.t, db.Pool(), "UPDATE tenants SET requests_per_second = 100000, request_burst = 100000")
}

func apiKey(tenant string) string { return "test-" + tenant + "-key" }

func (s *shop) evidence() Evidence {
	return Evidence{
		GracePeriod: 4 * time.Second, DB: s.db, PSP: s.psp.URL, History: s.recorder.Operations(),
		APIs:      []string{s.api.URL},
		APIKeys:   map[string]string{"acme": apiKey("acme"), "globex": apiKey("globex")},
		Operators: []string{s.operator.URL}, OperatorKey: apiKey("operator"), Limited: s.limited,
		Retention: s.settings.Retention, Statement: s.statement,
	}
}

// statement does what the program does.
func (s *shop) statement(ctx context.Context, day time.Time) (told Statement, err error) {
	reconciler, err := app.NewReconciler(ctx, s.reconciler(), slog.New(slog.DiscardHandler))
	if err != nil {
		return told, err
	}
	defer reconciler.Close()
	r, err := statement.New(reconciler.StatementConfig())
	if err != nil {
		return told, err
	}
	report, err := r.Run(ctx, day)
	if err != nil {
		return told, err
	}
	var out bytes.Buffer
	err = r.Write(ctx, &out, report, statement.JSON)
	if report.Err() != nil {
		told.Exit = 1
	}
	told.Report = out.Bytes()
	return told, err
}

// reconciler are the settings of one.
func (s *shop) reconciler() config.Reconciler {
	s.t.Helper()
	c, err := config.LoadReconciler(func(string) string { return "" })
	if err != nil {
		s.t.Fatal(err)
	}
	c.Shared = s.settings.Shared
	c.SweepEvery, c.ClaimEvery, c.ScanEvery = 100*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond
	return c
}

// reconcile runs a reconciler until the world is quiet.
func (s *shop) reconcile() {
	s.t.Helper()
	r, err := app.NewReconciler(s.t.Context(), s.reconciler(), slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Work(work) }()
	quiet := Quiet(ctx, s.evidence())
	stop()
	err = <-ended
	cancel()
	if err := errors.Join(quiet, err); err != nil {
		s.t.Fatal(err)
	}
}

// pay takes a payment by a token of the mock PSP, and records what the client hears.
func (s *shop) pay(tenant, key, method string) (status int) {
	s.t.Helper()
	return s.ask(tenant, history.PaymentsRoute, "/payments", key, fmt.Sprintf(
		`{"customerId":"cus-1","amountCents":12000,"currency":"USD","paymentMethod":%q,"reference":%q,"description":%q,"metadata":{"order":%q}}`,
		method, "order "+key, "ordered as "+key, key))
}

func (s *shop) refund(tenant, key, of string, amount int) (status int) {
	s.t.Helper()
	id := s.text("SELECT id FROM payments WHERE tenant_id = $1 AND idempotency_key = $2", tenant, of)
	return s.ask(tenant, history.RefundsRoute, "/payments/"+paymentID(s.t, id)+"/refunds", key,
		fmt.Sprintf(`{"amountCents":%d,"reason":%q}`, amount, "returned "+key))
}

func (s *shop) ask(tenant, route, path, key, body string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.api.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+apiKey(tenant))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	p := s.recorder.Begin(history.Operation{Tenant: tenant, Route: route, Path: path, Key: key, Intent: path + body,
		Body: []byte(body)})
	response, err := s.api.Client().Do(request) //nolint:bodyclose // Response closes it
	if _, err := p.Response(response, err); err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.db, sql, args...)
}

func (s *shop) text(sql string, args ...any) string {
	s.t.Helper()
	return pgtest.Value[string](s.t, s.db, "SELECT ("+sql+")::text", args...)
}

// breach changes what no program of ours could, behind the back of the triggers.
func (s *shop) breach(sql string, args ...any) {
	s.t.Helper()
	s.unguarded(func(tx pgx.Tx) error {
		tag, err := tx.Exec(s.t.Context(), sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = errors.New("no row")
		}
		return err
	})
}

func (s *shop) unguarded(do func(pgx.Tx) error) {
	s.t.Helper()
	err := pgx.BeginFunc(s.t.Context(), s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(s.t.Context(), "SET LOCAL session_replication_role = replica")
		if err != nil {
			return err
		}
		return do(tx)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// remember keeps a copy of what breaches are made in, and returns what brings it back.
func (s *shop) remember() (restore func()) {
	s.t.Helper()
	tables := []string{"idempotency_keys", "idempotency_key_events", "payments", "refunds", "disputes",
		"dead_letters", "operator_actions", "webhook_events", "river_job", "events", "webhook_endpoints",
		"event_deliveries"}
	columns := map[string]string{}
	for _, table := range tables {
		s.exec("CREATE TABLE saved_" + table + " AS TABLE " + table)
		// A generated column is not written.
		columns[table] = s.text(`SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
			WHERE attrelid = '` + table + `'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`)
	}
	return func() {
		s.t.Helper()
		s.unguarded(func(tx pgx.Tx) error {
			for _, table := range tables {
				_, err := tx.Exec(s.t.Context(), "DELETE FROM "+table)
				if err == nil {
					_, err = tx.Exec(s.t.Context(), "INSERT INTO "+table+" ("+columns[table]+
						") OVERRIDING SYSTEM VALUE SELECT "+columns[table]+" FROM saved_"+table)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func (s *shop) check() []Violation {
	s.t.Helper()
	return s.checkWith(func(*Evidence) {})
}

func (s *shop) checkWith(change func(*Evidence)) []Violation {
	s.t.Helper()
	e := s.evidence()
	change(&e)
	found, err := Check(s.t.Context(), e)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// finds checks that a breach is found, and as what.
func (s *shop) finds(invariant, detail string) {
	s.t.Helper()
	// Statements and permissions have tests of their own.
	found := s.checkWith(func(e *Evidence) { e.Statement, e.Limited = nil, Limited{} })
	for _, v := range found {
		if v.Invariant == invariant && strings.Contains(v.Detail, detail) {
			return
		}
	}
	s.t.Errorf("not found as %s %q; found: %v", invariant, detail, found)
}
