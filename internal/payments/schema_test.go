package payments

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/payments/internal/dbsqlc"
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

func TestDisputesThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	row := columns{
		"tenant_id": "'acme'", "payment_id": paymentUUID, "psp_id": "'dp_2'", "opened_at": "now()",
		"amount_minor": "500", "currency": "'USD'", "status": "'lost'",
	}
	for _, c := range []struct {
		changes columns
		by      string
	}{
		{columns{}, ""},
		{columns{"status": "'inquiry'", "amount_minor": "0"}, ""},
		{columns{"amount_minor": "-1"}, "disputes_amount_minor_check"},
		{columns{"currency": "'usd'"}, "disputes_currency_check"},
		{columns{"status": "'paid'"}, "disputes_status_known"},
		{columns{"payment_id": refundUUID}, "disputes_payment_id_fkey"},
	} {
		changed := maps.Clone(row)
		maps.Copy(changed, c.changes)
		if got := refusal(t, pool, paymentRow(nil), insertInto("disputes", changed)); got != c.by {
			t.Errorf("%v: refused by %q, want %q", c.changes, got, c.by)
		}
	}
}

// A refund that others have made has no key of ours, and an id at the PSP. Ours may come back, and only after success.
func TestRefundsOfOthersAndThoseThatCameBackThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	elsewhere := columns{"origin": "'provider'", "idempotency_key": "''"}
	with := func(more columns) columns {
		changed := maps.Clone(elsewhere)
		maps.Copy(changed, more)
		return changed
	}
	for _, c := range []struct {
		row   columns
		after string
		by    string
	}{
		{elsewhere, "", ""},
		{with(columns{"status": "'reversed'"}), "", ""},
		{with(columns{"origin": "'bank'"}), "", "refunds_origin_check"},
		{with(columns{"idempotency_key": "'a-key-0000000001'"}), "", "refunds_key_iff_ours"},
		{columns{"idempotency_key": "''"}, "", "refunds_key_iff_ours"},
		{with(columns{"status": "'processing'", "psp_refund_id": "NULL"}), "", "refunds_psp_id_iff_succeeded"},
		{columns{"status": "'reversed'", "psp_refund_id": "NULL"}, "", "refunds_psp_id_iff_succeeded"},
		{columns{}, "UPDATE refunds SET status = 'reversed', decline_code = 'expired_card'", ""},
		{columns{}, "UPDATE refunds SET origin = 'provider', idempotency_key = ''", "history_is_append_only"},
		{columns{"status": "'reversed'"}, "UPDATE refunds SET status = 'succeeded'", "movement_verdict_is_final"},
		{columns{"status": "'reversed'"}, "UPDATE refunds SET psp_refund_id = 'rf_9'", "movement_verdict_is_final"},
		{columns{"status": "'declined'", "decline_code": "'x'"}, "UPDATE refunds SET status = 'reversed'",
			"movement_verdict_is_final"},
	} {
		statements := []string{paymentRow(nil), refundRow(c.row), c.after}
		if c.after == "" {
			statements = statements[:2]
		}
		if got := refusal(t, pool, statements...); got != c.by {
			t.Errorf("%v, %s: refused by %q, want %q", c.row, c.after, got, c.by)
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
		"UPDATE payments SET payment_method = 'pm_other'", "UPDATE payments SET reference = 'other'",
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

// Updates of a payment, each in the order in which it would come.
const (
	remembers = "UPDATE payments SET psp_object_id = 'pi_1'"
	fails     = "UPDATE payments SET status = 'failed'"
	resumes   = "UPDATE payments SET status = 'processing', psp_object_id = NULL"
	succeeds  = "UPDATE payments SET status = 'succeeded', psp_charge_id = 'ch_1'"
	declines  = "UPDATE payments SET status = 'declined', decline_code = 'no'"
)

// Two objects of one payment could both be executed.
func TestObjectOfAPaymentIsRememberedOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const once = "payments_object_remembered_once"
	open := paymentRow(columns{"status": "'processing'", "psp_charge_id": "NULL"})
	for name, c := range map[string]struct {
		updates []string
		by      string
	}{
		"set":                      {[]string{remembers}, ""},
		"set again to the same id": {[]string{remembers, remembers}, ""},
		"set to another id":        {[]string{remembers, "UPDATE payments SET psp_object_id = 'pi_2'"}, once},
		"cleared while processing": {[]string{remembers, "UPDATE payments SET psp_object_id = NULL"}, once},
		"set when failed":          {[]string{fails, remembers}, once},
		"set when declined":        {[]string{declines, remembers}, once},
		"set when succeeded":       {[]string{succeeds, remembers}, once},
		"set by a failure":         {[]string{fails + ", psp_object_id = 'pi_1'"}, once},
		"set by a resumption": {[]string{fails,
			"UPDATE payments SET status = 'processing', psp_object_id = 'pi_1'"}, once},
		"replaced by a resumption": {[]string{remembers, fails,
			"UPDATE payments SET status = 'processing', psp_object_id = 'pi_2'"}, once},
		"resumed": {[]string{remembers, fails, resumes, "UPDATE payments SET psp_object_id = 'pi_2'"},
			""},
		"resumed without":        {[]string{fails, resumes, succeeds}, ""},
		"executed":               {[]string{remembers, succeeds}, ""},
		"executed after failing": {[]string{remembers, fails, succeeds}, ""},
		"cleared when failed":    {[]string{remembers, fails, "UPDATE payments SET psp_object_id = NULL"}, once},
		"cleared by a failure":   {[]string{remembers, fails + ", psp_object_id = NULL"}, once},
		"cleared by a late verdict": {[]string{remembers, fails, succeeds + ", psp_object_id = NULL"},
			once},
		"cleared when declined": {[]string{remembers, declines, "UPDATE payments SET psp_object_id = NULL"}, once},
		"longest":               {[]string{"UPDATE payments SET psp_object_id = repeat('!', 254) || '~'"}, ""},
		"too long":              {[]string{"UPDATE payments SET psp_object_id = repeat('x', 256)"}, once},
		"empty":                 {[]string{"UPDATE payments SET psp_object_id = ''"}, once},
		"with a space":          {[]string{"UPDATE payments SET psp_object_id = 'pi 1'"}, once},
		"with a line's end":     {[]string{`UPDATE payments SET psp_object_id = E'pi_1\n'`}, once},
		"with a control":        {[]string{`UPDATE payments SET psp_object_id = E'pi_1\x7f'`}, once},
		"not ASCII":             {[]string{"UPDATE payments SET psp_object_id = 'pi_ä'"}, once},
	} {
		if got := refusal(t, pool, append([]string{open}, c.updates...)...); got != c.by {
			t.Errorf("%s: refused by %q, want %q", name, got, c.by)
		}
	}
}

// A statement of a provider with one step does not set the column, and must not pay for its guard.
func TestGuardOfTheObjectIsAskedForItsColumnOnly(t *testing.T) {
	t.Parallel()
	var columns []string
	err := pgtest.New(t).QueryRow(t.Context(), `
		SELECT array_agg(a.attname::text) FROM pg_trigger AS t JOIN pg_attribute AS a ON a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)
		WHERE t.tgname = 'payments_object_remembered_once'`).Scan(&columns)
	if err != nil || !slices.Equal(columns, []string{"psp_object_id"}) {
		t.Fatalf("%q, %v", columns, err)
	}
	for name, write := range map[string]func(*dbsqlc.Queries){
		"begin": func(q *dbsqlc.Queries) { _, _ = q.BeginPayments(t.Context(), dbsqlc.BeginPaymentsParams{}) },
		"record": func(q *dbsqlc.Queries) {
			_, _ = q.RecordPayments(t.Context(), dbsqlc.RecordPaymentsParams{})
		},
	} {
		heard := &pgtest.Overheard{}
		write(dbsqlc.New(heard))
		if written, _, _ := strings.Cut(heard.SQL, "RETURNING"); strings.Contains(written, "psp_object_id") {
			t.Errorf("%s sets the column:\n%s", name, heard.SQL)
		}
	}
}
