package load

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"
)

// Kind says which requests a plan sends.
type Kind string

// The kinds of requests.
const (
	New     Kind = "new"     // POST /payments, each with a fresh key
	Replay  Kind = "replay"  // POST /payments with keys that have been completed, in turn
	Same    Kind = "same"    // a race in rounds: all Racers post at once, with one fresh key
	Apart   Kind = "apart"   // the race to compare it with: each of the Racers has a fresh key of its own
	Webhook Kind = "webhook" // POST /webhooks/psp, signed, each with a fresh webhook-id
	Get     Kind = "get"     // GET of any path
)

// Plan says what to send, and for how long. In Body and Path, {fresh} stands for an id that is new for each request (a
// UUID of version 7, the same one that its Idempotency-Key or webhook-id has), and {key} for the next one of the keys.
type Plan struct {
	Address string `json:"address"` // host and port
	// further servers of the same kind: the connections are dealt out to all in turn
	More    []string `json:"more,omitempty"`
	Kind    Kind     `json:"kind"`
	Clients int      `json:"clients,omitzero"` // connections; a race has Racers instead
	Racers  int      `json:"racers,omitzero"`  // of a race: requests in a round

	// the measured time, and its limit where Requests or Rounds end it sooner
	Seconds       float64 `json:"seconds"`
	WarmUpSeconds float64 `json:"warmUpSeconds,omitzero"` // sent before, and not counted
	GraceSeconds  float64 `json:"graceSeconds,omitzero"`  // for the last answers after the end; 10 by default
	Rate          float64 `json:"rate,omitzero"`          // requests per second, for the open loop; 0 is the closed one
	Requests      int64   `json:"requests,omitzero"`      // ends the run after so many counted ones; 0 is no limit
	Rounds        int     `json:"rounds,omitzero"`        // of a race, likewise

	Keys int `json:"keys,omitzero"` // of Replay: how many payments to make first, to be replayed in turn
	// or the keys themselves, all of one length; what is no payment yet becomes one
	KeyList []string `json:"keyList,omitzero"`

	APIKey        string   `json:"apiKey,omitzero"`
	WebhookSecret string   `json:"webhookSecret,omitzero"` // whsec_…
	Path          string   `json:"path,omitzero"`          // in place of the kind's own
	Body          string   `json:"body,omitzero"`          // in place of the kind's own
	Header        []string `json:"header,omitzero"`        // more lines, such as "Prefer: respond-async"
	Expect        []int    `json:"expect,omitzero"`        // the good statuses, in place of the kind's own
}

// Limits of a plan.
const (
	maxConnections = 10_000
	maxKeys        = 1_000_000
	maxRate        = 1_000_000
	maxStatus      = 599
	maxRounds      = 100_000
	maxRunSeconds  = 3600
	defaultGrace   = 10
)

// The body of a payment that names no other.
const defaultBody = `{"customerId":"cus-1","amountCents":12000,"currency":"KRW"}`

// complete fills in what the plan leaves open, or says what is wrong with it.
func (p Plan) complete() (Plan, error) {
	if p.GraceSeconds == 0 {
		p.GraceSeconds = defaultGrace
	}
	if p.isRace() {
		p.Clients = p.Racers
	}
	if err := p.checkKind(); err != nil {
		return p, err
	}
	if len(p.Expect) == 0 {
		p.Expect = p.Kind.expected()
	}
	return p, p.check()
}

func (p Plan) addresses() []string { return append([]string{p.Address}, p.More...) }

func (p Plan) isRace() bool { return p.Kind == Same || p.Kind == Apart }

func (p Plan) checkKind() error {
	switch {
	case p.Kind.expected() == nil:
		return fmt.Errorf("kind %q is none", p.Kind)
	case p.Kind == Replay && (p.Keys > 0) == (len(p.KeyList) > 0):
		return errors.New("a replay needs either keys or keyList")
	case p.Kind != Replay && p.Keys > 0:
		return errors.New("only a replay makes keys")
	case p.Kind == Get && p.Path == "":
		return errors.New("a get needs a path")
	case p.Kind == Get && p.Body != "":
		return errors.New("a get has no body")
	case p.Kind == Webhook && p.Body == "":
		return errors.New("a webhook needs a body")
	case p.isRace() && (p.Rate != 0 || p.Requests != 0):
		return errors.New("a race has rounds: no rate, no requests")
	case !p.isRace() && p.Rounds != 0:
		return errors.New("only a race has rounds")
	}
	return nil
}

func (p Plan) check() error {
	for _, address := range p.addresses() {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("address: %w", err)
		}
	}
	for _, limit := range []struct {
		name           string
		is, least, max float64
	}{
		{"clients (of a race: racers)", float64(p.Clients), 1, maxConnections},
		{"seconds", p.Seconds, 1e-6, maxRunSeconds},
		{"warmUpSeconds", p.WarmUpSeconds, 0, maxRunSeconds},
		{"graceSeconds", p.GraceSeconds, 1e-6, maxRunSeconds},
		{"rate", p.Rate, 0, maxRate},
		{"requests", float64(p.Requests), 0, math.MaxInt32},
		{"rounds", float64(p.Rounds), 0, maxRounds},
		{"keys", float64(max(p.Keys, len(p.KeyList))), 0, maxKeys},
	} {
		if !(limit.is >= limit.least && limit.is <= limit.max) { // a NaN is neither
			return fmt.Errorf("%s is %v, must be from %v to %v", limit.name, limit.is, limit.least, limit.max)
		}
	}
	for _, status := range p.Expect {
		if status < 100 || status > maxStatus {
			return fmt.Errorf("expect has the status %d, which is none", status)
		}
	}
	return nil
}

// expected are the statuses by which the kind's requests are done, or nil if there is no such kind.
func (k Kind) expected() []int {
	switch k {
	case New, Replay, Apart:
		return []int{http.StatusCreated}
	case Same:
		// Who comes second is told that the first is under way, or how it ended.
		return []int{http.StatusCreated, http.StatusAccepted, http.StatusConflict}
	case Webhook:
		return []int{http.StatusNoContent}
	case Get:
		return []int{http.StatusOK}
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
