package payments

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

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

// remember asks to store an object's id, and says how many rows were written.
func (s *shop) remember(p dbsqlc.RememberObjectParams) (rows int64) {
	s.t.Helper()
	s.mustSend(func(ctx context.Context, q postgres.Statement) (err error) {
		rows, err = dbsqlc.New(q).RememberObject(ctx, p)
		return err
	})
	return rows
}

func (s *shop) remembered(id uuid.UUID) string {
	s.t.Helper()
	object := pgtest.Value[*string](s.t, s.pool, "SELECT psp_object_id FROM payments WHERE id = $1", id)
	return postgres.Text(object)
}

// rememberedBy are the parameters of the owner of a lease.
func rememberedBy(l idempotency.Lease, object string) dbsqlc.RememberObjectParams {
	return dbsqlc.RememberObjectParams{
		ObjectID: object, TenantID: l.Ref.Tenant, ID: l.Subject, Operation: string(l.Ref.Operation),
		Key: l.Ref.Key.String(), LeaseID: l.LeaseID,
	}
}

func TestObjectIsRememberedByTheOwnerOfTheLeaseOnly(t *testing.T) {
	t.Parallel()
	s := setup(t)
	k := keyed(t, "order-0000000042")
	m := s.movements(k)["payments"]
	c := s.reservation(payment.CreateOperation, k)
	first := s.reserveOnce(c, m)
	right := rememberedBy(first, "pi_1")
	refused := func(why string, p dbsqlc.RememberObjectParams) {
		t.Helper()
		before := s.remembered(right.ID)
		if rows := s.remember(p); rows != 0 || s.remembered(right.ID) != before {
			t.Errorf("%s: %d rows, and the object is %q", why, rows, s.remembered(right.ID))
		}
	}
	for what, change := range map[string]func(*dbsqlc.RememberObjectParams){
		"tenant":    func(p *dbsqlc.RememberObjectParams) { p.TenantID = "globex" },
		"payment":   func(p *dbsqlc.RememberObjectParams) { p.ID = uuid.New() },
		"operation": func(p *dbsqlc.RememberObjectParams) { p.Operation = "POST /elsewhere" },
		"key":       func(p *dbsqlc.RememberObjectParams) { p.Key = "order-0000000043" },
		"lease":     func(p *dbsqlc.RememberObjectParams) { p.LeaseID = uuid.New() },
	} {
		other := right
		change(&other)
		refused("another "+what, other)
	}
	otherKey := s.keyAlone(s.reservation(payment.CreateOperation, keyed(t, "order-0000000044")))
	foreign := rememberedBy(otherKey, "pi_1")
	foreign.ID = right.ID
	refused("the owner of another key", foreign)

	for range 2 { // sent again after a lost acknowledgement
		if rows := s.remember(right); rows != 1 || s.remembered(right.ID) != "pi_1" {
			t.Fatalf("%d rows, and the object is %q", rows, s.remembered(right.ID))
		}
	}
	refused("another object", rememberedBy(first, "pi_2"))

	// The key has moved, and the row has not: the owner may not execute any more.
	s.release(first)
	refused("not in progress", right)
	s.mustSend(m.updateRow(rowUpdate{first.Execution(), payment.Verdict{Status: payment.Failed},
		idempotency.FailedRetryableStatus},
		new(bool))...)
	c = s.reservation(payment.CreateOperation, k)
	second := s.keyAgain(c)
	refused("not resumed", rememberedBy(second, "pi_1"))
	refused("an earlier attempt", right)
	s.mustSend(m.resume(c, second.Subject)...)
	if object := s.remembered(right.ID); object != "" {
		t.Fatalf("the next attempt begins with the object %q", object)
	}
	refused("an earlier attempt", right)
	if rows := s.remember(rememberedBy(second, "pi_2")); rows != 1 || s.remembered(right.ID) != "pi_2" {
		t.Fatalf("%d rows, and the object is %q", rows, s.remembered(right.ID))
	}
}
