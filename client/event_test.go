package client

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var (
	eventSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 24)))
	otherSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 24)))
	sentAt      = time.Date(2026, 11, 20, 9, 5, 0, 0, time.UTC)
)

const eventBody = `{"id":"evt_1","type":"payment.succeeded","version":7,` +
	`"data":{"payment":{"paymentId":"pay_1","status":"succeeded","reference":"order-1"}}}`

// delivered is the header of a delivery that the library has signed.
func delivered(t testing.TB, body, secret string) http.Header {
	t.Helper()
	w, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := w.Sign("evt_1", sentAt, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	h.Set("webhook-id", "evt_1")
	h.Set("webhook-timestamp", strconv.FormatInt(sentAt.Unix(), 10))
	h.Set("webhook-signature", signature)
	return h
}

func TestEventOfTheLibrarysSignatureIsRead(t *testing.T) {
	t.Parallel()
	h := delivered(t, eventBody, eventSecret)
	h.Set("webhook-signature", "v1,bm90IHRoaXM= "+h.Get("webhook-signature")) // as during a rotation
	e, err := VerifyEvent([]byte(eventBody), h, sentAt.Add(EventAge), otherSecret, eventSecret)
	if err != nil || e.ID != "evt_1" || e.Version != 7 || e.PaymentID != "pay_1" || e.Reference != "order-1" ||
		e.Status != "succeeded" || e.Type != "payment.succeeded" {
		t.Errorf("%+v: %v", e, err)
	}
}

func TestEventNamesWhatItIsAbout(t *testing.T) {
	t.Parallel()
	for about, want := range map[string]Event{
		`"refund":{"refundId":"re_1"}`:      {RefundID: "re_1", Refund: []byte(`{"refundId":"re_1"}`)},
		`"dispute":{"pspDisputeId":"dp_1"}`: {DisputeID: "dp_1", Dispute: []byte(`{"pspDisputeId":"dp_1"}`)},
	} {
		body := strings.Replace(eventBody, `"payment":`, about+`,"payment":`, 1)
		e, err := VerifyEvent([]byte(body), delivered(t, body, eventSecret), sentAt, eventSecret)
		if err != nil || e.RefundID != want.RefundID || e.DisputeID != want.DisputeID ||
			string(e.Refund) != string(want.Refund) || string(e.Dispute) != string(want.Dispute) {
			t.Errorf("%s is read as %+v: %v", about, e, err)
		}
	}
}

func TestDeliveryThatIsNotSignedSaysNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h http.Header) (body string, at time.Time, secret string){
		"another body": func(http.Header) (string, time.Time, string) {
			return strings.Replace(eventBody, "succeeded", "declined", 1), sentAt, eventSecret
		},
		"another secret":  func(http.Header) (string, time.Time, string) { return eventBody, sentAt, otherSecret },
		"an empty secret": func(http.Header) (string, time.Time, string) { return eventBody, sentAt, "whsec_" },
		"too old": func(http.Header) (string, time.Time, string) {
			return eventBody, sentAt.Add(EventAge + time.Second), eventSecret
		},
		"from the future": func(http.Header) (string, time.Time, string) {
			return eventBody, sentAt.Add(-EventAge - time.Second), eventSecret
		},
		"another id": func(h http.Header) (string, time.Time, string) {
			h.Set("webhook-id", "evt_2")
			return eventBody, sentAt, eventSecret
		},
		"another time": func(h http.Header) (string, time.Time, string) {
			h.Set("webhook-timestamp", strconv.FormatInt(sentAt.Unix()+1, 10))
			return eventBody, sentAt, eventSecret
		},
		"no time": func(h http.Header) (string, time.Time, string) {
			h.Del("webhook-timestamp")
			return eventBody, sentAt, eventSecret
		},
		"no id": func(h http.Header) (string, time.Time, string) {
			h.Del("webhook-id")
			return eventBody, sentAt, eventSecret
		},
		"no signature": func(h http.Header) (string, time.Time, string) {
			h.Del("webhook-signature")
			return eventBody, sentAt, eventSecret
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := delivered(t, eventBody, eventSecret)
			body, at, secret := change(h)
			if e, err := VerifyEvent([]byte(body), h, at, secret); !errors.Is(err, ErrForged) {
				t.Errorf("%+v: %v", e, err)
			}
		})
	}
}

// What is signed and still no event is an error of its own: it was not forged.
func TestSignedTextThatIsNoEventIsAnError(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "[]", `{"id":"evt_1","version":7,"data":{}}`,
		`{"id":"evt_2","version":7,"data":{"payment":{"paymentId":"pay_1"}}}`,
		`{"id":"evt_1","data":{"payment":{"paymentId":"pay_1"}}}`,
		`{"id":"evt_1","version":7,"data":{"payment":{}}}`,
		`{"id":"evt_1","version":7,"data":{"payment":{"paymentId":"pay_1"},"refund":[]}}`,
		`{"id":"evt_1","version":7,"data":{"payment":{"paymentId":"pay_1"},"dispute":[]}}`} {
		e, err := VerifyEvent([]byte(body), delivered(t, body, eventSecret), sentAt, eventSecret)
		if err == nil || errors.Is(err, ErrForged) {
			t.Errorf("%q is %+v: %v", body, e, err)
		}
	}
}

func FuzzEvent(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte, signature, at string) {
		h := http.Header{}
		h.Set("webhook-id", "evt_1")
		h.Set("webhook-timestamp", at)
		h.Set("webhook-signature", signature)
		if e, err := VerifyEvent(body, h, sentAt, eventSecret); err == nil && !strings.Contains(signature, "v1,") {
			t.Errorf("%+v is taken with signature %q", e, signature)
		}
		if e, err := eventIn("evt_1", body); err == nil && (e.PaymentID == "" || e.Version == 0) {
			t.Errorf("%+v", e)
		}
	})
}
