package controls

import (
	"strings"
	"testing"
	"time"

	"payonce/demo/windows"
	"payonce/internal/idempotency"
)

// What the page says next follows from what the client was told, the key's row, and the PSP's books.
func TestGuideFollowsFromTheFacts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 14, 44, 40, 0, time.UTC)
	row := func(status idempotency.Status) Row { return Row{Status: status, LeaseEnd: now.Add(14 * time.Second)} }
	key := func(sent, status int, waits, lost bool) story {
		return story{Key: "k", First: now, Sent: sent, Status: status, Waiting: waits, Lost: lost}
	}
	in, unknown := row(idempotency.InProgressStatus), row(idempotency.UnknownStatus)
	done := row(idempotency.CompletedStatus)
	once := books{Read: true, Charges: 1, Requests: 1}
	for name, c := range map[string]struct {
		facts facts
		want  string
	}{
		"nothing was sent": {facts{}, "Press 1."},
		"the request is new": {
			facts{story: key(1, 0, true, false)},
			"The request is on its way.",
		},
		"the API waits": {
			facts{story: key(1, 0, true, false), Row: in},
			"Now press 2, before 14:44:45 (UTC).",
		},
		"the API is away": {
			facts{story: key(1, 0, false, true), Row: in, Away: true},
			"This is expected. Now press 3.",
		},
		"it is back": {
			facts{story: key(1, 0, false, true), Row: in},
			"The client has no answer, and does not know",
		},
		"a retry waits": {
			facts{story: key(2, 0, true, true), Row: in},
			"waits for its answer",
		},
		"the first request waits, and the outcome is known": {
			facts{story: key(1, 0, true, true), Row: done},
			"The first request still waits for it.",
		},
		"a retry waits, and the outcome is known": {
			facts{story: key(2, 0, true, true), Row: done},
			"The same request was sent again, and waits for its answer.",
		},
		"a retry gets 409": {
			facts{story: key(2, 409, false, true), Row: in},
			"The answer is 409 until about 14:44:54 (UTC)",
		},
		"an operator has to decide": {
			facts{story: key(2, 202, false, true), Row: Row{Status: idempotency.UnknownStatus, Case: true}},
			"An operator has to decide about this payment.",
		},
		"nobody knows": {
			facts{story: key(2, 409, false, true), Row: unknown},
			"The reconciler asks the PSP.",
		},
		"it was not killed": {
			facts{story: key(1, 202, false, false), Row: unknown},
			"The reconciler asks the PSP.",
		},
		"found": {
			facts{story: key(2, 409, false, true), Row: done, PSP: once},
			"the answer is stored. Press 3",
		},
		"found after a 202": {
			facts{story: key(1, 202, false, false), Row: done, PSP: once},
			"the answer is stored. Press 3",
		},
		"paid at once": {
			facts{story: key(1, 201, false, false), Row: done, PSP: once},
			"charged once. Press 3",
		},
		"declined": {
			facts{story: key(1, 402, false, false), Row: done},
			"The answer is final. Press 3",
		},
		"released": {
			facts{story: key(1, 503, false, false), Row: row(idempotency.FailedRetryableStatus)},
			"has not charged",
		},
		"held": {
			facts{story: key(1, 0, true, false), Row: in, HeldAt: "3b"},
			"held at window 3b",
		},
		"seen, after kill -9": {
			facts{story: key(3, 201, false, true), Row: done, PSP: once},
			"The PSP has charged once, although the client sent the request 3 times " +
				"and the API was killed: your retries did not reach the PSP, because",
		},
		"seen, without kill -9": {
			facts{story: key(2, 201, false, false), Row: done, PSP: once},
			"sent the request 2 times: your retry did not reach the PSP",
		},
		"executed again": {
			facts{story: key(3, 201, false, true), Row: done, PSP: books{true, 1, 2}},
			"3 times and the API was killed.",
		},
		"charged twice": {
			facts{story: key(3, 201, false, true), Row: done, PSP: books{true, 2, 2}},
			"has charged 2 times",
		},
		"the PSP is not read": {
			facts{story: key(3, 201, false, true), Row: done},
			"The client has its answer, although",
		},
	} {
		c.facts.Now, c.facts.Deadline = now, now.Add(5*time.Second)
		if got := guide(c.facts); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q lacks %q", name, got, c.want)
		}
	}
}

