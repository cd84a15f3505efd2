package config

import (
	"math/big"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sum adds spans of time without a limit: the sum that a check makes may have gone round.
func sum(spans ...time.Duration) *big.Int {
	total := new(big.Int)
	for _, s := range spans {
		total.Add(total, big.NewInt(int64(s)))
	}
	return total
}

// Settings that are accepted keep the relations that docs/reconciliation.md asks for, however they were written, and
// give URLs to which paths can be added. Those that are refused are refused by name.
func FuzzLoad(f *testing.F) {
	f.Add("LEASE", "45s", "PSP_LATE_LIMIT", "2m", "PUBLIC_URL", "https://pay.example/base/")
	f.Add("PSP_LATE_LIMIT", "2562047h47m16s", "LEASE", "x", "HTTP_ADDR", "8080")
	f.Add("PSP_URL", "http://psp?x=", "WEBHOOK_SECRETS", "a,b,,", "DB_POOLER", "maybe")
	f.Add("PSP", "stripe", "STRIPE_SECRET", "sk_test_1234567890123456", "STRIPE_URL", "https://stripe.example")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2, name3, value3 string) {
		environment := map[string]string{name1: value1, name2: value2, name3: value3}
		getenv := func(name string) string { return environment[name] }
		if c, err := Load(getenv); err == nil {
			keepsRelations(t, c.Shared)
			if c.DrainLimit <= c.Lease || c.DrainDelay < 0 {
				t.Fatalf("taken: %+v", c)
			}
		} else {
			namesSetting(t, err, environment)
		}
		c, err := LoadReconciler(getenv)
		if err != nil {
			namesSetting(t, err, environment)
			return
		}
		keepsRelations(t, c.Shared)
		if sum(c.ScanOverlap).Cmp(sum(c.Lease, c.Lease, c.PSPLate, c.ScanEvery)) < 0 ||
			sum(c.LookupCap, c.Lease, c.PSPLate).Cmp(sum(c.PSPMemory)) >= 0 ||
			c.LookupCap < c.LookupBase || c.LookupBase <= 0 || c.ResolveWorkers < 1 ||
			c.ResolveWorkers >= c.PSPInFlight {
			t.Fatalf("taken: %+v", c)
		}
	})
}

func keepsRelations(t *testing.T, c Shared) {
	t.Helper()
	if sum(c.PSPTotal, c.PSPTotal, c.PSPTotal).Cmp(sum(c.Lease)) > 0 || c.Lease <= 0 || c.PSPTotal <= 0 ||
		c.PSPDial > c.PSPTotal ||
		c.Retention < c.PSPMemory || sum(c.Lease, c.PSPLate, c.FirstLookup).Cmp(sum(c.PSPMemory)) >= 0 ||
		c.GracePeriod() <= c.Lease ||
		c.DBLockTimeout > c.DBStatementTimeout || c.DBMaxConns < 2 || c.DBCommitSlots < 0 ||
		c.HTTPIdle <= 0 || c.HTTPIdle > 2*time.Hour {
		t.Fatalf("taken: %+v", c)
	}
	for _, base := range []string{c.PSPURL, c.StripeURL, c.PublicURL} {
		u, err := url.Parse(base + "/v1/charges?limit=1")
		if err != nil || !strings.HasSuffix(u.Path, "/v1/charges") || u.RawQuery != "limit=1" || u.Fragment != "" {
			t.Fatalf("%q is taken as the base of %v, %v", base, u, err)
		}
	}
	if u, err := url.Parse(c.PublicURL); err != nil || u.JoinPath("/payments").String() != u.String()+"/payments" ||
		strings.HasPrefix(u.Path, "//") {
		t.Fatalf("%q is taken as the base of paths, %v", c.PublicURL, err)
	}
}

var settingName = regexp.MustCompile(`\b(LEASE|PSP|[A-Z]+_[A-Z_]+)\b`)

// namesSetting asks for the name of what has to be changed, without what must not be seen.
func namesSetting(t *testing.T, err error, environment map[string]string) {
	t.Helper()
	for line := range strings.Lines(err.Error()) {
		if !settingName.MatchString(line) {
			t.Fatalf("%q is refused with: %v", environment, err)
		}
	}
	for _, name := range []string{"PSP_SECRET", "DATABASE_URL", "WEBHOOK_SECRETS", "STRIPE_SECRET",
		"STRIPE_WEBHOOK_SECRETS"} {
		if secret := environment[name]; len(secret) > 20 && !strings.Contains(environment["PSP_URL"], secret) &&
			strings.Contains(err.Error(), secret) {
			t.Fatalf("%s is repeated: %v", name, err)
		}
	}
}
