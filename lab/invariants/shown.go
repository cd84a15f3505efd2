package invariants

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/payment"
)

const (
	// maxShown bounds how many payments and refunds are asked for by those whose they are.
	maxShown = 200
	// maxPages bounds how far each tenant's list is read, pageSize to a page.
	maxPages = 3
	pageSize = 100
)

// shown is the part of I3 about what is there: its owner sees it as it is stored.
func shown(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if len(e.APIs) == 0 {
		return nil, nil
	}
	var found []Violation
	asked := 0
	for _, m := range w.books.subjects {
		if asked == maxShown {
			break
		}
		if e.APIKeys[m.Tenant] == "" {
			continue
		}
		r, err := e.get(ctx, base(e.APIs[asked%len(e.APIs)])+m.path(), m.Tenant)
		asked++
		differs := ""
		switch {
		case err != nil:
			return nil, fmt.Errorf("ask for %s: %w", m, err)
		case r.status != http.StatusOK || r.header.Get("Content-Type") != "application/json":
			differs = fmt.Sprintf("the answer is %d of %s", r.status, r.header.Get("Content-Type"))
		default:
			differs = w.books.now(m).differs(readDocument(r.body))
		}
		if differs != "" {
			found = append(found, Violation{"I3", m.keyName().String(),
				fmt.Sprintf("%s is shown otherwise than it is stored: %s", m, differs)})
		}
	}
	return found, nil
}

// get asks in a tenant's name.
func (e Evidence) get(ctx context.Context, address, tenant string) (reply, error) {
	return e.insist(ctx, func() (*http.Request, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+e.APIKeys[tenant])
		return request, nil
	})
}

// lists reads the newest of each tenant's payments, all of them and by each filter: they are its own (I5), as they are
// stored, newest first, and none is missing or there twice (I3).
func lists(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if len(e.APIs) == 0 {
		return nil, nil
	}
	var found []Violation
	for _, tenant := range slices.Sorted(maps.Keys(e.APIKeys)) {
		for _, f := range w.books.filters(tenant) {
			l, err := e.list(ctx, tenant, f)
			if err != nil {
				return nil, err
			}
			if v := w.books.listedTo(tenant, f, l); v != nil {
				found = append(found, *v)
			}
		}
	}
	return found, nil
}

// filter of a list. An empty member is not asked for.
type filter struct{ customer, reference, status string }

func (f filter) query() string {
	query := url.Values{}
	for name, value := range map[string]string{"customerId": f.customer, "reference": f.reference, "status": f.status} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode()
}

// filters are none, and one of each kind that picks something, and all.
func (b *books) filters(tenant string) []filter {
	all := []filter{{}}
	if of := b.paymentsOf(tenant, filter{}); len(of) > 0 {
		newest := of[0]
		all = append(all, filter{customer: newest.Customer}, filter{reference: newest.Reference},
			filter{status: newest.Status}, filter{newest.Customer, newest.Reference, newest.Status})
	}
	return all
}

// listing is what was read of a list.
type listing struct {
	payments []jsontext.Value
	whole    bool
	wrong    string // with a page by itself
}

// page is one of a list.
type page struct {
	Data       []jsontext.Value `json:"data"`
	HasMore    bool             `json:"hasMore"`
	NextCursor string           `json:"nextCursor"`
}

func (p *page) read(body []byte) bool { return json.Unmarshal(body, p) == nil }

// list reads pages, until there is no further one.
func (e Evidence) list(ctx context.Context, tenant string, f filter) (l listing, err error) {
	first := fmt.Sprintf("%s/payments?limit=%d&%s", base(e.APIs[0]), pageSize, f.query())
	address := first
	for range maxPages {
		r, err := e.get(ctx, address, tenant)
		if err != nil {
			return l, fmt.Errorf("list the payments of %s: %w", tenant, err)
		}
		var page page
		readable := page.read(r.body)
		l.payments = append(l.payments, page.Data...)
		switch {
		case !readable || r.status != http.StatusOK:
			l.wrong = fmt.Sprintf("its list is answered %d %s", r.status, r.body)
			return l, nil
		case page.HasMore != (page.NextCursor != ""):
			l.wrong = fmt.Sprintf("hasMore is %t in its list, and nextCursor %q", page.HasMore, page.NextCursor)
			return l, nil
		case page.NextCursor == "":
			l.whole = true
			return l, nil
		}
		address = first + "&cursor=" + page.NextCursor
	}
	return l, nil
}

// listedTo holds a list against what there is, one by one.
func (b *books) listedTo(tenant string, f filter, l listing) *Violation {
	there, listed := b.paymentsOf(tenant, f), l.payments
	if l.wrong != "" {
		return &Violation{"I3", tenant, l.wrong}
	}
	if l.whole && len(listed) != len(there) {
		return b.listedFirst(tenant, listed, fmt.Sprintf("its list by %+v has %d payments, and it has %d", f,
			len(listed), len(there)))
	}
	for i, raw := range listed[:min(len(listed), len(there))] {
		if differs := b.now(there[i]).differs(readDocument(raw)); differs != "" {
			return b.listedFirst(tenant, listed,
				fmt.Sprintf("in its list by %+v, %s is listed otherwise than it is stored: %s", f, there[i], differs))
		}
	}
	return nil
}

