package tenants

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// behindProxy is a fixture whose registry is behind a proxy, which loses what it is told to lose.
func behindProxy(t *testing.T) (*fixture, *pgproxy.Proxy) {
	t.Helper()
	o := setup(t)
	o.tenant()
	proxy := pgproxy.Start(t, o.pool.Config().ConnString())
	db := pgtest.Open(t, proxy.URL(), pgtest.Limits())
	o.registry = NewRegistry(db, uuid.NewV7)
	return o, proxy
}

func (f *fixture) count(sql string, args ...any) int {
	f.t.Helper()
	return pgtest.Value[int](f.t, f.pool, sql, args...)
}

func TestKeyWhoseAcknowledgementIsLostIsGivenOutWhenItIsThere(t *testing.T) {
	t.Parallel()
	for name, failures := range map[string]int{"read at once": 0, "two readings fail": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, proxy := behindProxy(t)
			lost := proxy.On("commit", pgproxy.DropAcknowledgement)
			readings := proxy.OnNext(failures, "ListKeys", pgproxy.CutBefore)
			k := o.addKey("secret")
			lost.Await(t)
			for range failures {
				readings.Await(t)
			}
			if n := o.count("SELECT count(*) FROM api_keys WHERE id = $1 AND created_at = $2", k.ID,
				k.Created); n != 1 || !o.admits("secret") {
				t.Fatalf("%d rows of %+v", n, k)
			}
			if n := proxy.Sent("Durable"); n != failures+1 {
				t.Errorf("%d readings that are acknowledged", n)
			}
		})
	}
}

func TestKeyInDoubtIsNamedAndCanBeEnded(t *testing.T) {
	t.Parallel()
	o, proxy := behindProxy(t)
	proxy.On("commit", pgproxy.DropAcknowledgement)
	proxy.OnNext(3, "ListKeys", pgproxy.DropAcknowledgement) // what was read is not known to stay
	_, err := o.registry.AddKey(t.Context(), "acme", "secret", "", []Permission{PaymentsRead})
	var doubt *KeyInDoubtError
	if !errors.As(err, &doubt) || !postgres.Unavailable(err) || postgres.RolledBack(err) {
		t.Fatalf("the error is %v", err)
	}
	if n := o.count("SELECT count(*) FROM api_keys WHERE id = $1", doubt.ID); n != 1 {
		t.Fatalf("%d keys of the id that is named", n)
	}
	if _, err := o.registry.ExpireKey(t.Context(), doubt.ID, 0); err != nil || o.admits("secret") {
		t.Fatalf("ended: %v", err)
	}
}

func TestKeyWhoseCommitNeverArrivedIsInDoubt(t *testing.T) {
	t.Parallel()
	o, proxy := behindProxy(t)
	o.addKey("another") // That another key is stored says nothing of this one.
	proxy.On("commit", pgproxy.CutBefore)
	_, err := o.registry.AddKey(t.Context(), "acme", "secret", "", []Permission{PaymentsRead})
	var doubt *KeyInDoubtError
	if !errors.As(err, &doubt) {
		t.Fatalf("the error is %v", err)
	}
	if _, err := o.registry.ExpireKey(t.Context(), doubt.ID, 0); !errors.Is(err, ErrNoAPIKey) {
		t.Fatalf("ended: %v", err)
	}
	if n := proxy.Sent("ListKeys"); n != 3 {
		t.Errorf("%d readings: a no is not final", n)
	}
}

func TestNothingIsSaidToBeUnwrittenThatMayBe(t *testing.T) {
	t.Parallel()
	o, proxy := behindProxy(t)
	k := o.addKey("secret")
	for name, write := range map[string]func() error{
		"make tenant":   func() error { return o.registry.EnsureTenant(t.Context(), "globex") },
		"create tenant": func() error { return o.registry.Create(t.Context(), atStripe()) },
		"set rate":      func() error { return o.registry.SetRate(t.Context(), "acme", 7, 9) },
		"expire key": func() error {
			_, err := o.registry.ExpireKey(t.Context(), k.ID, time.Hour)
			return err
		},
	} {
		lost := proxy.On("commit", pgproxy.DropAcknowledgement)
		err := write()
		lost.Await(t)
		var ambiguous *postgres.AmbiguousError
		if !errors.As(err, &ambiguous) || postgres.RolledBack(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if err := write(); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
	}
}

// An administrator who is told of a key or a limit that is not stored gives a customer a secret that nobody accepts.
func TestStatementThatFailsIsNoSuccessAndNoEmptyList(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.tenant()
	k := o.addKey("secret")
	pool, outage := pgtest.WithOutage(t, o.pool)
	r := NewRegistry(postgres.Wrap(pool, 0), uuid.NewV7)
	for statement, c := range map[string]struct {
		says string
		ask  func() error
	}{
		"CreateTenant": {"make tenant", func() error { return r.Create(t.Context(), atStripe()) }},
		"SetRate":      {"set rate limit", func() error { return r.SetRate(t.Context(), "acme", 7, 9) }},
		"ExpireKey": {"expire API key", func() error {
			_, err := r.ExpireKey(t.Context(), k.ID, time.Hour)
			return err
		}},
		"InsertKey": {"store API key", func() error {
			_, err := r.AddKey(t.Context(), "acme", "another", "", []Permission{PaymentsRead})
			return err
		}},
		"ListKeys":    {"list API keys", func() error { _, err := r.Keys(t.Context()); return err }},
		"ListTenants": {"list tenants", func() error { _, err := r.Tenants(t.Context()); return err }},
	} {
		outage.On("name: "+statement, 1)
		if err := c.ask(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for sql, want := range map[string]int{
		"SELECT count(*) FROM tenants": 1, "SELECT count(*) FROM tenants WHERE requests_per_second = 50": 1,
		"SELECT count(*) FROM api_keys": 1, "SELECT count(*) FROM api_keys WHERE expires_at IS NULL": 1,
	} {
		if n := o.count(sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
}
