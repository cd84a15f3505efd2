package tenants

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

func TestSecretSpeaksForItsTenant(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec("INSERT INTO tenants (id, psp, psp_account, requests_per_second, request_burst) VALUES ('acme', 'stripe', 'ACME-1', 7, 11)")
	if _, err := o.registry.AddKey(t.Context(), "acme", "reads-only", "", []Permission{PaymentsRead}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.registry.AddKey(t.Context(), "", "operates", "", []Permission{OpsRead, OpsResolve}); err != nil {
		t.Fatal(err)
	}
	p, err := o.directory.Authenticate(t.Context(), "reads-only")
	if err != nil {
		t.Fatal(err)
	}
	if p.Tenant != "acme" || p.PSP != Stripe || p.PSPAccount != "ACME-1" ||
		p.RequestsPerSecond != 7 || p.Burst != 11 {
		t.Errorf("principal is %+v", p)
	}
	if !p.May(PaymentsRead) || p.May(PaymentsWrite) || p.May(OpsRead) || p.May("") {
		t.Errorf("a reading key may %v", p.permissions)
	}
	p, err = o.directory.Authenticate(t.Context(), "operates")
	if err != nil {
		t.Fatal(err)
	}
	if p.Tenant != "" || p.PSP != "" || p.PSPAccount != "" ||
		!p.May(OpsRead) || !p.May(OpsResolve) || p.May(PaymentsRead) {
		t.Errorf("operator is %+v", p)
	}
}

// Two operators may have the same label, and a key may have none. The audit trail still names the key.
func TestActorIsNamedByLabelAndID(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("0197f2a0-0000-7000-8000-000000000001")
	for label, want := range map[string]string{
		"": "api key " + id.String(), "ann": "ann (api key " + id.String() + ")",
	} {
		if got := (Principal{KeyID: id, KeyLabel: label}).Actor(); got != want {
			t.Errorf("the actor is %q, want %q", got, want)
		}
	}
}

func TestUnknownSecretIsUnauthenticated(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("payonce_secret")
	digest := sha256.Sum256([]byte("payonce_secret"))
	for _, secret := range []string{
		"", "payonce_secre", "payonce_secret ", "payonce_secret\x00", "Payonce_secret", "acme", string(digest[:]),
		hex.EncodeToString(digest[:]),
	} {
		if o.admits(secret) {
			t.Errorf("%q is let in", secret)
		}
	}
	if !o.admits("payonce_secret") {
		t.Error("the secret itself is not")
	}
}

func TestNobodyIsAuthenticatedWithoutKeys(t *testing.T) {
	t.Parallel()
	o := setup(t)
	if o.admits("") || o.admits("anything") {
		t.Fatal("an empty table lets somebody in")
	}
}

// Expiry is the database's: the clock of this process, ten minutes off, neither prolongs a key nor ends it.
func TestKeyExpiresByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"fast": 10 * time.Minute, "slow": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := setup(t)
			o.tenant()
			o.later(skew)
			o.addKey("over")
			o.addKey("running")
			o.exec("UPDATE api_keys SET expires_at = clock_timestamp() - interval '1 millisecond' WHERE secret_sha256 = sha256('over')")
			o.exec("UPDATE api_keys SET expires_at = clock_timestamp() + interval '5 minutes' WHERE secret_sha256 = sha256('running')")
			if o.admits("over") {
				t.Error("a key that is over is let in")
			}
			if !o.admits("running") {
				t.Error("a key that is not over is refused")
			}
		})
	}
}