func TestStoryIsThatOfTheNewestKey(t *testing.T) {
	t.Parallel()
	log := &told{now: time.Now}
	p := payment{Key: "k", Token: "pm_ok", Amount: usualAmount}
	log.finish(log.begin("pay", payment{Key: "older"}), answer{Status: 201})
	log.finish(log.begin("pay", p), answer{Lost: true})
	log.finish(log.begin("again", p), answer{Status: 409})
	log.finish(log.begin("another amount", payment{Key: "k", Token: "pm_ok", Amount: otherAmount}), answer{Status: 422})
	log.begin("again", p)
	log.note("kill -9 the API", "done")
	s := log.story()
	if s.Key != "k" || s.Sent != 3 || !s.Waiting || s.Status != 409 || !s.Lost || s.First.IsZero() {
		t.Errorf("the story is %+v", s)
	}
}

func TestPresetOfTheRates(t *testing.T) {
	t.Parallel()
	for rates, want := range map[string]string{
		`{"rates":{"slow":0},"webhooks":{"drop":0}}`:           "none",
		`{"rates":{"slow":0},"webhooks":{"drop":1,"delay":0}}`: "no-webhooks",
		`{"rates":{"slow":0.5},"webhooks":{}}`:                 "",
		`{"rates":{"500_charged":0.1},"webhooks":{}}`:          "",
		`{"rates":{},"webhooks":{},"stripe":{"read_500":0}}`:   "none",
		`{"rates":{},"webhooks":{},"stripe":{"read_500":1}}`:   "",
		`nothing`:          "",
		presets()[1].rates: "lossy",
	} {
		if got := presetOf([]byte(rates)); got != want {
			t.Errorf("%s is %q", rates, got)
		}
	}
}

func TestAnswerToAWebhookSaysWhatItMeans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		known  bool
		want   string
	}{
		{0, true, "no answer"}, {401, true, "has not stored"}, {204, true, "seen this webhook before"},
		{204, false, "has stored this webhook"},
	} {
		if got := webhookAnswer(c.status, c.known); !strings.Contains(got, c.want) {
			t.Errorf("%d, %t: %q", c.status, c.known, got)
		}
	}
}

// One sentence says how a hold has ended, and what has become of the key by now. It claims no more than was read.
func TestSentenceAboutAHoldFollowsFromTheRow(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 11, 23, 14, 44, 40, 0, time.UTC)
	window, _ := windows.Native().ByID("3c")
	e := windows.Ended{Window: window, Key: "k", How: "the API was killed", At: ended}
	at := func(status idempotency.Status, by string, later time.Duration) Row {
		return Row{Read: true, Status: status, By: by, Finished: ended.Add(later),
			LeaseEnd: ended.Add(14 * time.Second)}
	}
	once := books{Read: true, Charges: 1}
	for want, c := range map[string]struct {
		row Row
		psp books
	}{
		"a webhook completed the key 6 s later: charged once.": {at("completed", "webhook", 6*time.Second), once},
		"a lookup completed the key at once: charged once.":    {at("completed", "lookup", time.Millisecond), once},
		"the API completed the key before that: charged once.": {at("completed", "owner", -time.Second), once},
		"completed the key 9 s later: charged 2 times.": {
			at("completed", "scan", 9*time.Second), books{true, 2, 2},
		},
		"6 s later: the PSP does not say whether it has charged": {at("completed", "scan", 6*time.Second), books{}},
		"a lookup released the key 30 s later: not charged, so": {
			at("failed_retryable", "lookup", 30*time.Second), books{Read: true},
		},
		"in progress until 14:44:54 (UTC), when its lease ends, or until a webhook comes.": {at("in_progress", "", 0), once},
		"in progress until 14:44:54 (UTC), when its lease ends.": {
			at("in_progress", "", 0), books{Read: true},
		},
		"the key is unknown until":                     {at("unknown", "", 0), once},
		"an operator has to decide":                    {Row{Read: true, Status: "unknown", Case: true}, once},
		"the database has no such key, and nobody was": {Row{Read: true}, books{Read: true}},
		"the key has expired: charged once, and the same request would be a new payment.": {at("expired", "", 0), once},
		"the key is deleted: charged once, and the same request would be a new payment.":  {Row{Read: true}, once},
		"what has become of the key is not known yet.":                                    {Row{}, books{Read: true}},
	} {
		got := seen(e, c.row, c.psp)
		if !strings.Contains(got, want) ||
			!strings.HasPrefix(got, "At 3c (the API has the answer; the database does not), the API was killed; ") {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
