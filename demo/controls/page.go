package controls

import (
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp"
	"payonce/demo/windows"
)

//go:embed page.html
var pageSource string

//go:embed demo.js
var script string

func parsePage() *template.Template {
	return template.Must(template.New("page.html").Funcs(template.FuncMap{
		"clock": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"button": func(label, means, mode, token, key string) buttonView {
			return buttonView{label, means, mode, token, key}
		},
		"choice": func(c windows.Choice, key string) choiceView { return choiceView{c, key} },
	}).Parse(pageSource))
}

// pageView is what the page shows.
type pageView struct {
	Key     string // whose picture is shown; empty before the first payment
	Picture string // where the picture is
	Notice  string // what is wrong with this demo on purpose; or ""
	SignIn  string // where one signs in, and then comes back to this key
	Tokens  []mockpsp.Token
	PSPPage string
	// Provider is whose dialect the PSP speaks; or "".
	Provider string
	// OperatorKey signs in at the console, and Patience is how long the API waits for the PSP.
	OperatorKey string
	Patience    time.Duration
	CanCrash    bool      // the database is the demo's own
	Fates       []fate    // nil: there is no server to compare with, and
	NoFates     string    // why
	Stop        *stopView // nil where nothing can be stopped
	Deeds       []deed
	Panel       panelView
}

// buttonView is a button with what it does. Name is the mode of a payment, or the path of what breaks something.
type buttonView struct{ Label, Means, Name, Token, Key string }

// NeedsKey says that the button sends a key again, so it cannot be the first one that is pressed.
func (b buttonView) NeedsKey() bool { return b.Name == "again" || b.Name == "other-amount" }

// panelView is the part that changes by itself.
type panelView struct {
	Key      string    // of the newest payment
	Guide    string    // what to do next
	Stop     *stopView // nil where nothing can be stopped
	Compared *comparedView
	// LatestCompares says that the newest line is about the comparison.
	LatestCompares bool
	Presets        []presetView
	Processes      []processView
	Lines          []line // newest first
}

// presetView is a preset, and whether the mock PSP has its rates now.
type presetView struct {
	preset
	On bool
}

type namedControl struct {
	name string
	of   Control
}

// processView is a process with its name and button.
type processView struct {
	Name string
	Process
}

func (s *Controls) getPage(w http.ResponseWriter, r *http.Request) {
	view := pageView{
		Key: r.URL.Query().Get("key"), Tokens: s.config.Tokens, PSPPage: s.config.PSPPage, Provider: s.config.Provider,
		OperatorKey: s.config.OperatorKey, Patience: s.config.PSPTimeout, CanCrash: s.config.Database.Kill != nil,
		Panel: s.panel(), Stop: s.stopView(), Notice: s.config.Notice,
		NoFates: s.config.WithoutNaive, Deeds: deeds(),
	}
	if s.config.Naive != nil {
		view.Fates = fates(s.config.Late)
	}
	if view.Key == "" {
		view.Key = s.told.latestKey()
	}
	back := "/demo/"
	if view.Key != "" {
		back += "?" + url.Values{"key": {view.Key}}.Encode()
		view.Picture = "/console/keys/" + url.PathEscape(s.config.Tenant) + "/payments/" + url.PathEscape(view.Key)
	}
	view.SignIn = "/console/sign-in?" + url.Values{"next": {back}}.Encode()
	s.render(w, http.StatusOK, "page", view)
}

func (s *Controls) panel() panelView {
	facts, on := s.facts()
	view := panelView{Key: facts.Key, Guide: guide(facts), Stop: s.stopView(), Compared: s.compared(),
		Lines: s.told.newestFirst()}
	for _, p := range presets() {
		view.Presets = append(view.Presets, presetView{p, p.Name == on})
	}
	view.LatestCompares = len(view.Lines) > 0 && strings.HasPrefix(view.Lines[0].What, comparesPrefix)
	all := []namedControl{{"API", s.config.API}, {"reconciler", s.config.Reconciler}, {"database", s.config.Database}}
	if s.config.Naive != nil {
		all = append(all, namedControl{"naive server", s.config.Naive.Control})
	}
	for _, p := range all {
		if p.of.State != nil {
			view.Processes = append(view.Processes, processView{p.name, p.of.State()})
		}
	}
	return view
}

// render writes one of the templates.
func (s *Controls) render(w http.ResponseWriter, status int, name string, view any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := s.page.ExecuteTemplate(w, name, view); err != nil {
		s.config.Log.Debug("page not shown to its end", slog.Any("error", err))
	}
}

const (
	// aliveEvery is how often a stream without news says that it is alive.
	aliveEvery = 15 * time.Second
	// writeLimit is how long a browser may take to read one event.
	writeLimit = 10 * time.Second
)

// getLive streams the panel: once at the beginning, and when it has changed.
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
