package tenants

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestNewSecretIsAllItsRandomness(t *testing.T) {
	t.Parallel()
	raw := make([]byte, 64)
	for i := range raw {
		raw[i] = byte(i)
	}
	random := iotest.OneByteReader(bytes.NewReader(raw)) // a short read is not the end
	first, err := NewSecret(random)
	if err != nil || first != "payonce_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" {
		t.Fatalf("%q, %v", first, err)
	}
	second, err := NewSecret(random)
	if err != nil || second == first {
		t.Fatalf("%q again, %v", second, err)
	}
	if third, err := NewSecret(random); err == nil {
		t.Fatalf("%q without randomness", third)
	}
	if fourth, err := NewSecret(bytes.NewReader(raw[:31])); err == nil {
		t.Fatalf("%q of 31 bytes", fourth)
	}
}

func TestTableHoldsNoSecret(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	const secret = "payonce_c0ffee"
	o.addKey(secret)
	var row string
	var digest []byte
	if err := o.pool.QueryRow(t.Context(), "SELECT k::text, secret_sha256 FROM api_keys AS k").Scan(&row,
		&digest); err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256([]byte(secret)); !bytes.Equal(digest, want[:]) || strings.Contains(row, "c0ffee") {
		t.Fatalf("row is %s", row)
	}
}

func TestTenantIsMadeOnce(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for range 2 {
		o.tenant()
	}
	var account string
	var perSecond, burst int
	if err := o.pool.QueryRow(t.Context(),
		"SELECT psp_account, requests_per_second, request_burst FROM tenants").Scan(
		&account, &perSecond, &burst); err != nil {
		t.Fatal(err)
	}
	if account != "acme" || perSecond != 50 || burst != 100 {
		t.Fatalf("tenant has account %q, %d requests per second, burst %d", account, perSecond, burst)
	}
}

