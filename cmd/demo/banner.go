package main

import (
	"fmt"
	"io"
	"time"

	"payonce/internal/config"
)

// banner tells a newcomer what is running and what to try.
func banner(w io.Writer, c config.API, d *database, took time.Duration) {
	fmt.Fprintf(w, `
Payonce is ready (%.1f s). Ctrl-C stops it; the data stays.

  API        %s           documentation at /docs
  Operator   http://%s/operator/summary, /operator/dead-letters, /readyz, /metrics
  Mock PSP   %s           its ledger and its faults, by hand
  Database   %s
  API keys   demo-acme-key, demo-globex-key, demo-acme-readonly-key; demo-operator-key for operators

Charge once, then send the same again: the same answer, and no second charge.

  curl -i %[2]s/payments -H 'Authorization: Bearer demo-acme-key' -H 'Content-Type: application/json' \
       -H "Idempotency-Key: first-${K:=$(date +%%s)}" -d '{"customerId":"cus-1","amountCents":12000,"currency":"USD"}'

An outcome that was lost: 202 now, and never a second charge. The webhook resolves it seconds later; send it again and see:

  curl -i %[2]s/payments -H 'Authorization: Bearer demo-acme-key' -H 'Content-Type: application/json' \
       -H "Idempotency-Key: losing-$K" -d '{"customerId":"cus-1","amountCents":500,"currency":"USD","paymentMethod":"pm_500_charged"}'
  curl "%[4]s/_ledger?account=acme&idempotencyKey=losing-$K"

For the commands, such as go run ./cmd/reconciler dlq list, statement --date today, or key show losing-$K --tenant acme:

  export DATABASE_URL=%[6]s PSP_URL=%[4]s PSP_SECRET=%[7]s

`, took.Seconds(), c.PublicURL, c.OperatorAddr, c.PSPURL, d.about, d.shellURL(), c.PSPSecret)
}

// shellURL is the database's address for a shell. One that was given to us may hold a password, and the shell has it
// already.
func (d *database) shellURL() string {
	if d.server == nil {
		return `"$DATABASE_URL"`
	}
	return "'" + d.url + "'"
}
