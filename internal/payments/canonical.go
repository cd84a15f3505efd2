package payments

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendCanonical appends the request as canonical JSON (RFC 8785), which is the input of the fingerprint. The members
// are in their order. Empty optional members are left out.
//
// The text is written by hand because marshalling by reflection, and then sorting, took four times as long. If a member
// were missing here, two different requests would have the same fingerprint. A test compares both ways for each field.
//
// The request must have passed Validate. Validate allows only ASCII names in metadata, and for them the byte order is
// the order of UTF-16 that the RFC wants.
func (r CreateRequest) AppendCanonical(b []byte) ([]byte, error) {
	c := canonicalWriter{text: append(b, `{"amountCents":`...)}
	c.text = strconv.AppendInt(c.text, int64(r.AmountCents), 10)
	c.member(`,"currency":`, string(r.Currency))
	c.member(`,"customerId":`, r.CustomerID)
	if r.Description != "" {
		c.member(`,"description":`, r.Description)
	}
	if len(r.Metadata) > 0 {
		c.text = append(c.text, `,"metadata":`...)
		before := byte('{')
		for _, name := range slices.Sorted(maps.Keys(r.Metadata)) {
			c.text = append(c.text, before)
			c.quote(name)
			c.member(`:`, r.Metadata[name])
			before = ','
		}
		c.text = append(c.text, '}')
	}
	c.member(`,"paymentMethod":`, r.PaymentMethod)
	return append(c.text, '}'), c.err
}

// canonicalWriter keeps the first error, so that AppendCanonical can list the members without checks in between.
type canonicalWriter struct {
	text []byte
	err  error
}

func (c *canonicalWriter) member(name, value string) {
	c.text = append(c.text, name...)
	c.quote(value)
}

// quote fails if s is not UTF-8.
func (c *canonicalWriter) quote(s string) {
	text, err := jsontext.AppendQuote(c.text, s)
	c.text, c.err = text, cmp.Or(c.err, err)
}
