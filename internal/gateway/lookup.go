package gateway

import (
	"context"
	"errors"
	"net/url"

	"payonce/internal/tracing"
)

// Lookup is what the PSP says about a key: one of Found, NotFound, LookupFailed.
//
//sumtype:decl
type Lookup interface {
	lookup()
	// Label names the result in metrics and logs.
	Label() string
}

// Found is what the account's ledger has under the key: at least one record, oldest first. There should be only one.
type Found struct{ Records []Record }

// NotFound says that the PSP has answered, and has nothing under this key.
type NotFound struct{}

// LookupFailed says that nothing is known.
type LookupFailed struct {
	Reason   string
	NotAsked bool // whether the request was not sent, because too many of ours were in flight
}

func (Found) lookup()        {}
func (NotFound) lookup()     {}
func (LookupFailed) lookup() {}

// Label is "lookup_found".
func (Found) Label() string { return "lookup_found" }

// Label is "lookup_not_found".
func (NotFound) Label() string { return "lookup_not_found" }

// Label is "lookup_failed".
func (LookupFailed) Label() string { return "lookup_failed" }

// Lookup asks the PSP which records the account's ledger has under a key. NotFound is one half of a proof that nothing
// was charged, and the grace period is the other half. So only a well-formed, empty list is NotFound.
func (c *Client) Lookup(ctx context.Context, o Object, account, key string) Lookup {
	began := c.now()
	ctx, span := tracing.StartClient(ctx, "PSP lookup")
	defer span.End()
	result := c.readLookup(ctx, o, account, key)
	c.observe(result.Label(), c.now().Sub(began))
	span.Outcome(result.Label())
	return result
}

func (c *Client) readLookup(ctx context.Context, o Object, account, key string) Lookup {
	// The PSP ignores an empty filter. Without a key, the answer would be about all keys.
	if key == "" {
		return LookupFailed{Reason: "no key to look up"}
	}
	ctx, cancel := context.WithTimeout(ctx, c.limits.Total)
	defer cancel()
	var all []Record
	for query, pages := (url.Values{"idempotencyKey": {key}}), 1; ; pages++ {
		page, err := c.page(ctx, o, account, query)
		if err == nil {
			err = page.holdsOnly(key)
		}
		if all = append(all, page.Records...); err == nil && page.Next != "" &&
			(pages == maxLookupPages || page.Next == query.Get("cursor")) {
			err = errors.New("answer without an end")
		}
		switch {
		case err != nil:
			_, notAsked := errors.AsType[noPlaceError](err)
			return LookupFailed{Reason: err.Error(), NotAsked: notAsked && pages == 1}
		case page.Next != "":
			query.Set("cursor", page.Next)
		case len(all) == 0:
			return NotFound{}
		default:
			return Found{Records: all}
		}
	}
}

// maxLookupPages bounds the pages that are read for one key. There should be one record. Pages are short only if
// records are long.
const maxLookupPages = 5

// holdsOnly fails if a record has another key: then the PSP has ignored the filter, and has not answered our question.
// It also fails if a record cannot be read, because that record may be ours.
func (p Page) holdsOnly(key string) error {
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
