package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"payonce/internal/cli"
	"payonce/internal/gateway"
	"payonce/internal/payments"
)

const scanHelp = `Usage: reconciler scan [--account NAME]

Reads the PSP's lists of charges and refunds to their ends, from where the last scan has read to. What our books do not explain
becomes a dead letter, and holds its key. The running reconciler does the same all the time. After a restore of the database,
run this command before the API serves again: until then, a key that the restore has lost is free to be charged once more.

  --account  a PSP account. By default the accounts of all tenants

Exit code: 0 every list is read to its end, 1 a list could not be read to its end, 2 the command line is wrong.
`

// Ledgers are where the PSP's lists are compared with our books.
type Ledgers struct {
	Payments *payments.Service
	Overlap  time.Duration // what is read again before the end of the last scan
}

const (
	// partPages bounds the part of a list after which a line tells how far it is read.
	partPages = 10
	// maxStalled is how often in a row a list may come to no progress.
	maxStalled = 3
)

// Scan reads the PSP's lists to their ends.
func Scan(ctx context.Context, args []string, d Deps[Ledgers]) error {
	if cli.AsksForHelp(args) {
		_, err := io.WriteString(d.Stdout, scanHelp)
		return err
	}
	flags := cli.NewFlags("reconciler scan")
	only := flags.String("account", "", "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return err
	}
	ledgers, done, err := d.Open()
	if err != nil {
		return err
	}
	defer done()
	var all, failed int
	err = ledgers.Payments.Accounts(ctx, func(account string) error {
		if *only != "" && account != *only {
			return nil
		}
		for _, o := range []gateway.Object{gateway.ChargeObject, gateway.RefundObject} {
			all++
			if err := ledgers.scanToEnd(ctx, account, o, d.Stdout); err != nil {
				failed++
				fmt.Fprintf(d.Stdout, "%s %ss: not read to the end: %v\n", account, o, err)
			}
		}
		return ctx.Err()
	})
	switch {
	case err != nil:
		return explainDatabase(err)
	case all == 0:
		return fmt.Errorf("no tenant has the account %q", *only)
	case failed > 0:
		return fmt.Errorf("%d of %d lists are not read to the end: run it again", failed, all)
	}
	_, err = fmt.Fprintf(d.Stdout,
		"all %d lists are read to the end; start the reconciler: its console lists the open dead letters\n", all)
	return err
}

// scanToEnd reads one list, and writes a line after each part of it.
func (l Ledgers) scanToEnd(ctx context.Context, account string, o gateway.Object, out io.Writer) error {
	var found, known, resolved int
	count := func(e payments.Effect) {
		switch e := e.(type) {
		case payments.DeadLettered:
			found++
			if !e.New {
				known++
			}
		case payments.Completed:
			resolved++
		case payments.Confirmed, payments.LeftAlone, payments.Foreign:
		}
	}
	for stalled := 0; stalled < maxStalled; {
		progress, err := l.Payments.Scan(ctx, o, account, l.Overlap, partPages, nil, count)
		if err != nil {
			return err
		}
		state := "reading"
		if progress == payments.ReachedEnd {
			state = "read to the end"
		}
		fmt.Fprintf(out, "%s %ss: %s; %d resolved, %s\n", account, o, state, resolved, countFound(found, known))
		switch progress {
		case payments.ReachedEnd:
			return nil
		case payments.GotOn:
			stalled = 0
		case payments.Stalled:
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
