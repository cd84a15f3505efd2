package console

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	pingEvery   = 15 * time.Second // so that proxies and browsers notice a dead connection
	writeLimit  = 10 * time.Second // for one message to a slow client
	reconnectMS = "1000"
	busyMS      = "10000"
)

// message is the data of an event. HTML replaces the content of the page's live part. Trouble is shown above it.
type message struct {
	HTML    string `json:"html,omitempty"`
	Trouble string `json:"trouble,omitempty"`
}

// stream sends the content of a topic to a page, and again whenever it changes (server-sent events, the HTML standard,
// section 9.2). Each message has the whole content, so a page that was away catches up with the first one.
func (c *Console) stream(w http.ResponseWriter, r *http.Request, name string, made func() *topic) {
	t, leave, err := c.watch.subscribe(name, made)
	out := c.startStream(w)
	if errors.Is(err, errBusy) {
		out.write("retry: " + busyMS + "\n\n")
		out.send("part", message{Trouble: "Too many pages of this console are open, so this one is not live."})
		return
	}
	defer leave()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		now := t.now()
		m := message{HTML: now.html}
		if now.trouble != nil {
			m = message{Trouble: "What has happened could not be read just now. What you see may be old."}
		}
		if (now.html != "" || now.trouble != nil) && !out.send("part", m) {
			return
		}
		for waiting := true; waiting; {
			select {
			case <-r.Context().Done():
				return
			case <-now.changed:
				waiting = false
			case <-ping.C:
				if _, err := c.operator(r); errors.Is(err, errNoSession) {
					out.send("signed-out", message{})
					return
				}
				if !out.write(": still here\n\n") {
					return
				}
			}
		}
	}
}

// showPart makes the content of a topic, and shows it.
func (c *Console) showPart(name string, view any, show func(string)) error {
	html, err := c.execute(name, view)
	if err == nil {
		show(html)
	}
	return err
}

// eventStream writes server-sent events.
type eventStream struct {
	w    http.ResponseWriter
	ctrl *http.ResponseController
	now  func() time.Time
}

func (c *Console) startStream(w http.ResponseWriter) eventStream {
	e := eventStream{w, http.NewResponseController(w), c.config.Now}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	e.write("retry: " + reconnectMS + "\n\n")
	// A stream has no end, so the server's limit for reading a request does not fit. Each write has its own limit. The
	// limit is removed after the first write: before it, the server reads a body that the client has promised.
	_ = e.ctrl.SetReadDeadline(time.Time{})
	return e
}

func (e eventStream) send(name string, m message) bool {
	data, err := json.Marshal(m)
	return err == nil && e.write("event: "+name+"\ndata: "+string(data)+"\n\n")
}

func (e eventStream) write(text string) bool {
	_ = e.ctrl.SetWriteDeadline(e.now().Add(writeLimit))
	_, err := e.w.Write([]byte(text))
	return err == nil && e.ctrl.Flush() == nil
}
