package stripe

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// said is what another reader finds in an object of Stripe.
type said struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	Amount         int64             `json:"amount"`
	AmountReceived int64             `json:"amount_received"`
	Currency       string            `json:"currency"`
	PaymentIntent  json.RawMessage   `json:"payment_intent"`
	Status         string            `json:"status"`
	Metadata       map[string]string `json:"metadata"`
}

// A verdict is believed of an answer only if another reader finds the same verdict in it, about the same movement. A
// contradiction comes with evidence that the database takes.
func FuzzReply(f *testing.F) {
	for _, status := range []string{"succeeded", "declined", "requires_action", "canceled"} {
		f.Add(200, []byte(intentIs(status)), false, false)
		f.Add(402, []byte(problemOf("card_error", "card_declined", intentIs(status))), false, true)
	}
	f.Add(200, []byte(refundIs("succeeded")), true, false)
	f.Add(400, []byte(problemOf("invalid_request_error", "charge_already_refunded", "")), true, false)
	f.Add(429, []byte(problemOf("invalid_request_error", "rate_limit", "")), false, false)
	f.Fuzz(func(t *testing.T, status int, body []byte, refund, replayed bool) {
		r := wire.Reply{Status: status, Body: body, Header: http.Header{}}
		if replayed {
			r.Header.Set("Idempotent-Replayed", "true")
		}
		o, _ := judgeConfirm(aCharge(), r)
		if refund {
			o = judgeRefund(aRefund(), r)
		}
		var theirs said
		err := json.Unmarshal(body, &theirs)
		switch o := o.(type) {
		case gateway.Succeeded:
			amount, reference := theirs.AmountReceived, "pay_canary"
			want := int64(12000)
			if refund {
				amount, reference, want = theirs.Amount, "re_canary", 500
			}
			if err != nil || status != http.StatusOK || theirs.ID != o.ID || theirs.Status != "succeeded" ||
				amount != want ||
				theirs.Currency != "usd" || theirs.Metadata["reference"] != reference ||
				theirs.Metadata["origin"] != here.origin {
				t.Fatalf("believed to have succeeded: %d %s, %v", status, body, err)
			}
		case gateway.Declined:
			if !gateway.IsDeclineCode(o.Code) || status >= 500 || status == http.StatusTooManyRequests ||
				err != nil && status == 200 {
				t.Fatalf("believed to be declined: %d %s", status, body)
			}
		case gateway.NotExecuted:
			if status != http.StatusTooManyRequests && (refund || theirs.Status != "canceled") {
				t.Fatalf("believed not to be executed: %d %s", status, body)
			}
		case gateway.Pending:
			if err != nil || status != http.StatusOK || o.Reason == "" {
				t.Fatalf("believed to wait: %d %s", status, body)
			}
		case gateway.Indeterminate:
			if o.Reason == "" || o.Contradiction && !gateway.Storable(o.Evidence) {
				t.Fatalf("not decided: %q, contradiction %t, evidence %.100q", o.Reason, o.Contradiction, o.Evidence)
			}
		}
	})
}

// Of a page, each object is a record, foreign, unfinished, or kept as it is. A list that another reader can read has as
// many objects.
func FuzzPage(f *testing.F) {
	f.Add([]byte(listOf(false, chargeIs(1, "succeeded", 1795176000), chargeIs(2, "failed", 1795176000))))
	f.Add([]byte(listOf(true, chargeIs(1, "pending", 1795176000), `{"id":"ch_2","x":"`+"\xff"+`","x":1}`)))
	f.Add([]byte(listOf(false)))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := parseList(bytes.NewReader(body), "list")
		if err != nil {
			if len(l.data) > 0 && !l.more {
				t.Fatalf("refused with %v, and %d objects", err, len(l.data))
			}
			return
		}
		var theirs struct {
			Data    []json.RawMessage `json:"data"`
			HasMore *bool             `json:"has_more"`
		}
		// encoding/json also takes names in another case. Then it reads another list.
		if err := json.Unmarshal(body, &theirs); err == nil && !caseFolded(body) && (theirs.Data == nil ||
			theirs.HasMore == nil ||
			len(theirs.Data) != len(l.data) || *theirs.HasMore != l.more) {
			t.Fatalf("%d objects in a list of %d", len(l.data), len(theirs.Data))
		}
		page, err := pageOf(source{object: gateway.ChargeObject, reader: here.readCharge}, l.data,
			window{})
		if err != nil {
			return // a record before 1970
		}
		if n := len(page.Records) + len(page.Unreadable) + page.Foreign; n > len(l.data) {
			t.Fatalf("%d records of %d objects", n, len(l.data))
		}
		for i, r := range page.Records {
			if again, err := r.Accept(); err != nil || again != r || i > 0 &&
				r.Created.Before(page.Records[i-1].Created) {
				t.Fatalf("record %+v: %v", r, err)
			}
		}
		for _, u := range page.Unreadable {
			if u.ID != "" && !gateway.IsID(u.ID) || len(u.Raw) > 64<<10 || u.Reason == "" {
				t.Fatalf("unreadable %+v", u)
			}
		}
	})
}