func TestRotationOverlaps(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	old := o.addKey("old")
	if !o.admits("old") {
		t.Fatal("the key does not work")
	}
	o.addKey("new")
	if _, err := o.registry.ExpireKey(t.Context(), old.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	o.later(missFor + 1)
	if !o.admits("new") || !o.admits("old") {
		t.Fatal("both keys must work during the overlap")
	}
	o.exec("UPDATE api_keys SET expires_at = expires_at - interval '1 hour 1 second' WHERE expires_at IS NOT NULL")
	o.later(freshFor + 1)
	if o.admits("old") || !o.admits("new") {
		t.Fatal("after the overlap, the new key alone must work")
	}
}

func TestRevokedKeyStopsWithinTheTimeOfAReading(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	k := o.addKey("secret")
	if !o.admits("secret") {
		t.Fatal("the key does not work")
	}
	if _, err := o.registry.ExpireKey(t.Context(), k.ID, 0); err != nil {
		t.Fatal(err)
	}
	o.later(freshFor)
	if !o.admits("secret") || o.readings.Load() != 1 {
		t.Fatalf("a fresh reading was not believed; %d readings", o.readings.Load())
	}
	o.later(1)
	if o.admits("secret") {
		t.Fatal("a revoked key is let in")
	}
}

// What this process has changed itself, its next request knows.
func TestForgottenReadingIsReadAgain(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	if p, err := o.directory.Authenticate(t.Context(), "secret"); err != nil || p.Tells {
		t.Fatalf("%+v: %v", p, err)
	}
	o.exec("UPDATE tenants SET tells = true")
	o.directory.Forget()
	if p, err := o.directory.Authenticate(t.Context(), "secret"); err != nil || !p.Tells {
		t.Fatalf("%+v: %v", p, err)
	}
}

func TestAuthenticationCostsNoRoundTrip(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for range 20 {
				if _, err := o.directory.Authenticate(t.Context(), "secret"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := o.readings.Load(); n != 1 {
		t.Fatalf("%d readings for a thousand requests", n)
	}
}

// Guessing must not become load on the database, nor may it keep a new key out for long.
func TestUnknownSecretsReadTheTableOnceASecond(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	o.admits("secret")
	o.addKey("new")
	for range 100 {
		if o.admits("new") || o.admits("guess") {
			t.Fatal("let in without a reading")
		}
	}
	o.later(missFor)
	o.admits("guess")
	if n := o.readings.Load(); n != 1 {
		t.Fatalf("%d readings within a second", n)
	}
	o.later(1)
	if !o.admits("new") {
		t.Fatal("a new key does not work after a second")
	}
	for range 100 {
		o.admits("guess")
	}
	if n := o.readings.Load(); n != 2 {
		t.Fatalf("%d readings, want 2", n)
	}
}

func TestStaleReadingServesWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	o.admits("secret")
	o.away.Store(true)

	o.later(staleFor)
	for range 100 {
		if !o.admits("secret") {
			t.Fatal("refused although the last reading is still good")
		}
	}
	if n := o.readings.Load(); n != 2 {
		t.Fatalf("a database that is away was asked %d times, want once", n-1)
	}
	o.later(1)
	for range 100 {
		_, err := o.directory.Authenticate(t.Context(), "secret")
		if !postgres.Unavailable(err) || errors.Is(err, ErrUnauthenticated) {
			t.Fatalf("after the last reading has gone bad: %v", err)
		}
	}
	o.later(missFor)
	if _, err := o.directory.Authenticate(t.Context(), "secret"); !errors.Is(err, errAway) || o.readings.Load() != 3 {
		t.Fatalf("%v after %d readings", err, o.readings.Load())
	}
	o.away.Store(false)
	o.later(missFor)
	if !o.admits("secret") {
		t.Fatal("refused although the database is back")
	}
}

// A key that was made after the last reading must not hear that it is none.
func TestUnknownSecretIsNotRefusedWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	o.admits("secret")
	o.addKey("new")
	o.away.Store(true)
	o.later(missFor + 1)
	for range 10 {
		_, err := o.directory.Authenticate(t.Context(), "new")
		if !postgres.Unavailable(err) || errors.Is(err, ErrUnauthenticated) {
			t.Fatalf("error is %v", err)
		}
		if !o.admits("secret") {
			t.Fatal("a secret that is known was refused")
		}
	}
	if n := o.readings.Load(); n != 2 {
		t.Fatalf("a database that is away was asked %d times", n-1)
	}
}

// Without any reading, nobody can be told from anybody: that is not the client's fault.
func TestDatabaseThatIsAwayFromTheStartRefusesNobodyForGood(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	o.away.Store(true)
	for range 10 {
		_, err := o.directory.Authenticate(t.Context(), "secret")
		if !postgres.Unavailable(err) || errors.Is(err, ErrUnauthenticated) {
			t.Fatalf("error is %v", err)
		}
	}
	if n := o.readings.Load(); n != 1 {
		t.Fatalf("a database that is away was asked %d times", n)
	}
	o.away.Store(false)
	o.later(missFor)
	if !o.admits("secret") {
		t.Fatal("refused although the database is back")
	}
}

// The reading is for everybody, so it does not end with the request that happened to need it.
func TestClientThatHangsUpDoesNotSpoilTheReading(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	o.addKey("secret")
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, err := o.directory.Authenticate(gone, "secret"); err != nil {
		t.Fatal(err)
	}
	if !o.admits("secret") || o.readings.Load() != 1 {
		t.Fatal("the reading was lost")
	}
}

func TestRefusalDoesNotRepeatTheSecret(t *testing.T) {
	t.Parallel()
	o := setup(t)
	if _, err := o.directory.Authenticate(t.Context(), "payonce_guess"); err == nil ||
		strings.Contains(err.Error(), "guess") {
		t.Fatalf("error is %v", err)
	}
}

// A database that neither answers nor fails holds up those who must have a new reading, and them not for ever.
func TestReadingThatHangsHoldsNobodyUpForLong(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	if _, err := o.registry.AddKey(t.Context(), "acme", "known", "", []Permission{PaymentsRead}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.directory.Authenticate(t.Context(), "known"); err != nil {
		t.Fatal(err)
	}
	tx := pgtest.Begin(t, o.pool)
	pgtest.Exec(t, tx, "LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
	o.later(freshFor + time.Second)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := o.directory.Authenticate(t.Context(), "known"); err != nil {
				t.Errorf("known, by a reading that is not too old: %v", err)
			}
			if _, err := o.directory.Authenticate(t.Context(), "unknown"); !postgres.Unavailable(err) {
				t.Errorf("unknown: %v, want unavailable", err)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the requests hang with the reading")
	}
}
