package webhooks

import "context"

// Receiver takes messages from the network. It stores only messages that are verified.
type Receiver struct {
	verifier *Verifier
	inbox    *Inbox
}

// NewReceiver returns a receiver that verifies with v and stores in i.
func NewReceiver(v *Verifier, i *Inbox) *Receiver { return &Receiver{verifier: v, inbox: i} }

// Delivery is a message as it arrived: the values of its three headers, and the bytes of its body.
type Delivery struct {
	ID, Timestamp, Signature string
	Body                     []byte
}

// Receive verifies a message and stores it. An error is one of Verify, or one of the store.
func (r *Receiver) Receive(ctx context.Context, d Delivery) (Receipt, error) {
	sent, err := r.verifier.Verify(d.ID, d.Timestamp, d.Signature, d.Body)
	if err != nil {
		return nil, err
	}
	return r.inbox.Receive(ctx, Event{ID: d.ID, SentAt: sent, Body: d.Body})
}