// caseFolded reports whether a text has the name of a member in another case, as Go's own reader would take it.
func caseFolded(body []byte) bool {
	for _, name := range []string{"data", "has_more", "id", "type", "object", "metadata", "origin", "reference"} {
		if strings.Count(strings.ToLower(string(body)), name) != strings.Count(string(body), name) {
			return true
		}
	}
	return strings.ContainsAny(string(body), "\\ſK") // an escape, or a letter that folds to s or k
}

// An event that moves is understood alike by the standard library. One that is refused is not repeated in the refusal.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(eventOf("payment_intent.succeeded", intentIs("succeeded"))))
	f.Add([]byte(eventOf("payment_intent.payment_failed", intentIs("declined"))))
	f.Add([]byte(eventOf("refund.updated", refundIs("succeeded"))))
	f.Add([]byte(eventOf("refund.created", unmarked(refundIs("pending")))))
	f.Add([]byte(eventOf("charge.dispute.created", disputeIs("needs_response"))))
	f.Add([]byte(eventOf("payout.paid", "{}")))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := here.parseEvent(body, "")
		if err != nil {
			if !errors.Is(err, gateway.ErrPayload) || e != nil || len(err.Error()) > 120 {
				t.Fatalf("refused with %v, and %+v", err, e)
			}
			return
		}
		moved, is := e.(gateway.Moved)
		if !is {
			return
		}
		var theirs struct {
			Type string `json:"type"`
			Data struct {
				Object said `json:"object"`
			} `json:"data"`
		}
		if err := json.Unmarshal(body, &theirs); err != nil {
			t.Fatalf("taken, but not by encoding/json: %v", err)
		}
		r, object := moved.Record, theirs.Data.Object
		// What has no marks of ours was made by another program.
		wrongMarks := r.Marked() &&
			(object.Metadata["reference"] != r.Reference || object.Metadata["origin"] != here.origin)
		if object.ID != r.ID || wrongMarks ||
			strings.HasPrefix(theirs.Type, "payment_intent.") != (r.Object == gateway.ChargeObject) {
			if !caseFolded(body) {
				t.Fatalf("speaks of %+v, to encoding/json of %+v", r, object)
			}
		}
		if again, err := gateway.ParseRecord(r.Evidence()); err != nil || again != r {
			t.Fatalf("%+v is read again as %+v, %v", r, again, err)
		}
	})
}

// A header that nobody has signed is refused. A signed message is taken, whatever else is in the header.
func FuzzSignature(f *testing.F) {
	const secret = "whsec_canary_of_the_fuzz_target"
	now := time.Unix(1795176000, 0)
	c, err := New(Config{URL: "http://psp.test", Secret: "sk_test_canary", WebhookSecrets: []string{secret},
		Limits: gateway.DefaultLimits(), Now: func() time.Time { return now }})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("t=1795176000,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd", []byte(`{"id":"evt_1"}`))
	f.Add("v0=1,t=1795176000", []byte(`{"id":"evt_1","id":"evt_2"}`))
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, rest string, body []byte) {
		header := http.Header{}
		header[http.CanonicalHeaderKey(signatureHeader)] = []string{rest}
		if d, err := c.VerifyEvent(header, body); err == nil {
			t.Fatalf("taken without a signature: %+v", d)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte("1795176000."))
		mac.Write(body)
		if strings.Contains(rest, "t=") {
			return // a second time is refused
		}
		header[http.CanonicalHeaderKey(signatureHeader)] = []string{
			"t=1795176000,v1=" + hex.EncodeToString(mac.Sum(nil)) + "," + rest,
		}
		d, err := c.VerifyEvent(header, body)
		var theirs struct {
			ID string `json:"id"`
		}
		if err == nil && (json.Unmarshal(body, &theirs) != nil || theirs.ID != d.ID && !caseFolded(body)) {
			t.Fatalf("taken as %+v: %s", d, body)
		}
		if refused, is := errors.AsType[*gateway.VerifyError](err); err != nil && (!is || refused.Detail == "") {
			t.Fatalf("refused with %v", err)
		}
	})
}

// A movement of a statement is ours, and can be stored.
func FuzzBook(f *testing.F) {
	const booked = `{"id":"txn_1","object":"balance_transaction","currency":"usd","type":"charge","created":1795176000,"source":`
	f.Add([]byte(booked + chargeIs(1, "succeeded", 1795176000) + `}`))
	f.Add([]byte(`{"id":"txn_1","object":"balance_transaction","currency":"usd","type":"refund","created":1795176000,"source":` +
		refundIs("succeeded") + `}`))
	f.Add([]byte(`{"id":"txn_1","object":"balance_transaction","type":"payment_reversal","amount":-700,"currency":"usd",` +
		`"created":1795176000,"source":` + chargeIs(1, "succeeded", 1795176000) + `}`))
	f.Add([]byte(`{"id":"txn_1","object":"balance_transaction","currency":"usd","amount":-7,"type":"payout",` +
		`"source":{"id":"po_1","object":"payout"},"created":1795176000}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = here.bookOf(raw, window{from: 1795176000, width: 60}, func(l gateway.Line) error {
			if again, err := l.Accept(); err != nil || again != l || l.Created.Unix() < 1795176000 ||
				l.Created.Unix() >= 1795176060 {
				t.Fatalf("line %+v: %v", l, err)
			}
			return nil
		})
	})
}
