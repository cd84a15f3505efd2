package payments

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgtest"
)

// What the tables refuse by themselves, from every writer: our own statements, a script, a person at a psql prompt.

const (
	paymentUUID = "'01890a5d-ac96-774b-bcce-b302099a8057'"
	refundUUID  = "'01890a5d-ac96-774b-bcce-b302099a8058'"
)

// columns are SQL expressions by column.
type columns map[string]string

func insertInto(table string, c columns) string {
	names := slices.Sorted(maps.Keys(c))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = c[name]
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")"
}

func paymentRow(changes columns) string {
	c := columns{
		"id": paymentUUID, "tenant_id": "'acme'", "idempotency_key": "'order-0000000042'", "generation": "1",
		"customer_id":  "'cus-1'",
		"amount_minor": "12000", "currency": "'USD'", "payment_method": "'pm_ok'", "status": "'succeeded'",
		"psp_charge_id": "'ch_1'",
	}
	maps.Copy(c, changes)
	return insertInto("payments", c)
}

func refundRow(changes columns) string {
	c := columns{
		"id": refundUUID, "payment_id": paymentUUID, "tenant_id": "'acme'", "idempotency_key": "'refund-000000042'",
		"generation":   "1",
		"amount_minor": "4500", "currency": "'USD'", "status": "'succeeded'", "psp_refund_id": "'rf_1'",
	}
	maps.Copy(c, changes)
	return insertInto("refunds", c)
}

// refusal runs statements in a transaction that never commits, and names the constraint that the last one broke.
func refusal(t *testing.T, pool *pgxpool.Pool, statements ...string) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	for i, sql := range statements {
		_, err = tx.Exec(t.Context(), sql)
		if err == nil {
			continue
		}
		if i < len(statements)-1 {
			t.Fatalf("%s: %v", sql, err)
		}
		return pgtest.RefusedBy(t, err)
	}
	return ""
}

func TestPaymentsThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, c := range []struct {
		changes columns
		by      string
	}{
		{columns{}, ""},
		{columns{"amount_minor": "1"}, ""},
		{columns{"amount_minor": "999999999999"}, ""},
		{columns{"amount_minor": "0"}, "payments_amount_in_range"},
		{columns{"amount_minor": "-1"}, "payments_amount_in_range"},
		{columns{"amount_minor": "1000000000000"}, "payments_amount_in_range"},
		{columns{"currency": "'usd'"}, "payments_currency_is_iso_4217"},
		{columns{"currency": "'USDX'"}, "payments_currency_is_iso_4217"},
		{columns{"status": "'paid'"}, "payments_status_known"},
		{columns{"psp_charge_id": "NULL"}, "payments_fits_its_status"},
		{columns{"status": "'processing'", "psp_charge_id": "NULL"}, ""},
		{columns{"status": "'failed'", "psp_charge_id": "NULL"}, ""},
		{columns{"status": "'declined'", "decline_code": "'no'"}, ""},
		{columns{"status": "'declined'"}, "payments_fits_its_status"},
		{columns{"decline_code": "'no'"}, "payments_fits_its_status"},
		{columns{"status": "'failed'", "decline_code": "'no'"}, "payments_fits_its_status"},
		{columns{"refund_held_minor": "12000", "refunded_minor": "12000"}, ""},
		{columns{"refund_held_minor": "12001"}, "payments_refunds_within_amount"},
		{columns{"refund_held_minor": "100", "refunded_minor": "101"}, "payments_refunds_within_amount"},
		{columns{"refunded_minor": "1"}, "payments_refunds_within_amount"},
		{columns{"refund_held_minor": "1", "refunded_minor": "-1"}, "payments_refunds_within_amount"},
		{columns{"status": "'processing'", "psp_charge_id": "NULL", "refund_held_minor": "1"},
			"payments_fits_its_status"},
		{columns{"status": "'processing'", "psp_charge_id": "NULL", "refunded_minor": "1"}, "payments_fits_its_status"},
		{columns{"status": "'declined'", "decline_code": "'no'", "refund_held_minor": "1"}, "payments_fits_its_status"},
		{columns{"status": "'declined'", "decline_code": "'no'", "refunded_minor": "1"}, "payments_fits_its_status"},
	} {
		if got := refusal(t, pool, paymentRow(c.changes)); got != c.by {
			t.Errorf("%v: refused by %q, want %q", c.changes, got, c.by)
		}
	}
	second := paymentRow(columns{"id": "gen_random_uuid()"})
	if got := refusal(t, pool, paymentRow(nil), second); got != "payments_psp_charge_unique" {
		t.Errorf("one charge for two payments: refused by %q", got)
	}
	if got := refusal(t, pool, paymentRow(nil),
		paymentRow(columns{"psp_charge_id": "'ch_2'"})); got != "payments_pkey" {
		t.Errorf("one id for two payments: refused by %q", got)
	}
}

func TestRefundsThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, c := range []struct {
		changes columns
		by      string
	}{
		{columns{}, ""},
		{columns{"amount_minor": "0"}, "refunds_amount_positive"},
		{columns{"amount_minor": "-1"}, "refunds_amount_positive"},
		{columns{"currency": "'usd'"}, "refunds_currency_check"},
		{columns{"status": "'paid'"}, "refunds_status_known"},
		{columns{"psp_refund_id": "NULL"}, "refunds_psp_id_iff_succeeded"},
		{columns{"status": "'processing'", "psp_refund_id": "NULL"}, ""},
		{columns{"status": "'declined'", "decline_code": "'no'"}, ""},
		{columns{"status": "'declined'"}, "refunds_decline_code_iff_declined"},
		{columns{"decline_code": "'no'"}, "refunds_decline_code_iff_declined"},
		{columns{"payment_id": "gen_random_uuid()"}, "refunds_payment_id_fkey"},
	} {
		got := refusal(t, pool, paymentRow(nil), refundRow(c.changes))
		if got != c.by {
			t.Errorf("%v: refused by %q, want %q", c.changes, got, c.by)
		}
	}
	second := refundRow(columns{"id": "gen_random_uuid()"})
	if got := refusal(t, pool, paymentRow(nil), refundRow(nil), second); got != "refunds_psp_refund_unique" {
		t.Errorf("one refund of the PSP's for two of ours: refused by %q", got)
	}
	if got := refusal(t, pool, paymentRow(nil), refundRow(nil),
		"DELETE FROM payments"); got != "history_is_append_only" {
		t.Errorf("a payment deleted below its refund: refused by %q", got)
	}
}

func TestOutsideMovementsThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	row := columns{
		"tenant_id": "'acme'", "payment_id": paymentUUID, "object": "'refund'", "psp_id": "'rf_2'",
		"amount_minor": "500", "currency": "'USD'", "status": "'succeeded'",
	}
	for _, c := range []struct {
		changes columns
		by      string
	}{
		{columns{}, ""},
		{columns{"object": "'dispute'", "status": "'pending'", "amount_minor": "0"}, ""},
		{columns{"object": "'reversal'", "status": "'declined'"}, ""},
		{columns{"object": "'charge'"}, "outside_movements_object_check"},
		{columns{"amount_minor": "-1"}, "outside_movements_amount_minor_check"},
		{columns{"currency": "'usd'"}, "outside_movements_currency_check"},
		{columns{"status": "'paid'"}, "outside_movements_status_known"},
		{columns{"payment_id": refundUUID}, "outside_movements_payment_id_fkey"},
	} {
		changed := maps.Clone(row)
		maps.Copy(changed, c.changes)
		if got := refusal(t, pool, paymentRow(nil), insertInto("outside_movements", changed)); got != c.by {
			t.Errorf("%v: refused by %q, want %q", c.changes, got, c.by)
		}
	}
}

// verdicts are rows that the PSP has decided, for either table.
func verdicts() map[string]columns {
	return map[string]columns{
		"succeeded": {"status": "'succeeded'"},
		"declined":  {"status": "'declined'", "decline_code": "'no'"},
	}
}

func TestVerdictIsFinal(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for table, row := range map[string]func(columns) string{"payments": paymentRow, "refunds": refundRow} {
		pspID := map[string]string{"payments": "psp_charge_id", "refunds": "psp_refund_id"}[table]
		for status, verdict := range verdicts() {
			before := []string{row(verdict)}
			if table == "refunds" {
				before = []string{paymentRow(nil), row(verdict)}
			}
			for _, set := range []string{
				"status = 'processing', decline_code = NULL", "status = 'failed', decline_code = NULL", pspID +
					" = 'another'", pspID + " = NULL",
				map[string]string{"succeeded": "status = 'declined', decline_code = 'no'",
					"declined": "status = 'succeeded', decline_code = NULL"}[status],
			} {
				got := refusal(t, pool, append(slices.Clone(before), "UPDATE "+table+" SET "+set)...)
				if got != "movement_verdict_is_final" {
					t.Errorf("%s, %s: %s: refused by %q", table, status, set, got)
				}
			}
		}
	}
}

