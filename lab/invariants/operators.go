package invariants

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

const operatorLooks = 5

// ops is the part of I8 about what an operator is shown: each dead letter as it is stored, with the payment, the key's
// timeline and the audit trail that belong to it, and the summary. A dead letter may open when all is quiet: the scan
// looks again at a record that errs, whose key has become final since its first dead letter. So what differs is looked
// at again, where the dead letters are others by now.
func ops(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if len(e.Operators) == 0 || e.OperatorKey == "" {
		return nil, nil
	}
	var found []Violation
	var err error
	for range operatorLooks {
		found, err = operatorOnce(ctx, e, w)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		now, err := look(ctx, e)
		if err != nil || slices.Equal(w.books.deadLetterVersions(), now.books.deadLetterVersions()) {
			return found, err
		}
		w = now
	}
	never := fmt.Sprintf("they change all the time: %d looks, and each time there were others", operatorLooks)
	return append(found, Violation{"I8", "dead letters", never}), nil
}

func operatorOnce(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	var found []Violation
	wrong := func(where, detail string) {
		if detail != "" {
			found = append(found, Violation{"I8", where, "an operator is shown otherwise than it is: " + detail})
		}
	}
	for _, l := range w.books.deadLetters[:min(len(w.books.deadLetters), maxShown)] {
		r, err := e.operator(ctx, "dead-letters/"+l.ID.String())
		if err != nil {
			return nil, err
		}
		want, shown := w.books.caseOf(l), readDocument(r.body).without("ageSeconds")
		if k := w.books.keys[keyName{l.Tenant, l.Operation, l.Key}]; k != nil {
			shown = upToThen(want, shown)
		}
		wrong("dead letter "+l.ID.String(), want.differs(shown))
	}
	for _, status := range []string{"open", "resolved"} {
		r, err := e.operator(ctx, fmt.Sprintf("dead-letters?limit=%d&status=%s", pageSize, status))
		if err != nil {
			return nil, err
		}
		wrong("dead letters "+status, w.books.listsDeadLetters(status, r.body))
	}
	r, err := e.operator(ctx, "summary")
	if err != nil {
		return nil, err
	}
	summary := readDocument(r.body)
	others := summary.without("deadLetters", "ledger", "lookups", "jobs", "keys", "oldestUnknownSeconds",
		"oldestEventSeconds")
	wrong("summary", w.books.summary().differs(others))
	open := readDocument(readDocument(summary.member("deadLetters")).member("open"))
	wrong("summary", w.books.openByKind().differs(open))
	return found, nil
}

func (e Evidence) operator(ctx context.Context, path string) (reply, error) {
	r, err := e.insist(ctx, func() (*http.Request, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base(e.Operators[0])+"/operator/"+path,
			http.NoBody)
		if err == nil {
			request.Header.Set("Authorization", "Bearer "+e.OperatorKey)
		}
		return request, err
	})
	if err != nil {
		return reply{}, fmt.Errorf("ask the operator's side for %s: %w", path, err)
	}
	return r, nil
}

// deadLetter is a dead letter as the lists show it.
func (b *books) deadLetter(l deadLetterRow) document {
	d := document{}
	d.set("id", l.ID.String())
	d.set("kind", l.Kind)
	d.set("status", l.Status)
	d.set("reason", l.Reason)
	d.set("evidence", jsontext.Value(l.Evidence))
	d.set("openedAt", stampOf(&l.Opened))
	d.set("version", l.Version)
	if l.Operation != "" {
		d.set("tenant", l.Tenant)
		d.set("operation", l.Operation)
		d.set("key", l.Key)
		d.set("generation", l.Generation)
		if k := b.keys[keyName{l.Tenant, l.Operation, l.Key}]; k != nil && l.concerns(k) {
			d.set("keyStatus", k.Status)
		}
	}
	if m := b.subjectOfDeadLetter(l); m != nil {
		member := "paymentId"
		if m.PaymentID != nil {
			member = "refundId"
		}
		d.set(member, m.String())
	}
	if l.Resolved != nil {
		resolution := document{}
		resolution.set("at", stampOf(l.Resolved))
		resolution.set("action", l.Action)
		resolution.set("actor", l.Actor)
		resolution.set("reason", l.Words)
		d.set("resolution", resolution.values())
	}
	return d
}

// caseOf is a dead letter with all that belongs to it.
func (b *books) caseOf(l deadLetterRow) document {
	d := b.deadLetter(l)
	if m := b.subjectOfDeadLetter(l); m != nil {
		member := "paymentStatus"
		if m.PaymentID != nil {
			member = "refundStatus"
		}
		d.set(member, m.Status)
	}
	trail := []map[string]jsontext.Value{}
	for _, auditEntry := range b.auditEntries {
		if auditEntry.DeadLetter == l.ID {
			trail = append(trail, auditEntry.document().values())
		}
	}
	d.set("audit", trail)
	timeline := []map[string]jsontext.Value{}
	if k := b.keys[keyName{l.Tenant, l.Operation, l.Key}]; k != nil {
		timeline = k.timeline(b.timelineOf(k))
	}
	d.set("timeline", timeline)
	return d
}

