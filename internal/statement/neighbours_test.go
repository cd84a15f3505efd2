package statement

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/payment"
	"payonce/internal/statement/internal/dbsqlc"
	"payonce/test/pgtest"
)

// judging is the run of acme's day that has not read a statement yet. Its transaction is rolled back.
func (d *fixture) judging() *judgement {
	d.t.Helper()
	tx := pgtest.Begin(d.t, d.pool)
	j := &judgement{dbsqlc.FindAccountsRow{Tenant: "acme", Psp: native.Name, Account: "acct_acme"},
		d.config, tx, dbsqlc.New(tx), d.day, uuid.Must(uuid.NewV7()), time.Time{}, nil, 0}
	if err := j.begin(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	return j
}

// loadedLine is a line as the COPY writes it.
type loadedLine struct {
	day     time.Time
	object  gateway.Object
	id      string
	subject *uuid.UUID // what its reference names
}

func (d *fixture) load(j *judgement, lines []loadedLine) {
	d.t.Helper()
	_, err := j.tx.CopyFrom(d.t.Context(), pgx.Identifier{"statement_lines"}, columns(),
		pgx.CopyFromSlice(len(lines), func(i int) ([]any, error) {
			l := lines[i]
			return []any{l.day, i, string(l.object), l.id, "", l.subject, 12000, "USD", "", "succeeded", d.at(12)},
				nil
		}))
	if err != nil {
		d.t.Fatal(err)
	}
}

// wantRows compares what a run has in its tables, as text.
func (d *fixture) wantRows(j *judgement, what, sql string, want ...string) {
	d.t.Helper()
	got := pgtest.Values[string](d.t, j.tx, sql)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("%s differ (-want +got):\n%s", what, diff)
	}
}

// neighbours are lines of which each differs in one part from a line that is about a movement: in its day, its object,
// the PSP's id or the movement that it names.
func (d *fixture) neighbours() []loadedLine {
	const charge, refunded = gateway.ChargeObject, gateway.RefundObject
	id := func(m movement) *uuid.UUID { return &m.id }
	named := id(d.paid("ch_named", 1))
	byID := id(d.paid("ch_by_id", 2))
	otherDay, otherObject := id(d.paid("ch_other_day", 3)), id(d.paid("ch_other_object", 4))
	d.paid("ch_by_id_other_day", 5)
	d.paid("ch_by_id_other_object", 6)
	d.paid("ch_nobody_names", 7)
	d.paid("rf_by_id", 8, refund)
	theirs, theirsOtherDay := id(d.paid("ch_theirs", 9, globex)), id(d.paid("ch_theirs_other_day", 10, globex))
	theirsOtherObject := id(d.paid("ch_theirs_other_object", 11, globex))
	// Another tenant's movements have the id of ours.
	for _, m := range []movement{d.paid("ch_twin", 12, globex), d.paid("rf_twin", 13, globex, refund)} {
		for _, table := range []string{"payments", "refunds"} {
			d.exec("ALTER TABLE " + table + " DISABLE TRIGGER USER")
			d.exec("UPDATE "+table+" SET id = $1 WHERE id = $2", named, m.id)
		}
	}
	return []loadedLine{
		{d.day, charge, "ch_named", named},
		{d.day, charge, "ch_by_id", nil},
		{d.day, charge, "ch_by_id", named},
		{d.day, charge, "ch_unknown", nil},
		{d.day, charge, "ch_of_globex", theirs},
		{d.day, refunded, "rf_unknown", otherObject},
		{d.day, refunded, "rf_by_id", named},
		{d.day, refunded, "rf_of_a_charge", byID},
		{d.day, refunded, "ch_by_id_other_object", nil},
		{d.day, refunded, "ch_named", nil},
		{d.day, refunded, "rf_of_globex", theirs},
		{d.day, refunded, "rf_of_globex_too", theirsOtherObject},
		{d.previous(), charge, "ch_unknown_other_day", otherDay},
		{d.previous(), charge, "ch_by_id_other_day", nil},
		{d.previous(), charge, "ch_named", nil},
		{d.previous(), charge, "ch_of_globex", theirsOtherDay},
	}
}

