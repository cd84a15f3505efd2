package events

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/payments"
	"payonce/internal/query"
)

func (p *post) operators() *Registry {
	return &Registry{DB: p.d.DB, Books: p.d.Books, Addresses: p.d.Addresses, NewID: uuid.NewV7}
}

// listAll reads all pages of the list of endpoints, one row at a time.
func (p *post) listAll(tenant string) (urls []string) {
	p.t.Helper()
	values := url.Values{"limit": {"1"}}
	if tenant != "" {
		values.Set("tenant", tenant)
	}
	for {
		q := &query.Query{Values: values}
		read := p.operators().ListAll(q)
		if bad := q.Bad(); bad != nil {
			p.t.Fatal(bad)
		}
		page, err := read(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		for _, row := range page.Rows {
			urls = append(urls, row.Tenant+" "+row.URL)
		}
		if page.Next == "" {
			return urls
		}
		values.Set("cursor", page.Next)
	}
}

func TestOperatorSeesEndpointsOfAllTenants(t *testing.T) {
	t.Parallel()
	p := setup(t)
	p.endpoint("globex", "https://globex.example/1")
	p.endpoint("acme", "https://acme.example/1")
	p.endpoint("acme", "https://acme.example/2")
	p.exec("UPDATE webhook_endpoints SET deleted_at = payonce_now() WHERE id = $1",
		p.endpoint("acme", "https://acme.example/deleted"))
	want := []string{"acme https://acme.example/1", "acme https://acme.example/2", "globex https://globex.example/1"}
	if got := p.listAll(""); !slices.Equal(got, want) {
		t.Errorf("the list is %v, want %v", got, want)
	}
	if got := p.listAll("globex"); !slices.Equal(got, want[2:]) {
		t.Errorf("the list of globex is %v", got)
	}
	for _, cursor := range []string{"", "x", "acme.we_x", "ac\x00me.we_01k9z5a0b1c2d3e4f5g6h7j8km", "\xff.we_"} {
		q := &query.Query{Values: url.Values{"cursor": {cursor}}}
		p.operators().ListAll(q)
		if q.Bad() == nil {
			t.Errorf("the cursor %q is taken", cursor)
		}
	}
}

func TestOperatorSeesEachDeliveryOfAnEndpointOnceAndNewestFirst(t *testing.T) {
	t.Parallel()
	p := setup(t)
	id := EndpointID(p.endpoint("acme", "http://127.0.0.1:1/"))
	p.endpoint("acme", "http://127.0.0.1:1/another")
	p.events(3)
	all, older, err := p.operators().Deliveries(t.Context(), "acme", id, nil, 100)
	if err != nil || len(all) != 3 || older != nil {
		t.Fatalf("%d deliveries, %v, %v", len(all), older, err)
	}
	if !slices.IsSortedFunc(all, func(a, b Delivery) int { return int(b.Event.Version - a.Event.Version) }) {
		t.Errorf("not the newest first: %+v", all)
	}
	paged, pages := p.deliveries(id, 2)
	if diff := cmp.Diff(all, paged); pages != 2 || diff != "" {
		t.Errorf("in %d pages (-want +got):\n%s", pages, diff)
	}
	if none, _, err := p.operators().Deliveries(t.Context(), "globex", id, nil, 100); err != nil || len(none) != 0 {
		t.Errorf("as if it were another tenant's: %v, %v", none, err)
	}
	p.exec("DELETE FROM events WHERE version <= $1", all[1].Event.Version)
	none, older, err := p.operators().Deliveries(t.Context(), "acme", id, &all[1].Event, 100)
	if err != nil || len(none) != 0 || older != nil {
		t.Errorf("behind an event that was pruned: %v, %v, %v", none, older, err)
	}
}

// deliveries reads all pages of the list of deliveries to an endpoint of acme's.
func (p *post) deliveries(to EndpointID, limit int) (all []Delivery, pages int) {
	p.t.Helper()
	for after := (*payments.EventName)(nil); pages == 0 || after != nil && pages < 10; pages++ {
		page, older, err := p.operators().Deliveries(p.t.Context(), "acme", to, after, limit)
		if err != nil {
			p.t.Fatal(err)
		}
		all, after = append(all, page...), older
	}
	return all, pages
}

// long is a feed of acme's that is longer than an operator's page looks at. The endpoint gets its oldest event alone.
func (p *post) long() (rare EndpointID, oldest payments.EventName) {
	p.t.Helper()
	rare = EndpointID(p.endpoint("acme", "http://127.0.0.1:1/", "dispute.won"))
	oldest = p.event("acme", "dispute.won")
	p.exec(`INSERT INTO events (tenant_id, payment_id, version, type, status, psp_charge_id, refunded_minor, changed_at)
		SELECT tenant_id, payment_id, version + n, 'payment.succeeded', status, psp_charge_id, 0, changed_at
		FROM events, generate_series(1, $1) AS n`, scanned)
	for p.count("SELECT count(*) FROM events WHERE position IS NULL") > 0 {
		p.dispatch()
	}
	return rare, oldest
}

func TestPageOfAnEndpointWithFewDeliveriesEndsEarlyAndLeadsOn(t *testing.T) {
	t.Parallel()
	p := setup(t)
	rare, oldest := p.long()
	if all, pages := p.deliveries(rare, 20); pages != 2 || len(all) != 1 || all[0].Event != oldest {
		t.Errorf("%v in %d pages", all, pages)
	}
}

func TestDeliveryIsShownAsItWasSentWithoutItsSignature(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, answering(500))
	id := p.endpoint("acme", server.URL)
	name := p.event("acme", "payment.succeeded")
	p.dispatch()
	p.deliver(id)
	shown, err := p.operators().Sent(t.Context(), "acme", EndpointID(id), name)
	if err != nil {
		t.Fatal(err)
	}
	got := server.requests()[0]
	if string(shown.Body) != string(got.body) {
		t.Errorf("shown: %s, sent: %s", shown.Body, got.body)
	}
	if shown.State() != "waiting" || shown.Status != 500 || shown.Attempts != 1 {
		t.Errorf("its state is %q after an answer %d to try %d", shown.State(), shown.Status, shown.Attempts)
	}
	headers := strings.Join(shown.Headers, "\n")
	for _, want := range []string{"Content-Type: application/json", "Webhook-Id: " + IDOf(name),
		"Webhook-Signature: " + hiddenSignature, "User-Agent: " + userAgent} {
		if !strings.Contains(headers, want) {
			t.Errorf("no %q in\n%s", want, headers)
		}
	}
	if signature := got.header.Get("Webhook-Signature"); signature == "" || strings.Contains(headers, signature[3:]) {
		t.Errorf("the signature %q is shown:\n%s", signature, headers)
	}
	for _, none := range []payments.EventName{{}, {PaymentID: name.PaymentID, Version: 1}} {
		if _, err := p.operators().Sent(t.Context(), "acme", EndpointID(id), none); !errors.Is(err, ErrNoEvent) {
			t.Errorf("%v: %v", none, err)
		}
	}
}

