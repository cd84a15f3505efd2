package tenants

import (
	"context"
	"errors"
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
	db, err := postgres.Open(context.Background(), proxy.URL(), pgtest.Limits())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	o.registry = NewRegistry(db, uuid.NewV7)
	return o, proxy
}

func (o *fixture) count(sql string, args ...any) (n int) {
	o.t.Helper()
	if err := o.pool.QueryRow(o.t.Context(), sql, args...).Scan(&n); err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	return n
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
