package payments

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendCanonical appends the request as JSON by RFC 8785, which is what the fingerprint digests: the members in their order,
// without those that are empty and optional. It is the JSON form of the fields, written down, since making it with the help
// of reflection, and then sorting it, took four times as long. A member that is missing here would not be told apart: a test
// compares with that way for each field. The request must have passed Validate: of other names of metadata, the order is
// that of UTF-16.
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

// canonicalWriter keeps the first error, so that the members can be read as a list.
type canonicalWriter struct {
	text []byte
	err  error
}

func (c *canonicalWriter) member(name, value string) {
	c.text = append(c.text, name...)
	c.quote(value)
}

// quote fails on what is not UTF-8.
func (c *canonicalWriter) quote(s string) {
	text, err := jsontext.AppendQuote(c.text, s)
	c.text, c.err = text, cmp.Or(c.err, err)
}
