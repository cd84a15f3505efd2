package archtest

import "testing"

// Each ring is broken once by each ring outside of it, by a package and by a single file of a package further in.
func TestEachRingRefusesTheOuterOnes(t *testing.T) {
	t.Parallel()
	for i, inner := range []string{"internal/payments/a.go", "internal/httpapi/operator.go", "demo/shop/a.go"} {
		for j, outer := range []string{"internal/tenants", "internal/statement", "demo/controls", "test/e2e"} {
			sources := parse(t, map[string]string{inner: importing("payonce/" + outer)})
			if j > i {
				wantBreach(t, ringBreaches(sources), inner)
				continue
			}
			wantNone(t, ringBreaches(sources))
		}
	}
	wantNone(t, ringBreaches(parse(t, map[string]string{
		"internal/payments/a_test.go": importing("payonce/test/pgtest"),
		"internal/payments/b.go":      importing("payonce/internal/payments/internal/dbsqlc") + importing("context"),
	})))
}

func TestPackageWithoutAPlaceIsRefused(t *testing.T) {
	t.Parallel()
	wantNone(t, placeBreaches(parse(t, map[string]string{
		"internal/payments/a.go":                 "",
		"internal/payments/internal/dbsqlc/a.go": "",
		"lab/chaos/a.go":                         "",
	})))
	wantBreach(t, placeBreaches(parse(t, map[string]string{
		"internal/util/a.go": "",
		"internal/util/b.go": "",
	})), "internal/util")
}

// What goes with the core when it is copied builds there.
func TestSupportOfTheCoreImportsTheCoreAndSupport(t *testing.T) {
	t.Parallel()
	for _, copied := range []string{"test/pgtest/a.go", "test/pgtest/a_test.go"} {
		wantNone(t, ringBreaches(parse(t, map[string]string{
			copied: importing("payonce/internal/payments") + importing("payonce/test/wait") + importing("context"),
		})))
		for _, outer := range []string{"internal/statement", "demo/mockpsp/stripe", "test/e2e"} {
			wantBreach(t, ringBreaches(parse(t, map[string]string{copied: importing("payonce/" + outer)})), copied)
		}
	}
	wantNone(t, ringBreaches(parse(t, map[string]string{
		"test/pgtest/a_stage_test.go": importing("payonce/demo/mockpsp/stripe"),
	})))
}

func TestEveryFileHasItsRing(t *testing.T) {
	t.Parallel()
	const core, operations, stage = 0, 1, 2
	for file, ring := range map[string]int{
		"internal/payments/apply.go":                        core,
		"internal/payments/apply_test.go":                   core,
		"internal/payments/apply_operations_test.go":        operations,
		"internal/payments/internal/dbsqlc/payments.sql.go": core,
		"internal/payments/testdata/fuzz/a":                 core,
		"internal/httpapi/operator.go":                      operations,
		"internal/httpapi/operator_test.go":                 operations,
		"internal/httpapi/operator_setup_test.go":           operations,
		"internal/httpapi/body_test.go":                     core,
		"internal/console/templates/a.html":                 operations,
		"internal/gateway/stripe/testdata/a.json":           operations,
		"demo/mockpsp/stripe/a.go":                          stage,
		"README.md":                                         -1,
		"internal/util/a.go":                                -1,
	} {
		if got := RingOf(file); got != ring {
			t.Errorf("RingOf(%q) is %d, want %d", file, got, ring)
		}
	}
	for file, want := range map[string]bool{
		"test/pgtest/cluster.go": true, "test/pgtest/testdata/a": true, "demo/mockpsp/a_test.go": true,
		"test/contract/client_stage_test.go": false, "demo/mockpsp/stripe/a.go": false, "internal/payments/a.go": false,
		"README.md": false,
	} {
		if got := Supports(file); got != want {
			t.Errorf("Supports(%q) is %t, want %t", file, got, want)
		}
	}
}
