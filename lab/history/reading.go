package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/internal/problem"
)

// kind is what an answer means for its key. doc.go has the table.
type kind int

const (
	lost       kind = iota // nothing is known
	storeAway              // nothing is known, but that the PSP was not asked: 503, or 409 for a key that is held
	silent                 // it has never touched the key
	final                  // 201, 402
	accepted               // 202
	busy                   // 409 in progress
	misuse                 // 422
	released               // 503 psp_unavailable
	unreserved             // 503 psp_unavailable, and the key was not even reserved
	refused                // 409 for the payment's state: the key was not reserved
	tooOld                 // 410: never executed, and not to be executed any more
)

// reading is an operation as the model takes it.
type reading struct {
	operation Operation
	index     int // in the key's history
	kind      kind
	code      problem.Code
	subject   string // the payment or refund that it names, or ""
	final     string // digest of a final answer
	first     bool   // of a final answer: it was told to be no replay
}

// document is all bodies in one.
type document struct {
	PaymentID string       `json:"paymentId"`
	RefundID  string       `json:"refundId"`
	Status    any          `json:"status"` // a payment's is a word, a problem's a number
	Code      problem.Code `json:"code"`
}

// read reads an operation, or says why its answer is none that the contract has.
func read(o Operation, index int) (reading, error) {
	r := reading{operation: o, index: index, kind: lost}
	if !o.Answered() {
		return r, nil
	}
	var body document
	if err := json.Unmarshal(o.Answer, &body); err != nil {
		return r, fmt.Errorf("the body of a %d is not JSON", o.Status)
	}
	r.code, r.subject = body.Code, body.PaymentID
	if o.Route == RefundsRoute {
		r.subject = body.RefundID
	}
	switch o.Status {
	case http.StatusCreated:
		r.kind = final
		if body.Status != "succeeded" {
			return r, fmt.Errorf("a 201 shows a movement that is %v", body.Status)
		}
	case http.StatusAccepted:
		r.kind = accepted
		if body.Status != "processing" {
			return r, fmt.Errorf("a 202 shows a movement that is %v", body.Status)
		}
	default:
		var known bool
		if r.kind, known = kindOf(o, body.Code, r.subject); !known {
			return r, fmt.Errorf("%d with code %q has no place in the contract", o.Status, body.Code)
		}
	}
	return r, r.check()
}

// kindOf reads a problem. The status must be that of the code.
func kindOf(o Operation, code problem.Code, subject string) (kind, bool) {
	entry, known := problem.Lookup(code)
	if !known || entry.Status != o.Status {
		return lost, false
	}
	switch code {
	case problem.PaymentDeclined:
		return final, o.Route == PaymentsRoute
	case problem.RefundDeclined:
		return final, o.Route == RefundsRoute
	case problem.IdempotencyKeyInProgress:
		return busy, true
	case problem.IdempotencyKeyReusedWithDifferentPayload:
		return misuse, true
	case problem.RefundExceedsPayment, problem.PaymentNotRefundable:
		return refused, o.Route == RefundsRoute
	case problem.PSPUnavailable:
		if subject == "" {
			return unreserved, true
		}
		return released, true
	case problem.IdempotencyKeyExpired:
		return tooOld, true
	case problem.IdempotencyStoreUnavailable, problem.IdempotencyKeyHeld:
		return storeAway, true
	case problem.InternalError:
		return lost, true
	case problem.IdempotencyKeyMissing, problem.IdempotencyKeyInvalid, problem.InvalidRequest, problem.Unauthenticated,
		problem.Forbidden, problem.NotFound, problem.MethodNotAllowed, problem.BodyTooLarge,
		problem.UnsupportedMediaType, problem.RateLimited, problem.ShuttingDown:
		return silent, true
	}
	return lost, false
}

// check asks what must be right about each answer by itself, and digests a final one.
func (r *reading) check() error {
	header := r.operation.Header
	if echo := header.Get("Idempotency-Key"); echo != r.operation.Key && r.kind != silent && r.kind != lost {
		return fmt.Errorf("a %d echoes the key %q", r.operation.Status, echo)
	}
	if (r.kind == accepted || r.kind == final || r.kind == busy) && r.subject == "" {
		return fmt.Errorf("a %d names no payment or refund", r.operation.Status)
	}
	if r.kind != final {
		return nil
	}
	switch header.Get("Idempotent-Replayed") {
	case "false":
		r.first = true
	case "true":
	default:
		return fmt.Errorf("a %d does not say whether it is a replay", r.operation.Status)
	}
	for _, name := range []string{"Location", "Content-Type", "Idempotency-Key-Expires"} {
		if len(header.Values(name)) != 1 {
			return fmt.Errorf("a %d has %d headers %s", r.operation.Status, len(header.Values(name)), name)
		}
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s\n%s\n%s", r.operation.Status, header.Get("Content-Type"),
		header.Get("Location"),
		header.Get("Idempotency-Key-Expires"), r.operation.Answer))
	r.final = hex.EncodeToString(digest[:])
	return nil
}

// mayTake reports whether the request may have taken the key, now or later.
func (r *reading) mayTake() bool {
	switch r.kind {
	case lost, storeAway, final, accepted, released:
		return true
	case silent, busy, misuse, unreserved, refused, tooOld:
	}
	return false
}

// mayReachPSP reports whether it may have been executed when it has.
func (r *reading) mayReachPSP() bool { return r.kind == lost || r.kind == final || r.kind == accepted }

// tells reports whether its answer says anything about the key.
func (r *reading) tells() bool { return r.kind != lost && r.kind != storeAway && r.kind != silent }

func (r *reading) String() string {
	if !r.operation.Answered() {
		return strings.TrimSpace("no answer " + r.operation.Failure)
	}
	text := fmt.Sprint(r.operation.Status)
	switch {
	case r.kind == final && r.first:
		text += " first " + r.final[:8]
	case r.kind == final:
		text += " replay " + r.final[:8]
	case r.code != "":
		text += " " + string(r.code)
	}
	if r.subject != "" {
		text += " " + r.subject
	}
	return text
}