// A line that is taken for a line about another movement hides that the PSP has moved money without us. A run also
// copies no movement that no line of the day is about: with all of a tenant's books, it would not end.
func TestLineIsAboutItsOwnMovementAlone(t *testing.T) {
	t.Parallel()
	d := setup(t)
	lines := d.neighbours()
	j := d.judging()
	d.load(j, lines)
	if err := j.findOurs(t.Context(), d.day); err != nil {
		t.Fatal(err)
	}
	d.wantRows(j, "our movements", "SELECT concat_ws(' ', object, psp_id) FROM statement_ours",
		"charge ch_named", "charge ch_by_id", "refund rf_by_id")
	d.wantRows(j, "movements of other tenants", `SELECT concat_ws(' ', s.object, m.psp_id) FROM statement_strangers AS s
		JOIN statement_movements AS m ON m.tenant_id = 'globex' AND m.id = s.id AND m.object = s.object`,
		"charge ch_theirs", "refund rf_twin")
	d.wantRows(j, "lines that the PSP's id makes ours", `SELECT concat_ws(' ', l.object, l.psp_id, m.psp_id) FROM
		statement_lines AS l JOIN statement_movements AS m ON m.tenant_id = 'acme' AND m.id = l.subject
		WHERE l.by_psp_id`, "charge ch_by_id ch_by_id", "refund rf_by_id rf_by_id")

	if _, err := j.q.WriteLineBreaks(t.Context(), dbsqlc.WriteLineBreaksParams{Account: j.Account,
		Day: dateOf(d.day), SeenAt: j.started, RunID: j.run, OwnPrefix: payment.OperatorPSPID}); err != nil {
		t.Fatal(err)
	}
	d.wantRows(j, "breaks", `SELECT concat_ws(' ', object, kind, psp_id, CASE WHEN other_tenant THEN 'of globex' END)
		FROM statement_breaks`,
		"charge duplicate ch_by_id", "charge missing_here ch_of_globex of globex", "charge missing_here ch_unknown",
		"charge psp_id ch_by_id", "refund missing_here ch_by_id_other_object", "refund missing_here ch_named",
		"refund missing_here rf_of_a_charge", "refund missing_here rf_of_globex",
		"refund missing_here rf_of_globex_too", "refund missing_here rf_unknown",
		"refund psp_id rf_by_id")
}

// The refund of a payment has the same day, and the payment of another day may have the same id at the PSP. Neither
// shows that a payment is there.
func TestOnlyItsOwnLineShowsThatAMovementIsThere(t *testing.T) {
	t.Parallel()
	d := setup(t)
	there, otherDay, otherObject := d.paid("ch_there", 1), d.paid("ch_other_day", 2), d.paid("ch_other_object", 3)
	d.paid("ch_nowhere", 4)
	j := d.judging()
	d.load(j, []loadedLine{
		{d.day, gateway.ChargeObject, "ch_1", &there.id},
		{d.day, gateway.RefundObject, "ch_2", &otherObject.id},
		{d.previous(), gateway.ChargeObject, "ch_3", &otherDay.id},
	})
	if _, err := j.findAbsent(t.Context(), d.next()); err != nil {
		t.Fatal(err)
	}
	d.wantRows(j, "absent movements", "SELECT psp_id FROM statement_absent",
		"ch_other_day", "ch_other_object", "ch_nowhere")
}

