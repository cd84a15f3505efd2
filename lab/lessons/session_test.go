package lessons

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A psql block of a page is a session in several windows: what a reader types, and what each window prints.
//
//	A=> BEGIN;
//	BEGIN
//	B=> INSERT …;
//	-- B waits for A.
//	A=*> COMMIT;
//	COMMIT
//	-- B goes on.
//	INSERT 0 0
//
// The first letter of a prompt is the window. A statement ends with its semicolon; its further lines are indented by
// the width of the prompt, as psql does with PROMPT2=%w. A line that begins with -- is the page's own, and the two
// forms above are written by the test. All other lines are what psql prints.
var (
	promptLine = regexp.MustCompile(`^([A-Z])[=!][*!]?> (.*)$`)
	ownRemark  = regexp.MustCompile(`^-- [A-Z] (?:waits for [A-Z](?:, [A-Z])*|goes on)\.$`)
)

// entry is a statement of one window, or a remark of the page.
type entry struct{ window, text string }

// parseSession reads what is typed. What is printed is left out: it comes out again.
func parseSession(block string) ([]entry, error) {
	var entries []entry
	lines := strings.Split(block, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " ")
		if strings.HasPrefix(line, "-- ") && !ownRemark.MatchString(line) {
			entries = append(entries, entry{text: line})
		}
		typed := promptLine.FindStringSubmatch(line)
		if typed == nil {
			continue
		}
		indent := strings.Repeat(" ", len(line)-len(typed[2]))
		statement := typed[2]
		for !strings.HasSuffix(statement, ";") {
			if i++; i == len(lines) || !strings.HasPrefix(lines[i], indent) {
				return nil, fmt.Errorf("the statement %q has no semicolon, or a line of it is not indented by its prompt", statement)
			}
			statement += "\n" + strings.TrimRight(strings.TrimPrefix(lines[i], indent), " ")
		}
		if strings.Count(statement, ";") > 1 {
			return nil, fmt.Errorf("%q is more than one statement: give each a prompt of its own", statement)
		}
		entries = append(entries, entry{typed[1], statement})
	}
	if !slices.ContainsFunc(entries, func(e entry) bool { return e.window != "" }) {
		return nil, errors.New("nobody types anything")
	}
	return entries, nil
}

// stage has the windows of one page. They stay open from one session to the next, as a reader's do.
type stage struct {
	open    func(ctx context.Context, name string) (*window, error)
	waitsOn func(ctx context.Context, pids []uint32) ([][]uint32, error) // the server's pg_blocking_pids
	windows map[string]*window
	running []string // windows whose statement has not finished, in alphabetical order
	waiting []string // those of them that the page knows of
}

// play types a session and returns it with what is printed.
func (s *stage) play(ctx context.Context, entries []entry) (string, error) {
	var page strings.Builder
	for _, e := range entries {
		if e.window == "" {
			page.WriteString(e.text + "\n")
			continue
		}
		text, err := s.enter(ctx, e)
		if err != nil {
			return "", fmt.Errorf("window %s, %q: %w", e.window, e.text, err)
		}
		page.WriteString(text)
	}
	if len(s.running) > 0 {
		return "", fmt.Errorf("the session ends while these windows wait: %v", s.running)
	}
	for name, w := range s.windows {
		if w.at != name+"=> " {
			return "", fmt.Errorf("the session ends while window %s is in a transaction", name)
		}
	}
	return strings.TrimRight(page.String(), "\n") + "\n", nil
}

// enter types one statement, waits until every window either has finished or waits for another one, and returns what is
// to be seen on the page.
func (s *stage) enter(ctx context.Context, e entry) (string, error) {
	w, ok := s.windows[e.window]
	if !ok {
		var err error
		if w, err = s.open(ctx, e.window); err != nil {
			return "", err
		}
		s.windows[e.window] = w
	}
	if slices.Contains(s.running, e.window) {
		return "", errors.New("this window still waits and takes no statement")
	}
	text := w.at + strings.ReplaceAll(e.text, "\n", "\n"+strings.Repeat(" ", len(w.at))) + "\n"
	if err := w.start(ctx, e.text); err != nil {
		return "", err
	}
	s.running = append(s.running, e.window)
	slices.Sort(s.running)
	printed, blockers, err := s.await(ctx)
	if err != nil {
		return "", err
	}
	if own, finished := printed[e.window]; finished {
		text += own
	} else {
		text += fmt.Sprintf("-- %s waits for %s.\n", e.window, blockers[e.window])
	}
	for _, name := range s.waiting {
		if after, finished := printed[name]; finished {
			text += fmt.Sprintf("-- %s goes on.\n", name) + after
		}
	}
	s.waiting = slices.Clone(s.running)
	return text, nil
}

const (
	lookEvery = 2 * time.Millisecond
	patience  = 30 * time.Second
)

// await returns when no window runs any more: each has finished, or waits for another one. The server says who waits,
// and says so twice: a lock that changes hands can be seen as held for a moment.
func (s *stage) await(ctx context.Context) (printed, blockers map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	printed = map[string]string{}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	seen := ""
	for {
		for _, name := range slices.Clone(s.running) {
			text, finished, err := s.windows[name].output()
			if err != nil {
				return nil, nil, err
			}
			if finished {
				printed[name] = text
				s.running = slices.DeleteFunc(s.running, func(l string) bool { return l == name })
			}
		}
		if blockers, err = s.blockers(ctx); err != nil {
			return nil, nil, err
		}
		if now := fmt.Sprint(s.running, blockers); len(blockers) < len(s.running) {
			seen = ""
		} else if seen == now || len(s.running) == 0 {
			return printed, blockers, nil
		} else {
			seen = now
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("%v neither finish nor wait for a lock: %w", s.running, ctx.Err())
		}
	}
}

// blockers names, for each window that waits, the windows that it waits for.
func (s *stage) blockers(ctx context.Context) (map[string]string, error) {
	if len(s.running) == 0 {
		return nil, nil
	}
	windowOf := map[uint32]string{}
	for name, w := range s.windows {
		windowOf[w.pid] = name
	}
	var pids []uint32
	for _, name := range s.running {
		pids = append(pids, s.windows[name].pid)
	}
	all, err := s.waitsOn(ctx, pids)
	if err != nil {
		return nil, fmt.Errorf("ask who waits: %w", err)
	}
	waits := map[string]string{}
	for i, name := range s.running {
		var others []string
		for _, pid := range all[i] {
			if windowOf[pid] == "" {
				return nil, fmt.Errorf("window %s waits for process %d, which is no window", name, pid)
			}
			others = append(others, windowOf[pid])
		}
		slices.Sort(others)
		if len(others) > 0 {
			waits[name] = strings.Join(slices.Compact(others), ", ")
		}
	}
	return waits, nil
}
