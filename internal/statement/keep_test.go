package statement

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/payment"
	"payonce/internal/statement/internal/dbsqlc"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// books are both books of acme's day, a row each, as the JSON report has them.
func (d *fixture) books() (rows []string, payouts []Payout) {
	d.t.Helper()
	var got struct {
		Books []jsonBooks `json:"books"`
	}
	if err := json.Unmarshal([]byte(d.written(JSON)), &got); err != nil {
		d.t.Fatal(err)
	}
	for _, b := range got.Books[0].Sums {
		rows = append(rows, fmt.Sprintf("%s %s: %d lines, theirs %s, ours %d of %s, %s - %s = %s", b.Currency, b.Name(),
			b.Lines, b.TheirsMinor, b.Ours, b.OursMinor, b.GrossMinor, b.FeeMinor, b.NetMinor))
	}
	return rows, got.Books[0].Payouts
}

func withFee(fee int64) func(*line) { return func(l *line) { l.fee = fee } }

func (d *fixture) other(object gateway.Object, id string, amount int64, hour float64) line {
	return line{id: id, object: object, amount: amount, currency: "USD", status: "paid", created: d.at(hour)}
}

func (d *fixture) wantBooks(want ...string) {
	d.t.Helper()
	got, _ := d.books()
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Fatalf("books differ (-want +got):\n%s", diff)
	}
}

