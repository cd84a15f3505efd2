package statement

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"payonce/internal/gateway"
)

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
	if _, err := j.tx.Exec(t.Context(), "ALTER TABLE statement_lines ADD CHECK (amount_minor <> 1)"); err != nil {
		t.Fatal(err)
	}
	err := j.load(t.Context(), d.day)
	if err == nil || !strings.Contains(err.Error(), "copy statement: ") || errors.Is(j.readErr, ErrTooLong) {
		t.Fatalf("%v, the reading has ended with: %v", err, j.readErr)
	}
}
