package invariants

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		case r.status != http.StatusOK:
			differs = fmt.Sprintf("the answer is %d", r.status)
		default:
			differs = m.differs(r.body)
		}
		if differs != "" {
			found = append(found, Violation{"I3", m.scope() + " " + m.Key, fmt.Sprintf("%s is shown otherwise than it is stored: %s", m, differs)})
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

// lists reads the newest of each tenant's payments: all of them are its own (I5), and as they are stored (I3); and if it is the whole list, none
// is missing.
func lists(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if len(e.APIs) == 0 {
		return nil, nil
	}
	var found []Violation
	for _, tenant := range slices.Sorted(maps.Keys(e.APIKeys)) {
		listed, whole, err := e.list(ctx, tenant)
		if err != nil {
			return nil, err
		}
		for _, raw := range listed {
			if v := w.books.listedTo(tenant, raw); v != nil {
				found = append(found, *v)
			}
		}
		if there := w.books.paymentsOf(tenant); whole && len(listed) != there {
			found = append(found, Violation{"I3", tenant, fmt.Sprintf("its list has %d payments, and it has %d", len(listed), there)})
		}
	}
	return found, nil
}

// list reads pages, until there is no further one.
func (e Evidence) list(ctx context.Context, tenant string) (listed []jsontext.Value, whole bool, err error) {
	first := fmt.Sprintf("%s/payments?limit=%d", base(e.APIs[0]), pageSize)
	address := first
	for range maxPages {
		r, err := e.get(ctx, address, tenant)
		if err != nil {
			return nil, false, fmt.Errorf("list the payments of %s: %w", tenant, err)
		}
		var page struct {
			Data       []jsontext.Value `json:"data"`
			NextCursor string           `json:"nextCursor"`
		}
		if err := json.Unmarshal(r.body, &page); err != nil || r.status != http.StatusOK {
			return nil, false, fmt.Errorf("list the payments of %s: answered %d (%w)", tenant, r.status, err)
		}
		listed = append(listed, page.Data...)
		if page.NextCursor == "" {
			return listed, true, nil
		}
		address = first + "&cursor=" + page.NextCursor
	}
	return listed, false, nil
}

func (b *books) listedTo(tenant string, raw jsontext.Value) *Violation {
	var s sheet
	_ = json.Unmarshal(raw, &s) // without an id, it is none of ours
	var m *movementRow
	if id, err := subjectOf(s.PaymentID); err == nil {
		m = b.subjects[id]
	}
	switch {
	case m == nil:
		return &Violation{"I3", tenant, fmt.Sprintf("its list has %q, which is not there", s.PaymentID)}
	case m.Tenant != tenant:
		return &Violation{"I5", m.scope() + " " + m.Key, fmt.Sprintf("%s of %s is in the list of %s", m, m.Tenant, tenant)}
	}
	if differs := m.differs(raw); differs != "" {
		return &Violation{"I3", m.scope() + " " + m.Key, fmt.Sprintf("%s is listed otherwise than it is stored: %s", m, differs)}
	}
	return nil
}

func (b *books) paymentsOf(tenant string) int {
	count := 0
	for _, m := range b.subjects {
		if m.PaymentID == nil && m.Tenant == tenant {
			count++
		}
	}
	return count
}
