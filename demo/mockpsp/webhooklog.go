package mockpsp

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// maxTries is how many of the latest tries are remembered.
const maxTries = 200

// try is one webhook sent, or one that a disorder kept back.
type try struct {
	ID       string   `json:"id"`
	EntryID  string   `json:"entryId"`
	Type     string   `json:"type"`
	At       string   `json:"at"`
	Try      int      `json:"try"` // from 1; 0 by hand, or not sent
	Status   int      `json:"status,omitzero"`
	Error    string   `json:"error,omitempty"`
	Disorder disorder `json:"disorder,omitempty"`
}

func (t try) delivered() bool { return t.Status >= 200 && t.Status < 300 }

// Outcome says on the page how the try ended.
func (t try) Outcome() string {
	switch {
	case t.Status != 0:
		return http.StatusText(t.Status)
	case t.Error != "":
		return t.Error
	default:
		return "not sent"
	}
}

type tryLog struct {
	mu     sync.Mutex
	latest []try // oldest first
}

func (l *tryLog) add(t try) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.latest) == maxTries {
		l.latest = append(l.latest[:0], l.latest[1:]...)
	}
	l.latest = append(l.latest, t)
}

func (l *tryLog) newestFirst() []try {
	l.mu.Lock()
	defer l.mu.Unlock()
	tries := slices.Clone(l.latest)
	slices.Reverse(tries)
	return tries
}

// skip notes a webhook that is never sent.
func (s *webhookSender) skip(of Subject) {
	hook := of.Webhook(false)
	s.tries.add(try{
		ID: hook.ID, EntryID: of.SubjectID(), Type: hook.Kind, At: s.now().UTC().Format(timeLayout),
		Disorder: disorderDrop,
	})
}

// webhooksView is the answer of GET /_webhooks. The counts are of all entries in the ledger, the tries the latest
// since the start, newest first. Pending are also those whose call has not ended.
type webhooksView struct {
	URL       string `json:"url"` // empty when none are sent
	Pending   int    `json:"pending"`
	Delivered int    `json:"delivered"`
	GivenUp   int    `json:"givenUp"`
	Dropped   int    `json:"dropped"`
	Tries     []try  `json:"tries"`

	Dialect *webhooksView `json:"dialect,omitempty"` // those of another dialect, if it is served
}

func (w *webhooks) view() webhooksView {
	w.mu.Lock()
	defer w.mu.Unlock()
	view := webhooksView{
		Pending:   w.ends.pending,
		Delivered: w.ends.counts[endDelivered],
		GivenUp:   w.ends.counts[endGivenUp],
		Dropped:   w.ends.counts[endDropped],
		Tries:     w.sender.tries.newestFirst(),
	}
	if target, err := url.Parse(w.config.WebhookURL); err == nil {
		view.URL = target.Redacted()
	}
	return view
}

func (s *Server) getWebhooks(w http.ResponseWriter, _ *http.Request) {
	view := s.webhooks.view()
	if s.outbox != nil {
		ofDialect := s.outbox.webhooks.view()
		view.Dialect = &ofDialect
	}
	jsonReply(http.StatusOK, view).deliver(w)
}
