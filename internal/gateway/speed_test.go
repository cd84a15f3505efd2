package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const taken = `{"id":"ch_1","object":"charge","account":"acme","idempotencyKey":"0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d",` +
	`"reference":"pay_01h455vb4pex5vsknk084sn02q","amountCents":12000,"currency":"USD","paymentMethod":"pm_ok",` +
	`"status":"succeeded","createdAt":"2026-11-20T21:00:00Z"}`

// instant is a PSP without a network.
type instant struct{}

func (instant) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(taken)), Request: r,
	}, nil
}

// BenchmarkCharge is all that a charge costs beside the transport: bulkhead, breaker, deadline, request, answer,
// verdict.
func BenchmarkCharge(b *testing.B) {
	c, err := New("http://psp.example", "secret", DefaultLimits(), time.Now, func(string, time.Duration) {})
	if err != nil {
		b.Fatal(err)
	}
	c.http.Transport = instant{}
	ch := Charge{
		Account: "acme", Key: "0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d", Reference: "pay_01h455vb4pex5vsknk084sn02q",
		AmountMinor: 12000, Currency: "USD", PaymentMethod: "pm_ok",
	}
	b.ReportAllocs()
	for b.Loop() {
		if o, ok := c.Charge(b.Context(), ch).(Succeeded); !ok {
			b.Fatal(o)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	want := terms{
		Account: "acme", IdempotencyKey: "0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d",
		Reference:   "pay_01h455vb4pex5vsknk084sn02q",
		AmountCents: 12000, Currency: "USD",
	}
	a := answer{status: http.StatusCreated, body: []byte(taken)}
	b.ReportAllocs()
	for b.Loop() {
		if o, ok := want.judge(a).(Succeeded); !ok {
			b.Fatal(o)
		}
	}
}
