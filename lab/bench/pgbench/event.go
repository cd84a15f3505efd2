package pgbench

import (
	"fmt"
	"maps"
)

// Event writes a webhook event and nothing else, in a transaction of its own. The SQL is that of the API's StoreEvent.
func Event(body string) Script {
	return Script{Name: "event", variables: map[string]string{"body": body, "n": "0"}, text: number + fmt.Sprintf(
		"INSERT INTO webhook_events (id, sent_at, body) VALUES (%s, %s, :body) ON CONFLICT (id) DO NOTHING;\n", eventID, sentAt)}
}

const (
	eventID = "('evt_' || " + hex + "::uuid::text)"
	sentAt  = "date_trunc('second', clock_timestamp())"
)

// Job is what the API has written into the queue for an event.
type Job struct {
	Kind, Queue string
	MaxAttempts int
}

// EventAndJob writes an event and its job in one transaction and one round trip. That is the limit, and not the API's
// own way: there, River inserts the job by a statement for many jobs and wakes the workers now and then, in four or
// five round trips. What is written is the same (samerows_test.go).
func EventAndJob(body string, j Job) Script {
	script := Event(body)
	script.Name = "event and job"
	maps.Copy(script.variables, map[string]string{"kind": j.Kind, "queue": j.Queue})
	script.text = number + "\\startpipeline\n" + fmt.Sprintf(
		"INSERT INTO webhook_events (id, sent_at, body) VALUES (%s, %s, :body) ON CONFLICT (id) DO NOTHING;\n", eventID, sentAt) + fmt.Sprintf(
		"INSERT INTO river_job (kind, args, queue, max_attempts, tags, unique_key, unique_states) VALUES (:kind, jsonb_build_object('eventId', %s), "+
			":queue, %d, '{}', decode(%s || %s, 'hex'), B'11110001') ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL "+
			"AND river_job_state_in_bitmask(unique_states, state) DO NOTHING;\n", eventID, j.MaxAttempts, hex, hex) +
		"\\endpipeline\n"
	return script
}
