package commands

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
)

// maxReasonShown keeps a line of a table a line.
const maxReasonShown = 60

func printPage(w io.Writer, status deadletters.Status, p operator.List[operator.Entry]) error {
	if len(p.Rows) == 0 {
		_, err := fmt.Fprintf(w, "There are no %s dead letters.\n", status)
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tKIND\tAGE\tTENANT\tABOUT\tREASON")
	for _, e := range p.Rows {
		tenant := "-"
		if e.About != nil {
			tenant = e.About.Tenant
		}
		about := "-"
		if e.PaymentOrRefund != nil {
			about = e.PaymentOrRefund.ID
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", e.ID, e.Kind, age(e.Age), plain(tenant), about,
			clipped(plain(e.Reason)))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if p.Next != "" {
		_, err := fmt.Fprintf(w, "\nThere are more: --cursor %s\n", p.Next)
		return err
	}
	return nil
}

func printCase(w io.Writer, c operator.Case) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", name, plain(fmt.Sprintf(format, args...)))
	}
	line("dead letter", "%s", c.ID)
	line("kind", "%s", c.Kind)
	line("status", "%s, version %d", c.Status(), c.Version)
	line("opened", "%s (%s ago)", clock(c.Opened), age(c.Age))
	line("reason", "%s", c.Reason)
	if m := c.PaymentOrRefund; m != nil {
		line(m.Object, "%s, %s", m.ID, m.Status)
	}
	if a := c.About; a != nil {
		stands := string(c.Key)
		if stands == "" {
			stands = "gone, or reserved again since"
		}
		line("tenant", "%s", a.Tenant)
		line("operation", "%s", a.Operation)
		line("key", "%s, generation %d: %s", a.Key, a.Generation, stands)
	}
	if r := c.Resolution; r != nil {
		line("resolved", "%s as %s, by %s: %s", clock(r.At), r.Action, r.Actor, r.Reason)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nEvidence\n%s\n", pretty(c.Evidence))
	if err := printTimeline(w, c.Timeline); err != nil {
		return err
	}
	return printTrail(w, c.AuditTrail)
}

func printTimeline(w io.Writer, events []idempotency.Event) error {
	if len(events) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nTimeline of the key")
	rows := [][]string{{"AT", "ACTOR", "FROM", "TO", "ATTEMPT", "GENERATION", "REASON"}}
	for _, e := range events {
		from := cmp.Or(string(e.From), "-") // there was no key before
		rows = append(rows, []string{clock(e.At), e.Actor, from, string(e.To), strconv.Itoa(int(e.Attempt)),
			strconv.Itoa(int(e.Generation)), e.Reason})
	}
	return printRows(w, rows)
}

func printTrail(w io.Writer, trail []deadletters.AuditEntry) error {
	if len(trail) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nWhat operators did")
	rows := [][]string{{"AT", "ACTOR", "ACTION", "OUTCOME", "REASON", "DETAIL"}}
	for _, d := range trail {
		outcome := "refused"
		if d.Done {
			outcome = "done"
		}
		rows = append(rows, []string{clock(d.At), d.Actor, string(d.Action), outcome, d.Reason, d.Detail})
	}
	return printRows(w, rows)
}

// plain keeps a text from moving the cursor, or anything else that a terminal does when it is told: what others have
// written is shown here.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}

// pretty is JSON, broken into lines and without anything that a terminal would obey.
func pretty(evidence []byte) string {
	v := jsontext.Value(bytes.Clone(evidence))
	if err := v.Indent(); err != nil {
		return plain(string(evidence))
	}
	lines := strings.Split(strings.ReplaceAll(string(v), "\t", "  "), "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

func clipped(s string) string {
	if utf8.RuneCountInString(s) <= maxReasonShown {
		return s
	}
	return string([]rune(s)[:maxReasonShown-1]) + "…"
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// age is a duration as people say it: its largest unit, and the next.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}
