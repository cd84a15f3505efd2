package pgtest

import (
	"context"
	"testing"

	"payonce/internal/postgres"
)

// WantReturned runs a call whose statement fails, and checks that the call returns the error. An error that a call
// keeps for itself comes out of the commit instead. There, nobody knows whether the transaction was rolled back, and
// judge does not learn which constraint has refused the step.
func WantReturned(t testing.TB, db *postgres.DB, name string, call postgres.Call) {
	t.Helper()
	var returned error
	err := db.Pipeline(t.Context(), func(ctx context.Context, q postgres.Statement) error {
		returned = call(ctx, q)
		return returned
	})
	if returned == nil || !postgres.RolledBack(err) {
		t.Errorf("%s returns %v, the transaction %v", name, returned, err)
	}
}
