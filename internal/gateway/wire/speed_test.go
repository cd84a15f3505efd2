package wire_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
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
// verdict. The dialect
// is the mock's own.
func BenchmarkCharge(b *testing.B) {
	c, err := native.New("http://psp.example", "secret", gateway.DefaultLimits(), nil, time.Now,
		func(string, time.Duration) {})
	if err != nil {
		b.Fatal(err)
	}
	c.SetTransport(instant{})
	ch := gateway.Charge{
		Account: "acme", Key: "0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d", Reference: "pay_01h455vb4pex5vsknk084sn02q",
		AmountMinor: 12000, Currency: "USD", PaymentMethod: "pm_ok",
	}
	b.ReportAllocs()
	for b.Loop() {
		if o, ok := c.Charge(b.Context(), ch).(gateway.Succeeded); !ok {
			b.Fatal(o)
		}
	}
}