func TestBothBooksAreSummedUpByCurrency(t *testing.T) {
	t.Parallel()
	d := setup(t)
	given := d.paid("rf_1", 5, refund, func(m *movement) { m.amount = 500 })
	yen := func(m *movement) { m.currency, m.amount = "JPY", 700 }
	d.paid("ch_nowhere", 6)
	d.paid("", 7, open)
	d.paid("ch_no", 8, func(m *movement) { m.status = "declined" })
	d.paid("ch_globex", 9, globex)
	d.publish("acct_acme", d.day,
		lineOf(d.paid("ch_1", 1), withFee(378)), lineOf(d.paid("ch_2", 2), withFee(378)),
		lineOf(d.paid("ch_yen", 3, yen), withFee(50)),
		lineOf(given, func(l *line) { l.charge = "ch_of_rf_1" }),
		line{id: "ch_x", object: gateway.ChargeObject, amount: 100, fee: 33, currency: "USD", status: "succeeded",
			created: d.at(4)},
		d.other("adjustment", "adj_1", 9, 10), d.other("adjustment", "adj_2", 1, 10), d.other("hold", "hold_1", 7, 10),
		d.other(gateway.FeeObject, "fee_1", 20, 11), d.other(gateway.PayoutObject, "po_1", 5000, 12))
	d.wantBooks(
		"JPY charge: 1 lines, theirs 700, ours 1 of 700, 700 - 50 = 650",
		"JPY net: 1 lines, theirs 700, ours 1 of 700, 700 - 50 = 650",
		"USD charge: 2 lines, theirs 24000, ours 3 of 36000, 24000 - 756 = 23244",
		"USD charge of others: 1 lines, theirs 100, ours 0 of 0, 100 - 33 = 67",
		"USD refund: 1 lines, theirs -500, ours 1 of -500, -500 - 0 = -500",
		"USD fee: 1 lines, theirs 0, ours 0 of 0, -20 - 0 = -20",
		"USD adjustment (unknown type): 2 lines, theirs 0, ours 0 of 0, -10 - 0 = -10",
		"USD hold (unknown type): 1 lines, theirs 0, ours 0 of 0, -7 - 0 = -7",
		"USD net: 8 lines, theirs 23600, ours 4 of 35500, 23563 - 789 = 22774",
		"USD payout: 1 lines, theirs 0, ours 0 of 0, -5000 - 0 = -5000")
	d.want("missing_here ch_x", "missing_there ch_nowhere") // No line that moves no customer's money is a break.
	table := d.written(Table)
	for _, want := range []string{"charge of others USD", "adjustment (unknown type) USD", "-0.10", "232.44",
		"Payout po_1 of 50.00 USD: the PSP has not told which lines it has paid\n"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// A sum may be larger than any integer, and a line alone may have the largest.
func TestSumsOfBooksDoNotOverflow(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const most = 1<<63 - 1
	d.publish("acct_acme", d.day, d.other("adjustment", "a_1", most, 1), d.other("adjustment", "a_2", most, 2))
	d.wantBooks(
		"USD adjustment (unknown type): 2 lines, theirs 0, ours 0 of 0, -18446744073709551614 - 0 = -18446744073709551614",
		"USD net: 2 lines, theirs 0, ours 0 of 0, -18446744073709551614 - 0 = -18446744073709551614")
}

func TestRunOfADayReplacesWhatAnEarlierRunHasKept(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.publish("acct_acme", d.previous(), lineOf(d.paid("ch_0", -5)))
	d.publish("acct_globex", d.day, lineOf(d.paid("ch_g", 1, globex)))
	d.runOf("acct_acme", d.previous())
	d.runOf("acct_globex", d.day)
	p := d.paid("ch_1", 1)
	d.publish("acct_acme", d.day, lineOf(p), d.other("adjustment", "adj_1", 9, 10),
		d.other(gateway.PayoutObject, "po_1", 5000, 12))
	d.payouts["po_1"] = []string{"ch_0", "ch_1"}
	kept := func() string {
		return pgtest.Value[string](t, d.pool, `SELECT concat_ws(E'\n',
			(SELECT string_agg(concat_ws(' ', account, day, psp_id), ', ' ORDER BY account, day, line) FROM booked_lines),
			(SELECT string_agg(concat_ws(' ', account, day, object), ', ' ORDER BY account, day, object)
			 FROM statement_sums),
			(SELECT string_agg(payout_id || ' ' || line_id, ', ' ORDER BY line_id) FROM paid_lines))`)
	}
	d.run()
	first := kept()
	d.run()
	if diff := cmp.Diff(first, kept()); diff != "" {
		t.Fatalf("a second run keeps other lines (-first +second):\n%s", diff)
	}
	d.publish("acct_acme", d.day, lineOf(p))
	d.run()
	want := "acct_acme 2026-03-09 ch_0, acct_acme 2026-03-10 ch_1, acct_globex 2026-03-10 ch_g\n" +
		"acct_acme 2026-03-09 charge, acct_acme 2026-03-10 charge, acct_globex 2026-03-10 charge"
	if diff := cmp.Diff(want, kept()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func TestPayoutHasPaidLinesOfEarlierDays(t *testing.T) {
	t.Parallel()
	d := setup(t)
	early := d.paid("ch_0", -5)
	yesterday := lineOf(early, withFee(378))
	d.publish("acct_acme", d.previous(), yesterday, lineOf(d.paid("ch_unpaid", -4)))
	d.runOf("acct_acme", d.previous())
	today := lineOf(d.paid("ch_1", 1))
	d.publish("acct_acme", d.day, today, d.other(gateway.PayoutObject, "po_1", 23622, 12),
		d.other(gateway.PayoutObject, "po_manual", 7, 13))
	d.payouts["po_1"] = []string{yesterday.name(), today.name(),
		"ch_of_no_day@" + yesterday.created.Format(time.RFC3339)}
	_, payouts := d.books()
	want := []Payout{{"po_1", "USD", "23622", 3, 2, "23622"}, {"po_manual", "USD", "7", 0, 0, "0"}}
	if diff := cmp.Diff(want, payouts); diff != "" {
		t.Fatalf("payouts differ (-want +got):\n%s", diff)
	}
	lines, err := LinesOf(t.Context(), d.config.DB, payment.ID(early.id))
	booked := BookedLines{Shown: []BookedLine{{d.at(-5), "charge", "USD", "12000", "378", "11622", "po_1"}}}
	if diff := cmp.Diff(booked, lines); err != nil || diff != "" {
		t.Errorf("lines of the payment differ (-want +got):\n%s%v", diff, err)
	}
	if got := want[0].Paid(); got != "3 lines, of which we have 2 with a net of 236.22 USD" {
		t.Error(got)
	}
}

// What was judged of the day stays. Of the lines that were read before the fault, none is kept.
func TestPayoutThatCannotBeReadIsNotTold(t *testing.T) {
	t.Parallel()
	many := make([]string, keptAtOnce+2)
	for i := range many {
		many[i] = fmt.Sprint("ch_", i)
	}
	for name, c := range map[string]struct {
		lines []string
		most  int64
	}{
		"an id that is none": {[]string{"ch_1", "a b"}, 5}, "lines without end": {many, keptAtOnce + 1},
	} {
		d := setup(t)
		d.config.MaxLines = c.most
		d.payouts["po_1"], d.payouts["po_2"] = c.lines, []string{"ch_2"}
		d.publish("acct_acme", d.day, d.other(gateway.PayoutObject, "po_1", 5000, 12),
			d.other(gateway.PayoutObject, "po_2", 7, 13))
		_, got := d.books()
		want := []Payout{{"po_1", "USD", "5000", 0, 0, "0"}, {"po_2", "USD", "7", 1, 0, "0"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: payouts differ (-want +got):\n%s", name, diff)
		}
	}
}

// slow is a PSP whose answers about payouts take their time.
type slow struct {
	gateway.PSP
	gateway.Statements

	wait func()
}

func (s slow) PayoutLines(ctx context.Context, account, payoutID string, each func(string) error) error {
	s.wait()
	return s.Statements.PayoutLines(ctx, account, payoutID, each)
}

func TestRunOutlastsAPSPThatIsSlowAboutPayouts(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.exec(`DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = 300', current_database());
		END $$`)
	d.pool.Reset() // A session takes the setting when it begins.
	psp := d.config.PSPs[native.Name]
	d.config.PSPs[native.Name] = slow{psp, gateway.StatementsOf(psp), func() {
		wait.Until(t, "the session has been idle, or is dead", func() bool {
			return d.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND state = 'idle in transaction' AND state_change > clock_timestamp() - interval '600 ms'`) == 0
		})
	}}
	d.payouts["po_1"] = []string{"ch_1"}
	d.publish("acct_acme", d.day, d.other(gateway.PayoutObject, "po_1", 5000, 12))
	d.run()
	if _, got := d.books(); len(got) != 1 || got[0].Lines != 1 {
		t.Errorf("payouts %+v", got)
	}
}

// A COPY of more than a batch is written in batches, and none of them is lost.
func TestPayoutOfManyLinesIsKeptWhole(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for i := range 2*keptAtOnce + 1 {
		d.payouts["po_1"] = append(d.payouts["po_1"], fmt.Sprintf("ch_%d@x", i))
	}
	d.publish("acct_acme", d.day, d.other(gateway.PayoutObject, "po_1", 5000, 12))
	d.run()
	if n := d.count("SELECT count(*) FROM paid_lines WHERE payout_id = 'po_1'"); n != 2*keptAtOnce+1 {
		t.Errorf("%d lines", n)
	}
}

// What the mock has booked, and paid out, is the same in our books.
func TestBooksOfTheMockAreThoseOfOurBooks(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.atMock()
	p := d.paid("", 12, func(m *movement) { m.status, m.finished = "processing", nil })
	d.exec("UPDATE payments SET status = 'succeeded', psp_charge_id = $2 WHERE id = $1", p.id, d.charge(p, "pm_ok"))
	d.enter("/_adjustments", `{"account":"acct_acme","amountCents":22,"currency":"USD"}`)
	d.enter("/_payouts", `{"account":"acct_acme"}`)
	d.wantBooks("USD charge: 1 lines, theirs 12000, ours 1 of 12000, 12000 - 378 = 11622",
		"USD adjustment (unknown type): 1 lines, theirs 0, ours 0 of 0, -22 - 0 = -22",
		"USD net: 2 lines, theirs 12000, ours 1 of 12000, 11978 - 378 = 11600",
		"USD payout: 1 lines, theirs 0, ours 0 of 0, -11600 - 0 = -11600")
	_, payouts := d.books()
	if len(payouts) != 1 || payouts[0].Paid() != "2 lines, of which we have 2 with a net of 116.00 USD" {
		t.Errorf("payouts %+v", payouts)
	}
	d.want()
}

// What others have done, and a refund that came back, count on both sides on the day of the file. A provider writes a
// line either with what was true then, or with what has become of it since.
func TestBothBooksHaveWhatOthersHaveDone(t *testing.T) {
	t.Parallel()
	type row struct {
		object, id, status string
		amount             int64
	}
	for name, lines := range map[string][]row{
		"native": {{"refund", "re_others", "succeeded", -300}, {"refund", "re_back", "succeeded", -200},
			{"refund", "re_back", "declined", 200}, {"dispute", "du_won", "pending", -5000},
			{"dispute", "du_won", "declined", 5000}, {"dispute", "du_lost", "pending", -70}},
		"stripe": {{"refund", "re_others", "succeeded", -300}, {"refund", "re_back", "declined", -200},
			{"refund", "re_back", "declined", 200}, {"dispute", "du_won", "declined", -5000},
			{"dispute", "du_won", "declined", 5000}, {"dispute", "du_lost", "succeeded", -70},
			{"dispute", "du_unknown", "succeeded", -9}, {"dispute", "du_open", "pending", -8},
			{"dispute", "du_open", "declined", 8}, {"dispute", "du_lost", "pending", -70}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			p := d.paid("ch_1", -30)
			back := d.paid("re_back", -29, refund, func(m *movement) { m.amount, m.status = 200, "reversed" })
			d.exec(`INSERT INTO refunds (tenant_id, id, payment_id, origin, amount_minor, currency, status, psp_refund_id)
				VALUES ('acme', gen_random_uuid(), $1, 'provider', 300, 'USD', 'succeeded', 're_others'),
				       ('acme', gen_random_uuid(), $1, 'provider', 200, 'USD', 'succeeded', 're_back')`, p.id)
			d.exec(`INSERT INTO disputes (tenant_id, payment_id, psp_id, amount_minor, currency, status, opened_at)
				SELECT 'acme', $1, id, amount, 'USD', status, $2 FROM (VALUES ('du_won', 5000, 'won'),
				('du_lost', 70, 'lost'), ('du_open', 8, 'under_review')) AS d (id, amount, status)`, p.id, d.at(1))
			j := d.judging()
			for i, l := range lines {
				reference := ""
				if l.id == back.psp {
					reference = back.reference()
				}
				pgtest.Exec(t, j.tx, `INSERT INTO statement_lines (day, line, object, psp_id, reference, amount_minor,
					currency, charge_id, status, created_at, line_id, type, net_minor, balance_currency)
					VALUES ($1, $2::bigint, $3, $4, $5, abs($6::bigint), 'USD', 'ch_1', $7, $8, 'l' || $2, 'x', $6, 'USD')`,
					d.day, i, l.object, l.id, reference, l.amount, l.status, d.at(2))
			}
			if err := j.findOurs(t.Context(), d.day); err != nil {
				t.Fatal(err)
			}
			if err := j.keep(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := []string{"refund 3 -300 -300 3", "dispute 3 -70 -70 3"}
			if name == "stripe" { // One that we do not know, one of which we do not know that it was won, a line twice.
				want[1] = "dispute 7 -149 -78 4"
			}
			d.wantRows(j, "sums", `SELECT concat_ws(' ', object, lines, theirs_minor, ours_minor, ours)
				FROM statement_sums WHERE NOT others`, want...)
		})
	}
}

// enter goes through one of the mock's doors.
func (d *fixture) enter(door, body string) {
	d.t.Helper()
	answer, err := http.Post(d.mock+door, "application/json", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %d, %v", door, answer.StatusCode, err)
	}
}

// A refund of a payment of ours that is not final yet is a line of that payment, and no break.
func TestLineOfWhatIsNotFinalIsKeptAndNotCompared(t *testing.T) {
	t.Parallel()
	d := setup(t)
	p := d.paid("ch_1", 1)
	j := d.judging()
	pgtest.Exec(t, j.tx, `INSERT INTO statement_lines (day, line, object, psp_id, reference, amount_minor, currency,
		charge_id, status, created_at, line_id, type, net_minor, balance_currency)
		VALUES ($1, 1, 'refund', '', '', 0, '', 'ch_1', '', $2, 'l1', 'refund', -500, 'USD')`, d.day, d.at(2))
	if err := j.findOurs(t.Context(), d.day); err != nil {
		t.Fatal(err)
	}
	n, err := j.q.WriteLineBreaks(t.Context(), dbsqlc.WriteLineBreaksParams{Account: "acct_acme", Day: dateOf(d.day),
		SeenAt: d.at(30), RunID: j.run, OwnPrefix: payment.OperatorPSPID})
	if err != nil || n != 0 {
		t.Errorf("%d breaks, %v", n, err)
	}
	if err := j.keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantRows(j, "lines", "SELECT payment || ' ' || (amount_minor IS NULL) FROM booked_lines", p.id.String()+" true")
}

// A customer's money of less than the balance's smallest unit is booked as nothing.
func TestSignOfALineThatIsNothingInTheBalanceIsThatOfItsObject(t *testing.T) {
	t.Parallel()
	d := setup(t)
	j := d.judging()
	pgtest.Exec(t, j.tx, `INSERT INTO statement_lines (day, line, object, psp_id, reference, amount_minor, currency,
		charge_id, status, created_at, line_id, type, balance_currency)
		SELECT $1, n, o, o, '', 5, 'KRW', '', 'succeeded', $2, o, o, 'USD'
		FROM unnest(ARRAY['charge', 'refund', 'dispute']) WITH ORDINALITY AS l (o, n)`, d.day, d.at(2))
	if err := j.keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wantRows(j, "lines", "SELECT object || ' ' || amount_minor FROM booked_lines", "charge 5", "refund -5",
		"dispute -5")
}
