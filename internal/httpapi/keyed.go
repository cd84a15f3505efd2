package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/problem"
)

// keyedHandler reads a request that moves money, and returns the ask that executes it.
type keyedHandler func(w http.ResponseWriter, r *http.Request, k payments.Keyed) (ask, error)

// ask executes the request. It may be called again, and does the same each time.
type ask func(r *http.Request) (payments.Answer, error)

// keyed wraps the operations with an Idempotency-Key. It checks the header first, and then the body, and then executes
// the request.
func (a *API) keyed(operation string, h keyedHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		known := knownOf(r)
		key, err := known.key, known.keyErr
		switch {
		case errors.Is(err, errKeyMissing):
			a.refuse(w, r, problem.IdempotencyKeyMissing,
				"Send one header: Idempotency-Key, with a fresh random value such as a UUID.",
				problem.Detail{Header: keyHeader, Detail: "is required"})
			return
		case err != nil:
			a.refuse(w, r, problem.IdempotencyKeyInvalid, "The header Idempotency-Key is not valid.",
				problem.Detail{Header: keyHeader, Detail: strings.TrimPrefix(err.Error(),
					idempotency.ErrKeyInvalid.Error()+": ")})
			return
		}
		w.Header().Set("Idempotent-Replayed", "false")

		p := principalOf(r)
		id, err := a.config.NewID()
		if err != nil {
			a.fail(w, r, err)
			return
		}
		k := payments.Keyed{Merchant: payment.Merchant{Tenant: p.Tenant, PSP: string(p.PSP), PSPAccount: p.PSPAccount,
			Tells: p.Tells}, Key: key, Subject: id}
		known.ref = idempotency.Ref{Tenant: p.Tenant, Operation: idempotency.Operation(operation), Key: key}
		r, end := a.trace(w, r, operation, id)
		defer end()
		wish := preferenceOf(r.Header)
		var answer payments.Answer
		question, err := h(w, r, k)
		if err == nil {
			answer, err = a.put(w, r, known.ref, wish, question)
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		a.spell(w, r, answer, wish)
	}
}

// echoKey reads the key of a request, and repeats a valid key in the answer, whatever the method and the answer are. So
// a client finds out from any answer which of its requests was answered.
func (a *API) echoKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k := knownOf(r)
		if k.key, k.keyErr = keyOf(r.Header); k.keyErr == nil {
			w.Header().Set(keyHeader, k.key.String())
		}
		next.ServeHTTP(w, r)
	})
}

// put executes a request. If the first request with the key is still running, put waits a little for its end. The
// client may prefer how long, and then put also waits for an outcome that is unknown.
func (a *API) put(
	w http.ResponseWriter, r *http.Request, ref idempotency.Ref, wish preference, question ask,
) (payments.Answer, error) {
	patience := payments.Patience{Limit: a.config.InFlightWait}
	if wish.async || wish.chosen {
		patience = payments.Patience{Limit: wish.wait, Outcome: true}
	}
	if patience.Limit == 0 {
		return question(r)
	}
	answer, waited, err := a.config.Payments.WaitFor(r.Context(), ref, patience,
		func() (payments.Answer, error) { return question(r) })
	if waited && err == nil && wish.wait > 0 {
		sayWaited(w, wish.wait)
	}
	return answer, err
}

// spell writes an answer as an HTTP response.
func (a *API) spell(w http.ResponseWriter, r *http.Request, answer payments.Answer, wish preference) {
	switch v := answer.(type) {
	case payments.Final:
		knownOf(r).resource = strings.TrimPrefix(v.Response.Location, a.base)
		a.spellFinal(w, v)
	case payments.Pending:
		keyExpires(w, v.Expires)
		a.accepted(w, r, v.Resource, afterUnknown)
	case payments.InFlight:
		keyExpires(w, v.Expires)
		if wish.async {
			knownOf(r).async = true
			w.Header().Add("Preference-Applied", "respond-async")
			a.accepted(w, r, v.Resource, afterInFlight)
			return
		}
		retryAfter(w, afterInFlight)
		a.refuseAbout(w, r, v.Resource, problem.IdempotencyKeyInProgress,
			"A request with this key is being executed now. Ask again after Retry-After, or send Prefer: wait=10.")
	case payments.Mismatch:
		keyExpires(w, v.Expires)
		a.refuse(w, r, problem.IdempotencyKeyReusedWithDifferentPayload,
			"This key was first used for another request. Send what was sent first. "+
				"Another request needs a key of its own.")
	case payments.NotExecuted:
		keyExpires(w, v.Expires)
		retryAfter(w, afterPSPFailure)
		a.refuseAbout(w, r, v.Resource, problem.PSPUnavailable,
			"Nothing was charged: the PSP was not asked, or has cancelled the payment. Send the same key again.")
	case payments.Held:
		a.fail(w, r, heldKey())
	case payments.Forgotten:
		keyExpires(w, v.Expires)
		a.refuse(w, r, problem.IdempotencyKeyExpired,
			"This key is too old to be executed now. Read its payment. Before you pay with a new key, a person has to make "+
				"sure that nothing was charged.")
	}
}

