package native

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
)

// parseRecord reads one record of the PSP's lists, lookups and webhooks. The error names the wrong member and repeats
// nothing of the record.
func parseRecord(raw []byte) (gateway.Record, error) {
	if len(raw) > maxRecord {
		return gateway.Record{}, fmt.Errorf("record longer than %d bytes", maxRecord)
	}
	raw, err := asStored(raw)
	if err != nil {
		return gateway.Record{}, err
	}
	r, err := gateway.ParseRecord(raw)
	r.DeclineCode = codeOf(r.DeclineCode)
	return r, err
}

// failed is the status of a refund whose money has come back, by the PSP's name.
const failed = "failed"

// recordStatus is the status of a record about an object whose status at the PSP is this one.
func recordStatus(o gateway.Object, status string) string {
	switch {
	case o == gateway.RefundObject && status == failed:
		return gateway.StatusDeclined
	case o == gateway.DisputeObject:
		return gateway.DisputeStatus(status).Record()
	}
	return status
}

// asStored is a record of the PSP in the form in which we store records. The PSP's form is the same, except for a
// dispute and for a refund that came back.
func asStored(raw []byte) ([]byte, error) {
	var said struct {
		Object gateway.Object `json:"object"`
		Status string         `json:"status"`
	}
	_ = json.Unmarshal(raw, &said) // ParseRecord tells what is wrong.
	status := recordStatus(said.Object, said.Status)
	if said.Object != gateway.DisputeObject && status == said.Status {
		return raw, nil
	}
	members := map[string]jsontext.Value{}
	if json.Unmarshal(raw, &members) != nil {
		return nil, errors.New("record is not the JSON of one")
	}
	if said.Object == gateway.DisputeObject {
		dispute := map[string]jsontext.Value{}
		for _, name := range []string{"status", "reason", "evidenceDueBy"} {
			if value := members[name]; value != nil {
				dispute[name] = value
			}
		}
		members["dispute"], _ = json.Marshal(dispute) // It was JSON before.
	}
	members["status"], _ = json.Marshal(status)
	return json.Marshal(members)
}

// codeOf is why the PSP has declined. A refund of ours never asks for more than our books say is left. So if it exceeds
// the charge, somebody else has refunded a part.
func codeOf(code string) string {
	if code == "refund_exceeds_charge" {
		return gateway.AlreadyMoved
	}
	return code
}
