package stripe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// Lookup asks what became of a charge or a refund. It takes at most as long as one request.
func (c *Client) Lookup(ctx context.Context, r gateway.Request, end gateway.End) gateway.Lookup {
	ctx, stop := context.WithTimeout(ctx, c.Total())
	defer stop()
	switch r := r.(type) {
	case gateway.Charge:
		return c.lookupCharge(ctx, r, end)
	case gateway.Refund:
		return c.lookupRefund(ctx, r)
	}
	return nil
}

// lookupCharge looks the intent up. If a person has asked, or if no id of an intent is stored, it also searches for
// other intents that were executed under our key, and ends nothing if it finds one.
func (c *Client) lookupCharge(ctx context.Context, ch gateway.Charge, end gateway.End) gateway.Lookup {
	origin, err := c.origin()
	if err != nil {
		return gateway.LookupFailed{Reason: err.Error(), NotAsked: true}
	}
	if ch.ObjectID != "" && (end == gateway.EndUnsent || end == gateway.EndWaiting) {
		return c.lookupIntent(ctx, ch, end, origin)
	}
	others, err := c.executedUnder(ctx, ch, origin)
	switch {
	case err != nil && (end != gateway.EndNothing || ch.ObjectID == "" && len(others) == 0):
		return wire.LookupFailed(err)
	case len(others) == 0:
		return c.lookupIntent(ctx, ch, end, origin)
	}
	if ch.ObjectID == "" {
		return gateway.Found{Records: others}
	}
	f, err := c.readIntent(ctx, ch)
	switch {
	case errors.Is(err, wire.StatusError(http.StatusNotFound)):
		return gateway.Found{Records: others}
	case err != nil:
		return wire.LookupFailed(err) // The others alone would say that there is nothing of ours.
	}
	own, _ := decide(f, gateway.EndNothing)
	found, _ := own.(gateway.Found)
	return gateway.Found{Records: append(found.Records, others...)}
}

// lookupIntent reads the intent, and ends it if end allows that and this installation has made it. Another one may be
// about to execute it: our database is a copy of its database then.
func (c *Client) lookupIntent(
	ctx context.Context, ch gateway.Charge, end gateway.End, origin string,
) gateway.Lookup {
	if ch.ObjectID == "" {
		if end == gateway.EndNothing {
			return gateway.NotFound{}
		}
		id, without := judgeRemade(ch, c.create(ctx, ch))
		if without != nil {
			return without
		}
		// The answer may be the first one again, with the intent's state of that time. So the intent is read.
		ch.ObjectID = id
	}
	f, err := c.readIntent(ctx, ch)
	if err != nil {
		without := wire.LookupFailed(err)
		without.Missing = end == gateway.EndNothing && errors.Is(err, wire.StatusError(http.StatusNotFound))
		return without // A 404 proves nothing about an intent that Stripe has made for us.
	}
	result, cancel := decide(f, end)
	_, open := decide(f, gateway.EndWaiting)
	const foreign = "another installation has made it, and may execute it"
	switch {
	case f.origin != origin && open && (end == gateway.EndNothing || end == gateway.EndDecided):
		return gateway.Waiting{Reason: foreign, Kept: true} // An operator is told the same before a decision and after.
	case f.origin != origin && cancel:
		return gateway.LookupFailed{Reason: foreign} // It ends as a case.
	case cancel:
		// Crash window 29: read, not cancelled. The next lookup reads it again, because it may be executed meanwhile.
		return afterCancel(c.cancel(ctx, ch))
	}
	return result
}

// executedUnder finds other intents with our key that were executed. After a restore of our database, such an intent
// may be of a payment that our books have lost. If Stripe has forgotten its key, the creation makes a second intent,
// which says nothing about it. The search lags behind by about a minute, and until then Stripe still knows the key
// (https://docs.stripe.com/search#data-freshness). If we know no intent of ours, one that waits for a bank or for the
// customer is an error, unless another was executed: it may be executed, too, and to end another intent proves nothing
// about it.
//
// What another installation has executed under an equal key is of another payment.
func (c *Client) executedUnder(
	ctx context.Context, ch gateway.Charge, origin string,
) (records []gateway.Record, err error) {
	query := url.Values{"limit": {strconv.Itoa(gateway.MaxPage)},
		"query": {"metadata['" + keyMark + "']:" + quoted(ch.Key)}}
	var found list
	err = c.Read(ctx, ch.Account, c.get(ch.Account, intentsPath+"/search?"+query.Encode()), maxPageBytes,
		func(body io.Reader) error {
			found, err = parseList(body, "search_result")
			return err
		})
	if err == nil && found.more {
		err = errNoEnd
	}
	waits := false
	for _, raw := range found.data {
		in, r, ok := parseIntent(ch.Account, raw)
		switch {
		case in.ID == ch.ObjectID || r.Key != ch.Key:
		case in.Metadata[originMark] != origin && r.Reference != ch.Reference:
		case ok && r.Executed():
			records = append(records, r)
		case ch.ObjectID == "" && (in.state() == processing || in.state() == action):
			waits = true
		}
	}
	if err == nil && waits && len(records) == 0 {
		err = errors.New("another intent under this key may still be executed")
	}
	return records, err
}

