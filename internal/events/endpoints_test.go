package events

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/test/pgtest"
	"payonce/test/wait"
)

// merchant is what the tenants acme and globex ask about their events.
type merchant struct {
	*post

	registry *Registry
}

const address = "https://shop.example/payonce"

// newMerchant is a merchant with randomness for 50 secrets: 32 times the number of the secret.
func newMerchant(t *testing.T) *merchant {
	t.Helper()
	m := &merchant{post: setup(t)}
	random := &bytes.Buffer{}
	for i := range 50 {
		random.Write(bytes.Repeat([]byte{byte(i + 1)}, secretBytes))
	}
	m.registry = &Registry{DB: m.d.DB, Books: m.d.Books, NewID: uuid.NewV7, Random: random}
	return m
}

// make makes an endpoint of acme's.
func (m *merchant) make(of ...string) (EndpointRow, string) {
	m.t.Helper()
	e, secret, err := m.registry.Create(m.t.Context(), "acme", NewEndpoint{URL: address, Types: of})
	if err != nil {
		m.t.Fatal(err)
	}
	return e, secret
}

// tells reports whether events are written for acme.
func (m *merchant) tells() bool {
	m.t.Helper()
	return pgtest.Value[bool](m.t, m.pool, "SELECT tells FROM tenants WHERE id = 'acme'")
}

// secrets are the keys that sign now, the newest first.
func (m *merchant) secrets(id EndpointID) (all []string) {
	m.t.Helper()
	for _, column := range []string{"secret", "CASE WHEN previous_until > payonce_now() THEN previous_secret END"} {
		raw := pgtest.Value[[]byte](m.t, m.pool, "SELECT "+column+" FROM webhook_endpoints WHERE id = $1",
			uuid.UUID(id))
		if raw != nil {
			all = append(all, textOf(raw))
		}
	}
	return all
}

func (m *merchant) wantSecrets(id EndpointID, want ...string) {
	m.t.Helper()
	if diff := cmp.Diff(want, m.secrets(id)); diff != "" {
		m.t.Fatalf("what signs (-want +got):\n%s", diff)
	}
}