// The time when a payment's key was finished limits in which statements the payment can be. A neighbour's key has its
// own time.
func TestKeyOfANeighbourDatesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"tenant": "tenant_id = 'globex'", "operation": "operation = 'POST /refunds'", "key": "key = 'another-order'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			m := d.paid("ch_1", 10)
			d.exec("ALTER TABLE idempotency_keys DISABLE TRIGGER USER")
			// Citus changes no tenant of a row, so the row comes back as another.
			d.exec("CREATE TABLE moved AS SELECT * FROM idempotency_keys")
			d.exec("DELETE FROM idempotency_keys")
			d.exec("UPDATE moved SET " + change)
			d.exec("INSERT INTO idempotency_keys SELECT * FROM moved")
			d.publish("acct_acme", d.day)
			d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(34))))
			if s := d.run(); s.Breaks != 0 || s.Pending != 0 {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// A break of another account or another day is not gone because this run has not found it, and it is not told again.
func TestRunSpeaksOfItsOwnAccountsDay(t *testing.T) {
	t.Parallel()
	d := setup(t)
	stranger := line{id: "ch_x", object: gateway.ChargeObject, amount: 5, currency: "EUR", status: "succeeded"}
	for account, days := range map[string][]time.Time{
		"acct_acme": {d.previous(), d.day, d.next()}, "acct_globex": {d.day},
	} {
		for _, day := range days {
			stranger.created = day.Add(time.Hour)
			d.publish(account, day, stranger)
			if s := d.runOf(account, day); s.Breaks != 1 || s.New != 1 || s.Gone != 0 {
				t.Errorf("%s, %s: %+v", account, day, s)
			}
		}
	}
	d.publish("acct_acme", d.day)
	for _, gone := range []int64{1, 0} { // A break that is gone does not go again.
		if s := d.run(); s.Breaks != 0 || s.New != 0 || s.Gone != gone {
			t.Errorf("%+v, want %d gone", s, gone)
		}
	}
	for account, days := range map[string][]time.Time{
		"acct_acme": {d.previous(), d.next()}, "acct_globex": {d.day},
	} {
		for _, day := range days {
			if n := len(d.open(account, day)); n != 1 {
				t.Errorf("%s, %s: %d breaks are open", account, day, n)
			}
		}
	}
	// The totals of three runs have each open break of their days once, and no break that is gone or of another day.
	report := Report{Runs: []Summary{d.runOf("acct_globex", d.day), d.run(), d.runOf("acct_acme", d.next())}}
	if totals, err := d.reconciler().totals(t.Context(), report); err != nil || len(totals) != 1 ||
		totals[0].Breaks != 2 {
		t.Errorf("%+v, %v", totals, err)
	}
}

// Another account's pending day would be judged with the wrong statement. A day is judged again only for its own
// movement, and only if the statements are there.
func TestOnlyTheAccountsOwnFinalMovementsAreRipe(t *testing.T) {
	t.Parallel()
	d := setup(t)
	pending := func(account string, day time.Time, m movement) {
		d.exec("INSERT INTO statement_pending VALUES ($1, $2, $3, $4)", account, day, m.object, m.id)
	}
	if ripe := d.ripe(); len(ripe) != 0 {
		t.Fatalf("without a run, %v", ripe)
	}
	final, later := d.paid("ch_1", -40), d.paid("ch_2", -40, finishedAt(d.at(24)))
	for account, days := range map[string][]time.Time{"acct_acme": {d.previous(), d.day}, "acct_globex": {d.next()}} {
		for _, day := range days {
			d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
				VALUES (gen_random_uuid(), $1, $2, payonce_now(), 'complete', 0, 0, 1)`, account, day)
		}
	}
	d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
		VALUES (gen_random_uuid(), 'acct_acme', $1, payonce_now(), 'partial', 0, 0, 1)`, d.next())
	pending("acct_acme", d.previous(), final)
	pending("acct_acme", d.at(-48), later)
	pending("acct_acme", d.day, final) // was judged last
	pending("acct_acme", d.at(-72), d.paid("", -60, open))
	pending("acct_acme", d.at(-72), d.paid("", -60, func(m *movement) { m.status = "failed" }))
	pending("acct_acme", d.at(-96), d.paid("ch_g", -90, globex))
	pending("acct_globex", d.at(-120), final)
	want := []Due{{"acct_acme", d.previous()}}
	if diff := cmp.Diff(want, d.ripe()); diff != "" {
		t.Fatalf("other days are ripe (-want +got):\n%s", diff)
	}
}

// A day is read once for all of its movements, also if they fill several pages.
func TestRipeDayIsListedOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("ch_1", -40)
	d.exec(`INSERT INTO statement_runs (id, account, day, started_at, status, lines, breaks, pending)
		VALUES (gen_random_uuid(), 'acct_acme', $1, payonce_now(), 'complete', 0, 0, 1)`, d.day)
	d.exec(`INSERT INTO statement_pending SELECT 'acct_acme', $1::date - 3 + n % 3, 'charge', $2 FROM generate_series(0, 2) AS n`,
		d.day, m.id)
	d.exec(`INSERT INTO statement_pending SELECT 'acct_acme', $1::date - 3 + n % 3, 'charge', gen_random_uuid()
		FROM generate_series(1, 6 * $2::integer) AS n`, d.day, pageRows)
	d.exec(`INSERT INTO statement_pending VALUES ('acct_acme', $1::date - 2, 'refund', $2)`, d.day,
		d.paid("rf_1", -40, refund).id)
	want := []Due{{"acct_acme", d.at(-72)}, {"acct_acme", d.at(-48)}, {"acct_acme", d.at(-24)}}
	if diff := cmp.Diff(want, d.ripe()); diff != "" {
		t.Fatalf("other days are ripe (-want +got):\n%s", diff)
	}
}

// wantPending checks how many movements of acme's day are pending.
func (d *fixture) wantPending(day time.Time, want int64) {
	d.t.Helper()
	if n := d.count("SELECT count(*) FROM statement_pending WHERE account = 'acct_acme' AND day = $1", day); n != want {
		d.t.Errorf("%d movements are pending, want %d", n, want)
	}
}

// A failed payment whose key has expired is never executed any more.
func TestFailedMovementWhoseKeyHasExpiredIsNotPending(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.expires(d.paid("", 10, func(m *movement) { m.status = "failed" }))
	d.publishDays(0)
	if s := d.run(); s.Pending != 0 {
		t.Errorf("%+v", s)
	}
	d.wantPending(d.day, 0)
}

// No other statement is read for an open movement: it is judged later anyway.
func TestOpenMovementNearMidnightCostsNoOtherStatement(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("", minute, open)
	d.paid("", 24-6*minute, open)
	d.publishDays(1)
	d.run()
	d.wantAsked(d.day)
	d.wantPending(d.day, 2)
}

// A line of another day says nothing of what a line of this day has shown, and nothing of a refund with the same id.
func TestLineOfAnotherDayEndsOnlyTheAbsenceOfItsMovement(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m, missing := d.paid("ch_1", 10), d.paid("ch_2", 11)
	d.twin(missing, d.paid("rf_2", 12, refund))
	d.publishDays(1)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.amount = 7 }))
	d.run()
	d.want("amount ch_1", "missing_there ch_2", "missing_there rf_2")
	d.publish("acct_acme", d.next(), lineOf(m, dated(d.at(30))), lineOf(missing, dated(d.at(31))))
	d.runOf("acct_acme", d.next())
	d.want("amount ch_1", "missing_there rf_2")
}