// quoted is a value in a search query (https://docs.stripe.com/search#search-query-language).
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// judgeRemade reads the answer to a creation that is sent to find the intent: the same creation under the same key.
// There is an id, or a result without an intent.
//
// If the creation has definitely failed, there is no intent that the caller has stored. Without a stored id, nobody
// confirms. So the charge is never executed.
func judgeRemade(ch gateway.Charge, r wire.Reply) (id string, without gateway.Lookup) {
	switch {
	case r.NoAnswer() != "":
		return "", gateway.LookupFailed{Reason: r.NoAnswer(), NotAsked: r.ByUs}
	case r.Status == http.StatusOK:
		f := inspect(ch, r.Status, r.Body)
		if f.state == mismatch || f.id == "" {
			return "", gateway.LookupFailed{Reason: f.reason}
		}
		return f.id, nil
	case failedForGood(r):
		return "", gateway.NotFound{Final: true}
	}
	return "", gateway.LookupFailed{Reason: answered(r.Status)}
}

// failedForGood reports whether a creation would fail again, each time it is sent under this key. Stripe saves a result
// under the key once the execution begins, also a 500, and marks a saved answer
// (https://docs.stripe.com/error-low-level#sending-idempotency-keys).
func failedForGood(r wire.Reply) bool {
	if r.Status >= http.StatusInternalServerError {
		return savedServerError(r)
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	p := problemIn(r.Body)
	return r.Status >= http.StatusBadRequest && p.Type != "" && p.Type != keyReused
}

// decide is the result of a lookup that has read the intent, or says that the intent must be cancelled first.
func decide(f finding, end gateway.End) (result gateway.Lookup, cancel bool) {
	switch f.state {
	case executed, declined:
		return gateway.Found{Records: []gateway.Record{f.record}}, false
	case ended:
		return gateway.NotFound{Final: true}, false
	case processing:
		return gateway.Waiting{Reason: f.status}, false
	case action:
		return gateway.Waiting{Reason: f.status}, end == gateway.EndWaiting || end == gateway.EndDecided
	case unsent:
		return gateway.NotFound{}, end != gateway.EndNothing
	case mismatch:
		// The caller compares a record with the charge, and finds the contradiction. An intent without a verdict is
		// left alone: it may belong to somebody else.
		if f.record.Executed() || f.record.DeclineCode != "" {
			return gateway.Found{Records: []gateway.Record{f.record}}, false
		}
	}
	return gateway.LookupFailed{Reason: f.reason, NotAsked: f.notAsked}, false
}

// afterCancel is the result of a lookup that has cancelled the intent, or tried to. An intent that still waits was not
// cancelled, although Stripe has answered.
func afterCancel(f finding) gateway.Lookup {
	if f.state == unsent || f.state == action {
		return gateway.LookupFailed{Reason: "the PSP has not cancelled it"}
	}
	result, _ := decide(f, gateway.EndNothing)
	return result
}

// maxRefundPages bounds how many pages of an intent's refunds are read.
const maxRefundPages = 10

// lookupRefund reads the refunds of the charge. Lists have no lag, unlike the search. A refund that is not on the list
// is not executed, once the last request can no longer be on its way. Stripe cannot end a refund.
func (c *Client) lookupRefund(ctx context.Context, r gateway.Refund) gateway.Lookup {
	if r.ChargeID == "" || r.Key == "" || r.Reference == "" {
		return gateway.LookupFailed{Reason: "no refund to look up"}
	}
	var found []refund
	pages := c.pages(r.Account, refundsPath, url.Values{"payment_intent": {r.ChargeID}})
	for range maxRefundPages {
		items, err := pages.next(ctx)
		if err != nil {
			return wire.LookupFailed(err)
		}
		for _, raw := range items {
			re, ok := parseRefund(raw)
			if !ok {
				// It may be ours.
				return gateway.LookupFailed{Reason: "answer has a malformed refund"}
			}
			if re.PaymentIntent != r.ChargeID {
				return gateway.LookupFailed{Reason: "answer has another charge"}
			}
			if re.Metadata[referenceMark] == r.Reference || re.Metadata[keyMark] == r.Key {
				found = append(found, re)
			}
		}
		if pages.done {
			return judgeFound(r, found)
		}
	}
	return gateway.LookupFailed{Reason: "answer without an end"}
}

// judgeFound is the result of a lookup that has found these refunds, newest first. One that is not final hides a
// decline, but no success.
func judgeFound(r gateway.Refund, found []refund) gateway.Lookup {
	var records []gateway.Record
	waits, moved := "", false
	for i := len(found) - 1; i >= 0; i-- {
		re := found[i]
		if !re.final() {
			waits = re.Status
			continue
		}
		record, err := re.record(r.Account)
		if err != nil {
			return gateway.LookupFailed{Reason: err.Error()}
		}
		moved = moved || record.Executed()
		records = append(records, record)
	}
	switch {
	case waits != "" && !moved:
		return gateway.Waiting{Reason: waits}
	case len(records) == 0:
		return gateway.NotFound{}
	}
	return gateway.Found{Records: records}
}
