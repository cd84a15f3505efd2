package psp

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
)

// The objects of the rows that only read.
const (
	listObject      gateway.Object = "list"
	statementObject gateway.Object = "statement"
	eventObject     gateway.Object = "event"
)

// readFaults are the faults on the wire of a list or a statement.
func readFaults(step string) (faults []Fault) {
	for _, f := range cuts(Step{Name: step}, true) {
		if f.Cut == cutRefused {
			f.Step = step
		}
		faults = append(faults, f)
	}
	return faults
}

// playRead reads a list or a statement while the wire fails, and then once more. It gives an error, or everything.
func playRead(t *testing.T, d *Dialect, o gateway.Object, f Fault) (s story) {
	t.Helper()
	w := setup(t, d)
	for i := range 3 {
		w.charge(numbered(d, i))
	}
	w.awaitWebhooks()
	w.clock.advance(24 * time.Hour)
	w.client = w.newClient(patience) // a read on an idle connection that breaks is repeated by the transport
	w.wire.arm(f.Cut, f.Step)
	s.answer = w.readWords(o)
	if !w.wire.disarm() {
		t.Error("the fault has not struck")
	}
	if w.wire.strays > 0 {
		t.Error("the client has followed a redirect")
	}
	if s.after = w.readWords(o); s.after != "complete" {
		t.Errorf("after the fault: %s", s.after)
	}
	s.atOnce, s.events, s.next, s.again, s.ledger = "–", "–", "–", "–", "3 × succeeded"
	return s
}

func numbered(d *Dialect, i int) gateway.Charge {
	ch := aCharge(d)
	ch.Key, ch.Reference = fmt.Sprintf("key-of-the-charge-%d", i), fmt.Sprintf("pay_%d", i)
	return ch
}

// readWords reads, and says what has come of it.
func (w *world) readWords(o gateway.Object) string {
	w.t.Helper()
	n, err := 0, error(nil)
	read := func(c gateway.PSP) {
		if o == statementObject {
			published := gateway.StatementsOf(c)
			err = published.Statement(w.t.Context(), w.dialect.Account+"acme", today(), func(gateway.Line) error {
				n++
				return nil
			})
			return
		}
		for cursor := ""; ; {
			var page gateway.Page
			account := w.dialect.Account + "acme"
			page, err = c.List(w.t.Context(), gateway.ChargeObject, account, time.Time{}, cursor)
			n += len(page.Records)
			if cursor = page.Next; cursor == "" {
				return
			}
		}
	}
	w.entering(string(o), read)
	switch {
	case err != nil:
		return "error: " + err.Error()
	case n != 3:
		w.t.Errorf("%d records and no error", n)
	}
	return "complete"
}

// A list is complete, oldest first, and has an end: also over days, with more records than a page has, and with objects
// that other programs have made.
func TestListIsComplete(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, d)
			const perDay = gateway.MaxPage/2 + 3
			var want []string
			for day := range 3 {
				for i := range perDay {
					want = append(want, w.charge(numbered(d, day*perDay+i)))
				}
				if d.Foreign != nil {
					d.Foreign(w)
				}
				w.awaitWebhooks()
				w.clock.advance(24 * time.Hour)
			}
			records, _ := w.list(gateway.ChargeObject, time.Time{})
			if got := ids(records); !slices.Equal(got, want) {
				t.Errorf("the list has %d records, want %d, in the order of their creation", len(got), len(want))
			}
			second, _ := w.list(gateway.ChargeObject, today().Add(12*time.Hour))
			if got := ids(second); !slices.Equal(got, want[perDay:]) {
				t.Errorf("from the second day on, the list has %d records, want %d", len(got), len(want)-perDay)
			}
			w.checkForeign()
		})
	}
}

