package main

import (
	"context"
	"fmt"
	"strings"

	"payonce/demo/mockpsp"
	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
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

const webhooksUnit = "webhooks/s"

// webhooks asks what it costs to take a webhook in: verified, and stored in one commit with the job that processes it.
func (b *bench) webhooks(ctx context.Context, s *report.Section) error {
	if b.settings.Ref != "" {
		return b.webhooksAgainst(ctx, s)
	}
	const clients = 8
	s.Note = fmt.Sprintf("Signed webhooks of %d bytes at %d clients: the API verifies each and commits it with its job. Against pgbench that stores the event alone, by a "+
		"plain INSERT. No reconciler runs.", len(eventBody), clients)
	// Nothing is left for a reconciler of another section.
	defer func() {
		b.stopAll()
		_, _ = b.db.Admin.Exec(context.WithoutCancel(ctx),
			"DELETE FROM river_job WHERE kind = 'webhook'; TRUNCATE webhook_events")
	}()
	api, err := b.receiving(ctx, "API", b.db, clients)
	if err != nil {
		return err
	}
	slices, err := b.rounds(ctx, b.settings.few(), b.scripted(b.db, pgbench.Event(storedEvent()), clients), api)
	if err != nil {
		return err
	}
	tell(s, "pgbench, the event alone", webhooksUnit, slices[0])
	tell(s, "API", webhooksUnit, slices[1])
	compare(s, "webhook, event and job in one commit ÷ the event alone", slices[1], slices[0], rate,
		report.AtLeast(0.45))
	return nil
}

// receiving is a contender: an API, warmed up, that takes webhooks in.
func (b *bench) receiving(ctx context.Context, name string, d *rig.Database, clients int) (contender, error) {
	api, err := b.serve(ctx, d, "WEBHOOK_SECRETS="+mockpsp.DemoWebhookSecret)
	if err != nil {
		return contender{}, err
	}
	plan := load.Plan{Address: api.Address, Kind: load.Webhook, Clients: 64, Seconds: 1, Body: eventBody,
		WebhookSecret: mockpsp.DemoWebhookSecret}
	if _, err := generate(ctx, plan); err != nil {
		return contender{}, err
	}
	plan.Clients, plan.Seconds = clients, 0
	return b.loaded(name, api, plan), nil
}

// webhooksAgainst asks what a webhook costs beside another commit.
func (b *bench) webhooksAgainst(ctx context.Context, s *report.Section) error {
	versions, short, err := b.versions(ctx, "webhook")
	if err != nil {
		return err
	}
	s.Note = fmt.Sprintf("Signed webhooks of %d bytes. This tree beside commit %s, both on one server.", len(eventBody), short)
	for _, clients := range b.settings.Clients {
		name := withClients(clients)
		var contenders []contender
		for _, each := range versions {
			api, err := b.receiving(ctx, name(each.name), each.db, clients)
			if err != nil {
				return err
			}
			contenders = append(contenders, api)
		}
		slices, err := b.rounds(ctx, b.settings.Rounds, contenders...)
		if err != nil {
			return err
		}
		b.stopAll()
		for i, each := range versions {
			tell(s, name(each.name), webhooksUnit, slices[i])
		}
		for _, each := range []struct {
			what string
			of   func(taken) float64
			bar  report.Bar
		}{{"webhooks", rate, refBars[short]["webhooks"]}, {"PostgreSQL's CPU", pgCPU, report.Bar{}},
			{"API's CPU", apiCPU, report.Bar{}}} {
			compare(s, name(each.what+", this ÷ other"), slices[1], slices[0], each.of, each.bar)
		}
	}
	return nil
}
