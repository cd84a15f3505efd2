package commands

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// print writes the story for a person, in 120 columns.
func (s story) print(w io.Writer) error {
	if err := printRows(w, s.keyRows()); err != nil {
		return err
	}
	if s.refund != nil {
		fmt.Fprintln(w)
		if err := printRows(w, refundRows(*s.refund)); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	if s.payment == nil {
		fmt.Fprintln(w, "There is no payment for it.")
	} else if err := printRows(w, paymentRows(*s.payment)); err != nil {
		return err
	}
	return printTimeline(w, s.timeline)
}

func (s story) keyRows() [][]string {
	r := s.record
	rows := [][]string{
		{"key", r.Ref.Key.String()},
		{"tenant", r.Ref.Tenant},
		{"operation", string(r.Ref.Operation)},
		{"status", fmt.Sprintf("%s, attempt %d, generation %d", r.Status, r.Attempt, r.Generation)},
		{"fingerprint", r.Fingerprint.String()},
		{"first used", clock(r.Created)},
		{"reserved", clock(r.Reserved)},
	}
	for _, moment := range []struct {
		name string
		at   *time.Time
	}{{"lease until", r.LockedUntil}, {"finished", r.Finished}, {"expires", &r.Expires}} {
		if moment.at != nil {
			rows = append(rows, []string{moment.name, clock(*moment.at)})
		}
	}
	if a := r.Response; a != nil {
		rows = append(rows, []string{"response", fmt.Sprintf("%d, %s, %d bytes", a.Status, a.ContentType, len(a.Body))})
	}
	return rows
}

func paymentRows(p payment.Payment) [][]string {
	rows := [][]string{
		{"payment", fmt.Sprintf("%s: %s", p.ID, p.Status)},
		{"amount", p.Currency.Money(p.Amount)},
		{"customer", p.CustomerID},
		{"method", p.PaymentMethod},
		{"created", clock(p.Created)},
	}
	rows = withOptional(rows, "charge", p.PSPChargeID)
	rows = withOptional(rows, "declined", p.DeclineCode)
	if p.Refunded > 0 {
		rows = append(rows, []string{"refunded", p.Currency.Money(p.Refunded)})
	}
	for _, d := range p.Disputes {
		said := fmt.Sprintf("%s: %s, %s", d.PSPID, d.Status, d.Currency.Money(d.Amount))
		rows = append(rows, []string{"dispute", said})
	}
	rows = withOptional(rows, "reference", p.Reference)
	rows = withOptional(rows, "description", p.Description)
	for _, name := range slices.Sorted(maps.Keys(p.Metadata)) {
		rows = append(rows, []string{"metadata", name + "=" + p.Metadata[name]})
	}
	return rows
}

func refundRows(r payment.Refund) [][]string {
	rows := [][]string{
		{"refund", fmt.Sprintf("%s: %s", r.ID, r.Status.Shown())},
		{"amount", r.Currency.Money(r.Amount)},
		{"created", clock(r.Created)},
	}
	rows = withOptional(rows, "refunded as", r.PSPRefundID)
	rows = withOptional(rows, "failed or declined", r.DeclineCode)
	return withOptional(rows, "reason", r.Reason)
}

func withOptional(rows [][]string, name, value string) [][]string {
	if value == "" {
		return rows
	}
	return append(rows, []string{name, value})
}

func printTimeline(w io.Writer, events []idempotency.Event) error {
	if len(events) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nTimeline of the key")
	rows := [][]string{{"AT", "ACTOR", "FROM", "TO", "ATTEMPT", "GENERATION", "REASON"}}
	for _, e := range events {
		from := cmp.Or(string(e.From), "-") // there was no key before
		rows = append(rows, []string{clock(e.At.Time()), e.Actor, from, string(e.To), strconv.Itoa(int(e.Attempt)),
			strconv.Itoa(int(e.Generation)), e.Reason})
	}
	return printRows(w, rows)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
