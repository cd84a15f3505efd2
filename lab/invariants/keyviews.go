package invariants

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/idempotency"
)

// keyViews is the part of I3 about keys: their owners see them as they are stored, with the whole timeline.
func keyViews(ctx context.Context, e Evidence, w world) ([]Violation, error) {
	if len(e.APIs) == 0 {
		return nil, nil
	}
	events := map[keyName][]eventRow{}
	for _, event := range w.books.kept {
		name := keyName{event.Tenant, event.Operation, event.Key}
		events[name] = append(events[name], event)
	}
	var found []Violation
	asked := 0
	for _, m := range w.books.subjects {
		name := m.keyName()
		k := w.books.keys[name]
		if k == nil || k.Subject != m.ID || e.APIKeys[m.Tenant] == "" {
			continue
		}
		if asked++; asked > maxShown {
			break
		}
		r, err := e.get(ctx, base(e.APIs[asked%len(e.APIs)])+m.keyPath(m.Key), m.Tenant)
		if err != nil {
			return nil, fmt.Errorf("ask for the key %s: %w", name, err)
		}
		status, differs := http.StatusOK, ""
		if k.Status == string(idempotency.ExpiredStatus) {
			status = http.StatusGone
		}
		switch {
		case r.status != status:
			differs = fmt.Sprintf("the answer is %d", r.status)
		case status == http.StatusOK:
			want := k.document(m, timeline{k, events[name], w.books.wasDeleted(name)})
			differs = want.differs(upToThen(want, readDocument(r.body)))
		}
		if differs != "" {
			found = append(found, Violation{"I3", name.String(), "the key is shown otherwise than it is stored: " +
				differs})
		}
	}
	return found, nil
}

func (k *keyRow) document(m *movementRow, events timeline) document {
	d := document{}
	d.set("key", k.Key)
	d.set("operation", m.operation())
	d.set("status", k.Status)
	d.set("attempt", k.Attempt)
	d.set("generation", k.Generation)
	d.set("fingerprint", hex.EncodeToString(k.Fingerprint))
	d.set("createdAt", stampOf(&k.Created))
	d.set("reservedAt", stampOf(&k.Reserved))
	d.set("lockedUntil", stampOf(k.LockedUntil))
	d.set("expiresAt", stampOf(&k.Expires))
	d.set("resource", m.path())
	d.set("timeline", k.timeline(events))
	if k.ResponseStatus != nil {
		d.set("completedAt", stampOf(k.Finished))
		response := document{}
		response.set("status", *k.ResponseStatus)
		response.set("contentType", *k.ResponseContentType)
		response.set("location", *k.ResponseLocation)
		response.set("body", string(k.ResponseBody))
		d.set("response", response.values())
	}
	return d
}

// upToThen is what is shown, without the remarks that were added to the timeline since the database was read: while an
// operator has a key, it is looked up again and again, and a worker that was paused may confirm what another one has
// written meanwhile. A remark moves no key.
func upToThen(then, shown document) document {
	before := strings.TrimSuffix(then["timeline"], "]")
	if !strings.HasPrefix(shown["timeline"], before+",") {
		return shown
	}
	type line struct {
		At   time.Time `json:"at"`
		From string    `json:"from"`
		To   string    `json:"to"`
	}
	var stored, lines []line
	if json.Unmarshal([]byte(then["timeline"]), &stored) != nil ||
		json.Unmarshal([]byte(shown["timeline"]), &lines) != nil {
		return shown
	}
	last := stored[len(stored)-1].At
	for _, added := range lines[len(stored):] {
		if added.From != added.To || !added.At.After(last) {
			return shown
		}
	}
	shown["timeline"] = then["timeline"]
	return shown
}

// mostLines is how many lines of a timeline are shown, the newest. Of a longer one, nothing is added that is not
// written down.
const mostLines = 200

// timeline is the key's life, with the two steps of the happy path that are not written down.
func (k *keyRow) timeline(t timeline) []map[string]jsontext.Value {
	const inProgress, completed = string(idempotency.InProgressStatus), string(idempotency.CompletedStatus)
	written := t.events
	whole := len(written) < mostLines
	if !whole {
		written = written[len(written)-mostLines:]
	}
	events := []eventRow{{At: k.Created, Actor: "request", To: inProgress, Attempt: 1, Generation: t.first(),
		Reason: "reserved"}}
	events = append(events, written...)
	told := slices.ContainsFunc(written, func(e eventRow) bool {
		return e.To == completed && e.From != completed &&
			e.Generation == k.Generation
	})
	if k.ResponseStatus != nil && whole && !told {
		events = append(events, eventRow{
			At: *k.Finished, Actor: "owner", From: inProgress, To: completed, Attempt: k.Attempt,
			Generation: k.Generation,
			Reason:     "the PSP answered; the response is stored",
		})
		slices.SortStableFunc(events, func(a, b eventRow) int { return a.At.Compare(b.At) })
	}
	shown := make([]map[string]jsontext.Value, 0, len(events))
	for _, e := range events {
		shown = append(shown, e.document().values())
	}
	return shown
}

func (e eventRow) document() document {
	d := document{}
	d.set("at", stampOf(&e.At))
	d.set("actor", e.Actor)
	d.set("from", e.From)
	d.set("to", e.To)
	d.set("attempt", e.Attempt)
	d.set("generation", e.Generation)
	d["reason"] = string(canonical(quoted(e.Reason))) // there also when it is empty
	if e.Evidence != nil {
		d.set("evidence", jsontext.Value(e.Evidence))
	}
	return d
}

func quoted(s string) []byte {
	raw, _ := jsontext.AppendQuote(nil, s) // text of the database is UTF-8
	return raw
}

// values is the document as a member of another one.
func (d document) values() map[string]jsontext.Value {
	values := map[string]jsontext.Value{}
	for name, value := range d {
		values[name] = jsontext.Value(value)
	}
	return values
}
