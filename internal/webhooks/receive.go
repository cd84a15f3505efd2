package webhooks

import (
	"context"
	"net/http"
	"strings"

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
// secrets. A body that was parsed and written again has other bytes. Of a message that says nothing about us, it stores
// the type alone. An error is a gateway.VerifyError, or one of the store.
func (r *Receiver) Receive(ctx context.Context, header http.Header, body []byte) (Receipt, error) {
	d, err := r.psp.VerifyEvent(header, body)
	if err != nil {
		return "", err
	}
	traits := r.psp.Traits()
	e := Event{ID: EventID(traits.Name, d.ID), SentAt: d.SentAt, Body: body}
	said, _ := r.psp.ParseEvent(body) // What cannot be understood is for the job, which calls a person.
	if ignored, ok := said.(gateway.Ignored); ok {
		e.Ignored, e.Body = true, typeAlone(ignored.Type)
	} else if traits.Redacted != nil {
		e.Body = traits.Redacted(body) // only now: the signature is that of the whole body
	}
	return r.inbox.Receive(ctx, e)
}

// The body that is kept of an ignored event is its type between these texts.
const (
	beforeType = `{"type":"`
	afterType  = `"}`
)

// typeAlone is the body that is kept of an ignored event. A type that is no name is left out.
func typeAlone(name string) []byte {
	if !gateway.IsID(name) || strings.ContainsAny(name, `"\`) {
		name = ""
	}
	return []byte(beforeType + name + afterType)
}

// TypeOf is the type of an ignored event, by the body that is kept of it.
func TypeOf(body []byte) string {
	name, ours := strings.CutPrefix(string(body), beforeType)
	name, whole := strings.CutSuffix(name, afterType)
	if !ours || !whole || strings.Contains(name, `"`) {
		return "" // The body was kept whole.
	}
	return name
}