func TestOperatorSendsAgainWhatHasHappenedSinceATime(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, nil)
	id := p.endpoint("acme", server.URL, "payment.succeeded")
	var names []payments.EventName
	for range 3 {
		names = append(names, p.event("acme", "payment.succeeded"))
	}
	p.event("acme", "payment.declined") // a type that the endpoint does not get
	p.event("globex", "payment.succeeded")
	p.dispatch()
	p.deliver(id)
	p.want("0 of 3", `SELECT count(due_at) || ' of ' || count(*) FROM event_deliveries`)
	n, older, err := p.operators().RedeliverSince(t.Context(), "acme", EndpointID(id),
		time.UnixMicro(names[1].Version), nil, "ann")
	if err != nil || n != 2 || older != nil {
		t.Fatalf("%d, %v, %v", n, older, err)
	}
	p.want("2 of 3", `SELECT count(due_at) || ' of ' || count(*) FROM event_deliveries`)
	_, _, err = p.operators().RedeliverSince(t.Context(), "globex", EndpointID(id), time.Time{}, nil, "ann")
	if !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("for another tenant: %v", err)
	}
}

// What an operator does is on record, and what a merchant does, what fails or what changes nothing is not.
func TestWhatOperatorsDoToAnEndpointIsOnRecord(t *testing.T) {
	t.Parallel()
	p := setup(t)
	id := EndpointID(p.endpoint("acme", "http://127.0.0.1:1/"))
	other := EndpointID(p.endpoint("acme", "http://127.0.0.1:1/"))
	event := p.event("acme", "payment.succeeded")
	p.dispatch()
	r, since := p.operators(), time.UnixMicro(event.Version).Truncate(time.Second)
	for _, operator := range []string{"", "ann"} {
		p.exec("UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'test'")
		_, changed, err := r.Enable(t.Context(), "acme", id, operator)
		_, again, errAgain := r.Enable(t.Context(), "acme", id, operator)
		_, one := r.Redeliver(t.Context(), "acme", event, &id, operator)
		_, _, all := r.RedeliverSince(t.Context(), "acme", id, since, nil, operator)
		_, _, older := r.RedeliverSince(t.Context(), "acme", id, since, &event, operator)
		if err := errors.Join(err, errAgain, one, all, older); err != nil || !changed || again {
			t.Fatalf("enabled: %t, and again: %t, %v", changed, again, err)
		}
	}
	_, _, errEnable := r.Enable(t.Context(), "globex", id, "bob")
	_, errOne := r.Redeliver(t.Context(), "globex", event, &id, "bob")
	if errEnable == nil || errOne == nil {
		t.Fatalf("of another tenant: %v, %v", errEnable, errOne)
	}
	done, err := r.Actions(t.Context(), "acme", id)
	stamp := since.UTC().Format(time.RFC3339)
	want := []string{"ann resend 1 since " + stamp, "ann resend " + IDOf(event), "ann enable "}
	var got []string
	for _, a := range done {
		got = append(got, a.Actor+" "+a.Did+" "+a.What)
		if a.At.IsZero() {
			t.Errorf("%+v has no time", a)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, want %q: %v", got, want, err)
	}
	for tenant, of := range map[string]EndpointID{"acme": other, "globex": id} {
		if done, err := r.Actions(t.Context(), tenant, of); err != nil || done != nil {
			t.Errorf("of another endpoint or tenant: %+v: %v", done, err)
		}
	}
}

// Nothing is sent again that is not on record.
func TestActionThatCannotBeRecordedIsNotDone(t *testing.T) {
	t.Parallel()
	p := setup(t)
	id := EndpointID(p.endpoint("acme", "http://127.0.0.1:1/"))
	event := p.event("acme", "payment.succeeded")
	p.dispatch()
	p.exec("UPDATE event_deliveries SET due_at = NULL, delivered_at = payonce_now()")
	p.exec("UPDATE webhook_endpoints SET disabled_at = payonce_now(), disabled_reason = 'test'")
	tooLong, r := strings.Repeat("x", 151), p.operators()
	_, _, err := r.Enable(t.Context(), "acme", id, tooLong)
	_, one := r.Redeliver(t.Context(), "acme", event, &id, tooLong)
	_, _, all := r.RedeliverSince(t.Context(), "acme", id, time.UnixMicro(event.Version), nil, tooLong)
	if err == nil || one == nil || all == nil {
		t.Errorf("%v, %v, %v", err, one, all)
	}
	p.want("0 1", `SELECT concat_ws(' ', (SELECT count(due_at) FROM event_deliveries),
		(SELECT count(disabled_at) FROM webhook_endpoints))`)
}

// Each event is sent again once, although they are too many for one step, and more of them happen meanwhile.
func TestSendingAgainGoesOnBehindWhatWasSent(t *testing.T) {
	t.Parallel()
	p := setup(t)
	every := EndpointID(p.endpoint("acme", "http://127.0.0.1:1/"))
	_, oldest := p.long()
	since := time.UnixMicro(oldest.Version)
	p.exec("UPDATE event_deliveries SET due_at = NULL, delivered_at = payonce_now()")
	step := func(since time.Time, after *payments.EventName) (int, *payments.EventName) {
		n, older, err := p.operators().RedeliverSince(t.Context(), "acme", every, since, after, "ann")
		if err != nil {
			t.Fatal(err)
		}
		return n, older
	}
	n, older := step(since, nil)
	if n != scanned || older == nil || older.Version != oldest.Version+1 {
		t.Fatalf("the first step: %d, until %v", n, older)
	}
	p.exec("UPDATE event_deliveries SET due_at = NULL, delivered_at = payonce_now()")
	p.event("acme", "payment.succeeded")
	p.dispatch()
	if n, older = step(since, older); n != 1 || older != nil {
		t.Errorf("the second step: %d, until %v", n, older)
	}
	if n, older = step(since.Add(latest/2), nil); n != 0 || older == nil {
		t.Errorf("an older event may have got its place later: %d, until %v", n, older)
	}
	if n, older = step(since.Add(2*latest), nil); n != 0 || older != nil {
		t.Errorf("all others are much older: %d, until %v", n, older)
	}
}

func TestPaymentSaysWhereItsEventsWereDelivered(t *testing.T) {
	t.Parallel()
	p := setup(t)
	server := receive(t, nil)
	id := p.endpoint("acme", server.URL)
	name := p.event("acme", "payment.succeeded")
	before, err := p.operators().ToldOf(t.Context(), "acme", name.PaymentID)
	if err != nil || len(before) != 1 || before[0].To != nil || before[0].State != "" {
		t.Fatalf("before the dispatch: %+v, %v", before, err)
	}
	p.dispatch()
	p.deliver(id)
	told, err := p.operators().ToldOf(t.Context(), "acme", name.PaymentID)
	if err != nil || len(told) != 1 || told[0].State != "delivered" || told[0].URL != server.URL ||
		*told[0].To != EndpointID(id) || told[0].EventID() != IDOf(name) {
		t.Fatalf("%+v, %v", told, err)
	}
	for _, step := range []struct{ change, want string }{
		{"UPDATE webhook_endpoints SET deleted_at = payonce_now()", "delivered"},
		{"UPDATE event_deliveries SET due_at = payonce_now(), delivered_at = NULL", "not sent"},
		{"UPDATE webhook_endpoints SET deleted_at = NULL", "waiting"},
	} {
		p.exec(step.change)
		told, err := p.operators().ToldOf(t.Context(), "acme", name.PaymentID)
		if err != nil || told[0].State != step.want {
			t.Errorf("after %s: %+v, %v", step.change, told, err)
		}
	}
	if others, err := p.operators().ToldOf(t.Context(), "globex", name.PaymentID); err != nil || others != nil {
		t.Errorf("of another tenant: %+v, %v", others, err)
	}
}
