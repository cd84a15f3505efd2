package pgbench

import (
	"fmt"
	"maps"
)

// Event writes a webhook event and nothing else, in a transaction of its own. The SQL is by hand: the API's own also notes what it has stored, for
// the job, which costs a little more.
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

// EventAndJob writes an event and its job with the API's SQL, in one transaction and one round trip. The call that wakes the workers is left out: it
// is made now and then, not for each job, and with it commits wait for each other.
func EventAndJob(queries map[string]Query, body string, j Job) (Script, error) {
	script := Event(body)
	script.Name = "event and job"
	maps.Copy(script.variables, map[string]string{"kind": j.Kind, "queue": j.Queue})
	values := map[string]string{
		"ID": eventID, "SentAt": sentAt, "Body": ":body", "EventID": eventID, "Kind": ":kind", "Queue": ":queue",
		"Args": "jsonb_build_object('eventId', " + eventID + ")", "MaxAttempts": fmt.Sprint(j.MaxAttempts),
		"UniqueKey": "decode(" + hex + " || " + hex + ", 'hex')",
	}
	script.text = number + "\\startpipeline\n"
	for _, name := range []string{"webhooks.StoreEvent", "reconcile.EnqueueStored"} {
		q, found := queries[name]
		if !found {
			return script, fmt.Errorf("there is no query %s any more", name)
		}
		statement, err := q.with(values)
		if err != nil {
			return script, err
		}
		script.text += statement + "\n"
	}
	script.text += "\\endpipeline\n"
	return script, nil
}
