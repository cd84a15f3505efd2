package commands

import (
	"context"
	"io"

	"payonce/internal/cli"
	"payonce/internal/sequence"
)

const timelineHelp = `Usage: reconciler timeline KEY --tenant NAME [--operation OPERATION] [--clock] [--svg]

Draws what has happened to a key as a sequence diagram: client, API, database, PSP, reconciler and operator over time.
What follows from the rest, but was recorded by nobody, is dashed. The PSP is asked what its ledger has under the key;
nothing is changed.

  KEY          the client's Idempotency-Key, without quotes
  --tenant     the tenant of the key; api tenants list shows the tenants
  --operation  'POST /payments', the default, or 'POST /payments/{id}/refunds'
  --clock      shows the times of the clock, in UTC; without it, they count from the first request
  --svg        writes an image, and not text for a terminal

Exit code: 0 drawn, 1 the key does not exist or could not be read, 2 the command line is wrong.
`

// Timeline draws the life of a key.
func Timeline(ctx context.Context, args []string, d Deps[Books]) error {
	if cli.AsksForHelp(args) || len(args) > 0 && args[0] == "help" {
		_, err := io.WriteString(d.Stdout, timelineHelp)
		return err
	}
	flags := cli.NewFlags("reconciler timeline")
	svg, clock := flags.Bool("svg", false, ""), flags.Bool("clock", false, "")
	asked, err := parseKey(flags, "reconciler timeline", args)
	if err != nil {
		return err
	}
	b, done, err := d.Open()
	if err != nil {
		return err
	}
	defer done()
	s, err := b.story(ctx, asked)
	if err != nil {
		return explainDatabase(err)
	}
	life := sequence.Life{Row: s.record, Timeline: s.timeline}
	if s.payment != nil && s.refund == nil {
		life.Object = s.payment.PSPObjectID
	}
	// If the PSP does not answer, the diagram says so.
	answer, err := b.Payments.LookUp(ctx, life.Row.Execution())
	if err := ignoreMissing(err); err != nil {
		return explainDatabase(err)
	}
	life.SetLedger(answer)
	picture := sequence.Draw(life)
	picture.Clock = *clock
	if *svg {
		return picture.SVG(d.Stdout)
	}
	return picture.Text(d.Stdout)
}
