package operator

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// An operator searches for what a merchant has named, and decides about what is found. Each is found once, by its whole
// name or by its beginning, and nothing else is.
func TestSearchFindsEachOnceByItsNameOrItsBeginning(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec("INSERT INTO tenants (id, psp_account) VALUES ('globex', 'globex')")
	mine, other := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	o.movements("acme", mine)
	o.movements("globex", other)
	o.exec("ALTER TABLE payments DISABLE TRIGGER USER")
	o.exec("UPDATE payments SET reference = 'café #42' WHERE id = $1", mine)
	o.exec("UPDATE payments SET reference = 'café #421' WHERE id = $1", other)
	ref := idempotency.StoredRef("acme", payment.CreateOperation, clientKey)
	o.keyAsIs(ref, idempotency.CompletedStatus, mine)
	for _, other := range neighboursOf(ref) {
		if other.Tenant == "a-neighbour" {
			other.Tenant = "globex"
		}
		o.keyAsIs(other, idempotency.CompletedStatus, mine)
	}
	open := o.put(aboutKey(ref, &mine))
	aboutAnother := aboutOthers(ref, mine)["key"]
	o.put(aboutAnother)
	resolved := o.put(aboutKey(ref, &mine))
	o.done(decision(resolved, deadletters.Dismiss))
	o.put(alone(deadletters.UnknownMovement, `{}`))

	zero := alone(deadletters.UnknownMovement, `{}`)
	zero.ID[15] = 0
	o.put(zero)

	charge, refund := payment.ID(mine).String(), payment.RefundID(mine).String()
	ofPayment, ofRefund := "payment acme POST /payments "+charge, "refund acme POST /payments/{id}/refunds "+refund
	for _, row := range []struct {
		what, sought string
		want         []string
	}{
		{"a payment", charge, []string{ofPayment}},
		{"a refund", refund, []string{ofRefund}},
		{"a charge", "ch_" + mine.String(), []string{ofPayment}},
		{"a refund at the PSP", "re_" + mine.String(), []string{ofRefund}},
		{"a dead letter", open.ID.String(), []string{"dead_letter acme POST /payments " + open.ID.String()}},
		{"a dead letter that is resolved", resolved.ID.String(),
			[]string{"dead_letter acme POST /payments " + resolved.ID.String()}},
		{"a key", clientKey, []string{"dead_letter acme POST /payments " + open.ID.String(), "key acme POST /payments ",
			"key acme POST /payments/{id}/refunds ", "key globex POST /payments "}},
		{"a reference", "café #42", []string{ofPayment}},
		{"the beginning of a reference", "café #4", nil},
		{"an id of nothing", payment.ID(uuid.Must(uuid.NewV7())).String(), nil},
		{"a part of a name", clientKey[1:], nil},
		{"the beginning of a payment's id", charge[:29], []string{ofPayment}},
		{"the beginning of a refund's id", refund[:28], []string{ofRefund}},
		{"the beginning of a charge", ("ch_" + mine.String())[:38], []string{ofPayment}},
		{"the beginning of a refund at the PSP", ("re_" + mine.String())[:38], []string{ofRefund}},
		{"the beginning of a dead letter", zero.ID.String()[:34], []string{"dead_letter   " + zero.ID.String()}},
		{"the beginning of a key", clientKey[:4], []string{"dead_letter acme POST /payments " + open.ID.String(),
			"key acme POST /payments ", "key acme POST /payments/{id}/refunds ", "key globex POST /payments "}},
		{"a beginning that is too short", clientKey[:3], nil},
		{"what is an id but for its last character", zero.ID.String()[:35] + "g", nil},
	} {
		found, err := o.ops.Find(t.Context(), row.sought)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found.Rows {
			got = append(got, string(f.Type)+" "+f.Tenant+" "+f.Operation+" "+f.ID)
			if f.Type == FoundRefund && f.PaymentID != charge {
				t.Errorf("the refund is of %s", f.PaymentID)
			}
			if f.Type == FoundKey && f.Ref() == ref &&
				(f.PaymentID != charge || f.Amount != 12000 || f.MovementStatus != payment.Succeeded) {
				t.Errorf("the key does not name its payment: %+v", f)
			}
		}
		slices.Sort(got)
		wantNames(t, row.what, got, row.want...)
	}
}

