package operator

import (
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/internal/query"
	"payonce/internal/webhooks"
)

// WebhookStatus says that a webhook waits, or what came of it.
type WebhookStatus string

// The statuses of a webhook. WebhookWaiting: it is stored and not processed yet. The others are results.
const (
	WebhookWaiting    WebhookStatus = "waiting"
	WebhookResolved   WebhookStatus = "resolved"    // it has resolved an unknown key
	WebhookConfirmed  WebhookStatus = "confirmed"   // it has said what was known
	WebhookDeadLetter WebhookStatus = "dead_letter" // a dead letter was opened
	WebhookIgnored    WebhookStatus = "ignored"     // it says nothing about a movement of ours
	WebhookDismissed  WebhookStatus = "dismissed"   // an operator has dismissed it
)

// WebhookEntry is a webhook in a list. Type, PSPID and Reference are those of its body, if it can be understood.
type WebhookEntry struct {
	ID        string            `json:"webhookId"`
	Status    WebhookStatus     `json:"status"`
	Type      string            `json:"type,omitempty"`
	PSPID     string            `json:"pspId,omitempty"`
	Reference string            `json:"reference,omitempty"` // our id of the payment or refund
	Bytes     int               `json:"bytes"`               // of the body
	Sent      idempotency.Time  `json:"sentAt"`              // by the PSP's clock
	Received  idempotency.Time  `json:"receivedAt"`
	Processed *idempotency.Time `json:"processedAt,omitempty"`
}

// Webhooks lists the webhooks that are stored: those that wait, newest first, and then the processed ones.
func (s *Service) Webhooks(q *query.Query) Page[WebhookEntry] {
	status := query.OneOf(q, "status", WebhookWaiting, WebhookResolved, WebhookConfirmed, WebhookDeadLetter,
		WebhookIgnored, WebhookDismissed)
	limit := q.Limit()
	p := dbsqlc.ListWebhooksParams{Status: postgres.Nullable(string(status)), MaxRows: rowsFor(limit)}
	p.WaitingBefore, p.ProcessedBefore, p.BeforeID = query.CursorOf(q, parseCursor).bounds()
	return rowsRead(s, (*dbsqlc.Queries).ListWebhooks, p, limit, s.webhookEntryOf,
		func(r dbsqlc.ListWebhooksRow) string { return cursor{!r.Waiting, r.At, r.ID}.String() })
}

func (s *Service) webhookEntryOf(r dbsqlc.ListWebhooksRow) WebhookEntry {
	w := WebhookEntry{ID: r.ID, Status: WebhookStatus(r.Result), Bytes: len(r.Body), Sent: idempotency.Time(r.SentAt),
		Received: idempotency.Time(r.ReceivedAt), Processed: (*idempotency.Time)(r.ProcessedAt)}
	if r.Waiting {
		w.Status = WebhookWaiting
	}
	said, err := s.config.PSPs.Of(webhooks.PSPOf(r.ID)).ParseEvent(r.Body)
	switch {
	case err != nil && w.Status == WebhookIgnored:
		w.Type = webhooks.TypeOf(r.Body)
		return w
	case err != nil:
		return w // Its dead letter says what is wrong with it.
	}
	switch said := said.(type) {
	case gateway.Moved:
		w.Type, w.PSPID, w.Reference = said.Type, said.Record.ID, said.Record.Reference
	case gateway.Ignored:
		w.Type = said.Type
	}
	return w
}
