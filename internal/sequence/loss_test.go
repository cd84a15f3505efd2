package sequence_test

import (
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/sequence"
)

// What the pictures of losses have in common.
const (
	asks    = "client>API POST /payments|API>database reserved, attempt 1|"
	charged = "PSP>PSP succeeded: 120.00 USD, ch_1|"
	gaveUp  = "API>API connection lost|API>database unknown|~API>client 202, not known yet"
	over    = "reconciler>database unknown (lease over)"
	again   = "client>API the same key again|"
	noReply = asks + "API>PSP charge|API>API no answer in time|API>database unknown|~API>client 202, not known yet|" +
		"reconciler>PSP look up the key|"
)

// lost is a charge whose owner has no answer. killed is one whose owner has written nothing until its lease was over.
func lost(ledger ...gateway.Record) sequence.Life {
	l := life(unknown, nil, event(5, "owner", inProgress, unknown, gateway.ConnectionLost))
	l.Ledger = ledger
	return l
}

func killed(events ...sequence.Event) sequence.Life {
	l := life(unknown, nil, event(30, "sweeper", inProgress, unknown, "lease over"))
	l.Ledger, l.Events = []gateway.Record{succeeded(2, "ch_1")}, events
	return l
}

// A loss stands where it happened, and where it was noticed there is a note. Nothing is said to be lost that may have
// arrived.
func TestLossBeginsWhenItWasSentAndEndsNowhere(t *testing.T) {
	t.Parallel()
	read := lost()
	read.SetLedger(gateway.NotFound{})
	unread := lost()
	unread.SetLedger(gateway.NotFound{})
	unread.SetLedger(gateway.LookupFailed{Reason: "timeout"})
	held := life(inProgress, nil)
	held.Ledger, held.Events = killed().Ledger, []sequence.Event{happens(3, "API", "is killed")}
	twice := event(10, "request", released, inProgress, "retried")
	twice.Attempt = 2
	retried := life(inProgress, nil, event(5, "owner", inProgress, unknown, gateway.NoAnswer),
		event(9, "lookup", unknown, released, "nothing"), twice)
	retried.Row.LockedUntil, retried.Ledger = nil, []gateway.Record{succeeded(11, "ch_1")}
	retried.Events = []sequence.Event{happens(12, "API", "is killed")}
	reborn := killed()
	reborn.Row.Generation = 2
	renewed := event(90, "request", expired, inProgress, "reserved again")
	done := event(91, "owner", inProgress, unknown, "PSP answered 500")
	renewed.Generation, done.Generation = 2, 2
	reborn.Timeline = append(reborn.Timeline, renewed, done)
	released := killed()
	released.Row.Attempt = 2
	renewed.Generation, renewed.Attempt, done.Generation, done.Attempt = 1, 2, 1, 2
	released.Timeline = append(released.Timeline, renewed, done)
	refused := life(inProgress, nil)
	refused.Requests = []sequence.Request{{Began: at(-2), At: at(-1), Status: 422, Bystander: true}}
	answered := killed(happens(3, "API", "is killed"))
	answered.Requests = []sequence.Request{{Began: at(0), At: at(2.5), Status: 503}}
	for name, c := range map[string]struct {
		life sequence.Life
		want string
	}{
		"the answer is lost": {lost(succeeded(2, "ch_1")),
			asks + "API>PSP charge|" + charged + "!~PSP>API its answer is lost|" + gaveUp},
		"the PSP charges when nobody waits any more": {lost(succeeded(7, "ch_1")),
			asks + "API>PSP charge|" + gaveUp + "|" + strings.TrimSuffix(charged, "|")},
		"the PSP was not asked":            {lost(), asks + "API>PSP charge|" + gaveUp},
		"the PSP has nothing":              {read, asks + "!API>PSP charge; the PSP has nothing|" + gaveUp},
		"the PSP had nothing, and is away": {unread, asks + "API>PSP charge|" + gaveUp},
		"killed, and nobody has seen that": {killed(happens(-5, "API", "is killed")),
			asks + "~API>PSP charge|" + charged + "!~PSP>API its answer was not written|~API>API no answer was written|" + over},
		"killed after the charge": {killed(happens(3, "API", "is killed"), happens(9, "API", "is killed")),
			asks + "~API>PSP charge|" + charged + "!~PSP>API its answer is lost|API>API the API is killed|" + over},
		"killed before the charge": {killed(happens(1, "API", "is killed")),
			asks + "~API>PSP charge|API>API the API is killed|" + charged + "!~PSP>API its answer is lost|" + over},
		"killed, and the lease still runs": {held, "client>API POST /payments|API>database reserved, attempt 1, " +
			"lease until +30 s|~API>PSP charge|" + charged + "!~PSP>API its answer is lost|" +
			"API>API the API is killed"},
		"killed after its answer": {answered, asks + "~API>PSP charge|" + charged + "API>client 503|" + over},
		"what a retry has charged is not the charge before": {retried, asks + "API>PSP charge|" +
			"API>API no answer in time|API>database unknown|~API>client 202, not known yet|" +
			"reconciler>PSP look up the key|PSP>reconciler nothing|reconciler>database failed_retryable|" +
			"client>API the same key again|API>database reserved, attempt 2|~API>PSP charge|" + charged +
			"!~PSP>API its answer is lost|API>API the API is killed"},
		"killed, expired, and used again": {reborn, asks + "~API>PSP charge|" + charged +
			"!~PSP>API its answer was not written|~API>API no answer was written|" + over +
			"|client>API the same key again|API>database reserved, attempt 1, generation 2|API>PSP charge|" +
			"?PSP>API PSP answered 500|API>database unknown|~API>client 202, not known yet"},
		"killed, released and retried": {released, asks + "~API>PSP charge|" + charged +
			"!~PSP>API its answer was not written|~API>API no answer was written|" + over +
			"|client>API the same key again|API>database reserved, attempt 2|API>PSP charge|" +
			"?PSP>API PSP answered 500|API>database unknown|~API>client 202, not known yet"},
		"the PSP's clock is slow": {lost(succeeded(-0.5, "ch_1")),
			asks + "API>PSP charge|" + charged + "!~PSP>API its answer is lost|" + gaveUp},
		"spans count from the first request": {refused, "client>API POST /payments|API>client 422|" +
			"client>API POST /payments|API>database reserved, attempt 1, lease until +32 s|~API>PSP charge"},
	} {
		if got := inShort(c.life); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// A picture has an end of a process only if that can have ended the request, and a lost answer only while somebody has
// waited for it. It says that the PSP has nothing only of what was read.
func TestLossIsThatOfItsOwnRequest(t *testing.T) {
	t.Parallel()
	replays := func(l sequence.Life, killed float64) sequence.Life {
		l.Events = append(l.Events, happens(killed, "API", "is killed"))
		l.Requests = []sequence.Request{{Began: at(400), At: at(401), Status: 201, Bystander: true}}
		return l
	}
	charges := func(l sequence.Life, seconds float64) sequence.Life {
		l.Ledger = []gateway.Record{succeeded(seconds, "ch_1")}
		return l
	}
	next := event(90, "request", expired, inProgress, "reserved again")
	next.Generation = 2
	forgotten := life(inProgress, nil, event(5, "owner", inProgress, unknown, gateway.NoAnswer),
		event(9, "lookup", unknown, completed, "succeeded"), event(80, "pruner", completed, expired, "old"))
	forgotten.Timeline = append(forgotten.Timeline, next)
	forgotten.Row.LockedUntil, forgotten.Row.Generation = nil, 2
	next.Generation, next.Attempt = 1, 2
	remade := life(inProgress, nil, event(5, "owner", inProgress, unknown, gateway.NoAnswer),
		event(9, "lookup", unknown, released, "nothing"))
	remade.Timeline = append(remade.Timeline, next)
	remade.Row.LockedUntil, remade.Row.Attempt, remade.Object = nil, 2, "pi_2"
	forgotten.SetLedger(gateway.NotFound{})
	remade.SetLedger(gateway.NotFound{})
	object := lost(succeeded(0, "pi_1"))
	object.Object = "pi_1"
	finished := life(completed, nil, event(30, "sweeper", inProgress, unknown, "lease over"),
		event(31, "webhook", unknown, completed, "found"))
	confirmed := life(completed, nil, event(5, "webhook", inProgress, completed, "found"))
	unswept := life(inProgress, nil)
	unswept.Row.LockedUntil, unswept.Events = nil, []sequence.Event{happens(3, "API", "is killed")}
	const found = "PSP>API webhook: found|reconciler>database completed|"
	for name, c := range map[string]struct {
		life sequence.Life
		want string
	}{
		"an empty ledger is that of its generation": {forgotten, noReply + "PSP>reconciler succeeded|" +
			"reconciler>database completed|reconciler>database expired (old)|" + again +
			"API>database reserved, attempt 1, generation 2|~API>PSP charge"},
		"only the object of the present attempt was read": {remade, noReply + "PSP>reconciler nothing|" +
			"reconciler>database failed_retryable|" + again + "API>database reserved, attempt 2|" +
			"API>PSP create pi_2|API>database store pi_2|~API>PSP confirm"},
		"an object's time is not that of its execution": {object, asks + "API>PSP create pi_1|" +
			"API>database store pi_1|API>PSP confirm|PSP>PSP later succeeded: 120.00 USD, pi_1|" + gaveUp},
		"a later kill has ended no request": {replays(charges(finished, 2), 50), asks + "~API>PSP charge|" + charged +
			"!~PSP>API its answer was not written|~API>API no answer was written|" + over + "|" + found + again +
			"API>client 201"},
		"killed when a webhook had completed the key": {replays(charges(confirmed, 2), 6), asks + "~API>PSP charge|" +
			charged + found + "API>API the API is killed|" + again + "API>client 201"},
		"killed long after the answer": {replays(life(completed, &idempotency.Response{Status: 201}), 300), asks +
			"API>PSP charge|PSP>API answer|API>database completed|~API>client 201|" + again + "API>client 201"},
		"nobody has seen the end, and the next process is killed": {
			killed(happens(20, "API", sequence.Starts), happens(25, "API", "is killed")), asks + "~API>PSP charge|" +
				charged + "!~PSP>API its answer was not written|~API>API no answer was written|" + over},
		"killed, and charged after its lease": {charges(killed(happens(3, "API", "is killed")), 45), asks +
			"~API>PSP charge|API>API the API is killed|" + over + "|" + strings.TrimSuffix(charged, "|")},
		"killed, never swept, and charged an hour later": {charges(unswept, 3600), asks +
			"~API>PSP charge|API>API the API is killed|" + strings.TrimSuffix(charged, "|")},
	} {
		if got := inShort(c.life); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func happens(seconds float64, process, what string) sequence.Event {
	return sequence.Event{At: at(seconds), Process: process, What: what}
}

// What happened to processes is in the picture of a key from its first request to its final answer.
func TestEventsAreDrawnWithinTheLife(t *testing.T) {
	t.Parallel()
	events := []sequence.Event{happens(-1, "reconciler", sequence.Starts), happens(0.05, "API", sequence.Starts),
		happens(2, "database", "crashes"), happens(3, "database", sequence.Starts),
		happens(20, "reconciler", "is killed"), happens(40, "API", "is killed"), happens(60, "reconciler", "is killed")}
	paid := life(completed, &idempotency.Response{Status: 201})
	open := life(unknown, nil, event(5, "owner", inProgress, unknown, "PSP answered 500"))
	replayed := paid
	replayed.Requests = []sequence.Request{{Began: at(50), At: at(50.1), Status: 201, Label: sequence.Replayed,
		Bystander: true}, {Began: at(70), At: at(70.1), Status: 201, Label: sequence.Replayed, Bystander: true}}
	crash := []string{"the database crashes", "the database starts"}
	for _, c := range []struct {
		name string
		life sequence.Life
		want []string
	}{
		{"paid", paid, crash},
		{"answered at last", replayed, append(crash, "the reconciler is killed", "the API is killed")},
		{"open", open, append(crash, "the reconciler is killed", "the API is killed", "the reconciler is killed")},
		{"of no key", sequence.Life{}, nil},
	} {
		c.life.Events = events
		var got []string
		for _, s := range sequence.Draw(c.life).Steps {
			if strings.HasPrefix(s.Label, "the ") && s.Note() {
				got = append(got, s.Label)
			}
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// Nobody sends a webhook to an API that is away: the reconciler reads one that has come before.
func TestWebhookIsReadFromTheDatabaseWhileTheAPIIsAway(t *testing.T) {
	t.Parallel()
	for want, back := range map[string]float64{
		"database>reconciler webhook: the PSP says succeeded": 12, "PSP>API webhook: the PSP says succeeded": 8,
	} {
		l := life(completed, &idempotency.Response{Status: 201},
			event(9, "webhook", inProgress, completed, "the PSP says succeeded"))
		l.Events = []sequence.Event{happens(7, "API", "is killed"), happens(back, "API", sequence.Starts)}
		if got := inShort(l); !strings.Contains(got, want) {
			t.Errorf("back at %v s: no %q in %s", back, want, got)
		}
	}
}

// The events are a file of another process. Whatever it has, there is a picture.
func TestEventsThatCannotBeReadAreNone(t *testing.T) {
	t.Parallel()
	const whole = `[{"at":"2026-11-23T12:00:03Z","process":"API","what":"is killed"}`
	for raw, want := range map[string]int{
		whole + "]": 1, "": 0, "null": 0, "{}": 0, "\x00\xff": 0, whole[:20]: 0,
		whole + `,{"at":"2026-11-23T12:00:03Z","process":"moon","what":"rises"}]`: 1,
	} {
		l := life(inProgress, nil)
		l.Events = sequence.ParseEvents([]byte(raw))
		if got := strings.Count(inShort(l), "API>API the API is killed"); got != want {
			t.Errorf("%q: %d are drawn, want %d", raw, got, want)
		}
	}
}

func TestTimesCountFromTheFirstStep(t *testing.T) {
	t.Parallel()
	d := sequence.Diagram{Steps: []sequence.Step{{At: at(0)}}}
	for span, want := range map[time.Duration]string{
		0: "0.000 s", 5 * time.Millisecond: "0.005 s", 59*time.Second + 999999*time.Microsecond: "59.999 s",
		time.Minute: "1:00.000", 65*time.Second + 5*time.Millisecond: "1:05.005",
		59*time.Minute + 30*time.Second: "59:30.000",
		time.Hour + 5*time.Second:       "1:00:05", 51*time.Hour + 5*time.Second + time.Millisecond: "2 d 03:00:05",
		-3 * time.Millisecond: "-0.003 s",
	} {
		if got := d.Time(at(0).Add(span)); got != want {
			t.Errorf("%s is %q, want %q", span, got, want)
		}
	}
	d.Clock = true
	var text strings.Builder
	if err := d.Text(&text); err != nil || !strings.Contains(text.String(), "\n2026-11-23, times in UTC\n") ||
		!strings.Contains(text.String(), "\n12:00:00.000  *") {
		t.Errorf("by the clock: %v\n%s", err, &text)
	}
}
