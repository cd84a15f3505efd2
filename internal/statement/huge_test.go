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

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/statement/internal/dbsqlc"
	"payonce/test/pgtest"
)

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
		fmt.Fprintf(out, "%s,charge,key,%s,,100,USD,succeeded,%s\r\n", id, reference, created)
	}
	fmt.Fprintf(out, "total,%d,,,,,,,\r\n", lines)
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
		_, _ = w.Write([]byte(header + one + one + "total,2,,,,,,,\r\n"))
	})
	if s := d.run(); s.Lines != 2 {
		t.Errorf("%+v", s)
	}
}

// A statement of hours is not read to its end when the database has refused one of its first lines.
func TestStatementIsReadNoFurtherThanTheDatabaseTakesIt(t *testing.T) {
	t.Parallel()
	d := setup(t)
	thousand := strings.Repeat("ch_x,charge,key,,,1,EUR,succeeded,2026-03-10T02:00:00Z\r\n", 1000)
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