func TestIDsThatCannotBe(t *testing.T) {
	t.Parallel()
	o := setup(t)
	for _, id := range []string{"", "Acme", "1acme", "-acme", "acme corp", "acme/x", "ac\nme", "acme\n", "äcme",
		strings.Repeat("a", 32)} {
		if err := o.registry.EnsureTenant(t.Context(), id); err == nil {
			t.Errorf("%q was made", id)
		} else if !strings.Contains(err.Error(), "an id is a lower-case letter") {
			t.Errorf("%q: the refusal does not say what is allowed: %v", id, err)
		}
	}
	for _, id := range []string{"a", "acme-2", strings.Repeat("a", 31)} {
		if err := o.registry.EnsureTenant(t.Context(), id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	// Two tenants on one account would see each other's keys at the PSP.
	o.exec("INSERT INTO tenants (id, psp_account) VALUES ('b', 'globex')")
	if err := o.registry.EnsureTenant(t.Context(), "globex"); !errors.Is(err, ErrAccountInUse) {
		t.Errorf("two tenants share an account at the PSP: %v", err)
	}
}

// At another provider, or under another account, the PSP would know nothing of the keys that are unknown now.
func TestAccountAtThePSPIsFixed(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	for _, sql := range []string{"UPDATE tenants SET psp_account = 'elsewhere'", "UPDATE tenants SET id = 'another'",
		"UPDATE tenants SET psp = 'stripe'",
		"DELETE FROM tenants", "TRUNCATE tenants CASCADE"} {
		if _, err := o.pool.Exec(t.Context(), sql); !postgres.Violates(err, "history_is_append_only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	o.exec("UPDATE tenants SET request_burst = 7")
}

func TestKeysThatCannotBe(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("taken")
	for name, c := range map[string]struct {
		tenant, secret, label string
		may                   []Permission
		want                  error
	}{
		"unknown tenant":                 {"globex", "s", "", []Permission{PaymentsRead}, ErrNoTenant},
		"secret in use":                  {"acme", "taken", "", []Permission{PaymentsRead}, ErrSecretInUse},
		"secret in use, for an operator": {"", "taken", "", []Permission{OpsRead}, ErrSecretInUse},
		"no permission":                  {"acme", "s", "", nil, nil},
		"unknown permission":             {"acme", "s", "", []Permission{"payments:all"}, nil},
		"an operator's for a tenant":     {"acme", "s", "", []Permission{PaymentsRead, OpsRead}, ErrMalformed},
		"a tenant's for an operator":     {"", "s", "", []Permission{PaymentsRead}, ErrMalformed},
		"both for an operator":           {"", "s", "", []Permission{OpsRead, PaymentsWrite}, ErrMalformed},
		"a long label":                   {"acme", "s", strings.Repeat("x", 101), []Permission{PaymentsRead}, nil},
	} {
		k, err := o.registry.AddKey(t.Context(), c.tenant, c.secret, c.label, c.may)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || k.ID != uuid.Nil {
			t.Errorf("%s: key %v, error %v", name, k.ID, err)
		}
		if err != nil && strings.Contains(err.Error(), "taken") {
			t.Errorf("%s: the refusal repeats the secret: %v", name, err)
		}
	}
	keys, err := o.registry.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, want the first alone: %v", len(keys), err)
	}
}

func TestKeyNeedsAnID(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	broken := errors.New("no randomness")
	o.registry.newID = func() (uuid.UUID, error) { return uuid.UUID{}, broken }
	if _, err := o.registry.AddKey(t.Context(), "acme", "s", "", []Permission{PaymentsRead}); !errors.Is(err, broken) {
		t.Fatal(err)
	}
}

func TestKeysAreListedOldestFirst(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	first := o.addKey("first")
	second, err := o.registry.AddKey(t.Context(), "", "second", "on call", []Permission{OpsResolve, OpsRead})
	if err != nil {
		t.Fatal(err)
	}
	o.addKey("third")
	if _, err := o.registry.ExpireKey(t.Context(), first.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := o.registry.ExpireKey(t.Context(), second.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	keys, err := o.registry.Keys(t.Context())
	if err != nil || len(keys) != 3 {
		t.Fatalf("%d keys: %v", len(keys), err)
	}
	if keys[0].ID != first.ID || keys[0].Tenant != "acme" || !keys[0].Expired ||
		!slices.Equal(keys[0].Permissions, []string{"payments:read", "payments:write"}) {
		t.Errorf("first is %+v", keys[0])
	}
	if keys[1].ID != second.ID || keys[1].Tenant != "" || keys[1].Label != "on call" || keys[1].Expired ||
		keys[1].Expires == nil {
		t.Errorf("second is %+v", keys[1])
	}
	if keys[2].Expires != nil || keys[2].Expired || !keys[2].Created.After(keys[0].Created) {
		t.Errorf("third is %+v", keys[2])
	}
}

func TestExpiryIsNeverPutOff(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	k := o.addKey("secret")
	soon, err := o.registry.ExpireKey(t.Context(), k.ID, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if later, err := o.registry.ExpireKey(t.Context(), k.ID, time.Hour); err != nil || !later.Equal(soon) {
		t.Fatalf("the end was put off from %s to %s: %v", soon, later, err)
	}
	if sooner, err := o.registry.ExpireKey(t.Context(), k.ID, time.Second); err != nil || !sooner.Before(soon) {
		t.Fatalf("the end was not brought forward from %s: %s, %v", soon, sooner, err)
	}
	if _, err := o.registry.ExpireKey(t.Context(), uuid.New(), 0); !errors.Is(err, ErrNoAPIKey) {
		t.Fatalf("a key that is none: %v", err)
	}
}

// The database has 32 bits for a rate. A larger number must not become a small one.
func TestRateThatCannotBeIsMalformed(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	for _, n := range []int{-1, 0, MaxRate + 1, 1<<32 + 7} {
		for name, err := range map[string]error{
			"rate":  o.registry.SetRate(t.Context(), "acme", n, 1),
			"burst": o.registry.SetRate(t.Context(), "acme", 1, n),
		} {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%s %d: %v", name, n, err)
			}
		}
	}
	for _, n := range []int{1, MaxRate} {
		if err := o.registry.SetRate(t.Context(), "acme", n, n); err != nil {
			t.Errorf("rate %d: %v", n, err)
		}
	}
}

func TestRatesAndDigestsAreBounded(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	for _, sql := range []string{
		"UPDATE tenants SET requests_per_second = 0", "UPDATE tenants SET requests_per_second = 100001",
		"UPDATE tenants SET request_burst = 0", "UPDATE tenants SET request_burst = 100001",
		"INSERT INTO tenants (id, psp_account) VALUES ('b', 'two words')",
		"INSERT INTO tenants (id, psp_account) VALUES ('b', '')",
		"INSERT INTO tenants (id, psp_account, psp) VALUES ('b', 'b', '')",
		"INSERT INTO tenants (id, psp_account, psp) VALUES ('b', 'b', 'Stripe')",
		"INSERT INTO tenants (id, psp_account, psp) VALUES ('b', 'b', '1st')",
		"INSERT INTO tenants (id, psp_account, psp) VALUES ('b', 'b', 'a-b')",
		"INSERT INTO tenants (id, psp_account, psp) VALUES ('b', 'b', rpad('a', 21, 'a'))",
		"UPDATE api_keys SET secret_sha256 = 'plain'", "DELETE FROM tenants",
	} {
		if _, err := o.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: done", sql)
		}
	}
}

func atStripe() Tenant {
	return Tenant{ID: "initech", PSP: Stripe, PSPAccount: "acct_1", RequestsPerSecond: 7, Burst: 11}
}

func TestTenantIsCreatedAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	for range 2 { // the second time after a failure that was none
		if err := o.registry.Create(t.Context(), atStripe()); err != nil {
			t.Fatal(err)
		}
		o.exec("UPDATE tenants SET feed = true, tells = true WHERE id = 'initech'") // which the merchant decides
	}
	all, err := o.registry.Tenants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Tenant{
		{ID: "acme", PSP: Native, PSPAccount: "acme", RequestsPerSecond: DefaultRate, Burst: DefaultBurst},
		{ID: "initech", PSP: Stripe, PSPAccount: "acct_1", RequestsPerSecond: 7, Burst: 11, Feed: true,
			Tells: true},
	}
	if diff := cmp.Diff(want, all, cmpopts.IgnoreFields(Tenant{}, "Created")); diff != "" {
		t.Fatalf("tenants differ (-want +got):\n%s", diff)
	}
}

func TestTenantsThatCannotBe(t *testing.T) {
	t.Parallel()
	o := setup(t)
	if err := o.registry.Create(t.Context(), atStripe()); err != nil {
		t.Fatal(err)
	}
	const exists = `tenant "initech" exists, at provider stripe with account acct_1, 7 requests per second and burst 11`
	for name, c := range map[string]struct {
		edit func(*Tenant)
		want error
		says string
	}{
		"another provider": {func(n *Tenant) { n.PSP = Native }, ErrTenantExists, exists},
		"another account":  {func(n *Tenant) { n.PSPAccount = "acct_2" }, ErrTenantExists, exists},
		"another rate":     {func(n *Tenant) { n.RequestsPerSecond = 8 }, ErrTenantExists, exists},
		"another burst":    {func(n *Tenant) { n.Burst = 8 }, ErrTenantExists, exists},
		"account in use": {func(n *Tenant) { n.ID = "globex" }, ErrAccountInUse,
			`account "acct_1" is in use by another tenant`},
		"account in use at another provider": {func(n *Tenant) { n.ID, n.PSP = "globex", Native }, ErrAccountInUse,
			`account "acct_1" is in use by another tenant`},
		"no provider": {func(n *Tenant) { n.PSP = "" }, ErrMalformed, `provider "" is malformed`},
		"account of two words": {func(n *Tenant) { n.ID, n.PSPAccount = "globex", "acct_1 2" }, ErrMalformed,
			"an account has 1 to 64 letters"},
		"id":         {func(n *Tenant) { n.ID, n.PSPAccount = "Globex", "acct_2" }, ErrMalformed, "an id is"},
		"no rate":    {func(n *Tenant) { n.RequestsPerSecond = 0 }, ErrMalformed, "it must be from 1 to 100000"},
		"high burst": {func(n *Tenant) { n.Burst = MaxRate + 1 }, ErrMalformed, "it must be from 1 to 100000"},
	} {
		n := atStripe()
		c.edit(&n)
		err := o.registry.Create(t.Context(), n)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			c.says == exists && err.Error() != exists {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := o.count("SELECT count(*) FROM tenants"); n != 1 {
		t.Errorf("%d tenants", n)
	}
}

// A key that speaks for another tenant pays with its money. The other tenants come first in every order.
func TestChangeOfOneTenantOrKeyChangesNoOther(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec("INSERT INTO tenants (id, psp_account) VALUES ('a-neighbour', 'acct_a'), ('another', 'acct_b')")
	o.tenant()
	for tenant, secret := range map[string]string{"a-neighbour": "a", "another": "b"} {
		if _, err := o.registry.AddKey(t.Context(), tenant, secret, "", []Permission{PaymentsRead}); err != nil {
			t.Fatal(err)
		}
	}
	k := o.addKey("mine")
	if err := o.registry.SetRate(t.Context(), "acme", 7, 9); err != nil {
		t.Fatal(err)
	}
	if err := o.registry.SetRate(t.Context(), "initech", 7, 9); !errors.Is(err, ErrNoTenant) ||
		err.Error() != ErrNoTenant.Error() {
		t.Errorf("the rate of nobody: %v", err)
	}
	for secret, want := range map[string]Principal{
		"a":    {Tenant: "a-neighbour", PSPAccount: "acct_a", RequestsPerSecond: DefaultRate, Burst: DefaultBurst},
		"mine": {Tenant: "acme", PSPAccount: "acme", RequestsPerSecond: 7, Burst: 9},
		"b":    {Tenant: "another", PSPAccount: "acct_b", RequestsPerSecond: DefaultRate, Burst: DefaultBurst},
	} {
		got, err := o.directory.Authenticate(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		got = Principal{Tenant: got.Tenant, PSPAccount: got.PSPAccount, RequestsPerSecond: got.RequestsPerSecond,
			Burst: got.Burst}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Principal{})); diff != "" {
			t.Errorf("%q speaks for another (-want +got):\n%s", secret, diff)
		}
	}
	if _, err := o.registry.ExpireKey(t.Context(), k.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := o.count("SELECT count(*) FROM api_keys WHERE expires_at IS NOT NULL"); n != 1 {
		t.Errorf("%d keys have an end", n)
	}
}

// Two processes make the same tenant. The one that has waited for the other finds the tenant, and does not fail.
func TestTenantThatAnotherProcessHasJustMadeIsFound(t *testing.T) {
	t.Parallel()
	o := setup(t)
	tx := pgtest.Begin(t, o.pool)
	pgtest.Exec(t, tx, "INSERT INTO tenants (id, psp_account) VALUES ('initech', 'initech')")
	made := make(chan error, 1)
	go func() { made <- o.registry.EnsureTenant(t.Context(), "initech") }()
	pgtest.AwaitLock(t, o.pool)
	if err := errors.Join(tx.Commit(t.Context()), <-made); err != nil {
		t.Error(err)
	}
}
