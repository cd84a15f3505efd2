package invariants

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
	"payonce/lab/merchant"
)

// tale is a small world of one merchant that was told all of it: a payment that was refunded and disputed, one that was
// declined, and another tenant's.
type tale struct {
	t        *testing.T
	w        world
	m        merchant.Heard
	feed     []merchant.Notice
	paid     *movementRow
	declined *movementRow
	refund   *movementRow
	others   *movementRow
}

func newTale(t *testing.T) *tale {
	t.Helper()
	at := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	row := func(tenant, status string, amount int64, of *uuid.UUID) *movementRow {
		return &movementRow{ID: uuid.New(), PaymentID: of, Tenant: tenant, Key: "key-" + status, Amount: amount,
			Currency: "USD", Status: status, PSPID: "id_" + status, Customer: "cus-1", Created: at, Updated: at}
	}
	h := &tale{t: t, paid: row("acme", "succeeded", 12000, nil), declined: row("acme", "declined", 700, nil),
		others: row("globex", "succeeded", 300, nil)}
	h.paid.Refunded = 5000
	h.refund = row("acme", "succeeded", 5000, &h.paid.ID)
	h.w = world{books: &books{subjects: map[uuid.UUID]*movementRow{}, feeds: map[string][]string{},
		keys: map[keyName]*keyRow{},
		outside: []outsideRow{{Tenant: "acme", Payment: h.paid.ID, Object: disputeObject, PSPID: "dp_1", Amount: 2000,
			Status: "lost", Created: at, Updated: at, Currency: "USD"}}}}
	for _, row := range []*movementRow{h.paid, h.declined, h.refund, h.others} {
		h.w.books.subjects[row.ID] = row
		h.w.books.keys[row.keyName()] = &keyRow{Subject: row.ID}
	}
	h.moved(h.declined, "in_progress", "unknown")
	return h
}

// moved writes a line in the timeline of the key of a payment or a refund.
func (h *tale) moved(of *movementRow, from, to string) {
	n := of.keyName()
	h.w.books.events = append(h.w.books.events, eventRow{Tenant: n.tenant, Operation: n.operation, Key: n.key,
		Generation: of.Generation, From: from, To: to})
	h.w.books.noteMoves()
}

// event is one about a payment as it is now, or as somebody wants it to be.
func (h *tale) event(version int, kind string, of *movementRow, about document, change ...string) merchant.Notice {
	h.t.Helper()
	text := func(d document) string {
		raw := "{"
		for name, value := range d {
			raw += fmt.Sprintf(`,%q:%s`, name, value)
		}
		return strings.Replace(raw, ",", "", 1) + "}"
	}
	data := `{"payment":` + text(h.w.books.now(of))
	if object, _, _ := strings.Cut(kind, "."); about != nil {
		data += `,"` + object + `":` + text(about)
	}
	_, id, _ := strings.Cut(of.String(), "_")
	body := string(canonical(fmt.Appendf(nil, `{"id":"evt_%s_%d","type":%q,"version":%d,"data":%s}}`, id, version, kind,
		version, data)))
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(body, change[i]) {
			h.t.Fatalf("%s is not in %s", change[i], body)
		}
		body = strings.ReplaceAll(body, change[i], change[i+1])
	}
	n, err := merchant.ReadNotice([]byte(body))
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// tell has everybody hear these events, in this order.
func (h *tale) tell(events ...merchant.Notice) {
	h.feed = events
	h.w.books.feeds["acme"] = merchant.IDs(events)
	h.m = merchant.Heard{Tenant: "acme", Followed: slices.Clone(events),
		Endpoints: map[string][]merchant.Notice{"the endpoint": slices.Clone(events)}}
}

// earlier tells first that a payment was in another status than it is.
func (h *tale) earlier(version int, kind string, of *movementRow, status string) {
	h.t.Helper()
	h.tell(append([]merchant.Notice{h.event(version, kind, of, nil, fmt.Sprintf(`"status":%q`, of.Status),
		fmt.Sprintf(`"status":%q`, status))}, h.feed...)...)
}

