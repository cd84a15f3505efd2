package sequence_test

import (
	"slices"
	"strings"
	"testing"

	"payonce/internal/idempotency"
	"payonce/internal/problem"
	"payonce/internal/sequence"
)

// What is drawn of remembered requests, as "FROM>TO label @seconds", with ! for an answer that nobody read. The arrows
// of the timeline are left out.
func TestRememberedRequests(t *testing.T) {
	t.Parallel()
	paid := func(requests ...sequence.Request) sequence.Life {
		l := life(completed, &idempotency.Response{Status: 201})
		l.Requests = requests
		return l
	}
	request := func(began, answered float64, status int, label string) sequence.Request {
		return sequence.Request{Began: at(began), At: at(answered), Status: status, Label: label,
			Bystander: label == sequence.Replayed || status == 409}
	}
	bystander := func(began, answered float64, status int) sequence.Request {
		r := request(began, answered, status, "")
		r.Bystander = true
		return r
	}
	again := event(5.001, "request", released, inProgress, "retried")
	again.Attempt = 2
	retaken := life(inProgress, nil, event(4.999, "owner", inProgress, released, "no connection"), again)
	retaken.Requests = []sequence.Request{request(0, 5, 503, "psp_unavailable"), request(2, 5.5, 201, "")}
	lost := life(unknown, nil, event(0.2, "owner", inProgress, unknown, "PSP answered 500"))
	lost.Requests = []sequence.Request{request(0, 0.3, 202, ""), request(0.4, 0.5, 202, ""),
		request(0.6, 0.7, 202, "")}
	gone := request(0, 2, problem.ClientGone, "")
	gone.Gone = at(1)
	goneFirst, goneAgain := gone, gone
	goneFirst.Bystander, goneAgain.Bystander, goneAgain.Gone = true, true, at(1.5)
	for name, c := range map[string]struct {
		life sequence.Life
		want string
	}{
		"a client that is seen to hang up": {
			paid(gone), "client>client the client hangs up|!API>client the connection is closed",
		},
		"two that hang up are two": {paid(goneFirst, goneAgain), "client>API the same key again|" +
			"client>API the same key again|client>client the client hangs up|client>client the client hangs up|" +
			"!API>client the connection is closed|!API>client the connection is closed"},
		"the owner's answer":      {paid(request(-0.1, 9.1, 201, "")), "API>client 201"},
		"by a clock that is fast": {paid(request(0.09, 9.2, 201, "")), "API>client 201"},
		"by a clock that is far off": {paid(request(0.2, 9.2, 201, "")),
			"client>API the same key again|API>client 201"},
		"a client that hangs up": {
			paid(request(0, 2, problem.ClientGone, "")), "!API>client the connection is closed",
		},
		"a decline": {paid(request(0, 2, 402, "payment_declined")), "API>client 402, payment_declined"},
		"a bystander has written nothing, whenever it came": {paid(bystander(0, 0.1, 202)),
			"client>API the same key again|API>client 202"},
		"the first request, refused": {paid(bystander(-2, -1, 422)),
			"client>API POST /payments|API>client 422"},
		"a waiter that is woken takes the second line": {retaken,
			"API>client 503, psp_unavailable|API>client 201"},
		"equal ones are one pair": {paid(request(10, 10.1, 201, sequence.Replayed), request(10.2, 10.3, 201,
			sequence.Replayed), request(10.4, 10.5, 201, sequence.Replayed)),
			"client>API the same key again ×3|API>client 201, replayed ×3"},
		"unless something has happened in between": {paid(request(1, 1.1, 409, "in_progress"),
			request(10, 10.1, 409, "in_progress")), "client>API the same key again|API>client 409, in_progress|" +
			"client>API the same key again|API>client 409, in_progress"},
		"only one request has reserved the key": {lost,
			"API>client 202|client>API the same key again ×2|API>client 202 ×2"},
	} {
		forgotten := c.life
		forgotten.Requests = nil
		recorded := sequence.Draw(forgotten).Steps
		var got []string
		for _, s := range sequence.Draw(c.life).Steps {
			if slices.Contains(recorded, s) {
				if s.To == sequence.Client && slices.ContainsFunc(c.life.Requests,
					func(r sequence.Request) bool { return !r.Bystander }) && !strings.Contains(name, "far off") {
					t.Errorf("%s: an answer is drawn that is not remembered: %+v", name, s)
				}
				continue
			}
			step := s.From.String() + ">" + s.To.String() + " " + s.Label
			if s.Lost {
				step = "!" + step
			}
			got = append(got, step)
		}
		if all := strings.Join(got, "|"); all != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, all, c.want)
		}
	}
}

