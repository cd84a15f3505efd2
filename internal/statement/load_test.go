package statement

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/statement/internal/dbsqlc"
	"payonce/test/pgtest"
)

// The database has refused a line, and so the reading of the statement was ended. That end is not the cause.
func TestLineThatIsNotStoredIsAnErrorOfTheDatabase(t *testing.T) {
	t.Parallel()
	d := setup(t)
	lines := strings.Repeat("ch_x,charge,key,,,1,EUR,succeeded,0,1,2026-03-10T02:00:00Z\r\n", 20_000)
	d.files["acct_acme "+d.day.Format(time.DateOnly)] = header + lines + "total,20000,,,,,,,,,\r\n"
	j := d.judging()
	pgtest.Exec(t, j.tx, "ALTER TABLE statement_lines ADD CHECK (amount_minor <> 1)")
	if err := j.load(t.Context(), d.day); err == nil || !strings.Contains(err.Error(), "copy statement: ") {
		t.Fatal(err)
	}
}

func TestStatementThatIsNotWholeChangesNothing(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("ch_x,charge,key,,,1,EUR,succeeded,0,1,2026-03-10T02:00:00Z\r\n", 20_000)
	for name, file := range map[string]string{
		"cut":                 header + "ch_x,charge,key,,,1,EUR,succeeded,0,1,2026-03-10T02:00:00Z\r\n",
		"cut after thousands": header + many,
		"another total":       header + "total,1,,,,,,,,,\r\n",
		"another day":         header + "ch_x,charge,key,,,1,EUR,succeeded,0,1,2026-03-11T02:00:00Z\r\ntotal,1,,,,,,,,,\r\n",
		"no statement":        "<html>\r\n",
		"nothing at all":      "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t)
			d.paid("ch_1", 4)
			d.publish("acct_acme", d.day)
			d.run()
			before := d.persisted()
			d.files["acct_acme "+d.day.Format(time.DateOnly)] = file
			report, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
			if err == nil || len(report.Runs) != 0 || len(d.told) != 1 {
				t.Fatalf("%v, %+v, told %v", err, report, d.told)
			}
			if diff := cmp.Diff(before, d.persisted()); diff != "" {
				t.Fatalf("it has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// The cause is the PSP's, not that of the database which was told of it.
func TestBrokenStatementIsNamed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.config.Progress = func(p Progress) {
		if p.Done {
			t.Errorf("the statement is said to be whole: %+v", p)
		}
	}
	d.files["acct_acme "+d.day.Format(time.DateOnly)] = header + "ch_x\r\n"
	_, err := d.reconciler().Run(t.Context(), d.day, "acct_acme")
	if err == nil || err.Error() != "account acct_acme, 2026-03-10: read statement: line 2: malformed" {
		t.Fatal(err)
	}
}

// Not even for the neighbour: what it has cannot be told.
func TestNeighbourThatIsNotWholeDecidesNothing(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.paid("ch_1", minute)
	d.publish("acct_acme", d.day)
	d.files["acct_acme "+d.previous().Format(time.DateOnly)] = header
	if _, err := d.reconciler().Run(t.Context(), d.day, "acct_acme"); err == nil || d.persisted() != "" {
		t.Fatalf("%v, %s", err, d.persisted())
	}
}

// hugeLines is the length of the test's file; STATEMENT_LINES=1000000 tries a real one.
func hugeLines(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("STATEMENT_LINES"))
	if err != nil {
		return 100_000
	}
	return n
}

// maxGrowth is what the heap may gain between the first lines and the last: a line that is kept has 200 bytes at least.
const maxGrowth = 10 << 20

// linesPerBreak is how many lines there are for each break.
const linesPerBreak = 5

// Neither the length of a file nor the number of its breaks is felt in memory. Not in parallel: the heap is that
// of all tests at once.
func TestMemoryDoesNotDependOnTheLength(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a settlement file of 100 000 lines")
	}
	d := setup(t)
	lines := hugeLines(t)
	wanted := lines / linesPerBreak
	d.bulk(lines - wanted)
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, _ *http.Request) { d.writeHuge(w, lines) })
	d.config.Every = int64(lines / 10)
	var heap watch
	d.config.Progress = func(Progress) { heap.look() }
	began := time.Now()
	s := d.run()
	if int(s.Lines) != lines || int(s.Breaks) != wanted {
		t.Fatalf("%+v", s)
	}
	heap.check(t, "reading lines")
	t.Logf("%d lines took %s", lines, time.Since(began).Round(time.Millisecond))

	heap = watch{}
	read := 0
	err := pages(t.Context(), dbsqlc.New(d.config.DB.Reader()), s, nil, func(Break) error {
		if read++; read%(wanted/10) == 0 {
			heap.look()
		}
		return nil
	})
	if err != nil || read != wanted {
		t.Fatalf("%d breaks: %v", read, err)
	}
	heap.check(t, "reading breaks")
}

