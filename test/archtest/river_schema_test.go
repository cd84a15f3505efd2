package archtest

import (
	"testing"

	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"payonce/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Our files do River's bookkeeping, so River's own check passes on a database
// that rivermigrate has never seen.
func TestRiverAcceptsTheSchemaThatGooseMade(t *testing.T) {
	t.Parallel()
	migrator, err := rivermigrate.New(riverpgxv5.New(pgtest.New(t)), nil)
	if err != nil {
		t.Fatalf("open River's migrations: %v", err)
	}
	result, err := migrator.Validate(t.Context(), nil)
	if err != nil {
		t.Fatalf("let River validate its schema: %v", err)
	}
	if !result.OK {
		t.Errorf("River refuses its schema: %v", result.Messages)
	}
}
