package invariants

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/lab/merchant"
)

// merchantsTold is I11.
func merchantsTold(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	var found []Violation
	for _, m := range e.Merchants {
		feed, wrong, err := e.feed(ctx, m.Tenant)
		if err != nil {
			return nil, fmt.Errorf("read the feed of %s: %w", m.Tenant, err)
		}
		if wrong != "" {
			found = append(found, Violation{"I11", m.Tenant, wrong})
			continue
		}
		found = append(found, w.heard(m, feed)...)
	}
	return found, nil
}

// heard holds what a merchant has heard against the books. feed is all of its feed, read in the end.
func (w world) heard(m merchant.Heard, feed []merchant.Notice) []Violation {
	found := slices.Concat(w.untold(m, "the feed", feed), w.untrue(m, feed), w.outdated(m, feed))
	differ := func(text, differs string) {
		if differs != "" {
			found = append(found, Violation{"I11", m.Tenant, text + ": " + differs})
		}
	}
	for _, what := range m.Forged {
		differ("not signed for the endpoint", what)
	}
	differ("the feed is not in the order of its places", merchant.OtherOrder(w.books.feeds[m.Tenant], feed))
	differ("who has followed the feed has not read what it has", merchant.OtherOrder(merchant.IDs(feed), m.Followed))
	for _, name := range slices.Sorted(maps.Keys(m.Endpoints)) {
		taken := slices.DeleteFunc(slices.Clone(m.Endpoints[name]), func(n merchant.Notice) bool { return !n.Taken })
		found = append(found, w.untold(m, name, taken)...)
		differ(name+" has other events than the feed", merchant.OtherSet(feed, taken))
	}
	return found
}

// untold are the outcomes that there are in the end, and that somebody was not told.
func (w world) untold(m merchant.Heard, receiver string, got []merchant.Notice) (found []Violation) {
	told := map[string]bool{}
	for _, n := range got {
		told[n.Type+" "+tells(n)] = true
	}
	want := func(of *movementRow, name, status, id string) {
		name += "." + shownStatus(status)
		if of != nil && of.Tenant == m.Tenant && !told[name+" "+id] {
			found = append(found, Violation{"I11", of.keyName().String(),
				fmt.Sprintf("%s was never told %s of %s", receiver, name, id)})
		}
	}
	for _, row := range w.books.subjects {
		switch {
		case row.Status == string(payment.Processing):
		case row.PaymentID == nil:
			want(row, "payment", row.Status, row.String())
		default:
			want(row, "refund", row.Status, row.String())
		}
	}
	for _, r := range w.books.outside {
		of := w.books.subjects[r.Payment]
		switch {
		case r.Object == disputeObject:
			want(of, disputeObject, r.Status, payment.ID(r.Payment).String()+" "+r.PSPID)
		case !w.books.isOwn(r):
			want(of, "refund", r.Status, payment.RefundID(r.ID).String())
		}
	}
	return found
}

// tells names what an event tells of.
func tells(n merchant.Notice) string {
	paid := readDocument(n.Payment).text("paymentId")
	if n.Dispute != nil {
		return paid + " " + readDocument(n.Dispute).text("pspDisputeId")
	}
	return cmp.Or(readDocument(n.Refund).text("refundId"), paid)
}

// untrue is what was told and is not so, and events that were not the same each time.
func (w world) untrue(m merchant.Heard, feed []merchant.Notice) (found []Violation) {
	first := map[string]merchant.Notice{}
	look := func(receiver string, notices []merchant.Notice) {
		sent := map[string][]byte{}
		for _, n := range notices {
			earlier, known := first[n.ID]
			said := ""
			switch {
			case !known:
				first[n.ID] = n
				said = w.wrong(m.Tenant, n)
			case !bytes.Equal(canonical(earlier.Body), canonical(n.Body)):
				said = fmt.Sprintf("elsewhere, it is %s", earlier.Body)
			case sent[n.ID] != nil && !bytes.Equal(sent[n.ID], n.Body):
				said = "it came again with other bytes"
			}
			sent[n.ID] = n.Body
			if said != "" {
				found = append(found, Violation{"I11", m.Tenant + " " + n.ID,
					fmt.Sprintf("%s was told %s: %s", receiver, n.Body, said)})
			}
		}
	}
	look("the feed", feed)
	look("who has followed the feed", m.Followed)
	for _, name := range slices.Sorted(maps.Keys(m.Endpoints)) {
		look(name, m.Endpoints[name])
	}
	return found
}

// changing are the members of a payment or a refund that may change. The others are the same in each event.
var changing = []string{"status", "declineCode", "pspChargeId", "pspRefundId", "amountRefundedCents",
	"amountDisputedCents", "disputes", "updatedAt"}