// An operator confirms what the PSP does not name yet. When it does, its id takes the place of ours. And a statement
// that changes nothing may come again.
func TestVerdictTakesThePSPsID(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for table, before := range map[string][]string{
		"payments": {paymentRow(columns{"psp_charge_id": "'operator:1'"})},
		"refunds":  {paymentRow(nil), refundRow(columns{"psp_refund_id": "'operator:1'"})},
	} {
		pspID := map[string]string{"payments": "psp_charge_id", "refunds": "psp_refund_id"}[table]
		set := "UPDATE " + table + " SET " + pspID + " = 'psp_1'"
		if got := refusal(t, pool, append(before, set, set)...); got != "" {
			t.Errorf("%s: refused by %q", table, got)
		}
	}
}

// Who pays what to whom is fixed from the start, whatever the status, and nothing disappears.
func TestTermsAreFixedAndNothingIsDeleted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	open := columns{"status": "'processing'", "psp_charge_id": "NULL"}
	openRefund := columns{"status": "'processing'", "psp_refund_id": "NULL"}
	for _, statement := range []string{
		"UPDATE payments SET id = gen_random_uuid()", "UPDATE payments SET tenant_id = 'other'",
		"UPDATE payments SET idempotency_key = 'other'",
		"UPDATE payments SET generation = generation + 1", "UPDATE payments SET customer_id = 'other'",
		"UPDATE payments SET amount_minor = amount_minor - 1", "UPDATE payments SET currency = 'EUR'",
		"UPDATE payments SET payment_method = 'pm_other'",
		"UPDATE payments SET created_at = created_at - interval '1 day'",
		"DELETE FROM payments", "TRUNCATE payments CASCADE",
		"UPDATE refunds SET id = gen_random_uuid()", "UPDATE refunds SET tenant_id = 'other'",
		"UPDATE refunds SET idempotency_key = 'other'",
		"UPDATE refunds SET generation = generation + 1", "UPDATE refunds SET amount_minor = amount_minor - 1",
		"UPDATE refunds SET currency = 'EUR'", "UPDATE refunds SET created_at = created_at - interval '1 day'",
		"UPDATE refunds SET payment_id = gen_random_uuid()", "DELETE FROM refunds", "TRUNCATE refunds",
		"TRUNCATE idempotency_keys", "TRUNCATE idempotency_key_events",
	} {
		for _, rows := range [][]string{{paymentRow(nil), refundRow(openRefund)}, {paymentRow(open)}} {
			if strings.Contains(statement, "refunds") && len(rows) == 1 && !strings.HasPrefix(statement, "TRUNCATE") {
				continue // no row to change or delete
			}
			if got := refusal(t, pool, append(slices.Clone(rows), statement)...); got != "history_is_append_only" {
				t.Errorf("%s: refused by %q", statement, got)
			}
		}
	}
}

// What is no verdict moves on: failed means that nothing was executed, and late evidence may still bring a verdict.
func TestWhatIsNoVerdictMovesOn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	open := columns{"status": "'processing'", "psp_charge_id": "NULL"}
	for _, updates := range [][]string{
		{"status = 'succeeded', psp_charge_id = 'ch_1'"},
		{"status = 'declined', decline_code = 'no'"},
		{"status = 'failed'", "status = 'processing'", "status = 'succeeded', psp_charge_id = 'ch_1'"},
		{"status = 'failed'", "status = 'succeeded', psp_charge_id = 'ch_1'"},
	} {
		statements := []string{paymentRow(open)}
		for _, set := range updates {
			statements = append(statements, "UPDATE payments SET "+set)
		}
		if got := refusal(t, pool, statements...); got != "" {
			t.Errorf("%v: refused by %q", updates, got)
		}
	}
	// Refunds hold their share of a payment that has its verdict.
	if got := refusal(t, pool, paymentRow(nil),
		"UPDATE payments SET refund_held_minor = 12000, refunded_minor = 4500"); got != "" {
		t.Errorf("the totals of refunds: refused by %q", got)
	}
}

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
	p := is[payment.Payment](t, is[Pending](t, s.create("order-0000000001", order())).Resource)
	ref := idempotency.StoredRef("acme", payment.CreateOperation, p.Key)
	c, err := s.service.gather(t.Context(), idempotency.Execution{Ref: ref, Subject: uuid.UUID(p.ID), Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	found := is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, declinedAs(recordOf(c, "psp_no"), "no_money")))
	row, err := s.keys.Find(t.Context(), ref)
	if err != nil || row.Status != idempotency.UnknownStatus {
		t.Errorf("%+v, and the key is %s: %v", found, row.Status, err)
	}
	if n := s.count(`SELECT count(*) FROM dead_letters WHERE evidence #>> '{answer,id}' = 'psp_odd'
		AND evidence #>> '{answer,amountCents}' = '12001' AND evidence #>> '{answer,reference}' = $1`, p.ID.String()); n != 1 {
		t.Errorf("%s", s.texts("SELECT evidence::text FROM dead_letters"))
	}
}
