package gateway

import (
	"context"
	"errors"
	"net/url"
)

// Lookup is what the PSP says of a key: one of Found, NotFound, LookupFailed.
//
//sumtype:decl
type Lookup interface {
	lookup()
	// Label names the result in metrics and logs.
	Label() string
}

// Found: what the account's ledger holds under the key. At least one record, oldest first; more than one should not be.
type Found struct{ Records []Record }

// NotFound: the PSP has answered, and has nothing under this key.
type NotFound struct{}

// LookupFailed: nothing is known.
type LookupFailed struct {
	Reason   string
	NotAsked bool // since we had no place for the question: that says nothing of the PSP
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

// Lookup asks for what the account's ledger holds under a key. NotFound is half of a proof that nothing was charged (the
// settle window is the other half), so nothing but a well-formed, empty list is one.
func (c *Client) Lookup(ctx context.Context, o Object, account, key string) Lookup {
	began := c.now()
	result := c.lookup(ctx, o, account, key)
	c.observe(result.Label(), c.now().Sub(began))
	return result
}

func (c *Client) lookup(ctx context.Context, o Object, account, key string) Lookup {
	// A PSP takes an empty filter for none. Of no key at all, nothing would be found, or everything.
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
		if all = append(all, page.Records...); err == nil && page.Next != "" && (pages == maxLookupPages || page.Next == query.Get("cursor")) {
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

// maxLookupPages bounds what is read of one key. There should be one record; pages are short only where records are long.
const maxLookupPages = 5

// holdsOnly fails on a record of another key: a PSP that ignores the filter has not been asked about ours. So it does on one that cannot be
// read: nobody knows what that is.
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