// refundEarlier tells first that the refund was in another status than it is.
func (h *tale) refundEarlier(version int, kind, status string) {
	h.t.Helper()
	before := *h.refund
	before.Status = status
	h.tell(append([]merchant.Notice{h.event(version, kind, h.paid, h.w.books.now(&before))}, h.feed...)...)
}

// dispute is a dispute as an event shows it that tells of this status.
func (h *tale) dispute(n int, status string) document {
	r := h.w.books.outside[n]
	r.Status = status
	return r.dispute()
}

// byOthers is a refund that others have made, and that is kept in one status and told in another.
func (h *tale) byOthers(version int, kind, told, kept string) {
	h.t.Helper()
	r := outsideRow{Tenant: "acme", Payment: h.paid.ID, Object: refundObject, ID: uuid.New(), PSPID: "re_others",
		Amount: 12000, Status: told, Created: h.paid.Created, Updated: h.paid.Updated, Currency: "USD"}
	e := h.event(version, kind, h.paid, r.refund())
	r.Status = kept
	h.w.books.outside = append(h.w.books.outside, r)
	h.tell(append([]merchant.Notice{e}, h.feed...)...)
}

// tellAll tells what has been.
func (h *tale) tellAll() {
	h.tell(h.event(1, "payment.succeeded", h.paid, nil), h.event(1, "payment.declined", h.declined, nil),
		h.event(2, "refund.succeeded", h.paid, h.w.books.now(h.refund)),
		h.event(3, "dispute.lost", h.paid, h.dispute(0, "lost")))
}

func TestMerchantThatHasHeardAllHasNothingToComplainOf(t *testing.T) {
	t.Parallel()
	h := newTale(t)
	// The bank has decided before we knew of the payment: the event alone tells of that.
	second := h.w.books.outside[0]
	second.PSPID, second.Amount, second.Status = "dp_2", 100, "won"
	h.w.books.outside = append(h.w.books.outside, second)
	hidden := h.event(-3, "dispute.won", h.paid, h.dispute(1, "won"), `"status":"succeeded"`, `"status":"processing"`)
	h.moved(h.paid, "in_progress", "failed_retryable")
	h.moved(h.refund, "in_progress", "unknown")
	h.moved(h.refund, "unknown", "failed_retryable")
	h.tellAll()
	h.earlier(-2, "payment.failed", h.paid, "failed")
	h.refundEarlier(-4, "refund.unknown", "processing")
	h.refundEarlier(-5, "refund.failed", "failed")
	h.tell(append([]merchant.Notice{
		hidden,
		h.event(-1, "payment.unknown", h.declined, nil, `"status":"declined"`, `"status":"processing"`),
		// The bank was faster than we.
		h.event(-1, "dispute.needs_response", h.paid, h.dispute(0, "needs_response"), `"status":"succeeded"`,
			`"status":"processing"`, `"amountDisputedCents":2000,`, ``),
	}, h.feed...)...)
	// At least once, and in any order.
	got := slices.Clone(h.feed)
	slices.Reverse(got)
	h.m.Endpoints["the endpoint"] = append(got, h.feed...)
	for _, v := range h.w.heard(h.m, h.feed) {
		t.Error(v)
	}
}

