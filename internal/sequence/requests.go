package sequence

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/problem"
)

// Request is a request with the key that one API process remembers. Its times are those of the process.
type Request struct {
	Began, At time.Time // At is the time of the answer
	Gone      time.Time // when the client hung up; zero if it waited for the answer, or if that is not known
	Status    int       // of the answer; problem.ClientGone if nobody could read it
	Label     string    // Replayed, or the code of a problem, or nothing
	// Bystander says that the request has not reserved the key: it was refused, or was told about another request.
	Bystander bool
}

// maxSkew is how far the clocks of a process and of the database may differ, for a request to be recognised as the one
// that wrote a line of the timeline.
const maxSkew = 100 * time.Millisecond

// matchRequests finds the requests that wrote a line of the timeline, by the index of the line. The others have left no
// row: they are replays and refusals.
func (l Life) matchRequests() (own map[int]Request, others []Request) {
	own = map[int]Request{}
	for _, r := range l.Requests {
		fits := func(skew time.Duration) int {
			for i, e := range l.Timeline {
				if _, taken := own[i]; !taken && r.wrote(e, skew) {
					return i
				}
			}
			return -1
		}
		line := fits(0)
		if line < 0 {
			line = fits(maxSkew)
		}
		if line < 0 {
			others = append(others, r)
		} else {
			own[line] = r
		}
	}
	return own, others
}

// Replayed is the label of a request that was answered with the stored response.
const Replayed = "replayed"

// wrote reports whether the request may have written the line.
func (r Request) wrote(e idempotency.Event, skew time.Duration) bool {
	return e.Actor == "request" && !r.Bystander &&
		!e.At.Time().Before(r.Began.Add(-skew)) && !e.At.Time().After(r.At.Add(skew))
}

// ownAnswer is the answer to the request that wrote line i. By a clock that is slow, it would come before the outcome
// that it tells.
func (l Life) ownAnswer(i int, r Request) Step {
	for _, e := range l.Timeline[i+1:] {
		if e.Actor == "owner" && e.Attempt == l.Timeline[i].Attempt && e.Generation == l.Timeline[i].Generation &&
			e.At.Time().After(r.At) && e.At.Time().Before(r.At.Add(maxSkew)) {
			r.At = e.At.Time()
		}
	}
	return r.answer(1)
}

// hangUp is the note that the client has closed its connection, if it has.
func (r Request) hangUp() []Step {
	if r.Gone.IsZero() {
		return nil
	}
	return []Step{{At: r.Gone, From: Client, To: Client, Label: "the client hangs up"}}
}

// answer is the arrow of the answer. times is how often it was given in a row.
func (r Request) answer(times int) Step {
	s := Step{At: r.At, From: API, To: Client, Label: strconv.Itoa(r.Status)}
	switch {
	case r.Status == problem.ClientGone:
		s.Label, s.Lost = "the connection is closed", true
	case r.Label != "":
		s.Label += ", " + r.Label
		if short := shortCodes[r.Label]; short != "" {
			s.Short = strconv.Itoa(r.Status) + ", " + short + repeated(times)
		}
	}
	s.Label += repeated(times)
	return s
}

// shortCodes say in few words what the long codes of problems mean.
var shortCodes = map[string]string{
	"idempotency_key_in_progress":                   "in progress",
	"idempotency_key_held":                          "held",
	"idempotency_key_reused_with_different_payload": "another request",
}

func repeated(times int) string {
	if times < 2 {
		return ""
	}
	return fmt.Sprintf(" ×%d", times)
}

// others draws the requests that have left no row. Equal ones, with no line of the timeline between them, are one pair
// of arrows.
func (l Life) others(others []Request) []Step {
	var steps []Step
	for len(others) > 0 {
		first, n := others[0], 1
		for n < len(others) && others[n].Status == first.Status && others[n].Label == first.Label &&
			others[n].Gone.Equal(first.Gone) && !l.happensBetween(first.At, others[n].At) {
			n++
		}
		last := others[n-1]
		asks := Step{At: first.Began, From: Client, To: API, Label: "the same key again"}
		if len(l.Timeline) == 0 || first.Began.Before(l.Timeline[0].At.Time()) {
			asks.Label = string(l.Row.Ref.Operation)
		}
		asks.Label += repeated(n)
		steps = append(append(steps, asks), first.hangUp()...)
		steps, others = append(steps, last.answer(n)), others[n:]
	}
	return steps
}

func (l Life) happensBetween(from, to time.Time) bool {
	return slices.ContainsFunc(l.Timeline, func(e idempotency.Event) bool {
		return e.At.Time().After(from) && e.At.Time().Before(to)
	})
}
