package native

import (
	"fmt"

	"payonce/internal/gateway"
)

// parseRecord reads one record of the PSP's lists, lookups and webhooks. The mock writes records as we store them. The
// error names the wrong member and repeats nothing of the record.
func parseRecord(raw []byte) (gateway.Record, error) {
	if len(raw) > maxRecord {
		return gateway.Record{}, fmt.Errorf("record longer than %d bytes", maxRecord)
	}
	r, err := gateway.ParseRecord(raw)
	r.DeclineCode = codeOf(r.DeclineCode)
	return r, err
}

// codeOf is why the PSP has declined. A refund of ours never asks for more than our books say is left. So if it exceeds
// the charge, somebody else has refunded a part.
func codeOf(code string) string {
	if code == "refund_exceeds_charge" {
		return gateway.AlreadyMoved
	}
	return code
}
