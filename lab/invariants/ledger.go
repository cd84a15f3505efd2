package invariants

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
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
