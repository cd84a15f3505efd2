package native_test

import (
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
)

// The PSP's records of aCharge and aRefund.
const (
	chargeHeld = `{"id":"ch_1","object":"charge","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"pay_canary","amountCents":12000,"currency":"USD","paymentMethod":"pm_canary","status":"succeeded",` +
		`"createdAt":"2026-11-20T12:00:00.000001Z"}`
	chargeRefused = `{"id":"ch_2","object":"charge","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"pay_canary","amountCents":12000,"currency":"USD","status":"declined","declineCode":"insufficient_funds",` +
		`"createdAt":"2026-11-20T12:00:00.000002Z"}`
	refundHeld = `{"id":"rf_1","object":"refund","account":"canary-account","idempotencyKey":"canary-key-0123456789",` +
		`"reference":"re_canary","chargeId":"ch_1","amountCents":500,"currency":"USD","reason":"canary reason","status":"succeeded",` +
		`"createdAt":"2026-11-20T12:00:00.000003Z"}`
)

// noon is when the ledger of these tests begins.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func parsed(t *testing.T, raw string) gateway.Record {
	t.Helper()
	r, err := native.ParseRecord([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Records are read as package gateway reads what it has stored, but for the code of a refund.
func TestRecordOfARefundThatExceedsItsChargeSaysThatTheMoneyHasMoved(t *testing.T) {
	t.Parallel()
	r := parsed(t, replace(chargeRefused, "insufficient_funds", "refund_exceeds_charge"))
	if r.DeclineCode != gateway.AlreadyMoved {
		t.Fatalf("record %+v", r)
	}
}
