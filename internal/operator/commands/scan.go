package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	"payonce/internal/cli"
	"payonce/internal/gateway"
	"payonce/internal/payments"
	"payonce/internal/reconcile"
)

const scanHelp = `Usage: reconciler scan [--account NAME]

Reads the PSP's lists of charges and refunds to their ends, from where the last scan has read to. What our books do not explain
becomes a dead letter, and holds its key. The running reconciler does the same all the time. After a restore of the database,
run this command before the API serves again: until then, a key that the restore has lost is free to be charged once more.

  --account  a PSP account. By default the accounts of all tenants

Exit code: 0 every list is read to its end, 1 a list could not be read to its end, 2 the command line is wrong.
`

const (
	// partPages bounds the part of a list after which a line tells how far it is read.
	partPages = 10
	// maxStalled is how often in a row a list may come to no progress.
	maxStalled = 3
)

// Scan reads the PSP's lists to their ends.
func Scan(ctx context.Context, args []string, d Deps[*reconcile.Reconciler]) error {
	if cli.AsksForHelp(args) {
		_, err := io.WriteString(d.Stdout, scanHelp)
		return err
	}
	flags := cli.NewFlags("reconciler scan")
	only := flags.String("account", "", "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return err
	}
	reconciler, done, err := d.Open()
	if err != nil {
		return err
	}
	defer done()
	var all, failed int
	for account, err := range reconciler.Accounts(ctx) {
		if err != nil {
			return explainDatabase(err)
		}
		if *only != "" && account != *only {
			continue
		}
		for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
			all++
			if err := scanToEnd(ctx, reconciler, account, o, d.Stdout); err != nil {
				failed++
				fmt.Fprintf(d.Stdout, "%s %ss: not read to the end: %v\n", account, o, err)
			}
		}
		if err := ctx.Err(); err != nil {
			return explainDatabase(err)
		}
	}
	switch {
	case all == 0:
		return fmt.Errorf("no tenant has the account %q", *only)
	case failed > 0:
		return fmt.Errorf("%d of %d lists are not read to the end: run it again", failed, all)
	}
	_, err = fmt.Fprintf(d.Stdout,
		"all %d lists are read to the end; start the reconciler; the console lists the open dead letters\n", all)
	return err
}

// scanToEnd reads one list, and writes a line after each part of it.
func scanToEnd(ctx context.Context, r *reconcile.Reconciler, account string, o gateway.Object, out io.Writer) error {
	var found, known, resolved int
	for stalled := 0; stalled < maxStalled; {
		progress, effects, err := r.Scan(ctx, o, account, partPages, nil)
		if err != nil {
			return err
		}
		for _, effect := range effects {
			switch e := effect.(type) {
			case payments.DeadLettered:
				found++
				if !e.New {
					known++
				}
			case payments.Completed:
				resolved++
			case payments.Confirmed, payments.Foreign:
			}
		}
		state := "reading"
		if progress == reconcile.ReachedEnd {
			state = "read to the end"
		}
		fmt.Fprintf(out, "%s %ss: %s; %d resolved, %s\n", account, o, state, resolved, countFound(found, known))
		switch progress {
		case reconcile.ReachedEnd:
			return nil
		case reconcile.GotOn:
			stalled = 0
		case reconcile.Stalled:
			stalled++
		}
	}
	return errors.New("the PSP's list comes to no progress")
}

// countFound counts dead letters. One that was found before may be closed, so no list of the open ones has it.
func countFound(found, known int) string {
	text := fmt.Sprintf("%d dead letters", found)
	if found == 1 {
		text = "1 dead letter"
	}
	if known > 0 {
		text += fmt.Sprintf(", %d of them found before (open, or closed since)", known)
	}
	return text
}
