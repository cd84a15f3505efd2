package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"payonce/demo/mockpsp"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// runbook is the commands of docs/failover.md for a database that was restored.
func runbook(t *testing.T) (commands []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/failover.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### After a restore")
	section, _, _ = strings.Cut(section, "\n### ")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		commands = append(commands, strings.TrimSpace(block[1]))
	}
	return commands
}

// pspOfTwo is a PSP with a charge of each of two accounts under a key that nobody here knows.
func pspOfTwo(t *testing.T, c mockpsp.Config) *httptest.Server {
	t.Helper()
	mock, err := mockpsp.New(c)
	if err != nil {
		t.Fatal(err)
	}
	psp := httptest.NewServer(mock)
	t.Cleanup(func() {
		psp.Close()
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, account := range []string{"acme", "globex"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/charges", strings.NewReader(
			`{"amountCents":12000,"currency":"USD","paymentMethod":"pm_ok","reference":"pay_01k9z3w5m8fk2v7q4d6h0r1txe"}`))
		for name, value := range map[string]string{"Authorization": "Bearer " + c.Secret, "PSP-Account": account,
			"Idempotency-Key": "lost-by-the-restore", "Content-Type": "application/json"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		if mock.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatalf("the PSP answers %d: %s", w.Code, w.Body)
		}
	}
	return psp
}

// The PSP has charges of two accounts under keys that the restored database has lost. The commands of the runbook hold
// these keys before any API serves, and come to a clear end.
func TestRunbookAfterARestoreHoldsWhatWasLost(t *testing.T) {
	t.Parallel()
	c := mockpsp.DefaultConfig()
	psp := pspOfTwo(t, c)
	url := pgtest.NewURL(t)
	db := pgtest.Open(t, url, pgtest.Limits())
	pgtest.Exec(t, db.Pool(), "INSERT INTO tenants (id, psp_account) VALUES ('acme', 'acme'), ('globex', 'globex')")

	commands := runbook(t)
	if len(commands) != 2 {
		t.Fatalf("the runbook has the commands %q", commands)
	}
	settings := []string{"DATABASE_URL=" + pgtest.As(t, url, postgres.Reconciler), "PSP_SECRET=" + c.Secret,
		"PSP_URL=" + psp.URL}
	for _, want := range []string{
		"acme charges: read to the end; 0 resolved, 1 dead letter\n" +
			"acme refunds: read to the end; 0 resolved, 0 dead letters\n",
		// and again
		"acme charges: read to the end; 0 resolved, 1 dead letter, 1 of them found before (open, or closed since)\n",
	} {
		// A person reads what the command says: without LOG_LEVEL, no step is logged.
		out, logged, err := command(t, settings, strings.Fields(commands[0])[1:]...)
		if err != nil || !strings.HasPrefix(out, want) || logged != "" ||
			!strings.Contains(out, "all 4 lists are read to the end; start the reconciler; the console lists the open dead letters\n") {
			t.Fatalf("%s: %v\n%s\n%s", commands[0], err, out, logged)
		}
	}
	var open, held int
	if err := db.Pool().QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM dead_letters WHERE status = 'open' AND kind = 'unknown_movement'),
		(SELECT count(*) FROM idempotency_key_tombstones
			WHERE key = 'lost-by-the-restore' AND dead_letter_hold = 'decline')`).
		Scan(&open, &held); err != nil || open != 2 || held != 2 {
		t.Errorf("%d dead letters are open, and %d keys are held: %v", open, held, err)
	}

	id := pgtest.Value[string](t, db.Pool(), "SELECT id FROM dead_letters WHERE tenant_id = 'acme'")
	for _, look := range []string{"key show", "timeline"} {
		args := append(strings.Fields(look), "lost-by-the-restore", "--tenant", "acme")
		out, _, err := command(t, settings, args...)
		if err == nil || out != "" || err.Error() != `an open dead letter holds the key "lost-by-the-restore" of tenant `+
			`"acme": nothing is executed under it until an operator has decided; see /console/dead-letters/`+id+` of the operator's listener` {
			t.Errorf("%s: %v\n%s", look, err, out)
		}
	}

	psp.Close() // The PSP is away: the command must not say that it has read anything.
	out, _, err := command(t, settings, "scan", "--account", "acme")
	if err == nil || !strings.Contains(err.Error(), "2 of 2 lists are not read to the end") {
		t.Errorf("without the PSP: %v\n%s", err, out)
	}
}
