package judge

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// DeadLetterOf is a dead letter with the ids that are in its evidence. Evidence of another form has none of them.
func DeadLetterOf(l deadletters.DeadLetter) *DeadLetter {
	parts := in[map[string]jsontext.Value](l.Evidence)
	job := in[struct {
		JobID   int64  `json:"jobId"`
		EventID string `json:"eventId"`
		Args    struct {
			EventID string `json:"eventId"`
		} `json:"args"`
	}](l.Evidence)
	if l.Kind == deadletters.JobDiscarded {
		job.EventID = job.Args.EventID
	}
	seen := &DeadLetter{DeadLetter: l, JobID: job.JobID, EventID: job.EventID}
	for _, raw := range []jsontext.Value{parts["record"], l.Evidence} {
		if _, err := gateway.ParseRecord(raw); err == nil {
			seen.Record = raw
		}
	}
	if l.About != nil {
		seen.readPSP(parts["answer"], parts["record"], l.Evidence)
	}
	return seen
}

// in reads a part of evidence. If it is not there, or has another form, in returns the zero value.
func in[T any](raw jsontext.Value) T {
	var v, none T
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return none
	}
	return v
}

// pspFields is what evidence may say about a movement: it is a record, or the PSP's answer to a request of ours.
type pspFields struct {
	ID             string         `json:"id"`
	Object         gateway.Object `json:"object"`
	Status         string         `json:"status"`
	IdempotencyKey string         `json:"idempotencyKey"`
	Reference      string         `json:"reference"`
}

// readPSP finds in parts of the evidence what the PSP says about the dead letter's movement: its answer to a request of
// ours, or a record. It takes no id of a decline, and no id of another movement: the answer may be meant for another
// request.
func (d *DeadLetter) readPSP(parts ...jsontext.Value) {
	ref := idempotency.StoredRef(d.About.Tenant, d.About.Operation, d.About.Key)
	key := idempotency.Execution{Ref: ref, Generation: d.About.Generation}.PassThroughKey()
	object, reference := payment.ObjectOf(ref.Operation), ""
	if d.Subject != nil {
		reference = payment.ReferenceOf(object, *d.Subject)
	}
	for _, raw := range parts {
		t := in[pspFields](raw)
		if !gateway.IsID(t.ID) || t.Status == string(payment.Declined) {
			continue
		}
		if t.Object != "" && t.Object != object {
			continue // It is what others have done to the payment.
		}
		byKey, byReference := t.IdempotencyKey == key, t.Reference != "" && t.Reference == reference
		if d.Executed == "" && byReference && t.Status == string(payment.Succeeded) {
			d.Executed = t.ID
		}
		if d.PSPID == "" && (byKey || t.IdempotencyKey == "") &&
			(byReference || t.Reference == "" || reference == "") {
			d.PSPID, d.ByMark = t.ID, byKey || byReference
		}
	}
}
