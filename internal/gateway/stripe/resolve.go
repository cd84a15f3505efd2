package stripe

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// cancelled is the reason if the intent was cancelled.
const cancelled = "the PSP has cancelled it"

// outcome is what a finding proves about a charge that was sent. It is nil if it proves nothing.
func (f finding) outcome() gateway.Outcome {
	switch f.state {
	case executed:
		return gateway.Succeeded{ID: f.id}
	case declined:
		return gateway.Declined{ID: f.id, Code: f.record.DeclineCode}
	case ended:
		return gateway.NotExecuted{Reason: cancelled}
	case processing, action:
		return gateway.Pending{Reason: f.status}
	case mismatch:
		return contradiction(f)
	}
	return nil
}

func contradiction(f finding) gateway.Indeterminate {
	return gateway.Indeterminate{Reason: f.reason, Contradiction: true, Evidence: f.evidence, ID: f.id}
}

// resolve finds out what became of a confirmation without a verdict. why is what is not known. It reads the intent, and
// cancels it if it is not executed. Both together take at most as long as one request.
//
// The confirmation is never sent again. A saved 500 would be repeated for a day, and says nothing about the intent
// (https://docs.stripe.com/error-low-level#server-errors).
func (c *Client) resolve(ctx context.Context, ch gateway.Charge, why string) gateway.Outcome {
	ctx, stop := context.WithTimeout(ctx, c.Total())
	defer stop()
	f, err := c.readIntent(ctx, ch)
	if err != nil {
		f = unknown(err.Error())
	}
	if f.state == unsent {
		// Crash window 29 of the owner: read, not cancelled. If the process dies here, a lookup reads the intent again.
		// The key must not be released without a cancel, because the confirmation may still be on its way.
		f = c.cancel(ctx, ch)
		// Crash window 30 of the owner: cancelled, not released. A lookup finds that the intent is cancelled.
	}
	if o := f.outcome(); o != nil {
		return o
	}
	return gateway.Indeterminate{Reason: why}
}

// readIntent reads the intent of a charge by its id.
func (c *Client) readIntent(ctx context.Context, ch gateway.Charge) (f finding, err error) {
	err = c.Read(ctx, ch.Account, c.get(ch.Account, intentPath(ch.ObjectID)), wire.MaxAnswer,
		func(body io.Reader) error {
			raw, err := io.ReadAll(body)
			f = inspect(ch, http.StatusOK, raw)
			return err
		})
	return f, err
}

// cancel cancels the intent of a charge, so that it is never executed. It sends no Idempotency-Key: a cancel has the
// same effect however often it is sent, and under a key, Stripe would repeat a saved 500 for a day.
func (c *Client) cancel(ctx context.Context, ch gateway.Charge) finding {
	form := url.Values{"cancellation_reason": {"abandoned"}} // a request needs a body (wire.Client.Send)
	return judgeCancel(ch, c.Send(ctx, ch.Account, c.post(ch.Account, intentPath(ch.ObjectID, "cancel"), "", form)))
}

// judgeCancel reads the answer to a cancel. Stripe refuses to cancel an intent that is executed, cancelled or being
// processed. The refusal has the intent as it is.
func judgeCancel(ch gateway.Charge, r wire.Reply) finding {
	switch {
	case r.NoAnswer() != "":
		f := unknown(r.NoAnswer())
		f.notAsked = r.ByUs
		return f
	case r.Status == http.StatusOK:
		return inspect(ch, r.Status, r.Body)
	}
	p := problemIn(r.Body)
	if len(p.PaymentIntent) == 0 || r.Status >= http.StatusInternalServerError {
		return unknown(answered(r.Status))
	}
	return inspect(ch, r.Status, p.PaymentIntent)
}
