package history

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

const (
	patience = time.Minute
	theKey   = "key-0123456789abcdef"
	paymentA = "pay_0000000000000000000000000a"
	paymentB = "pay_0000000000000000000000000b"
)

// span is from when to when a request was under way.
type span struct{ from, to int }

func (s span) asked(client int, intent string) Operation {
	return Operation{
		Client: client, Tenant: "acme", Route: PaymentsRoute, Key: theKey, Intent: intent,
		Call: time.Duration(s.from), Return: time.Duration(s.to),
	}
}

func (s span) answered(client int, intent string, status int, body string) Operation {
	o := s.asked(client, intent)
	o.Status, o.Answer = status, []byte(body)
	o.Header = http.Header{"Idempotency-Key": {theKey}, "Content-Type": {"application/json"}}
	return o
}

// done is a success, told as the first or as a replay.
func (s span) done(client int, intent, subject, charge string, replayed bool) Operation {
	o := s.answered(client, intent, http.StatusCreated,
		fmt.Sprintf(`{"paymentId":%q,"status":"succeeded","pspChargeId":%q}`, subject, charge))
	o.Header.Set("Idempotent-Replayed", fmt.Sprint(replayed))
	o.Header.Set("Location", "/payments/"+subject)
	o.Header.Set("Idempotency-Key-Expires", "Mon, 23 Nov 2026 00:00:00 GMT")
	return o
}

func (s span) first(client int) Operation  { return s.done(client, "A", paymentA, "ch_1", false) }
func (s span) replay(client int) Operation { return s.done(client, "A", paymentA, "ch_1", true) }

func (s span) accepted(client int, intent, subject string) Operation {
	return s.answered(client, intent, http.StatusAccepted,
		fmt.Sprintf(`{"paymentId":%q,"status":"processing"}`, subject))
}

func (s span) problem(client int, intent string, status int, code, subject string) Operation {
	return s.answered(client, intent, status,
		fmt.Sprintf(`{"status":%d,"code":%q,"paymentId":%q}`, status, code, subject))
}

func (s span) busy(client int) Operation {
	return s.problem(client, "A", http.StatusConflict, "idempotency_key_in_progress", paymentA)
}

func (s span) misuse(client int, intent string) Operation {
	return s.problem(client, intent, http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload",
		"")
}

func (s span) released(client int, subject string) Operation {
	return s.problem(client, "A", http.StatusServiceUnavailable, "psp_unavailable", subject)
}

func (s span) storeAway(client int) Operation {
	return s.problem(client, "A", http.StatusServiceUnavailable, "idempotency_store_unavailable", "")
}

// unheard is a request whose client never heard of it.
func unheard(client, from int, intent string) Operation {
	o := span{from, 0}.asked(client, intent)
	o.Failure = "connection reset"
	return o
}

// with changes a copy of an operation.
func (o Operation) with(change func(*Operation)) Operation {
	o.Header = o.Header.Clone()
	change(&o)
	return o
}

func check(t testing.TB, operations ...Operation) []Violation {
	t.Helper()
	return Check(operations, patience)
}
