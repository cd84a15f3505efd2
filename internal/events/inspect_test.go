package events

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

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
	all, more, err := p.operators().Deliveries(t.Context(), "acme", id, nil, 100)
	if err != nil || len(all) != 3 || more {
		t.Fatalf("%d deliveries, %t, %v", len(all), more, err)
	}
	if !slices.IsSortedFunc(all, func(a, b Delivery) int { return int(b.Event.Version - a.Event.Version) }) {
		t.Errorf("not the newest first: %+v", all)
	}
	var paged []string
	var after *payments.EventName
	for more = true; more; after = &all[len(paged)-1].Event {
		var page []Delivery
		if page, more, err = p.operators().Deliveries(t.Context(), "acme", id, after, 2); err != nil {
			t.Fatal(err)
		}
		for _, d := range page {
			paged = append(paged, d.EventID())
		}
	}
	if want := []string{all[0].EventID(), all[1].EventID(), all[2].EventID()}; !slices.Equal(paged, want) {
		t.Errorf("page by page: %v, want %v", paged, want)
	}
	if none, _, err := p.operators().Deliveries(t.Context(), "globex", id, nil, 100); err != nil || len(none) != 0 {
		t.Errorf("as if it were another tenant's: %v, %v", none, err)
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
	n, last, err := p.operators().RedeliverSince(t.Context(), "acme", EndpointID(id),
		time.UnixMicro(names[1].Version))
	if err != nil || n != 2 || last != nil {
		t.Fatalf("%d, %v, %v", n, last, err)
	}
	p.want("2 of 3", `SELECT count(due_at) || ' of ' || count(*) FROM event_deliveries`)
	if _, _, err := p.operators().RedeliverSince(t.Context(), "globex", EndpointID(id), time.Time{}); !errors.Is(err,
		ErrNoEndpoint) {
		t.Errorf("for another tenant: %v", err)
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
	if others, err := p.operators().ToldOf(t.Context(), "globex", name.PaymentID); err != nil || others != nil {
		t.Errorf("of another tenant: %+v, %v", others, err)
	}
}
