package supervisor

import (
	"fmt"
	"io"
	"time"
)

// banner tells a newcomer where everything is, and the first thing to try, on one screen.
func banner(w io.Writer, set settings, d *database, link string, took time.Duration) {
	c := set.api
	if link == "" {
		link = "(no page with buttons: OPERATOR_ADDR is not on loopback)"
	} else {
		link = "Open this: " + link + "   good once; then /demo/\n  " +
			"Shop       http://" + c.OperatorAddr + "/shop   a merchant whose orders are paid, and who hears of it by events"
	}
	notice := set.notice()
	if notice != "" {
		notice = "\n  " + notice + "\n"
	}
	psp := "its ledger, and its faults"
	settings := "PSP_URL=" + c.PSPURL + " PSP_SECRET=" + c.PSPSecret
	if set.stripe() {
		psp += "; speaks Stripe's dialect at " + c.StripeURL
		settings += " PSP=stripe STRIPE_URL=" + c.StripeURL + " STRIPE_SECRET=" + c.StripeSecret
	}
	fmt.Fprintf(w, `
Payonce is ready (%.1f s). Ctrl-C stops it; the data stays.
%s
  %s

  API        %[4]s/docs   its documentation; API keys: demo-acme-key, demo-globex-key, demo-acme-readonly-key
  Console    http://%s/console/   for operators; API key: demo-operator-key
  Mock PSP   %s   %s
  Database   %s

Charge once. Send the same request again: the answer is the same, and there is no second charge.

  curl -i %[4]s/payments -H 'Authorization: Bearer demo-acme-key' -H 'Content-Type: application/json' \
       -H "Idempotency-Key: first-${K:=$(date +%%s)}" -d '{"customerId":"cus-1","amountCents":12000,"currency":"USD"}'

For the commands, such as go run ./cmd/reconciler timeline first-$K --tenant acme:

  export DATABASE_URL=%[9]s %[10]s

`, took.Seconds(), notice, link, c.PublicURL, c.OperatorAddr, c.PSPURL, psp, d.about, d.shellURL(), settings)
}

// shellURL is the database's address for a shell. One that was given to us may hold a password, and the shell has it
// already.
func (d *database) shellURL() string {
	if d.server == nil {
		return `"$DATABASE_URL"`
	}
	return "'" + d.url + "'"
}
