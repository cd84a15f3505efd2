package native

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Lookup asks the PSP which records the account's ledger has under a key. NotFound is one half of a proof that nothing
// was charged, and the grace period is the other half. So only a well-formed, empty list is NotFound.
//
// This PSP cannot end a request, so the lookup ends nothing.
func (c *Client) Lookup(ctx context.Context, r gateway.Request, _ gateway.End) gateway.Lookup {
	want := r.Wanted()
	if ch, _ := r.(gateway.Charge); ch.ObjectID != "" {
		return c.readCharge(ctx, want.Account, ch.ObjectID)
	}
	return c.readLookup(ctx, want.Object, want.Account, want.Key)
}

// readCharge reads the charge with an id. The caller compares it with the request: it may be somebody else's.
func (c *Client) readCharge(ctx context.Context, account, id string) gateway.Lookup {
	var record gateway.Record
	build := c.get(account, chargesPath+"/"+url.PathEscape(id), "application/json")
	err := c.Read(ctx, account, build, wire.MaxAnswer, func(body io.Reader) error {
		raw, err := io.ReadAll(body)
		if err == nil {
			record, err = parseRecord(raw)
		}
		return err
	})
	switch {
	case errors.Is(err, wire.StatusError(http.StatusNotFound)):
		return gateway.NotFound{}
	case err == nil && record.ID != id:
		err = errors.New("answer has another id")
	}
	if err != nil {
		return wire.LookupFailed(err)
	}
	return gateway.Found{Records: []gateway.Record{record}}
}

func (c *Client) readLookup(ctx context.Context, o gateway.Object, account, key string) gateway.Lookup {
	// The PSP ignores an empty filter. Without a key, the answer would be about all keys.
	if key == "" {
		return gateway.LookupFailed{Reason: "no key to look up"}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Total())
	defer cancel()
	var all []gateway.Record
	for query, pages := (url.Values{"idempotencyKey": {key}}), 1; ; pages++ {
		page, err := c.page(ctx, o, account, query)
		if err == nil {
			err = holdsOnly(page, key)
		}
		if all = append(all, page.Records...); err == nil && page.Next != "" &&
			(pages == maxLookupPages || page.Next == query.Get("cursor")) {
			err = errors.New("answer without an end")
		}
		switch {
		case err != nil:
			return wire.LookupFailed(err)
		case page.Next != "":
			query.Set("cursor", page.Next)
		case len(all) == 0:
			return gateway.NotFound{}
		default:
			return gateway.Found{Records: all}
		}
	}
}

// maxLookupPages bounds the pages that are read for one key. There should be one record. Pages are short only if
// records are long.
const maxLookupPages = 5

// holdsOnly fails if a record has another key: then the PSP has ignored the filter, and has not answered our question.
// It also fails if a record cannot be read, because that record may be ours.
func holdsOnly(p gateway.Page, key string) error {
	if len(p.Unreadable) > 0 {
		return errors.New(p.Unreadable[0].Reason)
	}
	for _, r := range p.Records {
		if r.Key != key {
			return errors.New("answer has another key")
		}
	}
	return nil
}
