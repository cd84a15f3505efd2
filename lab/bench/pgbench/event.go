package pgbench

import (
	"fmt"
	"maps"
)

// Event writes a webhook event and nothing else, in a transaction of its own.
func Event(queries map[string]Query, body string) (Script, error) {
	store, err := storing(queries)
	return Script{Name: "event", variables: map[string]string{"body": body, "n": "0"}, text: number + store}, err
}

const eventID = "('evt_' || " + hex + "::uuid::text)"

func storing(queries map[string]Query) (string, error) {
	const name = "webhooks.StoreEvent"
	q, found := queries[name]
	if !found {
		return "", fmt.Errorf("there is no query %s any more", name)
	}
	text, err := q.with(map[string]string{"ID": eventID, "SentAt": "date_trunc('second', clock_timestamp())", "Body": ":body"})
	return text + "\n", err
}

// Job is what the API has written into the queue for an event.
type Job struct {
	Kind, Queue           string
	MaxAttempts, Priority int
	UniqueStates          string // as bits
}

// EventAndJob writes an event and its job, in one transaction and one round trip. The SQL of the job is by hand: the queue's own is made for many
// jobs at once. Rows and indexes are the same, and so is the duplicate that it looks out for. The call that wakes the workers is left out: the queue
// makes it now and then, not for each job, and with it commits wait for each other.
func EventAndJob(queries map[string]Query, body string, j Job) (Script, error) {
	script, err := Event(queries, body)
	store, _ := storing(queries)
	script.Name = "event and job"
	script.variables = maps.Clone(script.variables)
	maps.Copy(script.variables, map[string]string{"kind": j.Kind, "queue": j.Queue, "states": j.UniqueStates})
	script.text = number + "\\startpipeline\n" + store + fmt.Sprintf(`INSERT INTO river_job (args, kind, max_attempts, priority, queue, state, tags, unique_key, unique_states)
VALUES (jsonb_build_object('eventId', %s), :kind, %d, %d, :queue, 'available', '{}', decode(%[4]s || %[4]s, 'hex'), (:states::text)::bit(8))
ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state)
DO UPDATE SET kind = river_job.kind RETURNING id;
`, eventID, j.MaxAttempts, j.Priority, hex) + "\\endpipeline\n"
	return script, err
}
