package stripe

import (
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
)

// back makes a request at one of the back doors of the PSP.
func (p *running) back(method, path, body string) result {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.native.URL+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return result{p.t, response.StatusCode, response.Header, string(answer), err}
}

// ledger returns what was really charged and refunded.
func (p *running) ledger() (charges, refunds []mockpsp.Movement) {
	p.t.Helper()
	var truth struct {
		Charges []mockpsp.Movement `json:"charges"`
		Refunds []mockpsp.Movement `json:"refunds"`
	}
	answer := p.back(http.MethodGet, "/_ledger", "")
	if err := json.Unmarshal([]byte(answer.body), &truth); err != nil {
		p.t.Fatalf("ledger %q: %v", answer.body, err)
	}
	return truth.Charges, truth.Refunds
}

// wantCharges checks how many charges the ledger has, declined ones included.
func (p *running) wantCharges(want int) {
	p.t.Helper()
	if charges, _ := p.ledger(); len(charges) != want {
		p.t.Fatalf("the ledger has %d charges, want %d: %+v", len(charges), want, charges)
	}
}

// faults sets rates.
func (p *running) faults(body string) {
	p.t.Helper()
	p.back(http.MethodPut, "/_faults", body).want(http.StatusOK)
}
