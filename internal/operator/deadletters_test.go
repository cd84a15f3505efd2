package operator

import (
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/test/pgtest"
)

// lost makes an unknown key: the PSP has done what the method says, and its answer was lost. A dead letter about the
// key is open.
func (o *fixture) lost(method string) deadletters.DeadLetter {
	o.t.Helper()
	o.lossy.Store(true)
	answer := o.pay(method)
	o.lossy.Store(false)
	if _, ok := answer.(payments.Pending); !ok {
		o.t.Fatalf("answer is %T %+v", answer, answer)
	}
	return o.put(o.about(deadletters.LookupsExhausted, `{}`))
}

// lostRefund is lost for a refund of the payment.
func (o *fixture) lostRefund(fault string) deadletters.DeadLetter {
	o.t.Helper()
	o.pay("pm_ok")
	key, err := idempotency.ParseKey(clientKey)
	if err != nil {
		o.t.Fatal(err)
	}
	k := payments.Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key}
	charge := payment.ID(scan[uuid.UUID](o, "SELECT id FROM payments"))
	o.lossy.Store(true)
	answer, err := o.service.Refund(o.t.Context(), k, charge, payment.RefundRequest{AmountCents: 2000, Reason: fault})
	o.lossy.Store(false)
	if _, ok := answer.(payments.Pending); !ok || err != nil {
		o.t.Fatalf("answer is %T %+v, %v", answer, answer, err)
	}
	about := deadletters.About{Tenant: "acme", Operation: payment.RefundOperation, Key: clientKey, Generation: 1}
	subject := scan[uuid.UUID](o, "SELECT id FROM refunds")
	return o.put(deadletters.DeadLetter{
		ID: uuid.Must(uuid.NewV7()), Kind: deadletters.LookupsExhausted, Finding: about.KeyFinding(subject),
		About:   &about,
		Subject: &subject, Reason: "the PSP says nothing", Evidence: []byte(`{}`),
	})
}

// about is a dead letter about the client's key.
func (o *fixture) about(kind deadletters.Kind, evidence string) deadletters.DeadLetter {
	o.t.Helper()
	about := deadletters.About{Tenant: "acme", Operation: payment.CreateOperation, Key: clientKey, Generation: 1}
	subject := pgtest.Value[uuid.UUID](o.t, o.pool, "SELECT subject FROM idempotency_keys")
	return deadletters.DeadLetter{
		ID: uuid.Must(uuid.NewV7()), Kind: kind, Finding: about.KeyFinding(subject), About: &about, Subject: &subject,
		Reason: "the PSP says nothing", Evidence: []byte(evidence),
	}
}

// alone is a dead letter about no key.
func alone(kind deadletters.Kind, evidence string) deadletters.DeadLetter {
	id := uuid.Must(uuid.NewV7())
	return deadletters.DeadLetter{ID: id, Kind: kind, Finding: "finding " + id.String(), Reason: "nobody asked for it",
		Evidence: []byte(evidence)}
}

func (o *fixture) put(l deadletters.DeadLetter) deadletters.DeadLetter {
	o.t.Helper()
	if err := o.db.Pipeline(o.t.Context(), deadletters.Open(l)); err != nil {
		o.t.Fatal(err)
	}
	return l
}
