package main

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
	fmt.Fprintf(w, `
Payonce is ready (%.1f s). Ctrl-C stops it; the data stays.
%s
  %s

  API        %s           documentation at /docs
  Operator   http://%s/operator/summary, /operator/dead-letters, /readyz, /metrics
  Mock PSP   %s           shows its ledger, and sets faults
  Database   %s
  API keys   demo-acme-key, demo-globex-key, demo-acme-readonly-key; demo-operator-key for operators

Charge once. Then send the same request again: the answer is the same, and there is no second charge.

  curl -i %[4]s/payments -H 'Authorization: Bearer demo-acme-key' -H 'Content-Type: application/json' \
       -H "Idempotency-Key: first-${K:=$(date +%%s)}" -d '{"customerId":"cus-1","amountCents":12000,"currency":"USD"}'

Lose the outcome of a payment: the answer is 202. A webhook resolves the payment some seconds later. Then send the
request again: the answer is 201, and there is no second charge.

  curl -i %[4]s/payments -H 'Authorization: Bearer demo-acme-key' -H 'Content-Type: application/json' \
       -H "Idempotency-Key: losing-$K" -d '{"customerId":"cus-1","amountCents":500,"currency":"USD","paymentMethod":"pm_500_charged"}'
  curl "%[6]s/_ledger?account=acme&idempotencyKey=losing-$K"

To use the commands, such as go run ./cmd/reconciler timeline losing-$K --tenant acme, dlq list, or statement --date today:

  export DATABASE_URL=%[8]s PSP_URL=%[6]s PSP_SECRET=%[9]s

`, took.Seconds(), notice, link, c.PublicURL, c.OperatorAddr, c.PSPURL, d.about, d.shellURL(), c.PSPSecret)
}

// shellURL is the database's address for a shell. One that was given to us may hold a password, and the shell has it
// already.
func (d *database) shellURL() string {
	if d.server == nil {
		return `"$DATABASE_URL"`
	}
	return "'" + d.url + "'"
}
