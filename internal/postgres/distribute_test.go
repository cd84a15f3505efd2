package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// waitingOf is a group whose members wait in this order, each named "tenant key".
func waitingOf(spread bool, names ...string) *Group[string, string] {
	db := &DB{}
	db.slots.Members = 3
	db.spread.Store(spread)
	g := NewGroup[string, string](db, func(name string) string { return name }, nil).ByTenant(func(name string) string {
		tenant, _, _ := strings.Cut(name, " ")
		return tenant
	})
	for _, name := range names {
		g.waiting = append(g.waiting, &member[string, string]{key: name, in: name})
	}
	return g
}

func takeAll(g *Group[string, string]) (groups []string) {
	for len(g.waiting) > 0 {
		var names []string
		for _, m := range g.take() {
			names = append(names, m.in)
		}
		groups = append(groups, strings.Join(names, ", "))
	}
	return groups
}

// Who has waited longest is always in the next group: a tenant with many payments starves nobody.
func TestTwoTenantsNeverShareAGroupWhereTablesAreDistributed(t *testing.T) {
	t.Parallel()
	names := []string{"acme 1", "acme 2", "globex 1", "acme 3", "acme 4", "globex 2", "acme 5"}
	for spread, want := range map[bool][]string{
		true:  {"acme 1, acme 2, acme 3", "globex 1, globex 2", "acme 4, acme 5"},
		false: {"acme 1, acme 2, globex 1", "acme 3, acme 4, globex 2", "acme 5"},
	} {
		if got := takeAll(waitingOf(spread, names...)); !slices.Equal(got, want) {
			t.Errorf("distributed: %t: groups are %q, want %q", spread, got, want)
		}
	}
}

// A statement that names a tenant passes over rows of any other.
func TestTenantIsNamedOnlyWhereThereIsNoOther(t *testing.T) {
	t.Parallel()
	db := &DB{}
	if got := db.OnlyTenant([]string{"acme"}); got != nil {
		t.Errorf("on one server: %s", *got)
	}
	db.spread.Store(true)
	if got := db.OnlyTenant([]string{"acme", "acme"}); got == nil || *got != "acme" {
		t.Error("the only tenant is not named")
	}
	for _, tenants := range [][]string{{"acme", "globex"}, {"acme", "acme", "globex"}, nil} {
		if got := db.OnlyTenant(tenants); got != nil {
			t.Errorf("%v: %s", tenants, *got)
		}
	}
}

// A coordinator that has lost the worker's answer to a COMMIT calls it an error.
func TestErrorOfACommitIsNoRollbackWhereTablesAreDistributed(t *testing.T) {
	t.Parallel()
	refused := fmt.Errorf("commit: %w", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "XX000"})
	db := &DB{}
	if !RolledBack(db.classifyEnd(refused)) {
		t.Error("one server's error at the end is a rollback")
	}
	db.spread.Store(true)
	var ambiguous *AmbiguousError
	if !errors.As(db.classifyEnd(refused), &ambiguous) {
		t.Error("the coordinator's is not")
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
