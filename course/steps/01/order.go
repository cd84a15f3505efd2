package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// What clients ask for, and what they are answered.

// order is the body of POST /payments. AmountCents is an integer: the count of the currency's minor unit.
type order struct {
	CustomerID    string `json:"customerId"`
	AmountCents   int64  `json:"amountCents"`
	Currency      string `json:"currency"`
	PaymentMethod string `json:"paymentMethod"`
}

// payment is an order under a client's key.
type payment struct {
	ID string `json:"paymentId"`
	order
	Status      string `json:"status"`
	PSPChargeID string `json:"pspChargeId,omitempty"`

	tenant, key string
}

var (
	keyPattern   = regexp.MustCompile(`^[!-~]{16,255}$`)
	orderPattern = regexp.MustCompile(`^[1-9][0-9]{0,11} [A-Z]{3} [A-Za-z0-9._:-]{1,64} pm_[a-z0-9_]{1,61}$`)
)

// readPayment reads a request. It gives the payment an id, in case the key is new.
func readPayment(w http.ResponseWriter, r *http.Request, tenant string) (payment, error) {
	p := payment{ID: "pay_" + strings.ToLower(rand.Text()), tenant: tenant}
	p.PaymentMethod = "pm_ok"
	p.key = strings.Trim(r.Header.Get("Idempotency-Key"), `"`) // the standard writes the key in quotes
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<10)).Decode(&p.order)
	switch {
	case !keyPattern.MatchString(p.key):
		return p, errors.New("the header Idempotency-Key must have 16 to 255 printable characters")
	case err != nil:
		return p, errors.New("the body must be the JSON of a payment")
	case !orderPattern.MatchString(fmt.Sprint(p.AmountCents, " ", p.Currency, " ", p.CustomerID, " ", p.PaymentMethod)):
		return p, errors.New("amountCents, currency, customerId or paymentMethod is missing or malformed")
	}
	return p, nil
}

// answer is a response as it is sent and stored. A replay has the same bytes.
type answer struct {
	status   int
	body     []byte
	replayed bool
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if a.status >= http.StatusBadRequest {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	if a.status == http.StatusAccepted || a.status == http.StatusConflict || a.status >= 500 {
		w.Header().Set("Retry-After", "1")
	}
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// finalAnswer tells the client what the PSP has decided.
func finalAnswer(p payment, c charge) answer {
	if c.Status == declined {
		return problem(http.StatusPaymentRequired, "payment_declined", p.ID+" was refused: "+c.DeclineCode+".")
	}
	p.Status, p.PSPChargeID = c.Status, c.ID
	return encode(http.StatusCreated, p)
}

// problem is an error as RFC 9457 writes it.
func problem(status int, code, detail string) answer {
	text := map[string]any{"title": http.StatusText(status), "status": status, "code": code, "detail": detail}
	return encode(status, text)
}

func encode(status int, value any) answer {
	body, _ := json.Marshal(value) // texts and numbers cannot fail
	return answer{status: status, body: body}
}
