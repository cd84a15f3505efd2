package supervisor

import (
	"fmt"
	"io"
	"time"
)

// banner tells a newcomer what is running and what to try.
func banner(w io.Writer, set settings, d *database, link string, took time.Duration) {
	c := set.api
	if link == "" {
		link = "(no page with buttons: OPERATOR_ADDR is not on loopback)"
	} else {
		link = "Open this: " + link + "   good once"
	}
	notice := set.notice()
	if notice != "" {
		notice = "\n  " + notice + "\n"
	}
	psp := c.PSPURL + "           shows its ledger, and sets faults"
	settings := "PSP_URL=" + c.PSPURL + " PSP_SECRET=" + c.PSPSecret
	commands := "or statement --date today"
	if set.stripe() {
		commands = "or key show losing-$K --tenant acme" // The statement of a day is there when the day is over.
		psp += "; speaks Stripe's dialect at " + c.StripeURL
		settings += " PSP=stripe STRIPE_URL=" + c.StripeURL + " STRIPE_SECRET=" + c.StripeSecret
	}
	fmt.Fprintf(w, `
Payonce is ready (%.1f s). Ctrl-C stops it; the data stays.
%s
  %s

  API        %s           documentation at /docs
  Operator   http://%s/operator/summary, /operator/dead-letters, /readyz, /metrics
  Mock PSP   %s
  Database   %s
  API keys   demo-acme-key, demo-globex-key, demo-acme-readonly-key; demo-operator-key for operators

Charge once. Then send the same request again: the answer is the same, and there is no second charge.

  curl -i %[4]s/payments -H 'Authorization: Bearer demo-acme-key' -H 'Content-Type: application/json' \
       -H "Idempotency-Key: first-${K:=$(date +%%s)}" -d '{"customerId":"cus-1","amountCents":12000,"currency":"USD"}'

%[8]s

  curl -i %[4]s/payments -H 'Authorization: Bearer demo-acme-key' -H 'Content-Type: application/json' \
       -H "Idempotency-Key: losing-${K:=$(date +%%s)}" -d '{"customerId":"cus-1","amountCents":500,"currency":"USD","paymentMethod":"%[9]s"}'
  curl "%s/_ledger?account=%s&idempotencyKey=losing-$K"

To use the commands, such as go run ./cmd/reconciler timeline losing-$K --tenant acme, %s:

  export DATABASE_URL=%s %s

`, took.Seconds(), notice, link, c.PublicURL, c.OperatorAddr, psp, d.about, losing(set), losingToken(set), c.PSPURL,
		accountOf(tenant, set.provider()), commands, d.shellURL(), settings)
}

// losing says what happens to a payment whose answer from the PSP is lost.
func losing(set settings) string {
	if set.stripe() {
		return `Lose the answer to the confirmation of a payment. The API reads the payment at the PSP. It is not executed, so the API
cancels it, and the answer is 503 at once. Then send the request again: the answer is 201, and there is one charge.`
	}
	return `Lose the outcome of a payment: the answer is 202. A webhook resolves the payment some seconds later. Then send the
request again: the answer is 201, and there is no second charge.`
}

// losingToken is the test token of this payment.
func losingToken(set settings) string {
	if set.stripe() {
		return "pm_500_not_charged"
	}
	return "pm_500_charged"
}

// shellURL is the database's address for a shell. One that was given to us may hold a password, and the shell has it
// already.
func (d *database) shellURL() string {
	if d.server == nil {
		return `"$DATABASE_URL"`
	}
	return "'" + d.url + "'"
}
