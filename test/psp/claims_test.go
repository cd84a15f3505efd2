package psp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"payonce/internal/gateway"
)

// isRelated reports whether a record is about the row's request, even if it is wrong about it.
func (s *scene) isRelated(r gateway.Record) bool {
	want := s.request.Wanted()
	return r.Object == want.Object && (r.Key == want.Key || r.Reference == want.Reference)
}

// related are the ledger's entries about the row's request.
func (s *scene) related() (entries []entry) {
	s.t.Helper()
	for _, e := range s.ledger() {
		if s.isRelated(e.Record) {
			entries = append(entries, e)
		}
	}
	return entries
}

// executed are those that have moved money.
func (s *scene) executed() []entry {
	s.t.Helper()
	return slices.DeleteFunc(s.related(), func(e entry) bool { return !e.moved() })
}

// checkAnswer compares the answer to the request with the ledger, as it is now.
func (s *scene) checkAnswer() {
	s.t.Helper()
	executed := s.executed()
	switch o := s.answer.(type) {
	case gateway.Succeeded:
		s.checkSucceeded(o.ID)
	case gateway.Declined, gateway.NotExecuted, gateway.Pending:
		if len(executed) > 0 {
			s.t.Errorf("%T %+v, and the ledger has %+v", o, o, executed)
		}
	case gateway.Indeterminate:
		if o.Reason == "" || o.Contradiction && len(o.Evidence) == 0 {
			s.t.Errorf("%+v says too little", o)
		}
	}
}

// checkSucceeded holds "succeeded" to one matching movement in the ledger.
func (s *scene) checkSucceeded(id string) {
	s.t.Helper()
	executed := s.executed()
	if len(executed) == 0 || len(executed) > 1 && !s.fault.Twice {
		s.t.Fatalf("succeeded, and the ledger has %+v", executed)
	}
	for _, e := range executed {
		if member := s.request.Wanted().Differs(e.Record); member != "" {
			s.t.Errorf("succeeded, and the ledger has another %s", member)
		}
	}
	if !s.fault.WrongID && !slices.ContainsFunc(executed, func(e entry) bool { return e.ID == id }) {
		s.t.Errorf("succeeded as %s, and the ledger has %+v", id, executed)
	}
}

// checkVerdict compares what is known at the end with the ledger. Everything late has happened by now.
func (s *scene) checkVerdict() {
	s.t.Helper()
	executed := s.executed()
	switch s.verdict {
	case succeeded:
		s.checkSucceeded(s.id)
	case declined, notExecuted:
		if len(executed) > 0 {
			s.t.Errorf("%s, and the ledger has %+v", s.verdict, executed)
		}
	case contradicted:
		matches := len(executed) == 1 && s.request.Wanted().Differs(executed[0].Record) == ""
		if matches && !strings.HasPrefix(s.fault.Cut, "answer with") {
			s.t.Errorf("a contradiction, and the ledger has what was asked for: %+v", executed)
		}
	case waiting, unknown:
		if !s.fault.Open {
			s.t.Errorf("nobody will ever know: answer %+v, then %+v, then %+v", s.answer, s.atOnce, s.after)
		}
	}
	if s.fault.Open && s.verdict != unknown {
		s.t.Errorf("%s is known", s.verdict)
	}
}

// checkLists reads both lists to their ends. They have each movement of the account, oldest first. A stuck one is on no
// list, because the mock hides it. What is booked late is booked by then.
func (s *scene) checkLists() {
	s.t.Helper()
	s.clock.advance(2 * due)
	for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
		records, unreadable := s.list(o, time.Time{})
		got, want := map[string]bool{}, map[string]bool{}
		for _, u := range unreadable {
			got[u.ID] = true
		}
		for _, r := range records {
			got[r.ID] = true
			s.checkRecord(r)
		}
		for _, e := range s.ledger() {
			if e.Object == o && e.Account == s.request.Wanted().Account && e.fault != "pm_stuck" {
				want[e.ID] = true
			}
		}
		for id := range want {
			if !got[id] {
				s.t.Errorf("the list of %ss does not have %s", o, id)
			}
		}
		for id := range got {
			if !want[id] {
				s.t.Errorf("the list of %ss has %s, and the ledger does not", o, id)
			}
		}
	}
}

