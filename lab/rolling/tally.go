package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"payonce/internal/problem"
	"payonce/lab/history"
	"payonce/lab/payers"
)

// tally is what the update has cost the clients.
type tally struct {
	answers map[string]int // by the process that gave them
	crashed int            // requests that a process had when it was killed
	lost    []string       // requests that were taken, and had no answer; by process and key
	refused []string       // connections that nobody took
	wrong   []string       // answers that an update may not cause
	psp     int            // answers 503 because the PSP was asked to fail
	gap     time.Duration  // the longest time in which no payment was done
}

// crash is a process that was killed, when that was, and when it served again. What it lost then is not the update's.
type crash struct {
	process      string
	killed, back time.Duration
}

// caused reports whether a client had no answer because of it: the client had one asked before, and lost it at that
// instant or later.
func (c crash) caused(o history.Operation) bool {
	return o.API == c.process && o.Call < c.back && o.Failed >= c.killed
}

// count counts what clients have asked. Nothing may be under way any more.
func count(operations []history.Operation, c crash) tally {
	t := tally{answers: map[string]int{}}
	var done []time.Duration
	for _, o := range operations {
		what := o.API + " " + o.Key
		switch {
		case !o.Answered() && c.caused(o):
			t.crashed++
		case !o.Answered() && strings.Contains(o.Failure, "connection refused"):
			t.refused = append(t.refused, what)
		case !o.Answered():
			t.lost = append(t.lost, what+": "+o.Failure)
		case o.Status == http.StatusServiceUnavailable && strings.Contains(string(o.Body), payers.NotCharged) &&
			codeOf(o) == problem.PSPUnavailable:
			t.psp++
		case !usual(o):
			t.wrong = append(t.wrong, fmt.Sprintf("%s: %d %s", what, o.Status, o.Answer))
		}
		if o.Answered() {
			t.answers[o.API]++
		}
		if payers.Final(o.Status) {
			done = append(done, o.Return)
		}
	}
	slices.Sort(done)
	for i := 1; i < len(done); i++ {
		t.gap = max(t.gap, done[i]-done[i-1])
	}
	return t
}

// usual reports whether an answer is one that clients have without an update, too.
func usual(o history.Operation) bool {
	switch o.Status {
	case http.StatusCreated, http.StatusAccepted, http.StatusPaymentRequired:
		return true
	case http.StatusConflict:
		return codeOf(o) == problem.IdempotencyKeyInProgress
	}
	return false
}

func codeOf(o history.Operation) problem.Code {
	var body struct {
		Code problem.Code `json:"code"`
	}
	_ = json.Unmarshal(o.Answer, &body) // what cannot be read has no code
	return body.Code
}

// tell writes the figures into the report, and what may not be among them.
func (t tally) tell(r *report) {
	total := 0
	for _, process := range slices.Sorted(maps.Keys(t.answers)) {
		r.Facts.Tell("answers of "+process, "%d", t.answers[process])
		total += t.answers[process]
	}
	r.Facts.Tell("answers in all", "%d", total)
	r.Facts.Tell("lost with the API that was killed", "%d, sent again by their clients", t.crashed)
	r.Facts.Tell("503 because the PSP failed", "%d, as was asked for", t.psp)
	r.Facts.Tell("longest time without a payment", "%s", t.gap.Round(time.Millisecond))
	for _, each := range []struct {
		name  string
		found []string
	}{{"answers lost", t.lost}, {"connections refused", t.refused}, {"wrong answers", t.wrong}} {
		r.Facts.Tell(each.name, "%d", len(each.found))
		for _, what := range each.found {
			r.broken("case", each.name, "%s", what)
		}
	}
}
