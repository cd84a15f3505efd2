package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/pgtest"
	"payonce/internal/postgres"
)

// The servers of the tests may forget, except what a session asks to be kept.
func TestSettingsByWhichAServerMayForgetAreListed(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	for parameter, want := range map[string][]string{
		"":                       {"fsync = off", "full_page_writes = off", "synchronous_commit = off"},
		"&synchronous_commit=on": {"fsync = off", "full_page_writes = off"},
	} {
		db, err := postgres.Open(t.Context(), url+parameter, limits())
		if err != nil {
			t.Fatal(err)
		}
		got, err := db.Forgetful(t.Context())
		db.Close()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", parameter, err, diff)
		}
	}
}
