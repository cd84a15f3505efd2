package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/gateway/stripe"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payment"
	"payonce/internal/query"
)

// stamp is a time as the API shows it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// wantForm checks that a row of a list has these members, and none of those.
func wantForm(t *testing.T, what string, row any, members, none []string) {
	t.Helper()
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if !strings.Contains(string(text), m) {
			t.Errorf("%s: %s is missing in %s", what, m, text)
		}
	}
	for _, m := range none {
		if strings.Contains(string(text), m) {
			t.Errorf("%s: %s is in %s", what, m, text)
		}
	}
}

func TestKeyInAListHasWhatItsRowHas(t *testing.T) {
	t.Parallel()
	id, now, created := uuid.Must(uuid.NewV7()), time.Now(), int16(201)
	wantForm(t, "completed", keyEntryOf(dbsqlc.ListKeysRow{Operation: payment.CreateOperation, Subject: id,
		Hold: "none", ResponseStatus: &created}),
		[]string{`"paymentId":"` + payment.ID(id).String() + `"`, `"responseStatus":201`},
		[]string{"refundId", "deadLetterHold", "unknownSince", "nextLookupAt"})
	wantForm(t, "unknown", keyEntryOf(dbsqlc.ListKeysRow{Operation: payment.RefundOperation, Subject: id,
		Hold: "release", UnknownSince: &now, ReconcileAfter: &now}),
		[]string{`"refundId":"` + payment.RefundID(id).String() + `"`, `"deadLetterHold":"release"`,
			`"unknownSince":"` + stamp(now), `"nextLookupAt":"` + stamp(now)},
		[]string{"paymentId", "responseStatus"})
}

// Each side of a break may be missing: that is what the break is about.
func TestBreakInAListHasTheSidesThatThereAre(t *testing.T) {
	t.Parallel()
	id, now, theirs, ours := uuid.Must(uuid.NewV7()), time.Now(), int64(700), int64(900)
	usd, status := "USD", "succeeded"
	wantForm(t, "missing here", breakEntryOf(dbsqlc.ListBreaksRow{Object: "charge", Reference: "order 7",
		Subject: &id, TheirAmountMinor: &theirs, TheirCurrency: &usd}),
		[]string{`"status":"open"`, `"theirs":{"amountCents":700,"currency":"USD"}`, `"reference":"order 7"`},
		[]string{"ours", "goneAt"})
	wantForm(t, "missing there, and gone", breakEntryOf(dbsqlc.ListBreaksRow{Object: "refund", Subject: &id,
		OurAmountMinor: &ours, OurCurrency: &usd, OurStatus: &status, GoneAt: &now}),
		[]string{`"status":"gone"`, `"ours":{"amountCents":900,"currency":"USD","status":"succeeded"}`,
			`"reference":"` + payment.RefundID(id).String() + `"`, `"goneAt":"` + stamp(now)},
		[]string{"theirs"})
	wantForm(t, "of nothing of ours", breakEntryOf(dbsqlc.ListBreaksRow{Object: "charge"}), nil,
		[]string{"reference", "ours", "theirs"})
}

// An event that this program ignores is shown with its type: an operator sees what else the PSP sends.
func TestWebhookInAListHasWhatItsBodySays(t *testing.T) {
	t.Parallel()
	limits := gateway.DefaultLimits()
	psp, err := stripe.New(stripe.Config{URL: "http://127.0.0.1:1", Secret: "sk_test_x", Limits: limits, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	other, err := native.New("http://127.0.0.1:1", pspSecret, limits, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	ops, now := New(Config{PSPs: gateway.PSPs{stripe.Name: psp, native.Name: other}}), time.Now()
	ignored := ops.webhookEntryOf(dbsqlc.ListWebhooksRow{ID: "stripe.evt_1", Result: "ignored", ProcessedAt: &now,
		Body: []byte(`{"object":"event","type":"payment_intent.succeeded","livemode":true}`)})
	wantForm(t, "ignored", ignored, []string{`"status":"ignored"`, `"type":"payment_intent.succeeded"`,
		`"processedAt":"` + stamp(now)}, []string{"pspId"})
	broken := ops.webhookEntryOf(dbsqlc.ListWebhooksRow{ID: "evt_1", Waiting: true, Body: []byte(`{`)})
	wantForm(t, "of no form", broken,
		[]string{`"status":"waiting"`, `"bytes":1`}, []string{"type", "processedAt"})
}

// A reader who is told that there is no more stops reading.
func TestPageSaysWhetherThereIsMore(t *testing.T) {
	t.Parallel()
	wantForm(t, "a page", query.List[int]{Rows: []int{7}, Next: "x"},
		[]string{`{"data":[7],"hasMore":true,"nextCursor":"x"}`}, nil)
	wantForm(t, "the last page", query.List[int]{Rows: []int{7}}, []string{`{"data":[7],"hasMore":false}`}, nil)
}

// The page of a dead letter that is about to be closed says so, and asks for no decision.
func TestOpenDeadLetterOfACompletedKeyIsAnswered(t *testing.T) {
	t.Parallel()
	entry := func(kind deadletters.Kind, key idempotency.Status) Entry {
		return Entry{DeadLetter: deadletters.DeadLetter{Kind: kind}, Key: key}
	}
	resolved := entry(deadletters.LookupsExhausted, idempotency.CompletedStatus)
	resolved.Resolution = &deadletters.Resolution{}
	for name, row := range map[string]struct {
		entry Entry
		want  bool
	}{
		"completed":       {entry(deadletters.LookupsExhausted, idempotency.CompletedStatus), true},
		"a failed job":    {entry(deadletters.JobDiscarded, idempotency.FailedRetryableStatus), true},
		"unknown":         {entry(deadletters.LookupsExhausted, idempotency.UnknownStatus), false},
		"another kind":    {entry(deadletters.ContradictsCompleted, idempotency.CompletedStatus), false},
		"resolved before": {resolved, false},
	} {
		if got := row.entry.Answered(); got != row.want {
			t.Errorf("%s: answered is %t", name, got)
		}
	}
}

func TestCaseHasThePaymentOrTheRefundAndWhatWasDecided(t *testing.T) {
	t.Parallel()
	at := time.Now()
	c := Case{AuditTrail: []deadletters.AuditEntry{{Detail: "no"}, {Done: true}}}
	c.Evidence = []byte(`{}`)
	wantForm(t, "of nothing", c, []string{`"outcome":"refused","detail":"no"`, `"outcome":"done"`},
		[]string{"paymentId", "paymentStatus", "refundId", "refundStatus", "resolution"})
	c.PaymentOrRefund = &PaymentOrRefund{Object: FoundPayment, ID: "pay_1", Status: payment.Succeeded}
	c.Resolution = &deadletters.Resolution{At: at, Action: deadletters.Dismiss, Actor: "ann", Reason: "seen"}
	wantForm(t, "of a payment", c, []string{`"paymentId":"pay_1"`, `"paymentStatus":"succeeded"`,
		`"resolution":{"at":"` + stamp(at) + `","action":"dismiss","actor":"ann","reason":"seen"}`},
		[]string{"refundId", "refundStatus"})
	c.PaymentOrRefund = &PaymentOrRefund{Object: FoundRefund, ID: "ref_1", Status: payment.Failed}
	wantForm(t, "of a refund", c, []string{`"refundId":"ref_1"`, `"refundStatus":"failed"`},
		[]string{"paymentId", "paymentStatus"})
}
