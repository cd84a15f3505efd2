package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// onManyServers is a DB whose tables are distributed.
func onManyServers() *DB {
	c := &cluster{}
	c.is.Store(true)
	return &DB{servers: c}
}

// A transaction of several tenants would be one of several servers.
func TestOnlyPaymentsOfOneTenantShareATransactionOnManyServers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		db   *DB
		want []string
	}{{&DB{servers: &cluster{}}, []string{"a 1", "a 2", "b 1"}}, {onManyServers(), []string{"a 1", "a 2"}}} {
		row.db.slots.Members = 9
		g := NewGroup[string, string](row.db, strings.Clone, nil)
		g.waiting = []*member[string, string]{{key: "a 2"}, {key: "b 1"}, {key: "a 1"}}
		var got []string
		for _, m := range g.take() {
			got = append(got, m.key)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%v share a transaction, want %v", got, row.want)
		}
	}
}

// A call costs as much for one payment as for several, so groups are of the tenant with the most payments. But no
// payment is passed over more often than maxPassed times, and once for each payment that had come before it.
func TestGroupsAreOfTheTenantWithTheMostPaymentsOnManyServers(t *testing.T) {
	t.Parallel()
	db := onManyServers()
	db.slots.Members = 2
	g := NewGroup[string, string](db, strings.Clone, nil)
	g.waiting = []*member[string, string]{{key: "lone 1"}, {key: "other 1"}}
	var got []string
	for range maxPassed + 3 {
		for n := len(g.waiting); n < 5; n++ {
			g.waiting = append(g.waiting, &member[string, string]{key: fmt.Sprintf("busy %d", n)})
		}
		members := g.take()
		tenant, _, _ := strings.Cut(members[0].key, " ")
		got = append(got, fmt.Sprintf("%d %s", len(members), tenant))
	}
	want := append(slices.Repeat([]string{"2 busy"}, maxPassed), "1 lone", "1 other", "2 busy")
	if !slices.Equal(got, want) {
		t.Errorf("groups of %v, want %v", got, want)
	}
	g.waiting = nil
	if members := g.take(); len(members) != 0 {
		t.Errorf("%d members of nobody", len(members))
	}
	// An event of a provider is a key without a tenant.
	g.waiting = []*member[string, string]{{key: "evt_1"}, {key: "evt_2"}}
	if members := g.take(); len(members) != 2 {
		t.Errorf("%d events are in one group, want 2", len(members))
	}
}

// The rows of a call are written on the worker of one tenant, where nobody would find another tenant's.
func TestCallIsOfOneTenantForSure(t *testing.T) {
	t.Parallel()
	type tenant string
	for _, row := range []struct {
		of   any
		want string
	}{
		{"a", "a"}, {[]string{"a"}, "a"}, {[]string{"a", "a"}, "a"},
		{[]string{"a", "b", "a"}, ""}, {[]string{}, ""}, {nil, ""}, {tenant("a"), ""},
	} {
		if got := oneTenant(row.of); got != row.want {
			t.Errorf("%v: %q, want %q", row.of, got, row.want)
		}
	}
}

// A coordinator that has lost the worker's answer to a COMMIT calls it an error.
func TestErrorOfACommitIsNoRollbackOnManyServers(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("commit: %w", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "XX000"})
	if !RolledBack(classifyCommit(refused)) {
		t.Error("one server's error at the end is a rollback")
	}
	var ambiguous *AmbiguousError
	if !errors.As(onManyServers().servers.ended(refused), &ambiguous) {
		t.Error("the coordinator's is not")
	}
}

// A call is a transaction of its own on the worker, which may have committed before the coordinator reports an error.
func TestErrorOfACallIsARollbackOnlyIfItEndsTheTransactionBeforeItsCommit(t *testing.T) {
	t.Parallel()
	for code, rolledBack := range map[string]bool{
		"57014": false, "08006": false, "57P01": false, "58030": false, "XX000": false, "53100": false, "40003": false,
		"23505": true, "22001": true, "40001": true, "40P01": true, "55P03": true, "P0001": true, "0A000": true,
		"42883": true, "42501": true, "25006": true,
	} {
		err := classifyCall(&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code})
		if RolledBack(err) != rolledBack {
			t.Errorf("%s: rolled back %v, want %v", code, !rolledBack, rolledBack)
		}
		if RolledBack(classifyCall(&pgconn.PgError{SeverityUnlocalized: "FATAL", Code: code})) {
			t.Errorf("FATAL %s proves nothing", code)
		}
		// Nobody's payment is the cause of a call that is not passed on.
		if own := code != "0A000" && code != "25006"; rolledBack && mayBeAnothers(err) != own {
			t.Errorf("%s: each member is tried alone: %v, want %v", code, !own, own)
		}
	}
}

// Citus passes a worker's refusal on without the field for the name, and puts the number of a shard behind some names.
func TestRefusalOfAWorkerIsKnownByItsMessage(t *testing.T) {
	t.Parallel()
	for message, constraint := range map[string]string{
		`new row for relation "refunds_102042" violates check constraint "refunds_amount_positive"`:                                   "refunds_amount_positive",
		`duplicate key value violates unique constraint "payments_psp_charge_unique_102050"`:                                          "payments_psp_charge_unique",
		`payment 01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44 in status succeeded violates check constraint "payments_refunds_within_amount"`: "payments_refunds_within_amount",
		`insert or update on table "refunds_102042" violates foreign key constraint "refunds_payment_id_fkey_102042"`:                 "refunds_payment_id_fkey",
	} {
		err := &pgconn.PgError{Severity: "ERROR", Code: "23514", Message: message}
		if !Violates(err, constraint) || Violates(err, "payments_charge_iff_succeeded") {
			t.Errorf("%s: is not known for %s", message, constraint)
		}
	}
}
