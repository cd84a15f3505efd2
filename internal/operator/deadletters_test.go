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
func (f *fixture) lost(method string) deadletters.DeadLetter {
	f.t.Helper()
	f.lossy.Store(true)
	answer := f.pay(method)
	f.lossy.Store(false)
	if _, ok := answer.(payments.Pending); !ok {
		f.t.Fatalf("answer is %T %+v", answer, answer)
	}
	return f.put(f.about(deadletters.LookupsExhausted, `{}`))
}

// lostRefund is lost for a refund of the payment.
func (f *fixture) lostRefund(fault string) deadletters.DeadLetter {
	f.t.Helper()
	f.pay("pm_ok")
	key, err := idempotency.ParseKey(clientKey)
	if err != nil {
		f.t.Fatal(err)
	}
	k := payments.Keyed{Merchant: payment.Merchant{Tenant: "acme", PSP: native.Name, PSPAccount: "acme"}, Key: key}
	charge := payment.ID(scan[uuid.UUID](f, "SELECT id FROM payments"))
	f.lossy.Store(true)
	answer, err := f.service.Refund(f.t.Context(), k, charge, payment.RefundRequest{AmountCents: 2000, Reason: fault})
	f.lossy.Store(false)
	if _, ok := answer.(payments.Pending); !ok || err != nil {
		f.t.Fatalf("answer is %T %+v, %v", answer, answer, err)
	}
	about := deadletters.About{Tenant: "acme", Operation: payment.RefundOperation, Key: clientKey, Generation: 1}
	subject := scan[uuid.UUID](f, "SELECT id FROM refunds")
	return f.put(deadletters.DeadLetter{
		ID: uuid.Must(uuid.NewV7()), Kind: deadletters.LookupsExhausted, Finding: about.KeyFinding(subject),
		About:   &about,
		Subject: &subject, Reason: "the PSP says nothing", Evidence: []byte(`{}`),
	})
}

// about is a dead letter about the client's key.
func (f *fixture) about(kind deadletters.Kind, evidence string) deadletters.DeadLetter {
	f.t.Helper()
	about := deadletters.About{Tenant: "acme", Operation: payment.CreateOperation, Key: clientKey, Generation: 1}
	subject := pgtest.Value[uuid.UUID](f.t, f.pool, "SELECT subject FROM idempotency_keys")
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

func (f *fixture) put(l deadletters.DeadLetter) deadletters.DeadLetter {
	f.t.Helper()
	if err := f.db.Pipeline(f.t.Context(), deadletters.Open(l)); err != nil {
		f.t.Fatal(err)
	}
	return l
}
