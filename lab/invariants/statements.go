package invariants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/payment"
)

// Statement is what the program tells an operator about a day of all accounts.
type Statement struct {
	Report []byte // JSON
	Exit   int
}

// dayReport is the report, as far as it can be known from outside.
type dayReport struct {
	Runs []struct {
		Account string `json:"account"`
		Day     string `json:"day"`
		Lines   int64  `json:"lines"`
		Breaks  int64  `json:"breaks"`
	} `json:"runs"`
	Breaks []dayBreak `json:"breaks"`
}

type dayBreak struct {
	Account   string     `json:"account"`
	Day       string     `json:"day"`
	Kind      string     `json:"kind"`
	Object    string     `json:"object"`
	Reference string     `json:"reference"`
	PSPID     string     `json:"pspId"`
	Theirs    *breakSide `json:"theirs"`
	Ours      *breakSide `json:"ours"`
}

type breakSide struct {
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
}

func (b dayBreak) String() string {
	text := strings.Join([]string{b.Day, b.Account, b.Kind, b.Object, b.Reference, b.PSPID}, " ")
	for _, s := range []struct {
		name string
		side *breakSide
	}{{"theirs", b.Theirs}, {"ours", b.Ours}} {
		if s.side != nil {
			text += fmt.Sprintf(" %s %d %s", s.name, s.side.AmountMinor, s.side.Currency)
		}
	}
	return text
}

const (
	chargeObject  = "charge"
	refundObject  = "refund"
	disputeObject = "dispute"
)

// statements is the part of I4 about settlement: the program is asked to reconcile each day that the PSP's ledger has
// something of, and finds exactly the breaks that there are between that ledger and our rows.
func statements(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if e.Statement == nil {
		return nil, nil
	}
	var found []Violation
	for _, day := range w.ledger.days() {
		told, err := e.Statement(ctx, day)
		if err != nil {
			return nil, fmt.Errorf("reconcile %s: %w", day.Format(time.DateOnly), err)
		}
		for _, wrong := range w.statementDiffers(day, told) {
			found = append(found, Violation{"I4", "statement of " + day.Format(time.DateOnly), wrong})
		}
	}
	return found, nil
}