// checkForeign reads the whole list: what Payonce did not make is counted, and is nowhere else.
func (w *world) checkForeign() {
	w.t.Helper()
	counted := 0
	for cursor := ""; ; {
		page, err := w.client.List(w.t.Context(), gateway.ChargeObject, w.dialect.Account+"acme", time.Time{}, cursor)
		if err != nil {
			w.t.Fatal(err)
		}
		counted += page.Foreign
		if len(page.Unreadable) > 0 {
			w.t.Errorf("unreadable: %+v", page.Unreadable)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	want := 0
	if w.client.Traits().ForeignRecords {
		want = 3
	}
	if counted != want {
		w.t.Errorf("%d foreign records, want %d", counted, want)
	}
}

func ids(records []gateway.Record) (all []string) {
	for _, r := range records {
		all = append(all, r.ID)
	}
	return all
}

// playEvent has the mock send a webhook in one way, and reads it.
func playEvent(t *testing.T, d *Dialect, f Fault) (s story) {
	t.Helper()
	w := setup(t, d)
	s = story{atOnce: "–", after: "–", next: "–", again: "–", ledger: "–"}
	if f.Rates != "" {
		w.rates(f.Rates)
	}
	var id string
	switch f.Name {
	case "declined":
		ch := aCharge(d)
		ch.PaymentMethod = "pm_declined"
		w.perform(ch)
	case "foreign":
		d.Foreign(w)
	default:
		id = w.charge(aCharge(d))
	}
	before := w.received()
	for _, m := range before {
		if m.refused != nil {
			t.Errorf("a genuine webhook is refused: %v", m.refused)
		}
	}
	// Webhooks arrive in any order. The one that says something is the one to repeat.
	last := before[0]
	for _, m := range before {
		if _, moved := m.event.(gateway.Moved); moved {
			last = m
		}
	}
	switch f.Name {
	case "duplicate", "forge", "stale":
		w.admin(http.MethodPost, "/_webhooks/"+id, `{"disorder":"`+f.Name+`"}`)
		again := w.received()[len(before):]
		for _, m := range again {
			if f.Name == "duplicate" && m.refused == nil && m.delivery.ID != again[0].delivery.ID {
				t.Errorf("one event has the ids %s and %s", m.delivery.ID, again[0].delivery.ID)
			}
		}
		s.answer = eventAnswer(again)
	case "changed body":
		changed := slices.Clone(last.body)
		changed[len(changed)-2] ^= 1
		s.answer = eventAnswer([]mail{w.open(w.client, last.header, changed)})
	case "no signature":
		s.answer = eventAnswer([]mail{w.open(w.client, http.Header{}, last.body)})
	case "secret replaced":
		both := w.clientAt(w.wire.url(), []string{d.Secrets[1], d.Secrets[0]}, patience)
		other := w.clientAt(w.wire.url(), d.Secrets[1:], patience)
		s.answer = "during: " + eventAnswer([]mail{w.open(both, last.header, last.body)}) +
			"; after: " + eventAnswer([]mail{w.open(other, last.header, last.body)})
	case "ten minutes late":
		w.clock.advance(10 * time.Minute)
		s.answer = eventAnswer([]mail{w.open(w.client, last.header, last.body)})
	default:
		s.answer = eventAnswer(before)
	}
	s.events = "–"
	return s
}

// eventAnswer says what a client has made of webhooks, each outcome once.
func eventAnswer(all []mail) string {
	var words []string
	for _, m := range all {
		word := ""
		switch e := m.event.(type) {
		case gateway.Moved:
			word = string(e.Record.Object) + " " + e.Record.Status
		case gateway.Ignored:
			word = "ignored: " + e.Reason
		default:
			word = refusalWords(m)
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func refusalWords(m mail) string {
	if m.refused == nil {
		return "refused: " + m.err.Error()
	}
	if _, ok := errors.AsType[*gateway.VerifyError](m.refused); !ok {
		return fmt.Sprintf("no VerifyError: %v", m.refused)
	}
	return "refused: " + m.refused.Error()
}

// Each line that a payout has paid is a line of a statement, by the same id. Their net is what was paid out.
func TestPayoutLinesAreLinesOfStatements(t *testing.T) {
	t.Parallel()
	for _, d := range dialects() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, d)
			w.charge(numbered(d, 1))
			w.charge(numbered(d, 2))
			w.admin(http.MethodPost, "/_payouts", `{"account":"`+d.Account+`acme"}`)
			w.charge(numbered(d, 3))
			w.clock.advance(36 * time.Hour)
			lines, payout := map[string]gateway.Line{}, gateway.Line{}
			published := gateway.StatementsOf(w.client)
			err := published.Statement(t.Context(), d.Account+"acme", today(), func(l gateway.Line) error {
				if l.Object == gateway.PayoutObject {
					payout = l
				}
				lines[l.LineID] = l
				return nil
			})
			if err != nil || len(lines) != 4 {
				t.Fatalf("%d lines, %v", len(lines), err)
			}
			paid, net := 0, int64(0)
			err = published.PayoutLines(t.Context(), d.Account+"acme", payout.ID, func(id string) error {
				if l, known := lines[id]; !known || l.Object != gateway.ChargeObject || l.FeeMinor <= 0 ||
					l.NetMinor+l.FeeMinor != l.AmountMinor {
					t.Errorf("has paid %+v", l)
				}
				paid++
				net += lines[id].NetMinor
				return nil
			})
			if err != nil || paid != 2 || net != -payout.NetMinor {
				t.Errorf("has paid %d lines of %d, and %+v, %v", paid, net, payout, err)
			}
		})
	}
}