// The process's clock may be behind the database's. The client was still answered after the commit.
func TestAnswerComesAfterTheOutcomeThatItTells(t *testing.T) {
	t.Parallel()
	l := life(completed, &idempotency.Response{Status: 201})
	l.Requests = []sequence.Request{{Began: at(-0.01), At: at(8.99), Status: 201}}
	steps := sequence.Draw(l).Steps
	if last := steps[len(steps)-1]; last.To != sequence.Client {
		t.Errorf("the last step is %+v", last)
	}
}

// Of a long timeline only the latest lines are read. What came before them is not invented.
func TestTimelineThatWasCutSaysSo(t *testing.T) {
	t.Parallel()
	written := make([]idempotency.Event, idempotency.MaxEvents)
	for i := range written {
		written[i] = event(float64(i+10), "owner", inProgress, unknown, "lost")
	}
	d := sequence.Draw(life(unknown, nil, written...))
	if len(d.Remarks) != 1 || !strings.Contains(d.Remarks[0], "left out") {
		t.Errorf("the remarks are %q", d.Remarks)
	}
	if charge := d.Steps[2]; charge.To != sequence.PSP || !charge.Inferred {
		t.Errorf("the first charge is %+v", charge)
	}
}

// A kill of the process is in the picture only where it means something for the key. But the process remembers nothing
// of the time before its start, so the count of requests may have fallen, and the picture always says so.
func TestStartOfANewProcessIsDrawnWithinTheLife(t *testing.T) {
	t.Parallel()
	replay := sequence.Request{Began: at(40), At: at(40.1), Status: 201, Label: sequence.Replayed, Bystander: true}
	for name, c := range map[string]struct {
		status  idempotency.Status
		started float64
		request []sequence.Request
		want    bool // whether the start is drawn
		older   bool // whether the picture says that requests may be missing
	}{
		"before the key":                       {unknown, -1, nil, false, false},
		"while the key is open":                {unknown, 3, nil, true, true},
		"after the end":                        {completed, 30, nil, false, true},
		"after the end, and there is a replay": {completed, 30, []sequence.Request{replay}, true, true},
		"after the end, and the key expires":   {expired, 30, nil, false, true},
	} {
		l := life(c.status, nil, event(1, "owner", inProgress, unknown, "no answer within 5 s"))
		switch c.status {
		case completed:
			l = life(completed, &idempotency.Response{Status: 201})
		case expired:
			l = life(expired, &idempotency.Response{Status: 201}, event(99, "pruner", completed, expired, "expired"))
		}
		l.Requests, l.Started = c.request, at(c.started)
		d := sequence.Draw(l)
		drawn := slices.ContainsFunc(d.Steps, func(s sequence.Step) bool {
			return s.Note() && s.From == sequence.API && s.At.Equal(l.Started)
		})
		if drawn != c.want || (len(d.Remarks) > 0) != c.older || d.Forgotten != c.older {
			t.Errorf("%s: drawn is %v, forgotten %v, the remarks are %q", name, drawn, d.Forgotten, d.Remarks)
		}
	}
}

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	l := lostAndFound()
	if n := sequence.Draw(l).Requests; n != 4 {
		t.Errorf("the first request, two replays and a refusal are %d requests", n)
	}
	l.Requests = nil // The process has ended. The request that has reserved the key is in the row.
	if n := sequence.Draw(l).Requests; n != 1 {
		t.Errorf("a request that nobody remembers counts as %d", n)
	}
}