func TestBrokenTaleIsFound(t *testing.T) {
	t.Parallel()
	const endpoint = "the endpoint"
	for name, row := range map[string]struct {
		breach func(h *tale)
		detail string
	}{
		"an outcome that no endpoint was told": {func(h *tale) {
			h.m.Endpoints[endpoint] = h.m.Endpoints[endpoint][1:]
		}, "the endpoint was never told payment.succeeded"},
		"an outcome that an endpoint did not take": {func(h *tale) { h.m.Endpoints[endpoint][1].Taken = false },
			"the endpoint was never told payment.declined"},
		"an outcome that was written nowhere": {func(h *tale) { h.tell(h.feed[0], h.feed[2], h.feed[3]) },
			"the feed was never told payment.declined"},
		"a refund that nobody was told of": {func(h *tale) { h.tell(h.feed[0], h.feed[1], h.feed[3]) },
			"the feed was never told refund.succeeded"},
		"a dispute that nobody was told of": {func(h *tale) { h.tell(h.feed[:3]...) },
			"the feed was never told dispute.lost"},
		"an event that one endpoint alone has": {func(h *tale) {
			h.m.Endpoints[endpoint] = append(h.m.Endpoints[endpoint], h.event(4, "dispute.lost", h.paid,
				h.dispute(0, "lost")))
		}, "is not in the feed"},
		"an event that nobody has signed": {func(h *tale) { h.m.Forged = []string{"a forgery"} }, "a forgery"},
		"a feed in another order": {func(h *tale) { h.feed[0], h.feed[1] = h.feed[1], h.feed[0] },
			"not in the order of its places"},
		"an event that is in the feed twice": {func(h *tale) { h.feed = append(h.feed, h.feed[3]) },
			"5 events, and there are 4"},
		"an event that a reader has skipped": {func(h *tale) { h.m.Followed = h.m.Followed[1:] },
			"who has followed the feed has not read what it has"},
		"an event with other bytes": {func(h *tale) {
			again := h.m.Endpoints[endpoint][0]
			again.Body = slices.Concat(again.Body, []byte(" "))
			h.m.Endpoints[endpoint] = append(h.m.Endpoints[endpoint], again)
		}, "it came again with other bytes"},
		"an event that says something else elsewhere": {func(h *tale) {
			h.m.Endpoints[endpoint][3] = h.event(3, "dispute.lost", h.paid, h.dispute(0, "lost"),
				`"cus-1"`, `"cus-2"`)
		}, "elsewhere, it is"},
		"another amount": {func(h *tale) {
			h.tell(h.event(1, "payment.declined", h.declined, nil, `"amountCents":700`, `"amountCents":701`))
		}, "amountCents is 701"},
		"another tenant's payment": {func(h *tale) { h.tell(h.event(1, "payment.succeeded", h.others, nil)) },
			"is a payment of globex"},
		"a payment of nobody's": {func(h *tale) {
			h.tell(h.event(1, "payment.succeeded", h.paid, nil, h.paid.String(), payment.ID(uuid.New()).String()))
		}, "there is no such payment"},
		"a success that never was": {func(h *tale) {
			h.tell(h.event(1, "payment.succeeded", h.declined, nil, `"status":"declined"`, `"status":"succeeded"`))
		}, "the payment was never succeeded"},
		"a decline that never was": {func(h *tale) {
			h.tell(h.event(1, "payment.declined", h.paid, nil, `"status":"succeeded"`, `"status":"declined"`))
		}, "the payment was never declined"},
		"a failure that never was": {func(h *tale) { h.earlier(-1, "payment.failed", h.paid, "failed") },
			"the payment was never failed"},
		"a failure of what the key stood for before": {func(h *tale) {
			h.moved(h.paid, "in_progress", "failed_retryable")
			h.paid.Generation = 2
			h.earlier(-1, "payment.failed", h.paid, "failed")
		}, "the payment was never failed"},
		"a failure that an event about a dispute shows": {func(h *tale) {
			h.tell(append([]merchant.Notice{h.event(-1, "dispute.lost", h.paid, h.dispute(0, "lost"),
				`"status":"succeeded"`, `"status":"failed"`)}, h.feed...)...)
		}, "the payment was never failed"},
		"a doubt that never was": {func(h *tale) { h.earlier(-1, "payment.unknown", h.paid, "processing") },
			"the payment was never unknown"},
		"a refund that never failed": {func(h *tale) { h.refundEarlier(-1, "refund.failed", "failed") },
			"the refund was never failed"},
		"a refund that was never unknown": {func(h *tale) { h.refundEarlier(-1, "refund.unknown", "processing") },
			"the refund was never unknown"},
		"a refund of others that never failed": {func(h *tale) {
			h.byOthers(-1, "refund.failed", "reversed", "succeeded")
		}, "the refund was never failed"},
		"a refund of others that was never unknown": {func(h *tale) {
			h.byOthers(-1, "refund.unknown", "processing", "succeeded")
		}, "the refund was never unknown"},
		"a second dispute that nobody was told of": {func(h *tale) {
			second := h.w.books.outside[0]
			second.PSPID = "dp_2"
			h.w.books.outside = append(h.w.books.outside, second)
		}, " dp_2"},
		"an end of a second dispute that nobody was told of": {func(h *tale) {
			second := h.w.books.outside[0]
			second.PSPID, second.Status = "dp_2", "under_review"
			h.w.books.outside = append(h.w.books.outside, second)
			h.tellAll()
			h.w.books.outside[1].Status = "lost"
		}, " dp_2"},
		"more returned than refunds have moved": {func(h *tale) {
			h.tell(h.event(1, "payment.succeeded", h.paid, nil, `"amountRefundedCents":5000`,
				`"amountRefundedCents":5001`))
		}, "at most 5000 were returned"},
		"what a declined refund would have returned": {func(h *tale) {
			h.refund.Status, h.paid.Refunded = "declined", 0
		}, "at most 0 were returned"},
		"what a failed refund would have returned": {func(h *tale) {
			h.refund.Status, h.paid.Refunded = "failed", 0
		}, "at most 0 were returned"},
		"more returned than was charged": {func(h *tale) {
			h.refund.Amount, h.refund.Status = 13000, "reversed"
			h.tell(h.event(1, "payment.succeeded", h.paid, nil, `"amountRefundedCents":5000`,
				`"amountRefundedCents":12001`))
		}, "at most 12000 were returned"},
		"less than nothing returned": {func(h *tale) {
			h.tell(h.event(1, "payment.declined", h.declined, nil, `"amountRefundedCents":0`,
				`"amountRefundedCents":-1`))
		}, "at most 0 were returned"},
		"an amount returned that is no number": {func(h *tale) {
			h.tell(h.event(1, "payment.declined", h.declined, nil, `"amountRefundedCents":0`,
				`"amountRefundedCents":null`))
		}, "at most 0 were returned"},
		"another currency": {func(h *tale) {
			h.tell(h.event(1, "payment.declined", h.declined, nil, `"USD"`, `"EUR"`))
		}, `currency is "EUR"`},
		"another customer": {func(h *tale) {
			h.tell(h.event(1, "payment.declined", h.declined, nil, `"cus-1"`, `"cus-2"`))
		}, `customerId is "cus-2"`},
		"another reference": {func(h *tale) {
			h.declined.Reference = "order-1"
		}, "reference is lost"},
		"a type that its data does not have": {func(h *tale) {
			h.tell(h.event(1, "payment.failed", h.declined, nil))
		}, "it is about something that is declined"},
		"a refund that never succeeded": {func(h *tale) { h.refund.Status = "failed" },
			"the refund was never succeeded"},
		"a refund of another amount": {func(h *tale) { h.refund.Amount = 4000 }, "the refund: amount"},
		"a refund of nobody's": {func(h *tale) {
			h.tell(h.event(1, "refund.succeeded", h.paid, h.w.books.now(h.refund), h.refund.String(),
				payment.RefundID(uuid.New()).String()))
		}, "there is no such refund"},
		"a refund that is left out": {func(h *tale) { h.tell(h.event(1, "refund.succeeded", h.paid, nil)) },
			"differ in what it is about"},
		"a dispute that is left out": {func(h *tale) { h.tell(h.event(1, "dispute.lost", h.paid, nil)) },
			"differ in what it is about"},
		"a dispute that its type does not have": {func(h *tale) {
			h.tell(h.event(1, "dispute.won", h.paid, h.dispute(0, "lost")))
		}, "it is about something that is lost"},
		"a dispute that its payment shows otherwise": {func(h *tale) {
			h.tell(h.event(1, "dispute.won", h.paid, h.dispute(0, "won")))
		}, "the payment does not show the dispute so"},
		"an end of a dispute that is open": {func(h *tale) {
			h.tell(h.event(1, "dispute.lost", h.paid, h.dispute(0, "lost")))
			h.w.books.outside[0].Status = "under_review"
		}, "the dispute was never lost, it is under_review"},
		"a dispute of another amount": {func(h *tale) {
			h.tell(h.event(1, "dispute.lost", h.paid, h.dispute(0, "lost"), `"amountCents":2000`, `"amountCents":2001`))
		}, "the dispute: amountCents is 2001"},
		"a dispute before the outcome that is left out": {func(h *tale) {
			h.earlier(-1, "dispute.inquiry", h.paid, "processing")
		}, "differ in what it is about"},
		"a dispute before the outcome, of nobody's": {func(h *tale) {
			h.tell(h.event(1, "dispute.won", h.declined, h.dispute(0, "won"), `"status":"declined"`,
				`"status":"processing"`))
		}, "there is no such dispute of the payment"},
		"a dispute that was told before the outcome under the other's name": {func(h *tale) {
			second := h.w.books.outside[0]
			second.PSPID = "dp_2"
			h.w.books.outside = append(h.w.books.outside, second)
			h.tell(append([]merchant.Notice{h.event(-1, "dispute.lost", h.paid, h.dispute(0, "lost"),
				`"status":"succeeded"`, `"status":"processing"`)}, h.feed...)...)
		}, " dp_2"},
		"a last event that is too early": {func(h *tale) {
			h.tell(h.event(1, "payment.succeeded", h.paid, nil, `"amountRefundedCents":5000`,
				`"amountRefundedCents":0`))
		}, "does not say what it is: amountRefundedCents"},
		"a last event with another time": {func(h *tale) { h.paid.Updated = h.paid.Updated.Add(time.Hour) },
			"does not say what it is: updatedAt"},
	} {
		h := newTale(t)
		h.tellAll()
		row.breach(h)
		found := h.w.heard(h.m, h.feed)
		if !slices.ContainsFunc(found, func(v Violation) bool {
			return v.Invariant == "I11" && strings.Contains(v.Detail, row.detail)
		}) {
			t.Errorf("%s: not found as %q; found: %v", name, row.detail, found)
		}
	}
}

// The money of a refund came back, and its success was told before. A key is deleted, and with it the time at which it
// was finished.
func TestWhatWasSoWhenItWasToldIsNotFalse(t *testing.T) {
	t.Parallel()
	h := newTale(t)
	h.tellAll()
	// Others have returned all of it meanwhile, and we have known of that first.
	h.byOthers(-1, "refund.succeeded", "succeeded", "succeeded")
	h.feed[0] = h.event(-1, "refund.succeeded", h.paid, h.w.books.outside[1].refund(), `"amountRefundedCents":5000`,
		`"amountRefundedCents":17000`)
	h.byOthers(-2, "refund.failed", "reversed", "reversed")
	before := h.feed
	h.refund.Status, h.paid.Refunded = "reversed", 0
	h.tell(append(slices.Clone(before), h.event(4, "refund.failed", h.paid, h.w.books.now(h.refund)))...)
	h.paid.Updated = h.paid.Updated.Add(time.Hour)
	delete(h.w.books.keys, h.paid.keyName())
	for _, v := range h.w.heard(h.m, h.feed) {
		t.Error(v)
	}
}
