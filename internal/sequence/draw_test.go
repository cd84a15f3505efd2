package sequence_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/sequence"
)

// at is a moment of the tests' day.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// row is a key's row in a status, as of 9 seconds after its reservation.
func row(status idempotency.Status, response *idempotency.Response) idempotency.KeyRow {
	r := idempotency.KeyRow{
		Ref:    idempotency.StoredRef("acme", "POST /payments", "order-0000000042"),
		Status: status, Attempt: 1, Generation: 1, Created: at(0), Reserved: at(0), Response: response,
	}
	lease, finished := at(30), at(9)
	if status == idempotency.InProgressStatus {
		r.LockedUntil = &lease
	}
	if response != nil {
		r.Finished = &finished
	}
	return r
}

// event is a stored line of a timeline, of the first attempt.
func event(seconds float64, actor string, from, to idempotency.Status, reason string) idempotency.Event {
	return idempotency.Event{At: idempotency.Time(at(seconds)), Actor: actor, From: from, To: to, Attempt: 1,
		Generation: 1, Reason: reason}
}

// life is a key with these stored lines.
func life(status idempotency.Status, response *idempotency.Response, stored ...idempotency.Event) sequence.Life {
	r := row(status, response)
	return sequence.Life{Row: r, Timeline: r.Timeline(stored)}
}

const (
	inProgress = idempotency.InProgressStatus
	unknown    = idempotency.UnknownStatus
	completed  = idempotency.CompletedStatus
	released   = idempotency.FailedRetryableStatus
	expired    = idempotency.ExpiredStatus
)

// succeeded is a charge in the PSP's ledger.
func succeeded(seconds float64, id string) gateway.Record {
	return gateway.Record{ID: id, AmountMinor: 12000, Currency: "USD", Status: "succeeded", Created: at(seconds)}
}

// lostAndFound is a charge whose answer was lost. A lookup came too early, then a webhook completed the key.
func lostAndFound() sequence.Life {
	l := life(completed, &idempotency.Response{Status: 201},
		event(5, "owner", inProgress, unknown, gateway.NoAnswer),
		event(7, "lookup", unknown, unknown, "nothing"),
		event(9, "webhook", unknown, completed, "the PSP says succeeded"))
	l.Ledger = []gateway.Record{succeeded(0.2, "ch_1")}
	l.GracePeriod = 20 * time.Second
	l.Requests = []sequence.Request{
		{Began: at(0), At: at(5.1), Status: 202},
		{Began: at(10), At: at(10.1), Status: 201, Label: sequence.Replayed, Bystander: true},
		{Began: at(10.1), At: at(10.2), Status: 201, Label: sequence.Replayed, Bystander: true},
		{Began: at(11), At: at(11.1), Status: 422, Label: "other_payload", Bystander: true},
	}
	return l
}