// checkRecord compares a record with the ledger. Of a refund that has come back, the record may be from before, and may
// call it declined.
func (w *world) checkRecord(r gateway.Record) {
	w.t.Helper()
	var others []gateway.Record
	for _, e := range w.ledger() {
		if e.ID == r.ID {
			back := e.moved() && !e.Executed() && (r.Executed() || r.Status == gateway.StatusDeclined)
			if r.Differs(e.Record) == "" && (r.Status == e.Status || back) {
				return
			}
			others = append(others, e.Record)
		}
	}
	w.t.Errorf("the record %+v is none of the ledger's %+v", r, others)
}

// mostPages bounds the pages of a list. A list must end.
const mostPages = 1000

// list reads a list to its end.
func (w *world) list(o gateway.Object, after time.Time) (records []gateway.Record, unreadable []gateway.Unreadable) {
	w.t.Helper()
	cursor := ""
	for range mostPages {
		page, err := w.client.List(w.t.Context(), o, w.dialect.Account+"acme", after, cursor)
		if err != nil {
			w.t.Fatal(err)
		}
		records, unreadable = append(records, page.Records...), append(unreadable, page.Unreadable...)
		if cursor = page.Next; cursor == "" {
			if !slices.IsSortedFunc(records, func(a, b gateway.Record) int { return a.Created.Compare(b.Created) }) {
				w.t.Error("the list is not oldest first")
			}
			return records, unreadable
		}
	}
	w.t.Fatalf("the list of %ss has no end", o)
	return nil, nil
}

// checkStatement reads the statement of the first day, on the next one. It has the day's movements and nothing else.
func (s *scene) checkStatement() {
	s.t.Helper()
	s.clock.advance(24*time.Hour - s.clock.now().Sub(s.clock.now().Truncate(24*time.Hour)) + time.Hour)
	got := map[string]int{}
	status := ""
	published := gateway.StatementsOf(s.client)
	err := published.Statement(s.t.Context(), s.request.Wanted().Account, today(), func(l gateway.Line) error {
		got[l.ID]++
		s.checkRecord(l.Record)
		if l.ID == s.id {
			status = l.Status
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.fault.Fails && status != gateway.StatusDeclined {
		s.t.Errorf("the money is back, and the statement has it as %q", status)
	}
	for _, e := range s.ledger() {
		if e.Account == s.request.Wanted().Account && e.moved() {
			want := 1
			if s.fault.Fails && e.ID == s.id {
				want = 2 // The money has gone, and has come back.
			}
			if got[e.ID] != want {
				s.t.Errorf("the statement has %s %d times, want %d", e.ID, got[e.ID], want)
			}
			delete(got, e.ID)
		}
	}
	if len(got) > 0 {
		s.t.Errorf("the statement has what was not executed: %v", got)
	}

	tomorrow := published.Statement(s.t.Context(), s.request.Wanted().Account, today().AddDate(0, 0, 2), nil)
	if !errors.Is(tomorrow, gateway.ErrNoStatement) {
		s.t.Errorf("there is a statement of tomorrow: %v", tomorrow)
	}
}

// eventWords says what the events have told about the request. Each is the ledger's own word.
func (s *scene) eventWords() string {
	s.t.Helper()
	var words []string
	for _, m := range s.received() {
		switch e := m.event.(type) {
		case gateway.Moved:
			s.checkRecord(e.Record)
			if s.isRelated(e.Record) && !slices.Contains(words, s.recordWords([]gateway.Record{e.Record})) {
				words = append(words, s.recordWords([]gateway.Record{e.Record}))
			}
		case gateway.Ignored:
		default:
			s.t.Errorf("a webhook of the mock: refused %v, error %v: %s", m.refused, m.err, m.body)
		}
	}
	if len(words) == 0 {
		return "none"
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// ledgerWords says what has really happened.
func (s *scene) ledgerWords() string {
	s.t.Helper()
	if s.wire.strays > 0 {
		s.t.Error("the client has followed a redirect")
	}
	counts := map[string]int{}
	var words []string
	for _, e := range s.related() {
		word := e.Status
		if member := s.request.Wanted().Differs(e.Record); member != "" {
			word += " with another " + member
		}
		if counts[word]++; counts[word] == 1 {
			words = append(words, word)
		}
	}
	for i, word := range words {
		if counts[word] > 1 {
			words[i] = fmt.Sprintf("%d × %s", counts[word], word)
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
