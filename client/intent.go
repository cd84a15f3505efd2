package client

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Intent is one payment that the caller wants.
type Intent struct {
	// ID is the caller's own name of the payment, such as an order's number. One ID always means the same payment: the
	// client makes one key for it. If the customer tries again after a decline, that is another intent with another ID.
	ID            string
	CustomerID    string
	AmountCents   int64             // in the currency's minor unit
	Currency      string            // ISO 4217, such as USD
	PaymentMethod string            // a token of the PSP; empty for the server's default
	Reference     string            // the server finds the payment by it; may be empty
	Description   string            // may be empty
	Metadata      map[string]string // may be nil
}

// The limits of an intent. The server checks the members of the body.
const (
	maxIntentID = 200
	maxBody     = 16 << 10 // what the server takes
)

// requestBody is the body of POST /payments. The order of the fields is the order of the JSON members.
type requestBody struct {
	CustomerID    string            `json:"customerId"`
	AmountCents   int64             `json:"amountCents"`
	Currency      string            `json:"currency"`
	PaymentMethod string            `json:"paymentMethod,omitempty"`
	Reference     string            `json:"reference,omitempty"`
	Description   string            `json:"description,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
}

// body is the request's bytes. Equal intents have equal bytes: encoding/json sorts the keys of maps.
func (i Intent) body() ([]byte, error) {
	if i.ID == "" || len(i.ID) > maxIntentID {
		return nil, fmt.Errorf("intent: the ID has %d bytes, must have 1 to %d", len(i.ID), maxIntentID)
	}
	if !i.isText() {
		return nil, fmt.Errorf("intent %q: a field is not valid UTF-8", i.ID)
	}
	body, err := json.Marshal(requestBody{i.CustomerID, i.AmountCents, i.Currency, i.PaymentMethod, i.Reference,
		i.Description, i.Metadata})
	if err != nil {
		return nil, fmt.Errorf("intent %s: %w", i.ID, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("intent %s: the request has %d bytes, of %d at most", i.ID, len(body), maxBody)
	}
	return body, nil
}

// isText says that all texts are valid UTF-8. encoding/json writes U+FFFD for each byte that is not: the body would
// name another customer, and a Store in JSON would not find the ID again, so that the intent would get a second key.
func (i Intent) isText() bool {
	for name, value := range i.Metadata {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return utf8.ValidString(i.ID) && utf8.ValidString(i.CustomerID) && utf8.ValidString(i.Currency) &&
		utf8.ValidString(i.PaymentMethod) && utf8.ValidString(i.Reference) && utf8.ValidString(i.Description)
}

// keyOf forms 128 random bits as a UUID of version 4 (RFC 9562, section 5.4).
func keyOf(random [16]byte) string {
	random[6] = random[6]&0x0f | 0x40
	random[8] = random[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", random[0:4], random[4:6], random[6:8], random[8:10], random[10:])
}