// listedFirst says what is worst about a list that is wrong: that it shows somebody else's payment.
func (b *books) listedFirst(tenant string, listed []jsontext.Value, otherwise string) *Violation {
	for _, raw := range listed {
		id, err := subjectOf(readDocument(raw).text("paymentId"))
		if m := b.subjects[id]; err == nil && m != nil && m.Tenant != tenant {
			return &Violation{"I5", m.keyName().String(),
				fmt.Sprintf("%s of %s is in the list of %s", m, m.Tenant, tenant)}
		}
	}
	return &Violation{"I3", tenant, otherwise}
}

// paymentsOf are a tenant's payments, newest first: their ids are in the order of time.
func (b *books) paymentsOf(tenant string, f filter) []*movementRow {
	var of []*movementRow
	for _, m := range b.subjects {
		if m.PaymentID == nil && m.Tenant == tenant && (f.customer == "" || m.Customer == f.customer) &&
			(f.reference == "" || m.Reference == f.reference) && (f.status == "" || m.Status == f.status) {
			of = append(of, m)
		}
	}
	slices.SortFunc(of, func(a, b *movementRow) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	return of
}

// refundLists is the part of I10 about the refunds of a payment that others have changed, as the API lists them: each
// is there once, as it is, and says who has asked for it.
func refundLists(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	changed := map[*movementRow]bool{}
	for _, r := range w.books.outside {
		if p := w.books.subjects[r.Payment]; p != nil && r.Object == refundObject && e.APIKeys[p.Tenant] != "" {
			changed[p] = true
		}
	}
	var found []Violation
	asked := 0
	for p := range changed {
		if asked++; len(e.APIs) == 0 || asked > maxShown {
			break
		}
		wrong, err := e.refundsDiffer(ctx, base(e.APIs[asked%len(e.APIs)]), w, p)
		if err != nil {
			return nil, fmt.Errorf("list the refunds of %s: %w", p, err)
		}
		if wrong != "" {
			found = append(found, Violation{"I10", p.keyName().String(), wrong})
		}
	}
	return found, nil
}

// refundsDiffer holds the list of a payment's refunds against what is stored, up to one page.
func (e Evidence) refundsDiffer(ctx context.Context, api string, w world, p *movementRow) (string, error) {
	address := fmt.Sprintf("%s%s/refunds?limit=%d", api, p.path(), pageSize)
	var page page
	r, err := e.get(ctx, address, p.Tenant)
	if err != nil {
		return "", err
	}
	if r.status != http.StatusOK || !page.read(r.body) {
		return fmt.Sprintf("the list of its refunds is answered %d %s", r.status, r.body), nil
	}
	there := w.books.refundsOf(p)
	if len(page.Data) != min(len(there), pageSize) {
		return fmt.Sprintf("the list of its refunds has %d, and it has %d", len(page.Data), len(there)), nil
	}
	for i, raw := range page.Data {
		if differs := there[i].differs(readDocument(raw)); differs != "" {
			return "in the list of its refunds: " + differs, nil
		}
	}
	return "", nil
}

// refundsOf are the refunds of a payment, ours and those of others, the newest first: ids are in the order of time.
func (b *books) refundsOf(p *movementRow) (shown []document) {
	type refund struct {
		id    uuid.UUID
		shown document
	}
	var all []refund
	for _, m := range b.subjects {
		if m.PaymentID != nil && *m.PaymentID == p.ID {
			all = append(all, refund{m.ID, b.now(m)})
		}
	}
	for _, r := range b.outside {
		hidden := r.Status == string(payment.Reversed) && b.ownOf(r) != nil
		if r.Object == refundObject && r.Payment == p.ID && !b.isOwn(r) && !hidden {
			all = append(all, refund{r.ID, r.refund()})
		}
	}
	slices.SortFunc(all, func(a, b refund) int { return bytes.Compare(b.id[:], a.id[:]) })
	for _, r := range all {
		shown = append(shown, r.shown)
	}
	return shown
}

// refund is a refund that others have made, as the API shows it.
func (r outsideRow) refund() document {
	d := document{}
	d.set("refundId", payment.RefundID(r.ID).String())
	d.set("paymentId", payment.ID(r.Payment).String())
	d.set("status", shownStatus(r.Status))
	d.set("amountCents", r.Amount)
	d.set("currency", r.Currency)
	d.set("amount", decimal(r.Currency, r.Amount))
	d.set("origin", "provider")
	d.set("pspRefundId", r.PSPID)
	d.set("declineCode", r.Why)
	d.set("createdAt", stampOf(&r.Created))
	d.set("updatedAt", stampOf(&r.Updated))
	return d
}
