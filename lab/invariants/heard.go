package invariants

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

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

// feed reads all of a tenant's feed.
func (e Evidence) feed(ctx context.Context, tenant string) (all []merchant.Notice, wrong string, err error) {
	for after := ""; ; {
		r, err := e.get(ctx, fmt.Sprintf("%s/events?limit=%d%s", base(e.APIs[0]), pageSize, after), tenant)
		if err != nil {
			return nil, "", err
		}
		var page page
		if r.status != http.StatusOK || !page.read(r.body) {
			return nil, fmt.Sprintf("its feed is answered %d %s", r.status, r.body), nil
		}
		for _, raw := range page.Data {
			n, err := merchant.ReadNotice(raw)
			if err != nil {
				return nil, err.Error(), nil //nolint:nilerr // it is a violation that was found
			}
			all = append(all, n)
		}
		if !page.HasMore {
			return all, "", nil
		}
		after = "&after=" + page.NextCursor
	}
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
		about := cmp.Or(readDocument(n.Refund).text("refundId"), readDocument(n.Payment).text("paymentId"))
		told[n.Type+" "+about] = true
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
			want(of, "dispute", r.Status, payment.ID(r.Payment).String())
		case !w.books.isOwn(r):
			want(of, "refund", r.Status, payment.RefundID(r.ID).String())
		}
	}
	return found
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
	case (object == "refund") != (n.Refund != nil):
		return "its type and its data differ in whether it is about a refund"
	}
	if differs := row.document().without(changing...).differs(shown.without(changing...)); differs != "" {
		return differs
	}
	if differs := neverSo(shown.text("status"), row.Status); differs != "" {
		return "the payment " + differs
	}
	switch object {
	case "payment":
		return otherStatus(status, shown)
	case "refund":
		return w.wrongRefund(row, status, readDocument(n.Refund))
	}
	return w.wrongDispute(row, status, shown)
}

func (w world) wrongRefund(of *movementRow, status string, shown document) string {
	var now document
	final := ""
	id, err := subjectOf(shown.text("refundId"))
	if own := w.books.subjects[id]; own != nil && own.PaymentID != nil && *own.PaymentID == of.ID {
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
	if differs := neverSo(status, final); differs != "" {
		return "the refund " + differs
	}
	return otherStatus(status, shown)
}

// neverSo: what has succeeded or was declined stays so. Only the money of a refund may come back.
func neverSo(told, final string) string {
	forGood := told == string(payment.Succeeded) && final != string(payment.Reversed) ||
		told == string(payment.Declined)
	if forGood && told != final {
		return fmt.Sprintf("was never %s, it is %s", told, final)
	}
	return ""
}

// otherStatus: the type of an event names the status of what it is about.
func otherStatus(status string, shown document) string {
	if status == "unknown" {
		status = string(payment.Processing)
	}
	if got := shown.text("status"); got != status {
		return "it is about something that is " + got
	}
	return ""
}

// wrongDispute: a payment shows its disputes once it is known to have succeeded. Before that, its type alone tells.
func (w world) wrongDispute(of *movementRow, status string, shown document) string {
	if shown.text("status") == string(payment.Processing) && len(w.books.disputesOf(of)) > 0 {
		return ""
	}
	var told []jsontext.Value
	_ = json.Unmarshal(shown.member("disputes"), &told) // without one, nothing in it fits
	for _, raw := range told {
		d := readDocument(raw)
		for _, r := range w.books.disputesOf(of) {
			if d.text("pspDisputeId") == r.PSPID && d.text("status") == status &&
				d["amountCents"] == r.dispute()["amountCents"] && d["currency"] == r.dispute()["currency"] {
				return ""
			}
		}
	}
	return "no dispute of the payment was ever so"
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
