package webhooks

import (
	"context"
	"net/http"

	"payonce/internal/gateway"
)

// Receiver takes messages of one PSP from the network. It stores only messages that are verified.
type Receiver struct {
	psp   gateway.PSP
	inbox *Inbox
}

// NewReceiver returns a receiver of the PSP's messages that stores in i.
func NewReceiver(psp gateway.PSP, i *Inbox) *Receiver { return &Receiver{psp: psp, inbox: i} }

// Receive verifies a message and stores it: its headers, and the bytes of its body as they arrived, without the PSP's
// secrets. A body that was parsed and written again has other bytes. An error is a gateway.VerifyError, or one of the
// store.
func (r *Receiver) Receive(ctx context.Context, header http.Header, body []byte) (Receipt, error) {
	d, err := r.psp.VerifyEvent(header, body)
	if err != nil {
		return "", err
	}
	traits := r.psp.Traits()
	if traits.Redacted != nil {
		body = traits.Redacted(body) // only now: the signature is that of the whole body
	}
	return r.inbox.Receive(ctx, Event{ID: EventID(traits.Name, d.ID), SentAt: d.SentAt, Body: body})
}
