// Package merchant is the tenants that want to be told: their endpoints, which take events and fail to, and
// their readers of the feed. It keeps what they hear.
//
// Each such tenant has three endpoints: one that works, one that slips (package plan), and one
// that always fails, and is deleted when the storm is over. All of them are servers of the run's own, on loopback. Each
// request is verified as a merchant verifies it, with the product's own client.
//
// It refuses to know what is right: package invariants judges what was heard.
package merchant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/lab/chaos/plan"
	"payonce/lab/chaos/tally"
	"payonce/lab/program"
)

// Options of all merchants.
type Options struct {
	Plan  plan.Plan
	APIs  []string          // host:port
	Keys  map[string]string // API keys, by tenant
	Tally *tally.Tally
	Only  string // the one endpoint that each tenant has; "": each has all three
}

// Merchants are the tenants that want events.
type Merchants struct {
	Options

	http     *http.Client
	calm     atomic.Bool // the storm is over
	tenants  []string
	all      []*endpoint
	turn     atomic.Int64
	followed map[string]*reader
}

// The names of the endpoints.
const (
	Good     = "the good endpoint"
	Slipping = "the endpoint that slips"
	Failing  = "the endpoint that always fails"
)

const (
	httpLimit = 10 * time.Second
	pause     = 300 * time.Millisecond // before something is asked again
	readEvery = time.Second            // a feed; small tenants may ask for little
)

// Open makes the endpoints of these tenants. From here on, they are told.
func Open(ctx context.Context, o Options, tenants ...string) (_ *Merchants, err error) {
	m := &Merchants{Options: o, http: &http.Client{Timeout: httpLimit}, tenants: tenants,
		followed: map[string]*reader{}}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	for _, tenant := range tenants {
		m.followed[tenant] = &reader{}
		for _, name := range []string{Good, Slipping, Failing} {
			if o.Only != "" && o.Only != name {
				continue
			}
			e := m.listen(tenant, name)
			if err := m.register(ctx, e); err != nil {
				return nil, fmt.Errorf("make %s of %s: %w", name, tenant, err)
			}
		}
	}
	return m, nil
}

// register tells the API of an endpoint.
func (m *Merchants) register(ctx context.Context, e *endpoint) error {
	body := fmt.Sprintf(`{"url":%q,"description":%q}`, e.server.URL, e.name)
	answer, err := m.insist(ctx, http.MethodPost, "/webhook-endpoints", e.tenant, body, http.StatusCreated)
	if err != nil {
		return err
	}
	var made struct {
		ID     string `json:"endpointId"`
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	e.id = made.ID
	e.secret.Store(&made.Secret)
	return nil
}

// Calm has no endpoint fail without end: those that always do are deleted.
func (m *Merchants) Calm(ctx context.Context) error {
	m.calm.Store(true)
	for _, e := range m.all {
		if e.name != Failing {
			continue
		}
		// If an answer is lost, it is deleted already.
		if _, err := m.insist(ctx, http.MethodDelete, "/webhook-endpoints/"+e.id, e.tenant, "", http.StatusNoContent,
			http.StatusNotFound); err != nil {
			return fmt.Errorf("delete %s of %s: %w", e.name, e.tenant, err)
		}
	}
	return nil
}

// insist asks one API after the other, until it has one of these answers.
func (m *Merchants) insist(
	ctx context.Context, method, path, tenant, body string, want ...int,
) (answer []byte, err error) {
	for {
		status, answer, err := m.ask(ctx, method, path, tenant, body)
		for _, w := range want {
			if err == nil && status == w {
				return answer, nil
			}
		}
		if err == nil && status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
			return nil, fmt.Errorf("%s %s is answered %d: %s", method, path, status, answer)
		}
		if !program.Wait(ctx, pause) {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

func (m *Merchants) ask(ctx context.Context, method, path, tenant, body string) (status int, answer []byte, err error) {
	api := m.APIs[int(m.turn.Add(1))%len(m.APIs)]
	r, err := http.NewRequestWithContext(ctx, method, "http://"+api+path, bytes.NewBufferString(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+m.Keys[tenant])
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := m.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// Heard is what the merchants have heard so far, in the order of arrival. Endpoints that were deleted are left out.
func (m *Merchants) Heard() []Heard {
	var all []Heard
	for _, tenant := range m.tenants {
		one := Heard{Tenant: tenant, Endpoints: map[string][]Notice{},
			Followed: m.followed[tenant].read()}
		for _, e := range m.all {
			if e.tenant == tenant && e.name != Failing {
				one.Endpoints[e.name] = e.read()
			}
			if e.tenant == tenant {
				one.Forged = append(one.Forged, e.refused()...)
			}
		}
		all = append(all, one)
	}
	return all
}

// Close ends the servers.
func (m *Merchants) Close() {
	for _, e := range m.all {
		e.close()
	}
	m.http.CloseIdleConnections()
}
