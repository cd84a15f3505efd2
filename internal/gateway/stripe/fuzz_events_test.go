package stripe

import (
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
)

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
	const booked = `{"object":"balance_transaction","type":"charge","created":1795176000,"source":`
	f.Add([]byte(booked + chargeIs(1, "succeeded", 1795176000) + `}`))
	f.Add([]byte(`{"object":"balance_transaction","type":"refund","created":1795176000,"source":` +
		refundIs("succeeded") + `}`))
	f.Add([]byte(`{"id":"txn_1","object":"balance_transaction","type":"payment_reversal","amount":-700,"currency":"usd",` +
		`"created":1795176000,"source":` + chargeIs(1, "succeeded", 1795176000) + `}`))
	f.Add([]byte(`{"object":"balance_transaction","type":"payout","created":1795176000}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = bookOf("acct_canary", raw, window{from: 1795176000, width: 60}, func(r gateway.Record) error {
			if again, err := r.Accept(); err != nil || again != r || r.Created.Unix() < 1795176000 ||
				r.Created.Unix() >= 1795176060 {
				t.Fatalf("record %+v: %v", r, err)
			}
			return nil
		})
	})
}
