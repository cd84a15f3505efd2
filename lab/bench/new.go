package main

import (
	"context"
	"fmt"

	"payonce/lab/bench/load"
	"payonce/lab/bench/pgbench"
	"payonce/lab/bench/report"
)

const paymentsUnit = "payments/s"

// newPaymentBars are the ratios to pgbench that the design asks for, by clients.
var newPaymentBars = map[int]report.Bar{
	1: report.AtLeast(0.65), 8: report.AtLeast(0.60), 32: report.AtLeast(0.85), 64: report.AtLeast(1.50),
}

// newPayments asks how near the API comes to what PostgreSQL itself can do with the same SQL.
func (b *bench) newPayments(ctx context.Context, s *report.Section) error {
	s.Note = "New payments, PSP in process, against pgbench with the very same SQL: two pipelined transactions each. \"at 8\" is with 8 clients."
	script, err := pgbench.NewPayment(b.queries, b.sample)
	if err != nil {
		return err
	}
	api, err := b.serve(ctx, b.db)
	if err != nil {
		return err
	}
	for _, clients := range b.settings.Clients {
		name := withClients(clients)
		slices, err := b.rounds(ctx, b.settings.Rounds, b.scripted(b.db, script, clients),
			b.loaded(name("API"), api, load.Plan{Kind: load.New, Clients: clients, APIKeys: []string{b.db.APIKey}}))
		if err != nil {
			return err
		}
		pg, api := slices[0], slices[1]
		tell(s, name("pgbench"), paymentsUnit, pg)
		tell(s, name("API"), paymentsUnit, api)
		var cpu, toPG report.Bar
		if clients == 8 {
			cpu = report.AtMost(0.7)
		}
		if clients >= 8 {
			toPG = report.AtMost(0.6)
		}
		compare(s, name("API ÷ pgbench"), api, pg, rate, newPaymentBars[clients])
		compare(s, name("PostgreSQL's CPU per payment, API ÷ pgbench"), api, pg, pgCPU, cpu)
		s.Figures = append(s.Figures,
			report.Ratio(name("CPU, API ÷ PostgreSQL"), by(api, apiCPU), by(api, pgCPU), toPG))
		if clients == 1 { // more clients share commits
			s.Figures = append(s.Figures,
				report.Figure{What: "commits per new payment", Rounds: by(api, commits), Bar: report.AtMost(2 + slack)},
				report.Figure{What: "WAL per new payment", Unit: "kB", Rounds: by(api, wal),
					Bar: report.AtMost(1.6 + slack)})
		}
	}
	return nil
}

// slack is for what the server itself writes now and then: one commit in thousands is not a payment's.
const slack = 0.01

// withClients names a line by how many clients there were.
func withClients(n int) func(string) string {
	return func(text string) string { return fmt.Sprintf("at %d: %s", n, text) }
}
