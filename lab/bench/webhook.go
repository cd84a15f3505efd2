package main

import (
	"context"
	"fmt"
	"strings"

	"payonce/demo/mockpsp"
	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
)

// eventBody is an event as the mock PSP sends it. What it is about, nobody here knows: that is for the reconciler to
// find out.
const eventBody = `{"type":"charge.succeeded","timestamp":"2026-11-20T12:00:00.000000Z","data":{"id":"ch_4nqzb2h5wd7xk3mtc6vrj2yafe","object":"charge",` +
	`"account":"bench","idempotencyKey":"{fresh}","reference":"pay_01kah9x4v8e6cs0t1r3m5p7w9z","amountCents":12000,"currency":"KRW",` +
	`"paymentMethod":"pm_ok","status":"succeeded","createdAt":"2026-11-20T12:00:00.000000Z"}}`

// storedEvent is what the API stores of it.
func storedEvent() string {
	return strings.ReplaceAll(eventBody, "{fresh}", "019a6f3e-7b1c-7d52-9c41-3f0e6a8b2d17")
}

// webhooks asks what it costs to take a webhook in: verified, and stored in one commit with the job that processes it.
func (b *bench) webhooks(ctx context.Context, s *report.Section) error {
	const clients, unit = 8, "webhooks/s"
	s.Note = fmt.Sprintf("Signed webhooks of %d bytes at %d clients: the API verifies each and commits it with its job. Against pgbench that stores the event alone, by a "+
		"plain INSERT. No reconciler runs.", len(eventBody), clients)
	// Nothing is left for a reconciler of another section.
	defer func() {
		b.stopAll()
		_, _ = b.db.Admin.Exec(context.WithoutCancel(ctx),
			"DELETE FROM river_job WHERE kind = 'webhook'; TRUNCATE webhook_events")
	}()
	api, err := b.serve(ctx, b.db, "WEBHOOK_SECRETS="+mockpsp.DemoWebhookSecret)
	if err != nil {
		return err
	}
	plan := load.Plan{Address: api.Address, Kind: load.Webhook, Clients: 64, Seconds: 1, Body: eventBody,
		WebhookSecret: mockpsp.DemoWebhookSecret}
	if _, err := generate(ctx, plan); err != nil {
		return err
	}
	plan.Clients, plan.Seconds = clients, 0
	slices, err := b.rounds(ctx, b.settings.few(), b.scripted(b.db, pgbench.Event(storedEvent()), clients),
		b.loaded("API, webhooks", api, plan))
	if err != nil {
		return err
	}
	tell(s, "pgbench, the event alone", unit, slices[0])
	tell(s, "API", unit, slices[1])
	compare(s, "webhook, event and job in one commit ÷ the event alone", slices[1], slices[0], rate,
		report.AtLeast(0.45))
	return nil
}