func ExampleDraw() {
	if err := sequence.Draw(lostAndFound()).Text(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// POST /payments, key order-0000000042
	// from 2026-11-23 12:00:00.000 UTC on
	//
	//           client      API         database    PSP         reconciler
	//  0.000 s  |---------->|           |           |           |  POST /payments
	//  0.000 s  |           |---------->|           |           |  reserved, attempt 1
	//  0.000 s  |           |---------------------->|           |  charge
	//  0.200 s  |           |           |           *           |  succeeded: 120.00 USD, ch_1
	//  0.200 s  |           |           | x - - - - |           |  its answer is lost
	//  5.000 s  |           *           |           |           |  no answer in time
	//  5.000 s  |           |---------->|           |           |  unknown
	//  5.100 s  |<----------|           |           |           |  202
	//  7.000 s  |           |           |           |<----------|  look up the key
	//  7.000 s  |           |           |           |---------->|  nothing, no proof before +25 s
	//  7.000 s  |           |           |<----------------------|  stays unknown
	//  9.000 s  |           |<----------------------|           |  webhook: the PSP says succeeded
	//  9.000 s  |           |           |<----------------------|  completed
	// 10.000 s  |---------->|           |           |           |  the same key again ×2
	// 10.200 s  |<----------|           |           |           |  201, replayed ×2
	// 11.000 s  |---------->|           |           |           |  the same key again
	// 11.100 s  |<----------|           |           |           |  422, other_payload
	//
	// - - >  Nobody has recorded this. It follows from the rest.
	//
	// ---x   This has not arrived, as far as is known.
}

// The arrows of each kind of line, as "FROM>TO label", with ~ for what nobody has recorded, ! for what was lost, and ?
// for what was not usable.
func TestStepsOfEachLine(t *testing.T) {
	t.Parallel()
	const begins = "client>API POST /payments|API>database reserved, attempt 1"
	again, reborn := life(inProgress, nil), life(inProgress, nil)
	next := event(40, "request", released, inProgress, "retried")
	next.Attempt = 2
	renewed := event(90, "request", expired, inProgress, "reserved again")
	renewed.Generation = 2
	again.Row.Attempt, reborn.Row.Generation = 2, 2
	again.Timeline = again.Row.Timeline([]idempotency.Event{event(5, "owner", inProgress, unknown, "PSP answered 500"),
		event(26, "lookup", unknown, released, "nothing"), next})
	reborn.Timeline = reborn.Row.Timeline([]idempotency.Event{event(80, "pruner", released, expired, "retention over"),
		renewed})
	remembered := life(unknown, nil, event(30, "sweeper", inProgress, unknown, "lease over"))
	remembered.Requests = []sequence.Request{{Began: at(0), At: at(20), Status: 503}}
	for name, c := range map[string]struct {
		life sequence.Life
		want string
	}{
		"in flight": {life(inProgress, nil),
			"client>API POST /payments|API>database reserved, attempt 1, lease until +30 s|~API>PSP charge"},
		"paid": {life(completed, &idempotency.Response{Status: 201}),
			begins + "|API>PSP charge|PSP>API answer|API>database completed|~API>client 201"},
		"nothing was sent": {life(released, nil, event(1, "owner", inProgress, released, "owner was paused")),
			begins + "|API>API owner was paused|API>database failed_retryable|~API>client 503, not executed"},
		"killed": {life(unknown, nil, event(30, "sweeper", inProgress, unknown, "lease over")),
			begins + "|~API>PSP charge|~API>API no answer was written|reconciler>database unknown (lease over)"},
		"killed, and it comes back": {life(unknown, nil, event(30, "sweeper", inProgress, unknown, "lease over"),
			event(31, "owner", unknown, completed, "late success")), begins + "|~API>PSP charge|" +
			"reconciler>database unknown (lease over)|PSP>API answer|API>database completed|~API>client the stored response"},
		"killed, and a process remembers its answer": {remembered, begins + "|~API>PSP charge|API>client 503|" +
			"reconciler>database unknown (lease over)"},
		"met by the next request": {life(unknown, nil, event(30, "request", inProgress, unknown, "lease over")),
			begins + "|~API>PSP charge|~API>API no answer was written|client>API the same key again|API>database unknown|" +
				"~API>client 202, not known yet"},
		"released by a lookup, and retried": {again,
			begins + "|API>PSP charge|?PSP>API PSP answered 500|API>database unknown|~API>client 202, not known yet|" +
				"reconciler>PSP look up the key|PSP>reconciler nothing|reconciler>database failed_retryable|" +
				"client>API the same key again|API>database reserved, attempt 2, lease until +30 s|~API>PSP charge"},
		"found by the scan": {life(completed, &idempotency.Response{Status: 201},
			event(5, "scan", released, completed, "the PSP says succeeded")),
			begins + "|~API>PSP charge|PSP>reconciler ledger scan: the PSP says succeeded|reconciler>database completed"},
		"in the settlement file": {life(completed, &idempotency.Response{Status: 201},
			event(5, "statement", released, completed, "the PSP says succeeded")), begins + "|~API>PSP charge|" +
			"PSP>reconciler settlement file: the PSP says succeeded|reconciler>database completed"},
		"decided": {life(completed, &idempotency.Response{Status: 201},
			event(5, "operator", unknown, completed, "an operator says: executed")),
			begins + "|~API>PSP charge|operator>API an operator says: executed|API>database completed"},
		"expired and used again": {reborn, begins + "|~API>PSP charge|reconciler>database expired (retention over)|" +
			"client>API the same key again|API>database reserved, attempt 1, generation 2, lease until +30 s|~API>PSP charge"},
	} {
		if all := inShort(c.life); all != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, all, c.want)
		}
	}
}

