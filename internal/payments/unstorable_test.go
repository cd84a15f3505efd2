package payments

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// The database's jsonb cannot store every answer: here a member that nobody reads has a number with an exponent. That
// the answer says that money moved must be kept all the same, or the client is told of a decline later, and pays again
// under another key.
func TestDeclineIsNotToldBesideAnAnswerThatCannotBeStored(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onPost(func(w http.ResponseWriter, asked gateway.Record) {
		asked.ID, asked.Status, asked.AmountMinor = "psp_odd", "succeeded", asked.AmountMinor+1
		w.WriteHeader(http.StatusCreated)
		w.Write(append([]byte(`{"rate":1.3e0,`), asked.Evidence()[1:]...))
	})
	p := is[Payment](t, is[Pending](t, s.create("order-0000000001", order())).Resource)
	ref := idempotency.StoredRef("acme", CreateOperation, p.Key)
	c, err := s.service.gather(t.Context(), idempotency.Execution{Ref: ref, Subject: uuid.UUID(p.ID), Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	found := is[DeadLettered](t, s.evidenceBy(SourceWebhook, declinedAs(recordOf(c, "psp_no"), "no_money")))
	row, err := s.keys.Find(t.Context(), ref)
	if err != nil || row.Status != idempotency.UnknownStatus {
		t.Errorf("%+v, and the key is %s: %v", found, row.Status, err)
	}
	if n := s.count(`SELECT count(*) FROM dead_letters WHERE evidence #>> '{answer,id}' = 'psp_odd'
		AND evidence #>> '{answer,amountCents}' = '12001' AND evidence #>> '{answer,reference}' = $1`, p.ID.String()); n != 1 {
		t.Errorf("%s", s.texts("SELECT evidence::text FROM dead_letters"))
	}
}
