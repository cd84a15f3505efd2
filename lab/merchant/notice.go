package merchant

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Heard is all that a tenant has heard that wanted events before anything was paid.
type Heard struct {
	Tenant string
	// Endpoints are what each endpoint has received that is enabled in the end, in the order of arrival.
	Endpoints map[string][]Notice
	// Followed is what a reader of the feed has read while everything went on, who never went back.
	Followed []Notice
	Forged   []string // what came to an endpoint, and was no event that its secret has signed
}

// Notice is an event as a merchant has got it.
type Notice struct {
	ID, Type string
	Version  int64
	Payment  []byte // JSON
	Refund   []byte // JSON, or nil
	Dispute  []byte // JSON, or nil
	Body     []byte // all of it
	Taken    bool   // the merchant has answered that it has the event; always so in a feed
}

// ReadNotice reads an event.
func ReadNotice(body []byte) (Notice, error) {
	var read struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Version int64  `json:"version"`
		Data    struct {
			Payment jsontext.Value `json:"payment"`
			Refund  jsontext.Value `json:"refund"`
			Dispute jsontext.Value `json:"dispute"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return Notice{}, fmt.Errorf("read event %s: %w", body, err)
	}
	d := read.Data
	return Notice{read.ID, read.Type, read.Version, d.Payment, d.Refund, d.Dispute, body, true}, nil
}

// IDs are those of notices, in their order.
func IDs(of []Notice) []string {
	all := make([]string, len(of))
	for i, n := range of {
		all[i] = n.ID
	}
	return all
}

// OtherOrder names the first place in which something else was read than there is.
func OtherOrder(want []string, read []Notice) string {
	for i := range min(len(want), len(read)) {
		if want[i] != read[i].ID {
			return fmt.Sprintf("%s is in place %d of %s", read[i].ID, i+1, want[i])
		}
	}
	if len(want) != len(read) {
		return fmt.Sprintf("%d events, and there are %d", len(read), len(want))
	}
	return ""
}

// OtherSet names the first event that only one of the two has.
func OtherSet(feed, taken []Notice) string {
	inFeed, has := IDs(feed), map[string]bool{}
	for _, n := range taken {
		has[n.ID] = true
	}
	for _, id := range inFeed {
		if !has[id] {
			return id + " is missing"
		}
		delete(has, id)
	}
	for id := range has {
		return id + " is not in the feed"
	}
	return ""
}
