package console

import (
	"context"
	"errors"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payment"
	"payonce/internal/sequence"
	"payonce/internal/tenants"
)

// The operations, as they are in the address of a page.
const (
	paymentsPath = "payments"
	refundsPath  = "refunds"
)

// keyURL is the page of a key.
func keyURL(ref idempotency.Ref) string {
	operation := paymentsPath
	if ref.Operation == payment.RefundOperation {
		operation = refundsPath
	}
	return "/console/keys/" + url.PathEscape(ref.Tenant) + "/" + operation + "/" + url.PathEscape(ref.Key.String())
}

// refOf is the key that a path names. A key that was taken before the rules for keys became stricter can be shown, too.
// A text that PostgreSQL cannot hold names no key. One such key would make the query for all watched keys fail.
func refOf(r *http.Request) (idempotency.Ref, bool) {
	operation, known := map[string]string{
		paymentsPath: payment.CreateOperation, refundsPath: payment.RefundOperation,
	}[r.PathValue("operation")]
	tenant, key := r.PathValue("tenant"), r.PathValue("key")
	known = known && utf8.ValidString(tenant+"/"+key) && !strings.Contains(tenant+key, "\x00")
	return idempotency.StoredRef(tenant, operation, key), known
}

const noSuchKey = "There is no such key. The operation in the address is payments or refunds."

// findKey leads from the form to the page of the key.
func (c *Console) findKey(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
	q := r.URL.Query()
	operation := payment.CreateOperation
	if q.Get("operation") == refundsPath {
		operation = payment.RefundOperation
	}
	tenant, key := strings.TrimSpace(q.Get("tenant")), strings.Trim(strings.TrimSpace(q.Get("key")), `"`)
	if tenant == "" || key == "" {
		c.fail(w, r, http.StatusBadRequest, "Name the tenant and the key.")
		return
	}
	http.Redirect(w, r, keyURL(idempotency.StoredRef(tenant, operation, key)), http.StatusSeeOther)
}

// keyReader reads everything that the page of a key shows. It keeps what it has read, because not everything is read
// each time.
type keyReader struct {
	c   *Console
	ref idempotency.Ref

	seen  keyView   // without what view adds
	asked time.Time // when the PSP was asked the last time
}

// How often the PSP is asked for a key that is watched, beside each change of the key: a charge may appear in the PSP's
// ledger while nothing changes here. For a key with its final answer, it is not asked again.
const (
	askOften  = time.Second
	askSeldom = 5 * time.Second
	// longestAsking bounds a question with the wait for its turn. A page does not wait as long as a payment does.
	longestAsking = 2 * time.Second
)

// render is the content of the topic of a key. What the database has is shown before the PSP is asked, because the PSP
// may be slow.
func (k *keyReader) render(ctx context.Context, changed bool, show func(string)) error {
	if changed {
		if err := k.read(ctx); err != nil {
			return err
		}
		// A page that was never shown the ledger waits for it. It would show nothing in its place for a moment.
		if !k.asked.IsZero() || k.seen.Row.Attempt == 0 {
			if err := k.show(show); err != nil {
				return err
			}
		}
	}
	if !changed && !k.due() {
		return nil
	}
	k.ask(ctx)
	return k.show(show)
}

func (k *keyReader) show(show func(string)) error { return k.c.showPart("key-live", k.view(), show) }

// due reports whether the PSP should be asked although the key has not changed.
func (k *keyReader) due() bool {
	since := k.c.config.Now().Sub(k.asked)
	switch k.seen.Row.Status {
	case idempotency.InProgressStatus, idempotency.UnknownStatus:
		return since >= askOften
	case idempotency.FailedRetryableStatus:
		return since >= askSeldom
	case idempotency.CompletedStatus, idempotency.ExpiredStatus:
	}
	return k.seen.LedgerUnread != "" && since >= askSeldom
}

// read reads the key's rows and timeline. A key that does not exist is no error: it may exist in a moment.
func (k *keyReader) read(ctx context.Context) error {
	row, err := k.c.config.Keys.Find(ctx, k.ref)
	if errors.Is(err, idempotency.ErrNoKey) {
		return k.readNothing(ctx)
	}
	if err != nil {
		return err
	}
	events, err := k.c.config.Keys.Events(ctx, k.ref)
	if err != nil {
		return err
	}
	shown, err := k.c.config.Operators.ShowKey(ctx, k.ref)
	if errors.Is(err, idempotency.ErrNoKey) {
		return k.readNothing(ctx) // It was deleted at this moment.
	}
	if err != nil {
		return err
	}
	if row.Generation != k.seen.Row.Generation { // The ledger that was read was that of another generation.
		k.seen.Ledger, k.seen.LedgerUnread = nil, "it was not asked yet"
	}
	if err := k.readMerchant(ctx); err != nil {
		return err
	}
	k.seen.Rows = rows{columnsOf("key", shown.Key), columnsOf("movement", shown.Movement), shown.Response}
	k.seen.Object = k.seen.Rows.Movement.value("psp_object_id")
	k.seen.Row, k.seen.Timeline = row, row.Timeline(events)
	k.seen.Requests, k.seen.Started = k.c.config.Recent.Of(k.ref), k.c.config.Recent.Since()
	k.seen.GracePeriod = k.c.config.GracePeriod
	k.seen.Open = nil
	if k.seen.Rows.Key.value("dead_letter_hold") != "none" {
		k.seen.Open, err = k.c.config.Operators.OpenAbout(ctx, k.ref)
	}
	return err
}

