package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
)

const (
	maxBody   = 16 << 10
	minKey    = 16
	maxKey    = 255
	maxAmount = 999_999_999_999
)

// What the members of an order look like.
var patterns = map[string]*regexp.Regexp{
	"customerId":    regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`),
	"currency":      regexp.MustCompile(`^[A-Z]{3}$`),
	"paymentMethod": regexp.MustCompile(`^pm_[a-z0-9_]{1,61}$`),
}

// order is what a client asks for. AmountCents counts the currency's minor unit.
type order struct {
	CustomerID    string            `json:"customerId"`
	AmountCents   int64             `json:"amountCents"`
	Currency      string            `json:"currency"`
	PaymentMethod string            `json:"paymentMethod"`
	Description   string            `json:"description"`
	Metadata      map[string]string `json:"metadata"`
}

// readOrder reads the key's header and the body, and says what is wrong with them.
func readOrder(w http.ResponseWriter, r *http.Request) (order, *problem) {
	switch key := r.Header.Get("Idempotency-Key"); {
	case key == "":
		return order{}, refuse(http.StatusBadRequest, "idempotency_key_missing",
			"The header Idempotency-Key is required.")
	case len(key) < minKey || len(key) > maxKey:
		return order{}, refuse(http.StatusBadRequest, "idempotency_key_invalid",
			fmt.Sprintf("The Idempotency-Key must have %d to %d characters.", minKey, maxKey))
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != jsonType {
		return order{}, refuse(http.StatusUnsupportedMediaType, "unsupported_media_type",
			"The Content-Type must be application/json.")
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return order{}, refuse(http.StatusRequestEntityTooLarge, "body_too_large",
			"The body must not be larger than 16 KiB.")
	}
	if err != nil {
		return order{}, refuse(http.StatusBadRequest, "invalid_request", "The body could not be read.")
	}
	return parseOrder(raw)
}

func parseOrder(raw []byte) (order, *problem) {
	o := order{PaymentMethod: "pm_ok"}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil || decoder.More() {
		return order{}, refuse(http.StatusBadRequest, "invalid_request",
			"The body must be a JSON object with the members of a payment.")
	}
	for name, value := range map[string]string{"customerId": o.CustomerID, "currency": o.Currency,
		"paymentMethod": o.PaymentMethod} {
		if !patterns[name].MatchString(value) {
			return order{}, refuse(http.StatusBadRequest, "invalid_request", "The member "+name+
				" is missing or malformed.")
		}
	}
	if o.AmountCents < 1 || o.AmountCents > maxAmount {
		return order{}, refuse(http.StatusBadRequest, "invalid_request",
			fmt.Sprintf("amountCents must be from 1 to %d.", int64(maxAmount)))
	}
	return o, nil
}
