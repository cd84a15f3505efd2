package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"payonce/demo/mockpsp"
	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
	"payonce/lab/bench/rig"
)

const perSecondEvents = "webhooks/s"

// eventBody is an event as the mock PSP sends it. What it is about, nobody here knows: that is for the reconciler to
// find out.
const eventBody = `{"type":"charge.succeeded","timestamp":"2026-11-20T12:00:00.000000Z","data":{"id":"ch_4nqzb2h5wd7xk3mtc6vrj2yafe","object":"charge",` +
	`"account":"bench","idempotencyKey":"{fresh}","reference":"pay_01kah9x4v8e6cs0t1r3m5p7w9z","amountCents":12000,"currency":"KRW",` +
	`"paymentMethod":"pm_ok","status":"succeeded","createdAt":"2026-11-20T12:00:00.000000Z"}}`

// webhooks asks what it costs to take a webhook in: verified, and stored in one commit with the job that processes it.
func (b *bench) webhooks(ctx context.Context, s *report.Section) (err error) {
	const clients = 8
	s.Note = fmt.Sprintf("Signed webhooks of %d bytes at %d clients: the API verifies each and commits it with its job. Against pgbench that stores the event alone, by a "+
		"plain INSERT, and one that writes the job as well, in one round trip. No reconciler runs.", len(
		eventBody), clients)
	defer func() { err = errors.Join(err, b.forgetEvents(context.WithoutCancel(ctx))) }()
	api, err := b.start(ctx, b.db, rig.Spec{Program: rig.APIInProcess,
		Env: []string{"WEBHOOK_SECRETS=" + mockpsp.DemoWebhookSecret}})
	if err != nil {
		return err
	}
	plan := load.Plan{Address: api.Address, Kind: load.Webhook, Clients: 64, Seconds: 1, Body: eventBody,
		WebhookSecret: mockpsp.DemoWebhookSecret}
	b.progress("warming up")
	if _, err := generate(ctx, plan, nil); err != nil {
		return err
	}
	plan.Clients, plan.Seconds = clients, b.settings.slice().Seconds()
	alone, withJob, err := b.eventScripts(ctx)
	if err != nil {
		return err
	}
	slices, err := b.roundsOf(ctx, b.settings.few(), b.scripted(b.db, alone, clients),
		b.loaded("API, webhooks", api, plan), b.scripted(b.db, withJob, clients))
	if err != nil {
		return err
	}
	toAlone := report.PairUp("webhook ÷ pgbench's event alone", by(slices[1], rate), by(slices[0], rate))
	s.Lines = append(s.Lines,
		line("pgbench, the event alone", perSecondEvents, report.Higher, by(slices[0], rate)),
		line("pgbench, event and job", perSecondEvents, report.Higher, by(slices[2], rate)),
		line("API", perSecondEvents, report.Higher, by(slices[1], rate)),
		line("API, p50", millis, report.Lower, by(slices[1], p50)),
		line("API, p99", millis, report.Lower, by(slices[1], p99)),
		line("API", cpuMicros, report.Lower, by(slices[1], programCPU)),
		line("PostgreSQL under the API", cpuMicros, report.Lower, by(slices[1], pgCPU)),
		line("PostgreSQL under pgbench, the event alone", cpuMicros, report.Lower, by(slices[0], pgCPU)),
		line("PostgreSQL under pgbench, event and job", cpuMicros, report.Lower, by(slices[2], pgCPU)))
	s.Ratios = append(s.Ratios, toAlone, report.PairUp("webhook ÷ pgbench's event and job", by(slices[1], rate),
		by(slices[2], rate)))
	s.Bars = append(s.Bars, report.Bar{
		What: "webhook, event and job in one commit ÷ the event alone, at 8", Op: report.AtLeast, Value: 0.45,
		Prototype: "0.47",
	}.Of(toAlone.Samples()))
	return nil
}

// eventScripts write what the API has just written.
func (b *bench) eventScripts(ctx context.Context) (alone, withJob pgbench.Script, err error) {
	var j pgbench.Job
	err = b.db.Admin.QueryRow(ctx, "SELECT kind, queue, max_attempts FROM river_job WHERE kind = 'webhook' LIMIT 1").
		Scan(&j.Kind, &j.Queue, &j.MaxAttempts)
	if err != nil {
		return alone, withJob, fmt.Errorf("read the job of a webhook: %w", err)
	}
	body := strings.ReplaceAll(eventBody, "{fresh}", "019a6f3e-7b1c-7d52-9c41-3f0e6a8b2d17")
	return pgbench.Event(body), pgbench.EventAndJob(body, j), nil
}

// forgetEvents leaves nothing for a reconciler of another section.
func (b *bench) forgetEvents(ctx context.Context) error {
	b.stopAll()
	_, err := b.db.Admin.Exec(ctx, "DELETE FROM river_job WHERE kind = 'webhook'; TRUNCATE webhook_events")
	return err
}
