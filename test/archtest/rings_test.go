package archtest

import "testing"

// Each ring is broken once by each ring outside of it, by a package and by a single file of a package further in.
func TestEachRingRefusesTheOuterOnes(t *testing.T) {
	t.Parallel()
	for i, inner := range []string{"internal/payments/a.go", "internal/httpapi/operator.go", "demo/mockpsp/a.go"} {
		for j, outer := range []string{"internal/tenants", "internal/statement", "demo/controls", "test/pgtest"} {
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
