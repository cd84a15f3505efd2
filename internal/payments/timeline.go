package payments

import (
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/idempotency"
)

// TimelineLine is a line of a key's timeline. The public API and the operator's API show it. The order of the fields is
// the order of the JSON members.
type TimelineLine struct {
	At         string             `json:"at"`
	Actor      string             `json:"actor"`
	From       idempotency.Status `json:"from,omitempty"`
	To         idempotency.Status `json:"to"`
	Attempt    int32              `json:"attempt"`
	Generation int32              `json:"generation"`
	Reason     string             `json:"reason"`
	Evidence   jsontext.Value     `json:"evidence,omitzero"`
}

// TimelineLines returns the lines of a timeline. The slice is never nil.
func TimelineLines(events []idempotency.Event) []TimelineLine {
	lines := make([]TimelineLine, len(events))
	for i, e := range events {
		lines[i] = TimelineLine{
			At: e.At.UTC().Format(TimeForm), Actor: e.Actor, From: e.From, To: e.To, Attempt: e.Attempt,
			Generation: e.Generation,
			Reason:     e.Reason, Evidence: e.Evidence,
		}
	}
	return lines
}
