package invariants

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// stripeStep is what a call to Stripe does about a payment or a refund.
type stripeStep string

const (
	stripeCreate  stripeStep = "create"  // moves no money
	stripeConfirm stripeStep = "confirm" // moves it
	stripeRefund  stripeStep = "refund"
)

// stepName reads the Idempotency-Key of a step: the key of the payment, the step, and the attempt.
var stepName = regexp.MustCompile(`^(.+)\.(create|confirm|refund)(?:\.([1-9][0-9]*))?$`)

var confirmPath = regexp.MustCompile(`^/v1/payment_intents/([^/]+)/confirm$`)

// ArrivedAtStripe is Arrived for that dialect. A creation and a refund must have been reserved, as what they say. A
// confirmation must be of the intent that the payment's row has, or had: what is confirmed was stored before. Other
// calls move no money.
func (o *Reservations) ArrivedAtStripe(ctx context.Context, path string, header http.Header, body []byte) {
	form, _ := url.ParseQuery(string(body)) // what cannot be read is a send that nobody has reserved
	a := arrival{account: header.Get("Stripe-Account"), key: form.Get("metadata[idempotency_key]"), at: time.Now()}
	named := stepName.FindStringSubmatch(header.Get("Idempotency-Key"))
	if named != nil {
		attempt, _ := strconv.ParseInt(named[3], 10, 32) // none is 0
		a.attempt = int32(attempt)
	}
	switch confirmed := confirmPath.FindStringSubmatch(path); {
	case path == "/v1/payment_intents":
		a.step, a.sent = stripeCreate, sentByForm(form)
		a.sent.PaymentMethod = form.Get("payment_method")
	case path == "/v1/refunds":
		a.step, a.sent = stripeRefund, sentByForm(form)
		a.sent.Reason = form.Get("reason") + form.Get("metadata[reason]")
	case confirmed != nil:
		a.step, a.object = stripeConfirm, confirmed[1]
		a.sent.Reference = a.object
		if named != nil {
			a.key = named[1]
		}
	default:
		return
	}
	if o.isWrong(a, named, form) {
		return
	}
	o.arrived(ctx, a)
}

// isWrong notes a call that is wrong whatever the database has: under the key of another step, or a creation that
// executes at once.
func (o *Reservations) isWrong(a arrival, named []string, form url.Values) bool {
	why := ""
	switch {
	case named == nil || named[2] != string(a.step) || a.attempt == 0 && a.step != stripeRefund:
		why = "the key is none of the step"
	case a.step != stripeConfirm && named[0] != stepKey(a.key, named[0][len(named[1]):]):
		why = "the key is not that of the metadata"
	case a.step == stripeCreate && form.Get("confirm") != "false":
		why = "the creation executes at once, and nobody knows the intent by then"
	default:
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrivals++
	o.violations = append(o.violations, a.violation(why))
	return true
}

// sentByForm reads what a creation and a refund have in common. The currency of a refund is that of its charge.
func sentByForm(form url.Values) sent {
	amount, _ := strconv.ParseInt(form.Get("amount"), 10, 64) // none is 0, which nobody reserves
	return sent{
		Reference: form.Get("metadata[reference]"), AmountCents: amount,
		Currency: strings.ToUpper(form.Get("currency")),
	}
}

// findObject asks for the key that a payment was reserved under, and for the object that its row has.
const findObject = `
SELECT CASE WHEN k.status <> 'in_progress' THEN k.status WHEN k.locked_until <= clock_timestamp() THEN 'lease over' ELSE '' END, k.attempt,
       coalesce(p.psp_object_id = $4, false) /* or was */
FROM idempotency_keys AS k JOIN payments AS p ON p.tenant_id = k.tenant_id AND p.id = k.subject JOIN tenants AS t ON t.id = p.tenant_id
WHERE k.tenant_id = t.id AND k.operation = 'POST /payments' AND k.key = $2 AND k.generation = $3 AND t.psp_account = $1`

const orWas = `OR EXISTS (SELECT FROM lab.remembered_objects AS r WHERE r.tenant_id = p.tenant_id AND r.payment = p.id AND r.object_id = $4)`

// unhashed finds the key of a payment that was too long for its steps, by the object that is stored. Without one, the
// key stays as it is.
func (o *Reservations) unhashed(ctx context.Context, a arrival) (string, error) {
	const ask = `SELECT p.tenant_id, k.key, k.generation
		FROM payments AS p JOIN tenants AS t ON t.id = p.tenant_id
		JOIN idempotency_keys AS k ON k.tenant_id = p.tenant_id AND k.subject = p.id
		WHERE t.psp_account = $1 AND p.psp_object_id = $2`
	var tenant, key string
	e := idempotency.Execution{}
	switch err := o.pool.QueryRow(ctx, ask, a.account, a.object).Scan(&tenant, &key, &e.Generation); {
	case errors.Is(err, pgx.ErrNoRows):
		return a.key, nil
	case err != nil:
		return "", err
	}
	e.Ref = idempotency.StoredRef(tenant, payment.CreateOperation, key)
	suffix := fmt.Sprintf(".%s.%d", a.step, a.attempt)
	if whole := e.PassThroughKey(); stepKey(whole, suffix) == a.key+suffix {
		return whole, nil
	}
	return a.key, nil
}

// missingObject says why a confirmation must not have been sent, or "".
func (o *Reservations) missingObject(ctx context.Context, a arrival) (why, status string, err error) {
	if a.key, err = o.unhashed(ctx, a); err != nil {
		return "", "", err
	}
	key, generation, err := idempotency.ParsePassThrough(a.key)
	if err != nil {
		return "the key is none that a client may choose", "", nil //nolint:nilerr // that is the finding
	}
	var attempt int32
	var stored bool
	err = o.pool.QueryRow(ctx, o.objects, a.account, key.String(), generation, a.object).
		Scan(&status, &attempt, &stored)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "no key stands for it", "", nil
	case err != nil:
		return "", "", err
	case a.attempt > attempt:
		return fmt.Sprintf("attempt %d, and the key has had %d", a.attempt, attempt), status, nil
	case !stored && a.attempt == attempt:
		return "the intent is not the one that is stored", status, nil
	case !stored && o.objects != findObject:
		return "the intent was never stored", status, nil
	}
	return "", status, nil
}