func TestEndpointLivesFromItsCreationToItsDeletion(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	if m.tells() {
		t.Fatal("events are written for a tenant that wants none")
	}
	made, secret := m.make("dispute.won", "payment.succeeded")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || !bytes.Equal(raw, bytes.Repeat([]byte{1}, secretBytes)) {
		t.Errorf("the secret is %s, which is not what the randomness has given", secret)
	}
	want := EndpointRow{Tenant: "acme", ID: made.ID, URL: address,
		Types: []string{"dispute.won", "payment.succeeded"}, Created: made.Created}
	for name, read := range map[string]func() (EndpointRow, error){
		"by its id": func() (EndpointRow, error) { return m.registry.Endpoint(t.Context(), "acme", made.ID) },
		"in the list": func() (EndpointRow, error) {
			all, err := m.registry.Endpoints(t.Context(), "acme")
			return all[0], err
		},
	} {
		got, err := read()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	if !m.tells() {
		t.Error("no events are written for a tenant with an endpoint")
	}
	if err := m.registry.Delete(t.Context(), "acme", made.ID); err != nil {
		t.Fatal(err)
	}
	m.wantNone("acme", made.ID)
	if m.tells() {
		t.Error("events are written for a tenant without endpoints")
	}
}

// wantNone checks that for a tenant, an endpoint is not there, whatever is asked of it.
func (m *merchant) wantNone(tenant string, id EndpointID) {
	m.t.Helper()
	ctx, r := m.t.Context(), m.registry
	for name, ask := range map[string]func() error{
		"Endpoint": func() error { _, err := r.Endpoint(ctx, tenant, id); return err },
		"Delete":   func() error { return r.Delete(ctx, tenant, id) },
		"Rotate":   func() error { _, _, err := r.Rotate(ctx, tenant, id, time.Hour); return err },
		"Enable":   func() error { _, _, err := r.Enable(ctx, tenant, id, ""); return err },
	} {
		if err := ask(); !errors.Is(err, ErrNoEndpoint) {
			m.t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := r.Endpoints(ctx, tenant); err != nil || len(all) != 0 {
		m.t.Errorf("the list has %+v, %v", all, err)
	}
}

func TestEndpointOfAnotherTenantIsNotThere(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	made, secret := m.make()
	m.exec("UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'test'")
	m.wantNone("globex", made.ID)
	m.wantSecrets(made.ID, secret)
	if e, err := m.registry.Endpoint(t.Context(), "acme", made.ID); err != nil || e.DisabledReason != "test" {
		t.Errorf("it is %+v, %v", e, err)
	}
}

// What a tenant wants is the feed or an endpoint.
func TestEventsAreWrittenWhileTheFeedIsOnOrAnEndpointIsThere(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	ctx, r := t.Context(), m.registry
	var made []EndpointRow
	add := func() error {
		e, _ := m.make()
		made = append(made, e)
		return nil
	}
	remove := func() error {
		e := made[0]
		made = made[1:]
		return r.Delete(ctx, "acme", e.ID)
	}
	changes := 0
	r.Changed = func() { changes++ }
	feed := func(on bool) func() error { return func() error { return r.SetFeed(ctx, "acme", on) } }
	for i, step := range []struct {
		do    func() error
		tells bool
	}{
		{feed(false), false}, {feed(true), true}, {add, true}, {feed(false), true}, {add, true}, {remove, true},
		{feed(true), true}, {remove, true}, {feed(false), false},
	} {
		if err := step.do(); err != nil || m.tells() != step.tells || changes != i+1 {
			t.Fatalf("after step %d: tells is %t, after %d changes, %v", i+1, m.tells(), changes, err)
		}
	}
}

func TestTwentyEndpointsAreTheMost(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	const refused = 5
	m.registry.Random = rand.Reader // safe for concurrent use
	errs := make([]error, MaxEndpoints+refused)
	wait.AtOnce(len(errs), func(i int) {
		_, _, errs[i] = m.registry.Create(t.Context(), "acme", NewEndpoint{URL: address})
	})
	for _, err := range errs {
		if err != nil && !errors.Is(err, ErrTooManyEndpoints) {
			t.Fatal(err)
		}
	}
	if all, err := m.registry.Endpoints(t.Context(), "acme"); err != nil || len(all) != MaxEndpoints {
		t.Errorf("there are %d, %v", len(all), err)
	}
	if n := pgtest.Value[int](t, m.pool, "SELECT count(*) FROM webhook_endpoints"); n != MaxEndpoints {
		t.Errorf("%d were made", n)
	}
	if _, _, err := m.registry.Create(t.Context(), "globex", NewEndpoint{URL: address}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// Two changes never count the endpoints at the same time.
func TestLastDeletionDoesNotOverlookACreation(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	first, _ := m.make()
	creation := pgtest.Begin(t, m.pool)
	pgtest.Exec(t, creation, "UPDATE tenants SET tells = true WHERE id = 'acme'")
	pgtest.Exec(t, creation, `INSERT INTO webhook_endpoints (tenant_id, id, url, secret)
		SELECT tenant_id, $1, url, secret FROM webhook_endpoints`, uuid.UUID{1})
	deleted := make(chan error, 1)
	go func() { deleted <- m.registry.Delete(t.Context(), "acme", first.ID) }()
	pgtest.AwaitLock(t, m.pool)
	if err := creation.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(t, "the deletion", deleted); err != nil || !m.tells() {
		t.Errorf("there is an endpoint, and tells is %t, %v", m.tells(), err)
	}
}

func TestOldSecretSignsDuringTheOverlap(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	made, first := m.make()
	rotate := func(overlap time.Duration) (EndpointRow, string) {
		t.Helper()
		e, secret, err := m.registry.Rotate(t.Context(), "acme", made.ID, overlap)
		if err != nil {
			t.Fatal(err)
		}
		return e, secret
	}
	e, second := rotate(time.Hour)
	m.wantSecrets(made.ID, second, first)
	if e.PreviousUntil == nil || e.PreviousUntil.Before(e.Created.Add(time.Hour)) {
		t.Errorf("it says that the old secret signs until %v", e.PreviousUntil)
	}
	// The answer is lost. Nobody has the second secret. The first one ends when it was to end.
	again, third := rotate(2 * time.Hour)
	m.wantSecrets(made.ID, third, first)
	if again.PreviousUntil == nil || !again.PreviousUntil.Equal(*e.PreviousUntil) {
		t.Errorf("the first secret signs until %v, and then until %v", e.PreviousUntil, again.PreviousUntil)
	}

	m.exec("UPDATE webhook_endpoints SET previous_until = payonce_now()")
	if e, err := m.registry.Endpoint(t.Context(), "acme", made.ID); err != nil || e.PreviousUntil != nil {
		t.Errorf("after the overlap, it is %+v, %v", e, err)
	}
	_, fourth := rotate(time.Hour)
	m.wantSecrets(made.ID, fourth, third)
	_, fifth := rotate(0)
	m.wantSecrets(made.ID, fifth)
}

func TestEnabledAgainWhatHasWaitedIsDue(t *testing.T) {
	t.Parallel()
	m := newMerchant(t)
	made, _ := m.make()
	m.exec(`UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'no delivery has succeeded',
		failing_since = payonce_now(), failures = 9, rest_until = payonce_now() + interval '1 hour'`)
	for i := range MaxWaiting + 1 {
		m.exec(`INSERT INTO event_deliveries (tenant_id, endpoint_id, payment_id, version) VALUES ('acme', $1, $2, 1)`,
			uuid.UUID(made.ID), uuid.UUID{15: byte(i), 14: byte(i >> 8)})
	}
	m.exec("UPDATE event_deliveries SET due_at = NULL, delivered_at = payonce_now() WHERE payment_id < $1",
		uuid.UUID{15: 2})
	e, err := m.registry.Endpoint(t.Context(), "acme", made.ID)
	if err != nil || e.DisabledReason == "" || e.DisabledAt == nil || e.FailingSince == nil ||
		e.Waiting != MaxWaiting-1 {
		t.Fatalf("it is %+v, %v", e, err)
	}
	e, _, err = m.registry.Enable(t.Context(), "acme", made.ID, "")
	if err != nil || e.DisabledReason != "" || e.DisabledAt != nil || e.FailingSince != nil {
		t.Errorf("it is %+v, %v", e, err)
	}
	const due = "SELECT count(*) FROM webhook_endpoints WHERE rest_until <= payonce_now() AND failures = 0"
	if pgtest.Value[int](t, m.pool, due) != 1 {
		t.Error("it still rests")
	}
	// A job may be delivering: only its rest keeps another one away.
	m.exec("UPDATE webhook_endpoints SET rest_until = payonce_now() + interval '1 hour'")
	_, _, err = m.registry.Enable(t.Context(), "acme", made.ID, "")
	if err != nil || pgtest.Value[int](t, m.pool, due) != 0 {
		t.Errorf("an endpoint that is enabled has lost its rest, %v", err)
	}
}

func TestEndpointIsRefusedForWhatItCannotHave(t *testing.T) {
	t.Parallel()
	r := &Registry{}
	of := func(types ...string) NewEndpoint { return NewEndpoint{URL: address, Types: types} }
	about := func(description string) NewEndpoint { return NewEndpoint{URL: address, Description: description} }
	for name, c := range map[string]struct {
		n    NewEndpoint
		want []string
	}{
		"nothing special":     {NewEndpoint{URL: address}, nil},
		"all types":           {of(Types()...), nil},
		"longest description": {about(strings.Repeat("한", 200)), nil},
		"no URL":              {NewEndpoint{}, []string{"/url"}},
		"plain HTTP":          {NewEndpoint{URL: "http://shop.example/"}, []string{"/url"}},
		"this machine":        {NewEndpoint{URL: "https://127.0.0.1/"}, []string{"/url"}},
		"card number":         {NewEndpoint{URL: address + "?c=4242424242424242"}, []string{"/url"}},
		"card number in text": {about("4242424242424242"), []string{"/description"}},
		"long description":    {about(strings.Repeat("x", 201)), []string{"/description"}},
		"control character":   {about("a\x7f"), []string{"/description"}},
		"unknown type":        {of("dispute.won", "x"), []string{"/eventTypes/1"}},
		"type given twice":    {of("dispute.won", "dispute.won"), []string{"/eventTypes/1"}},
		"many types":          {of(slices.Repeat([]string{"x"}, 16)...), []string{"/eventTypes"}},
		"everything": {NewEndpoint{URL: "x", Types: []string{"x"}, Description: "\n"},
			[]string{"/url", "/description", "/eventTypes/0"}},
	} {
		var places []string
		for _, bad := range r.Check(c.n) {
			places = append(places, *bad.Pointer)
		}
		if diff := cmp.Diff(c.want, places); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, bad := range r.Check(of("x")) {
		for _, known := range types {
			if !strings.Contains(bad.Detail, known) {
				t.Errorf("%q does not name %s", bad.Detail, known)
			}
		}
	}
}

func TestOnlyOneTextNamesAnEndpoint(t *testing.T) {
	t.Parallel()
	id := EndpointID(uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057"))
	good := id.String()
	if got, err := ParseEndpointID(good); good != "we_01h455vb4pex5vsknk084sn02q" || err != nil || got != id {
		t.Fatalf("%s is %s, %v", good, got, err)
	}
	for _, s := range []string{"", "we_", "pay_" + good[3:], good[3:], "we_" + good, strings.ToUpper(good), good + "0",
		good[:len(good)-1]} {
		if got, err := ParseEndpointID(s); !errors.Is(err, ErrNoEndpoint) {
			t.Errorf("%q is %s, %v", s, got, err)
		}
	}
}
