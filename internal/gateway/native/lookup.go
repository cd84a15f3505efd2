package native

import (
	"context"
	"errors"
	"net/url"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
	"payonce/internal/tracing"
)

// Lookup asks the PSP which records the account's ledger has under a key. NotFound is one half of a proof that nothing
// was charged, and the grace period is the other half. So only a well-formed, empty list is NotFound.
//
// This PSP cannot end a request, so the lookup ends nothing.
func (c *Client) Lookup(ctx context.Context, r gateway.Request, _ gateway.End) gateway.Lookup {
	want := wanted(r)
	began := c.now()
	ctx, span := tracing.StartClient(ctx, "PSP lookup")
	defer span.End()
	result := c.readLookup(ctx, want.Object, want.Account, want.Key)
	c.observe(result.Label(), c.now().Sub(began))
	span.Outcome(result.Label())
	return result
}

// wanted is the record that a request must lead to.
func wanted(r gateway.Request) gateway.Record {
	switch r := r.(type) {
	case gateway.Charge:
		return r.Wanted()
	case gateway.Refund:
		return r.Wanted()
	}
	return gateway.Record{}
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
			_, notAsked := errors.AsType[wire.NoPlaceError](err)
			return gateway.LookupFailed{Reason: err.Error(), NotAsked: notAsked}
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