// watch follows the heap.
type watch struct{ first, most, looks uint64 }

func (w *watch) look() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if w.looks++; w.looks == 1 {
		w.first = m.HeapAlloc
	}
	w.most = max(w.most, m.HeapAlloc)
}

func (w *watch) check(t *testing.T, doing string) {
	t.Helper()
	if w.looks < 5 {
		t.Fatalf("looked %d times", w.looks)
	}
	if grown := w.most - w.first; grown > maxGrowth {
		t.Errorf("%s, the heap grew by %d KiB", doing, grown>>10)
	}
}

// hugeID is the id of the n-th payment of a huge day.
func (d *fixture) hugeID(n int) uuid.UUID {
	id := payments.FirstIDAt(d.at(1))
	id[6], id[8] = 0x70, 0x80
	for i := 15; i > 11; i, n = i-1, n>>8 {
		id[i] = byte(n)
	}
	return id
}

// bulk writes payments by the thousands.
func (d *fixture) bulk(n int) {
	d.t.Helper()
	columns := []string{"id", "tenant_id", "idempotency_key", "generation", "customer_id", "amount_minor", "currency",
		"payment_method", "status", "psp_charge_id", "created_at"}
	_, err := d.pool.CopyFrom(d.t.Context(), pgx.Identifier{"payments"}, columns,
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{d.hugeID(i), "acme", "key", 1, "cus-1", 100, "USD", "pm_ok", "succeeded", "ch_" +
				strconv.Itoa(i),
				d.at(1)}, nil
		}))
	if err != nil {
		d.t.Fatal(err)
	}
	d.exec("ANALYZE payments")
}

// writeHuge writes a statement in which every fifth line is nothing of ours, and all our payments are.
func (d *fixture) writeHuge(w http.ResponseWriter, lines int) {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, header)
	ours, created := 0, d.at(1).Format(time.RFC3339)
	for i := range lines {
		id, reference := "ch_x"+strconv.Itoa(i), "order "+strconv.Itoa(i)
		if i%linesPerBreak != 0 {
			id, reference = "ch_"+strconv.Itoa(ours), payment.ID(d.hugeID(ours)).String()
			ours++
		}
		fmt.Fprintf(out, "%s,charge,key,%s,,100,USD,succeeded,0,1,%s\r\n", id, reference, created)
	}
	fmt.Fprintf(out, "total,%d,,,,,,,,,\r\n", lines)
	_ = out.Flush()
}