// readNothing is read for a key that does not exist. Requests that were refused may be remembered.
func (k *keyReader) readNothing(ctx context.Context) (err error) {
	k.seen.Life = sequence.Life{Row: idempotency.KeyRow{Ref: k.ref}, Requests: k.c.config.Recent.Of(k.ref)}
	k.seen.Rows = rows{}
	k.seen.HeldBy, err = k.c.config.Operators.Holder(ctx, k.ref)
	return err
}

// ask asks the PSP what its ledger has under the key. If it does not answer, the page keeps what it has said before.
func (k *keyReader) ask(ctx context.Context) {
	if k.seen.Row.Attempt == 0 {
		return // There is no such key.
	}
	ctx, cancel := context.WithTimeout(ctx, longestAsking)
	defer cancel()
	defer func() { k.asked = k.c.config.Now() }()
	k.seen.LedgerUnread, k.seen.Waits = "it did not answer in time", false
	select {
	case k.c.asking <- struct{}{}:
		defer func() { <-k.c.asking }()
	case <-ctx.Done():
		return
	}
	answer, err := k.c.config.Payments.LookUp(ctx, k.seen.Row.Execution())
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		k.seen.LedgerUnread = "it could not be asked"
		return
	}
	_, k.seen.Waits = answer.(gateway.Waiting)
	k.seen.SetLedger(answer)
}

// keyView is the page of a key.
type keyView struct {
	sequence.Life // the PSP is asked about the row's generation, and about no other

	URL      string
	Exists   bool
	Refund   bool // whether the key is for a refund
	Picture  template.HTML
	Diagram  sequence.Diagram
	Rows     rows
	Merchant payment.Merchant // whose key it is at the PSP; empty if it is not known
	Waits    bool             // the PSP has the request, and waits for the customer or a bank
	Next     string           // what happens next with the key
	Open     []operator.Found // the open dead letters that hold it
	HeldBy   string           // the dead letter that holds it if it has no row
	Executed []string         // the amounts that the PSP has executed, if its ledger could be read
	Asked    string           // the amount that was asked for, if it is another one; or ""
}

// diagram draws what was read, and what has happened to the processes since: nothing here changes when one ends.
func (k *keyReader) diagram() sequence.Diagram {
	life := k.seen.Life
	if k.c.config.EventsFile != "" {
		stored, _ := os.ReadFile(k.c.config.EventsFile) // A picture can do without.
		life.Events = sequence.ParseEvents(stored)
	}
	return sequence.Draw(life)
}

func (k *keyReader) view() keyView {
	v := k.seen
	v.Diagram = k.diagram()
	v.URL, v.Exists, v.Refund = keyURL(k.ref), v.Row.Attempt > 0, k.ref.Operation == payment.RefundOperation
	if !v.Exists && len(v.Requests) == 0 {
		return v
	}
	v.Picture = v.Diagram.HTML()
	v.Next = nextOf(v.Row, v.Started, len(v.Open) > 0)
	if v.LedgerUnread == "" {
		v.Executed = executed(v.Ledger)
		v.Asked = askedOtherwise(v.Ledger, v.Rows.Movement)
	}
	return v
}

func (c *Console) key(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	if k, ok := c.readKey(w, r); ok {
		status := http.StatusOK
		if k.seen.Row.Attempt == 0 {
			status = http.StatusNotFound
		}
		c.show(w, r, status, "key.html", "Key "+k.ref.Key.String(), &by, k.view())
	}
}

// readKey reads the key that a request is about, or answers why it cannot.
func (c *Console) readKey(w http.ResponseWriter, r *http.Request) (*keyReader, bool) {
	ref, ok := refOf(r)
	if !ok {
		c.fail(w, r, http.StatusNotFound, noSuchKey)
		return nil, false
	}
	k := &keyReader{c: c, ref: ref}
	if err := k.read(r.Context()); err != nil {
		c.explain(w, r, err)
		return nil, false
	}
	k.ask(r.Context())
	return k, true
}

func (c *Console) keyLive(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
	ref, ok := refOf(r)
	if !ok {
		c.fail(w, r, http.StatusNotFound, noSuchKey)
		return
	}
	c.stream(w, r, keyURL(ref), func() *topic {
		return &topic{ref: &ref, every: askOften, render: (&keyReader{c: c, ref: ref}).render}
	})
}

// picture is the page of a key's picture as a file.
func (c *Console) picture(contentType string, draw func(sequence.Diagram, io.Writer) error) page {
	return func(w http.ResponseWriter, r *http.Request, _ tenants.Principal) {
		if k, ok := c.readKey(w, r); ok {
			w.Header().Set("Content-Type", contentType)
			if contentType == sequence.SVGType {
				w.Header().Set("Content-Security-Policy", sequence.SVGPolicy)
			}
			d := k.diagram()
			d.Clock = r.URL.Query().Has("clock") // for those who have no pointer to ask a step for its time
			_ = draw(d, w)
		}
	}
}