// twin gives a refund the id of a payment.
func (d *fixture) twin(payment, refund movement) {
	d.t.Helper()
	d.exec("ALTER TABLE refunds DISABLE TRIGGER USER")
	d.exec("UPDATE refunds SET id = $1 WHERE id = $2", payment.id, refund.id)
	d.exec("ALTER TABLE refunds ENABLE TRIGGER USER")
}

// A movement stays pending if the line of another day does not explain it: a line of a payment with the same id, a line
// by which no money has moved, or a further line, while that of the day is still left alone.
func TestLineOfAnotherDayThatDoesNotExplainLeavesItPending(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m, listed, other := d.paid("", 10, open), d.paid("", 11, open), d.paid("ch_3", 12)
	d.twin(other, d.paid("", 13, refund, open))
	as := func(id string) func(*line) { return func(l *line) { l.id = id } }
	later := dated(d.at(30))
	d.publish("acct_acme", d.day, lineOf(listed, as("ch_2")), lineOf(other))
	d.run()
	d.wantPending(d.day, 3)
	d.publish("acct_acme", d.next(), lineOf(m, later, as("ch_1"), func(l *line) { l.status = "declined" }),
		lineOf(listed, later, as("ch_2b")), lineOf(other, later, as("ch_3b")))
	d.runOf("acct_acme", d.next())
	d.wantPending(d.day, 3)
	d.publish("acct_acme", d.next(), lineOf(m, later, as("ch_1")))
	d.runOf("acct_acme", d.next())
	d.wantPending(d.day, 2)
}

// The line of a failed payment is told once, and its day is judged once more: by then the payment may have succeeded.
func TestDayIsJudgedOnceMoreForTheLineOfAFailedMovement(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.paid("", 10, func(m *movement) { m.status = "failed" })
	d.expires(m)
	d.publish("acct_acme", d.day, lineOf(m, func(l *line) { l.id = "ch_1" }))
	d.run()
	d.wantPending(d.day, 1)
	d.run()
	d.wantPending(d.day, 0)
	d.want("status ch_1")
}