// heldKey is the answer about a key under which money has moved that an operator has to see to.
func heldKey() error {
	return &requestError{code: problem.IdempotencyKeyHeld, after: afterHeld,
		detail: "Money has moved under this key, and an operator is looking at it. Do not pay with a new key. Ask again later."}
}

func (a *API) spellFinal(w http.ResponseWriter, f payments.Final) {
	keyExpires(w, f.Expires)
	if f.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.Header().Set("Location", f.Response.Location)
	write(w, f.Response.Status, f.Response.ContentType, f.Response.Body)
}

// accepted answers 202 with the resource in its present state.
func (a *API) accepted(w http.ResponseWriter, r *http.Request, resource payment.Resource, after time.Duration) {
	body, err := resource.MarshalJSON()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	knownOf(r).resource = resource.Location()
	retryAfter(w, after)
	w.Header().Set("Location", a.base+resource.Location())
	write(w, http.StatusAccepted, jsonType, append(body, '\n'))
}

// refuseAbout is refuse for a problem about a payment or refund.
func (a *API) refuseAbout(
	w http.ResponseWriter, r *http.Request, about payment.Resource, code problem.Code, detail string,
) {
	d := a.problem(r, code, detail)
	if about != nil {
		knownOf(r).resource = about.Location()
	}
	switch v := about.(type) {
	case payment.Payment:
		d.PaymentID = v.ID.String()
	case payment.Refund:
		d.PaymentID, d.RefundID = v.PaymentID.String(), v.ID.String()
	}
	writeProblem(w, d)
}

func keyExpires(w http.ResponseWriter, at time.Time) {
	if !at.IsZero() {
		w.Header().Set("Idempotency-Key-Expires", at.UTC().Format(http.TimeFormat))
	}
}

const keyHeader = "Idempotency-Key"

var errKeyMissing = errors.New("the header Idempotency-Key is required")

// keyOf reads the key of a request: the bare form, or the RFC 8941 string of the IETF draft (Structured Headers). Both
// forms are the same key.
func keyOf(h http.Header) (idempotency.Key, error) {
	values := h.Values(keyHeader)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return idempotency.Key{}, errKeyMissing
	case len(values) > 1:
		return idempotency.Key{}, fmt.Errorf("%w: the header is repeated", idempotency.ErrKeyInvalid)
	}
	value := values[0]
	if strings.HasPrefix(value, `"`) {
		item, err := httpsfv.UnmarshalItem(values)
		if err != nil {
			return idempotency.Key{}, fmt.Errorf("%w: it begins with a quote and is no string of RFC 8941",
				idempotency.ErrKeyInvalid)
		}
		unquoted, ok := item.Value.(string)
		if !ok || len(item.Params.Names()) > 0 {
			return idempotency.Key{}, fmt.Errorf("%w: it must be one string without parameters",
				idempotency.ErrKeyInvalid)
		}
		value = unquoted
	}
	return idempotency.ParseKey(value)
}

// maxWait bounds Prefer: wait. If a client asks for more, it waits this long.
const maxWait = 10 * time.Second

// preference is what a client wants if the outcome is not there yet (RFC 7240).
type preference struct {
	async  bool
	wait   time.Duration
	chosen bool // wait is what the client prefers, and not only what is there if it says nothing
}

// preferenceOf reads all Prefer headers. It ignores a preference that it does not know or cannot read, as the RFC
// requires. If a preference is repeated, the first one counts.
func preferenceOf(h http.Header) preference {
	var p preference
	for wish := range strings.SplitSeq(strings.Join(h.Values("Prefer"), ","), ",") {
		wish, _, _ = strings.Cut(wish, ";")
		name, value, _ := strings.Cut(wish, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			p.async = true
		case "wait":
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err == nil && !p.chosen {
				p.wait, p.chosen = min(time.Duration(seconds)*time.Second, maxWait), true
			}
		}
	}
	return p
}

// awaited waits for the outcome of what a request reads, if the client prefers that.
func awaited(w http.ResponseWriter, r *http.Request, wait func(limit time.Duration) (waited bool, err error)) error {
	limit := preferenceOf(r.Header).wait
	if limit == 0 {
		return nil
	}
	waited, err := wait(limit)
	if waited && err == nil {
		sayWaited(w, limit)
	}
	return err
}

// sayWaited tells the client that the answer has waited as the client preferred.
func sayWaited(w http.ResponseWriter, limit time.Duration) {
	w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(limit.Seconds())))
}
