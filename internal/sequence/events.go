package sequence

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// Event is what has happened to a process, as the program has seen it that runs the process.
type Event struct {
	At      time.Time `json:"at"`
	Process string    `json:"process"` // "API", "database" or "reconciler"
	What    string    `json:"what"`    // such as "is killed"
}

// Starts is what has happened to a process that serves from then on. Everything else is an end.
const Starts = "starts"

// ParseEvents reads the events that a program has stored. What cannot be read is no event: a picture can do without.
func ParseEvents(raw []byte) []Event {
	var events []Event
	_ = json.Unmarshal(raw, &events)
	return slices.DeleteFunc(events, func(e Event) bool {
		_, known := processes[e.Process]
		return !known
	})
}

// processes have names, in events.
var processes = map[string]Column{"API": API, "database": Database, "reconciler": Reconciler}

// away reports whether an API process had ended by then, and no other one had started.
func (l Life) away(at time.Time) (away bool) {
	for _, e := range l.Events {
		if processes[e.Process] == API && e.At.Before(at) {
			away = e.What != Starts
		}
	}
	return away
}

// happened are the notes of what has happened to processes between the first request and the final answer, or until
// now if there is none.
func (l Life) happened(attempts []attempt) (notes []Step) {
	if len(l.Timeline) == 0 {
		return nil
	}
	final := l.Timeline[len(l.Timeline)-1].At.Time()
	if i := slices.IndexFunc(l.Requests, func(r Request) bool { return r.At.After(final) }); i >= 0 {
		final = l.Requests[i].At
	}
	var events []Event
	for _, a := range attempts {
		if a.ended.What != "" {
			events = append(events, a.ended)
		}
	}
	for _, e := range l.Events {
		if processes[e.Process] != API {
			events = append(events, e)
		}
	}
	for _, e := range events {
		if at := processes[e.Process]; !e.At.Before(l.begin) && (l.open() || !e.At.After(final)) {
			notes = append(notes, Step{At: e.At, From: at, To: at, Label: "the " + e.Process + " " + e.What})
		}
	}
	return notes
}