// inShort are the steps of a life in one line.
func inShort(l sequence.Life) string {
	var all []string
	for _, s := range sequence.Draw(l).Steps {
		step := s.From.String() + ">" + s.To.String() + " " + s.Label
		if s.Inferred {
			step = "~" + step
		}
		if s.Lost {
			step = "!" + step
		}
		if s.Unusable {
			step = "?" + step
		}
		all = append(all, step)
	}
	return strings.Join(all, "|")
}

// A description or a reason may be anybody's text.
func TestTextOfStrangersStaysText(t *testing.T) {
	t.Parallel()
	hostile := "<script>alert(1)</script> & \"x\" \x1b[2J\u202e\n" + strings.Repeat("😀", 200)
	l := life(unknown, nil, event(5, "owner", inProgress, unknown, hostile))
	l.LedgerUnread = hostile
	d := sequence.Draw(l)
	var text, svg strings.Builder
	for out, write := range map[*strings.Builder]func(io.Writer) error{&text: d.Text, &svg: d.SVG} {
		if err := write(out); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\u202e") {
			t.Errorf("a control character is in\n%q", out)
		}
	}
	if strings.Contains(svg.String(), "<script") {
		t.Error("the SVG has an element of the label")
	}
	if lines := strings.Count(text.String(), "\n"); lines != len(d.Steps)+8 {
		t.Errorf("a label has made lines: there are %d of text\n%s", lines, &text)
	}
	elements := 0
	decoder := xml.NewDecoder(strings.NewReader(svg.String()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the SVG is not well-formed: %v\n%s", err, &svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements++
			if start.Name.Local == "script" || start.Name.Local == "foreignObject" {
				t.Errorf("the SVG has %s", start.Name.Local)
			}
		}
	}
	if elements < len(d.Steps) {
		t.Errorf("the SVG has %d elements for %d steps", elements, len(d.Steps))
	}
}

// A participant is drawn from the first step on that touches it, and a label that has no room has a short form. The
// whole is in the title of the arrow.
func TestDrawingHasRoomForItsParticipantsAndLabels(t *testing.T) {
	t.Parallel()
	l := life(inProgress, nil)
	l.Requests = []sequence.Request{{Began: at(1), At: at(1.1), Status: 409, Label: "idempotency_key_in_progress",
		Bystander: true}}
	d := sequence.Draw(l)
	var svg strings.Builder
	if err := d.SVG(&svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">409, in progress</text>", "<title>2026-11-23 12:00:01.100 UTC, 409, idempotency_key_in_progress</title>",
		">reserved until +30 s</text>"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the drawing lacks %s", want)
		}
	}
	if strings.Contains(svg.String(), "…") {
		t.Errorf("a label is cut in\n%s", &svg)
	}
	// PSP and database are at 590 and 440. The cross is between them, and not on the line of the database.
	svg.Reset()
	if err := sequence.Draw(lostAndFound()).SVG(&svg); err != nil ||
		!regexp.MustCompile(`<path class="arrow inferred lost" d="M590 \d+H454"/><path class="arrow lost" d="M450 `).
			MatchString(svg.String()) {
		t.Errorf("no answer ends nowhere: %v\n%s", err, &svg)
	}
	for actor, want := range map[string]string{"owner": "PSP", "lookup": "reconciler", "operator": "operator"} {
		later := life(completed, nil, event(5, "owner", inProgress, unknown, "PSP answered 500"),
			event(9, actor, unknown, completed, "the PSP says succeeded"))
		var text strings.Builder
		if err := sequence.Draw(later).Text(&text); err != nil {
			t.Fatal(err)
		}
		heading := strings.Split(text.String(), "\n")[3]
		if !strings.HasSuffix(heading, want) {
			t.Errorf("%s: the participants are %s", actor, heading)
		}
	}
}

func TestNothingIsDrawnOfNothing(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := (sequence.Diagram{Title: "empty"}).Text(&text); err != nil || !strings.Contains(text.String(),
		"Nothing is known of this key.") {
		t.Errorf("%v: %s", err, &text)
	}
}

