package main

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
	timeLayout  = "2006-01-02T15:04:05.000000Z"
)

// payment is what clients are shown.
type payment struct {
	ID                  string            `json:"paymentId"`
	Status              string            `json:"status"`
	CustomerID          string            `json:"customerId"`
	AmountCents         int64             `json:"amountCents"`
	Currency            string            `json:"currency"`
	Amount              string            `json:"amount"`
	PaymentMethod       string            `json:"paymentMethod"`
	Description         string            `json:"description,omitempty"`
	Metadata            map[string]string `json:"metadata,omitempty"`
	PSPChargeID         string            `json:"pspChargeId,omitempty"`
	DeclineCode         string            `json:"declineCode,omitempty"`
	AmountRefundedCents int64             `json:"amountRefundedCents"`
	CreatedAt           string            `json:"createdAt"`
}

func newPayment(o order, c charged, now time.Time) payment {
	return payment{
		ID: newID(), Status: c.Status, CustomerID: o.CustomerID, AmountCents: o.AmountCents, Currency: o.Currency,
		Amount: decimal(o.AmountCents, o.Currency), PaymentMethod: o.PaymentMethod, Description: o.Description,
		Metadata:    o.Metadata,
		PSPChargeID: c.ID, DeclineCode: c.DeclineCode, CreatedAt: now.UTC().Format(timeLayout),
	}
}

// newID is pay_ and 125 random bits, in the form of Payonce's ids.
func newID() string {
	bits := make([]byte, 16)
	_, _ = rand.Read(bits) // never fails
	crockford := base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)
	return "pay_0" + crockford.EncodeToString(bits)[:25]
}

// decimal writes an amount in the major unit: 12000 KRW is "12000", 12000 USD is "120.00".
func decimal(amountCents int64, currency string) string {
	digits := 2
	switch currency {
	case "CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF":
		digits = 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		digits = 3
	}
	text := strconv.FormatInt(amountCents, 10)
	if digits == 0 {
		return text
	}
	text = strings.Repeat("0", max(0, digits+1-len(text))) + text
	return text[:len(text)-digits] + "." + text[len(text)-digits:]
}

// answer is what the payment's POST says.
func (p payment) answer() answer {
	if p.Status == "declined" {
		declined := refuse(http.StatusPaymentRequired, "payment_declined", "The payment provider refused the charge: "+
			p.DeclineCode+".")
		declined.PaymentID, declined.DeclineCode, declined.Instance = p.ID, p.DeclineCode, "/payments/"+p.ID
		return declined.answer()
	}
	return answer{http.StatusCreated, jsonType, encode(p)}
}

// answer is a status and a body.
type answer struct {
	status      int
	contentType string
	body        []byte
}

func (a answer) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// problem is an error as RFC 9457 wants it.
type problem struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Status      int    `json:"status"`
	Detail      string `json:"detail"`
	Instance    string `json:"instance,omitempty"`
	Code        string `json:"code"`
	Retryable   bool   `json:"retryable"` // may the same key be sent again?
	PaymentID   string `json:"paymentId,omitempty"`
	DeclineCode string `json:"declineCode,omitempty"`
}

func refuse(status int, code, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

func storeUnavailable() problem {
	p := refuse(http.StatusServiceUnavailable, "idempotency_store_unavailable",
		"Nothing was charged. Try again with the same key.")
	p.Retryable = true
	return *p
}

func pspFailed() problem {
	p := refuse(http.StatusBadGateway, "psp_unavailable",
		"The payment failed at the provider. Try again with the same key.")
	p.Retryable = true
	return *p
}

func notSaved() problem {
	p := refuse(http.StatusInternalServerError, "internal_error",
		"The payment could not be saved. Try again with the same key.")
	p.Retryable = true
	return *p
}

func (p problem) answer() answer { return answer{p.Status, problemType, encode(p)} }

func (p problem) write(w http.ResponseWriter) { p.answer().write(w) }

func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("naive: encode %T: %v", value, err)) // strings and numbers always encode
	}
	return text
}
