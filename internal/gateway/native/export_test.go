package native

import "payonce/internal/gateway"

// ParseRecord is parseRecord, for the tests of what the PSP says.
func ParseRecord(raw []byte) (gateway.Record, error) { return parseRecord(raw) }
