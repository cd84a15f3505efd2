package judge

import (
	"cmp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/payment"
)

// Case is a dead letter that is to be opened, or one that is answered.
type Case struct {
	Source   Source // who answers it
	Kind     deadletters.Kind
	Finding  string // one finding is one dead letter
	AboutKey bool
	Reason   string
	Evidence []byte
}

// foundRecord is a case about a record of the PSP. Two records that contradict the same result are two cases. If the
// evidence has no id, it is a case about the key. A record of another account is about no key of this tenant's.
func (s Seen) foundRecord(kind deadletters.Kind, rep report, reason string) *Case {
	if rep.id == "" {
		return s.byKey(kind, reason, rep.kept())
	}
	finding := RecordFinding(cmp.Or(rep.account, s.Account), rep.id)
	aboutKey := s.Own.Generation > 0 && kind != deadletters.OtherAccount
	// A PSP may count its charges and its refunds apart, and give the same id to one of each.
	if rep.object == gateway.RefundObject || s.Own.Ref.Operation == payment.RefundOperation {
		finding = "refund " + finding
	}
	if aboutKey && !s.Known() { // It holds the key, and the statement's case of the same record does not.
		finding += " key " + s.Own.PassThroughKey()
	}
	return &Case{Kind: kind, Finding: finding, AboutKey: aboutKey, Reason: reason, Evidence: rep.kept()}
}

// byKey is a case about the key. There is one dead letter of each kind for a key.
func (s Seen) byKey(kind deadletters.Kind, reason string, evidence []byte) *Case {
	return &Case{Kind: kind, Finding: s.About().KeyFinding(s.Own.Subject), AboutKey: true, Reason: reason,
		Evidence: evidence}
}

// contradiction is a case about the key and a record of the PSP. A second record that contradicts the same request is
// another case. The same record under another key is also another case, because each key needs its own dead letter to
// hold it.
func (s Seen) contradiction(id, reason string, evidence []byte) *Case {
	c := s.byKey(deadletters.PSPContradicts, reason, evidence)
	if id != "" {
		c.Finding += " record " + id
	}
	return c
}

// RecordFinding names a charge of the PSP's ledger. The name of a refund has the word refund before it.
func RecordFinding(account, id string) string { return "record " + account + " " + id }

// report is an outcome, together with the parts of the evidence that a timeline or a dead letter keeps.
type report struct {
	source  Source
	outcome gateway.Outcome
	account string         // "" if it is the tenant's
	object  gateway.Object // "" if it is that of the movement
	id      string         // the id of the PSP's record, or ""
	moved   bool           // whether money has moved, or may have moved
	record  []byte         // JSON for the timeline and for a dead letter, or nil
	whole   []byte         // JSON that a dead letter keeps instead of record, or nil
}

// kept is the evidence in the form in which a dead letter keeps it.
func (rep report) kept() []byte {
	if rep.whole != nil {
		return rep.whole
	}
	return evidenceOf(rep.source, rep.record)
}

// evidenceOf is a record and its source, in the form in which a dead letter keeps them.
func evidenceOf(source Source, record []byte) []byte {
	kept := struct {
		Source Source         `json:"source"`
		Record jsontext.Value `json:"record,omitzero"`
	}{source, record}
	raw, err := json.Marshal(kept)
	if err != nil {
		return []byte(`{}`)
	}
	return raw
}

func reasonOf(o gateway.Outcome) string {
	if i, ok := o.(gateway.Indeterminate); ok {
		return i.Reason
	}
	return "it says " + o.Label()
}
