package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

func TestListNamesWhatEachDeadLetterIsAbout(t *testing.T) {
	t.Parallel()
	o := setup(t)
	refund := o.lostRefund("pm_ok")
	charge := deadletters.DeadLetter{
		ID: uuid.Must(uuid.NewV7()), Kind: deadletters.MissingAtPSP, Finding: "statement", Evidence: []byte(`{}`),
	}
	subject := scan[uuid.UUID](o, "SELECT id FROM payments")
	charge.Subject = &subject
	charge.About = &deadletters.About{Tenant: "acme", Operation: payment.CreateOperation, Key: clientKey,
		Generation: 1}
	o.put(charge)
	stray := uuid.Must(uuid.NewV7())
	lost := alone(deadletters.OtherAccount, `{}`)
	lost.Subject = &stray
	o.put(lost)
	nothing := o.put(alone(deadletters.UnknownMovement, `{}`))

	page, err := o.ops.listDeadLetters(t.Context(), deadletters.Filter{Status: deadletters.OpenStatus, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	got := map[uuid.UUID]string{}
	for _, e := range page.Rows {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got[e.ID] = string(raw)
	}
	for id, want := range map[uuid.UUID]string{
		refund.ID: `"refundId":"` + payment.RefundID(*refund.Subject).String() +
			`","tenant":"acme","operation":"POST /payments/{id}/refunds","key":"` + clientKey + `","generation":1,`,
		charge.ID: `"paymentId":"` + payment.ID(subject).String() +
			`","tenant":"acme","operation":"POST /payments","key":"` + clientKey + `","generation":1,`,
		lost.ID:    `"reason":"nobody asked for it","evidence":{}`,
		nothing.ID: `"reason":"nobody asked for it","evidence":{}`,
	} {
		if !strings.Contains(got[id], want) {
			t.Errorf("dead letter is %s, want %s", got[id], want)
		}
	}
	if len(page.Rows) != 4 || page.Next != "" {
		t.Errorf("%d dead letters, next %v", len(page.Rows), page.Next)
	}
}

func TestCaseShowsTheKeyAsItStandsNow(t *testing.T) {
	t.Parallel()
	o := setup(t)
	l := o.lost("pm_ok")
	c := o.show(l.ID)
	if c.Key != idempotency.UnknownStatus || c.PaymentOrRefund.Status != payment.Processing || len(c.Timeline) != 2 ||
		len(c.AuditTrail) != 0 {
		t.Fatalf("case is %+v", c)
	}
	o.done(decision(l, deadletters.Executed))
	c = o.show(l.ID)
	if c.Key != idempotency.CompletedStatus || c.PaymentOrRefund.Status != payment.Succeeded ||
		len(c.AuditTrail) != 1 || len(c.Timeline) != 3 {
		t.Fatalf("case is %+v", c)
	}
}

// The key's status would be that of another request.
func TestCaseOfAnEarlierGenerationHasNoKeyStatus(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.pay("pm_ok")
	later := o.about(deadletters.LateAfterExpiry, `{}`)
	later.About.Generation = 2
	if c := o.show(o.put(later).ID); c.Key != "" {
		t.Errorf("key is %s", c.Key)
	}
	gone := o.about(deadletters.PSPMemoryOver, `{}`)
	gone.About.Key = "another-key-000001"
	if c := o.show(o.put(gone).ID); c.Key != "" || len(c.Timeline) != 0 {
		t.Errorf("case is %+v", c)
	}
	if c := o.show(o.put(alone(deadletters.UnknownMovement, `{}`)).ID); c.Key != "" || len(c.Timeline) != 0 ||
		c.PaymentOrRefund != nil {
		t.Errorf("case is %+v", c)
	}
}

func TestCaseHasThePaymentOrTheRefundAndWhatWasDecided(t *testing.T) {
	t.Parallel()
	at := time.Now()
	c := Case{AuditTrail: []deadletters.AuditEntry{{Outcome: "refused", Detail: "no"}, {Outcome: "done"}}}
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

// A dead letter shows the payment of its own tenant with its own id. A dead letter without a tenant shows none.
func TestDeadLetterShowsNoPaymentOfAnother(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref := idempotency.StoredRef("acme", payment.CreateOperation, clientKey)
	mine, others, refund := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	o.movements("a-neighbour", mine)
	o.movements("acme", others)
	o.exec(`INSERT INTO refunds (tenant_id, id, payment_id, idempotency_key, generation, amount_minor, currency, status)
		VALUES ('acme', $1, $2, 'order-1', 1, 100, 'USD', 'processing')`, refund, others)
	o.put(aboutKey(ref, &mine))
	for _, subject := range []uuid.UUID{others, refund} {
		noTenant := alone(deadletters.OtherAccount, `{}`)
		noTenant.Subject = &subject
		o.put(noTenant)
	}
	page, err := o.ops.listDeadLetters(t.Context(), deadletters.Filter{Status: deadletters.OpenStatus, Limit: 10})
	if err != nil || len(page.Rows) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, e := range page.Rows {
		if e.PaymentOrRefund != nil {
			t.Errorf("%s shows %+v", e.Kind, e.PaymentOrRefund)
		}
	}
}
