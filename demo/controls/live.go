package controls

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// aliveEvery is how often a stream without news says that it is alive.
	aliveEvery = 15 * time.Second
	// writeLimit is how long a browser may take to read one event.
	writeLimit = 10 * time.Second
)

// changes wakes the streams when there is something new.
type changes struct {
	mu   sync.Mutex
	next chan struct{}
}

func newChanges() *changes { return &changes{next: make(chan struct{})} }

// tell wakes all who wait.
func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// wait returns what is closed at the next change. It is called before the state is read, so that no change is missed.
func (c *changes) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// getLive streams the panel: once at the beginning, and after each change.
func (s *Controls) getLive(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	stream := http.NewResponseController(w)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	due := true
	for shown := ""; ; {
		change := s.changes.wait()
		event := ""
		if panel := s.panelHTML(); panel != shown {
			shown = panel
			data, err := json.Marshal(map[string]string{"html": panel})
			if err != nil {
				return
			}
			event = fmt.Sprintf("event: part\ndata: %s\n\n", data)
		}
		if due {
			event += ": alive\n\n"
		}
		if err := writeEvent(w, stream, event, s.config.Now().Add(writeLimit)); err != nil {
			return // the browser has gone
		}
		due = false
		select {
		case <-change:
		case <-look.C:
		case <-alive.C:
			due = true
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func writeEvent(w http.ResponseWriter, stream *http.ResponseController, event string, until time.Time) error {
	if event == "" {
		return nil
	}
	if err := stream.SetWriteDeadline(until); err != nil {
		return err
	}
	if _, err := w.Write([]byte(event)); err != nil {
		return err
	}
	return stream.Flush()
}

func (s *Controls) panelHTML() string {
	var panel strings.Builder
	if err := s.page.ExecuteTemplate(&panel, "panel", s.panel()); err != nil {
		return ""
	}
	return panel.String()
}