// However many keys and cases begin like a key, its own are found; and a list that is not whole says so.
// Somebody who has a letter from the bank, or the provider's dashboard, has only that id.
func TestSearchFindsAPaymentByItsDispute(t *testing.T) {
	t.Parallel()
	o := setup(t)
	id := uuid.Must(uuid.NewV7())
	o.movements("acme", id)
	o.exec(`INSERT INTO disputes (tenant_id, payment_id, psp_id, amount_minor, currency, status, opened_at)
		VALUES ('acme', $1, 'dp_canary', 100, 'USD', 'won', now())`, id)
	for sought, want := range map[string]int{"dp_canary": 1, "dp_can": 1, "dp_cat": 0} {
		found, err := o.ops.Find(t.Context(), sought)
		if err != nil || len(found.Rows) != want || want == 1 && found.Rows[0].ID != payment.ID(id).String() {
			t.Errorf("%s: found %+v, %v", sought, found.Rows, err)
		}
	}
}

func TestSearchFindsTheWholeNameBeforeTheManyThatBeginWithIt(t *testing.T) {
	t.Parallel()
	o := setup(t)
	o.exec("INSERT INTO tenants (id, psp_account) VALUES ('zebra', 'zebra')")
	ref := idempotency.StoredRef("zebra", payment.CreateOperation, clientKey)
	o.keyAsIs(ref, idempotency.CompletedStatus, uuid.Must(uuid.NewV7()))
	for n := range maxFound {
		longer := idempotency.StoredRef("acme", payment.CreateOperation, clientKey+"-"+strconv.Itoa(n))
		o.keyAsIs(longer, idempotency.CompletedStatus, uuid.Must(uuid.NewV7()))
	}
	found, err := o.ops.Find(t.Context(), clientKey)
	if err != nil || len(found.Rows) != maxFound || !found.More || found.Rows[0].Ref() != ref {
		t.Errorf("found %d, more: %t, first %+v, %v", len(found.Rows), found.More, found.Rows[:1], err)
	}
	if found, err = o.ops.Find(t.Context(), clientKey+"-"); err != nil || len(found.Rows) != maxFound || found.More {
		t.Errorf("found %d, more: %t, %v", len(found.Rows), found.More, err)
	}
	subject := uuid.Must(uuid.NewV7())
	held := o.put(aboutKey(ref, &subject))
	o.exec(`INSERT INTO dead_letters (id, kind, finding, reason, evidence, tenant_id, operation, key, generation)
		SELECT gen_random_uuid(), 'unknown_movement', 'f' || n, 'a reason', '{}', 'acme', $2, $3 || '-' || n, 1
		FROM generate_series(1, $1::int) AS n`, maxFound+1, payment.CreateOperation, clientKey)
	found, err = o.ops.Find(t.Context(), clientKey)
	cases := slices.DeleteFunc(found.Rows, func(f Found) bool { return f.Type != FoundDeadLetter })
	if err != nil || len(cases) != maxFound || cases[0].ID != held.ID.String() {
		t.Errorf("found %d dead letters, first %+v, %v", len(cases), cases[:1], err)
	}
}

// The page of a payment shows what is open about its key, and nothing of another tenant's key that looks the same.
func TestWhatIsOpenAboutAKeyIsNotAboutItsNeighbours(t *testing.T) {
	t.Parallel()
	o := setup(t)
	ref, subject := idempotency.StoredRef("acme", payment.CreateOperation, clientKey), uuid.Must(uuid.NewV7())
	o.exec("INSERT INTO tenants (id, psp_account) VALUES ('a-neighbour', 'a-neighbour')")
	mine, others := o.put(aboutKey(ref, &subject)), aboutOthers(ref, subject)
	for _, part := range []string{"tenant", "operation", "key"} {
		o.put(others[part])
	}
	found, err := o.ops.OpenAbout(t.Context(), ref)
	if err != nil || len(found) != 1 || found[0].ID != mine.ID.String() {
		t.Errorf("found %+v, %v", found, err)
	}
}