// arrows are the steps of a diagram in short.
func arrows(d sequence.Diagram) string {
	var all []string
	for _, s := range d.Steps {
		arrow := s.From.String() + " > " + s.To.String() + ": " + s.Label
		if s.Inferred {
			arrow += " (dashed)"
		}
		all = append(all, arrow)
	}
	return strings.Join(all, "\n")
}

// A PSP that executes in two steps has made an object, whose id is in the payment's row.
func TestTwoStepsAreTwoArrows(t *testing.T) {
	t.Parallel()
	paid := life(completed, &idempotency.Response{Status: 201})
	killed := life(unknown, nil, event(30, "sweeper", inProgress, unknown, "the lease is over"))
	freed := life(released, nil, event(1, "owner", inProgress, released, "the PSP has cancelled it"))
	paused := life(released, nil, event(12, "owner", inProgress, released, "owner was paused"))
	for _, c := range []struct {
		name string
		life sequence.Life
		want []string
		not  string
	}{
		{"paid", paid, []string{"API > PSP: create pi_1\nAPI > database: store pi_1\nAPI > PSP: confirm\nPSP > API: answer"}, "charge"},
		{"killed", killed, []string{"API > PSP: create pi_1\nAPI > database: store pi_1\nAPI > PSP: confirm (dashed)"}, "charge"},
		{"cancelled", freed, []string{"API > PSP: create pi_1\nAPI > database: store pi_1\nAPI > PSP: confirm\nAPI > PSP: cancel (dashed)\nPSP > API: the PSP has cancelled it"},
			"API > API"},
		{"paused", paused, []string{"API > PSP: create pi_1\nAPI > database: store pi_1\nAPI > API: owner was paused"}, "confirm"},
	} {
		c.life.Object = "pi_1"
		got := arrows(sequence.Draw(c.life))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, got)
			}
		}
		if strings.Contains(got, c.not) {
			t.Errorf("%s: %q is drawn:\n%s", c.name, c.not, got)
		}
	}
	// A PSP that counts whole seconds has charged before the request, by its own clock.
	paid.Object, paid.Ledger = "pi_1", []gateway.Record{succeeded(-0.4, "pi_1")}
	if got := arrows(sequence.Draw(paid)); !strings.Contains(got, "confirm\nPSP > PSP: later succeeded") {
		t.Errorf("the charge is not after the confirmation:\n%s", got)
	}
	waits := life(unknown, nil, event(1, "owner", inProgress, unknown, "the PSP waits: requires_action"))
	for _, s := range sequence.Draw(waits).Steps {
		if s.Lost {
			t.Errorf("an answer is drawn as lost: %+v", s)
		}
	}
	// The object is that of the present attempt. The row has forgotten the one before.
	again := life(inProgress, nil, event(1, "owner", inProgress, released, "PSP answered 429"),
		event(2, "request", released, inProgress, "reserved"))
	again.Timeline[len(again.Timeline)-1].Attempt, again.Row.Attempt, again.Object = 2, 2, "pi_2"
	if got := arrows(sequence.Draw(again)); strings.Count(got, "create pi_2") != 1 {
		t.Errorf("an object of two attempts:\n%s", got)
	}
}

// A page that is looked at keeps the ledger that it has shown, while the PSP does not answer.
func TestWhatThePSPSaysOfItsLedger(t *testing.T) {
	t.Parallel()
	declined := succeeded(1, "ch_1")
	declined.Status, declined.DeclineCode = "declined", "no_funds"
	l := life(unknown, nil)
	for _, c := range []struct {
		answer  gateway.Lookup
		records int
		unread  string
	}{
		{gateway.Found{Records: []gateway.Record{declined}}, 1, ""},
		{gateway.LookupFailed{Reason: "timeout"}, 1, "timeout"},
		{gateway.NotFound{}, 0, ""},
		{gateway.Found{Records: []gateway.Record{declined}}, 1, ""},
		{gateway.Waiting{Reason: "requires_action"}, 0, "it waits: requires_action"},
	} {
		l.SetLedger(c.answer)
		drawn := strings.Count(arrows(sequence.Draw(l)), "PSP > PSP: declined (no_funds): 120.00 USD, ch_1")
		if len(l.Ledger) != c.records || drawn != c.records || l.LedgerUnread != c.unread {
			t.Errorf("after %#v: %d records, %d drawn, %q", c.answer, len(l.Ledger), drawn, l.LedgerUnread)
		}
	}
}