func (l *Ledger) days() []time.Time {
	seen := map[time.Time]bool{}
	for _, e := range slices.Concat(l.Charges, l.Refunds, l.Disputes) {
		if at := e.at(); e.lines() > 0 && !at.IsZero() {
			seen[at.UTC().Truncate(24*time.Hour)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
}

// statementDiffers holds what was told of a day against both books.
func (w world) statementDiffers(day time.Time, told Statement) (wrong []string) {
	var r dayReport
	if err := json.Unmarshal(told.Report, &r); err != nil {
		return []string{fmt.Sprintf("exit code %d, and no report: %v", told.Exit, err)}
	}
	date := day.Format(time.DateOnly)
	want, may, lines := w.breaksOf(date)
	got := map[string]bool{}
	for _, b := range r.Breaks {
		if b.Day == date {
			got[b.String()] = true
		}
	}
	for _, b := range slices.Sorted(maps.Keys(want)) {
		if !got[b] {
			wrong = append(wrong, "a break is not told of: "+b)
		}
	}
	for _, b := range slices.Sorted(maps.Keys(got)) {
		if !want[b] && !may[b] {
			wrong = append(wrong, "a break that there is not: "+b)
		}
	}
	judged, breaks := map[string]bool{}, 0
	for _, run := range r.Runs {
		if breaks += int(run.Breaks); run.Day != date {
			continue // an earlier day, judged again
		}
		judged[run.Account] = true
		if run.Lines != lines[run.Account] {
			wrong = append(wrong, fmt.Sprintf("%d lines of %s were read, and the PSP's ledger has %d", run.Lines,
				run.Account, lines[run.Account]))
		}
	}
	for _, account := range w.books.accounts {
		if !judged[account] {
			wrong = append(wrong, "the account "+account+" was not judged")
		}
	}
	if exit := min(len(r.Breaks), 1); told.Exit != exit || breaks != len(r.Breaks) {
		wrong = append(wrong, fmt.Sprintf("exit code %d and %d breaks counted, with %d listed", told.Exit, breaks,
			len(r.Breaks)))
	}
	return wrong
}

// breaksOf compares the PSP's ledger of a day with our rows, and counts the lines that its statement has, by account.
// What no statement has yet may be told of, or may be pending: that depends on how long ago it was resolved.
func (w world) breaksOf(date string) (breaks, may map[string]bool, lines map[string]int64) {
	breaks, may, lines = map[string]bool{}, map[string]bool{}, map[string]int64{}
	told := map[uuid.UUID]bool{}
	for _, of := range []struct {
		object  string
		entries []Entry
	}{{chargeObject, w.ledger.Charges}, {refundObject, w.ledger.Refunds}, {disputeObject, w.ledger.Disputes}} {
		for _, e := range w.books.byWeight(of.entries, of.object) {
			if e.lines() == 0 || e.at().UTC().Format(time.DateOnly) != date {
				continue
			}
			lines[e.Account] += e.lines()
			for _, b := range w.books.breaks(e, of.object, told) {
				b.Day = date
				breaks[b.String()] = true
			}
		}
	}
	for _, e := range w.ledger.foreign { // a statement has them, and nobody misses them here
		if e.at().UTC().Format(time.DateOnly) == date {
			lines[e.Account] += e.lines()
		}
	}
	for _, m := range w.books.subjects {
		if m.Status == string(payment.Succeeded) && !told[m.ID] && m.Created.UTC().Format(time.DateOnly) == date &&
			!w.has(m) {
			may[m.missing(w.books.accounts[m.Tenant], date).String()] = true
		}
	}
	return breaks, may, lines
}

// lines is how often the money of an entry has moved, as if all of it were on the day of its creation: a run is short.
func (e Entry) lines() int64 {
	switch {
	case e.Executed(), isHeld(e.Status):
		return 1
	case e.cameBack(), e.Status == "won":
		return 2
	}
	return 0
}

// has reports whether a statement of any day has the row.
func (w world) has(m *movementRow) bool {
	entries := w.ledger.Charges
	if m.PaymentID != nil {
		entries = w.ledger.Refunds
	}
	return slices.ContainsFunc(entries, func(e Entry) bool {
		return e.lines() > 0 && w.books.about(e, m.object()) == m
	})
}

// about is the row that a line of a statement is about: the one that it names, or else, if it names none of the
// account's, the one that has its id.
func (b *books) about(e Entry, object string) *movementRow {
	if m := b.subjectOf(e); m != nil && b.accounts[m.Tenant] == e.Account && m.object() == object {
		return m
	}
	if m := b.byPSPID[e.Account+" "+e.ID]; m != nil && m.object() == object {
		return m
	}
	return nil
}

// byWeight puts lines before others about the same row if they have the id that we know the row by.
func (b *books) byWeight(entries []Entry, object string) []Entry {
	weight := func(e Entry) int {
		if m := b.about(e, object); m != nil && m.PSPID == e.ID {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return weight(a) - weight(b) })
	return sorted
}

func (m *movementRow) missing(account, date string) dayBreak {
	return dayBreak{
		Account: account, Day: date, Kind: "missing_there", Object: m.object(), Reference: m.String(), PSPID: m.PSPID,
		Ours: &breakSide{m.Amount, m.Currency},
	}
}

func (m *movementRow) object() string {
	if m.PaymentID != nil {
		return refundObject
	}
	return chargeObject
}

// breaks are those of one entry. told are the rows that an entry was compared with before.
func (b *books) breaks(e Entry, object string, told map[uuid.UUID]bool) (found []dayBreak) {
	m := b.about(e, object)
	add := func(kind string, so bool) {
		if !so {
			return
		}
		found = append(found, dayBreak{
			Account: e.Account, Kind: kind, Object: object, Reference: e.Reference, PSPID: e.ID,
			Theirs: &breakSide{e.AmountCents, e.Currency},
			Ours:   m.side(),
		})
	}
	if m == nil {
		// A dispute of a charge that is nobody's moves no money of ours.
		add("missing_here", !b.asKept(e) && (object != disputeObject || b.byPSPID[e.Account+" "+e.ChargeID] != nil))
		return found
	}
	if told[m.ID] {
		add("duplicate", true)
		return found
	}
	told[m.ID] = true
	succeeded := m.Status == string(payment.Succeeded)
	cameBack := object == refundObject && e.cameBack() && m.Status == string(payment.Declined)
	add("status", !succeeded && m.Status != string(payment.Reversed) && !cameBack)
	adopted := m != b.subjectOf(e)
	add("psp_id", succeeded && (adopted || m.PSPID != e.ID && !strings.HasPrefix(m.PSPID, payment.OperatorPSPID)))
	add("amount", m.Amount != e.AmountCents)
	add("currency", m.Currency != e.Currency)
	return found
}

// asKept reports whether a payment has kept the entry as the PSP has it.
func (b *books) asKept(e Entry) bool {
	return slices.ContainsFunc(b.outside, func(r outsideRow) bool {
		return r.PSPID == e.ID && b.accounts[r.Tenant] == e.Account && r.Status == e.keptAs() &&
			r.Amount == e.AmountCents && r.Currency == e.Currency
	})
}

func (m *movementRow) side() *breakSide {
	if m == nil {
		return nil
	}
	return &breakSide{m.Amount, m.Currency}
}
