package invariants

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/payment"
)

// Ledger is what the PSP has really charged and refunded, refusals included, and what was disputed, oldest first, each
// as it is now.
type Ledger struct {
	Charges  []Entry `json:"charges"`
	Refunds  []Entry `json:"refunds"`
	Disputes []Entry `json:"disputes"`

	foreign []Entry // what other programs have charged
}

// Entry is a charge, a refund or a dispute of the PSP's. AmountCents counts the currency's minor unit.
type Entry struct {
	ID             string `json:"id"`
	Object         string `json:"object"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId"` // of a refund or a dispute
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	PaymentMethod  string `json:"paymentMethod"` // of a charge
	Reason         string `json:"reason"`        // of a refund or a dispute
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode"`
	Fault          string `json:"fault"` // that was acted out
	CreatedAt      string `json:"createdAt"`
}

// Executed reports whether the money has moved.
func (e Entry) Executed() bool { return e.Status == "succeeded" }

// cameBack reports whether a refund has failed after it had succeeded: its money is the charge's again.
func (e Entry) cameBack() bool { return e.Status == "failed" }

// name says whose key the entry lies under.
func (e Entry) name() string { return e.Account + " " + e.IdempotencyKey }

// ReadLedger asks the mock PSP for the ledgers of all accounts.
func ReadLedger(ctx context.Context, client *http.Client, psp string) (*Ledger, error) {
	var l Ledger
	if err := getJSON(ctx, client, strings.TrimSuffix(psp, "/")+"/_ledger", &l); err != nil {
		return nil, fmt.Errorf("read the PSP's ledger: %w", err)
	}
	return &l, nil
}

// calls is how often the PSP was called. Requests are the latest of them, as far as it remembers.
type calls struct {
	Posts    int  `json:"posts"`
	Exact    bool `json:"exact"`
	Requests []struct {
		Method string `json:"method"`
		Path   string `json:"path"`
	} `json:"requests"`
}

// refunds counts the posts that were about one. known is false when the PSP does not remember all posts.
func (c calls) refunds() (count int, known bool) {
	posts := 0
	for _, r := range c.Requests {
		if r.Method != http.MethodPost {
			continue
		}
		posts++
		if strings.HasSuffix(r.Path, "/refunds") {
			count++
		}
	}
	return count, posts == c.Posts
}

// readCalls counts the calls for one key of one account, or all of them for empty ones.
func readCalls(ctx context.Context, client *http.Client, psp, account, key string) (calls, error) {
	var c calls
	query := url.Values{"account": {account}, "idempotencyKey": {key}}
	if err := getJSON(ctx, client, strings.TrimSuffix(psp, "/")+"/_requests?"+query.Encode(), &c); err != nil {
		return c, fmt.Errorf("read the PSP's calls: %w", err)
	}
	return c, nil
}

func getJSON(ctx context.Context, client *http.Client, address string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", address, response.StatusCode)
	}
	return json.Unmarshal(raw, out)
}

// chargedOnce is I1.
func chargedOnce(w world) []Violation {
	charges, refunds := w.books.asAsked(w.ledger.Charges), w.books.asAsked(w.ledger.Refunds)
	ours := slices.DeleteFunc(slices.Clone(refunds), w.isOutside)
	found := slices.Concat(executedOnce("charge", charges), executedOnce("refund", ours))
	charged := map[string]Entry{}
	for _, c := range w.ledger.Charges {
		charged[c.Account+" "+c.ID] = c
	}
	returned := map[string]int64{}
	for _, r := range refunds {
		if r.Executed() {
			returned[r.Account+" "+r.ChargeID] += r.AmountCents
		}
	}
	for _, id := range slices.Sorted(maps.Keys(returned)) {
		if c := charged[id]; !c.Executed() || returned[id] > c.AmountCents {
			found = append(found, Violation{"I1", id,
				fmt.Sprintf("%d were refunded of a charge of %d (%s)", returned[id], c.AmountCents, c.Status)})
		}
	}
	return found
}

// executedOnce counts by what we have sent: by the key, and by the payment or refund that it was for. A key that is
// fresh for each attempt gives itself away by the second. What others do at Stripe's dashboard has neither.
func executedOnce(object string, entries []Entry) []Violation {
	byKey, byReference := map[string][]string{}, map[string][]string{}
	for _, e := range entries {
		if !e.Executed() && !e.cameBack() {
			continue
		}
		if e.IdempotencyKey != "" {
			byKey[e.name()] = append(byKey[e.name()], e.ID)
		}
		if e.Reference != "" {
			byReference[e.Account+" "+e.Reference] = append(byReference[e.Account+" "+e.Reference], e.ID)
		}
	}
	var found []Violation
	for _, by := range []struct {
		what string
		ids  map[string][]string
	}{{"key", byKey}, {"reference", byReference}} {
		for _, name := range slices.Sorted(maps.Keys(by.ids)) {
			if ids := by.ids[name]; len(ids) > 1 {
				found = append(found, Violation{"I1", name,
					fmt.Sprintf("%d successful %ss for one %s: %s", len(ids), object, by.what,
						strings.Join(ids, ", "))})
			}
		}
	}
	return found
}

// totals is the part of I4 between our own rows: what a payment says of its refunds is what they are. A share that is
// never given back is a refund that is refused for good.
func totals(w world) []Violation {
	type sum struct{ held, refunded int64 }
	of := map[uuid.UUID]sum{}
	var found []Violation
	for _, m := range w.books.subjects {
		if m.PaymentID == nil {
			continue
		}
		p := w.books.subjects[*m.PaymentID]
		if p == nil || p.Tenant != m.Tenant || p.Currency != m.Currency {
			found = append(found, Violation{"I4", m.keyName().String(),
				fmt.Sprintf("%s is no refund in the tenant and the currency of its payment", m)})
			continue
		}
		s := of[p.ID]
		switch m.Status {
		case "succeeded":
			s.held, s.refunded = s.held+m.Amount, s.refunded+m.Amount
		case "processing":
			s.held += m.Amount
		}
		of[p.ID] = s
	}
	for _, r := range w.books.outside {
		if s := of[r.Payment]; r.Status == string(payment.Succeeded) && !w.books.isOwn(r) {
			s.refunded += w.books.takes(r)
			of[r.Payment] = s
		}
	}
	for _, p := range w.books.subjects {
		if s := of[p.ID]; p.PaymentID == nil && (s.held != p.Held || s.refunded != p.Refunded) {
			found = append(found, Violation{"I4", p.keyName().String(),
				fmt.Sprintf("%s says that its refunds hold %d and have moved %d; they hold %d and have moved %d",
					p, p.Held, p.Refunded, s.held, s.refunded)})
		}
	}
	return found
}
