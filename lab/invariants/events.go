package invariants

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/payment"
)

// Merchant is a tenant that wanted events before anything was paid, with all that it has heard.
type Merchant struct {
	Tenant string
	// Endpoints are what each endpoint has received that is enabled in the end, in the order of arrival.
	Endpoints map[string][]Notice
	// Followed is what a reader of the feed has read while everything went on, who never went back.
	Followed []Notice
}

// Notice is an event as a merchant has got it.
type Notice struct {
	ID, Type string
	Version  int64
	Payment  []byte // JSON
	Refund   []byte // JSON, or nil
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
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return Notice{}, fmt.Errorf("read event %s: %w", body, err)
	}
	return Notice{read.ID, read.Type, read.Version, read.Data.Payment, read.Data.Refund, body, true}, nil
}

// about is the payment that an event names. It may be none of ours.
func (n Notice) about() uuid.UUID {
	id, err := subjectOf(readDocument(n.Payment).text("paymentId"))
	if err != nil {
		return uuid.UUID{}
	}
	return id
}

// merchantsTold is I11.
func merchantsTold(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	var found []Violation
	for _, m := range e.Merchants {
		feed, wrong, err := e.feed(ctx, m.Tenant)
		if err != nil {
			return nil, fmt.Errorf("read the feed of %s: %w", m.Tenant, err)
		}
		if wrong != "" {
			found = append(found, Violation{"I11", m.Tenant, wrong})
			continue
		}
		found = append(found, w.heard(m, feed)...)
	}
	return found, nil
}

// feed reads all of a tenant's feed.
func (e Evidence) feed(ctx context.Context, tenant string) (all []Notice, wrong string, err error) {
	for after := ""; ; {
		r, err := e.get(ctx, fmt.Sprintf("%s/events?limit=%d%s", base(e.APIs[0]), pageSize, after), tenant)
		if err != nil {
			return nil, "", err
		}
		var page page
		if r.status != http.StatusOK || !page.read(r.body) {
			return nil, fmt.Sprintf("its feed is answered %d %s", r.status, r.body), nil
		}
		for _, raw := range page.Data {
			n, err := ReadNotice(raw)
			if err != nil {
				return nil, err.Error(), nil
			}
			all = append(all, n)
		}
		if !page.HasMore {
			return all, "", nil
		}
		after = "&after=" + page.NextCursor
	}
}

const readPlaces = `
SELECT tenant_id, payment_id, version FROM events WHERE position IS NOT NULL ORDER BY position`

// readFeeds reads the ids of the events of each tenant, in the order of their places.
func (b *books) readFeeds(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, readPlaces)
	if err != nil {
		return err
	}
	var tenant string
	var id uuid.UUID
	var version int64
	b.feeds = map[string][]string{}
	_, err = pgx.ForEachRow(rows, []any{&tenant, &id, &version}, func() error {
		_, of, _ := strings.Cut(payment.ID(id).String(), "_")
		b.feeds[tenant] = append(b.feeds[tenant], fmt.Sprintf("evt_%s_%d", of, version))
		return nil
	})
	return err
}
