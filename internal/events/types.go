package events

import "slices"

// Types lists the types of events. The caller owns the slice.
func Types() []string { return slices.Clone(types) }

// types are the types of events that there are, in the order in which they are documented.
var types = []string{
	"payment.succeeded", "payment.declined", "payment.failed", "payment.unknown",
	"refund.processing", "refund.succeeded", "refund.declined", "refund.failed", "refund.unknown",
	"dispute.inquiry", "dispute.needs_response", "dispute.under_review", "dispute.won", "dispute.lost",
	"dispute.closed",
}