func (r auditRow) document() document {
	d := document{}
	d.set("at", stampOf(&r.At))
	d.set("actor", r.Actor)
	d.set("action", r.Action)
	d.set("reason", r.Reason)
	d.set("version", r.Version)
	d.set("outcome", r.Outcome)
	d.set("detail", r.Detail)
	return d
}

// listsDeadLetters holds the first page against the newest dead letters.
func (b *books) listsDeadLetters(status string, body []byte) string {
	var page struct {
		Data []jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return err.Error()
	}
	var there []deadLetterRow
	for _, l := range slices.Backward(b.deadLetters) {
		if l.Status == status && len(there) < pageSize {
			there = append(there, l)
		}
	}
	if len(there) != len(page.Data) {
		return fmt.Sprintf("%d dead letters are listed, and there are %d", len(page.Data), len(there))
	}
	for i, raw := range page.Data {
		if differs := b.deadLetter(there[i]).differs(readDocument(raw).without("ageSeconds")); differs != "" {
			return differs
		}
	}
	return ""
}

// summary is how things stand when nothing moves.
func (b *books) summary() document {
	d, nothing := document{}, document{}
	nothing.set("count", 0)
	nothing.set("oldestSeconds", 0)
	d.set("webhooks", nothing.values())
	return d
}

func (b *books) openByKind() document {
	count := map[string]int{}
	for _, l := range b.deadLetters {
		if l.Status == "open" {
			count[l.Kind]++
		}
	}
	d := document{}
	for kind, n := range count {
		d.set(kind, n)
	}
	return d
}

// deadLettersFit is the part of I8 about the dead letters themselves: what one says of a payment, of its key and of the
// PSP's record is so, and what an operator has decided is on record once.
func deadLettersFit(w world, _ Evidence) []Violation {
	var found []Violation
	done := map[uuid.UUID][]auditRow{}
	for _, auditEntry := range w.books.auditEntries {
		if auditEntry.Outcome == "done" {
			done[auditEntry.DeadLetter] = append(done[auditEntry.DeadLetter], auditEntry)
		}
	}
	for _, l := range w.books.deadLetters {
		for _, wrong := range []string{w.books.subjectFits(l), w.recordFits(l), l.decided(done[l.ID])} {
			if wrong != "" {
				found = append(found, Violation{"I8", "dead letter " + l.ID.String() + " " + l.Kind, wrong})
			}
		}
	}
	return found
}

func (b *books) subjectFits(l deadLetterRow) string {
	m := b.subjectOfDeadLetter(l)
	if m == nil {
		return ""
	}
	if l.Tenant != "" && (m.keyName() != (keyName{l.Tenant, l.Operation, l.Key}) || m.Generation != l.Generation) {
		return fmt.Sprintf("it is about %s, and names the key %s in generation %d", m,
			keyName{l.Tenant, l.Operation, l.Key}, l.Generation)
	}
	asked := readDocument(readDocument(l.Evidence).member("asked"))
	if asked == nil {
		return ""
	}
	want := document{}
	want.set("amountCents", m.Amount)
	want.set("currency", m.Currency)
	return want.differs(asked)
}

// recordFits holds the record that a dead letter keeps against the PSP's ledger, unless the PSP has lied about it.
func (w world) recordFits(l deadLetterRow) string {
	kept := readDocument(readDocument(l.Evidence).member("record"))
	if kept == nil || kept.text("account") == "" {
		return ""
	}
	for _, e := range slices.Concat(w.ledger.Charges, w.ledger.Refunds) {
		if e.Account != kept.text("account") || e.ID != kept.text("id") || !e.honest() {
			continue
		}
		want := document{}
		want.set("reference", e.Reference)
		want.set("idempotencyKey", w.keyToldOf(e, kept))
		want.set("amountCents", e.AmountCents)
		want.set("currency", e.Currency)
		want.set("status", e.Status)
		want.set("chargeId", e.ChargeID)
		want.set("declineCode", e.code())
		kept = kept.filled().without("id", "object", "account", "createdAt")
		if e.cameBack() || kept.text("status") == "pending" { // it was on its way, or had succeeded
			kept, want = kept.without("status", "declineCode"), want.without("status", "declineCode")
		}
		return want.differs(kept)
	}
	return ""
}

// decided holds how a dead letter was closed against what is audited as done.
func (l deadLetterRow) decided(done []auditRow) string {
	if l.Status == "open" {
		if len(done) > 0 {
			return "it is open, and an operator has done " + done[0].Action
		}
		return ""
	} else if len(done) != 1 {
		return fmt.Sprintf("it is resolved, and %d deeds of operators are on record", len(done))
	}
	d := done[0]
	if d.Action != l.Action || d.Actor != l.Actor || d.Reason != l.Words || d.Version != l.Version-1 {
		return fmt.Sprintf("%s has resolved it as %s (%q), and on record is %s as %s (%q) of version %d", l.Actor,
			l.Action, l.Words, d.Actor, d.Action, d.Reason, d.Version)
	}
	return ""
}
