package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"payonce/lab/invariants"
)

// books are what has become of one caller's intents.
type books struct {
	kind    kind
	intents int
	lives   int
	kills   map[boundary]int

	once    int // charged once, or declined by the PSP and told so
	twice   int // charged more than once
	lost    int // told paid and never charged; charged and told otherwise
	notPaid int // given up, and not charged
	wrong   []string
}

// tallied compares what a caller has told with what the PSP has charged. An intent is found by its amount.
func tallied(k kind, account string, shops []*shop, ledger *invariants.Ledger) books {
	charges := map[int64]int{}
	for _, c := range ledger.Charges {
		if c.Account == account && c.Executed() {
			charges[c.AmountCents]++
		}
	}
	b := books{kind: k, kills: map[boundary]int{}}
	for _, s := range shops {
		b.lives += s.lives
		for where, n := range s.kills {
			b.kills[where] += n
		}
		for _, e := range s.errands {
			b.intents++
			b.add(e, charges[amount(e.index)])
		}
	}
	slices.Sort(b.wrong)
	return b
}

func (b *books) add(e *errand, charges int) {
	declines := e.token == "pm_declined"
	switch {
	case charges > 1:
		b.twice++
	case e.told == "paid" && charges == 1 && !declines, e.told == "declined" && charges == 0 && declines:
		b.once++
		return
	case e.told != "paid" && charges == 0:
		b.notPaid++
	default:
		b.lost++
	}
	b.wrong = append(b.wrong,
		fmt.Sprintf("order-%d (%s): told %q, charged %d times", e.index, e.token, e.told, charges))
}

func print(w io.Writer, s settings, all []books) {
	fmt.Fprintf(w, "caller seed=%d\n", s.Seed)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "caller\tintents\t")
	for _, where := range boundaries {
		fmt.Fprintf(table, "killed %s\t", where)
	}
	fmt.Fprintln(table, "charged once\ttwice\tlost\tgiven up\t")
	for _, b := range all {
		fmt.Fprintf(table, "%s\t%d\t", b.kind, b.intents)
		for _, where := range boundaries {
			fmt.Fprintf(table, "%d\t", b.kills[where])
		}
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t\n", b.once, b.twice, b.lost, b.notPaid)
	}
	_ = table.Flush()
	fmt.Fprintln(w, "charged once: or declined by the PSP and told so. twice: more than once. lost: told something else than the PSP did.")
}

// verdict fails unless package client was charged once for everything, killed everywhere, and the usual loops were not
// charged once: a storm that does them no harm proves nothing.
func verdict(all []books) error {
	var errs []error
	for _, b := range all {
		if b.kind != withClient {
			if b.twice == 0 {
				errs = append(errs, fmt.Errorf("%s: nothing was charged twice, so the storm shows nothing", b.kind))
			}
			continue
		}
		if b.once != b.intents {
			errs = append(errs, fmt.Errorf("%s: %d of %d intents were charged once: %s", b.kind, b.once, b.intents,
				strings.Join(b.wrong[:min(5, len(b.wrong))], "; ")))
		}
		for _, where := range boundaries {
			if b.kills[where] == 0 {
				errs = append(errs, fmt.Errorf("%s: never killed at %q", b.kind, where))
			}
		}
	}
	return errors.Join(errs...)
}
