package native

import (
	"net/http"
	"testing"

	"payonce/internal/gateway"
)

const taken = `{"id":"ch_1","object":"charge","account":"acme","idempotencyKey":"0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d",` +
	`"reference":"pay_01h455vb4pex5vsknk084sn02q","amountCents":12000,"currency":"USD","paymentMethod":"pm_ok",` +
	`"status":"succeeded","createdAt":"2026-11-20T21:00:00Z"}`

func BenchmarkJudge(b *testing.B) {
	want := gateway.Charge{
		Account: "acme", Key: "0193e7a0-5f4e-7c1b-8a53-2f1d0e6b9c4d", Reference: "pay_01h455vb4pex5vsknk084sn02q",
		AmountMinor: 12000, Currency: "USD",
	}.Wanted()
	a := answer{status: http.StatusCreated, body: []byte(taken)}
	b.ReportAllocs()
	for b.Loop() {
		if o, ok := judge(want, a).(gateway.Succeeded); !ok {
			b.Fatal(o)
		}
	}
}
