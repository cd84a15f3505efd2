package main

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/demo/mockpsp"
	"payonce/internal/app"
	"payonce/internal/config"
	"payonce/internal/tenants"
	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/rig"
	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// side is an API with its database, which has taken one payment and one webhook, and a pgbench of the same version.
type side struct {
	b       *bench
	address string
}

func newSide(t *testing.T) side {
	t.Helper()
	program := pgtest.Server(t).Program("pgbench")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("PostgreSQL %s came without pgbench, which packages of clients alone do not have: %v",
			pgtest.Server(t).Version(), err)
	}
	queries, err := pgbench.Queries("../..")
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.NewURL(t)
	admin := pgtest.Connect(t, url)
	s := side{b: &bench{db: rig.Existing(url, admin), pgbench: program, queries: queries}}
	s.b.db.APIKey = "bench-key-of-a-test"
	addTenant(t, s.b.db)
	s.address = serveAPI(t, s.b.db.URL)
	s.send(t, load.Plan{Kind: load.New, APIKeys: []string{s.b.db.APIKey}})
	if s.b.sample, err = sampleOf(t.Context(), s.b.db); err != nil {
		t.Fatal(err)
	}
	return s
}

func addTenant(t *testing.T, d *rig.Database) {
	t.Helper()
	db := pgtest.Open(t, d.URL, pgtest.Limits())
	registry := tenants.NewRegistry(db, app.NewID)
	if err := registry.EnsureTenant(t.Context(), rig.Tenant); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.AddKey(t.Context(), rig.Tenant, d.APIKey, "",
		[]tenants.Permission{tenants.PaymentsWrite}); err != nil {
		t.Fatal(err)
	}
}

// serveAPI returns the API's address. Its PSP is the mock.
func serveAPI(t *testing.T, databaseURL string) string {
	t.Helper()
	mock, err := mockpsp.New(mockpsp.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	psp := httptest.NewServer(mock)
	settings, err := config.Load(func(name string) string {
		return map[string]string{
			"DATABASE_URL": databaseURL, "PSP_URL": psp.URL, "PSP_SECRET": mockpsp.DefaultConfig().Secret,
			"PUBLIC_URL": "http://payonce.test", "WEBHOOK_SECRETS": mockpsp.DemoWebhookSecret,
		}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	api, err := app.NewAPI(t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.Public)
	t.Cleanup(func() {
		server.Close()
		api.Close()
		psp.Close()
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.Listener.Addr().String()
}

// send has one request answered as it should be.
func (s side) send(t *testing.T, plan load.Plan) {
	t.Helper()
	plan.Address, plan.Clients, plan.Requests, plan.Seconds = s.address, 1, 1, 30
	result, err := load.Run(t.Context(), plan)
	if err != nil || result.Requests != 1 || result.Clean(0) != nil {
		t.Fatalf("%+v, %v", result, err)
	}
}

// run has pgbench work for a second, and returns how many transactions it has made.
func (s side) run(t *testing.T, script pgbench.Script) int64 {
	t.Helper()
	result, err := pgbench.Run{Program: s.b.pgbench, URL: s.b.db.URL, Clients: 2, Seconds: 1}.Do(t.Context(), script)
	if err != nil || result.Transactions == 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	return result.Transactions
}

// kinds are the rows of a table, without what every row has for itself, and how many there are of each.
func (s side) kinds(t *testing.T, sql string) map[string]int64 {
	t.Helper()
	rows, err := s.b.db.Admin.Query(t.Context(), "SELECT kind::text, count(*) FROM ("+sql+
		") AS rows (kind) GROUP BY kind")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int64{}
	var kind string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&kind, &n}, func() error { kinds[kind] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return kinds
}

// oneKind checks that all rows are of the kind that the API has written.
func (s side) oneKind(t *testing.T, want int64, sql string) {
	t.Helper()
	kinds := s.kinds(t, sql)
	for kind, n := range kinds {
		if len(kinds) == 1 && n == want {
			return
		}
		t.Logf("%d × %s", n, kind)
	}
	t.Errorf("%d kinds of rows, want one with %d:\n%s", len(kinds), want, sql)
}

func TestPgbenchLeavesTheRowsThatTheAPILeaves(t *testing.T) {
	t.Parallel()
	s := newSide(t)
	script, err := pgbench.NewPayment(s.b.queries, s.b.sample)
	if err != nil {
		t.Fatal(err)
	}
	all := 1 + s.run(t, script)
	s.oneKind(t, all, `SELECT to_jsonb(k) - '{key,fingerprint,lease_id,subject,created_at,reserved_at,finished_at,expires_at,response_location}'::text[]
		|| jsonb_build_object('kept', k.expires_at - k.reserved_at, 'took no time', k.finished_at - k.reserved_at < interval '1 minute')
		FROM idempotency_keys AS k`)
	s.oneKind(t, all,
		"SELECT to_jsonb(p) - '{id,idempotency_key,psp_charge_id,created_at}'::text[] FROM payments AS p")
	s.oneKind(t, all, `SELECT jsonb_build_object('one', k.subject = p.id AND k.key = p.idempotency_key, 'charged', p.psp_charge_id IS NOT NULL,
		'completed', k.status, 'succeeded', p.status) FROM idempotency_keys AS k FULL JOIN payments AS p ON p.id = k.subject`)
}

func TestPgbenchLeavesTheEventThatTheAPILeaves(t *testing.T) {
	t.Parallel()
	s := newSide(t)
	s.send(t, load.Plan{Kind: load.Webhook, Body: eventBody, WebhookSecret: mockpsp.DemoWebhookSecret})
	all := 1 + s.run(t, pgbench.Event(storedEvent()))
	s.oneKind(t, all, `SELECT to_jsonb(e) - '{id,received_at,sent_at,body}'::text[] || jsonb_build_object('id', length(e.id), 'body', octet_length(e.body))
		FROM webhook_events AS e`)
}

func TestPgbenchReplaysFindTheirKeys(t *testing.T) {
	t.Parallel()
	s := newSide(t)
	const rows = 50
	if err := s.b.db.Load(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for _, make := range []func(map[string]pgbench.Query, pgbench.Sample, int) (pgbench.Script, error){pgbench.Find,
		pgbench.Replay} {
		script, err := make(s.b.queries, s.b.sample, rows)
		if err != nil {
			t.Fatal(err)
		}
		s.run(t, script)
	}
	// A replay that found nothing would have reserved a key.
	s.oneKind(t, rows+1, "SELECT status FROM idempotency_keys")
}