// A PSP that sends one line after the other, and never the trailer, must not fill the database.
func TestStatementWithoutAnEndIsGivenUp(t *testing.T) {
	t.Parallel()
	d := setup(t)
	one := line{id: "ch_x", object: gateway.ChargeObject, amount: 5, currency: "EUR", status: "succeeded",
		created: d.at(2)}.csv()
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte(header))
		for err == nil { // until the reader hangs up
			_, err = w.Write([]byte(one))
		}
	})
	d.config.MaxLines, d.config.Limit = 1000, patience // without the first limit, the second one ends the run
	most := int64(0)
	d.config.Every, d.config.Progress = 1, func(p Progress) { most = max(most, p.Lines) }
	if _, err := d.reconciler().Run(t.Context(), d.day, "acct_acme"); !errors.Is(err, ErrTooLong) || most != 1000 {
		t.Fatalf("%d lines: %v", most, err)
	}
	if n := d.count("SELECT count(*) FROM statement_runs"); n != 0 {
		t.Errorf("%d runs are told", n)
	}
	d.config.MaxLines = 2 // as many as a whole statement has
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(header + one + one + "total,2,,,,,,,,,\r\n"))
	})
	if s := d.run(); s.Lines != 2 {
		t.Errorf("%+v", s)
	}
}

// A statement of hours is not read to its end when the database has refused one of its first lines.
func TestStatementIsReadNoFurtherThanTheDatabaseTakesIt(t *testing.T) {
	t.Parallel()
	d := setup(t)
	thousand := strings.Repeat("ch_x,charge,key,,,1,EUR,succeeded,0,1,2026-03-10T02:00:00Z\r\n", 1000)
	d.config.PSPs = clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte(header))
		for err == nil { // until the reader hangs up
			_, err = w.Write([]byte(thousand))
		}
	})
	d.config.MaxLines = 1_000_000 // far more than are on their way when the database refuses
	j := d.judging()
	pgtest.Exec(t, j.tx, "ALTER TABLE statement_lines ADD CHECK (amount_minor <> 1)")
	err := j.load(t.Context(), d.day)
	if err == nil || !strings.Contains(err.Error(), "copy statement: ") || errors.Is(j.readErr, ErrTooLong) {
		t.Fatalf("%v, the reading has ended with: %v", err, j.readErr)
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
	refundOfOurs := id(d.paid("rf_named", 14, refund))
	// Another tenant's movements have the id of ours.
	for m, ours := range map[movement]*uuid.UUID{d.paid("ch_twin", 12, globex): named,
		d.paid("rf_twin", 13, globex, refund): named, d.paid("rf_twin_of_a_refund", 15, globex, refund): refundOfOurs} {
		for _, table := range []string{"payments", "refunds"} {
			d.exec("ALTER TABLE " + table + " DISABLE TRIGGER USER")
			d.exec("UPDATE "+table+" SET id = $1 WHERE id = $2", ours, m.id)
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
		{d.day, refunded, "rf_named", refundOfOurs},
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
		"charge ch_named", "charge ch_by_id", "refund rf_by_id", "refund rf_named")
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

// The line of the charge has told its id, so the refund is not of others.
func TestRefundOfAChargeOfTheSameDayIsOfOurPayment(t *testing.T) {
	t.Parallel()
	vouched := func(m *movement) { m.psp = payment.OperatorPSPID + m.created.String() }
	for name, edit := range map[string]func(*movement){"processing": open, "vouched for": vouched} {
		d := setup(t)
		p := d.paid("", 1, edit)
		charged := lineOf(p, func(l *line) { l.id = "ch_1" })
		refused := lineOf(p, func(l *line) { l.id, l.status, l.created = "ch_0", "declined", d.at(0.5) })
		d.publish("acct_acme", d.day, refused, charged, line{id: "rf_1", object: gateway.RefundObject, charge: "ch_1",
			amount: 500, currency: "USD", status: "succeeded", created: d.at(2)})
		d.run()
		ours := d.count("SELECT count(*) FROM booked_lines WHERE payment = $1 AND psp_id IN ('ch_1', 'rf_1')", p.id)
		if ours != 2 {
			t.Errorf("%s: %d lines are of the payment", name, ours)
		}
		breaks := []string{"missing_here rf_1", "status ch_1"}
		if name == "vouched for" {
			breaks = breaks[:1]
		}
		d.want(breaks...)
	}
}