// wrong names the first thing that an event says and that is not so.
func (w world) wrong(tenant string, n merchant.Notice) string {
	shown, row := readDocument(n.Payment), w.books.subjects[about(n)]
	object, status, _ := strings.Cut(n.Type, ".")
	switch {
	case row == nil || row.PaymentID != nil:
		return "there is no such payment"
	case row.Tenant != tenant:
		return fmt.Sprintf("%s is a payment of %s", row, row.Tenant)
	case (object == refundObject) != (n.Refund != nil), (object == disputeObject) != (n.Dispute != nil):
		return "its type and its data differ in what it is about"
	}
	if differs := row.document().without(changing...).differs(shown.without(changing...)); differs != "" {
		return differs
	}
	if differs := w.books.beyondRefunds(row, shown["amountRefundedCents"]); differs != "" {
		return differs
	}
	told := shown.text("status")
	if object == "payment" {
		if differs := otherStatus(status, shown); differs != "" {
			return differs
		}
		told = status
	}
	if differs := w.books.neverSo(told, row.Status, row); differs != "" {
		return "the payment " + differs
	}
	switch object {
	case "payment":
		return ""
	case refundObject:
		return w.wrongRefund(row, status, readDocument(n.Refund))
	}
	return w.wrongDispute(row, status, shown, readDocument(n.Dispute))
}

// beyondRefunds: a payment shows as returned what its refunds have moved, of which an event may know a part. Our
// refunds move no more than the payment. A refund that others have made after one of ours has come back may be known
// first, so theirs are added.
func (b *books) beyondRefunds(p *movementRow, shown string) string {
	returned, err := strconv.ParseInt(shown, 10, 64)
	if err == nil && 0 <= returned && returned <= p.Refunded {
		return ""
	}
	var ours, others int64
	for _, m := range b.subjects {
		if m.PaymentID != nil && *m.PaymentID == p.ID && m.isFinal() && m.Status != string(payment.Declined) {
			ours += m.Amount
		}
	}
	for _, r := range b.outside {
		if r.Object == refundObject && r.Payment == p.ID {
			others += b.takes(r)
		}
	}
	if most := min(ours, p.Amount) + others; err != nil || returned < 0 || returned > most {
		return fmt.Sprintf("amountRefundedCents is %q, and at most %d were returned", shown, most)
	}
	return ""
}

func (w world) wrongRefund(of *movementRow, status string, shown document) string {
	var now document
	final := ""
	id, err := subjectOf(shown.text("refundId"))
	own := w.books.subjects[id]
	if own != nil && own.PaymentID != nil && *own.PaymentID == of.ID {
		now, final = own.document(), own.Status
	}
	for _, r := range w.books.outside {
		if r.Object == refundObject && r.ID == id && r.Payment == of.ID && now == nil {
			now, final = r.refund(), r.Status
		}
	}
	if err != nil || now == nil {
		return "there is no such refund of the payment"
	}
	if differs := now.without(changing...).differs(shown.without(changing...)); differs != "" {
		return "the refund: " + differs
	}
	if differs := w.books.neverSo(status, final, own); differs != "" {
		return "the refund " + differs
	}
	return otherStatus(status, shown)
}

// otherStatus: the type of an event names the status of what it is about.
func otherStatus(status string, shown document) string {
	if status == string(idempotency.UnknownStatus) {
		status = string(payment.Processing)
	}
	if got := shown.text("status"); got != status {
		return "it is about something that is " + got
	}
	return ""
}

// learned are the members of a dispute that a statement's line does not have, and those that come with its end.
var learned = []string{"status", "reason", "evidenceDueBy", "openedAt", "closedAt"}

// wrongDispute: a payment shows its disputes once it is known to have succeeded. Before that, the event alone has it.
func (w world) wrongDispute(of *movementRow, status string, paid, shown document) string {
	rows := w.books.disputesOf(of)
	i := slices.IndexFunc(rows, func(r outsideRow) bool { return r.PSPID == shown.text("pspDisputeId") })
	if i < 0 {
		return "there is no such dispute of the payment"
	}
	now := rows[i].dispute()
	if differs := now.without(learned...).differs(shown.without(learned...)); differs != "" {
		return "the dispute: " + differs
	}
	if shown["closedAt"] != "" && now["closedAt"] == "" {
		return fmt.Sprintf("the dispute was never %s, it is %s", status, rows[i].Status)
	}
	isShown := func(d document) bool { return d.differs(shown) == "" }
	if paid.text("status") == string(payment.Succeeded) && !slices.ContainsFunc(disputesIn(paid), isShown) {
		return "the payment does not show the dispute so"
	}
	return otherStatus(status, shown)
}

// outdated are the payments of which the event with the greatest version does not say what they are. The time of the
// last change is not compared once the key is deleted: only the key's row has had the time at which it was finished.
func (w world) outdated(m merchant.Heard, feed []merchant.Notice) (found []Violation) {
	last := map[uuid.UUID]merchant.Notice{}
	for _, n := range feed {
		if id := about(n); n.Version > last[id].Version {
			last[id] = n
		}
	}
	for id, n := range last {
		row := w.books.subjects[id]
		if row == nil || row.Tenant != m.Tenant || row.Status == string(payment.Processing) {
			continue // The first two are found as untrue.
		}
		now, told := w.books.now(row), readDocument(n.Payment)
		if k := w.books.keys[row.keyName()]; k == nil || k.Subject != row.ID {
			now, told = now.without("updatedAt"), told.without("updatedAt")
		}
		if differs := now.differs(told); differs != "" {
			found = append(found, Violation{"I11", row.keyName().String(),
				fmt.Sprintf("the last event of %s, %s, does not say what it is: %s", row, n.ID, differs)})
		}
	}
	return found
}

// about is the payment that an event names. It may be none of ours.
func about(n merchant.Notice) uuid.UUID {
	id, err := subjectOf(readDocument(n.Payment).text("paymentId"))
	if err != nil {
		return uuid.UUID{}
	}
	return id
}
